"""`ChainCRF.cast`: weights, and predictions, in single precision."""

import pickle

import numpy as np
import pytest
from reference import best_by_tie_rule, enumerate_chain
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sksstruct import ChainCRF
from sksstruct.datasets import make_chain
from sksstruct.solvers import BCFW

# no ties for rounding to decide
PLAIN = BCFW.as_published(sampling="permutation", max_iter=10)


def tagger_with_integers(seed, n_classes, n_features):
    """A tagger of which all scores are small integers: ties, and no rounding."""
    rng = np.random.RandomState(seed)
    X = [np.zeros((n_classes, n_features))]
    tagger = ChainCRF(0.9, tol=0.9).fit(X, [np.arange(n_classes)])
    tagger.coef_ = rng.randint(-2, 3, size=(n_classes, n_features)).astype(float)
    tagger.transitions_ = rng.randint(-2, 3, size=(n_classes,) * 2).astype(float)
    for name in ("intercept_", "start_", "end_"):
        setattr(tagger, name, rng.randint(-1, 2, size=n_classes).astype(float))
    return tagger


def sequences(seed, n_features, lengths):
    rng = np.random.RandomState(seed)
    rows = [rng.randint(-2, 3, size=(n, n_features)) for n in lengths]
    # some rows are empty
    return [np.where(rng.rand(*row.shape) < 0.2, row, 0).astype(float) for row in rows]


def in_form(X, form, dtype):
    return [form(rows.astype(dtype)) for rows in X]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 8, 13, 22, 32, 33, 60])
def test_same_as_in_double_precision(n_classes, form, dtype):
    tagger = tagger_with_integers(n_classes, n_classes, 7)
    X = in_form(sequences(1, 7, [1, 2, 9, 1, 30]), form, dtype)
    expected, scores = tagger.predict(X), tagger.decision_function(X)
    assert tagger.cast(np.float32).coef_.dtype == np.float32
    for labels, rows in zip(tagger.predict(X), expected, strict=True):
        np.testing.assert_array_equal(labels, rows)
    np.testing.assert_array_equal(tagger.decision_function(X), scores)


@pytest.mark.parametrize("seed", range(20))
def test_best_of_all_labelings(seed):
    n_classes = 2 + seed % 3
    tagger = tagger_with_integers(seed, n_classes, 3).cast("float32")
    X = sequences(seed, 3, [1, 2, 4, 5])
    predicted, scores = tagger.predict(X), tagger.decision_function(X)
    for rows, labels, score in zip(X, predicted, scores, strict=True):
        unary = rows @ tagger.coef_.T.astype(float) + tagger.intercept_
        unary[0] += tagger.start_
        unary[-1] += tagger.end_
        labelings, values = enumerate_chain(unary, tagger.transitions_)
        assert labels.tolist() == list(best_by_tie_rule(labelings, values))
        assert score == values.max()


@pytest.mark.parametrize("n_classes", [3, 9, 20])
def test_constraints(n_classes):
    tagger = tagger_with_integers(n_classes, n_classes, 4)
    X = sequences(3, 4, [1, 3, 6, 12])
    rng = np.random.RandomState(0)
    constraints = {
        "known": [None, [None, 2, None], *[[None] * n for n in (6, 12)]],
        "excluded": [[{0}], None, [None, {1}] * 3, [set(range(2)), None] * 6],
        "forbidden_transitions": [
            (None, 0),
            (2, None),
            *(tuple(int(a) for a in rng.randint(n_classes, size=2)) for _ in range(2)),
        ],
    }
    expected = tagger.predict(X, **constraints)
    tagger.cast(np.float32)
    for labels, rows in zip(tagger.predict(X, **constraints), expected, strict=True):
        np.testing.assert_array_equal(labels, rows)
    nothing = {"excluded": [None] * 3 + [[None] * 11 + [range(n_classes)]]}
    with pytest.raises(ValueError, match=r"X\[3\]: the constraints leave no labeling"):
        tagger.predict(X, **nothing)


def test_scores_that_are_too_large():
    tagger = tagger_with_integers(0, 3, 2)
    tagger.coef_ = tagger.coef_ + 1e30
    X = [np.zeros((2, 2)), np.full((2, 2), 1e20)]
    tagger.predict(X)
    tagger.cast(np.float32)
    with pytest.raises(ValueError, match=r"X\[1\]: its scores are too large"):
        tagger.predict(X)


def test_cast_and_back():
    data = make_chain(random_state=0)
    tagger = ChainCRF(loss="log").fit(data.X, data.y)
    coef, proba = tagger.coef_.copy(), tagger.predict_proba(data.X)
    labels = tagger.predict(data.X)
    assert tagger.cast(np.float64).coef_ is tagger.coef_
    assert tagger.cast(np.float32) is tagger
    np.testing.assert_array_equal(tagger.coef_, coef.astype(np.float32))
    assert tagger.score(data.X, labels) > 0.999
    # what is not only decoding computes in double precision
    for before, now in zip(proba, tagger.predict_proba(data.X), strict=True):
        np.testing.assert_allclose(now, before, atol=1e-5)
    _, scores = tagger.predict_topk(data.X, 2)
    found = [row[0] for row in scores]
    np.testing.assert_allclose(tagger.decision_function(data.X), found, rtol=1e-5)
    assert tagger.cast("float64").coef_.dtype == np.float64
    np.testing.assert_array_equal(tagger.coef_, coef.astype(np.float32))


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_pickles_and_threads(n_jobs):
    data = make_chain(random_state=0)
    tagger = ChainCRF(n_jobs=n_jobs, random_state=0).fit(data.X, data.y)
    double = len(pickle.dumps(tagger.coef_))
    expected = tagger.cast(np.float32).predict(data.X)
    assert len(pickle.dumps(tagger.coef_)) < double
    twin = pickle.loads(pickle.dumps(tagger))
    assert twin.coef_.dtype == np.float32
    for labels, rows in zip(twin.predict(data.X), expected, strict=True):
        np.testing.assert_array_equal(labels, rows)


def test_training_is_in_double_precision():
    data = make_chain(random_state=0)
    tagger = ChainCRF(random_state=0).partial_fit(data.X, data.y, classes=[0, 1, 2])
    tagger.cast(np.float32).partial_fit(data.X, data.y)
    assert tagger.coef_.dtype == np.float64
    assert tagger.cast(np.float32).fit(data.X, data.y).coef_.dtype == np.float64


def test_empty_sequences():
    tagger = tagger_with_integers(0, 3, 2).cast(np.float32)
    X = [np.zeros((0, 2)), np.ones((3, 2)), np.zeros((0, 2))]
    assert [len(labels) for labels in tagger.predict(X)] == [0, 3, 0]
    assert tagger.decision_function(X)[[0, 2]].tolist() == [0, 0]
    assert [len(labels) for labels in tagger.predict(X[:1])] == [0]


def test_sparse_transitions():
    data = make_chain(random_state=0)
    tagger = ChainCRF(solver="gdmm", random_state=0).fit(data.X, data.y)
    assert sparse.issparse(tagger.transitions_)
    expected = tagger.decision_function(data.X)
    np.testing.assert_allclose(
        tagger.cast(np.float32).decision_function(data.X), expected, rtol=1e-5
    )


def test_errors():
    with pytest.raises(NotFittedError):
        ChainCRF().cast(np.float32)
    with pytest.raises(ValueError, match="dtype must be float32 or float64, got 'f2'"):
        tagger_with_integers(0, 2, 2).cast("f2")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss, solver", [("hinge", PLAIN), ("log", "sdca")])
@pytest.mark.parametrize("other", [False, True])
def test_values_that_are_all_one_are_left_out(dtype, loss, solver, other):
    rng = np.random.RandomState(0)
    X = [(rng.uniform(size=(5, 40)) < 0.5).astype(dtype) for _ in range(30)]
    y = [rng.randint(9, size=5) for _ in X]
    # beyond the part of the values that is looked at first, it may be the last one
    X[-1][-1] = 3.0 if other else 1.0
    tagger = ChainCRF(0.01, loss=loss, solver=solver, max_iter=10, random_state=0)
    with pytest.warns(ConvergenceWarning):
        dense = clone(tagger).fit([x + 0.0 for x in X], y)
        packed = clone(tagger).fit([sparse.csr_array(x) for x in X], y)
    # The same steps, but for rounding errors. Pairwise steps with a cache of labelings
    # choose among ties, which rounding decides.
    np.testing.assert_allclose(packed.coef_, dense.coef_, atol=1e-9)
