"""Random factor graphs with everything in them, and their best labelings."""

import itertools

import numpy as np

from sksstruct.factor_graphs import (
    FactorGraph,
    Logic,
    Potts,
    TruncatedLinear,
    TruncatedQuadratic,
)
from sksstruct.inference.map.branch_and_bound._terms import FORBIDDEN


def random_graph(
    rng, n=6, m=8, states=(1, 4), *, weights=False, infinite=0.0, integers=False,
    parametric=False, factors=0, order=3, logic=0, evidence=0,
):  # fmt: skip
    """A small graph; see the tests for what the switches mean."""

    def scores(shape):
        values = rng.integers(-2, 3, shape) if integers else rng.normal(size=shape)
        values = np.asarray(values, dtype=np.float64)
        return np.where(rng.random(shape) < infinite, -np.inf, values)

    sizes = rng.integers(states[0], states[1] + 1, n)
    if logic:
        sizes[:] = 2
    unaries = [scores(k) for k in sizes]
    edges, tables = [], []
    for _ in range(m if n > 1 else 0):
        u, v = rng.choice(n, 2, replace=False)
        kind = rng.integers(4) if parametric and sizes[u] == sizes[v] else 0
        k, a = int(sizes[u]), float(rng.normal())
        limit = float(rng.choice([1.0, np.inf]))
        edges.append((u, v))
        if kind == 0:
            tables.append(scores((sizes[u], sizes[v])))
        elif kind == 1:
            tables.append(Potts(k, a, float(rng.normal())))
        elif kind == 2:
            tables.append(TruncatedLinear(k, abs(a), limit))
        else:
            tables.append(TruncatedQuadratic(k, abs(a), limit))
    more = []
    for _ in range(factors):
        scope = rng.choice(n, min(n, rng.integers(1, order + 1)), replace=False)
        more.append((scope, scores(tuple(sizes[scope]))))
    for _ in range(logic):
        scope = rng.choice(n, min(n, rng.integers(3, 6)), replace=False)
        condition = str(rng.choice(Logic.conditions))
        limit = int(rng.integers(len(scope))) if condition == "budget" else None
        negated = rng.random(len(scope)) < 0.3
        more.append((scope, Logic(condition, len(scope), negated, limit)))
    observed = rng.choice(n, min(n, evidence), replace=False)
    return FactorGraph(
        unaries,
        edges,
        tables,
        edge_weights=rng.uniform(0.1, 2.0, len(edges))
        * (1 if infinite or not weights else rng.choice([-1.0, 1.0, 0.0], len(edges)))
        if weights
        else None,
        factors=more,
        evidence={int(v): int(rng.integers(sizes[v])) for v in observed},
        offset=float(rng.normal()),
    )


def enumerate_labelings(graph):
    """All labelings and their scores."""
    labelings = list(itertools.product(*(range(k) for k in graph.n_states)))
    labelings = np.array(labelings, dtype=int).reshape(len(labelings), -1)
    return labelings, slow_scores(graph, labelings)


def slow_score(graph, x):
    """The score of one labeling."""
    return slow_scores(graph, np.array([x], dtype=int).reshape(1, -1))[0]


def slow_scores(graph, labelings):
    """Scores term by term, as the documentation writes them."""
    x, total = labelings.T, np.full(len(labelings), graph.offset)
    for v in range(graph.n_variables):
        total = total + graph.unary(v)[x[v]]
    for e, (u, v) in enumerate(graph.edges):
        weight = 1.0 if graph.edge_weights is None else graph.edge_weights[e]
        total += weight * graph.tables[graph.edge_tables[e]].dense()[x[u], x[v]]
    for scope, t in zip(graph.factor_scopes, graph.factor_tables, strict=True):
        total += graph.tables[t].dense()[tuple(x[v] for v in scope)]
    for v, state in enumerate(graph.evidence):
        if state >= 0:
            total[x[v] != state] = -np.inf
    return total


def best_score(graph):
    return enumerate_labelings(graph)[1].max()


def all_costs(unaries, scopes, tables):
    """The cost of every labeling of a network of costs, at most FORBIDDEN."""
    labelings = np.indices([len(row) for row in unaries]).reshape(len(unaries), -1)
    costs = sum(np.asarray(row)[x] for row, x in zip(unaries, labelings, strict=True))
    for scope, table in zip(scopes, tables, strict=True):
        costs = np.minimum(costs + table[tuple(labelings[list(scope)])], FORBIDDEN)
    return dict(zip(zip(*labelings.tolist(), strict=True), costs.tolist(), strict=True))
