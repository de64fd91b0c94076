import numpy as np
import pytest
from graphs import forests
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
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


@settings(max_examples=120)
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


@settings(max_examples=120)
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


@pytest.mark.parametrize("smoothing", ["entropy", "l2"])
def test_gradient_is_lipschitz(smoothing):
    """Proposition 2: probabilities change by at most 1 / mu times the change of z.

    The entropy is strongly convex in the norm of sums, whose dual norm is the maximum.
    """
    rng = np.random.RandomState(0)
    norms = (1, np.inf) if smoothing == "entropy" else (2, 2)
    largest = 0.0
    for _ in range(300):
        n_states, mu = rng.randint(2, 6), rng.choice([0.1, 1.0])
        z = 0.3 * rng.normal(size=n_states)
        move = rng.choice([1e-3, 1.0]) * rng.normal(size=n_states)
        u, v = (
            smoothed_max_product(
                at[None], np.zeros((n_states, n_states)), mu, smoothing=smoothing, k=5
            ).nodes[0]
            for at in (z, z + move)
        )
        change = np.linalg.norm(v - u, norms[0])
        ratio = change * mu / np.linalg.norm(move, norms[1])
        assert ratio <= 1 + 1e-6
        largest = max(largest, ratio)
    assert largest > 0.8


@settings(max_examples=100)
@given(chains(), st.sampled_from(["entropy", "l2"]), STRENGTHS, STRENGTHS)
def test_values_of_two_strengths(chain, smoothing, first, second):
    """Propositions 2 and 39: the stronger is above, by up to mu's change times D."""
    unary, pairwise = chain
    tables = list(pairwise) if pairwise.ndim == 3 else pairwise
    pairs = [(t, t + 1) for t in range(len(unary) - 1)]
    scores = Exhaustive(unary, pairs, tables).scores
    if scores.max() == -np.inf:
        return
    m = np.isfinite(scores).sum()
    D = np.log(m) if smoothing == "entropy" else (1 - 1 / m) / 2
    weak, strong = (
        smoothed_max_product(unary, pairwise, mu, smoothing=smoothing, k=len(scores))
        for mu in sorted([first, second])
    )
    change = abs(first - second)
    assert -1e-9 <= strong.value - weak.value <= change * D + 1e-9
    # mu_2 = 0 is the maximum itself
    assert -1e-9 <= weak.value - scores.max() <= min(first, second) * D + 1e-9
    if np.ptp(scores[np.isfinite(scores)]) == 0:
        assert strong.value - weak.value == pytest.approx(change * D, abs=1e-9)


@settings(max_examples=120)
@given(
    hnp.arrays(np.float64, st.integers(1, 7), elements=st.integers(-4, 4)),
    st.sampled_from([0.5, 1.0, 2.0, 3.0, 8.0]),
    st.integers(1, 6),
)
def test_number_of_positive_entries(z, mu, K):
    """Propositions 3 and 4; all sums are exact."""
    ordered = np.append(np.sort(z)[::-1], -np.inf)

    def upper(k):
        return (ordered[:k] - ordered[k]).sum()

    sizes = [
        k
        for k in range(1, len(z) + 1)
        if (ordered[:k] - ordered[k - 1]).sum() < mu <= upper(k)
    ]
    assert len(sizes) == 1
    k = sizes[0]
    u = project_simplex(z / mu)
    assert np.count_nonzero(u > 1e-12) == k
    formula = np.maximum(0.0, (z[:, None] - ordered[:k]).sum(axis=1) / (k * mu) + 1 / k)
    np.testing.assert_allclose(u, formula, atol=1e-12)
    result = smoothed_max_product(
        z[None], np.zeros(2 * z.shape), mu, smoothing="l2", k=K
    )
    assert result.exact == (K >= len(z) or mu <= upper(K))
    if result.exact:
        np.testing.assert_allclose(result.nodes[0], u, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mu": 0.0}, "mu must be positive"),
        ({"mu": 1e-309}, "too large|must be finite or -inf"),
        ({"mu": 1e-309, "edges": [(0, 1)]}, "too large|must be finite or -inf"),
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
