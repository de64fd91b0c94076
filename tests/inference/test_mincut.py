import numpy as np
import pytest
from graphs import attractive_graphs
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linprog

from sksstruct.inference import (
    Exhaustive,
    MinCut,
    max_marginals,
    max_product,
    min_cut,
    min_cut_max_marginals,
)


def fewest_ones(everything):
    """Label 1 where all of the best labelings have it."""
    best = everything.labelings[everything.scores == everything.scores.max()]
    return best.min(axis=0)


def enumerate_graph(unary, edges, pairwise):
    return Exhaustive(unary, edges, list(pairwise))


@settings(max_examples=150)
@given(attractive_graphs())
def test_equals_enumeration_with_tie_rule(graph):
    everything = enumerate_graph(*graph)
    labeling, score = min_cut(*graph)
    assert score == everything.scores.max()
    if score > -np.inf:
        np.testing.assert_array_equal(labeling, fewest_ones(everything))


@pytest.mark.slow
@settings(max_examples=150)
@given(attractive_graphs())
def test_max_marginals(graph):
    expected = np.array(enumerate_graph(*graph).max_marginals())
    np.testing.assert_array_equal(min_cut_max_marginals(*graph), expected)


@pytest.mark.slow
@settings(max_examples=120)
@given(st.data())
def test_warm_starts_change_nothing(data):
    """One solver on a series of problems on the same graph; failures in between."""
    unary, edges, pairwise = data.draw(attractive_graphs())
    solver = MinCut(edges, len(unary))
    for _ in range(3):
        labeling, score = solver.solve(unary, pairwise)
        everything = enumerate_graph(unary, edges, pairwise)
        assert score == everything.scores.max()
        if score > -np.inf:
            np.testing.assert_array_equal(labeling, fewest_ones(everything))
        if data.draw(st.booleans()):
            expected = np.array(everything.max_marginals())
            np.testing.assert_array_equal(solver.max_marginals(), expected)
        if len(edges) and data.draw(st.booleans()):
            with pytest.raises(ValueError, match="not submodular"):
                solver.solve(unary, np.array([[0.0, 1.0], [1.0, 0.0]]))
        numbers = st.sampled_from([-3.0, -1.0, 0.0, 1.0, 3.0])
        unary = data.draw(hnp.arrays(np.float64, unary.shape, elements=numbers))
        scale = data.draw(st.sampled_from([0.5, 1.0, 2.0]))
        pairwise = pairwise * scale


def grid(n):
    index = np.arange(n * n).reshape(n, n)
    across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1)
    down = np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1)
    return np.concatenate([across, down])


@pytest.mark.parametrize("seed", range(4))
def test_large_grid_against_linear_programming(seed):
    """Real numbers on a grid: the LP relaxation is tight, an independent optimum."""
    rng = np.random.RandomState(seed)
    n = 12
    edges = grid(n)
    unary = rng.normal(size=(n * n, 2))
    pairwise = rng.normal(size=(len(edges), 2, 2))
    pairwise[:, 0, 1] -= 1.0
    lack = pairwise[:, 0, 1] + pairwise[:, 1, 0] - pairwise[:, 0, 0] - pairwise[:, 1, 1]
    pairwise[:, 1, 1] += np.maximum(lack, 0.0)
    # s00 + (s10 - s00) y_u + (s01 - s00) y_v + lambda z, z <= y_u, z <= y_v
    m = len(edges)
    cost = np.concatenate([unary[:, 1] - unary[:, 0], np.zeros(m)])
    np.add.at(cost, edges[:, 0], pairwise[:, 1, 0] - pairwise[:, 0, 0])
    np.add.at(cost, edges[:, 1], pairwise[:, 0, 1] - pairwise[:, 0, 0])
    cost[n * n :] = (
        pairwise[:, 0, 0] + pairwise[:, 1, 1] - pairwise[:, 0, 1] - pairwise[:, 1, 0]
    )
    A = np.zeros((2 * m, n * n + m))
    for side in range(2):
        rows = side * m + np.arange(m)
        A[rows, n * n + np.arange(m)] = 1.0
        A[rows, edges[:, side]] = -1.0
    optimum = linprog(-cost, A, np.zeros(2 * m), bounds=(0, 1))
    constant = unary[:, 0].sum() + pairwise[:, 0, 0].sum()
    labeling, score = min_cut(unary, edges, pairwise)
    assert score == pytest.approx(constant - optimum.fun, abs=1e-7)
    value = unary[np.arange(n * n), labeling].sum()
    value += pairwise[np.arange(m), labeling[edges[:, 0]], labeling[edges[:, 1]]].sum()
    assert score == pytest.approx(value)
    marginals = min_cut_max_marginals(unary, edges, pairwise)
    assert (marginals.max(axis=1) == score).all()
    for v in (0, 17, n * n - 1):
        forced = unary.copy()
        forced[v, labeling[v]] = -np.inf
        assert min_cut(forced, edges, pairwise)[1] == pytest.approx(
            marginals[v, 1 - labeling[v]]
        )


def test_agrees_with_trees():
    rng = np.random.RandomState(0)
    edges = [(rng.randint(v), v) for v in range(1, 60)]
    unary, table = rng.normal(size=(60, 2)), np.array([[1.0, 0.2], [0.1, 0.5]])
    labeling, score = min_cut(unary, edges, table)
    expected, best = max_product(unary, edges, table)
    np.testing.assert_array_equal(labeling, expected)
    assert score == pytest.approx(best)
    np.testing.assert_allclose(
        min_cut_max_marginals(unary, edges, table), max_marginals(unary, edges, table)
    )


def test_ties_on_a_grid_prefer_zero():
    labeling, score = min_cut(np.zeros((16, 2)), grid(4), np.eye(2))
    assert not labeling.any() and score == len(grid(4))


def test_rounding_is_not_taken_for_a_wrong_table():
    table = np.array([[0.1 + 0.2, 0.3], [0.0, 0.0]])
    table[1, 1] = table[0, 1] + table[1, 0] - table[0, 0] - 1e-16
    min_cut(np.zeros((2, 2)), [(0, 1)], table)


def test_no_edges():
    assert min_cut([[1.0, 2.0], [2.0, 1.0]], [], np.eye(2))[0].tolist() == [1, 0]
    assert min_cut_max_marginals([[1.0, 2.0]], [], np.eye(2)).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("unary", "edges", "pairwise", "message"),
    [
        (np.zeros((2, 3)), [(0, 1)], np.eye(2), "unary must have shape"),
        (np.zeros((0, 2)), [], np.eye(2), "unary must have shape"),
        (np.zeros((2, 2)), None, np.eye(2), "edges must be pairs"),
        (np.zeros((2, 2)), [("a", "b")], np.eye(2), "edges must be pairs"),
        (np.zeros((2, 2)), [(0, 1), (0,)], np.eye(2), "edges must be pairs"),
        (np.zeros((2, 2)), [(0, 2)], np.eye(2), r"edges\[0\] is \(0, 2\)"),
        (np.zeros((2, 2)), [(0, 1)], np.eye(3), "pairwise must have shape"),
        (np.zeros((2, 2)), [(0, 1)], np.full((2, 2), np.nan), r"pairwise\[0"),
        (
            np.zeros((3, 2)),
            [(0, 1), (2, 1)],
            np.array([np.eye(2), -np.eye(2)]),
            r"edges\[1\], between variables 2 and 1, is not submodular",
        ),
        (
            np.zeros((2, 2)),
            [(0, 1)],
            np.array([[-np.inf, 0.0], [0.0, 0.0]]),
            "not submodular",
        ),
        (np.full((2, 2), 1e308), [(0, 1)], np.eye(2), "too large"),
    ],
)
def test_bad_input(unary, edges, pairwise, message):
    with pytest.raises(ValueError, match=message), np.errstate(over="ignore"):
        min_cut(unary, edges, pairwise)


def test_scores_may_change_after_solving():
    unary = np.array([[0.0, 3.0], [1.0, 0.0]])
    solver = MinCut([(0, 1)])
    solver.solve(unary, np.eye(2))
    before = solver.max_marginals()
    unary[:] = 0.0
    np.testing.assert_array_equal(solver.max_marginals(), before)


def test_one_thread_at_a_time():
    solver = MinCut([(0, 1)])

    class Scores:
        """Asks for another solution while its own is being loaded."""

        def __array__(self, dtype=None, copy=None):
            with pytest.raises(RuntimeError, match="one for each thread"):
                solver.solve(np.zeros((2, 2)), np.eye(2))
            return np.zeros((2, 2))

    assert solver.solve(Scores(), np.eye(2))[1] == 1.0


def test_solver_checks():
    with pytest.raises(ValueError, match="n_variables must be an integer"):
        MinCut([(0, 1)], 0)
    with pytest.raises(ValueError, match="call solve first"):
        MinCut([(0, 1)]).max_marginals()
    solver = MinCut([(0, 1)])
    with pytest.raises(ValueError):
        solver.solve(np.zeros((2, 2)), -np.eye(2))
    with pytest.raises(ValueError, match="call solve first"):
        solver.max_marginals()
