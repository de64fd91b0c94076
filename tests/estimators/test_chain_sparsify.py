"""Weights of a tagger as a sparse matrix."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from sksstruct import ChainCRF
from sksstruct.datasets import make_chain


@pytest.fixture(scope="module")
def tagger():
    data = make_chain(60, n_classes=4, n_features=30, random_state=0)
    tagger = ChainCRF(
        0.05, loss="log", l1_ratio=0.8, tol=1e-4, random_state=0
    ).fit(data.X, data.y)  # fmt: skip
    assert (tagger.coef_ == 0).mean() > 0.3
    return tagger, data


def copy(tagger):
    return pickle.loads(pickle.dumps(tagger))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_predictions_are_the_same(tagger, form):
    dense, data = tagger
    X = [form(x * (np.abs(x) > 0.5)) for x in data.X]
    small = copy(dense).sparsify()
    assert sparse.issparse(small.coef_)
    assert small.coef_.nnz == np.count_nonzero(dense.coef_)
    for one in (small, copy(small)):
        for a, b in zip(one.predict(X), dense.predict(X), strict=True):
            np.testing.assert_array_equal(a, b)
        for a, b in zip(one.predict_proba(X), dense.predict_proba(X), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)
        np.testing.assert_allclose(
            one.decision_function(X), dense.decision_function(X), rtol=1e-12
        )
        assert one.score(X, data.y) == dense.score(X, data.y)
        assert one.state_features_ == dense.state_features_
    np.testing.assert_array_equal(small.densify().coef_, dense.coef_)


def test_further_training(tagger):
    dense, data = tagger
    small = copy(dense).sparsify()
    assert small.sparsify() is small
    np.testing.assert_array_equal(small.fit(data.X, data.y).coef_, dense.coef_)
    hinge = ChainCRF(random_state=0).fit(data.X, data.y)
    batch = copy(hinge).partial_fit(data.X, data.y)
    other = copy(hinge).sparsify().partial_fit(data.X, data.y)
    # weights are rescaled, as alpha is less with more sequences
    np.testing.assert_allclose(batch.coef_, other.coef_, rtol=1e-9)


def test_single_precision(tagger):
    dense, data = tagger
    small = copy(dense).sparsify().cast(np.float32)
    assert small.coef_.dtype == np.float32
    for a, b in zip(small.predict(data.X), dense.predict(data.X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert small.densify().coef_.dtype == np.float32


def test_features_on_pairs():
    data = make_chain(30, n_classes=3, n_features=6, random_state=0)
    X = [(x > 0.5).astype(float) for x in data.X]
    dense = ChainCRF(
        0.01, loss="log", transition_features=[0, 1], random_state=0
    ).fit(X, data.y)  # fmt: skip
    for a, b in zip(copy(dense).sparsify().predict(X), dense.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("chosen", [None, [0, 1, 2]])
def test_threshold_bounds_the_change_of_scores(chosen):
    data = make_chain(30, n_classes=3, n_features=12, random_state=0)
    dense = ChainCRF(
        0.1, loss="log", transition_features=chosen, random_state=0
    ).fit(data.X, data.y)  # fmt: skip
    threshold = float(np.quantile(np.abs(dense.coef_), 0.4))
    small = copy(dense).sparsify(threshold)
    assert small.coef_.nnz == (np.abs(dense.coef_) > threshold).sum()
    # the best scores of all labelings differ by no more than that of any labeling
    change = np.abs(small.decision_function(data.X) - dense.decision_function(data.X))
    bound = np.array([np.abs(x).sum() for x in data.X])
    if chosen:
        assert small.transition_coef_.nnz < dense.transition_coef_.nnz
        bound += [np.abs(x[1:, chosen]).sum() for x in data.X]
    assert 0.0 < change.max() and (change <= threshold * bound).all()
    for name in ("start_", "end_", "intercept_", "transitions_"):
        np.testing.assert_array_equal(vars(small)[name], vars(dense)[name])


@pytest.mark.parametrize("threshold", [-1.0, np.nan, np.inf, "0"])
def test_bad_threshold(tagger, threshold):
    with pytest.raises(ValueError, match="threshold must be finite"):
        copy(tagger[0]).sparsify(threshold)


def test_not_fitted():
    for name in ("sparsify", "densify"):
        with pytest.raises(ValueError, match="not fitted"):
            getattr(ChainCRF(), name)()
