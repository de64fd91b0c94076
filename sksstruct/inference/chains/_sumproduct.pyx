"""Sum-product on chains: log-partition and marginals (forward-backward).

    log sum over y of exp( sum_t unary[t, y_t] + sum_t pairwise[y_t, y_{t+1}] )

Messages are kept as numbers that sum to one, and tables as exponentials, so that a step
is a product of a vector and a matrix. That loses nothing as long as no entry that is
not zero could underflow: the smallest entry of each message, times the smallest factors
that it can meet, is watched. Where it gets too small, the chain is done again in log
space, at the price of an exponential for each pair of labels and position.
"""

import numpy as np

from libc.math cimport INFINITY, exp, isinf, log
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from sksstruct.utils._simd cimport (
    sks_add_outer, sks_exp_row, sks_logplus, sks_rescale, sks_scores_f64,
    sks_weigh,
)

from sksstruct.inference._checks import check_chain
from sksstruct.utils._layout import aligned_zeros, pad_rows, padded_length

# Messages stay above this times the smallest factors; doubles go down to 1e-308.
cdef double TINY = 1e-290


cdef void exponentiate_table(Py_ssize_t n, Py_ssize_t ld,
                             EdgeTable* table) noexcept nogil:
    """Fill in all of an EdgeTable but its scores and the memory it points to."""
    cdef Py_ssize_t a, b
    cdef double low, high, x
    table.shift, table.low = -INFINITY, INFINITY
    for a in range(n):
        for b in range(n):
            x = table.scores[a * ld + b]
            if x > table.shift:
                table.shift = x
            if x < table.low and x != -INFINITY:
                table.low = x
    if table.shift == -INFINITY:
        table.shift = table.low = 0.0
    table.low -= table.shift
    memset(table.back, 0, n * ld * sizeof(double))
    for a in range(n):
        # exponentials relative to the row's maximum, then to the table's
        high = sks_exp_row(n, ld, table.scores + a * ld, table.ahead + a * ld, &low)
        if high > -INFINITY:
            sks_rescale(ld, exp(high - table.shift), table.ahead + a * ld)
        for b in range(n):
            table.back[b * ld + a] = table.ahead[a * ld + b]


cdef bint scaled(
    Py_ssize_t size, Py_ssize_t n, Py_ssize_t ld, const double* theta,
    const EdgeTable* tables, Py_ssize_t step, SumScratch* ws, double* node,
    double weight, double* outer, Py_ssize_t outer_step, double* log_partition
) noexcept nogil:
    """Forward-backward on scaled messages; False where it could underflow."""
    cdef double* zeros = ws.rows
    cdef double* message = ws.rows + ld
    cdef double* raw = ws.rows + 2 * ld
    cdef double total = 0.0, product = 1.0, low, lowest = 0.0, lowest_edge = 0.0, c
    cdef double limit
    cdef Py_ssize_t t, b
    cdef const EdgeTable* table
    memset(zeros, 0, ld * sizeof(double))
    for t in range(size):
        total += sks_exp_row(n, ld, theta + t * ld, ws.u + t * ld, &low)
        lowest = low if low < lowest else lowest
    for t in range(size - 1 if step else min(size - 1, 1)):
        low = tables[t].low
        lowest_edge = low if low < lowest_edge else lowest_edge
    if total == -INFINITY:
        log_partition[0] = -INFINITY
        return True
    # no factor that is not zero is below exp(lowest + lowest_edge)
    if lowest + lowest_edge < -600.0:
        return False
    limit = TINY * exp(-lowest - lowest_edge)
    # forward: alpha_t(b) sums the weights of all prefixes that end in b, scaled
    for t in range(size):
        if t == 0:
            memcpy(ws.alpha, ws.u, ld * sizeof(double))
            c = 0.0
            for b in range(n):
                c += ws.u[b]
        else:
            table = tables + (t - 1) * step
            total += table.shift
            sks_scores_f64(n, NULL, ws.alpha + (t - 1) * ld, table.ahead, ld, zeros,
                           message)
            c = sks_weigh(ld, message, ws.u + t * ld, ws.alpha + t * ld)
        if c == 0.0:
            log_partition[0] = -INFINITY
            return True
        if c < TINY:
            return False
        if c < 1e-100:
            total += log(c)
        else:
            product *= c
        if product < 1e-200 or product > 1e200:
            total += log(product)
            product = 1.0
        if sks_rescale(ld, 1.0 / c, ws.alpha + t * ld) < limit:
            return False
    log_partition[0] = total + log(product)
    if node == NULL:
        return True
    # backward: message_t(a) sums the weights of all that follows a, scaled; u_t
    # becomes u_t * message_t
    memcpy(node + (size - 1) * ld, ws.alpha + (size - 1) * ld, ld * sizeof(double))
    for t in range(size - 2, -1, -1):
        table = tables + t * step
        if t < size - 2:
            sks_weigh(ld, message, ws.u + (t + 1) * ld, ws.u + (t + 1) * ld)
        sks_scores_f64(n, NULL, ws.u + (t + 1) * ld, table.back, ld, zeros, raw)
        c = sks_weigh(ld, ws.alpha + t * ld, raw, node + t * ld)
        if c < TINY:
            return False
        ws.scales[t] = 1.0 / c
        sks_rescale(ld, 1.0 / c, node + t * ld)
        c = 0.0
        for b in range(n):
            c += raw[b]
        memcpy(message, raw, ld * sizeof(double))
        # What underflows here is below 1e-308 of the largest, and the prefixes are
        # within 1e290 of each other: no marginal could be seen in it.
        sks_rescale(ld, 1.0 / c, message)
    if outer != NULL:
        for t in range(size - 1):
            sks_add_outer(n, ld, weight * ws.scales[t], ws.alpha + t * ld,
                          ws.u + (t + 1) * ld, outer + t * outer_step)
    return True


cdef int in_log_space(
    Py_ssize_t size, Py_ssize_t n, Py_ssize_t ld, const double* theta,
    const EdgeTable* tables, Py_ssize_t step, SumScratch* ws, double* node,
    double weight, double* edges, Py_ssize_t edges_step, double* log_partition
) except -1 nogil:
    """The same, for scores of any size."""
    cdef double* back = <double*> malloc(n * ld * sizeof(double))
    cdef double* ahead = ws.rows
    cdef double* message = ws.rows + ld
    cdef double* after = ws.rows + 2 * ld
    cdef const double* scores
    cdef double total, scale, low, x, high = -INFINITY
    cdef Py_ssize_t t, a, b
    if back == NULL:
        raise MemoryError()
    memcpy(ws.alpha, theta, ld * sizeof(double))
    for t in range(1, size):
        memcpy(ws.alpha + t * ld, theta + t * ld, ld * sizeof(double))
        sks_logplus(n, ld, ws.alpha + (t - 1) * ld, tables[(t - 1) * step].scores,
                    ws.alpha + t * ld)
    for b in range(n):
        if ws.alpha[(size - 1) * ld + b] > high:
            high = ws.alpha[(size - 1) * ld + b]
    if high == -INFINITY:
        log_partition[0] = high
        free(back)
        return 0
    total = 0.0
    for b in range(n):
        total += exp(ws.alpha[(size - 1) * ld + b] - high)
    total = high + log(total)
    log_partition[0] = total
    if node == NULL:
        free(back)
        return 0
    memset(message, 0, ld * sizeof(double))
    memset(back, 0, n * ld * sizeof(double))
    for t in range(size - 1, -1, -1):
        # Each row by its own sum: rounding of the total would be exponentiated.
        for b in range(n):
            ahead[b] = ws.alpha[t * ld + b] + message[b]
        sks_exp_row(n, ld, ahead, node + t * ld, &low)
        scale = 0.0
        for b in range(n):
            scale += node[t * ld + b]
        sks_rescale(ld, 1.0 / scale, node + t * ld)
        if t == 0:
            break
        scores = tables[(t - 1) * step].scores
        for b in range(n):
            after[b] = theta[t * ld + b] + message[b]
        if edges != NULL:
            high = -INFINITY
            scale = 0.0
            for a in range(n):
                for b in range(n):
                    x = ws.alpha[(t - 1) * ld + a] + scores[a * ld + b] + after[b]
                    high = x if x > high else high
            for a in range(n):
                for b in range(n):
                    x = ws.alpha[(t - 1) * ld + a] + scores[a * ld + b] + after[b]
                    scale += exp(x - high)
            for a in range(n):
                for b in range(n):
                    x = ws.alpha[(t - 1) * ld + a] + scores[a * ld + b] + after[b]
                    edges[(t - 1) * edges_step + a * ld + b] += (
                        weight / scale * exp(x - high))
        if step or t == size - 1:
            for a in range(n):
                for b in range(n):
                    back[b * ld + a] = scores[a * ld + b]
        memset(ahead, 0, ld * sizeof(double))
        sks_logplus(n, ld, after, back, ahead)
        memcpy(message, ahead, ld * sizeof(double))
    free(back)
    return 0


cdef int sum_product_padded(
    Py_ssize_t size, Py_ssize_t n, Py_ssize_t ld, const double* theta,
    const EdgeTable* tables, Py_ssize_t step, SumScratch* ws, double* node,
    double weight, double* outer, Py_ssize_t outer_step, double* edges,
    Py_ssize_t edges_step, double* log_partition
) except -1 nogil:
    """Log-partition and marginals of a chain whose rows are padded to ld.

    theta (size, ld) has the unary scores; position t uses tables[t * step]. node
    (size, ld) becomes the node marginals; NULL asks for the log-partition only. Edge
    marginals, times weight, are added in one of two places: those of pair t to outer +
    t * outer_step where they still want the factor `ahead` of the table, or to edges +
    t * edges_step as they are. If every labeling is forbidden the log-partition is
    -inf, and nothing else has a meaning.
    """
    if not scaled(size, n, ld, theta, tables, step, ws, node, weight, outer,
                  outer_step, log_partition):
        in_log_space(size, n, ld, theta, tables, step, ws, node, weight, edges,
                     edges_step, log_partition)
    return 0


def forward_backward(unary, pairwise):
    """Log-partition function and marginals of a chain (sum-product).

    Parameters
    ----------
    unary : array-like of shape (T, K)
        Score of each of K labels at each of T >= 1 positions; ``-inf`` forbids a
        label.
    pairwise : array-like of shape (K, K) or (T - 1, K, K)
        Score of each pair of neighbouring labels, from -> to: one table for all
        places, or one for each pair of positions. ``-inf`` forbids a pair.

    Returns
    -------
    log_partition : float
        Logarithm of the sum over all labelings of the exponential of their score.
    nodes : ndarray of shape (T, K)
        Probability of each label at each position.
    edges : ndarray of shape (T - 1, K, K)
        Probability of each pair of neighbouring labels, from -> to.

    Raises
    ------
    ValueError
        If the shapes do not fit, an entry is NaN or ``+inf``, or every labeling is
        forbidden, so that there is no distribution.

    Notes
    -----
    Algorithm 9 of [1]_ on a chain. Scores may be of any size: they are never
    exponentiated without taking out their maximum, and where messages would underflow
    the chain is done in log space.

    References
    ----------
    .. [1] K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to
       train structured prediction models", NeurIPS 2018.

    Examples
    --------
    >>> from sksstruct.inference import forward_backward
    >>> unary, pairwise = [[1, 0], [0, 0]], [[1, 0], [0, 1]]
    >>> log_partition, nodes, edges = forward_backward(unary, pairwise)
    >>> nodes.round(2).tolist()
    [[0.73, 0.27], [0.61, 0.39]]
    """
    unary, pairwise = check_chain(unary, pairwise)
    cdef Py_ssize_t size = unary.shape[0], n = unary.shape[1]
    cdef Py_ssize_t ld = padded_length(n), t, a, b
    cdef bint shared = pairwise.ndim == 2
    cdef Py_ssize_t n_tables = 1 if shared else size - 1
    cdef double[:, ::1] theta = pad_rows(unary)
    cdef double[:, ::1] scores = pad_rows(
        pairwise.reshape(-1, n) if pairwise.size else np.zeros((n, n)))
    cdef double[::1] exponentials = aligned_zeros(2 * max(n_tables, 1) * n * ld)
    cdef double[::1] rows = aligned_zeros((3 * size + 4) * ld + size)
    cdef double[::1] edges = aligned_zeros(max(size - 1, 1) * n * ld)
    cdef double* edge
    cdef SumScratch ws
    cdef double log_partition = 0.0
    cdef EdgeTable* tables = <EdgeTable*> malloc(max(n_tables, 1) * sizeof(EdgeTable))
    if tables == NULL:
        raise MemoryError()
    ws.u = &rows[0]
    ws.alpha = ws.u + size * ld
    cdef double* node = ws.alpha + size * ld
    ws.rows = node + size * ld
    ws.scales = ws.rows + 3 * ld
    try:
        with nogil:
            for t in range(n_tables):
                tables[t].scores = &scores[t * n, 0]
                tables[t].ahead = &exponentials[2 * t * n * ld]
                tables[t].back = tables[t].ahead + n * ld
                exponentiate_table(n, ld, &tables[t])
            if scaled(size, n, ld, &theta[0, 0], tables, not shared, &ws, node,
                      1.0, &edges[0], n * ld, &log_partition):
                for t in range(size - 1):
                    for a in range(n):
                        edge = &edges[(t * n + a) * ld]
                        for b in range(n):
                            edge[b] *= tables[0 if shared else t].ahead[a * ld + b]
            else:
                in_log_space(size, n, ld, &theta[0, 0], tables, not shared, &ws, node,
                             1.0, &edges[0], n * ld, &log_partition)
    finally:
        free(tables)
    if isinf(log_partition):
        raise ValueError(
            "every labeling is forbidden: unary and pairwise leave no distribution")
    first = 2 * size * ld
    nodes = np.asarray(rows)[first:first + size * ld].reshape(size, ld)[:, :n]
    pairs = np.asarray(edges)[:(size - 1) * n * ld].reshape(size - 1, n, ld)[:, :, :n]
    return log_partition, np.ascontiguousarray(nodes), np.ascontiguousarray(pairs)
