import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize

from sksstruct.projections import project_chain_polytope


def best_vertex(scores):
    """Largest <scores, v> over the local polytope, whose vertices are labelings."""
    best = np.zeros(scores.shape[1])
    for table in scores:
        best = (best[:, None] + table).max(axis=0)
    return best.max()


def is_projection(alpha, m, scale=1.0):
    """In the polytope, and no vertex in the direction of m."""
    assert (alpha >= 0).all()
    # multipliers are sums along the chain, of the size of m
    atol = 1e-12 * max(10.0, scale)
    np.testing.assert_allclose(alpha.sum(axis=(1, 2)), 1.0, atol=atol)
    np.testing.assert_allclose(alpha[:-1].sum(axis=1), alpha[1:].sum(axis=2), atol=atol)
    direction = m - alpha
    allowed = np.isfinite(direction)
    assert not alpha[~allowed].any()
    inner = (np.where(allowed, direction, 0.0) * alpha).sum()
    assert best_vertex(direction) - inner <= 1e-10 * max(1.0, scale)


@settings(max_examples=100)
@given(
    st.tuples(st.integers(1, 6), st.integers(1, 4)).flatmap(
        lambda shape: hnp.arrays(
            np.float64,
            (shape[0], shape[1], shape[1]),
            elements=st.sampled_from([-3.0, -1.0, 0.0, 0.5, 1.0, 4.0]),
        )
    ),
    st.sampled_from([0.01, 1.0, 30.0]),
)
def test_no_vertex_is_better(m, scale):
    is_projection(project_chain_polytope(scale * m), scale * m, max(1.0, scale))


@pytest.mark.parametrize("seed", range(4))
def test_general_solver(seed):
    rng = np.random.RandomState(seed)
    m = rng.normal(size=(3, 2, 2))
    rows = []
    for t in range(3):
        row = np.zeros(m.shape)
        row[t] = 1.0
        rows.append((row.ravel(), 1.0))
    for t in range(2):
        for j in range(2):
            row = np.zeros(m.shape)
            row[t, :, j] = 1.0
            row[t + 1, j, :] -= 1.0
            rows.append((row.ravel(), 0.0))
    A, b = np.array([row for row, _ in rows]), np.array([side for _, side in rows])
    # agreement of tables follows from one label and the sums
    keep = [0, 1, 2, 3, 5]
    result = minimize(
        lambda x: 0.5 * (x - m.ravel()) @ (x - m.ravel()),
        np.full(12, 0.25),
        jac=lambda x: x - m.ravel(),
        bounds=[(0, None)] * 12,
        constraints={
            "type": "eq",
            "fun": lambda x: (A @ x - b)[keep],
            "jac": lambda x: A[keep],
        },
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert result.success
    np.testing.assert_allclose(project_chain_polytope(m).ravel(), result.x, atol=1e-6)


@pytest.mark.parametrize(
    ("scale", "shift"), [(1.0, 0.0), (10.0, -3.0), (100.0, 0.0), (100.0, -3.0)]
)
@pytest.mark.parametrize(("length", "states"), [(50, 5), (250, 2)])
def test_long_chains(scale, length, states, shift):
    rng = np.random.RandomState(length)
    m = scale * (rng.normal(size=(length, states, states)) + shift)
    is_projection(project_chain_polytope(m), m, 100 * scale)


def test_points_of_the_polytope_stay():
    rng = np.random.RandomState(0)
    chain = rng.dirichlet(np.ones(27)).reshape(3, 3, 3)
    alpha = np.stack([chain.sum(axis=2), chain.sum(axis=0)])
    np.testing.assert_allclose(project_chain_polytope(alpha), alpha, atol=1e-13)


def test_forbidden_entries_stay_zero():
    rng = np.random.RandomState(1)
    m = rng.normal(size=(4, 3, 3))
    m[:, 2, 0] = m[0, 0] = -np.inf
    is_projection(project_chain_polytope(m), m)


@pytest.mark.parametrize(
    ("m", "match"),
    [
        (np.zeros((2, 3)), "shape"),
        (np.zeros((0, 2, 2)), "shape"),
        (np.zeros((1, 2, 3)), "shape"),
        (np.full((1, 2, 2), np.nan), r"m\[0, 0, 0\] must be finite or -inf, got nan"),
        (np.full((1, 2, 2), np.inf), r"m\[0, 0, 0\] must be finite or -inf, got inf"),
        (
            [[[0.0, -np.inf], [-np.inf] * 2], [[-np.inf] * 2, [0.0, 0.0]]],
            "chain of finite entries",
        ),
    ],
)
def test_bad_input(m, match):
    with pytest.raises(ValueError, match=match):
        project_chain_polytope(m)
