"""Dependency parsing: training time, attachment on held-back sentences, and speed.

The data are the sample of the Penn Treebank with tags of the treebank, of which the
first 3100 sentences train. "words/s" is prediction from features that are there, and
"with features" is from words and tags. Sentences are predicted in one call.

    python benchmarks/bench_parsing.py [--losses hinge] [--alphas 0.01 0.001]
"""

import argparse
import gzip
import os
import time
import warnings

# One thread, as the tables say; set before NumPy loads its BLAS.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sksstruct import SSVMClassifier
from sksstruct.datasets._fetch import get_data_home
from sksstruct.feature_extraction import ArcVectorizer
from sksstruct.metrics import token_accuracy_score
from sksstruct.models import DependencyModel

N_TRAIN = 3100


def read(path):
    """Sentences of (word, tag) pairs, and heads."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        blocks = file.read().strip().split("\n\n")
    rows = [[line.split("\t") for line in block.split("\n")] for block in blocks]
    X = [[(word, tag) for word, tag, _ in sentence] for sentence in rows]
    return X, [np.array([int(head) for *_, head in sentence]) for sentence in rows]


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
    given = parser.parse_args()
    X, y = read(get_data_home(given.data_home) / "treebank" / "dependencies.txt.gz")
    n_crossing = sum(not is_projective(heads) for heads in y)
    print(f"{len(X)} sentences, of which {n_crossing} are not projective")
    # a projective model cannot learn from them
    kept = [i for i in range(N_TRAIN) if is_projective(y[i])]
    sentences, heads = [X[i] for i in kept], [y[i] for i in kept]
    vectorizer = ArcVectorizer(min_count=given.min_count)
    start = time.process_time()
    vectorizer.fit(sentences, None if given.all_arcs else heads)
    learned = time.process_time()
    train = vectorizer.transform(sentences), heads
    done = time.process_time()
    test = vectorizer.transform(X[N_TRAIN:]), y[N_TRAIN:]
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
