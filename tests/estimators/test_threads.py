"""One fitted estimator answers many threads at once, as it answers one."""

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from sksstruct import (
    CalibratedTagger,
    ChainCRF,
    MultilabelPairwise,
    SegmentCRF,
    Tagger,
    make_tagger,
)
from sksstruct.feature_extraction import (
    ColumnFeatures,
    SequenceHasher,
    SequenceVectorizer,
)
from sksstruct.models import ELUScore
from sksstruct.solvers import ProxLinear

N_THREADS, N_ROUNDS = 8, 6
LABELS = "B-X", "I-X", "O"


def sentences(seed, n=12):
    """Words of sentences, and labels that follow from them but for the noise."""
    rng = np.random.RandomState(seed)
    words = [
        [f"w{k}" for k in rng.randint(9, size=rng.randint(1, 9))] for _ in range(n)
    ]
    y = [[LABELS[(int(w[1:]) + (rng.rand() < 0.2)) % 3] for w in row] for row in words]
    return [[{"w": w, "a": 1.0} for w in row] for row in words], y


def rows(X):
    return [np.array([[int(t["w"][1:]) % 3, 1.0] for t in x]) for x in X]


CRF = {"loss": "log", "random_state": 0}
TAGGERS = {
    "vectorizer": lambda: make_tagger(**CRF),
    "hasher": lambda: make_tagger(SequenceHasher(n_features=2**10), **CRF),
    "columns": lambda: make_tagger(ColumnFeatures(), SequenceVectorizer(), **CRF),
    "second order": lambda: make_tagger(order=2, transition_features="w", **CRF),
    "by label": lambda: make_tagger(risk="hamming", **CRF),
    "two threads of its own": lambda: make_tagger(n_jobs=2, **CRF),
    "calibrated": lambda: CalibratedTagger(FrozenEstimator(make_tagger())),
    "network": lambda: ChainCRF(
        score_function=ELUScore(4), solver=ProxLinear(5), random_state=0
    ),
    "segments": lambda: Tagger(
        make_pipeline(SequenceVectorizer(), SegmentCRF(max_length=8, **CRF)).steps
    ),
}
METHODS = {
    "predict": {},
    "decision_function": {},
    "predict_topk": {"k": 2},
    "predict_proba": {},
    "predict_marginals": {},
    "predict_entities": {},
    "predict_segments": {},
    "entropy": {"positions": True},
}


def fitted(name):
    """A fitted tagger that has not answered yet, and the form of its input."""
    X, y = sentences(0, 40)
    tagger, form = TAGGERS[name](), list
    if name == "columns":
        form = lambda X: [[t["w"] for t in x] for x in X]  # noqa: E731
    elif name == "network":
        form = rows
    elif name == "calibrated":
        tagger.estimator.estimator.fit(X[:20], y[:20])
    with np.errstate(over="ignore"):
        return pickle.dumps(tagger.fit(form(X), y)), form


def plain(value):
    """What can be compared: arrays within lists become lists."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def answers(tagger, X, y):
    """All that a tagger says of sentences."""
    found = {}
    for name, given in METHODS.items():
        if hasattr(tagger, name):
            try:
                found[name] = plain(getattr(tagger, name)(X, **given))
            except ValueError as error:  # entities of the second order
                found[name] = str(error)
    found["score"] = tagger.score(X, y)
    return found


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", TAGGERS)
def test_threads_get_the_answers_of_one_thread(name, monkeypatch):
    """Of an object that was just read, so that nothing has been prepared."""
    text, form = fitted(name)
    parts = [sentences(seed) for seed in range(1, 1 + N_THREADS)]
    parts = [(form(X), y) for X, y in parts]
    alone = [answers(pickle.loads(text), *part) for part in parts]
    assert all(one["predict"] != alone[0]["predict"] for one in alone[1:])
    assert len(alone[0]) >= (4 if name == "network" else 6)
    shared, barrier = pickle.loads(text), Barrier(N_THREADS)

    def run(k):
        barrier.wait()
        return [answers(shared, *parts[k]) for _ in range(N_ROUNDS)]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(N_THREADS) as pool:
            together = list(pool.map(run, range(N_THREADS)))
    finally:
        sys.setswitchinterval(interval)
    for one, rounds in zip(alone, together, strict=True):
        for found in rounds:
            assert found == one


def test_threads_with_constraints():
    """What one thread knows is not known in another one."""
    text, _ = fitted("vectorizer")
    tagger, (X, _) = pickle.loads(text), sentences(1)

    def run(k):
        label = LABELS[k % 3]
        known = [[label] + [None] * (len(x) - 1) for x in X]
        return [
            {row[0] for row in tagger.predict(X, known=known)} == {label}
            for _ in range(20)
        ]

    with ThreadPoolExecutor(N_THREADS) as pool:
        assert all(all(rounds) for rounds in pool.map(run, range(N_THREADS)))


def test_threads_and_label_sets():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(80, 4))
    Y = (X @ rng.normal(size=(4, 3)) > 0.3).astype(int)
    classifier = MultilabelPairwise(loss="log", random_state=0).fit(X, Y)
    methods = classifier.predict, classifier.predict_proba, classifier.decision_function
    parts = np.array_split(X, N_THREADS)
    alone = [[method(part).tolist() for method in methods] for part in parts]

    def run(k):
        return [[m(parts[k]).tolist() for m in methods] for _ in range(N_ROUNDS)]

    with ThreadPoolExecutor(N_THREADS) as pool:
        for one, rounds in zip(alone, pool.map(run, range(N_THREADS)), strict=True):
            assert rounds == [one] * N_ROUNDS
