"""CP-SAT: the same optima, bounds that hold, and limits."""

import sys
import threading
import time
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from map_graphs import best_score, random_graph

from sksstruct import LPMAPPredictor
from sksstruct.factor_graphs import FactorGraph, Logic, Potts
from sksstruct.inference.map import CPSAT
from sksstruct.inference.map._integer_costs import IntegerCosts
from sksstruct.inference.map.core._reduce import Reduced
from sksstruct.inference.map.core.problem import MAPProblem


def test_it_is_asked_for(monkeypatch):
    """An error that says what to install, before any work."""
    monkeypatch.setitem(sys.modules, "ortools", None)
    with pytest.raises(ImportError, match=r"pip install 'sksstruct\[cp_sat\]'"):
        LPMAPPredictor("cp_sat").fit()


KINDS = {
    "plain": {}, "infinite": {"infinite": 0.2}, "evidence": {"evidence": 2},
    "hard": {"integers": True, "infinite": 0.4}, "logic": {"logic": 4},
    "parametric": {"parametric": True, "weights": True},
    "factors": {"factors": 4, "infinite": 0.1},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_optima(kind):
    pytest.importorskip("ortools")
    for seed in range(6):
        graph = random_graph(np.random.default_rng(seed), **KINDS[kind])
        result = CPSAT().solve(graph, random_state=0)
        best = best_score(graph)
        if best == -np.inf:
            assert result.status == "infeasible"
        else:
            assert result.status == "optimal"
            assert result.score == pytest.approx(best)
            assert best - 1e-9 <= result.bound <= best + 1e-6 * max(1.0, abs(best))


@pytest.mark.parametrize("condition", Logic.conditions)
def test_conditions(condition):
    pytest.importorskip("ortools")
    limit = 2 if condition == "budget" else None
    for seed in range(4):
        rng = np.random.default_rng(seed)
        table = Logic(condition, 5, rng.random(5) < 0.3, limit)
        graph = FactorGraph(rng.normal(size=(5, 2)), factors=[(range(5), table)])
        result = CPSAT().solve(graph, random_state=0)
        assert result.status == "optimal"
        assert result.score == pytest.approx(best_score(graph))


def test_limits():
    pytest.importorskip("ortools")
    rng = np.random.default_rng(0)
    graph = random_graph(rng, n=80, m=600, states=(4, 6))
    started = time.perf_counter()
    result = CPSAT().solve(graph, max_seconds=1.0, random_state=0)
    assert time.perf_counter() - started < 5.0
    assert result.status == "time_limit"
    assert graph.score(result.labeling) == pytest.approx(result.score)
    assert result.score <= result.bound


def test_a_late_thread_is_told_to_stop():
    pytest.importorskip("ortools")
    graph = random_graph(np.random.default_rng(0), n=80, m=600, states=(4, 6))
    before = threading.active_count()
    CPSAT().solve(graph, max_seconds=0.05, random_state=0)
    end = time.perf_counter() + 20.0
    while threading.active_count() > before and time.perf_counter() < end:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_large_tables_are_refused():
    pytest.importorskip("ortools")
    edges = [(0, v) for v in range(1, 80)]
    graph = FactorGraph(np.zeros((80, 1000)), edges, Potts(1000))
    with pytest.raises(ValueError, match="CP-SAT needs all tables written out"):
        CPSAT().solve(graph)


@pytest.mark.parametrize("largest", [1.0, 1e3, 1e17])
def test_costs_bound_scores(largest):
    """Rounded down: the score of a cost is never below that of its labeling."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        edges = [(0, 1), (1, 2), (2, 3), (3, 0)]
        tables = largest * rng.normal(size=(4, 3, 3))
        tables[rng.random(tables.shape) < 0.2 * (seed % 2)] = -np.inf
        graph = FactorGraph(largest * rng.normal(size=(4, 3)), edges, tables)
        reduced = Reduced(graph)
        if not reduced.feasible:
            continue
        problem = MAPProblem(reduced.graph, reduced.penalty)
        costs = IntegerCosts(problem, 1e-6)
        lowest = reduced.lowest - reduced.offset if reduced.penalty else -np.inf
        for x in product(*map(range, reduced.graph.n_states.tolist())):
            total = sum(
                int(table[tuple(x[v] for v in scope)])
                for scope, table in costs.tables()
            )
            score = problem.labeling_score(np.array(x, dtype=np.int32))
            if score >= lowest:
                assert total < costs.top
                assert costs.score(total) >= score - 1e-12 * abs(score)
            else:
                assert total >= costs.top


def test_no_allowed_entry_costs_as_much_as_a_forbidden_one():
    """Large scores: one more than the spread of all is the spread, as a float."""
    graph = FactorGraph([[0.0, -1e17]])
    costs = IntegerCosts(MAPProblem(graph, 0.0), 1e-6)
    ((_, table),) = costs.tables()
    assert table.max() < costs.top


def test_an_interrupt_stops_the_solver(monkeypatch):
    pytest.importorskip("ortools")
    stopped = []

    def solve(self, run, costs, incumbents, solvers):
        solvers.append(SimpleNamespace(stop_search=lambda: stopped.append(True)))
        raise KeyboardInterrupt

    monkeypatch.setattr(CPSAT, "_solve", solve)
    with pytest.raises(KeyboardInterrupt):
        CPSAT().solve(FactorGraph([[0.0, 1.0]]))
    assert stopped == [True]
