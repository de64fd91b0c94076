"""Chains of first and of second order: accuracy and CPU seconds, hinge and likelihood.

Parts of speech of the treebank (45 labels) and chunks of CoNLL-2000 (22 labels). The
first column of scores is that of the test sets: accuracy, or F1 of chunks.
"""

import _common
import numpy as np
from _chunking import chunking_data
from bench_search import parts_of_speech

from sksstruct import ChainCRF
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.metrics import chunk_f1_scorer


def problems(data_home):
    """Name, training and test data, and scorer of each set."""
    yield "treebank", *parts_of_speech(data_home), ChainCRF.score
    parts = [chunking_data(part, data_home) for part in ("train", "test")]
    yield "conll2000", *parts, chunk_f1_scorer


def rows(data_home, every):
    for name, (X, y), (X_test, y_test), score in problems(data_home):
        vectorizer = SequenceVectorizer(dtype=np.float32).fit(X)
        X, X_test = vectorizer.transform(X), vectorizer.transform(X_test)
        for loss in ("hinge", "log"):
            for order in (1, 2):
                model = ChainCRF(
                    loss=loss, order=order, random_state=0,
                    all_possible_triples=every,
                )  # fmt: skip
                with _common.Clock() as fit:
                    model.fit(X, y)
                with _common.Clock() as tag:
                    model.predict(X_test)
                yield {
                    "data": name,
                    "loss": loss,
                    "order": order,
                    "score": f"{100 * score(model, X_test, y_test):.2f}",
                    "fit s": f"{fit.seconds:.2f}",
                    "tag s": f"{tag.seconds:.3f}",
                    "iterations": model.n_iter_,
                    "objective": f"{model.objective_:.6f}",
                    "triples": model.triples_.nnz if order == 2 else 0,
                }


def main():
    args = _common.arguments(__doc__, every="weights of all triples")
    _common.live_table("Order of the chain", rows(args.data_home, args.every))


if __name__ == "__main__":
    main()
