"""Random graphs for the oracles' tests."""

from itertools import product

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reference import SCORES


@st.composite
def forests(draw, scores=SCORES, max_variables=5, max_states=3):
    """Potentials on a forest; states differ, tables may be shared."""
    p = draw(st.integers(1, max_variables))
    sizes = draw(st.lists(st.integers(1, max_states), min_size=p, max_size=p))
    shared = draw(st.booleans())
    if shared:
        sizes = [sizes[0]] * p
    unary = [draw(hnp.arrays(np.float64, (n,), elements=scores)) for n in sizes]
    numbers = draw(st.permutations(range(p)))
    edges = []
    for v in range(1, p):
        u = draw(st.integers(-1, v - 1))
        if u >= 0:  # else the start of another tree
            pair = (numbers[u], numbers[v])
            edges.append(pair if draw(st.booleans()) else pair[::-1])
    if shared:
        shape = (sizes[0], sizes[0])
        return unary, edges, draw(hnp.arrays(np.float64, shape, elements=scores))
    tables = [
        draw(hnp.arrays(np.float64, (sizes[u], sizes[v]), elements=scores))
        for u, v in edges
    ]
    return unary, edges, tables


@st.composite
def attractive_graphs(draw, max_variables=5):
    """Binary variables on any graph, tables that are supermodular; -inf among them."""
    p = draw(st.integers(1, max_variables))
    unary = draw(hnp.arrays(np.float64, (p, 2), elements=SCORES))
    pairs = [(u, v) for u in range(p) for v in range(p) if u != v]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=8)) if pairs else []
    tables = []
    for _ in edges:
        same = st.sampled_from([-1.0, 0.0, 1.0, 2.0])
        table = draw(hnp.arrays(np.float64, (2, 2), elements=same))
        lack = table[0, 1] + table[1, 0] - table[0, 0] - table[1, 1]
        if lack > 0:
            table[draw(st.sampled_from([(0, 0), (1, 1)]))] += lack
        forbidden = draw(st.sampled_from([(), ((0, 1),), ((1, 0),), ((0, 1), (1, 0))]))
        for pair in forbidden:
            table[pair] = -np.inf
        # a label that is forbidden through the edge
        row = draw(st.sampled_from([None] * 8 + [0, 1]))
        if row is not None:
            (table if draw(st.booleans()) else table.T)[row] = -np.inf
        tables.append(table)
    return unary, edges, np.array(tables).reshape(-1, 2, 2)


@st.composite
def assignments(draw):
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    scores = draw(hnp.arrays(np.float64, (n, m), elements=SCORES))
    kind = draw(st.sampled_from(["none", "number", "rows"]))
    if kind == "none":
        return scores, None
    if kind == "number":
        return scores, draw(SCORES)
    return scores, draw(hnp.arrays(np.float64, (n,), elements=SCORES))


def enumerate_matchings(scores, unassigned):
    """All labelings, -1 for none, with scores."""
    n, m = scores.shape
    alone = np.broadcast_to(0.0 if unassigned is None else unassigned, (n,))
    for labels in product(range(-1, m), repeat=n):
        taken = [j for j in labels if j >= 0]
        if len(taken) != len(set(taken)):
            continue
        if unassigned is None and labels.count(-1) != max(n - m, 0):
            continue
        yield (
            labels,
            sum(alone[i] if j < 0 else scores[i, j] for i, j in enumerate(labels)),
        )
