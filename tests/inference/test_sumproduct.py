import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import chains, enumerate_chain
from scipy.special import logsumexp

from sksstruct.inference import forward_backward, sum_product

# Differences that underflow, with and without a way round them.
WILD = st.sampled_from([-np.inf, -2000.0, -400.0, -1.0, 0.0, 1.0, 300.0, 1e5])


def check(unary, pairwise):
    labelings, scores = enumerate_chain(unary, pairwise)
    if scores.max() == -np.inf:
        with pytest.raises(ValueError, match="every labeling is forbidden"):
            forward_backward(unary, pairwise)
        return
    log_partition, nodes, edges = forward_backward(unary, pairwise)
    assert log_partition == pytest.approx(logsumexp(scores), rel=1e-12, abs=1e-12)
    size, n_states = unary.shape
    expected = np.zeros((size, n_states))
    pairs = np.zeros((size - 1, n_states, n_states))
    weights = np.exp(scores - logsumexp(scores))
    for t, labels in enumerate(labelings.T):
        np.add.at(expected[t], labels, weights)
    for t, table in enumerate(pairs):
        np.add.at(table, (labelings[:, t], labelings[:, t + 1]), weights)
    np.testing.assert_allclose(nodes, expected, atol=1e-10)
    np.testing.assert_allclose(edges, pairs, atol=1e-10)


@settings(max_examples=120)
@given(chains())
def test_equals_enumeration(chain):
    check(*chain)


@settings(max_examples=120)
@given(chains(WILD))
def test_scores_of_any_size(chain):
    check(*chain)


@settings(max_examples=120)
@given(chains(st.sampled_from([-np.inf, *range(-500, 1, 20)])))
def test_close_to_underflow(chain):
    """Sizes at which single steps do not underflow, but products of them do."""
    check(*chain)


@pytest.mark.parametrize("stay", [-400.0, -370.5, -250.0])
def test_products_of_small_numbers(stay):
    """What has a number to itself at each step, and a tiny one at that."""
    check(np.array([[0.0, -np.inf]] * 3), np.array([[stay, -np.inf], [-np.inf, 0.0]]))


@pytest.mark.parametrize("scale", [1e12, 1e15, 1e17])
def test_marginals_of_large_scores_sum_to_one(scale):
    rng = np.random.RandomState(0)
    unary, pairwise = scale * rng.normal(size=(50, 3)), scale * rng.normal(size=(3, 3))
    _, nodes, edges = forward_backward(unary, pairwise)
    np.testing.assert_allclose(nodes.sum(axis=1), 1.0)
    np.testing.assert_allclose(edges.sum(axis=(1, 2)), 1.0)
    pairs = [(t, t + 1) for t in range(49)]
    _, nodes, edges = sum_product(unary, pairs, pairwise)
    np.testing.assert_allclose([row.sum() for row in nodes], 1.0)
    np.testing.assert_allclose([table.sum() for table in edges], 1.0)


@pytest.mark.parametrize("n_states", [1, 2, 4, 5, 8, 9, 22, 33, 130])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_all_row_widths(n_states, scale):
    """Against messages in log space."""
    rng = np.random.RandomState(n_states)
    unary = scale * rng.normal(size=(7, n_states))
    pairwise = scale * rng.normal(size=(n_states, n_states))
    ahead, back = [unary[0]], [np.zeros(n_states)]
    for row in unary[1:]:
        ahead.append(logsumexp(ahead[-1][:, None] + pairwise, axis=0) + row)
    for row in unary[:0:-1]:
        back.append(logsumexp(pairwise + row + back[-1], axis=1))
    total = logsumexp(ahead[-1])
    log_partition, nodes, edges = forward_backward(unary, pairwise)
    assert log_partition == pytest.approx(total, rel=1e-13)
    expected = np.exp(np.array(ahead) + np.array(back[::-1]) - total)
    np.testing.assert_allclose(nodes, expected, atol=1e-11)
    np.testing.assert_allclose(edges.sum(axis=2), expected[:-1], atol=1e-11)
    np.testing.assert_allclose(edges.sum(axis=1), expected[1:], atol=1e-11)


@pytest.mark.slow
def test_long_chains_keep_their_digits():
    """Thousands of positions: products of normalizers leave the range of doubles."""
    rng = np.random.RandomState(0)
    unary, pairwise = rng.normal(size=(5000, 3)), rng.normal(size=(3, 3))
    ahead = unary[0]
    for row in unary[1:]:
        ahead = logsumexp(ahead[:, None] + pairwise, axis=0) + row
    log_partition, nodes, _ = forward_backward(unary, pairwise)
    assert log_partition == pytest.approx(logsumexp(ahead), rel=1e-13)
    np.testing.assert_allclose(nodes.sum(axis=1), 1.0, rtol=1e-12)


def test_a_weak_path_that_wins_later():
    """The only way on leads through a state that seemed hopeless, step by step."""
    unary = np.zeros((5, 2))
    pairwise = np.array([[0.0, -np.inf], [-np.inf, -250.0]])
    unary[-1, 0] = -np.inf
    check(unary, pairwise)
    unary[-1, 0] = -1100.0
    check(unary, pairwise)


def test_bad_potentials():
    with pytest.raises(
        ValueError, match=r"unary\[.*\] must be finite or -inf, got nan"
    ):
        forward_backward([[np.nan, 0.0]], np.zeros((2, 2)))
    with pytest.raises(ValueError, match="unary must be an array of numbers"):
        forward_backward([["a", 0.0]], np.zeros((2, 2)))
