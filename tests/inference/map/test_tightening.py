"""Clusters: what they find, what they keep, and what they bound."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_graphs import best_score, enumerate_labelings, random_graph

from sksstruct.factor_graphs import FactorGraph, Potts
from sksstruct.inference.map import TRWS, Auto, HiGHS, Tightened
from sksstruct.inference.map.branch_and_bound.exact_search import ExactSearch
from sksstruct.inference.map.core._written import written_out
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.local_search._rounds import RoundSearch
from sksstruct.inference.map.tightening.clusters import Clusters
from sksstruct.inference.map.tightening.cycles import SignedGraph, Triangles, spread
from sksstruct.inference.map.tightening.tighten import (
    Tightening,
    _splits,
    simple_cycles,
    triangulate,
)


def ring(n, states=2, seed=None):
    """A cycle whose edges want different states; with a seed, not only that."""
    rng = np.random.default_rng(seed)
    edges = [(v, (v + 1) % n) for v in range(n)]
    noise = 0.0 if seed is None else 0.2
    unaries = noise * rng.normal(size=(n, states))
    tables = [-np.eye(states) + noise * rng.normal(size=(states,) * 2) for _ in edges]
    return FactorGraph(unaries, edges, np.array(tables))


def grid(size, seed=0, field=0.3):
    """A spin glass of two states."""
    rng = np.random.default_rng(seed)
    cell = np.arange(size * size).reshape(size, size)
    edges = [*zip(cell[:, :-1].ravel(), cell[:, 1:].ravel(), strict=True)]
    edges += [*zip(cell[:-1].ravel(), cell[1:].ravel(), strict=True)]
    unaries = np.zeros((size * size, 2))
    unaries[:, 1] = field * rng.normal(size=size * size)
    return FactorGraph(
        unaries, edges, Potts(2, 1.0, -1.0), edge_weights=rng.normal(size=len(edges))
    )


def clusters_of(graph, late=False):
    rows, scopes, tables = written_out(graph)
    pairs = {}
    for (u, v), table in zip(scopes, tables, strict=True):
        pairs[min(u, v), max(u, v)] = table if u < v else table.T
    problem = MAPProblem(graph)
    if late:
        problem.limit_time(0.0)
    return Clusters(problem, rows, pairs)


def dense_graph(seed, n=6, states=(1, 4)):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(states[0], states[1] + 1, n)
    edges = [e for e in itertools.combinations(range(n), 2) if rng.random() < 0.8]
    tables = [rng.normal(size=sizes[list(e)]) for e in edges]
    return FactorGraph([rng.normal(size=k) for k in sizes], edges, tables)


def moved_score(clusters, x):
    first = np.cumsum(clusters.n_states) - clusters.n_states
    terms = [*clusters.edge_tables().items(), *clusters.triplet_tables()]
    return clusters.beliefs[first + x].sum() + sum(
        table[tuple(x[list(scope)])] for scope, table in terms
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_sweeps_keep_scores_and_never_raise_the_bound(seed):
    rng = np.random.default_rng(seed)
    graph = dense_graph(seed, n=5)
    clusters = clusters_of(graph)
    labelings, scores = enumerate_labelings(graph)
    triplets = list(itertools.combinations(range(graph.n_variables), 3))
    bounds = [np.inf]
    for k in range(4):
        new = [triplets.pop(rng.integers(len(triplets))) for _ in range(2)]
        clusters.add(np.array(new))
        for backward in (True, False):
            bounds.append(clusters.sweep(backward))
            found = [moved_score(clusters, x) for x in labelings]
            np.testing.assert_allclose(found, scores, atol=1e-10)
            # all that is left of edges and triplets is at most zero
            terms = [*clusters.edge_tables().items(), *clusters.triplet_tables()]
            assert max(table.max() for _, table in terms) < 1e-10
        assert len(clusters.triplets) == 2 * (k + 1)
    assert (np.diff(bounds[1:]) <= 1e-10).all()
    assert bounds[-1] >= scores.max() - 1e-10


def test_sweeps_that_are_cut_off():
    graph = dense_graph(0, n=5)
    clusters = clusters_of(graph, late=True)
    clusters.add(np.array([[0, 1, 2], [1, 2, 4]]))
    labelings, scores = enumerate_labelings(graph)
    for backward in (True, False, True):
        assert clusters.sweep(backward) == np.inf
        found = [moved_score(clusters, x) for x in labelings]
        np.testing.assert_allclose(found, scores, atol=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_triangles_are_scored_by_what_they_lower(seed):
    graph = dense_graph(seed)
    clusters = clusters_of(graph)
    clusters.sweep()
    flat = spread(clusters)
    tables = {
        e: flat[s : s + t.size].reshape(t.shape)
        for e, s, t in _places(clusters.edge_tables())
    }
    expected = {}
    for a, b, c in itertools.combinations(range(graph.n_variables), 3):
        if not {(a, b), (a, c), (b, c)} <= set(tables):
            continue
        parts = tables[a, b][:, :, None], tables[a, c][:, None], tables[b, c][None]
        low = sum(part.max() for part in parts) - sum(parts).max()
        if low > 1e-9:
            expected[a, b, c] = low
    found, scores = Triangles(clusters, flat, 1e-9).find(1e9)
    assert sorted(map(tuple, found.tolist())) == sorted(expected)
    for triplet, score in zip(map(tuple, found.tolist()), scores, strict=True):
        assert score == pytest.approx(expected[triplet])
    # that much is certain
    if expected:
        best = max(expected, key=expected.get)
        before = clusters.bound
        clusters.add(np.array([best]))
        for k in range(200):
            clusters.sweep(k % 2 == 0)
        assert clusters.bound <= before - 0.9 * expected[best]


def _places(tables):
    start = 0
    for edge in sorted(tables, key=lambda e: e[::-1]):
        yield edge, start, tables[edge]
        start += tables[edge].size


@pytest.mark.parametrize("seed", range(4))
def test_weights_of_splits(seed):
    clusters = clusters_of(dense_graph(seed, n=4, states=(2, 5)))
    flat = spread(clusters)
    chosen = _splits(clusters, flat)
    graph = SignedGraph(clusters, flat, chosen)
    n = chosen.shape[1]
    found = {
        (int(i), int(j)): w for (i, j), w in zip(graph.ends, graph.weights, strict=True)
    }
    assert (np.diff(np.abs(graph.weights)) <= 0).all()
    for (u, v), start, table in _places(clusters.edge_tables()):
        table = flat[start : start + table.size].reshape(table.shape)
        for (s, row), (t, col) in itertools.product(
            enumerate(chosen[u]), enumerate(chosen[v])
        ):
            if min(row, col) < 0:
                continue
            side = (np.arange(len(table)) == row)[:, None] == (
                np.arange(table.shape[1]) == col
            )
            weight = table[side].max() - table[~side].max()
            assert found[u * n + s, v * n + t] == pytest.approx(weight)


@pytest.mark.parametrize("seed", range(8))
def test_threshold_of_cycles(seed):
    """That of all simple cycles, one by one."""
    rng = np.random.default_rng(seed)
    n = 6
    edges = [e for e in itertools.combinations(range(n), 2) if rng.random() < 0.6]
    tables = [
        np.array([[w, 0], [0, 0]]) for w in rng.choice([-3.0, -1, 1, 2, 4], len(edges))
    ]
    clusters = clusters_of(FactorGraph(np.zeros((n, 2)), edges, tables))
    graph = SignedGraph(clusters, spread(clusters), np.ones((n, 1), dtype=np.intp))
    weight = {}
    for (u, v), w in zip(graph.ends.tolist(), graph.weights, strict=True):
        weight[u, v] = weight[v, u] = w
    best, shortest = 0.0, {}
    for length in range(3, n + 1):
        for cycle in itertools.permutations(range(n), length):
            pairs = list(zip(cycle, (*cycle[1:], cycle[0]), strict=True))
            if all(p in weight for p in pairs):
                ws = [weight[p] for p in pairs]
                if sum(w < 0 for w in ws) % 2:
                    best = max(best, min(np.abs(ws)))
                    shortest.setdefault(cycle[0], (length, min(np.abs(ws))))
    assert graph.threshold() == best
    for cycle in graph.cycles(0.5, 0, 1e9):
        ws = [weight[p] for p in zip(cycle, (*cycle[1:], cycle[0]), strict=True)]
        assert sum(w < 0 for w in ws) % 2 == 1
        if len(set(cycle)) == len(cycle):
            assert len(cycle) == shortest[cycle[0]][0]


def test_triangulation():
    for n in range(3, 9):
        triplets = triangulate([3, 1, 4, 0, 5, 9, 2, 6][:n], {(1, 5)})
        assert len(set(triplets)) == n - 2
        pairs = [p for t in triplets for p in itertools.combinations(t, 2)]
        # edges of the cycle are in one triplet, all others in two
        assert sorted(pairs.count(p) for p in set(pairs)) == [1] * n + [2] * (n - 3)


@pytest.mark.parametrize(
    ("walk", "cycles"),
    [
        ([0, 1, 2], [[0, 1, 2]]),
        ([0, 1, 0, 2], []),
        ([0, 1, 2, 3, 1, 4], [[1, 2, 3], [0, 1, 4]]),
        ([0, 1, 2, 0, 3, 4], [[0, 1, 2], [0, 3, 4]]),
        ([0, 0, 1, 1, 2], [[0, 1, 2]]),
    ],
)
def test_walks_are_cut_into_cycles(walk, cycles):
    assert list(simple_cycles(walk)) == cycles


@pytest.mark.slow
def test_grids_of_several_states_get_tight():
    """Most walks that contradict themselves visit a variable in several splits."""
    rng = np.random.default_rng(3)
    cell = np.arange(64).reshape(8, 8)
    edges = [*zip(cell[:, :-1].ravel(), cell[:, 1:].ravel(), strict=True)]
    edges += [*zip(cell[:-1].ravel(), cell[1:].ravel(), strict=True)]
    graph = FactorGraph(
        0.3 * rng.normal(size=(64, 4)), edges, rng.normal(size=(len(edges), 4, 4))
    )
    best = Auto().solve(graph, random_state=0)
    assert best.status == "optimal"
    loose = TRWS().solve(graph).bound - best.score
    tight = Tightened().solve(graph, random_state=0).bound - best.score
    assert -1e-6 * best.score <= tight < 0.2 * loose


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize(("n", "states"), [(3, 2), (5, 2), (9, 2), (3, 3), (4, 3)])
def test_rings_get_tight(n, states, seed):
    graph = ring(n, states, seed)
    result = Tightened().solve(graph, random_state=0)
    best = best_score(graph) if n < 9 else HiGHS().solve(graph).score
    assert result.status == "optimal"
    assert result.score == pytest.approx(best, abs=1e-6)
    assert result.bound == pytest.approx(best, abs=2e-6)
    if states == 2 and seed is None:
        # without clusters the best states of all edges contradict each other
        assert TRWS().solve(graph).bound == pytest.approx(0.0, abs=1e-6)
        assert best == -1.0


def test_grids_get_tight():
    graph = grid(8)
    best = Auto().solve(graph, random_state=0)
    assert best.status == "optimal"
    loose, tight = (s.solve(graph, random_state=0) for s in (TRWS(), Tightened()))
    assert tight.bound - best.score < 0.05 * (loose.bound - best.score)
    assert tight.bound >= best.score - 1e-6
    again = Tightened().solve(graph, random_state=0)
    assert again.bound == tight.bound
    assert (again.labeling == tight.labeling).all()


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.booleans(), st.integers(0, 2), st.integers(0, 2))
def test_bounds_hold(seed, integers, factors, evidence):
    rng = np.random.default_rng(seed)
    graph = random_graph(
        rng, n=6, m=12, integers=integers, parametric=True, factors=factors,
        evidence=evidence, infinite=0.1 * (seed % 2),
    )  # fmt: skip
    best = best_score(graph)
    result = Tightened().solve(graph, random_state=0)
    assert result.bound >= best - 1e-6 * max(1.0, abs(best)) or best == -np.inf
    assert result.score <= best + 1e-9


@pytest.mark.slow
def test_auto_tightens_and_proves():
    graph = grid(16)
    result = Auto().solve(graph, random_state=0)
    assert result.status == "optimal"
    assert any(step.startswith("tightening") for step in result.plan_)


def test_clusters_and_branch_and_bound_take_turns(monkeypatch):
    """Neither waits for the other: which of them closes the gap is not known."""
    events = []
    begin = RoundSearch.begin
    monkeypatch.setattr(
        RoundSearch, "begin", lambda self: events.append(("round", 0)) or begin(self)
    )
    for cls, name in ((Tightening, "clusters"), (ExactSearch, "search")):

        def advance(self, *args, _advance=cls.advance, _name=name):
            before = self.work
            try:
                return _advance(self, *args)
            finally:
                events.append((_name, self.work - before))

        monkeypatch.setattr(cls, "advance", advance)
    of = np.arange(144).reshape(12, 12)
    edges = np.concatenate([
        np.stack([of.ravel(), np.roll(of, 1, axis).ravel()], axis=1)
        for axis in range(2)
    ])  # fmt: skip
    rng = np.random.default_rng(0)
    tables = rng.normal(size=(len(edges), 1, 1)) * np.array([[1, -1], [-1, 1]])
    graph = FactorGraph(np.zeros((144, 2)), edges, list(tables))
    result = Auto().solve(graph, random_state=0)
    assert result.status == "optimal"
    names = [name for name, _ in events]
    first = names.index("clusters")
    # labelings of a local search limit what the others have to look at
    assert names[first - 1] == "round"
    # the first work of branch and bound, and what its last step was too long by
    assert sum(work for _, work in events[:first]) < 15_000_000
    last = len(names) - names[::-1].index("clusters")
    assert "search" in names[first:last]
    # with a seed they take the same turns
    turns, events[:] = list(events), []
    assert Auto().solve(graph, random_state=0).score == result.score
    assert events == turns
