"""Generated MAP problems with tables that are hard, or nearly."""

import itertools

import numpy as np
from scipy.spatial import Delaunay

from sksstruct.factor_graphs import FactorGraph, Logic


def random_edges(rng, n, m):
    pairs = np.array(list(itertools.combinations(range(n), 2)))
    return pairs[np.sort(rng.permutation(len(pairs))[:m])]


def crisp(n=60, k=6, density=0.15, seed=0, tightness=None, planted=False):
    """A binary CSP; by default as tight as makes one solution likely (model RB)."""
    rng = np.random.default_rng(seed)
    m = int(density * n * (n - 1) / 2)
    if tightness is None:
        # the expected number of solutions is k^n (1 - tightness)^m
        tightness = 1.0 - k ** (-n / m)
    edges = random_edges(rng, n, m)
    tables = np.where(rng.random((m, k, k)) < tightness, -np.inf, 0.0)
    if planted:
        x = rng.integers(k, size=n)
        tables[np.arange(m), x[edges[:, 0]], x[edges[:, 1]]] = 0.0
    return FactorGraph(np.zeros((n, k)), edges, tables)


def nearly_hard(n=120, k=4, seed=0, low=-9.21):
    """A planted CSP whose forbidden pairs have a low score, and small unary scores."""
    graph = crisp(n, k, density=6.0 / n, seed=seed, planted=True)
    rng = np.random.default_rng(seed + 1)
    tables = [np.maximum(graph.tables[t].dense(), low) for t in graph.edge_tables]
    return FactorGraph(-0.01 * rng.random((n, k)), graph.edges, np.array(tables))


def max_csp(n=25, k=5, density=0.5, seed=0):
    """Weighted Max-CSP: every pair of a constraint costs something, or nothing."""
    rng = np.random.default_rng(seed)
    edges = random_edges(rng, n, int(density * n * (n - 1) / 2))
    m = len(edges)
    weight = rng.integers(1, 11, (m, 1, 1))
    tables = -1.0 * weight * (rng.random((m, k, k)) < 0.5)
    return FactorGraph(np.zeros((n, k)), edges, tables)


def frequencies(n=50, k=24, seed=0, soft=True):
    """Frequency assignment: distances between near transmitters, and within pairs."""
    rng = np.random.default_rng(seed)
    places = rng.random((n, 2))
    edges, tables = [], []
    values = np.sort(rng.choice(4 * k, k, replace=False))
    apart = np.abs(values[:, None] - values)
    for u, v in itertools.combinations(range(n), 2):
        distance = np.linalg.norm(places[u] - places[v])
        if u // 2 == v // 2:
            # the two directions of a link, a fixed distance apart as far as can be
            gap = np.abs(apart - 2 * k)
            tables.append(np.where(gap <= 4, 0.0, -np.inf))
        elif distance < 0.35:
            need = int(10 * (1 - distance / 0.35)) + 1
            cost = float(10 ** rng.integers(0, 4)) if soft else np.inf
            tables.append(np.where(apart >= need, 0.0, -cost))
        else:
            continue
        edges.append((u, v))
    return FactorGraph(np.zeros((n, k)), edges, np.array(tables))


def warehouses(n_stores=50, n_sites=16, seed=0):
    """Uncapacitated warehouse location: stores choose sites, which cost when open."""
    rng = np.random.default_rng(seed)
    stores, sites = rng.random((n_stores, 2)), rng.random((n_sites, 2))
    supply = np.linalg.norm(stores[:, None] - sites, axis=2)
    supply = np.round(1000 * supply * rng.uniform(0.5, 1.5, (n_stores, 1)))
    unaries = [-row for row in supply]
    unaries += [np.array([0.0, -c]) for c in np.round(rng.uniform(300, 900, n_sites))]
    edges, tables = [], []
    for store, site in itertools.product(range(n_stores), range(n_sites)):
        table = np.zeros((n_sites, 2))
        table[site, 0] = -np.inf
        edges.append((store, n_stores + site))
        tables.append(table)
    return FactorGraph(unaries, edges, tables)


def bayes(n=120, k=3, seed=0, zeros=0.4, n_observed=12):
    """A Bayesian network with zeros, and evidence that is possible."""
    rng = np.random.default_rng(seed)
    factors, x = [], np.zeros(n, dtype=int)
    for v in range(n):
        near = np.arange(max(0, v - 20), v)
        size = min(len(near), int(rng.integers(0, 4)))
        parents = np.sort(rng.permutation(near)[:size])
        table = rng.dirichlet(np.full(k, 0.5), size=k ** len(parents))
        table[rng.random(table.shape) < zeros] = 0.0
        empty = table.sum(axis=1) == 0
        table[empty, rng.integers(k, size=int(empty.sum()))] = 1.0
        table /= table.sum(axis=1, keepdims=True)
        row = np.ravel_multi_index(tuple(x[parents]), (k,) * size) if size else 0
        x[v] = rng.choice(k, p=table[row])
        with np.errstate(divide="ignore"):
            table = np.log(table.reshape((k,) * (size + 1)))
        factors.append((np.append(parents, v), table))
    observed = rng.choice(n, n_observed, replace=False)
    evidence = {int(v): int(x[v]) for v in observed}
    return FactorGraph([np.zeros(k)] * n, factors=factors, evidence=evidence)


def pedigree(n=80, k=3, seed=0, n_observed=0.4):
    """Genotypes of a family of two alleles or more, with some of them observed."""
    rng = np.random.default_rng(seed)
    pairs = list(itertools.combinations_with_replacement(range(k), 2))
    states, frequency = len(pairs), rng.dirichlet(np.full(k, 2.0))
    founder = np.array([frequency[a] * frequency[b] * (1 + (a != b)) for a, b in pairs])
    child = np.zeros((states,) * 3)
    for i, j in itertools.product(range(states), repeat=2):
        for a, b in itertools.product(pairs[i], pairs[j]):
            child[i, j, pairs.index((min(a, b), max(a, b)))] += 0.25
    # errors are rare: what is seen is what is there, nearly always
    seen = np.full((states, states), 0.02 / (states - 1))
    np.fill_diagonal(seen, 0.98)
    unaries, factors, x = np.zeros((n, states)), [], np.zeros(n, dtype=int)
    with np.errstate(divide="ignore"):
        log_child = np.log(child)
    for v in range(n):
        if v < n // 4:
            unaries[v] = np.log(founder)
            x[v] = rng.choice(states, p=founder)
        else:
            mother, father = rng.choice(np.arange(max(0, v - 30), v), 2, replace=False)
            x[v] = rng.choice(states, p=child[x[mother], x[father]])
            factors.append(((mother, father, v), log_child))
        if rng.random() < n_observed:
            unaries[v] += np.log(seen[rng.choice(states, p=seen[x[v]])])
    return FactorGraph(list(unaries), factors=factors)


def auction(n=150, n_goods=40, seed=0):
    """Bids on some goods each; of those on the same good, one can win."""
    rng = np.random.default_rng(seed)
    wants = np.zeros((n_goods, n), dtype=bool)
    for bid in range(n):
        wants[rng.choice(n_goods, rng.integers(2, 6), replace=False), bid] = True
    worth = rng.uniform(1.0, 2.0, n_goods) @ wants
    values = worth * rng.uniform(0.8, 1.2, n) * wants.sum(axis=0) ** 0.2
    edges = np.argwhere(np.triu(wants.T @ wants, 1))
    unaries = np.stack([np.zeros(n), values], axis=1)
    return FactorGraph(unaries, edges, np.array([[0.0, 0.0], [0.0, -np.inf]]))


def assignment(n=16, seed=0):
    """A permutation with a score for each pair, and more for two that are neighbors."""
    rng, of = np.random.default_rng(seed), np.arange(n * n).reshape(n, n)
    unaries = np.stack([np.zeros(n * n), rng.random(n * n)], axis=1)
    edges = np.stack([of[:-1, :-1].ravel(), of[1:, 1:].ravel()], axis=1)
    factors = [(row, Logic("xor", n)) for row in of]
    factors += [(column, Logic("atmostone", n)) for column in of.T]
    return FactorGraph(unaries, edges, [[0.0, 0.0], [0.0, 0.3]], factors=factors)


def ising(shape, seed=0):
    """Variables on a torus of any dimension, Gaussian scores of equal neighbors."""
    rng, of = np.random.default_rng(seed), np.arange(np.prod(shape)).reshape(shape)
    edges = np.concatenate([
        np.stack([of.ravel(), np.roll(of, 1, axis).ravel()], axis=1)
        for axis in range(len(shape))
    ])  # fmt: skip
    tables = rng.normal(size=(len(edges), 1, 1)) * np.array([[1.0, -1.0], [-1.0, 1.0]])
    return FactorGraph(np.zeros((of.size, 2)), edges, list(tables))


def potts_grid(n=40, k=3, seed=0):
    """A grid with Gaussian scores of states and of pairs."""
    rng, of = np.random.default_rng(seed), np.arange(n * n).reshape(n, n)
    edges = np.concatenate([
        np.stack([of[:-1].ravel(), of[1:].ravel()], axis=1),
        np.stack([of[:, :-1].ravel(), of[:, 1:].ravel()], axis=1),
    ])  # fmt: skip
    tables = 1.5 * rng.normal(size=(len(edges), k, k))
    return FactorGraph(rng.normal(size=(n * n, k)), edges, list(tables))


def max_sat(n=200, n_hard=700, n_soft=300, sizes=(1, 2, 3), seed=0):
    """Weighted MAX-SAT: planted hard clauses of three variables, and soft clauses."""
    rng = np.random.default_rng(seed)
    planted, unaries, factors = rng.integers(2, size=n), np.zeros((n, 2)), []
    while len(factors) < n_hard:
        scope = np.sort(rng.choice(n, 3, replace=False))
        violated = rng.integers(2, size=3)
        if (violated == planted[scope]).all():
            continue
        table = np.zeros((2, 2, 2))
        table[tuple(violated)] = -np.inf
        factors.append((scope, table))
    for _ in range(n_soft):
        size, weight = rng.choice(sizes), float(rng.integers(1, 21))
        scope = np.sort(rng.choice(n, size, replace=False))
        violated = tuple(rng.integers(2, size=size))
        if size == 1:
            unaries[scope[0], violated] -= weight
            continue
        table = np.zeros((2,) * size)
        table[violated] = -weight
        factors.append((scope, table))
    return FactorGraph(unaries, factors=factors)


def coloring(n=120, k=4, seed=0):
    """Map coloring: most neighbors differ, others prefer to; regions prefer colors."""
    rng = np.random.default_rng(seed)
    triangles = Delaunay(rng.random((n, 2))).simplices
    pairs = (itertools.combinations(sorted(each), 2) for each in triangles)
    edges = sorted(set(itertools.chain.from_iterable(pairs)))
    hard, costs = rng.random(len(edges)) < 0.7, rng.integers(1, 10, len(edges))
    costs = np.where(hard, np.inf, costs)
    tables = np.where(np.eye(k, dtype=bool), -costs[:, None, None], 0.0)
    return FactorGraph(-1.0 * rng.integers(0, 6, (n, k)), edges, tables)


def planning(n=60, slots=20, seed=0):
    """Jobs choose slots: some precede others, or exclude them, or should be near."""
    rng, slot = np.random.default_rng(seed), np.arange(slots)
    planted, edges, tables = rng.integers(slots, size=n), [], []
    for u, v in itertools.combinations(range(n), 2):
        draw = rng.random()
        if draw < 0.3 and planted[u] == planted[v]:
            continue
        if draw < 0.08:
            late = slot[:, None] < slot
            table = np.where(late if planted[u] < planted[v] else late.T, 0.0, -np.inf)
        elif draw < 0.3:
            table = np.where(np.eye(slots, dtype=bool), -np.inf, 0.0)
        elif draw < 0.4:
            table = -1.0 * np.abs(slot[:, None] - slot)
        else:
            continue
        edges.append((u, v))
        tables.append(table)
    return FactorGraph(-1.0 * rng.integers(0, 20, (n, slots)), edges, tables)


FAMILIES = {
    "assignment, 16": (assignment, {}),
    "assignment, 20": (assignment, dict(n=20)),
    "auction, 150 bids": (auction, {}),
    "auction, 400 bids": (auction, dict(n=400, n_goods=100)),
    "auction, 1000 bids": (auction, dict(n=1000, n_goods=200)),
    "crisp CSP, 50 x 10": (crisp, dict(n=50, k=10, density=0.2)),
    "crisp CSP, 60 x 6": (crisp, dict(n=60, k=6)),
    "crisp CSP, 100 x 4": (crisp, dict(n=100, k=4, density=0.08)),
    "crisp CSP, 150 x 4": (crisp, dict(n=150, k=4, density=0.05)),
    "crisp CSP, 200 x 4": (crisp, dict(n=200, k=4, density=0.03)),
    "crisp CSP, 200 x 4, planted": (
        crisp, dict(n=200, k=4, density=0.03, planted=True)),
    "nearly hard, 120 x 4": (nearly_hard, dict(n=120)),
    "nearly hard, 250 x 4": (nearly_hard, dict(n=250)),
    "torus, 20 x 20": (ising, dict(shape=(20, 20))),
    "spin glass, 6 x 6 x 6": (ising, dict(shape=(6, 6, 6))),
    "grid, 40 x 40 x 3": (potts_grid, {}),
    "Max-CSP, 25 x 5": (max_csp, {}),
    "Max-CSP, 60 x 5": (max_csp, dict(n=60, density=0.1)),
    "frequencies, 50 x 24": (frequencies, {}),
    "frequencies, 100 x 30": (frequencies, dict(n=100, k=30)),
    "warehouses, 50 x 16": (warehouses, {}),
    "warehouses, 100 x 30": (warehouses, dict(n_stores=100, n_sites=30)),
    "Bayesian network, 120": (bayes, {}),
    "Bayesian network, 300": (bayes, dict(n=300, n_observed=30)),
    "pedigree, 80": (pedigree, {}),
    "pedigree, 300": (pedigree, dict(n=300)),
    "coloring, 120 x 4": (coloring, {}),
    "coloring, 300 x 4": (coloring, dict(n=300)),
    "coloring, 120 x 5": (coloring, dict(k=5)),
    "planning, 30 x 12": (planning, dict(n=30, slots=12)),
    "planning, 60 x 20": (planning, {}),
    "planning, 120 x 20": (planning, dict(n=120)),
    "MAX-SAT, 100": (max_sat, dict(n=100, n_hard=250, n_soft=200)),
    "MAX-SAT, 200": (max_sat, {}),
    "MAX-SAT, 1000, soft units": (
        max_sat, dict(n=1000, n_hard=4000, n_soft=1000, sizes=(1,))),
}  # fmt: skip
