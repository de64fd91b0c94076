"""Allocation of the arrays of the cut kernels, and checks of their scores."""

import numpy as np

from sksstruct.inference._checks import check_edges, check_scores


def flow_arrays(n_edges, n):
    """Return the arrays of `FlowTrees`, which `_maxflow.pxd` describes.

    A row of the array of arcs has the bytes of a `FlowArc`, and a row of the array of
    nodes those of a `FlowNode`.
    """
    # 32-bit indices halve the memory, which is accessed in random order
    if 2 * n_edges >= 2**31 or n >= 2**31:
        raise ValueError(
            f"the graph is too large for 32-bit indices: {n} nodes, {n_edges} edges"
        )
    # arrays that the kernels write before they read them are not initialized
    return (
        np.zeros(n + 2, dtype=np.int32),
        np.empty(n_edges, dtype=np.int32),
        np.empty((2 * n_edges, 2), dtype=np.int32),
        np.empty((n, 4), dtype=np.int32),
        np.empty(n, dtype=np.int32),
        np.empty(n, dtype=np.int32),
        np.zeros(2 * n_edges),
        np.zeros(n),
        np.zeros(n_edges),
    )


def pair_lists(pairs, n_labels):
    """Check pairs; return the pairs and the arrays of `LabelPairs`."""
    pairs = check_edges(pairs, n_labels)
    if 2 * len(pairs) >= 2**31:
        raise ValueError(f"{len(pairs)} pairs are too many for 32-bit indices")
    ends = pairs.T.ravel()
    # stable: the partners of a label are in the order of their pairs
    order = np.argsort(ends, kind="stable")
    places = np.empty(len(order), dtype=np.int32)
    places[order] = np.arange(len(order))
    return (
        pairs,
        np.ascontiguousarray(places.reshape(2, -1).T),
        np.searchsorted(ends[order], np.arange(n_labels + 1)).astype(np.intp),
        pairs[:, ::-1].T.ravel()[order].astype(np.int32),
        (order % max(len(pairs), 1)).astype(np.int32),
        np.zeros(len(order)),
        *np.zeros((2, n_labels)),
    )


def roof_arrays(n):
    """Return an empty edge list, and the arrays of `ReducedRoofDual` for n labels."""
    places = np.full((2, n), -1, dtype=np.int32)
    arrays = *np.zeros((4, n)), *places, *np.zeros((2, 2 * n), dtype=np.int32)
    return np.empty((0, 2), dtype=np.intp), arrays


def check_finite(name, scores, shape):
    """Return scores as an array; raise unless all are finite and the shape fits."""
    scores = np.ascontiguousarray(check_scores(name, scores, len(shape)))
    if scores.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {scores.shape}")
    if not np.isfinite(scores).all():
        raise ValueError(f"{name}: scores must be finite, got an entry of -inf")
    return scores


def check_rows(unaries, n_labels):
    """Return scores as an array; raise unless all are finite, in n_labels columns."""
    unaries = check_scores("unaries", unaries, 2)
    if unaries.shape[1] != n_labels:
        raise ValueError(
            f"unaries must have {n_labels} columns, got {unaries.shape[1]}"
        )
    return check_finite("unaries", unaries, unaries.shape)


def start_states(unary, start):
    """Return states: 2 for labels on in start (None: of positive score), others 0."""
    start = unary > 0.0 if start is None else np.asarray(start)
    return 2 * start.astype(np.int32)
