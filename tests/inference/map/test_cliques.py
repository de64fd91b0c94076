"""Constraints of pairs that are joined to cliques: a tighter bound for the same."""

from itertools import combinations, product

import numpy as np
import pytest
from map_graphs import enumerate_labelings, slow_scores
from scipy.optimize import Bounds, LinearConstraint, milp

from sksstruct.factor_graphs import FactorGraph, Logic
from sksstruct.inference.map import Auto, BranchAndBound, HiGHS, auto
from sksstruct.inference.map.core import _cliques
from sksstruct.inference.map.core._cliques import Cliques
from sksstruct.inference.map.core._reduce import Reduced
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.core.run import MAPRun, WithoutCliques
from sksstruct.inference.map.local_search._rounds import RoundSearch


def excluding(state, other):
    """A table that forbids a pair of states."""
    table = np.zeros((2, 2))
    table[state, other] = -np.inf
    return table


def conflicts(rng, n, cliques, soft=0, weights=False):
    """A graph whose cliques are of random states, one of each variable."""
    taken = rng.integers(2, size=n)
    edges, tables = [], []
    for clique in cliques:
        for i, a in enumerate(clique):
            for b in clique[:i]:
                edges.append((a, b))
                tables.append(excluding(taken[a], taken[b]))
    for _ in range(soft):
        edges.append(tuple(rng.choice(n, 2, replace=False)))
        tables.append(rng.normal(size=(2, 2)))
    return FactorGraph(
        rng.normal(size=(n, 2)),
        edges,
        tables,
        edge_weights=rng.uniform(0.5, 2, len(edges)) if weights else None,
    )


def auction(n_bids, n_goods, seed):
    """Bids on several goods each: values, and who wants each good."""
    rng = np.random.default_rng(seed)
    wants = np.zeros((n_goods, n_bids), dtype=bool)
    for bid in range(n_bids):
        wants[rng.choice(n_goods, rng.integers(2, 6), replace=False), bid] = True
    return wants.sum(axis=0) ** 1.2 * rng.uniform(0.8, 1.2, n_bids), wants


@pytest.mark.slow
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_the_graph(seed, weights):
    rng = np.random.default_rng(seed)
    sets = [rng.choice(6, size, replace=False) for size in (4, 5)]
    graph = conflicts(rng, 6, sets, soft=3, weights=weights)
    cliques = Cliques(graph)
    assert cliques.n > 0 and cliques.graph.n_edges < graph.n_edges
    tail = list(product(*map(range, cliques.graph.n_states[6:])))
    for x in product(range(2), repeat=6):
        score = graph.score(x)
        extended = cliques.extend(np.array(x, dtype=np.int32))
        assert cliques.graph.score(extended) == pytest.approx(score)
        # only one state of the new variables is allowed
        others = [cliques.graph.score([*x, *states]) for states in tail]
        assert max(others) == pytest.approx(score)
        assert np.isfinite(others).sum() == np.isfinite(score)


def with_conditions(rng, n, sizes):
    """Conditions on many variables, some negated, that a labeling satisfies."""
    labeling = np.zeros(n, dtype=int)
    labeling[rng.choice(n, 3, replace=False)] = 1
    edges = [tuple(rng.choice(n, 2, replace=False)) for _ in range(4)]
    factors = []
    for k, size in enumerate(sizes):
        scope = rng.choice(n, size, replace=False)
        # of which one variable is on, by the labeling
        negated = labeling[scope] == 1
        negated[rng.integers(size)] ^= True
        kind = ("xor", "atmostone", "or")[k % 3]
        factors.append((scope, Logic(kind, size, negated=negated)))
    tables = list(rng.normal(size=(4, 2, 2)))
    return FactorGraph(rng.normal(size=(n, 2)), edges, tables, factors=factors)


@pytest.mark.slow
@pytest.mark.parametrize("eliminates", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_conditions_of_many_variables(seed, eliminates, monkeypatch):
    rng = np.random.default_rng(seed)
    graph = with_conditions(rng, 12, (8, 8, 8, 4))
    cliques = Cliques(graph)
    # another condition, and a small one, stay
    assert cliques.n == 2 and cliques.graph.n_factors == 2
    labelings, scores = enumerate_labelings(graph)
    assert scores.max() > -np.inf
    extended = np.array([cliques.extend(x.astype(np.int32)) for x in labelings])
    np.testing.assert_allclose(slow_scores(cliques.graph, extended), scores)
    # no other states of the cliques are better
    for states in product(*map(range, cliques.graph.n_states[12:])):
        extended[:, 12:] = states
        others = slow_scores(cliques.graph, extended)
        assert (np.isclose(others, scores) | (others == -np.inf)).all()
    if not eliminates:
        monkeypatch.setattr(auto, "_ELIMINATE", 0)
    for solver in (Auto(), BranchAndBound()):
        result = solver.solve(graph, random_state=0)
        assert result.status == "optimal"
        assert result.labeling.tolist() == labelings[scores.argmax()].tolist()


@pytest.mark.parametrize("kind, taken", [("xor", 1), ("atmostone", 0)])
def test_whether_one_has_to_be_taken(kind, taken):
    scores = np.zeros((8, 2))
    scores[:, 1] = -1.0
    graph = FactorGraph(scores, factors=[(range(8), Logic(kind, 8))])
    cliques = Cliques(graph)
    none = cliques.extend(np.zeros(8, dtype=np.int32))
    assert cliques.graph.score(none) == (-np.inf if taken else 0.0)
    result = Auto().solve(graph, random_state=0)
    assert (result.labeling.sum(), result.status) == (taken, "optimal")


def test_cliques_are_no_domains_of_many_states():
    scores = np.random.default_rng(0).normal(size=(150, 2))
    graph = FactorGraph(scores, factors=[(range(150), Logic("xor", 150))])
    result = Auto().solve(graph, random_state=0)
    assert result.plan_ == [
        "cliques instead of constraints: 1",
        "clauses that learn from conflicts: satisfied",
        "TRW-S",
    ]
    gains = scores[:, 1] - scores[:, 0]
    assert result.score == pytest.approx(scores[:, 0].sum() + gains.max())


def test_assignments_with_scores_of_pairs():
    # tables of conditions of 14 variables would be too large for branch and bound
    n, rng = 14, np.random.default_rng(0)
    of = np.arange(n * n).reshape(n, n)
    scores = np.zeros((n * n, 2))
    scores[:, 1] = rng.random(n * n)
    edges = np.stack([of[:-1, :-1].ravel(), of[1:, 1:].ravel()], axis=1)
    factors = [(row, Logic("xor", n)) for row in of]
    factors += [(column, Logic("atmostone", n)) for column in of.T]
    graph = FactorGraph(scores, edges, [[0, 0], [0, 0.3]], factors=factors)
    result = Auto().solve(graph, random_state=0)
    other = HiGHS().solve(graph)
    assert result.status == other.status == "optimal"
    assert result.score == pytest.approx(other.score)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [Auto(), BranchAndBound()])
@pytest.mark.parametrize("seed", range(6))
def test_solutions_are_optimal(seed, solver):
    rng = np.random.default_rng(seed)
    sets = [rng.choice(10, size, replace=False) for size in (6, 5, 5)]
    graph = conflicts(rng, 10, sets, soft=6)
    assert Cliques(graph).n
    if seed % 2:
        graph = graph.with_evidence({3: 1, 7: 0})
    states = [[x] if x >= 0 else [0, 1] for x in graph.evidence]
    optimum = max(graph.score(x) for x in product(*states))
    result = solver.solve(graph, random_state=0)
    assert result.status == "optimal" and len(result.labeling) == 10
    assert result.score == pytest.approx(optimum) == graph.score(result.labeling)
    assert optimum <= result.bound <= optimum + 1e-5
    if result.marginals is not None:
        assert list(map(len, result.marginals)) == [2] * 10


def test_the_relaxation_is_tight():
    """Of bids for the same good, the pairs would allow one half of each."""
    n = 7
    edges = [(a, b) for a in range(n) for b in range(a)]
    graph = FactorGraph([[0.0, 1.0]] * n, edges, excluding(1, 1))
    pairs = HiGHS(relaxed=True).solve(graph)
    assert pairs.bound == pytest.approx(n / 2)
    joined = HiGHS(relaxed=True).solve(Cliques(graph).graph)
    assert joined.bound == pytest.approx(1.0)


def test_auctions_are_proved():
    """Which the pairs alone leave far from the bound; against integer programming."""
    values, wants = auction(60, 15, seed=0)
    edges = np.argwhere(np.triu(wants.T @ wants, 1))
    unaries = np.stack([np.zeros(60), values], axis=1)
    graph = FactorGraph(unaries, edges, excluding(1, 1))
    result = BranchAndBound().solve(graph, random_state=0)
    limits = LinearConstraint(wants.astype(float), -np.inf, 1.0)
    program = milp(-values, integrality=1, bounds=Bounds(0, 1), constraints=limits)
    assert result.status == "optimal"
    assert result.score == pytest.approx(-program.fun)


@pytest.mark.slow
def test_local_search_does_not_see_them(monkeypatch):
    values, wants = auction(80, 20, seed=2)
    edges = np.argwhere(np.triu(wants.T @ wants, 1))
    unaries = np.stack([np.zeros(80), values], axis=1)
    graph = FactorGraph(unaries, edges, excluding(1, 1))
    reduced = Reduced(graph, joins=True)
    problem = MAPProblem(reduced.graph, reduced.penalty)
    rng = np.random.RandomState(0)
    run = MAPRun(problem, 1e-6, 1, None, rng, lowest=reduced.lowest)
    run.offer(problem.best_states())
    before = run.score
    searched = WithoutCliques(run, reduced)
    assert searched.problem.n_variables == len(searched.labeling) == 80
    RoundSearch(searched).search(0.1)
    assert run.score > before and run.score >= run.lowest
    assert run.score == pytest.approx(problem.labeling_score(run.labeling))
    assert run.score == pytest.approx(graph.score(searched.labeling))

    class Recorder(RoundSearch):
        def __init__(self, run, *rest):
            sizes.append(run.problem.n_variables)
            super().__init__(run, *rest)

    sizes = []
    monkeypatch.setattr(auto, "RoundSearch", Recorder)
    monkeypatch.setattr(auto, "_ELIMINATE", 0)
    Auto().solve(graph, random_state=0)
    assert sizes == [80]


def test_a_search_that_takes_long_ends(monkeypatch):
    values, wants = auction(60, 15, seed=1)
    edges = np.argwhere(np.triu(wants.T @ wants, 1))
    unaries = np.stack([np.zeros(60), values], axis=1)
    graph = FactorGraph(unaries, edges, excluding(1, 1))
    n_all = Cliques(graph).n
    monkeypatch.setattr(_cliques, "_MOST_WORK", 300)
    cliques = Cliques(graph)
    assert 0 < cliques.n < n_all
    for seed in range(20):
        # one bid or two
        chosen = np.random.default_rng(seed).choice(60, 1 + seed % 2, replace=False)
        x = np.bincount(chosen, minlength=60)
        assert cliques.graph.score(cliques.extend(x)) == pytest.approx(graph.score(x))


def test_two_that_must_be_taken():
    unaries = np.zeros((5, 2))
    unaries[[1, 3], 0] = -np.inf
    edges = [(a, b) for a in range(5) for b in range(a)]
    # two variables that are forced are removed before there are cliques
    result = Auto().solve(FactorGraph(unaries, edges, excluding(1, 1)), random_state=0)
    assert result.status == "infeasible"
    graph = FactorGraph(np.zeros((5, 2)), edges, excluding(1, 1))
    cliques = Cliques(graph)
    assert cliques.graph.score(cliques.extend(np.array([1, 0, 0, 1, 0]))) == -np.inf


def test_what_is_no_clique_stays():
    n = 4
    edges = [(a, b) for a in range(n) for b in range(a)]
    different = np.where(np.eye(3, dtype=bool), -np.inf, 0.0)
    costly = excluding(1, 1) + 0.5 * np.eye(2)[::-1]
    for graph in (
        FactorGraph(np.zeros((n, 3)), edges, different),
        FactorGraph(np.zeros((n, 2)), edges, costly),
        FactorGraph(np.zeros((n, 2)), edges, excluding(1, 1) + excluding(0, 0)),
        # a ring has no clique, and three of four variables are too few
        FactorGraph(np.zeros((n, 2)), [(0, 1), (1, 2), (2, 3)], excluding(1, 1)),
        FactorGraph(np.zeros((n, 2)), edges[:3], excluding(1, 1)),
    ):
        cliques = Cliques(graph)
        assert cliques.n == 0 and cliques.graph is graph


def test_a_clique_grows_by_pairs_that_no_other_one_has():
    """Three groups of states and one of seven are covered by four cliques, not five."""
    groups = [
        (2, 3, 8, 10, 11, 15), (1, 6, 11, 12, 13, 15), (1, 2, 10, 12, 13, 14),
        (0, 5, 7, 9, 10, 11, 15),
    ]  # fmt: skip
    pairs = sorted({pair for group in groups for pair in combinations(group, 2)})
    found = _cliques.cover(np.array(pairs), 4)[0]
    assert sorted(tuple(sorted(each)) for each in found) == sorted(groups)
