"""Checks of the scores of parts, and allocation of the kernels' arrays."""

import numpy as np

from sksstruct.inference._checks import check_scores, check_sums


def check_images(unary):
    """Check the scores of parts at positions; return them as a C-contiguous array."""
    unary = np.ascontiguousarray(check_scores("unary", unary, ndim=3))
    if not unary.size:
        raise ValueError(
            f"unary must have parts, rows and columns, got shape {unary.shape}"
        )
    return unary


def spring_arrays(unary, edges, offsets, quadratic, linear, bias):
    """Return the checked springs of edges, and the workspace of `PartsTree`.

    Springs are the arrays `offsets`, `quadratic` and `linear`. The workspace is an
    array of doubles and an array of integers.
    """
    # without types, each edge has a single spring
    shape = (len(edges), 2) if bias is None else (len(edges), bias.shape[1], 2)
    offsets = _by_edge("offsets", offsets, shape)
    quadratic = _by_edge("quadratic", quadratic, shape)
    linear = _by_edge("linear", linear, shape)
    # signs are checked after the shapes, whose messages are more specific
    negative = np.argwhere(quadratic < 0)
    if len(negative):
        e = int(negative[0, 0])
        raise ValueError(
            f"quadratic[{e}], of the edge {tuple(edges[e].tolist())}, is "
            f"negative: {quadratic[e].tolist()}. It is what a squared "
            "displacement costs, and must not reward it"
        )
    # squares of the largest possible displacements may overflow; check_sums then raises
    # an error
    with np.errstate(over="ignore"):
        farthest = np.abs(offsets) + unary.shape[1:]
        squared = farthest**2
        deformation = (quadratic * farthest + np.abs(linear)) * farthest
    check_sums(
        "unary, offsets, quadratic and linear",
        4 * len(unary),
        unary,
        squared,
        deformation,
    )
    longest, cells = max(unary.shape[1:]), unary[0].size
    memory = np.empty(4 * cells + 3 * longest)
    springs = offsets, quadratic, linear
    return springs, memory, np.empty(2 * longest, dtype=np.int32)


def _by_edge(name, values, shape):
    """Broadcast values to a number for rows and a number for columns of each edge."""
    # infinities would make products and differences NaN; check_scores accepts -inf,
    # which is an error here
    values = check_scores(name, 0.0 if values is None else values)
    try:
        values = np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(
            f"{name} must be broadcastable to shape {shape}, a number for "
            "rows and one for columns of each edge, got shape "
            f"{values.shape}"
        ) from None
    if np.isneginf(values).any():
        raise ValueError(f"{name} has an entry that is -inf: it must be finite")
    return np.ascontiguousarray(values)


def product_arrays(tree):
    """Return arrays of beliefs, backpointers, best positions and best types."""
    n, cells = tree.n_variables, tree.height * tree.width
    per_cell = 2 * tree.n_types + 1 if tree.n_types else 2
    return (
        tree.unary.copy(),
        np.zeros(n * per_cell * cells, dtype=np.int32),
        np.zeros((n, 2), dtype=np.int32),
        np.zeros(len(tree.edges) if tree.n_types else 0, dtype=np.int32),
    )


def marginal_arrays(tree):
    """Return arrays for max-marginals of parts.

    The arrays are for scores of subtrees, beliefs, messages followed by workspace, and
    the best score of each tree.
    """
    rows, cells = tree.n_variables + tree.most_children + 2, tree.height * tree.width
    best = np.full(tree.n_variables, -np.inf)
    return tree.unary.copy(), tree.unary.copy(), np.zeros(rows * cells), best


def list_arrays(tree, n_copies):
    """Return arrays for the k best placements, `_best` and `_without`.

    `_best` is for scores of subtrees, and `_without` for scores of the parent without
    the messages of a part and of its earlier siblings.
    """
    flat = tree.unary.reshape(tree.n_variables, -1)
    best = np.tile(flat, (1, n_copies))
    return best, np.empty(best.shape)


def labelings(count, n):
    """Return an array for `count` labelings of n variables."""
    return np.empty((count, n), dtype=np.int32)


def split_states(states, tree, edge, with_types):
    """Decode states of parts into positions of the parts and types of edges.

    `edge` has the number of the edge above each part, or -1.
    """
    types, cells = np.divmod(states, tree.height * tree.width)
    if not with_types:
        return cells
    # the part below each edge
    n = tree.n_variables
    below = np.argsort(np.where(edge[:n] < 0, n, edge[:n]), kind="stable")
    return np.concatenate([cells, types[:, below[: len(tree.edges)]]], axis=1)
