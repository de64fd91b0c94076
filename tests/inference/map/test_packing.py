"""The integer program of graphs of constraints, beside enumeration."""

import itertools
import threading

import numpy as np
import pytest
from map_graphs import best_score
from scipy.optimize import OptimizeResult

from sksstruct.factor_graphs import FactorGraph, Logic, Potts
from sksstruct.inference.map import Auto, auto, packing
from sksstruct.inference.map.core import _cliques
from sksstruct.inference.map.core._cliques import cover, exclusions
from sksstruct.inference.map.core._reduce import Reduced
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.core.run import MAPRun
from sksstruct.inference.map.packing import Packing

DIFFERENT = np.where(np.eye(3, dtype=bool), -np.inf, 0.0)


def random_constraints(seed):
    """Exclusions of one or more pairs, tables with scores, and conditions."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, 7)
    sizes[:3] = 2
    edges = [pair for pair in itertools.combinations(range(7), 2) if rng.random() < 0.6]
    tables = []
    for u, v in edges:
        table = np.zeros((sizes[u], sizes[v]))
        kind = rng.integers(4)
        if kind == 3:
            table = rng.normal(size=table.shape)
        if kind:
            table[rng.random(table.shape) < 0.25] = -np.inf
        if (table == -np.inf).all():
            table[0, 0] = 0.0
        tables.append(table)
    unaries = [rng.normal(size=size) for size in sizes]
    if seed % 3 == 0:
        unaries[5][0] = -np.inf
    names = "xor", "atmostone", "or", "xorout", "orout"
    negated = rng.random(3) < 0.5
    condition = Logic(names[seed % 5], 3, negated=negated)
    weights = rng.uniform(0.5, 2.0, len(edges)) if seed % 2 else None
    factors = [((0, 1, 2), condition)] if seed % 4 else None
    return FactorGraph(unaries, edges, tables, edge_weights=weights, factors=factors)


def packed(graph):
    """The run after HiGHS has solved the program of a graph."""
    reduced = Reduced(graph)
    problem = MAPProblem(reduced.graph, reduced.penalty)
    run = MAPRun(
        problem, 1e-6, 1, None, np.random.RandomState(0),
        lowest=reduced.lowest - reduced.offset if reduced.penalty else -np.inf,
    )  # fmt: skip
    program = Packing(reduced.plain)
    assert program.suits
    program.solve(run, run)
    return run, reduced


@pytest.mark.parametrize("seed", range(40))
def test_the_program_has_the_best_labeling(seed):
    graph = random_constraints(seed)
    best = best_score(graph)
    reduced = Reduced(graph)
    if not reduced.feasible or not Packing(reduced.plain).suits:
        pytest.skip("nothing to pack")
    run, reduced = packed(graph)
    if best == -np.inf:
        assert run.labeling is None and run.status == "infeasible"
        return
    score = graph.score(reduced.labeling(run.labeling))
    assert score == pytest.approx(best, abs=1e-6)
    assert best - 1e-9 <= run.bound + reduced.offset <= best + 1e-4


def test_most_cases_are_packed():
    graphs = [Reduced(random_constraints(seed)) for seed in range(40)]
    assert sum(r.feasible and Packing(r.plain).suits for r in graphs) > 25


@pytest.mark.parametrize(("graph", "suits"), [
    # no constraints
    (FactorGraph(np.zeros((2, 3)), [(0, 1)], Potts(3)), False),
    (FactorGraph(np.zeros((2, 3)), [(0, 1)], DIFFERENT), True),
    (FactorGraph(np.zeros((2, 3)), [(0, 1)], DIFFERENT - np.eye(3)[::-1]), False),
    (FactorGraph(np.zeros((3, 2)), factors=[((0, 1, 2), Logic("budget", 3, limit=1))]),
     True),
])  # fmt: skip
def test_which_graphs_suit(graph, suits):
    assert Packing(graph).suits == suits


def test_tables_with_many_scores_are_not_packed(monkeypatch):
    rng = np.random.default_rng(0)
    edges = [(0, 1), (0, 2), (1, 2)]
    tables = [DIFFERENT, rng.normal(size=(3, 3)), rng.normal(size=(3, 3))]
    graph = FactorGraph(np.zeros((3, 3)), edges, tables)
    assert Packing(graph).suits
    # each table has 9 entries, which occur in 2 rows each, and 6 marginals
    monkeypatch.setattr(packing, "_MOST_NONZEROS", 47)
    assert not Packing(graph).suits
    monkeypatch.setattr(packing, "_MOST_NONZEROS", 48)
    assert Packing(graph).suits
    monkeypatch.setattr(packing, "_MOST_PAIRS", 2)
    assert not Packing(graph).suits
    monkeypatch.setattr(packing, "_MOST_PAIRS", 3)
    assert Packing(graph).suits
    monkeypatch.setattr(packing, "_MOST_STATES", 8)
    assert not Packing(graph).suits


def test_constraints_of_few_variables_are_not_packed():
    edges = [(k, k + 1) for k in range(9)]
    tables = [DIFFERENT, *np.zeros((8, 3, 3))]
    assert not Packing(FactorGraph(np.zeros((10, 3)), edges, tables)).suits
    tables = [DIFFERENT, *np.zeros((3, 3, 3)), *[DIFFERENT] * 5]
    assert Packing(FactorGraph(np.zeros((10, 3)), edges, tables)).suits


def test_many_pairs_are_not_listed(monkeypatch):
    """Their number is known before memory is taken for them."""
    different = np.where(np.eye(100, dtype=bool), -np.inf, 0.0)
    edges = list(itertools.combinations(range(60), 2))
    graph = FactorGraph(np.zeros((60, 100)), edges, different)
    monkeypatch.setattr(np, "repeat", None)
    edges, pairs = exclusions(graph, 10_000, 3.0, 30_000)
    assert edges.shape == (0,) and pairs.shape == (0, 2)


@pytest.mark.parametrize("seed", range(10))
def test_excluded_pairs(seed, monkeypatch):
    if seed % 2:
        # each batch has one table
        monkeypatch.setattr(_cliques, "_BATCH", 1)
    graph = random_constraints(seed)
    edges, pairs = exclusions(graph, 100, 3.0)
    expected = []
    for e, (u, v) in enumerate(graph.edges):
        table = graph.tables[graph.edge_tables[e]].values
        forbidden = table == -np.inf
        if forbidden.any() and not table[~forbidden].any():
            first = graph.first_state
            expected += [(e, first[u] + a, first[v] + b)
                         for a, b in np.argwhere(forbidden)]  # fmt: skip
    assert list(zip(edges.tolist(), *pairs.T.tolist(), strict=True)) == expected
    cliques, is_covered = cover(pairs, 3)
    excluded = set(map(tuple, pairs.tolist()))
    for clique in cliques:
        assert set(itertools.combinations(sorted(clique), 2)) <= excluded
    assert len(is_covered) == len(pairs)


def latin_square(n, seed):
    rng = np.random.default_rng(seed)
    cells = list(itertools.product(range(n), repeat=2))
    edges = [
        (i, j)
        for i, j in itertools.combinations(range(n * n), 2)
        if cells[i][0] == cells[j][0] or cells[i][1] == cells[j][1]
    ]
    different = np.where(np.eye(n, dtype=bool), -np.inf, 0.0)
    return FactorGraph(1.0 * rng.integers(0, 20, (n * n, n)), edges, different)


@pytest.mark.parametrize("first", [0, 10_000])
def test_auto_proves_latin_squares(first, monkeypatch):
    monkeypatch.setattr(auto, "_PACK_FIRST", first)
    graph = latin_square(6, 0)
    result = Auto().solve(graph, random_state=0)
    assert result.status == "optimal"
    square = result.labeling.reshape(6, 6)
    assert (np.sort(square, axis=0) == np.arange(6)[:, None]).all()
    assert (np.sort(square, axis=1) == np.arange(6)).all()
    if not first:
        assert result.plan_[-1].startswith("integer program: 1080 pairs of states")
        assert "integer program" in result.trace["part"]
        # the marginals are those of the labeling
        states = [row.argmax() for row in result.marginals]
        assert states == result.labeling.tolist()


def test_without_effort_nothing_is_packed(monkeypatch):
    monkeypatch.setattr(auto, "_PACK_FIRST", 0)
    result = Auto(effort=0).solve(latin_square(5, 0), random_state=0)
    assert "integer program" not in result.trace["part"]


def test_highs_that_finds_nothing(monkeypatch):
    """A limit can end HiGHS before it has a labeling or a bound."""
    monkeypatch.setattr(
        packing, "solve_program", lambda *_: OptimizeResult(x=None, status=1)
    )
    run, _ = packed(latin_square(3, 0))
    assert run.labeling is None and run.bound == np.inf and run.status is None


def test_a_late_run_ends():
    graph = latin_square(6, 0)
    reduced = Reduced(graph)
    run = MAPRun(
        MAPProblem(reduced.graph, reduced.penalty), 1e-6, 1, 1e-9,
        np.random.RandomState(0), lowest=reduced.lowest,
    )  # fmt: skip
    run.offer(np.zeros(36, dtype=np.int32))
    Packing(reduced.plain).solve(run, run)
    assert run.bound == np.inf


def late_after(seconds):
    """Run of a Latin square with a time limit."""
    reduced = Reduced(latin_square(6, 0))
    run = MAPRun(
        MAPProblem(reduced.graph, reduced.penalty), 1e-6, 1, seconds,
        np.random.RandomState(0), lowest=reduced.lowest,
    )  # fmt: skip
    run.offer(np.zeros(36, dtype=np.int32))
    return run, Packing(reduced.plain)


@pytest.fixture
def endless(monkeypatch):
    """HiGHS does not return before the end of the test."""
    gate = threading.Event()
    monkeypatch.setattr(packing, "solve_program", lambda *_: gate.wait(60.0))
    yield
    gate.set()


@pytest.mark.usefixtures("endless")
def test_highs_that_misses_its_limit_is_left_behind(monkeypatch):
    monkeypatch.setattr(packing, "_SHARE", 0.01)
    monkeypatch.setattr(packing, "_LEAST_SECONDS", 0.0)
    run, program = late_after(50.0)
    program.solve(run, run)
    # the run continues
    assert run.status is None and run.bound == np.inf


@pytest.mark.usefixtures("endless")
def test_a_callback_stops_highs():
    run, program = late_after(None)
    calls = itertools.count()
    run.callback = lambda *_: next(calls) == 3
    program.solve(run, run)
    assert run.status == "stopped"


@pytest.mark.parametrize("dual", [-np.inf, np.nan, None])
def test_bounds_that_highs_does_not_have(dual, monkeypatch):
    found = OptimizeResult(x=None, status=1, mip_dual_bound=dual)
    monkeypatch.setattr(packing, "solve_program", lambda *_: found)
    run, _ = packed(latin_square(3, 0))
    assert run.bound == np.inf and run.status is None


@pytest.mark.parametrize("low", [-1e6, -1e12, -1e19, -1e200])
def test_a_state_of_very_low_score(low):
    """It makes bounds loose, and not wrong."""
    square = latin_square(5, 1)
    scores = square.unaries.reshape(25, 5).copy()
    results = []
    for value in (low, -np.inf):
        scores[7, 2] = value
        edges, table = square.edges, square.tables[0]
        run, _ = packed(FactorGraph(scores, edges, table))
        results.append((run.score, run.bound))
    if low > -1e9:
        assert results[0][0] == results[1][0]
    assert results[0][1] >= results[1][0]


@pytest.mark.parametrize("seed", range(5))
def test_a_better_labeling_than_the_known_one(seed):
    """Its states are not left out."""
    graph = latin_square(5, seed)
    best = packed(graph)[0].score
    reduced = Reduced(graph)
    run = MAPRun(
        MAPProblem(reduced.graph, reduced.penalty), 1e-6, 1, None,
        np.random.RandomState(0), lowest=reduced.lowest,
    )  # fmt: skip
    cyclic = (np.arange(5)[:, None] + np.arange(5)) % 5
    run.offer(cyclic.reshape(-1).astype(np.int32))
    assert run.score < best
    Packing(reduced.plain).solve(run, run)
    assert run.score == best <= run.bound <= best + 1e-3


def test_a_state_whose_shortfall_is_nearly_that_of_the_known_labeling():
    unaries = [[10.0, 4.0, 0.0], [10.0, 0.0, 3.9]]
    graph = FactorGraph(unaries, [(0, 1)], DIFFERENT)
    reduced = Reduced(graph)
    run = MAPRun(
        MAPProblem(reduced.graph, reduced.penalty), 1e-6, 1, None,
        np.random.RandomState(0), lowest=reduced.lowest,
    )  # fmt: skip
    run.offer(np.array([0, 2], dtype=np.int32))
    Packing(reduced.plain).solve(run, run)
    assert run.labeling.tolist() == [1, 0] and run.score == 14.0


def test_a_labeling_that_is_known():
    """States that are in no better labeling are left out, and do not disturb."""
    graph = latin_square(5, 1)
    scores = graph.unaries.reshape(25, 5).copy()
    scores[7, 2] = -1e19
    graph = FactorGraph(scores, graph.edges, graph.tables[0])
    best = Auto().solve(graph, random_state=0)
    reduced = Reduced(graph)
    run = MAPRun(
        MAPProblem(reduced.graph, reduced.penalty), 1e-6, 1, None,
        np.random.RandomState(0), lowest=reduced.lowest,
    )  # fmt: skip
    run.offer(best.labeling)
    Packing(reduced.plain).solve(run, run)
    assert run.status == "optimal"
    assert run.score == best.score <= run.bound <= best.score + 1e-3


@pytest.mark.parametrize("scale", [1e-9, 1e-7, 1e-5, 1e9])
def test_bounds_at_every_scale(scale):
    for seed in range(6):
        square = latin_square(4, seed)
        scores = scale * square.unaries.reshape(16, 4)
        run, _ = packed(FactorGraph(scores, square.edges, square.tables[0]))
        exact, _ = packed(square)
        assert run.bound >= scale * exact.score * (1.0 - 1e-15)
        assert run.bound <= scale * (exact.score + 1e-3)
