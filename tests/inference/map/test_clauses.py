"""Constraints as clauses, against enumeration, and in the default solver."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest

from sksstruct.factor_graphs import FactorGraph, Logic
from sksstruct.inference.map import Auto
from sksstruct.inference.map.clauses import constraints as constraints_module
from sksstruct.inference.map.clauses import search as search_module
from sksstruct.inference.map.clauses.constraints import Constraints
from sksstruct.inference.map.clauses.search import ClauseSearch

CONDITIONS = ("xor", "atmostone", "or", "orout", "xorout")
ENOUGH = 10**8


def table_of(rng, shape, share):
    """A table with a share of -inf, and one finite entry at least."""
    values = np.where(rng.random(shape) < share, -np.inf, 0.0)
    values.flat[rng.integers(values.size)] = 0.0
    return values


def random_graph(seed):
    """A graph of few labelings, about half of which have no allowed one."""
    rng = np.random.default_rng(seed)
    n, share = int(rng.integers(2, 7)), rng.choice([0.2, 0.5, 0.8])
    states = np.full(n, 2) if seed % 3 == 0 else rng.integers(1, 5, size=n)
    unaries = [table_of(rng, k, 0.2) for k in states]
    edges = [pair for pair in combinations(range(n), 2) if rng.random() < 0.7]
    tables = [table_of(rng, states[list(pair)], share) for pair in edges]
    factors = []
    for scope in combinations(range(n), 3):
        if rng.random() > 0.1:
            continue
        if seed % 3:
            factors.append((scope, table_of(rng, states[list(scope)], 0.7 * share)))
        else:
            negated = rng.random(3) < 0.3
            factors.append((scope, Logic(rng.choice(CONDITIONS), 3, negated=negated)))
    return FactorGraph(unaries, edges, tables, factors=factors), rng


def has_allowed(graph):
    """Whether a labeling has no score of -inf, by enumeration."""
    labelings = product(*map(range, graph.n_states.tolist()))
    return any(graph.score(np.array(y)) > -np.inf for y in labelings)


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_an_allowed_labeling_or_none(first):
    outcomes = []
    for seed in range(first, first + 100):
        graph, rng = random_graph(seed)
        found = Constraints(graph, rng.integers(0, graph.n_states))
        allowed = has_allowed(graph)
        outcomes.append(allowed)
        if not found.exist:
            assert allowed
            continue
        labeling = found.advance(ENOUGH)
        assert (labeling is None) == found.infeasible == (not allowed)
        if not allowed:
            continue
        assert graph.score(labeling) > -np.inf
        # again, with what was learned, and from a labeling that is allowed
        found.prefer(labeling)
        np.testing.assert_array_equal(found.advance(ENOUGH), labeling)
        found.prefer(rng.integers(0, graph.n_states))
        assert graph.score(found.advance(ENOUGH)) > -np.inf
    assert 20 < sum(outcomes) < 90


def n_models(constraints):
    """Number of assignments of truth values that satisfy the clauses."""
    arrays, n = constraints._search._arrays, len(constraints._search.values)
    begin = arrays.begin[: constraints._search.n_clauses + 1]
    values = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    holds = np.ones(2**n, dtype=bool)
    for first, end in pairwise(begin.tolist()):
        clause = arrays.literals[first:end]
        holds &= (values[:, clause >> 1] != (clause & 1)).any(axis=1)
    return int(holds.sum())


def test_clauses_say_what_constraints_say():
    """Each allowed labeling is one assignment of truth values, and no other is."""
    compared = 0
    for seed in range(200):
        graph, _ = random_graph(seed)
        found = Constraints(graph, np.zeros(graph.n_variables, dtype=int))
        if not found.exist or len(found._search.values) > 11:
            continue
        labelings = product(*map(range, graph.n_states.tolist()))
        allowed = sum(graph.score(np.array(y)) > -np.inf for y in labelings)
        assert n_models(found) == allowed
        compared += 1
    assert compared > 50


def three_literals(n, n_clauses, seed):
    """Random clauses of three variables, as literals."""
    rng = np.random.default_rng(seed)
    rows = [rng.choice(n, 3, replace=False) for _ in range(n_clauses)]
    return (2 * np.array(rows) + rng.integers(2, size=(n_clauses, 3))).astype(np.int32)


@pytest.mark.parametrize("room", [None, 10])
def test_clauses_of_three_literals(room, monkeypatch):
    """As many as make half of the sets contradict themselves; memory may be short."""
    n, answers, conflicts = 14, [], 0
    if room is not None:
        monkeypatch.setattr(search_module, "_LEAST_LEARNED", room)
        monkeypatch.setattr(search_module, "_LEARNED", 0.0)
        monkeypatch.setattr(search_module, "_MOST_LITERALS", 1)
    values = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    for seed in range(60):
        clauses = three_literals(n, 62, seed)
        holds = values[:, clauses >> 1] != (clauses & 1)
        expected = holds.any(axis=2).all(axis=1).any()
        first = np.arange(0, 3 * len(clauses) + 1, 3)
        search = ClauseSearch(n, first, clauses.ravel(), np.ones(n, dtype=bool))
        assert search.advance(ENOUGH) == expected
        assert search.unsatisfiable != expected
        if expected:
            found = search.values[clauses >> 1] != (clauses & 1)
            assert found.any(axis=1).all()
        answers.append(expected)
        conflicts += search.n_conflicts
    assert 10 < sum(answers) < 50 and conflicts > 300


def pigeons(n_pigeons, n_holes):
    """Pigeons in holes, at most one in each."""
    differ = np.where(np.eye(n_holes) == 1, -np.inf, 0.0)
    pairs = list(combinations(range(n_pigeons), 2))
    return FactorGraph(np.zeros((n_pigeons, n_holes)), pairs, differ)


def test_forgetting_what_was_learned(monkeypatch):
    """A proof of thousands of conflicts, with room for few learned clauses."""
    monkeypatch.setattr(search_module, "_LEAST_LEARNED", 200)
    monkeypatch.setattr(search_module, "_LEARNED", 0.0)
    found = Constraints(pigeons(7, 6), np.zeros(7, dtype=int))
    assert found.advance(ENOUGH) is None and found.infeasible
    assert found._search.n_conflicts > 5000
    again = Constraints(pigeons(6, 6), np.zeros(6, dtype=int))
    assert sorted(again.advance(ENOUGH)) == list(range(6))


def test_a_search_in_parts_is_the_same():
    graph = pigeons(7, 6)
    whole, parts = (Constraints(graph, np.zeros(7, dtype=int)) for _ in range(2))
    whole.advance(ENOUGH)
    n_parts = 0
    while not parts.infeasible:
        assert parts.advance(1000) is None
        n_parts += 1
    assert n_parts > 5
    assert parts.work == whole.work
    assert parts._search.n_conflicts == whole._search.n_conflicts


def test_none_and_too_many(monkeypatch):
    free = FactorGraph(np.zeros((3, 2)), [(0, 1)], np.zeros((2, 2)))
    assert not Constraints(free, np.zeros(3, dtype=int)).exist
    # conditions that are left out
    budget = FactorGraph(
        np.zeros((3, 2)), factors=[((0, 1, 2), Logic("budget", 3, limit=1))]
    )
    assert not Constraints(budget, np.zeros(3, dtype=int)).exist
    wide = FactorGraph(
        np.zeros((5000, 2)), factors=[(range(5000), Logic("atmostone", 5000))]
    )
    assert not Constraints(wide, np.zeros(5000, dtype=int)).exist
    monkeypatch.setattr(constraints_module, "_MOST_LITERALS", 10)
    assert not Constraints(pigeons(4, 4), np.zeros(4, dtype=int)).exist


def colors(size, more):
    """A grid whose neighbors differ in three states, with random scores."""
    of = np.arange(size * size).reshape(size, size)
    edges = [*zip(of[:-1].ravel(), of[1:].ravel(), strict=True)]
    edges += [*zip(of[:, :-1].ravel(), of[:, 1:].ravel(), strict=True), *more]
    differ = np.where(np.eye(3) == 1, -np.inf, 0.0)
    scores = np.random.default_rng(0).normal(size=(size * size, 3))
    return FactorGraph(scores, edges, differ)


class TestAuto:
    def test_a_planning_problem(self, data_home):
        from sksstruct.datasets import load_uai

        graph = load_uai(data_home / "uai/logistics_a.uai.gz")
        result = Auto().solve(graph, random_state=0)
        assert (result.score, result.status) == (0.0, "optimal")
        assert result.plan_[1] == "clauses that learn from conflicts: satisfied"

    def test_no_labeling(self):
        # three colors for a grid in which four neighbors are all adjacent
        graph = colors(14, [(0, 15), (1, 14)])
        result = Auto().solve(graph, random_state=0)
        assert (result.status, result.score) == ("infeasible", -np.inf)
        assert "contradict" in result.plan_[-1]

    def test_scores_decide_among_allowed_labelings(self):
        """A grid of three colors; the best coloring is that of branch and bound."""
        graph = colors(5, [])
        result = Auto().solve(graph, random_state=0)
        other = Auto(effort=0.0).solve(graph, random_state=0)
        assert result.status == "optimal" and result.score >= other.score > -np.inf
