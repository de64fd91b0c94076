"""Small problems of parts on a grid, and the same as tables."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reference import SCORES


@st.composite
def placements(draw, max_parts=3, max_side=3):
    """Parts on a forest with dyadic deformations, so that all sums are exact."""
    p = draw(st.integers(1, max_parts))
    height, width = draw(st.integers(1, max_side)), draw(st.integers(1, max_side))
    unary = draw(hnp.arrays(np.float64, (p, height, width), elements=SCORES))
    edges = []
    for v in range(1, p):
        u = draw(st.integers(-1, v - 1))
        if u >= 0:
            edges.append((u, v) if draw(st.booleans()) else (v, u))
    numbers = {
        "offsets": [-2.0, -0.5, 0.0, 1.0],
        "quadratic": [0.0, 0.25, 1.0, 2.0],
        "linear": [-1.0, 0.0, 0.5],
    }
    shape = (len(edges), 2)
    deformations = (
        draw(hnp.arrays(np.float64, shape, elements=st.sampled_from(values)))
        for values in numbers.values()
    )
    return (unary, edges, *deformations)


def as_tables(unary, edges, offsets, quadratic, linear):
    """The same as a tree with tables over all pairs of positions."""
    p, height, width = unary.shape
    at = np.indices((height, width)).reshape(2, -1).T
    tables = []
    for e in range(len(edges)):
        d = at[None, :] - at[:, None] - offsets[e]
        tables.append((linear[e] * d - quadratic[e] * d**2).sum(axis=2))
    return list(unary.reshape(p, -1)), edges, tables
