import numpy as np
import pytest
from graphs import forests
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import chains
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

from sksstruct.inference import Exhaustive, smoothed_max_product
from sksstruct.projections import project_simplex

STRENGTHS = st.sampled_from([0.1, 0.5, 1.0, 3.0])


def expected(scores, strength, smoothing, k):
    """Value and weights of all labelings, from the definition."""
    if smoothing == "entropy":
        return strength * logsumexp(scores / strength), None
    order = np.argsort(-scores, kind="stable")[:k]
    order = order[scores[order] > -np.inf]
    u = project_simplex(scores[order] / strength)
    return u @ scores[order] - strength / 2 * (u @ u - 1), u


def check(everything, result, strength, smoothing, k):
    scores = everything.scores
    value, _ = expected(scores, strength, smoothing, k)
    assert result.value == pytest.approx(value, abs=1e-9)
    full, u = expected(scores, strength, smoothing, len(scores))
    if smoothing == "entropy":
        assert result.exact
        return
    # Proposition 4, as it says: enough labelings for all that have a weight
    assert result.exact == (np.count_nonzero(u > 1e-12) <= k)
    assert not result.exact or abs(full - value) < 1e-9


@settings(max_examples=500)
@given(chains(), STRENGTHS, st.sampled_from(["entropy", "l2"]), st.integers(1, 6))
def test_chains(chain, strength, smoothing, k):
    unary, pairwise = chain
    size = len(unary)
    tables = list(pairwise) if pairwise.ndim == 3 else pairwise
    everything = Exhaustive(unary, [(t, t + 1) for t in range(size - 1)], tables)
    arguments = {"smoothing": smoothing, "k": k}
    if everything.scores.max() == -np.inf:
        with pytest.raises(ValueError, match="every labeling is forbidden"):
            smoothed_max_product(unary, pairwise, strength, **arguments)
        return
    result = smoothed_max_product(unary, pairwise, strength, **arguments)
    check(everything, result, strength, smoothing, k)
    np.testing.assert_allclose(result.nodes.sum(axis=1), 1.0)
    np.testing.assert_allclose(result.edges.sum(axis=2), result.nodes[:-1], atol=1e-12)
    np.testing.assert_allclose(result.edges.sum(axis=1), result.nodes[1:], atol=1e-12)


@settings(max_examples=500)
@given(forests(), STRENGTHS, st.sampled_from(["entropy", "l2"]), st.integers(1, 6))
def test_forests(forest, strength, smoothing, k):
    unary, edges, pairwise = forest
    everything = Exhaustive(*forest)
    arguments = {"edges": edges, "smoothing": smoothing, "k": k}
    if everything.scores.max() == -np.inf:
        with pytest.raises(ValueError, match="every labeling is forbidden"):
            smoothed_max_product(unary, pairwise, strength, **arguments)
        return
    result = smoothed_max_product(unary, pairwise, strength, **arguments)
    check(everything, result, strength, smoothing, k)
    for (u, v), table in zip(edges, result.edges, strict=True):
        np.testing.assert_allclose(table.sum(axis=1), result.nodes[u], atol=1e-9)
        np.testing.assert_allclose(table.sum(axis=0), result.nodes[v], atol=1e-9)


@pytest.mark.parametrize("smoothing", ["entropy", "l2"])
@pytest.mark.parametrize("as_tree", [False, True])
def test_gradient(smoothing, as_tree):
    rng = np.random.RandomState(0)
    unary, pairwise = rng.normal(size=(4, 3)), rng.normal(size=(3, 3, 3))
    edges = [(0, 1), (1, 2), (2, 3)] if as_tree else None

    def value(z):
        u, p = z[:12].reshape(4, 3), z[12:].reshape(3, 3, 3)
        arguments = {"edges": edges, "smoothing": smoothing, "k": 81}
        return smoothed_max_product(u, list(p) if as_tree else p, 0.7, **arguments)

    z = np.concatenate([unary.ravel(), pairwise.ravel()])
    result = value(z)
    numeric = approx_fprime(z, lambda z: value(z).value, 1e-7)
    np.testing.assert_allclose(np.ravel(result.nodes), numeric[:12], atol=1e-5)
    np.testing.assert_allclose(np.ravel(result.edges), numeric[12:], atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mu": 0.0}, "mu must be positive"),
        ({"mu": 1e-309}, "too large|NaN or"),
        ({"mu": 1e-309, "edges": [(0, 1)]}, "too large|NaN or"),
        ({"mu": np.inf}, "mu must be positive"),
        ({"mu": "1"}, "mu must be a number"),
        ({"smoothing": "l1"}, "smoothing must be"),
        ({"smoothing": "l2", "k": 0}, "k must be"),
    ],
)
def test_bad_arguments(arguments, message):
    arguments = {"mu": 1.0} | arguments
    with pytest.raises(ValueError, match=message), np.errstate(over="ignore"):
        smoothed_max_product(np.ones((2, 2)), np.zeros((2, 2)), **arguments)


def test_nested_lists():
    unary, table = [[0, 1], [0, 3]], [[5, 0], [0, 0]]
    for smoothing in ("entropy", "l2"):
        one = smoothed_max_product(unary, table, 1.0, smoothing=smoothing)
        two = smoothed_max_product(
            unary, table, 1.0, smoothing=smoothing, edges=[(0, 1)]
        )
        assert one.value == pytest.approx(two.value)
