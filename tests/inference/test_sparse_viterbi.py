"""Chains with sparse transitions against the same ones written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sksstruct.inference.chains._pair_index import PairIndex
from sksstruct.inference.chains._sparse_viterbi import SparseTransitions

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


@given(chains(), st.data())
def test_scores_that_change(problem, data):
    unary, pairwise = problem
    K = unary.shape[1]
    scores = SparseTransitions.of_table(pairwise)
    table = pairwise.toarray()
    for _ in range(data.draw(st.integers(1, 8))):
        place = st.integers(0, K - 1)
        first, second = data.draw(place), data.draw(place)
        table[first, second] = value = data.draw(SCORES)
        pairs = [np.array([k], dtype=np.int32) for k in (first, second)]
        scores.set(scores.pairs.extend(*pairs)[0], value)
        labeling, score = scores.viterbi(unary)
        expected, best = viterbi(unary, table)
        assert score == best
        if best > -np.inf:
            np.testing.assert_array_equal(labeling, expected)


def test_many_scores_that_change():
    rng = np.random.RandomState(0)
    K = 70
    index, table = PairIndex(K), np.zeros((K, K))
    scores = SparseTransitions(index)
    for _ in range(60):
        first, second = rng.randint(K, size=(2, 40)).astype(np.int32)
        for pair, a, b in zip(index.extend(first, second), first, second, strict=True):
            table[a, b] = rng.choice([-np.inf, -1.0, 0.0, 0.25]) * (1 + rng.randint(8))
            table[a, b] = 0.0 if np.isnan(table[a, b]) else table[a, b]
            scores.set(pair, table[a, b])
        unary = rng.randint(-8, 8, size=(9, K)) / 4.0
        labeling, score = scores.viterbi(unary)
        expected, best = viterbi(unary, table)
        assert score == best
        np.testing.assert_array_equal(labeling, expected)


def test_numbers_of_pairs():
    index = PairIndex(50)
    rng = np.random.RandomState(0)
    first, second = rng.randint(50, size=(2, 3000)).astype(np.int32)
    numbers = index.extend(first, second)
    # those of the same pairs are the same
    keys = first.astype(int) * 50 + second
    _, arrival = np.unique(keys, return_index=True)
    assert index.n_pairs == len(arrival) == numbers.max() + 1
    np.testing.assert_array_equal(np.sort(numbers[arrival]), np.arange(len(arrival)))
    one, other = index.pairs()
    np.testing.assert_array_equal(one[numbers], first)
    np.testing.assert_array_equal(other[numbers], second)
    with pytest.raises(ValueError, match="0 labels"):
        PairIndex(0)
