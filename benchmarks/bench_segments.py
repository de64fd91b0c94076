"""Segments against positions: `SegmentModel` beside `ChainCRF` on named entities.

Both see the same attributes of the tokens. The third model also has candidate spans:
the phrases that the other training sentences have as an entity.

    python benchmarks/bench_segments.py [--sets ncbi bc2gm]
"""

import argparse
import time
import warnings
from collections import Counter

import numpy as np
from _entities import entity_data
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, SSVMClassifier
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.metrics import chunk_f1_score, convert_labels, iter_chunks
from sksstruct.models import SegmentModel

# Names of files.
SETS = {"ncbi": "ncbi_disease", "bc2gm": "bc2gm"}
# Longest phrase of the dictionary.
LONGEST = 6


def read(name):
    """Attributes and IOBES labels of training and test sentences."""
    name = f"{SETS[name]}_iobes"
    parts = [
        entity_data(name, part, None, "bio") for part in ("train", "devel", "test")
    ]
    train = [a + b for a, b in zip(*parts[:2], strict=True)]
    return [(X, convert_labels(y, "IOBES")) for X, y in (train, parts[2])]


def phrases(X, y):
    """Words of all entities, with the number of sentences that have them."""
    counts = Counter()
    for rows, labels in zip(X, y, strict=True):
        words = [row["w"] for row in rows]
        counts.update({tuple(words[a:b]) for _, a, b in iter_chunks(labels)})
    return counts


def with_spans(X, rows, counts, y=None):
    """Inputs with the spans that are phrases; of others only, if labels are given."""
    out = []
    for i, (x, sentence) in enumerate(zip(X, rows, strict=True)):
        words, own = [row["w"] for row in sentence], set()
        if y is not None:
            own = {tuple(words[a:b]) for _, a, b in iter_chunks(y[i])}
        spans = [
            (a, b)
            for a in range(len(words))
            for b in range(a + 1, min(a + LONGEST, len(words)) + 1)
            if counts[tuple(words[a:b])] > (tuple(words[a:b]) in own)
        ]
        spans = np.array(spans, dtype=np.intp).reshape(-1, 2)
        out.append((x, spans, np.ones((len(spans), 1))))
    return out


def run(name, model, train, test, true):
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*train)
    fitted = time.process_time()
    found = [list(labels) for labels in model.predict(test)]
    done = time.process_time()
    f1 = 100 * chunk_f1_score(true, found)
    print(
        f"{name:30s} {f1:6.2f} {fitted - start:8.2f} {done - fitted:8.2f}", flush=True
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=["ncbi", "bc2gm"])
    for name in parser.parse_args().sets:
        (rows, y), (test_rows, true) = read(name)
        vectorizer = SequenceVectorizer()
        X, test = vectorizer.fit_transform(rows), vectorizer.transform(test_rows)
        print(f"\n{name:30s}     F1    fit s    tag s")
        run("ChainCRF()", ChainCRF(random_state=0), (X, y), test, true)
        counts = phrases(rows, y)
        known = with_spans(X, rows, counts, y)
        known_test = with_spans(test, test_rows, counts)
        for unit in ("position", "segment"):
            segments = SegmentModel(loss_unit=unit)
            model = SSVMClassifier(segments, alpha=0.02, random_state=0)
            run(f"SegmentModel, by {unit}", model, (X, y), test, true)
            run("  with a dictionary", model, (known, y), known_test, true)


if __name__ == "__main__":
    main()
