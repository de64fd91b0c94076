"""The choice of alpha: `SSVMPathCV` beside `GridSearchCV`, with the same three folds.

Both begin with the same features, and their times include the training on all data.
The scores are those of the test sets: F1 of chunks, or accuracy.
"""

import gzip
import os
import time
import warnings
from pathlib import Path

import _common
import numpy as np
from _chunking import chunking_data
from _entities import SETS, entity_data, entity_features
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import GridSearchCV

from sksstruct import ChainCRF, SSVMPathCV
from sksstruct.datasets import fetch_ocr_letters
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.metrics import chunk_f1_scorer

# Ten values, a factor of two apart.
ALPHAS = 0.32 * 0.5 ** np.arange(10)


def biomedical(name, data_home):
    """Training and development part together, and the test part."""
    parts = [
        entity_data(f"{name}_iobes", part, data_home, "bio")
        for part in ("train", "devel", "test")
    ]
    train = [a + b for a, b in zip(*parts[:2], strict=True)]
    return train, parts[2]


def parts_of_speech(data_home):
    """The first 3100 sentences of the treebank, and the others."""
    path = Path(data_home) / "treebank" / "treebank_pos.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        blocks = file.read().strip().split("\n\n")
    rows = [[line.split() for line in block.split("\n")] for block in blocks]
    X = [entity_features([word for word, _ in row]) for row in rows]
    y = [[tag for _, tag in row] for row in rows]
    return (X[:3100], y[:3100]), (X[3100:], y[3100:])


def problems(data_home):
    """Name, features and labels for training and test, and the scorer of each set."""
    text = {name: lambda n=name: [entity_data(n, part, data_home)
                                  for part in ("train", "test")]
            for name in SETS}  # fmt: skip
    for name in ("ncbi_disease", "bc2gm"):
        text[name] = lambda n=name: biomedical(n, data_home)
    text["conll2000"] = lambda: [
        chunking_data(part, data_home) for part in ("train", "test")
    ]
    text["treebank"] = lambda: parts_of_speech(data_home)
    for name, load in text.items():
        (X, y), (X_test, y_test) = load()
        vectorizer = SequenceVectorizer(dtype=np.float32).fit(X)
        scoring = None if name == "treebank" else chunk_f1_scorer
        rows = vectorizer.transform(X), vectorizer.transform(X_test)
        yield name, rows[0], y, rows[1], y_test, scoring
    train, test = (
        fetch_ocr_letters(part, data_home=data_home) for part in ("fold0", "rest")
    )
    yield "OCR small", train.X, list(train.y), test.X, list(test.y), None


def main():
    args = _common.arguments(__doc__, log="the likelihood", exact="exact paths")
    loss = "log" if args.log else "hinge"
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UndefinedMetricWarning)
    home = args.data_home or os.environ["SKSSTRUCT_DATA"]

    def rows():
        for name, X, y, X_test, y_test, scoring in problems(home):
            default = ChainCRF(loss=loss, random_state=0)
            score = check_scoring(default, scoring)
            row = {"data": name.ljust(12)}
            method = "exact" if args.exact else "grid"
            alphas = ALPHAS / 0.02 * default.fit(X, y).alpha_
            searches = {
                "grid": GridSearchCV(default, {"alpha": alphas}, cv=3, scoring=scoring),
                "path": SSVMPathCV(default, method=method, cv=3, scoring=scoring),
            }
            row["default"] = f"{100 * score(default, X_test, y_test):.2f}"
            seconds = {}
            for kind, search in searches.items():
                started = time.process_time()
                search.fit(X, y)
                seconds[kind] = time.process_time() - started
                best = search.best_estimator_
                row[f"{kind} alpha"] = f"{best.alpha / default.alpha_:.3g}"
                row[kind] = f"{100 * score(best, X_test, y_test):.2f}"
                row[f"{kind} s"] = f"{seconds[kind]:.1f}"
            row["ratio"] = f"{seconds['path'] / seconds['grid']:.2f}"
            yield row

    title = f"Choice of alpha, in units of the default, loss={loss!r}, CPU seconds"
    _common.live_table(title, rows())


if __name__ == "__main__":
    main()
