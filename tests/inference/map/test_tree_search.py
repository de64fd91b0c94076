"""Exact search along a tree of clusters."""

import itertools

import numpy as np
import pytest
from map_graphs import all_costs

from sksstruct.factor_graphs import FactorGraph
from sksstruct.inference.map import Auto, BranchAndBound
from sksstruct.inference.map.branch_and_bound import _cluster_tree, _simplify
from sksstruct.inference.map.branch_and_bound._cluster_tree import (
    TreeComponent,
    tree_of_clusters,
)
from sksstruct.inference.map.branch_and_bound._terms import FORBIDDEN, labeling_cost
from sksstruct.inference.map.branch_and_bound.network import Network
from sksstruct.inference.map.branch_and_bound.search import TreeSearch

LIMIT = 10**6


def loose_network(rng, n=9, width=3, ternary=0.3, forbidden=0.1, high=12):
    """Costs of a connected graph of small width; small numbers, so that many tie."""
    sizes, bags, tables = rng.integers(1, 4, n), [[0]], {}
    name = rng.permutation(n)
    for v in range(1, n):
        bag = bags[rng.integers(len(bags))]
        bag = list(rng.choice(bag, min(len(bag), width), replace=False))
        bags.append([*bag, v])
        for k, u in enumerate(bag):
            scope = [u, v] if k == 0 or rng.random() > ternary else [bag[0], u, v]
            scope = sorted(int(name[w]) for w in scope)
            table = rng.integers(0, high, sizes[scope])
            table[rng.random(table.shape) < forbidden] = FORBIDDEN
            tables[tuple(scope)] = table
    unaries = [rng.integers(0, high, k) for k in sizes]
    return unaries, list(tables), list(tables.values())


def small_clusters(monkeypatch, variables=1, separator=3):
    monkeypatch.setattr(_cluster_tree, "_LEAST_VARIABLES", variables)
    monkeypatch.setattr(_cluster_tree, "_MOST_SEPARATOR", separator)
    monkeypatch.setattr(_cluster_tree, "_LARGEST_SHARE", 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_clusters_are_a_tree(seed, monkeypatch):
    """Every factor is in a cluster and its separator; these join what is below."""
    rng = np.random.default_rng(seed)
    small_clusters(monkeypatch, int(rng.integers(1, 4)), int(rng.integers(1, 5)))
    unaries, scopes, _ = loose_network(rng, n=int(rng.integers(1, 25)))
    order, clusters = tree_of_clusters([len(row) for row in unaries], scopes, bool)
    assert sorted(order) == list(range(len(unaries)))
    place = np.argsort(order)
    below = [set(range(begin, end)) for begin, _, end, *_ in clusters]
    begin, own_end, end, parent, separator = clusters[0]
    assert (begin, end, parent, separator) == (0, len(order), -1, [])
    for k, (begin, own_end, end, parent, separator) in enumerate(clusters[1:], 1):
        assert begin < own_end <= end
        assert parent < k
        assert below[k] < below[parent]
        assert len(separator) <= _cluster_tree._MOST_SEPARATOR
        # what is above, or next to what is above, of its cluster
        bag = {*range(*clusters[parent][:2]), *clusters[parent][4]}
        assert set(separator) <= bag
    for scope in scopes:
        places = {int(place[v]) for v in scope}
        assert any(
            places <= {*range(begin, own_end), *separator}
            for begin, own_end, _, _, separator in clusters
        )


@pytest.mark.parametrize("work", [1, 10**9])
@pytest.mark.parametrize("seed", range(25))
def test_finds_the_least_cost(seed, work, monkeypatch):
    """In small pieces or at once, from labelings that are known, best or not."""
    rng = np.random.default_rng(seed)
    small_clusters(monkeypatch, int(rng.integers(1, 3)), int(rng.integers(1, 4)))
    terms = loose_network(rng, n=int(rng.integers(2, 10)))
    costs = all_costs(*terms)
    least, best = min(costs.values()), min(costs, key=costs.get)
    tree = tree_of_clusters([len(row) for row in terms[0]], terms[1], bool)
    for start in (None, list(best), [0] * len(best)):
        for alone in (0, np.inf):
            # a search without clusters joins in at once, or never
            monkeypatch.setattr(_cluster_tree, "_ALONE", alone)
            part = TreeComponent(*tree, *terms, LIMIT, 1, start, lambda: False)
            while not part.closed:
                assert part.bound <= least
                part.advance(work)
            if least >= FORBIDDEN:
                assert part.cost is None
                continue
            assert part.cost == least == part.bound
            assert labeling_cost(*terms, part.best.tolist()) == least


@pytest.mark.parametrize("seed", range(10))
def test_search_alone(seed, monkeypatch):
    """Without sweeps at the root, so that clusters are searched again and again."""
    rng = np.random.default_rng(seed)
    small_clusters(monkeypatch)
    unaries, scopes, tables = loose_network(rng, forbidden=0.0)
    order, clusters = tree_of_clusters([len(row) for row in unaries], scopes, bool)
    place = np.argsort(order)
    axes = [np.argsort(place[list(scope)]) for scope in scopes]
    terms = (
        [unaries[v] for v in order],
        [tuple(np.sort(place[list(scope)]).tolist()) for scope in scopes],
        [table.transpose(axis) for table, axis in zip(tables, axes, strict=True)],
    )
    least = min(all_costs(*terms).values())
    for limit in (LIMIT, least + 1, least):
        network = Network(*terms, limit)
        network.wake_all()
        if not network.make_consistent():
            assert limit == least
            continue
        search = TreeSearch(
            network, np.zeros(len(order)), 1, clusters, FORBIDDEN // 2, 10**6
        )
        while search.run(1, 0):
            assert not search.found or search.best_cost >= least
        assert search.found == (limit > least)
        if search.found:
            assert search.best_cost == least
            assert labeling_cost(*terms, search.labeling.tolist()) == least


def loose_graph(rng, n_clusters=12, size=7, k=3):
    """Dense clusters in a tree, each joined to another by two of its variables."""
    edges, n = [], n_clusters * size
    for c in range(n_clusters):
        inside = [(c * size + i, c * size + j) for j in range(size) for i in range(j)]
        edges += inside
        if c:
            other = rng.integers(c) * size
            edges += [(other + i, c * size + j) for i in (0, 1) for j in (2, 3)]
    tables = np.round(rng.normal(size=(len(edges), k, k)), 2)
    return FactorGraph(np.zeros((n, k)), edges, tables)


@pytest.mark.slow
def test_loose_clusters_are_proved(monkeypatch):
    graph = loose_graph(np.random.default_rng(0))
    # elimination, which would solve it as well, for comparison
    best = Auto().solve(graph, random_state=0)
    assert best.status == "optimal"
    monkeypatch.setattr(_simplify, "_NEIGHBORS", 0)
    begun = []

    class Counted(TreeComponent):
        def _begin(self, hint):
            begun.append(len(self._clusters))
            super()._begin(hint)

    monkeypatch.setattr(_cluster_tree, "TreeComponent", Counted)
    results = [BranchAndBound().solve(graph, random_state=0) for _ in range(2)]
    assert begun[0] > 5
    for result in results:
        assert result.status == "optimal"
        assert result.score == pytest.approx(best.score, abs=1e-6 * abs(best.score))
        np.testing.assert_array_equal(result.labeling, results[0].labeling)
    # no room for goods: the search goes on without clusters
    monkeypatch.setattr(_cluster_tree, "_MOST_GOODS", 3)
    result = BranchAndBound().solve(graph, random_state=0, max_seconds=0.5)
    assert result.bound >= best.score - 1e-9
    stopped = BranchAndBound().solve(
        graph, random_state=0, callback=lambda k, *_: k >= 1
    )
    assert stopped.bound >= best.score - 1e-9


def test_no_tree_of_dense_graphs(monkeypatch):
    """Seen before the fill is counted, which would take minutes without a clock."""
    monkeypatch.setattr(_cluster_tree, "_fill", None)
    scopes = list(itertools.combinations(range(300), 2))
    assert tree_of_clusters([2] * 300, scopes, bool) == (None, [])
