"""Longest paths in dense graphs without cycles of positive gain.

gains[i, j] is what the arc from node i to node j gains, -inf where there is none. Rows
are padded (see `sksstruct.utils._layout`), so that a whole row is updated at a time:

    out[j] = max(out[j], value + row[j])        (`sks_raise`)

Without cycles of positive gain the best way from one node to another visits no node
twice, and both methods end after n rounds: Floyd and Warshall's for all pairs of nodes,
and Bellman and Ford's for one.
"""

import numpy as np

from libc.math cimport INFINITY

from sksstruct.utils._simd cimport sks_raise

from sksstruct.utils._layout import pad_rows


cdef void clear_diagonal(double[:, ::1] paths) noexcept nogil:
    """Let the path from each node to itself gain nothing."""
    cdef Py_ssize_t i
    for i in range(paths.shape[0]):
        paths[i, i] = 0.0


def longest_paths(gains):
    """Gain of the best path between every two nodes (Floyd and Warshall).

    gains (n, n) has those of single arcs, -inf where there is none.
    """
    cdef Py_ssize_t n = len(gains), i, middle
    cdef double[:, ::1] paths = pad_rows(gains)
    cdef Py_ssize_t padded = paths.shape[1]
    cdef double gain
    with nogil:
        clear_diagonal(paths)
        # After each round paths may go through the nodes up to this one.
        for middle in range(n):
            for i in range(n):
                gain = paths[i, middle]
                # A node's own row would be read while it is written, for nothing.
                if i != middle and gain > -INFINITY:
                    sks_raise(padded, gain, &paths[middle, 0], &paths[i, 0])
        # Rounding may make a cycle gain a little.
        clear_diagonal(paths)
    return np.asarray(paths)[:, :n]


def potentials(gains):
    """Least prices >= 0 with price[j] >= price[i] + gains[i, j] (Bellman and Ford)."""
    cdef Py_ssize_t n = len(gains), node, _
    cdef const double[:, ::1] arcs = pad_rows(gains)
    # One row: the gain of the best path to each node, from a start that reaches all
    # of them for nothing.
    cdef double[:, ::1] prices = pad_rows([[0.0] * n])
    cdef Py_ssize_t padded = arcs.shape[1]
    cdef double total, last = 0.0
    with nogil:
        for _ in range(n):
            for node in range(n):
                sks_raise(padded, prices[0, node], &arcs[node, 0], &prices[0, 0])
            # Prices only rise: none has changed if their sum has not. More rounds
            # than n would follow rounding around cycles.
            total = 0.0
            for node in range(n):
                total += prices[0, node]
            if total == last:
                break
            last = total
    return np.asarray(prices)[0, :n]
