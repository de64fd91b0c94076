"""Segments against positions: `SegmentCRF` beside `ChainCRF`.

On named entities, both see the same attributes of the tokens. With a dictionary there
are candidate spans, too: the phrases that other training sentences have as an entity.
On generated time series with known durations, a Gaussian hidden Markov model of
hmmlearn, with the parameters of the labeled training series, is the peer.

    python benchmarks/bench_segments.py [--sets ncbi bc2gm durations]
"""

import argparse
import time
import warnings
from collections import Counter

import numpy as np
from _entities import entity_data
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, SegmentCRF
from sksstruct.datasets import make_segments
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.metrics import chunk_f1_score, convert_labels, iter_chunks

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


def timed(model, train, test):
    """Predictions, and CPU seconds of fit and predict."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*train)
    fitted = time.process_time()
    found = [list(labels) for labels in model.predict(test)]
    return found, fitted - start, time.process_time() - fitted


def run(name, model, train, test, true):
    found, *seconds = timed(model, train, test)
    f1 = 100 * chunk_f1_score(true, found)
    print(f"{name:30s} {f1:6.2f} {seconds[0]:8.2f} {seconds[1]:8.3f}", flush=True)


def entities(name):
    """Named entities: F1 and seconds."""
    (rows, y), (test_rows, true) = read(name)
    vectorizer = SequenceVectorizer()
    X, test = vectorizer.fit_transform(rows), vectorizer.transform(test_rows)
    print(f"\n{name:30s}     F1    fit s    tag s")
    run("ChainCRF()", ChainCRF(random_state=0), (X, y), test, true)
    counts = phrases(rows, y)
    known = with_spans(X, rows, counts, y)
    known_test = with_spans(test, test_rows, counts)
    for unit in ("position", "segment"):
        model = SegmentCRF(loss_unit=unit, random_state=0)
        run(f"SegmentCRF, by {unit}", model, (X, y), test, true)
        run("  with a dictionary", model, (known, y), known_test, true)


class HiddenMarkov:
    """hmmlearn's model with the means and the counts of labeled series."""

    def fit(self, X, y):
        from hmmlearn.hmm import GaussianHMM

        rows, labels = np.concatenate(X), np.concatenate(y)
        n = labels.max() + 1
        counts = np.zeros((n, n))
        for each in y:
            np.add.at(counts, (each[:-1], each[1:]), 1)
        self.model = GaussianHMM(n, covariance_type="full")
        self.model.n_features = rows.shape[1]
        self.model.startprob_ = np.bincount([a[0] for a in y], minlength=n) / len(y)
        self.model.transmat_ = counts / counts.sum(axis=1, keepdims=True)
        self.model.means_ = np.array([rows[labels == k].mean(0) for k in range(n)])
        self.model.covars_ = np.array([np.cov(rows[labels == k].T) for k in range(n)])
        return self

    def predict(self, X):
        return [self.model.predict(x) for x in X]


def durations():
    """Time series: errors of positions, stages found, and seconds."""
    print(f"\n{'noise, its correlation':30s}  error %  stages    fit s    tag s")
    for noise, correlation in ((0.8, 0.8), (1.2, 0.5), (1.5, 0.0)):
        data = make_segments(160, noise=noise, correlation=correlation, random_state=0)
        train, test, true = (data.X[:80], data.y[:80]), data.X[80:], data.y[80:]
        print(f"{noise}, {correlation:<24}     0.00  {n_stages(true):6d}")
        models = {
            "hmmlearn": HiddenMarkov(),
            "ChainCRF()": ChainCRF(random_state=0),
            "ChainCRF(loss='log')": ChainCRF(loss="log", random_state=0),
            "SegmentCRF()": SegmentCRF(random_state=0),
            "SegmentCRF(loss='log')": SegmentCRF(loss="log", random_state=0),
        }
        for name, model in models.items():
            try:
                found, *seconds = timed(model, train, test)
            except ImportError:
                print("hmmlearn is not installed")
                continue
            error = 100 * np.mean(np.concatenate(found) != np.concatenate(true))
            print(
                f"{name:30s}  {error:7.2f}  {n_stages(found):6d} {seconds[0]:8.2f} "
                f"{seconds[1]:8.3f}",
                flush=True,
            )


def n_stages(labelings):
    """Number of runs of equal labels."""
    return sum(int(np.count_nonzero(np.diff(labels))) + 1 for labels in labelings)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=[*SETS, "durations"])
    for name in parser.parse_args().sets:
        durations() if name == "durations" else entities(name)


if __name__ == "__main__":
    main()
