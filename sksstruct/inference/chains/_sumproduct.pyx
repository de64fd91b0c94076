"""Sum-product on chains: log-partition and marginals (forward-backward).

    log sum over y of exp( sum_t unary[t, y_t] + sum_t pairwise[y_t, y_{t+1}] )

for positions t < size and n labels a, b; rows are padded to ld. With weights u_t(b) =
exp unary[t, b] and v(a, b) = exp pairwise[a, b] the two recursions are

    alpha_t(b) = u_t(b) sum_a alpha_{t-1}(a) v(a, b)        weights of prefixes
    beta_t(a)  = sum_b v(a, b) u_{t+1}(b) beta_{t+1}(b)     weights of suffixes

and the marginals are proportional to alpha_t(b) beta_t(b) and, for pairs, to
alpha_t(a) v(a, b) u_{t+1}(b) beta_{t+1}(b) (Rabiner, 1989, Section III; Algorithm 9 of
Pillutla et al., 2018).

Messages are stored as numbers that sum to one, and tables as exponentials, so that a
step is a product of a vector and a matrix (Rabiner, Section V.A). The products are
exact as long as no nonzero entry can underflow: the kernel compares the smallest
nonzero entry of each message, times the smallest nonzero factors of any position, with
a limit. If this product is below the limit, the chain is computed again in log space.
Log space takes two exponentials per position for each pair of labels whose weight is
within exp(100) of the most probable continuation.

L. R. Rabiner, "A tutorial on hidden Markov models and selected applications in speech
recognition", Proceedings of the IEEE 77(2), 1989.
K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
structured prediction models", NeurIPS 2018.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from sksstruct.utils._memory cimport resize
from sksstruct.utils._pointers cimport const_doubles, doubles
from sksstruct.utils._simd cimport (
    sks_add_outer, sks_exp_row, sks_logsum, sks_rescale, sks_scores_f64, sks_share,
    sks_weigh,
)

# Lower bound on the products of message entries and factors; doubles below 1e-308 lose
# digits.
cdef double TINY = 1e-290


cdef struct Chain:
    # The chain whose labelings are summed.
    Py_ssize_t size, n_labels, ld
    const double* theta         # unary scores (size, ld)
    const EdgeTable* tables
    Py_ssize_t step             # 1, or 0 if all pairs share a table


cdef struct PairMeans:
    # Output arrays for weight times pair marginals; see `sum_product_padded`.
    double weight
    double* outer
    Py_ssize_t outer_step
    double* edges
    Py_ssize_t edges_step


cdef inline const EdgeTable* table_after(const Chain* chain,
                                         Py_ssize_t t) noexcept nogil:
    """The table of pair scores between positions t and t + 1."""
    return chain.tables + t * chain.step


cdef inline double sum_of(Py_ssize_t n_labels, const double* row) noexcept nogil:
    """Sum of the entries of a row, from the first to the last."""
    cdef double total = 0.0
    cdef Py_ssize_t label
    for label in range(n_labels):
        total += row[label]
    return total


cdef inline void transpose(Py_ssize_t n_labels, Py_ssize_t ld, const double* table,
                           double* out) noexcept nogil:
    """Transpose a table whose rows are padded, with zeros in the padding of out."""
    cdef Py_ssize_t first, row, column
    # eight rows at a time, which fill one cache line of out per column
    for first in range(0, n_labels, 8):
        for column in range(n_labels):
            for row in range(first, min(first + 8, n_labels)):
                out[column * ld + row] = table[row * ld + column]
    for column in range(n_labels):
        for row in range(n_labels, ld):
            out[column * ld + row] = 0.0


cdef void exponentiate_table(Py_ssize_t n_labels, Py_ssize_t ld,
                             EdgeTable* table) noexcept nogil:
    """Set `shift`, `low` and the entries of `ahead` and `back` from `scores`."""
    cdef Py_ssize_t before
    cdef double low, high
    # `sks_exp_row` yields exponentials relative to the row's maximum; a factor per row
    # makes them relative to the table's maximum, with one more rounding. The largest
    # weight becomes one, and the weight of forbidden pairs exactly zero; the smallest
    # finite score, `low`, bounds the weights that could underflow.
    table.shift, table.low = -INFINITY, INFINITY
    for before in range(n_labels):
        high = sks_exp_row(n_labels, ld, table.scores + before * ld,
                           table.ahead + before * ld, &low)
        # `back` serves as scratch until the transpose is written
        table.back[before] = high
        table.shift = max(table.shift, high)
        if high > -INFINITY:
            table.low = min(table.low, high + low)
    # a table of -inf only: -inf minus a shift of -inf would be NaN
    if table.shift == -INFINITY:
        table.shift = table.low = 0.0
    table.low -= table.shift
    for before in range(n_labels):
        if table.back[before] > -INFINITY:
            sks_rescale(ld, exp(table.back[before] - table.shift),
                        table.ahead + before * ld)
    transpose(n_labels, ld, table.ahead, table.back)


cdef void share_exponentials(
    Py_ssize_t n, Py_ssize_t ld, const EdgeTable* shared, double high,
    EdgeTable* table
) noexcept nogil:
    """Fill in an EdgeTable from a shared table whose scores differ in few cells.

    The scores of these cells are at most `high`. The caller then calls
    `exponentiate_cell` for each of them.
    """
    cdef double scale
    cdef Py_ssize_t row
    table.shift = shared.shift if shared.shift > high else high
    table.low = shared.low + (shared.shift - table.shift)
    memcpy(table.ahead, shared.ahead, n * ld * sizeof(double))
    memcpy(table.back, shared.back, n * ld * sizeof(double))
    # usually the changed cells do not exceed the largest score of the shared table
    if table.shift > shared.shift:
        scale = exp(shared.shift - table.shift)
        for row in range(n):
            sks_rescale(ld, scale, table.ahead + row * ld)
            sks_rescale(ld, scale, table.back + row * ld)


cdef void exponentiate_cell(EdgeTable* table, Py_ssize_t cell,
                            Py_ssize_t turned) noexcept nogil:
    """Update the exponentials of one cell; `turned` is its index in the transpose."""
    cdef double score = table.scores[cell] - table.shift
    table.ahead[cell] = table.back[turned] = exp(score)
    if score < table.low and score != -INFINITY:
        table.low = score


# ---- on scaled messages ----

cdef double exponentiate_rows(const Chain* chain, SumScratch* ws,
                              double* lowest) noexcept nogil:
    """Set u to exp(theta - maximum of the row); return the sum of the maxima."""
    cdef double total = 0.0, low, lowest_edge = 0.0
    cdef Py_ssize_t t, ld = chain.ld
    cdef Py_ssize_t n_tables = chain.size - 1 if chain.step else min(chain.size - 1, 1)
    # At each position, message entries are multiplied by an entry of a table and an
    # entry of u. The product of these two factors is zero or at least exp(lowest).
    lowest[0] = 0.0
    for t in range(chain.size):
        total += sks_exp_row(chain.n_labels, ld, chain.theta + t * ld, ws.u + t * ld,
                             &low)
        lowest[0] = min(low, lowest[0])
    for t in range(n_tables):
        lowest_edge = min(chain.tables[t].low, lowest_edge)
    lowest[0] += lowest_edge
    return total


cdef bint scaled_forward(const Chain* chain, SumScratch* ws, double limit,
                         double* log_partition) noexcept nogil:
    """Set alpha, each row scaled to sum to one, and the log-partition.

    Returns False if a nonzero entry of alpha is below the limit, or if the sum of a row
    before scaling is below TINY.
    """
    cdef double* zeros = ws.rows
    cdef double* message = ws.rows + chain.ld
    cdef double* alpha = ws.alpha
    cdef double product = 1.0, mass
    cdef Py_ssize_t t, ld = chain.ld
    cdef const EdgeTable* table
    # On entry log_partition is the sum of the rows' maxima; the loop adds the shifts of
    # the tables and the logarithms of the scales.
    memset(zeros, 0, ld * sizeof(double))
    for t in range(chain.size):
        if t == 0:
            memcpy(alpha, ws.u, ld * sizeof(double))
            mass = sum_of(chain.n_labels, ws.u)
        else:
            table = table_after(chain, t - 1)
            log_partition[0] += table.shift
            sks_scores_f64(
                chain.n_labels, NULL, alpha, 1.0, table.ahead, ld, zeros, message)
            alpha += ld
            mass = sks_weigh(ld, message, ws.u + t * ld, alpha)
        # Nonzero entries were above the limit at the position before, and cannot
        # underflow here: a mass of zero means that all prefixes are forbidden.
        if mass == 0.0:
            log_partition[0] = -INFINITY
            return True
        if mass < TINY:
            return False
        # Logarithms are slow: one logarithm of a product replaces those of its factors.
        # The product must not leave the range of doubles: the logarithm of a very small
        # mass is taken alone, and a product that becomes very large or small is reset
        # to one.
        if mass < 1e-100:
            log_partition[0] += log(mass)
        else:
            product *= mass
        if product < 1e-200 or product > 1e200:
            log_partition[0] += log(product)
            product = 1.0
        if sks_rescale(ld, 1.0 / mass, alpha) < limit:
            return False
    log_partition[0] += log(product)
    return True


cdef bint scaled_backward(const Chain* chain, SumScratch* ws,
                          double* node) noexcept nogil:
    """Set the node marginals from alpha; return False if their sum could underflow."""
    cdef double* zeros = ws.rows
    cdef double* beta = ws.rows + chain.ld
    cdef double* raw = ws.rows + 2 * chain.ld
    cdef double mass
    cdef Py_ssize_t t, ld = chain.ld, last = chain.size - 1
    # For the pair marginals, u_t becomes u_t beta_t for t >= 1, and scales[t] becomes
    # the factor by which alpha_t v u_{t+1} beta_{t+1} sums to one; node marginals at t
    # have the same factor.
    memcpy(node + last * ld, ws.alpha + last * ld, ld * sizeof(double))
    for t in range(last - 1, -1, -1):
        # beta of the last position is one
        if t + 1 < last:
            sks_weigh(ld, beta, ws.u + (t + 1) * ld, ws.u + (t + 1) * ld)
        sks_scores_f64(chain.n_labels, NULL, ws.u + (t + 1) * ld, 1.0,
                       table_after(chain, t).back, ld, zeros, raw)
        mass = sks_weigh(ld, ws.alpha + t * ld, raw, node + t * ld)
        if mass < TINY:
            return False
        ws.scales[t] = 1.0 / mass
        sks_rescale(ld, 1.0 / mass, node + t * ld)
        memcpy(beta, raw, ld * sizeof(double))
        # Entries of beta that underflow here are below 1e-308 of the largest entry, and
        # entries of alpha differ by a factor of at most 1e290: such marginals are
        # negligible.
        sks_rescale(ld, 1.0 / sum_of(chain.n_labels, raw), beta)
    return True


cdef bint scaled(const Chain* chain, SumScratch* ws, double* node,
                 const PairMeans* pairs, double* log_partition) noexcept nogil:
    """Run forward-backward on scaled messages; return False if any could underflow."""
    cdef double total, lowest
    cdef Py_ssize_t t, ld = chain.ld
    total = log_partition[0] = exponentiate_rows(chain, ws, &lowest)
    if total == -INFINITY:
        return True
    # No nonzero factor is below exp(lowest). The limit must stay far below one, the sum
    # of a message: exp(600) TINY is 4e-30.
    if lowest < -600.0:
        return False
    if not scaled_forward(chain, ws, TINY * exp(-lowest), log_partition):
        return False
    if log_partition[0] == -INFINITY or node == NULL:
        return True
    if not scaled_backward(chain, ws, node):
        return False
    # pair marginals are added last: they must be unchanged if the result is False
    if pairs.outer != NULL:
        for t in range(chain.size - 1):
            sks_add_outer(chain.n_labels, ld, pairs.weight * ws.scales[t],
                          ws.alpha + t * ld, ws.u + (t + 1) * ld,
                          pairs.outer + t * pairs.outer_step)
    return True


# ---- in log space ----

cdef double backward_in_log_space(const Chain* chain, SumScratch* ws) noexcept nogil:
    """Set alpha to log beta, and u to log u_t beta_t; return the log-partition."""
    cdef Py_ssize_t t, label, n_labels = chain.n_labels, ld = chain.ld
    cdef const double* scores
    cdef double* after
    # Logarithms of messages neither underflow nor overflow. The backward messages are
    # computed first, so that the factors of the forward pass are transition
    # probabilities, which are at most one.
    for t in range(chain.size - 1, -1, -1):
        after = ws.u + t * ld
        memcpy(after, chain.theta + t * ld, n_labels * sizeof(double))
        for label in range(n_labels, ld):
            after[label] = -INFINITY
        if t + 1 < chain.size:
            for label in range(n_labels):
                after[label] += ws.alpha[t * ld + label]
        if t == 0:
            break
        scores = table_after(chain, t - 1).scores
        for label in range(n_labels):
            ws.alpha[(t - 1) * ld + label] = sks_logsum(
                ld, scores + label * ld, after)
    # a row of zeros replaces the transition scores before the first position
    memset(ws.rows, 0, ld * sizeof(double))
    return sks_logsum(ld, ws.rows, ws.u)


cdef void forward_in_log_space(
    const Chain* chain, SumScratch* ws, double log_partition, double* node,
    const PairMeans* pairs
) noexcept nogil:
    """Set the node marginals and add pair marginals, from the backward messages."""
    cdef Py_ssize_t t, label, ld = chain.ld
    cdef double* zeros = ws.rows
    cdef double* shares = ws.rows + ld
    cdef const double* scores
    cdef double* out = NULL
    memset(node, 0, chain.size * ld * sizeof(double))
    sks_share(ld, zeros, ws.u, log_partition, 1.0, 0.0, shares, node, NULL)
    # Each label with a positive probability distributes this probability among the
    # labels at t + 1. Scores that need log space differ by much, so that few labels
    # have a positive probability.
    for t in range(chain.size - 1):
        scores = table_after(chain, t).scores
        for label in range(chain.n_labels):
            if node[t * ld + label] == 0.0:
                continue
            if pairs.edges != NULL:
                out = pairs.edges + t * pairs.edges_step + label * ld
            sks_share(ld, scores + label * ld, ws.u + (t + 1) * ld,
                      ws.alpha[t * ld + label], node[t * ld + label], pairs.weight,
                      shares, node + (t + 1) * ld, out)


cdef void in_log_space(const Chain* chain, SumScratch* ws, double* node,
                       const PairMeans* pairs, double* log_partition) noexcept nogil:
    """Run forward-backward in log space, for scores of any size."""
    log_partition[0] = backward_in_log_space(chain, ws)
    # there are no marginals if every labeling is forbidden, and node is NULL if the
    # caller asks for the log-partition only
    if log_partition[0] > -INFINITY and node != NULL:
        forward_in_log_space(chain, ws, log_partition[0], node, pairs)


cdef int sum_product_padded(
    Py_ssize_t size, Py_ssize_t n, Py_ssize_t ld, const double* theta,
    const EdgeTable* tables, Py_ssize_t step, SumScratch* ws, double* node,
    double weight, double* outer, Py_ssize_t outer_step, double* edges,
    Py_ssize_t edges_step, double* log_partition
) except -1 nogil:
    """Log-partition and marginals of a chain whose rows are padded to ld.

    theta (size, ld) has the unary scores; positions t, t + 1 use tables[t * step]. node
    (size, ld) becomes the node marginals; NULL asks for the log-partition only. Pair
    marginals, times weight, are added to one of two arrays: the scaled messages add to
    outer + t * outer_step, where the factor `ahead` of the table is still missing; log
    space adds complete marginals to edges + t * edges_step. If every labeling is
    forbidden, the log-partition is -inf and the marginals are undefined.

    Returns 0 if ws.u holds u_t beta_t from the second position on, up to a factor for
    each position, and 1 if ws.u and ws.alpha hold log u_t beta_t and log beta_t.
    """
    cdef Chain chain = Chain(size, n, ld, theta, tables, step)
    cdef PairMeans pairs = PairMeans(weight, outer, outer_step, edges, edges_step)
    if scaled(&chain, ws, node, &pairs, log_partition):
        return 0
    in_log_space(&chain, ws, node, &pairs, log_partition)
    return 1


cdef void weigh_pairs(const Chain* chain, double* edges) noexcept nogil:
    """Multiply pair marginals, as written by `scaled`, by exponentials of tables."""
    cdef Py_ssize_t t, i, cells = chain.n_labels * chain.ld
    cdef const double* ahead
    for t in range(chain.size - 1):
        ahead = table_after(chain, t).ahead
        for i in range(cells):
            edges[i] *= ahead[i]
        edges += cells


def sum_labelings(Py_ssize_t n_labels, theta, tables, bint has_tables, exponentials,
                  rows, edges):
    """Write the marginals of a chain, and return the log-partition.

    Parameters
    ----------
    n_labels : int
        Number of labels.
    theta : ndarray of shape (size, ld)
        Padded scores of the labels.
    tables : ndarray of shape (n_tables * n_labels, ld)
        Padded tables.
    has_tables : bool
        Whether each pair of neighbors has its own table.
    exponentials : ndarray of shape (2 * max(n_tables, 1) * n_labels * ld,)
        Scratch.
    rows : ndarray of shape (3 * (size + 1) * ld + size,)
        Scratch, with the marginals of labels from 2 * size * ld on.
    edges : ndarray of shape ((size - 1) * n_labels * ld,)
        Zeros, to which the marginals of pairs are added.
    """
    cdef Py_ssize_t size = theta.shape[0], ld = theta.shape[1], cells = n_labels * ld
    cdef Py_ssize_t n_tables = size - 1 if has_tables else 1, t
    cdef const double* scores = const_doubles(tables)
    cdef double* powers = doubles(exponentials)
    cdef double* memory = doubles(rows)
    cdef double* node = memory + 2 * size * ld
    cdef double* pair = doubles(edges)
    cdef SumScratch ws = SumScratch(memory, memory + size * ld, node + size * ld,
                                    node + (size + 3) * ld)
    cdef double log_partition = 0.0
    cdef EdgeTable* given = NULL
    cdef Chain chain
    cdef PairMeans pairs = PairMeans(1.0, pair, cells, pair, cells)
    resize(<void**> &given, n_tables * sizeof(EdgeTable))
    chain = Chain(size, n_labels, ld, const_doubles(theta), given, has_tables)
    try:
        with nogil:
            for t in range(n_tables):
                given[t].scores = scores + t * cells
                given[t].ahead = powers + 2 * t * cells
                given[t].back = given[t].ahead + cells
                exponentiate_table(n_labels, ld, &given[t])
            # the two parts of `sum_product_padded`; after `scaled` the factor `ahead`
            # is missing
            if scaled(&chain, &ws, node, &pairs, &log_partition):
                weigh_pairs(&chain, pair)
            else:
                in_log_space(&chain, &ws, node, &pairs, &log_partition)
    finally:
        free(given)
    return log_partition
