"""Chains with sparse transitions against the same ones written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from sksstruct.inference import viterbi
from sksstruct.inference.chains._pair_index import PairIndex
from sksstruct.inference.chains._sparse_viterbi import SparseTransitions

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


def broken(indptr=(0, 1, 2, 3), indices=(0, 1, 2), dtype=np.int32):
    """A matrix of ones whose arrays SciPy does not check."""
    matrix = sparse.csr_array((3, 3))
    matrix.indptr, matrix.indices = (np.array(i, dtype) for i in (indptr, indices))
    matrix.data = np.ones(3)
    return matrix


def dictionary(place):
    """A matrix with a key that SciPy does not check."""
    matrix = sparse.dok_array((3, 3))
    matrix._dict = {place: 1.0}
    return matrix


@pytest.mark.parametrize(
    "unary, pairwise, message",
    [
        (np.zeros((2, 3)), sparse.csr_array((2, 2)), r"pairwise must .*\(2, 2\)"),
        (np.zeros((2, 3)), sparse.coo_array(np.ones(3)), r"pairwise must .*\(3,\)"),
        (np.zeros((2, 1)), sparse.csr_array([[np.nan]]), r"pairwise\.data\[0\] .* nan"),
        (np.zeros((2, 1)), sparse.lil_array([[np.inf]]), r"pairwise\.data\[0\] .* inf"),
        (np.zeros((2, 3)), broken((0, 10**7, 2, 3)), "pairwise .* indptr"),
        (np.zeros((2, 3)), broken((0, 2, 1, 3)), "indptr decreases after row 1"),
        (np.zeros((2, 3)), broken(indices=(0, 10**8, 2)), "column index 100000000"),
        (np.zeros((2, 3)), broken(indices=(0, -1, 2)), "column index -1"),
        (np.zeros((2, 3)), broken(indices=(0, 2**32 + 1, 2), dtype=np.int64), "42949"),
        (np.zeros((2, 3)), dictionary((3, 0)), "index 3"),
        (np.zeros((0, 3)), sparse.csr_array((3, 3)), r"T >= 1 .* got \(0, 3\)"),
        (np.zeros((3, 0)), sparse.csr_array((0, 0)), r"K >= 1, got \(3, 0\)"),
        (np.zeros(3), sparse.csr_array((3, 3)), r"shape \(T, K\)"),
        (np.full((3, 1), 1e308), sparse.csr_array((1, 1)), "too large"),
        (np.zeros((3, 1)), sparse.csr_array([[-1e308]]), "too large"),
    ],
)
def test_bad_input(unary, pairwise, message):
    with pytest.raises(ValueError, match=message):
        viterbi(unary, pairwise)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
def test_every_format(kind):
    unary = np.array([[1.0, 0.0], [0.0, 0.5], [0.0, 0.0]])
    table = np.array([[-1.0, 0.0], [0.25, -np.inf]])
    labeling, score = viterbi(unary, sparse.coo_array(table).asformat(kind))
    assert labeling.tolist() == [0, 1, 0] and score == 1.75


def test_pairs_in_any_order_and_of_several_parts():
    # 0.75 for (1, 0) from two parts, and columns in descending order
    pairwise = sparse.csr_array(
        (np.array([1.0, 0.5, 0.5, 0.25]), np.array([1, 0, 0, 0]), np.array([0, 2, 4])),
        (2, 2),
    )
    before = pairwise.data.copy()
    for table in (pairwise, pairwise.tocoo()):
        labeling, score = viterbi([[0.0, 0.5], [0.0, 0.0]], table)
        assert labeling.tolist() == [1, 0] and score == 1.25
    # which stay what they were
    np.testing.assert_array_equal(pairwise.data, before)


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


@pytest.mark.parametrize("K", [64, 70, 150])
def test_many_scores_that_change(K):
    rng = np.random.RandomState(0)
    index, table = PairIndex(K), np.zeros((K, K))
    scores = SparseTransitions(index)
    for _ in range(60):
        first, second = rng.randint(K, size=(2, 40)).astype(np.int32)
        for pair, a, b in zip(index.extend(first, second), first, second, strict=True):
            table[a, b] = rng.choice([-np.inf, -1.0, 0.0, 0.25]) * (1 + rng.randint(8))
            table[a, b] = 0.0 if np.isnan(table[a, b]) else table[a, b]
            scores.set(pair, table[a, b])
        # equal scores in many places, and few labels that are allowed
        unary = rng.randint(-8, 8, size=(9, K)) / 4.0
        unary[3:6][rng.uniform(size=(3, K)) < 0.95] = -np.inf
        labeling, score = scores.viterbi(unary)
        expected, best = viterbi(unary, table)
        assert score == best
        # a labeling that is forbidden may be any
        if best == -np.inf:
            continue
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
    with pytest.raises(ValueError, match="n_labels must be"):
        PairIndex(0)
