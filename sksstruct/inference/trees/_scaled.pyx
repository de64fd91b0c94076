"""Sum-product on forests with full tables, on scaled messages.

With weights u_v = exp(theta_v) and tables v = exp(table), the logarithms of `_sums.pyx`
are those of

    up_v(a)     = u_v(a) product over children c of  sum_b up_c(b) v(b, a)
    beside_c(a) = u_v(a) what comes from above v  product of messages of other children

These are kept as numbers that sum to one. A message is then a product of a vector and a
matrix, and the exponentials are those of the scores, each taken once; see
`inference/chains/_sumproduct.pyx`. Products of children's messages are formed from both
ends of the list of children, as nothing can be divided by zero.

Nothing that is not zero may underflow: u and v have entries down to exp(lowest)
together, and rows that are sent through tables stay above `limit` = TINY exp(-lowest).
Of any other product the smallest factors are watched. A forest where an entry gets too
small is done again in log space.
"""

from libc.math cimport INFINITY, exp, log
from libc.string cimport memcpy, memset

from sksstruct.inference.chains._sumproduct cimport exponentiate_table
from sksstruct.inference.trees._flat cimport FlatForest, is_forward
from sksstruct.utils._simd cimport (
    sks_add_outer, sks_dot, sks_exp_row, sks_rescale, sks_scores_f64, sks_weigh,
)

# Products stay above this; doubles go down to 1e-308.
cdef double TINY = 1e-290
# The limit has to be far below one, which is what rows sum to: here it is 4e-30.
cdef double LOWEST = -600.0


cdef bint scaled_sum_product(Sums* sums, double* nodes, double* pairs,
                             double* log_partition) noexcept nogil:
    """Write marginals and the log-partition function as `sum_product_forest` does.

    Returns False where an entry could underflow. Then `pairs` are zero again.
    """
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t cells = forest.n_labels * forest.ld, node
    cdef const double* tables = pairs if forest.step else sums.table.ahead
    cdef bint done = exponentiate(sums, pairs, log_partition)
    if done and log_partition[0] > -INFINITY:
        done = collect(sums, tables, log_partition)
    if done and log_partition[0] > -INFINITY:
        done = distribute(sums, tables, nodes)
        if done:
            write_pairs(sums, pairs)
            return True
    # of exponentials
    for node in range(forest.n_nodes if forest.step else 0):
        if forest.parent[node] >= 0:
            memset(pairs + forest.edge_up[node] * forest.step, 0,
                   cells * sizeof(double))
    return done


cdef bint exponentiate(Sums* sums, double* pairs, double* total) noexcept nogil:
    """Write exponentials of the scores, relative to the largest of each row and table.

    Those of tables of edges come to the place of the marginals of pairs, which they are
    factors of. The sum of what the exponentials are relative to is written to `total`.
    Returns False where the products may be too small.
    """
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t ld = forest.ld, node, k, edge
    cdef double low, lowest = 0.0, lowest_edge = 0.0
    cdef bint waiting = True
    total[0] = 0.0
    for node in range(forest.n_nodes):
        for k in range(node * ld, node * ld + forest.n_labels):
            sums.beside[k] = sums.scale * forest.theta[k]
        total[0] += sks_exp_row(forest.n_labels, ld, sums.beside + node * ld,
                                sums.belief + node * ld, &low)
        lowest = min(low, lowest)
        sums.low[node] = exp(low)
    if total[0] == -INFINITY:
        return True
    for node in range(forest.n_nodes):
        edge = forest.edge_up[node]
        if forest.parent[node] < 0:
            continue
        if forest.step:
            sums.table.ahead = pairs + edge * forest.step
        if forest.step or waiting:
            exponentiate_edge(sums, edge)
            waiting = False
        total[0] += sums.table.shift
        lowest_edge = min(sums.table.low, lowest_edge)
        # no other table is worth its exponentials
        if lowest + lowest_edge < LOWEST:
            return False
    lowest += lowest_edge
    sums.limit = TINY * exp(-lowest)
    return lowest >= LOWEST


cdef bint exponentiate_edge(Sums* sums, Py_ssize_t edge) noexcept nogil:
    """Load the scaled scores of an edge and their exponentials.

    Returns whether all scores are finite.
    """
    cdef const FlatForest* forest = sums.forest
    cdef const double* scores = forest.tables + edge * forest.step
    cdef Py_ssize_t label, k
    cdef bint finite = True
    for label in range(forest.n_labels):
        for k in range(label * forest.ld, label * forest.ld + forest.n_labels):
            sums.scores[k] = sums.scale * scores[k]
            finite = finite and scores[k] != -INFINITY
    exponentiate_table(forest.n_labels, forest.ld, &sums.table)
    return finite


# ---- products ----

cdef inline double sum_of(Py_ssize_t n, const double* row) noexcept nogil:
    """Return the sum of the entries of a row."""
    cdef Py_ssize_t label
    cdef double total = 0.0
    for label in range(n):
        total += row[label]
    return total


cdef inline bint weigh(const Sums* sums, const double* x, double low_x, const double* y,
                       double low_y, double* out, double* low,
                       double* mass) noexcept nogil:
    """Write the product of two rows, scaled to sum one, its lowest entry, and its sum.

    Returns False where an entry could underflow, given the smallest ones of x and y.
    """
    cdef Py_ssize_t ld = sums.forest.ld
    if low_x * low_y < TINY:
        return False
    mass[0] = sks_weigh(ld, x, y, out)
    # zero did not underflow: everything is forbidden
    if mass[0] == 0.0:
        return True
    low[0] = sks_rescale(ld, 1.0 / mass[0], out)
    return low[0] >= sums.limit


cdef void send(Sums* sums, Py_ssize_t child, bint up, const double* row,
               const double* tables, double* out) noexcept nogil:
    """Send a row through the table of the edge between a child and its parent."""
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t n = forest.n_labels, ld = forest.ld, label
    cdef const double* ahead = tables + forest.edge_up[child] * forest.step
    if is_forward(forest, child) == up:
        sks_scores_f64(n, NULL, row, 1.0, ahead, ld, sums.rows, out)
    elif forest.step == 0:
        sks_scores_f64(n, NULL, row, 1.0, sums.table.back, ld, sums.rows, out)
    else:
        # of tables of edges there is no transpose
        memset(out, 0, ld * sizeof(double))
        for label in range(n):
            out[label] = sks_dot(ld, ahead + label * ld, row)


# ---- messages ----

cdef bint collect(Sums* sums, const double* tables,
                  double* log_partition) noexcept nogil:
    """The first pass: messages to parents; False where an entry could underflow.

    On entry `log_partition` is what the exponentials are relative to.
    """
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t ld = forest.ld, k, node, parent
    cdef double product = 1.0, mass
    cdef double* up
    cdef double* message
    memcpy(sums.up, sums.belief, forest.n_nodes * ld * sizeof(double))
    for k in range(forest.n_nodes - 1, -1, -1):
        node = forest.order[k]
        parent = forest.parent[node]
        if parent < 0:
            mass = sum_of(forest.n_labels, sums.up + node * ld)
        else:
            message, up = sums.message + node * ld, sums.up + parent * ld
            send(sums, node, True, sums.up + node * ld, tables, message)
            sums.low[node] = sks_rescale(ld, 1.0, message)
            if not weigh(sums, up, sums.low[parent], message, sums.low[node], up,
                         &sums.low[parent], &mass):
                return False
        if mass == 0.0:
            log_partition[0] = -INFINITY
            return True
        # one logarithm for the product of several scales, as they are slow
        if mass < 1e-100:
            log_partition[0] += log(mass)
        else:
            product *= mass
        if product < 1e-200 or product > 1e200:
            log_partition[0] += log(product)
            product = 1.0
    log_partition[0] += log(product)
    return True


cdef bint distribute(Sums* sums, const double* tables, double* nodes) noexcept nogil:
    """The second pass: messages to children, and marginals of nodes."""
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t ld = forest.ld, k, node, child, following = 0, first
    cdef double mass
    # after all roots come the children of the first, those of the second, and so on
    while following < forest.n_nodes and forest.parent[forest.order[following]] < 0:
        following += 1
    for k in range(forest.n_nodes):
        node, first = forest.order[k], following
        while (following < forest.n_nodes
               and forest.parent[forest.order[following]] == node):
            following += 1
        if forest.parent[node] < 0:
            memcpy(nodes + node * ld, sums.up + node * ld, ld * sizeof(double))
            mass = sum_of(forest.n_labels, nodes + node * ld)
        else:
            # the message from the parent is in the place of that to it
            mass = sks_weigh(ld, sums.up + node * ld, sums.message + node * ld,
                             nodes + node * ld)
            if mass < TINY:
                return False
        sums.log_partition[node] = 1.0 / mass
        sks_rescale(ld, 1.0 / mass, nodes + node * ld)
        if first < following and not find_beside(sums, node, first, following):
            return False
        while first < following:
            child = forest.order[first]
            send(sums, child, False, sums.beside + child * ld, tables,
                 sums.message + child * ld)
            first += 1
    return True


cdef bint find_beside(Sums* sums, Py_ssize_t node, Py_ssize_t first,
                      Py_ssize_t last) noexcept nogil:
    """Write what each child of a node is beside; False where it could underflow.

    The children are nodes `first` to `last` in the order.
    """
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t ld = forest.ld, k, child = forest.order[first], following
    cdef double* beside = sums.beside + child * ld
    cdef double* after = sums.rows + 3 * ld
    cdef double* message
    # smallest entries of what children are beside, until their masses are known
    cdef double* low = sums.log_partition
    cdef double low_after, mass
    if forest.parent[node] < 0:
        memcpy(beside, sums.belief + node * ld, ld * sizeof(double))
        low[child] = sks_rescale(ld, 1.0, beside)
        if low[child] < sums.limit:
            return False
    # a message of what is above the limit, and scores: large enough
    elif not weigh(sums, sums.belief + node * ld, 1.0, sums.message + node * ld, 1.0,
                   beside, &low[child], &mass):
        return False
    # those before a child, and then those after it
    for k in range(first, last - 1):
        child, following = forest.order[k], forest.order[k + 1]
        if not weigh(sums, sums.beside + child * ld, low[child],
                     sums.message + child * ld, sums.low[child],
                     sums.beside + following * ld, &low[following], &mass):
            return False
    child = forest.order[last - 1]
    memcpy(after, sums.message + child * ld, ld * sizeof(double))
    low_after = sums.low[child]
    for k in range(last - 2, first - 1, -1):
        child = forest.order[k]
        beside, message = sums.beside + child * ld, sums.message + child * ld
        if not (weigh(sums, beside, low[child], after, low_after, beside, &low[child],
                      &mass)
                and weigh(sums, after, low_after, message, sums.low[child], after,
                          &low_after, &mass)):
            return False
    return True


# ---- marginals of pairs ----

cdef void write_pairs(Sums* sums, double* pairs) noexcept nogil:
    """Write the marginals of pairs to zeros, or to exponentials of their scores."""
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t n = forest.n_labels, ld = forest.ld, node
    cdef const double* first
    cdef const double* second
    cdef double* outer = sums.outer if forest.step else pairs
    cdef bint none = True
    for node in range(forest.n_nodes):
        if forest.parent[node] < 0:
            continue
        none = False
        first, second = sums.up + node * ld, sums.beside + node * ld
        if not is_forward(forest, node):
            first, second = second, first
        if forest.step:
            memset(outer, 0, n * ld * sizeof(double))
        sks_add_outer(n, ld, sums.log_partition[node], first, second, outer)
        if forest.step:
            multiply(n * ld, outer, pairs + forest.edge_up[node] * forest.step)
    # of a table that is shared the factor comes last
    if forest.step == 0 and not none:
        multiply(n * ld, sums.table.ahead, pairs)


cdef inline void multiply(Py_ssize_t n, const double* x, double* out) noexcept nogil:
    """out *= x, entry by entry."""
    cdef Py_ssize_t k
    for k in range(n):
        out[k] *= x[k]
