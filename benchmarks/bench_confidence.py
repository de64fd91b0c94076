"""Calibration of entities on test data, and active learning on BTC, nothing tuned."""

import warnings
from copy import deepcopy

import numpy as np
from _common import Clock, arguments, table

from _chunking import chunking_data  # isort: skip
from _entities import entity_data  # isort: skip
from sklearn.exceptions import ConvergenceWarning

from sksstruct import CalibratedTagger, ChainCRF
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.metrics import chunk_f1_score, iter_chunks

args = arguments(__doc__, quick="leave out CoNLL-2000 and active learning")
warnings.simplefilter("ignore", ConvergenceWarning)


def read(name):
    """Features and labels for training and for tests."""
    if name == "CoNLL-2000":
        parts = [chunking_data(part, args.data_home) for part in ("train", "test")]
    else:
        parts = [entity_data("btc", part, args.data_home) for part in ("train", "test")]
    vectorizer = SequenceVectorizer().fit(parts[0][0])
    return [each for X, y in parts for each in (vectorizer.transform(X), y)]


def error(shares, right, n_bins=10):
    """Expected calibration error: mean of |share of right ones - mean probability|."""
    bins = np.minimum((shares * n_bins).astype(int), n_bins - 1)
    return np.abs(np.bincount(bins, shares - right)).sum() / len(shares)


def rows(data):
    """A row for each tagger."""
    X, y, X_test, y_test = data
    true = [set(iter_chunks(labels)) for labels in y_test]
    hinge = CalibratedTagger(ChainCRF(random_state=0)).fit(X, y)
    as_is = deepcopy(hinge)
    as_is.estimator_._temperature = 1.0
    log = ChainCRF(loss="log", random_state=0).fit(X, y)
    both = CalibratedTagger(ChainCRF(loss="log", random_state=0)).fit(X, y)
    taggers = {"hinge, scores as they are": as_is, "hinge, calibrated": hinge}
    taggers |= {"likelihood": log, "likelihood, calibrated": both}
    for name, tagger in taggers.items():
        with Clock() as clock:
            found = tagger.predict_entities(X_test)
        entities = [
            (p, (kind, start, stop) in chunks)
            for row, chunks in zip(found, true, strict=True)
            for start, stop, kind, p in row
        ]
        labels = np.vstack(tagger.predict_proba(X_test))
        right = tagger.classes_[labels.argmax(axis=1)] == np.concatenate(y_test)
        log_proba = tagger.log_proba(X_test, y_test)
        yield [
            name,
            f"{error(*np.array(entities, dtype=float).T):.3f}",
            f"{error(labels.max(axis=1), right):.3f}",
            f"{log_proba[np.isfinite(log_proba)].mean():.2f}",
            f"{1e7 * clock.seconds / len(labels):.1f}",
        ]


def learn(data, how, seed, n_rounds=10, n_added=200):
    """F1 after each round of labeling, with the number of labeled tokens."""
    X, y, X_test, y_test = data
    order = np.random.RandomState(seed).permutation(len(X))
    labeled, rest = order[:n_added], order[n_added:]
    for _ in range(n_rounds):
        tagger = ChainCRF(loss="log", random_state=0)
        tagger.fit(X.take(labeled), [y[i] for i in labeled])
        f1 = chunk_f1_score(y_test, tagger.predict(X_test))
        yield f"{X.lengths[labeled].sum()}: {100 * f1:.1f}"
        if how == "entropy":
            entropy = tagger.entropy(X.take(rest)) / np.maximum(X.lengths[rest], 1)
            rest = rest[np.argsort(-entropy, kind="stable")]
        labeled, rest = np.append(labeled, rest[:n_added]), rest[n_added:]


header = ["tagger", "entities", "labels", "log-probability", "ms for 10,000 tokens"]
for name in ["BTC"] if args.quick else ["CoNLL-2000", "BTC"]:
    table(f"{name}: expected calibration error", header, rows(read(name)))
if not args.quick:
    data = read("BTC")
    for seed in range(2):
        for how in ("random", "entropy"):
            print(seed, how, *learn(data, how, seed))
