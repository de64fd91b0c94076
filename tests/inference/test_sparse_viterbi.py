"""Chains with sparse transitions against the same ones written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from sksstruct.inference import viterbi

SCORES = st.sampled_from([-np.inf, -1.0, -0.5, 0.0, 0.5, 1.0])


@st.composite
def chains(draw):
    size, K = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    unary = np.array([[draw(SCORES) for _ in range(K)] for _ in range(size)])
    place = st.tuples(st.integers(0, K - 1), st.integers(0, K - 1))
    table = draw(st.dictionaries(place, SCORES, max_size=K * K))
    rows, columns = (np.array([k[i] for k in table], dtype=int) for i in range(2))
    pairwise = sparse.csr_array(
        sparse.coo_array((list(table.values()), (rows, columns)), (K, K))
    )
    return unary, pairwise


@given(chains())
def test_the_same_labeling_as_with_the_whole_table(problem):
    unary, pairwise = problem
    labeling, score = viterbi(unary, pairwise)
    expected, best = viterbi(unary, pairwise.toarray())
    assert score == best
    if best > -np.inf:
        np.testing.assert_array_equal(labeling, expected)


def test_larger_tables():
    rng = np.random.RandomState(0)
    pairwise = sparse.random_array((60, 60), density=0.2, rng=rng, format="csr")
    pairwise.data[:] = rng.standard_normal(pairwise.nnz)
    for _ in range(20):
        unary = rng.standard_normal((12, 60))
        labeling, score = viterbi(unary, pairwise)
        expected, best = viterbi(unary, pairwise.toarray())
        np.testing.assert_array_equal(labeling, expected)
        assert score == best


def test_bad_tables():
    with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
        viterbi(np.zeros((2, 3)), sparse.csr_array((2, 2)))
    with pytest.raises(ValueError, match="NaN"):
        viterbi(np.zeros((2, 1)), sparse.csr_array([[np.nan]]))
