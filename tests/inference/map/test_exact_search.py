"""Branch and bound: its costs, its propagation, and its proofs."""

import itertools
import os
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_graphs import all_costs, best_score, random_graph

from sksstruct import LPMAPPredictor
from sksstruct.factor_graphs import FactorGraph, Logic, Potts
from sksstruct.inference.map import MAP_SOLVERS, Auto, BranchAndBound, HiGHS
from sksstruct.inference.map._local_polytope import program, program_size
from sksstruct.inference.map.branch_and_bound import _best_first, _simplify
from sksstruct.inference.map.branch_and_bound._best_first import Component
from sksstruct.inference.map.branch_and_bound._simplify import Simplified
from sksstruct.inference.map.branch_and_bound._terms import FORBIDDEN, labeling_cost
from sksstruct.inference.map.branch_and_bound.exact_search import ExactSearch
from sksstruct.inference.map.branch_and_bound.network import Network
from sksstruct.inference.map.branch_and_bound.search import ROOT, DepthFirst, Path
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.core.run import MAPRun
from sksstruct.inference.map.message_passing.sweeps import TreeReweighted

LIMIT = 10**6


def random_network(rng, n=6, n_factors=9, n_values=4, arity=3, forbidden=0.15):
    """Costs of variables and factors, a few of them forbidden."""
    sizes = rng.integers(1, n_values + 1, n)
    unaries = [rng.integers(0, 20, k) for k in sizes]
    tables = {}
    for _ in range(n_factors):
        scope = tuple(sorted(rng.choice(n, rng.integers(2, arity + 1), replace=False)))
        table = rng.integers(0, 30, sizes[list(scope)])
        table[rng.random(table.shape) < forbidden] = FORBIDDEN
        tables[tuple(int(v) for v in scope)] = table
    return unaries, list(tables), list(tables.values())


@pytest.mark.parametrize("seed", range(25))
def test_moving_costs_keeps_them(seed):
    """What consistency and sweeps leave has the same costs, and removes no optimum."""
    rng = np.random.default_rng(seed)
    unaries, scopes, tables = random_network(rng)
    costs = all_costs(unaries, scopes, tables)
    least = min(costs.values())
    limit = least + 5 if least < FORBIDDEN else LIMIT
    network = Network(unaries, scopes, tables, limit)
    network.wake_all()
    possible = network.make_consistent()
    for backward in (False, True):
        possible = possible and network.sweep(backward)
    if not possible:
        assert least >= FORBIDDEN
        return
    values, left, factors = network.export()
    assert network.c0 <= least
    for x, cost in costs.items():
        inside = all(k in keep for k, keep in zip(x, values, strict=True))
        assert inside or cost >= limit
        if inside and cost < limit:
            places = [
                np.searchsorted(keep, k) for keep, k in zip(values, x, strict=True)
            ]
            again = labeling_cost(left, scopes, factors, places)
            assert again + network.c0 == cost
    assert all(row.min() >= 0 for row in (*left, *factors))


@pytest.mark.parametrize("seed", range(25))
def test_elimination_keeps_the_least_cost(seed):
    rng = np.random.default_rng(seed)
    unaries, scopes, tables = random_network(rng, n=7, n_factors=7, forbidden=0.0)
    costs = all_costs(unaries, scopes, tables)
    network = Network(unaries, scopes, tables, LIMIT)
    left = Simplified(network, scopes)
    best, parts = left.constant, []
    for _, *terms in left.components:
        part = all_costs(*terms)
        parts.append(min(part, key=part.get))
        best += part[parts[-1]]
    assert best == min(costs.values())
    assert costs[tuple(left.complete(parts).tolist())] == best


@cache
def hard_network(seed):
    """A network, and its least cost."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, n=8, n_factors=18)
    return *network, min(all_costs(*network).values())


@pytest.mark.parametrize("work", [1, 10**9])
@pytest.mark.parametrize("seed", range(15))
def test_depth_first_can_be_interrupted(seed, work):
    """In small pieces, with open nodes handed out and taken up in between."""
    unaries, scopes, tables, least = hard_network(seed)
    network = Network(unaries, scopes, tables, LIMIT)
    network.wake_all()
    if not network.make_consistent():
        assert least >= FORBIDDEN
        return
    search = DepthFirst(network, np.zeros(8))
    nodes = [(0, ROOT)]
    while nodes:
        bound, path = nodes.pop()
        if bound >= network.limit:
            continue
        search.start(path)
        if search.run(work, 1):
            nodes += search.open_nodes()
    assert search.found == (least < FORBIDDEN)
    if search.found:
        x = search.labeling.tolist()
        assert search.best_cost == least
        assert labeling_cost(unaries, scopes, tables, x) == least


def test_paths_share_the_decisions_above():
    first = Path(ROOT, (4, [1], True))
    paths = [Path(first, (k, [0], False)) for k in range(3)]
    for k, path in enumerate(paths):
        assert path.length == 2
        assert path.above is first
        assert path.decisions() == [(4, [1], True), (k, [0], False)]
    assert ROOT.decisions() == []
    # as deep as the largest graphs: they are freed one after the other
    for k in range(300_000):
        first = Path(first, k)
    assert first.length == 300_001
    del first


@pytest.mark.slow
@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6), infinite=st.sampled_from([0.0, 0.1, 0.4]),
    integers=st.booleans(), factors=st.integers(0, 4), logic=st.integers(0, 2),
    weights=st.booleans(), parametric=st.booleans(), evidence=st.integers(0, 2),
)  # fmt: skip
def test_proves_the_best(
    seed, infinite, integers, factors, logic, weights, parametric, evidence
):
    graph = random_graph(
        np.random.default_rng(seed), m=9, infinite=infinite, integers=integers,
        factors=factors, logic=logic, weights=weights, parametric=parametric,
        evidence=evidence,
    )  # fmt: skip
    best = best_score(graph)
    for solver in (BranchAndBound(), Auto()):
        result = solver.solve(graph, random_state=0)
        if best == -np.inf:
            assert result.status == "infeasible"
            continue
        tol = 1e-6 * max(1.0, abs(best))
        assert result.status == "optimal"
        assert best - tol <= result.score <= best + 1e-9
        assert result.bound >= best - 1e-9


def sparse(seed, n=20):
    """Few factors of up to four variables, and a labeling that costs nothing."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, n)
    planted, factors = [int(rng.integers(k)) for k in sizes], []
    for _ in range(n):
        scope = rng.choice(n, rng.integers(2, 5), replace=False)
        some = rng.random(sizes[scope]) < 0.3
        soft = rng.integers(1, 30, some.shape)
        hard = np.where(rng.random(some.shape) < 0.7, np.inf, soft)
        costs = np.where(some, [soft, np.ones(some.shape), hard][rng.integers(3)], 0.0)
        costs[tuple(planted[v] for v in scope)] = 0.0
        factors.append((scope, -costs))
    return FactorGraph([np.zeros(k) for k in sizes], factors=factors)


@pytest.mark.slow
def test_a_labeling_at_the_limit_proves_nothing():
    """Its cost at the root is not exact, and said that none is better."""
    for seed in range(60):
        graph = sparse(seed)
        assert BranchAndBound().solve(graph, random_state=0).score == 0.0, seed


@pytest.mark.parametrize("start", [[0, 0], [1, 1], None])
def test_components_search_below_their_limit(start):
    """Whatever a labeling at the limit seems to cost; whole numbers are in hundreds."""
    terms = [np.array([0, 0])] * 2, [(0, 1)], [np.array([[101, 100], [100, 300]])]
    part = Component(*terms, 101, 100, start, lambda: False)
    while not part.closed:
        part.advance(10)
    assert part.cost == part.bound == 100
    assert labeling_cost(*terms, part.best.tolist()) == 100


def proved(graph, start, sweeps):
    """Score and bound of a search from a labeling, after some sweeps of messages."""
    problem = MAPProblem(graph)
    run = MAPRun(
        problem, 1e-6, np.inf, None, np.random.RandomState(0), offset=graph.offset
    )
    run.offer(start)
    if sweeps:
        run.messages = TreeReweighted(problem)
    for k in range(sweeps):
        run.report(bound=run.messages.sweep(k % 2 == 1))
    search = ExactSearch(run)
    while run.status is None and not search.closed:
        search.advance(10**6)
    return run.score + graph.offset, run.bound + graph.offset


def test_bounds_of_components_that_close_within_a_grain(monkeypatch):
    """The labeling of a closed component may miss the best one by less than a grain."""
    # components are searched, and not eliminated
    monkeypatch.setattr(_simplify, "_NEIGHBORS", 0)
    monkeypatch.setattr(_best_first, "sweep_until_stalled", lambda network, late: True)
    pairs = np.array([(u, v) for u in range(4) for v in range(u)])
    edges = np.concatenate([pairs, pairs + 4, pairs + 8])
    # a grain is a quarter of the tolerance
    tol, n_open = 6.0, 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        tables = rng.choice(np.array([0, -0.1, -0.25, -0.3, -0.6]), (len(edges), 2, 2))
        graph = FactorGraph(np.zeros((12, 2)), edges, tables)
        run = MAPRun(MAPProblem(graph), tol, np.inf, None, np.random.RandomState(0))
        run.offer(rng.integers(2, size=12).astype(np.int32))
        search = ExactSearch(run)
        n_open += not search.closed
        while run.status is None and not search.closed:
            search.advance(1)
        best = sum(
            best_score(FactorGraph(np.zeros((4, 2)), pairs, part))
            for part in np.split(tables, 3)
        )
        assert run.bound >= best - 1e-9, seed
    assert n_open


@pytest.mark.slow
@pytest.mark.parametrize(
    "numbers, shifts, sweeps",
    [([0, -1, -2, -3], [0, 1, 10**6, -(10**9)], 3), ([0, -0.1], [1e9, -1e9], 0)],
)
def test_sums_of_large_numbers_are_rounded(numbers, shifts, sweeps):
    """They are not whole; nor is what the known labeling misses, which they lose."""
    labelings = list(itertools.product(range(2), repeat=6))
    for seed in range(40):
        rng = np.random.default_rng(seed)
        factors, total = [], 0.0
        for _ in range(10):
            scope = rng.choice(6, rng.integers(2, 4), replace=False)
            table = rng.choice(np.array(numbers, dtype=np.float64), (2,) * len(scope))
            shift = rng.choice(shifts)
            total += shift
            # a best labeling that misses nothing
            if not sweeps:
                table.flat[0] = 0.0
            factors.append((scope, table + shift))
        graph = FactorGraph(np.zeros((6, 2)), factors=factors, offset=-total)
        scores = np.array([graph.score(x) for x in labelings])
        best = scores.max()
        second = scores[scores < best - 1e-3].max()
        for k in np.flatnonzero(abs(scores - second) < 1e-3)[:4]:
            score, bound = proved(graph, labelings[k], sweeps)
            assert min(score, bound) >= best - 1e-3, seed


@pytest.mark.slow
def test_many_values():
    """More than ten: halves of the domain are decided on."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n, k = 12, 24
        edges = np.array([e for e in itertools.combinations(range(n), 2)])
        edges = edges[rng.random(len(edges)) < 0.4]
        graph = FactorGraph(
            rng.integers(0, 3, (n, k)).astype(float),
            edges,
            -50.0 * (rng.random((len(edges), k, k)) < 0.5),
        )
        result = BranchAndBound().solve(graph, random_state=0)
        exact = HiGHS().solve(graph, random_state=0) if seed < 1 else None
        assert result.status == "optimal"
        assert graph.score(result.labeling) == result.score
        assert exact is None or result.score == pytest.approx(exact.score)
        # the same without halves to decide on: each labeling of a permuted domain
        order = rng.permutation(k)
        mixed = FactorGraph(
            [graph.unary(v)[order] for v in range(n)],
            edges,
            [graph.tables[t].dense()[np.ix_(order, order)] for t in graph.edge_tables],
        )
        assert BranchAndBound().solve(mixed, random_state=1).score == result.score


def coloring(n, edges, n_states):
    table = np.where(np.eye(n_states, dtype=bool), -np.inf, 0.0)
    return FactorGraph(np.zeros((n, n_states)), edges, table)


@pytest.mark.parametrize("solver", [BranchAndBound(), Auto()])
def test_infeasible_is_proved(solver):
    """Five variables that all differ, in four states; and with five states."""
    edges = list(itertools.combinations(range(5), 2))
    result = solver.solve(coloring(5, edges, 4), random_state=0)
    assert result.status == "infeasible"
    assert result.score == result.bound == -np.inf
    result = solver.solve(coloring(5, edges, 5), random_state=0)
    assert result.status == "optimal"
    assert sorted(result.labeling) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("n_loops", [1, 3])
def test_components_are_searched_on_their_own(n_loops):
    rng = np.random.default_rng(0)
    pairs = np.array(list(itertools.combinations(range(7), 2)))
    tables = rng.normal(size=(len(pairs), 3, 3))
    one = BranchAndBound().solve(FactorGraph(np.zeros((7, 3)), pairs, tables))
    edges = np.concatenate([pairs + 7 * k for k in range(n_loops)])
    graph = FactorGraph(
        np.zeros((7 * n_loops, 3)), edges, np.concatenate([tables] * n_loops)
    )
    result = BranchAndBound().solve(graph, random_state=0)
    assert result.status == "optimal"
    assert result.score == pytest.approx(n_loops * one.score)


def hard(n=30, k=5, seed=0):
    """Nothing but the search bounds it."""
    rng = np.random.default_rng(seed)
    edges = np.array(list(itertools.combinations(range(n), 2)))
    tables = -1.0 * rng.integers(0, 20, (len(edges), k, k))
    return FactorGraph(np.zeros((n, k)), edges, tables)


@pytest.mark.slow
def test_limits_and_repeats():
    graph = hard()
    results = [
        BranchAndBound(max_iter=2).solve(graph, random_state=0) for _ in range(2)
    ]
    assert results[0].status == "max_iter"
    assert results[0].n_iter == 2
    assert results[0].score < results[0].bound < 0.0
    assert results[0].score == results[1].score
    assert results[0].bound == results[1].bound
    assert (np.diff(results[0].trace["bound"]) <= 0).all()
    stopped = BranchAndBound().solve(graph, callback=lambda *_: True)
    assert stopped.status == "stopped"
    timed = BranchAndBound().solve(graph, max_seconds=0.3)
    assert timed.status == "time_limit"


def test_too_large_is_refused(monkeypatch):
    table = np.zeros((500, 500))
    graph = FactorGraph(np.zeros((2, 500)), [(0, 1)], table)
    memory = {"SC_PHYS_PAGES": 4 * 64 * 249_000, "SC_PAGE_SIZE": 1}
    monkeypatch.setattr(os, "sysconf", memory.get, raising=False)
    with pytest.raises(
        ValueError, match=r"2.5e\+05 entries, .* memory holds 2.49e\+05"
    ):
        BranchAndBound().solve(graph)
    memory["SC_PHYS_PAGES"] += 4 * 64 * 1001
    assert BranchAndBound().solve(graph).status == "optimal"
    condition = [(np.arange(20), Logic("or", 20))]
    with pytest.raises(ValueError, match=r"has 1\.049e\+06 entries, at most 4096"):
        BranchAndBound().solve(FactorGraph(np.zeros((20, 2)), factors=condition))


@pytest.mark.slow
def test_search_goes_on_after_sweeps_end():
    """Sweeps that end with max_iter do not end the local search with them."""
    graph = hard(n=20, k=4)
    short = Auto(max_iter=2, effort=0.0).solve(graph, random_state=0)
    found = Auto(max_iter=2, effort=0.1).solve(graph, random_state=0)
    assert found.plan_[:2] == ["TRW-S", "branch and bound"]
    assert "local search in turns with it" in found.plan_
    assert found.score >= short.score
    assert len(found.trace["score"]) > len(short.trace["score"]) + 2


def test_tolerance_is_that_of_the_best_labeling():
    """Penalties that are large numbers must not make it that of the first labeling."""
    rng, n = np.random.default_rng(112), 5
    edges = list(itertools.combinations(range(n), 2))
    tables = [
        1e6 * rng.choice([0, 1, -1], size=(3, 3)) + rng.normal(size=(3, 3)) * 0.01
        for _ in edges
    ]
    unary = rng.normal(size=(n, 3)) * 0.01
    graph = FactorGraph(unary, edges, tables)
    best = max(graph.score(x) for x in itertools.product(range(3), repeat=n))
    offset = -1e6 * round(best / 1e6)
    graph = FactorGraph(unary, edges, tables, offset=offset)
    result = BranchAndBound().solve(graph)
    assert result.score == pytest.approx(best + offset, abs=1e-6)
    assert result.bound >= best + offset - 1e-9


def test_components_share_the_tolerance():
    rng, unary, edges, tables = np.random.default_rng(0), [], [], []
    for part in range(30):
        unary += list(rng.normal(size=(6, 3)))
        for pair in itertools.combinations(range(6 * part, 6 * part + 6), 2):
            edges.append(pair)
            tables.append(rng.normal(size=(3, 3)))
    graph = FactorGraph(np.array(unary), edges, tables)
    precise = BranchAndBound(tol=1e-9).solve(graph)
    rough = BranchAndBound(tol=1e-2).solve(graph)
    assert precise.score - rough.score <= 1e-2 * abs(precise.score)
    assert rough.bound >= precise.score - 1e-9 * abs(precise.score)


@pytest.mark.parametrize("solver", ["mplp", "trws", "auto", "branch_and_bound"])
def test_penalties_are_no_small_difference(solver):
    """Whatever the offset, which the tolerance is relative to."""
    differ = np.array([[-np.inf, 0.0], [0.0, -np.inf]])
    tables = [differ, differ, np.array([[0.0, -1.0], [-1.0, 0.0]])]
    graph = FactorGraph(np.zeros((3, 2)), [(0, 1), (1, 2), (0, 2)], tables, offset=-1e9)
    result = MAP_SOLVERS[solver]().solve(graph)
    assert result.score == -1e9


@pytest.mark.parametrize("walls", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_steps_are_fine_enough_for_a_proof(seed, walls):
    # scores of ten millions, and a best one near 0
    rng = np.random.default_rng(seed)
    n, k = 7, 3
    edges = [(u, v) for v in range(n) for u in range(v)]
    tables, unaries = 1e7 * rng.normal(size=(len(edges), k, k)), np.zeros((n, k))
    if walls:
        tables = np.where(tables < 2e6, tables - 1e7, -0.01 * rng.random(tables.shape))
        tables[:, 0, 0] = -0.01 * rng.random(len(edges))
    graph = FactorGraph(unaries, edges, tables)
    if not walls:
        unaries[0] -= best_score(graph)
        graph = FactorGraph(unaries, edges, tables)
    result = BranchAndBound().solve(graph, random_state=0)
    best = best_score(graph)
    assert abs(best) < 1.0
    assert result.status == "optimal"
    assert result.score == pytest.approx(best, abs=1e-6)
    assert best - 1e-7 <= result.bound <= result.score + 1e-6


@pytest.mark.parametrize("n, k", [(3, 2), (6, 3)])
def test_no_tolerance_ends(n, k):
    """What is left is rounding, which no finer steps prove."""
    edges = list(itertools.combinations(range(n), 2))
    odd = [[0, 0.1], [0, 0.3], [0, 0.7]], [(0, 1), (1, 2), (2, 0)], Potts(2, -0.3)
    graphs = [FactorGraph(*odd)]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        tables = rng.normal(size=(len(edges), k, k))
        graphs.append(FactorGraph(rng.normal(size=(n, k)), edges, tables))
    for graph in graphs:
        result = BranchAndBound(tol=0.0).solve(graph, random_state=0)
        assert result.status in ("optimal", "stalled")
        assert result.score == pytest.approx(best_score(graph), abs=1e-12)
        assert result.gap <= 1e-9


@pytest.mark.parametrize("largest", [1e17, 1e20, 1e154])
@pytest.mark.parametrize("relaxed", [False, True])
def test_scores_that_highs_takes_for_infinite(relaxed, largest):
    table = np.array([[0.0, 3.0], [1.0, largest]])
    graph = FactorGraph([[0.0, -1.0], [2.0, 1.0]], [(0, 1)], table)
    result = HiGHS(relaxed=relaxed).solve(graph)
    assert result.status == "optimal"
    assert result.labeling.tolist() == [1, 1]
    assert result.score <= result.bound <= largest * (1 + 1e-6)


@pytest.mark.parametrize("kind", ["pairs", "factors", "conditions"])
def test_size_of_the_linear_program(kind):
    more = {"pairs": {}, "factors": {"factors": 4}, "conditions": {"logic": 6}}[kind]
    for seed in range(5):
        graph = random_graph(np.random.default_rng(seed), **more)
        _, rows, _, _ = program(graph)
        assert program_size(graph).tolist() == [*rows.shape, rows.nnz]


def test_linear_programs_that_are_too_large():
    """They are refused before memory is taken; the error has the size and a remedy."""
    graph = FactorGraph(
        np.zeros((60, 100)), [(u, u + 1) for u in range(59)], Potts(100)
    )
    text = "11,860 rows, 596,000 columns and 1,197,800 nonzeros, and take about 1797 MB"
    with pytest.raises(ValueError, match=text + r".*HiGHS\(max_megabytes=1800\)"):
        HiGHS().solve(graph)
    with pytest.raises(ValueError, match=r"HiGHS\(relaxed=True, max_megabytes=960\)"):
        HiGHS(True, max_megabytes=500).solve(graph)
    with pytest.raises(ValueError, match="more than max_megabytes=1000"):
        LPMAPPredictor(solver="highs").predict([graph])
    # a condition has no columns, however many entries
    wide = FactorGraph(np.zeros((80, 2)), factors=[(range(80), Logic("or", 80))])
    assert HiGHS().solve(wide).status == "optimal"
    small = FactorGraph(np.zeros((2, 2)), [(0, 1)], Potts(2))
    with pytest.raises(ValueError, match=r"take about 0.024 MB.*max_megabytes=0.024\)"):
        HiGHS(max_megabytes=1e-3).solve(small)
