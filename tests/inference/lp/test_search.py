"""Local search and exact windows: gains are true, and nothing is left to gain."""

import numpy as np
import pytest
from map_graphs import best_score, random_graph
from sksstruct.inference.lp.core._problem import MAPProblem
from sksstruct.inference.lp.local_search._search import LocalSearch

from sksstruct.factor_graphs import FactorGraph
from sksstruct.inference.lp.core._reduce import Reduced


def graphs():
    for seed in range(8):
        rng = np.random.default_rng(seed)
        yield random_graph(
            rng, n=12, m=30, states=(1, 4), weights=seed % 2, parametric=True,
            factors=3 * (seed % 3 == 0), logic=2 * (seed % 4 == 1),
        )  # fmt: skip
    rng = np.random.default_rng(9)
    # a star, with more neighbors than an elimination keeps track of
    star = [(0, v) for v in range(1, 60)]
    yield FactorGraph(rng.normal(size=(60, 3)), star, rng.normal(size=(59, 3, 3)))
    full = [(u, v) for u in range(40) for v in range(u)]
    yield FactorGraph(
        rng.normal(size=(40, 2)), full, rng.normal(size=(len(full), 2, 2))
    )
    grid = [(20 * i + j, 20 * i + j + 1) for i in range(20) for j in range(19)]
    grid += [(20 * i + j, 20 * i + j + 20) for i in range(19) for j in range(20)]
    yield FactorGraph(
        rng.normal(size=(400, 2)), grid, rng.normal(size=(len(grid), 2, 2))
    )


@pytest.mark.parametrize("k, graph", list(enumerate(graphs())))
def test_gains_are_differences_of_scores(k, graph):
    reduced = Reduced(graph)
    graph, problem = reduced.graph, MAPProblem(reduced.graph, reduced.penalty)
    start = np.zeros(graph.n_variables, dtype=np.int32)
    search = LocalSearch(problem, start, k)
    first = problem.labeling_score(start)
    last = 0.0
    moves = [
        lambda: search.conditional_modes(),
        lambda: search.forests(3),
        lambda: search.windows(5, 7, 64.0),
        lambda: search.windows(5, 300, 512.0),
        lambda: search.anneal(300, 1.0, 0.5, 0.0, 50),
        lambda: search.anneal(300, 0.5, 0.0, 128.0, 50),
        lambda: search.windows(5, 300, 64.0, 500.0),
    ]
    scale = max(1.0, abs(first))
    for _ in range(3):
        for move in moves:
            gain = move()
            assert gain >= last - 1e-9 * scale
            last = gain
            score = problem.labeling_score(search.labeling)
            assert score - first == pytest.approx(gain, abs=1e-9 * scale)
            assert (search.labeling < graph.n_states).all()


def test_elimination_is_exact():
    solved = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        graph = random_graph(
            rng, n=8, m=12, states=(1, 3), weights=seed % 2, parametric=True,
            factors=2 * (seed % 3 == 0), integers=seed % 5 == 0,
        )  # fmt: skip
        reduced = Reduced(graph)
        problem = MAPProblem(reduced.graph, reduced.penalty)
        start = np.zeros(reduced.graph.n_variables, dtype=np.int32)
        search = LocalSearch(problem, start, 0)
        if search.solve(1e5):
            solved += 1
            score = problem.labeling_score(search.labeling) + reduced.offset
            assert score == pytest.approx(best_score(graph))
    assert solved >= 25


def test_wide_graphs_are_not_eliminated():
    rng = np.random.default_rng(0)
    full = [(u, v) for u in range(30) for v in range(u)]
    graph = FactorGraph(
        rng.normal(size=(30, 2)), full, rng.normal(size=(len(full), 2, 2))
    )
    search = LocalSearch(MAPProblem(graph), np.zeros(30, dtype=np.int32), 0)
    assert not search.solve(1e4)
    assert search.gain == 0.0


def test_windows_over_a_few_states():
    rng = np.random.default_rng(2)
    graph = random_graph(rng, n=20, m=40, states=(5, 9))
    problem = MAPProblem(graph)
    start = np.array(
        [int(np.argmax(graph.unary(v))) for v in range(20)], dtype=np.int32
    )
    search = LocalSearch(problem, start, 0)
    search.elimination.window.best_states(problem, graph.unaries, 2, start)
    search.windows(20, 20, 4096.0)
    limited = search.gain
    first = problem.labeling_score(start)
    assert problem.labeling_score(search.labeling) - first == pytest.approx(limited)
    two = [np.argsort(-graph.unary(v))[:2] for v in range(20)]
    assert all(x in states for x, states in zip(search.labeling, two, strict=True))
    search.elimination.window.all_states(problem)
    search.windows(50, 20, 4096.0)
    assert search.gain > limited


def test_tables_beyond_memory_are_an_error():
    """And not a move that gains nothing; the search can go on with smaller ones."""
    full = [(u, v) for u in range(9) for v in range(u)]
    graph = FactorGraph(np.zeros((9, 100)), full, np.eye(100))
    problem = MAPProblem(graph)
    start = np.arange(9, dtype=np.int32)
    search = LocalSearch(problem, start, 0)
    # the table of the first variable has 100 ** 8 entries
    with pytest.raises(MemoryError):
        search.windows(1, 9, 1e18, 1e19)
    np.testing.assert_array_equal(search.labeling, start)
    gain = search.windows(20, 9, 1e4)
    assert gain > 0.0
    assert problem.labeling_score(search.labeling) == gain
