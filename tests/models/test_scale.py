"""Moments of columns: against NumPy, in any form and in any parts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sksstruct.models.scale import ColumnMoments, centered
from sksstruct.utils._mixed import MixedRows

NAMES = ("mean", "squares", "low", "high", "filled")


def rows(seed, n=40, d=6):
    """Columns of several kinds: few entries, full, constant, zero, of one value."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.3, rng.normal(size=(n, d)), 0.0)
    X[:, 1] = rng.normal(3.0, 1.0, n)
    X[:, 2], X[:, 3] = 7.0, 0.0
    X[:, 4] = rng.random(n) < 0.8
    return X


def mixed(X):
    """Some columns sparse, the others as an array."""
    dense = [1, 2]
    rest = X.copy()
    rest[:, dense] = 0.0
    return MixedRows(sparse.csr_array(rest), X[:, dense], dense)


FORMS = {"array": np.asarray, "csr": sparse.csr_array, "mixed": mixed}


@given(st.integers(0, 10_000), st.sampled_from(sorted(FORMS)), st.integers(1, 39))
@settings(max_examples=40, deadline=None)
def test_moments(seed, form, cut):
    X = rows(seed)
    weight = np.random.default_rng(seed).integers(0, 4, len(X)).astype(float)
    weight[[0, -1]] = 1.0
    repeated = np.repeat(X, weight.astype(int), axis=0)
    found = ColumnMoments.of(FORMS[form](X), weight)
    assert found.total == len(repeated)
    np.testing.assert_allclose(found.mean, repeated.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(
        found.squares / found.total, repeated.var(axis=0), atol=1e-12
    )
    np.testing.assert_array_equal(found.low, repeated.min(axis=0))
    np.testing.assert_array_equal(found.high, repeated.max(axis=0))
    np.testing.assert_allclose(found.filled, np.count_nonzero(repeated, axis=0))
    # a column without a range has no variance, not even by rounding
    assert not found.squares[[2, 3]].any()
    parts = (slice(cut), slice(cut, None))
    one, two = (ColumnMoments.of(FORMS[form](X[k]), weight[k]) for k in parts)
    joined = one.merge(two)
    for name in NAMES:
        np.testing.assert_allclose(
            getattr(joined, name), getattr(found, name), atol=1e-12
        )
    assert joined.mean_square() == pytest.approx(found.mean_square())


@pytest.mark.parametrize("form", FORMS)
def test_centers(form):
    X = rows(0)
    centers = ColumnMoments.of(FORMS[form](X)).centers()
    full = [1, 2, 4] if form == "array" else [1, 2]
    expected = np.where(np.isin(np.arange(6), full), X.mean(axis=0), 0.0)
    np.testing.assert_allclose(centers, expected, rtol=1e-9)
    found = centered(FORMS[form](X), centers)
    found = found if form == "array" else found.toarray()
    np.testing.assert_array_equal(found, X - centers)
    # of an array of few nonzeros, as of a sparse matrix, only full columns
    if form == "array":
        few = np.column_stack([X[:, [0, 3, 4]], np.zeros((len(X), 5)), X[:, 1]])
        centers = ColumnMoments.of(few).centers()
        np.testing.assert_array_equal(np.flatnonzero(centers), [8])
    # a zero that is not stored stays one
    few = X[:, [0, 3]]
    moments = ColumnMoments.of(few if form == "array" else sparse.csr_array(few))
    assert moments.centers() is None
    assert centered(few, None) is few


def test_no_column_decides():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (4000, 10))
    plain = ColumnMoments.of(X).mean_square()
    assert plain == pytest.approx(X.var(axis=0).sum())
    # below the limit a column counts as it is
    X[:, 0] *= 9.0
    assert ColumnMoments.of(X).mean_square() == pytest.approx(X.var(axis=0).sum())
    for factor in (1e2, 1e5):
        X[:, 0] *= factor
        assert ColumnMoments.of(X).mean_square() == pytest.approx(plain, rel=1e-3)
    # of two, the smaller one is what is usual
    two = ColumnMoments.of(X[:, :2]).mean_square()
    assert two == pytest.approx(plain / 5, rel=0.1)
    # rare words are in the units of frequent ones
    shares = 1.0 / np.arange(1, 200)
    words = (rng.random((5000, 199)) < shares).astype(float)
    assert ColumnMoments.of(words).mean_square() == pytest.approx(
        words.var(axis=0).sum()
    )


def test_ends_of_floating_point_numbers():
    X = rows(1)
    with np.errstate(over="raise", invalid="raise"):
        assert ColumnMoments.of(X * 1e200).mean_square() == np.inf
        assert ColumnMoments.of(sparse.csr_array(X) * 1e200).mean_square() == np.inf
    tiny = np.finfo(np.float64).tiny
    assert ColumnMoments.of(X * 1e-200).mean_square() == tiny
    assert ColumnMoments.of(np.zeros((3, 2))).mean_square() == 0.0
    assert ColumnMoments.of(np.full((3, 2), 5.0)).mean_square() == 0.0
    assert ColumnMoments.of(np.zeros((3, 0))).mean_square() == 0.0
    assert ColumnMoments.of(np.zeros((0, 2))).mean_square() == 0.0
    # an offset of a million deviations loses half of the digits
    assert ColumnMoments.of(X + 1e6).mean_square() == pytest.approx(
        ColumnMoments.of(X).mean_square(), rel=1e-6
    )
