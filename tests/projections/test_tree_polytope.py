"""The projection onto the local polytope of a tree."""

import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize

from sksstruct.inference import max_product
from sksstruct.projections import project_chain_polytope, project_tree_polytope
from sksstruct.projections._polytopes import LocalPolytopes


def random_forest(rng, n, p_root=0.0, star=0.0):
    """Edges of a random forest, in random order and direction."""
    edges = []
    for v in range(1, n):
        if rng.random_sample() >= p_root:
            u = 0 if rng.random_sample() < star else rng.randint(v)
            edges.append((u, v) if rng.randint(2) else (v, u))
    number = rng.permutation(n)
    rng.shuffle(edges)
    return number[np.array(edges, dtype=int).reshape(-1, 2)]


def marginals(alpha, edges):
    """Of each variable with an edge, what its tables say."""
    found = {}
    for table, (u, v) in zip(alpha, edges.tolist(), strict=True):
        found.setdefault(u, []).append(table.sum(axis=1))
        found.setdefault(v, []).append(table.sum(axis=0))
    return found


def is_projection(alpha, m, edges, scale=1.0, d=None):
    """In the polytope, and no vertex (a labeling) is better in the direction of m."""
    d = np.ones(len(m)) if d is None else d
    assert (alpha >= 0).all()
    atol = 1e-12 * max(10.0, scale)
    np.testing.assert_allclose(alpha.sum(axis=(1, 2)), 1.0, atol=atol)
    for says in marginals(alpha, edges).values():
        for other in says[1:]:
            np.testing.assert_allclose(other, says[0], atol=atol)
    direction = d[:, None, None] ** 2 * (m - alpha)
    allowed = np.isfinite(direction)
    assert not alpha[~allowed].any()
    inner = (np.where(allowed, direction, 0.0) * alpha).sum()
    n = edges.max() + 1
    best = max_product(np.zeros((n, m.shape[1])), edges, direction)[1]
    assert best - inner <= 1e-10 * max(1.0, scale)


@pytest.mark.parametrize("seed", range(10))
def test_weights_of_tables(seed):
    """The d_c of eq. (33): the conditions of a projection, and a solver's answer."""
    rng = np.random.RandomState(seed)
    n, n_labels = rng.randint(3, 7), rng.randint(2, 4)
    edges = random_forest(rng, n, star=0.5)
    m = rng.normal(size=(n - 1, n_labels, n_labels))
    d = np.exp(rng.uniform(-2.0, 2.0, size=n - 1))
    alpha = project_tree_polytope(m, edges, d=d)
    is_projection(alpha, m, edges, scale=100.0, d=d)
    # one weight for all tables is none
    plain = project_tree_polytope(m, edges)
    same = project_tree_polytope(m, edges, d=np.full(n - 1, 3.0))
    np.testing.assert_allclose(same, plain, atol=1e-12)
    # two tables of a chain, by the marginals of their common variable
    chain, weights = m[:2], d[:2]
    alpha = project_chain_polytope(chain, d=weights)
    shape, square = chain.shape, (weights**2)[:, None, None]
    found = minimize(
        lambda x: 0.5 * (square * (x.reshape(shape) - chain) ** 2).sum(),
        np.full(chain.size, 1.0 / n_labels**2),
        jac=lambda x: (square * (x.reshape(shape) - chain)).ravel(),
        bounds=[(0.0, 1.0)] * chain.size,
        constraints=[
            {"type": "eq", "fun": lambda x: x.reshape(shape)[0].sum() - 1.0},
            {
                "type": "eq",
                "fun": lambda x: (
                    x.reshape(shape)[0].sum(axis=0) - x.reshape(shape)[1].sum(axis=1)
                ),
            },
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    # how near the answer of SLSQP is depends on the processor
    np.testing.assert_allclose(alpha.ravel(), found.x, atol=1e-2)
    assert 0.5 * (square * (alpha - chain) ** 2).sum() <= found.fun + 1e-8


@pytest.mark.parametrize("seed", [3, 14])
def test_uneven_weights_of_tables(seed):
    """Damping in other units than those of the Hessian ended far away."""
    rng = np.random.RandomState(seed)
    m, d = rng.normal(size=(30, 8, 8)), 10.0 ** rng.uniform(-1.5, 1.5, size=30)
    alpha = project_chain_polytope(m, d=d)
    assert alpha.min() >= 0.0
    np.testing.assert_allclose(alpha.sum(axis=(1, 2)), 1.0, atol=1e-7)
    np.testing.assert_allclose(alpha[:-1].sum(axis=1), alpha[1:].sum(axis=2), atol=1e-7)


@pytest.mark.parametrize("d", [[1.0], [1.0, 0.0], [1.0, np.inf], 2.0])
def test_bad_weights_of_tables(d):
    with pytest.raises(ValueError, match="d must be 2 positive numbers"):
        project_chain_polytope(np.zeros((2, 2, 2)), d=d)


@settings(max_examples=100)
@given(
    st.integers(2, 8),
    st.integers(1, 4),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([0.0, 0.8]),
    st.sampled_from([0.01, 1.0, 30.0]),
    st.data(),
)
def test_no_labeling_is_better(n, states, seed, p_root, star, scale, data):
    edges = random_forest(np.random.RandomState(seed), n, p_root, star)
    if not len(edges):
        return
    m = scale * data.draw(
        hnp.arrays(
            np.float64,
            (len(edges), states, states),
            elements=st.sampled_from([-3.0, -1.0, 0.0, 0.5, 1.0, 4.0]),
        )
    )
    is_projection(project_tree_polytope(m, edges), m, edges, max(1.0, scale))


@pytest.mark.parametrize("seed", range(6))
def test_general_solver(seed):
    rng = np.random.RandomState(seed)
    edges = random_forest(rng, 5, star=0.5)
    m = rng.normal(size=(4, 2, 2))
    rows = [np.eye(4)[e].repeat(4) for e in range(4)]
    sides = [1.0] * 4
    at = {}
    for e, ends in enumerate(edges.tolist()):
        for side, v in enumerate(ends):
            row = np.zeros(m.shape)
            row[e].swapaxes(0, side)[0] = 1.0
            if v in at:
                rows.append((row - at[v]).ravel())
                sides.append(0.0)
            else:
                at[v] = row
    A, b = np.array(rows), np.array(sides)
    result = minimize(
        lambda x: 0.5 * (x - m.ravel()) @ (x - m.ravel()),
        np.full(16, 0.25),
        jac=lambda x: x - m.ravel(),
        bounds=[(0, None)] * 16,
        constraints={"type": "eq", "fun": lambda x: A @ x - b, "jac": lambda x: A},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert result.success
    found = project_tree_polytope(m, edges)
    np.testing.assert_allclose(found.ravel(), result.x, atol=1e-6)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("length", [1, 2, 7, 60])
def test_paths_are_chains(length, turned):
    rng = np.random.RandomState(length)
    m = rng.normal(size=(length, 3, 3))
    edges = np.column_stack([np.arange(length), np.arange(1, length + 1)])
    expected = project_chain_polytope(m)
    if turned:
        edges, m = edges[:, ::-1], m.transpose(0, 2, 1)
        expected = expected.transpose(0, 2, 1)
    found = project_tree_polytope(m, edges)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_trees_of_a_forest_are_apart():
    rng = np.random.RandomState(3)
    first, second = random_forest(rng, 6), random_forest(rng, 5)
    m = rng.normal(size=(9, 3, 3))
    both = np.concatenate([first, second + 7])
    apart = [project_tree_polytope(m[:5], first), project_tree_polytope(m[5:], second)]
    together = project_tree_polytope(m, both)
    np.testing.assert_allclose(together, np.concatenate(apart), atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
@pytest.mark.parametrize(("n", "states", "star"), [(60, 5, 0), (200, 3, 0), (80, 4, 1)])
def test_large_trees(scale, n, states, star):
    """Also a star, whose center has all edges."""
    rng = np.random.RandomState(n)
    edges = random_forest(rng, n, star=star)
    m = scale * rng.normal(size=(n - 1, states, states))
    is_projection(project_tree_polytope(m, edges), m, edges, 100 * scale)


@pytest.mark.parametrize("seed", [1396, 4360])
def test_steps_across_kinks_end(seed):
    """Where a step and the next lead back and forth, the function staying the same."""
    rng = np.random.RandomState(seed)
    n, states = rng.randint(20, 60), rng.randint(2, 9)
    m = rng.normal(size=(n, states, states)) * 10.0 ** rng.randint(4)
    edges = np.column_stack([np.arange(n), np.arange(1, n + 1)])
    is_projection(project_chain_polytope(m), m, edges, np.abs(m).max())


def test_points_of_the_polytope_stay():
    rng = np.random.RandomState(0)
    joint = rng.dirichlet(np.ones(81)).reshape(3, 3, 3, 3)
    # a star: variable 1 with 0, 2 and 3
    alpha = np.stack(
        [joint.sum(axis=(2, 3)), joint.sum(axis=(0, 3)), joint.sum(axis=(0, 2))]
    )
    found = project_tree_polytope(alpha, [(0, 1), (1, 2), (1, 3)])
    np.testing.assert_allclose(found, alpha, atol=1e-13)


def test_forbidden_entries_stay_zero():
    rng = np.random.RandomState(1)
    edges = random_forest(rng, 6)
    m = rng.normal(size=(5, 3, 3))
    m[:, 2, 0] = m[0, 0] = -np.inf
    is_projection(project_tree_polytope(m, edges), m, edges)


NONE = [[0.0, -np.inf], [0.0, -np.inf]]
OTHER = [[-np.inf, -np.inf], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("m", "edges", "match"),
    [
        (np.zeros((2, 3)), [(0, 1), (1, 2)], "shape"),
        (np.zeros((0, 2, 2)), np.zeros((0, 2), dtype=int), "shape"),
        (np.zeros((1, 2, 3)), [(0, 1)], "shape"),
        (np.full((1, 2, 2), np.nan), [(0, 1)], r"m\[0, 0, 0\] must be .*, got nan"),
        (np.full((1, 2, 2), np.inf), [(0, 1)], r"m\[0, 0, 0\] must be .*, got inf"),
        (np.zeros((2, 2, 2)), [(0, 1)], "edges must be 2 pairs"),
        (np.zeros((1, 2, 2)), [(0.0, 1.0)], "edges must be"),
        (np.zeros((1, 2, 2)), [(-1, 1)], "edges must be"),
        (np.zeros((1, 2, 2)), [(1, 1)], "cycle"),
        (np.zeros((2, 2, 2)), [(0, 1), (1, 0)], "cycle"),
        (np.zeros((3, 2, 2)), [(0, 1), (1, 2), (2, 0)], "cycle"),
        ([NONE, OTHER], [(0, 1), (1, 2)], "labeling of finite"),
        ([NONE, np.transpose(OTHER)], [(0, 1), (2, 1)], "labeling of finite"),
        ([np.transpose(NONE), OTHER, np.zeros((2, 2))], [(1, 0), (1, 2), (1, 3)],
         "labeling of finite"),
    ],
)  # fmt: skip
def test_bad_input(m, edges, match):
    with pytest.raises(ValueError, match=match):
        project_tree_polytope(m, edges)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_interrupts_are_seen_between_projections():
    n, states = 400, 8
    rng = np.random.RandomState(0)
    m = 10 * rng.normal(size=(n * 30, states, states))
    out = np.full_like(m, np.nan)
    path = np.column_stack([np.arange(30), np.arange(1, 31)])
    edges = np.concatenate([path + 31 * k for k in range(n)])
    polytopes = LocalPolytopes(31 * n, edges, states)

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(TimeoutError):
            polytopes.project(m, np.ones(n), out)
            # never so soon, unless the machine is a hundred times as fast
            raise AssertionError("the projections ended before the timer")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert np.isnan(out[-1]).all()
