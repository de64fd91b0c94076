"""Prices and longest paths in the residual graph of a best assignment.

The nodes are the rows and F, which is last (see `_matching`). gains[i, j] is the gain
of the arc from node i to node j, -inf without an arc. Rows are padded (see
`sksstruct.utils._layout`), so that a whole row is updated at a time:

    out[j] = max(out[j], value + row[j])        (`sks_raise`)

Without cycles of positive gain the best path from one node to another visits no node
twice. Both methods therefore end after as many rounds as there are nodes: the method of
Floyd and Warshall for all pairs of nodes, and that of Bellman and Ford for one start.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.string cimport memset

from sksstruct.utils._simd cimport sks_raise

from sksstruct.utils._layout import aligned_zeros


cdef inline Py_ssize_t padded(Py_ssize_t n) noexcept nogil:
    """Return the length of a padded row of n gains, as `padded_length` does."""
    return 4 if n <= 4 else (n + 7) // 8 * 8


cdef Py_ssize_t paths_memory(Py_ssize_t n_rows) noexcept nogil:
    """Return the number of doubles of memory that `add_paths` needs."""
    return (n_rows + 1) * padded(n_rows + 1)


cdef void load_gains(Py_ssize_t n_rows, Py_ssize_t n_columns, const double* scores,
                     const Py_ssize_t* columns, unsigned char* taken,
                     double* gains) noexcept nogil:
    """Write the gains of an assignment's residual graph, without the padding."""
    cdef Py_ssize_t i, j
    cdef double current, best
    memset(taken, False, n_columns)
    for i in range(n_rows):
        taken[columns[i]] = True
    for i in range(n_rows):
        # arcs to other rows: the row takes the other row's column
        current = scores[columns[i]]
        for j in range(n_rows):
            gains[j] = scores[columns[j]] - current
        # arc to F: the row takes the best free column
        best = -INFINITY
        for j in range(n_columns):
            if not taken[j] and scores[j] > best:
                best = scores[j]
        gains[n_rows] = best - current
        scores += n_columns
        gains += padded(n_rows + 1)
    # arcs from F: the column of a row becomes free, without gain; if all columns are
    # taken, the arcs to F have gain -inf
    for j in range(n_rows + 1):
        gains[j] = 0.0


cdef void find_longest_paths(Py_ssize_t n, double* paths) noexcept nogil:
    """Replace gains of arcs by gains of best paths between all nodes (Floyd, Warshall).

    The path from a node to itself has gain zero.
    """
    cdef Py_ssize_t ld = padded(n), i, middle
    cdef double gain
    for i in range(n):
        paths[i * ld + i] = 0.0
    # after each round, all nodes up to `middle` may be inner nodes of paths
    for middle in range(n):
        for i in range(n):
            gain = paths[i * ld + middle]
            # i == middle would change nothing, and read and write the same row
            if i != middle and gain > -INFINITY:
                sks_raise(ld, gain, paths + middle * ld, paths + i * ld)
    # rounding may have given a cycle a small positive gain: reset
    for i in range(n):
        paths[i * ld + i] = 0.0


cdef void add_paths(Py_ssize_t n_rows, Py_ssize_t n_columns, double* scores,
                    const Py_ssize_t* columns, double total, unsigned char* taken,
                    double* paths) noexcept nogil:
    """Overwrite the scores of pairs with max-marginals.

    Parameters
    ----------
    n_rows, n_columns : int
        Numbers of rows and of columns.
    scores : double*
        Scores of pairs, row by row; overwritten.
    columns : Py_ssize_t*
        The best assignment.
    total : double
        The score of the best assignment.
    taken : unsigned char*
        Scratch for n_columns flags.
    paths : double*
        `paths_memory` doubles of scratch, initialized before the first call.
    """
    cdef Py_ssize_t ld = padded(n_rows + 1), i, j
    cdef double current
    load_gains(n_rows, n_columns, scores, columns, taken, paths)
    find_longest_paths(n_rows + 1, paths)
    # When row i takes the column of row j, row j takes another column, and so on, up to
    # the column that row i left or to a free column.
    for i in range(n_rows):
        current = scores[columns[i]]
        for j in range(n_columns):
            scores[j] -= current
        for j in range(n_rows):
            scores[columns[j]] += paths[j * ld + i]
        for j in range(n_columns):
            if not taken[j]:
                scores[j] += paths[n_rows * ld + i]
            scores[j] = total + scores[j]
        scores += n_columns


def assignment_max_marginals(const double[:, ::1] scores,
                             const Py_ssize_t[::1] columns, double total):
    """Compute max-marginals from scores (n_rows, n_columns) and a best assignment.

    `total` is the score of the assignment.
    """
    cdef Py_ssize_t n_rows = scores.shape[0], n_columns = scores.shape[1]
    cdef double[:, ::1] out = np.array(scores)
    cdef double[::1] paths = aligned_zeros(paths_memory(n_rows))
    cdef unsigned char[::1] taken = np.empty(n_columns, dtype=np.uint8)
    with nogil:
        add_paths(
            n_rows, n_columns, &out[0, 0], &columns[0], total, &taken[0], &paths[0])
    return np.asarray(out)


cdef void raise_prices(const double[:, ::1] gains, double* prices) noexcept nogil:
    """Raise prices from 0 until price[j] >= price[i] + gains[i, j] for all arcs.

    The result is the least such prices (Bellman and Ford): the gain of the best path to
    each node from a start with arcs of gain 0 to all nodes.
    """
    cdef Py_ssize_t n = gains.shape[0], node, _
    cdef double total, last = 0.0
    for _ in range(n):
        for node in range(n):
            sks_raise(gains.shape[1], prices[node], &gains[node, 0], prices)
        # An unchanged sum means unchanged prices, as prices only rise. n rounds
        # suffice; further rounds would accumulate rounding along cycles.
        total = 0.0
        for node in range(n):
            total += prices[node]
        if total == last:
            break
        last = total


def prices_of_columns(const double[:, :, ::1] scores,
                      const Py_ssize_t[:, ::1] columns):
    """Compute the lowest prices of the assigned columns; free columns have price 0.

    scores (n_problems, n_rows, n_columns) has problems of one shape, and columns
    (n_problems, n_rows) their best assignments. The prices have the shape of columns.
    """
    cdef Py_ssize_t n_rows = columns.shape[1], n = n_rows + 1, problem
    cdef Py_ssize_t ld = padded(n)
    cdef double[:, ::1] gains = aligned_zeros(n * ld).reshape(n, ld)
    cdef double[:, ::1] prices = aligned_zeros(columns.shape[0] * ld).reshape(-1, ld)
    cdef unsigned char[::1] taken = np.empty(scores.shape[2], dtype=np.uint8)
    with nogil:
        for problem in range(columns.shape[0]):
            load_gains(n_rows, scores.shape[2], &scores[problem, 0, 0],
                       &columns[problem, 0], &taken[0], &gains[0, 0])
            raise_prices(gains, &prices[problem, 0])
    return np.asarray(prices)[:, :n_rows]
