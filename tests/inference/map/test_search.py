"""Local search and exact windows: gains are true, and nothing is left to gain."""

import numpy as np
import pytest
from map_graphs import best_score, random_graph

from sksstruct.factor_graphs import FactorGraph
from sksstruct.inference.map import resolve_map_solver
from sksstruct.inference.map.core._decode import best_candidates
from sksstruct.inference.map.core._reduce import Reduced
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.local_search._violations import Levels
from sksstruct.inference.map.local_search.search import LocalSearch
from sksstruct.inference.map.local_search.weighted import WeightedSearch


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
    candidates = best_candidates(problem, graph.unaries, 2, start)
    search.elimination.window.some_states(problem, 2, candidates)
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


def missing(graph, problem, x, highest):
    """What every edge and larger factor of a labeling is missing, one by one."""
    weights = (
        np.ones(graph.n_edges) if graph.edge_weights is None else (graph.edge_weights)
    )
    terms = [
        (graph.edges[e], graph.edge_tables[e], weights[e]) for e in range(graph.n_edges)
    ]
    terms += [
        (graph.factor_scopes[f], graph.factor_tables[f], 1.0)
        for f in range(graph.n_factors)
    ]
    scores = np.array(
        [w * float(graph.tables[t].scores(*x[scope])) for scope, t, w in terms]
    )
    return highest - np.maximum(scores, problem.penalty or -np.inf)


@pytest.mark.parametrize("k, graph", list(enumerate(graphs()))[:9])
@pytest.mark.parametrize("limit", [0.5, 2.0])
def test_weighted_search_keeps_count(k, graph, limit):
    reduced = Reduced(graph)
    graph, problem = reduced.graph, MAPProblem(reduced.graph, reduced.penalty)
    highest = Levels(problem).highest
    start = np.zeros(graph.n_variables, dtype=np.int32)
    # no labeling of any factor is better than the best entry
    assert (missing(graph, problem, start, highest) >= -1e-9).all()
    search = WeightedSearch(problem, start, k, highest, limit, 0.5)
    assert search.n_violated == (missing(graph, problem, start, highest) > limit).sum()
    last = 0.0
    for _ in range(4):
        gain = search.run(20_000)
        assert gain >= last
        last = gain
        difference = problem.labeling_score(search.labeling)
        difference -= problem.labeling_score(start)
        scale = max(1.0, -problem.penalty)
        assert difference == pytest.approx(gain, abs=1e-9 * scale)
    again = WeightedSearch(problem, start, k, highest, limit, 0.5)
    for _ in range(4):
        again.run(20_000)
    assert np.array_equal(again.labeling, search.labeling)


@pytest.mark.parametrize("seed", range(6))
def test_weighted_search_finds_the_best(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, n=8, m=14, states=(3, 4), infinite=0.15, factors=3)
    reduced, best = Reduced(graph), best_score(graph)
    assert best > -np.inf
    problem = MAPProblem(reduced.graph, reduced.penalty)
    levels = Levels(problem)
    limit, unit = levels.limits[0]
    # between what is finite and what is not
    assert limit < -problem.penalty
    start = np.zeros(reduced.graph.n_variables, dtype=np.int32)
    search = WeightedSearch(problem, start, 0, levels.highest, limit, unit)
    search.run(2e6)
    found = graph.score(reduced.labeling(search.labeling))
    assert found == pytest.approx(best, abs=1e-9)


def test_limits_lie_between_scores():
    table = np.array([[0.0, -1.0], [-2.0, -1000.0]])
    other = np.array([[5.0, 4.5], [-1e6, 3.0]])
    graph = FactorGraph(np.zeros((3, 2)), [(0, 1), (1, 2)], [table, other])
    limits = sorted(limit for limit, _ in Levels(MAPProblem(graph)).limits)
    assert len(limits) == 2
    assert 2.0 <= limits[0] < 1000.0 <= limits[1] < 1e6
    # the mean of 0.5, 1, 2 and 2
    assert dict(Levels(MAPProblem(graph)).limits)[limits[0]] == pytest.approx(1.375)
    # scores that are all alike have none
    even = FactorGraph(np.zeros((2, 2)), [(0, 1)], [table[:, :1] - [[0.0, 1.0]]])
    assert Levels(MAPProblem(even)).limits == []
    # the least number there is
    least = FactorGraph([[0.0, -5e-324], [0.0, -1e-320]])
    assert len(Levels(MAPProblem(least)).limits) == 1


def nearly_hard(seed, n=60, k=4):
    """A planted problem whose forbidden pairs score -9.2, and what keeps them all."""
    rng = np.random.default_rng(seed)
    edges = {tuple(sorted(rng.choice(n, 2, replace=False))) for _ in range(4 * n)}
    edges = np.array(sorted(edges))
    x = rng.integers(k, size=n)
    tables = np.where(rng.random((len(edges), k, k)) < 0.45, -9.2, 0.0)
    tables[np.arange(len(edges)), x[edges[:, 0]], x[edges[:, 1]]] = 0.0
    return FactorGraph(-0.01 * rng.random((n, k)), edges, tables)


@pytest.mark.parametrize("seed", range(2))
def test_violations_go_first(seed):
    graph = nearly_hard(seed)
    problem = MAPProblem(graph)
    levels = Levels(problem)
    start = np.zeros(graph.n_variables, dtype=np.int32)
    search = WeightedSearch(problem, start, 0, levels.highest, *levels.limits[0])
    search.run(5e6)
    assert problem.labeling_score(search.labeling) > -1.0
    result = resolve_map_solver("auto").solve(graph, random_state=0)
    assert result.score > -1.0


def test_real_scores_have_no_limits():
    # of 14,000 normal entries few are close to the best of their table
    for seed in range(5):
        rng = np.random.default_rng(seed)
        edges = [(v, v + 1) for v in range(799)]
        graph = FactorGraph(
            rng.normal(size=(800, 4)), edges, rng.normal(size=(799, 4, 4))
        )
        assert Levels(MAPProblem(graph)).limits == []


@pytest.mark.slow
def test_plan_names_the_limits():
    # too much for the sweeps alone, so that there is a search
    rng = np.random.default_rng(0)
    edges = [(u, v) for v in range(26) for u in range(v)]
    tables = rng.integers(-3, 1, (len(edges), 4, 4)).astype(np.float64)
    tables[rng.random(tables.shape) < 0.3] = -500.0
    graph = FactorGraph(np.zeros((26, 4)), edges, tables)
    result = (
        resolve_map_solver("auto")
        .set_params(effort=0.01)
        .solve(graph, random_state=0, max_seconds=1.0)
    )
    assert any("violations first" in step for step in result.plan_)
    # without a limit the search ends by itself, and says so
    rng = np.random.default_rng(1)
    graph = FactorGraph(
        rng.normal(size=(26, 4)), edges, rng.normal(size=(len(edges), 4, 4))
    )
    result = (
        resolve_map_solver("auto")
        .set_params(effort=1e-3, tol=0.0)
        .solve(graph, random_state=0)
    )
    assert result.status != "optimal"
    assert "ended" in result.plan_[-1]
    assert not any("violations" in step for step in result.plan_)
