"""Random graphs for the oracles' tests."""

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
