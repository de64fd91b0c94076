"""Dependency parsing: training time, attachment on held-back sentences, and speed.

The data are the sample of the Penn Treebank with tags of the treebank, of which the
first 3100 sentences train. "words/s" is prediction from features that are there, and
"with features" is from words and tags. Sentences are predicted in one call.

    python benchmarks/bench_parsing.py [--losses hinge] [--alphas 0.01 0.001]

With ``--greek``, they are the train and test parts of the Greek treebank GDT, and
``--morphology`` uses its column of morphological features.
"""

import argparse
import os
import time
import warnings

# One thread, as the tables say; set before NumPy loads its BLAS.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sksstruct import SSVMClassifier
from sksstruct.datasets import read_conll
from sksstruct.datasets._fetch import get_data_home
from sksstruct.feature_extraction import ArcVectorizer
from sksstruct.metrics import token_accuracy_score
from sksstruct.models import DependencyModel

N_TRAIN = 3100


def read(path, *columns):
    """Sentences of tuples of these columns, and heads, which are the last of them."""
    rows = read_conll(path, separator="\t")
    parts = [[sentence[k] for k in columns] for sentence in rows]
    X = [list(zip(*part[:-1], strict=True)) for part in parts]
    return X, [np.array(list(map(int, part[-1]))) for part in parts]


def parts_of(given):
    """Sentences and heads to train on, and to test."""
    home = get_data_home(given.data_home)
    if given.greek:
        columns = (0, 1, 2, 3) if given.morphology else (0, 1, 3)
        return [read(home / "ud" / f"el_gdt_{part}.txt.gz", *columns)
                for part in ("train", "test")]  # fmt: skip
    X, y = read(home / "treebank" / "dependencies.txt.gz", 0, 1, 2)
    return (X[:N_TRAIN], y[:N_TRAIN]), (X[N_TRAIN:], y[N_TRAIN:])


def is_projective(heads):
    """Whether no two arcs cross."""
    arcs = np.sort(np.stack([heads, np.arange(1, len(heads) + 1)]), axis=0)
    low, high = arcs[:, :, None]
    inside = (low < arcs[0]) & (arcs[0] < high) & (high < arcs[1])
    return not inside.any()


def run(name, model, loss, alpha, train, test, features):
    """Print a row of the table."""
    (X, y), (X_test, true) = train, test
    parser = SSVMClassifier(model, loss=loss, alpha=alpha, random_state=0)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        parser.fit(X, y)
    fitted = time.process_time()
    found = parser.predict(X_test)
    seconds = time.process_time() - fitted
    n_words = sum(map(len, true))
    uas = 100 * token_accuracy_score(true, found)
    print(
        f"{name:16s} {loss:6s} {alpha:<7g} {fitted - start:8.1f} {parser.n_iter_:7d} "
        f"{uas:6.2f} {n_words / seconds:10.0f} {n_words / (seconds + features):14.0f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-home", default=None, help="folder of the data sets")
    parser.add_argument("--alphas", nargs="+", type=float, default=[0.1, 0.01, 1e-3])
    parser.add_argument("--losses", nargs="+", default=["hinge", "log"])
    parser.add_argument("--min-count", type=int, default=1)
    parser.add_argument(
        "--all-arcs", action="store_true", help="features of all arcs in training"
    )
    parser.add_argument("--affixes", nargs="*", type=int, default=[])
    parser.add_argument("--greek", action="store_true", help="the Greek treebank")
    parser.add_argument("--morphology", action="store_true", help="of the Greek one")
    given = parser.parse_args()
    (X, y), (X_test, y_test) = parts_of(given)
    # a projective model cannot learn from the others
    kept = [i for i, heads in enumerate(y) if is_projective(heads)]
    print(f"{len(y) - len(kept)} of {len(y)} trees to train on are not projective")
    sentences, heads = [X[i] for i in kept], [y[i] for i in kept]
    vectorizer = ArcVectorizer(min_count=given.min_count, affixes=given.affixes)
    start = time.process_time()
    vectorizer.fit(sentences, None if given.all_arcs else heads)
    learned = time.process_time()
    train = vectorizer.transform(sentences), heads
    done = time.process_time()
    test = vectorizer.transform(X_test), y_test
    features = time.process_time() - done
    print(
        f"{len(kept)} sentences to train on, {sum(map(len, heads))} words, "
        f"{train[0].values.shape[0]} arcs, {train[0].n_features} features: "
        f"{learned - start:.1f} s to learn, {done - learned:.1f} s to transform"
    )
    print(
        "\ntrees            loss   alpha      fit s  passes    UAS    words/s  "
        "with features"
    )
    for loss in given.losses:
        for name, projective in (("projective", True), ("all", False)):
            for alpha in given.alphas:
                model = DependencyModel(projective)
                run(name, model, loss, alpha, train, test, features)


if __name__ == "__main__":
    main()
