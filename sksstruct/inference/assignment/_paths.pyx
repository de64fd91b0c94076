"""Prices and longest paths in the residual graph of a best assignment.

Its nodes are the rows and F, which comes last (see `_matching`). gains[i, j] is what
the arc from node i to node j gains, -inf where there is none. Rows are padded (see
`sksstruct.utils._layout`), so that a whole row is updated at a time:

    out[j] = max(out[j], value + row[j])        (`sks_raise`)

Without cycles of positive gain the best way from one node to another visits no node
twice, and both methods end after as many rounds as there are nodes: Floyd and
Warshall's for all pairs of nodes, and Bellman and Ford's for one.
"""

import numpy as np

from libc.math cimport INFINITY

from sksstruct.utils._simd cimport sks_raise

from sksstruct.utils._layout import aligned_zeros, padded_length


cdef void load_gains(const double[:, ::1] scores, const Py_ssize_t[::1] columns,
                     unsigned char[::1] taken, double[:, ::1] gains) noexcept nogil:
    """Write the gains of an assignment's residual graph."""
    cdef Py_ssize_t n_rows = columns.shape[0], i, j
    cdef double current, best
    # the other columns are free, at least one or none at all
    taken[:] = False
    for i in range(n_rows):
        taken[columns[i]] = True
    for i in range(n_rows):
        # the row takes the column of another one
        current = scores[i, columns[i]]
        for j in range(n_rows):
            gains[i, j] = scores[i, columns[j]] - current
        # or the best free one
        best = -INFINITY
        for j in range(scores.shape[1]):
            if not taken[j] and scores[i, j] > best:
                best = scores[i, j]
        gains[i, n_rows] = best - current
    # its own column becomes free, at no gain; no arc leads to F where none is free
    gains[n_rows, :n_rows + 1] = 0.0


cdef void clear_diagonal(double[:, ::1] paths) noexcept nogil:
    """Let the path from each node to itself gain nothing."""
    cdef Py_ssize_t i
    for i in range(paths.shape[0]):
        paths[i, i] = 0.0


def longest_paths(const double[:, ::1] scores, const Py_ssize_t[::1] columns):
    """Compute the gain of the best path between any two nodes (Floyd and Warshall).

    scores (n_rows, n_columns) are the scores of pairs, columns (n_rows,) is the best
    assignment. The result has the shape (n_rows + 1, n_rows + 1).
    """
    cdef Py_ssize_t n = columns.shape[0] + 1, i, middle, padded = padded_length(n)
    cdef double[:, ::1] paths = aligned_zeros(n * padded).reshape(n, padded)
    cdef unsigned char[::1] taken = np.empty(scores.shape[1], dtype=np.uint8)
    cdef double gain
    with nogil:
        load_gains(scores, columns, taken, paths)
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


cdef void raise_prices(const double[:, ::1] gains, double* prices) noexcept nogil:
    """Raise prices, 0 at first, until price[j] >= price[i] + gains[i, j] for all arcs.

    They are the least ones (Bellman and Ford): gains of the best path to each node,
    from a start that reaches all of them for nothing.
    """
    cdef Py_ssize_t n = gains.shape[0], node, _
    cdef double total, last = 0.0
    for _ in range(n):
        for node in range(n):
            sks_raise(gains.shape[1], prices[node], &gains[node, 0], prices)
        # Prices only rise: none has changed if their sum has not. More rounds than n
        # would follow rounding around cycles.
        total = 0.0
        for node in range(n):
            total += prices[node]
        if total == last:
            break
        last = total


def prices_of_columns(const double[:, :, ::1] scores,
                      const Py_ssize_t[:, ::1] columns):
    """Compute the lowest prices of the assigned columns; other columns are free.

    scores (n_problems, n_rows, n_columns) are the scores of problems of one shape,
    columns (n_problems, n_rows) their best assignments. Prices have the latter shape.
    """
    cdef Py_ssize_t n_rows = columns.shape[1], n = n_rows + 1, problem
    cdef Py_ssize_t padded = padded_length(n)
    cdef double[:, ::1] gains = aligned_zeros(n * padded).reshape(n, padded)
    cdef double[:, ::1] prices = aligned_zeros(columns.shape[0] * padded).reshape(
        -1, padded)
    cdef unsigned char[::1] taken = np.empty(scores.shape[2], dtype=np.uint8)
    with nogil:
        for problem in range(columns.shape[0]):
            load_gains(scores[problem], columns[problem], taken, gains)
            raise_prices(gains, &prices[problem, 0])
    return np.asarray(prices)[:, :n_rows]
