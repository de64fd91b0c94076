"""Sum-product on forests with full tables, on scaled messages.

With weights u_v = exp(theta_v) and tables v = exp(table), the messages of `_sums.pyx`
are the logarithms of

    up_v(a)     = u_v(a) product over children c of  sum_b up_c(b) v(b, a)
    beside_c(a) = u_v(a) (message from v's parent) product of other children's messages

Both are stored as numbers that sum to one. A message is then a product of a vector and
a matrix, and only the scores are exponentiated, once each; see
`inference/chains/_sumproduct.pyx`. Products over children are formed from both ends of
the list of children, as a message that is zero cannot be divided out.

No nonzero entry may underflow: the smallest entry of u times that of v is at least
exp(lowest), and rows that are sent through tables stay above `limit` = TINY
exp(-lowest). For all other products the product of the smallest entries of both factors
is compared with TINY. A forest with an entry that is too small is computed again in log
space.
"""

from libc.math cimport INFINITY, exp, log
from libc.string cimport memcpy, memset

from sksstruct.inference.chains._sumproduct cimport exponentiate_table
from sksstruct.inference.trees._flat cimport FlatForest, is_forward
from sksstruct.utils._simd cimport (
    sks_add_outer, sks_dot, sks_exp_row, sks_rescale, sks_scores_f64, sks_weigh,
)

# Lower bound on products of entries of rows; doubles below 1e-308 lose digits.
cdef double TINY = 1e-290
# The limit must stay far below one, the sum of a row: LOWEST makes the limit 4e-30.
cdef double LOWEST = -600.0


cdef bint scaled_sum_product(Sums* sums, double* nodes, double* pairs,
                             double* log_partition) noexcept nogil:
    """Write marginals and the log-partition function as `sum_product_forest` does.

    Returns False if an entry could underflow. In this case `pairs` are zero again.
    """
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t cells = forest.n_labels * forest.ld, node
    cdef const double* tables = pairs if forest.step else sums.table.ahead
    cdef bint no_underflow = exponentiate(sums, pairs, log_partition)
    if no_underflow and log_partition[0] > -INFINITY:
        no_underflow = collect(sums, tables, log_partition)
    if no_underflow and log_partition[0] > -INFINITY:
        no_underflow = distribute(sums, tables, nodes)
        if no_underflow:
            write_pairs(sums, pairs)
            return True
    # `pairs` has served as memory of exponentials, and must be zero again
    for node in range(forest.n_nodes if forest.step else 0):
        if forest.parent[node] >= 0:
            memset(pairs + forest.edge_up[node] * forest.step, 0,
                   cells * sizeof(double))
    return no_underflow


cdef bint exponentiate(Sums* sums, double* pairs, double* total) noexcept nogil:
    """Write exponentials of the scores, relative to the largest of each row and table.

    Exponentials of tables that are not shared are written to `pairs`, as factors of
    the marginals. The sum of all maxima is written to `total`. Returns False if
    products may be too small.
    """
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t ld = forest.ld, node, k, edge
    cdef double low, lowest = 0.0, lowest_edge = 0.0
    cdef bint not_loaded = True
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
        if forest.step or not_loaded:
            exponentiate_edge(sums, edge)
            not_loaded = False
        total[0] += sums.table.shift
        lowest_edge = min(sums.table.low, lowest_edge)
        # the forest will be computed in log space: no more tables are exponentiated
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
    """Write the product of two rows, entry by entry, scaled to sum one, to out.

    Also writes the smallest nonzero entry of out to low, and the sum before scaling to
    mass. low_x and low_y are the smallest nonzero entries of x and y. Returns False if
    an entry could underflow.
    """
    cdef Py_ssize_t ld = sums.forest.ld
    if low_x * low_y < TINY:
        return False
    mass[0] = sks_weigh(ld, x, y, out)
    # a sum of zero is no underflow: all labels are forbidden
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
        # only a shared table has a transpose
        memset(out, 0, ld * sizeof(double))
        for label in range(n):
            out[label] = sks_dot(ld, ahead + label * ld, row)


# ---- messages ----

cdef bint collect(Sums* sums, const double* tables,
                  double* log_partition) noexcept nogil:
    """First pass: send messages to parents; return False if an entry could underflow.

    On entry `log_partition` is the sum of the maxima of the scores.
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
        # logarithms are slow: one logarithm of a product replaces those of its factors
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
    """Send messages to children, write node marginals; return False on underflow."""
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t ld = forest.ld, k, node, child, following = 0, first
    cdef double mass
    # the order has all roots, then the children of each node in the order of the nodes
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
            # the message from the parent has replaced the message to the parent
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
    """Write the row `beside` of each child of a node; return False on underflow.

    The children are nodes `first` to `last` - 1 in the order of messages.
    """
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t ld = forest.ld, k, child = forest.order[first], following
    cdef double* beside = sums.beside + child * ld
    cdef double* after = sums.rows + 3 * ld
    cdef double* message
    # smallest nonzero entry of each child's row `beside`; `distribute` overwrites this
    # array later
    cdef double* low = sums.log_partition
    cdef double low_after, mass
    if forest.parent[node] < 0:
        memcpy(beside, sums.belief + node * ld, ld * sizeof(double))
        low[child] = sks_rescale(ld, 1.0, beside)
        if low[child] < sums.limit:
            return False
    # smallest entries are passed as 1.0: a product of u and a message above the limit
    # is large enough
    elif not weigh(sums, sums.belief + node * ld, 1.0, sums.message + node * ld, 1.0,
                   beside, &low[child], &mass):
        return False
    # multiply each child's row by the messages of the siblings before it, then by the
    # messages of the siblings after it
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
    """Write the marginals of pairs to `pairs`, which has zeros or exponentials."""
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t n = forest.n_labels, ld = forest.ld, node
    cdef const double* first
    cdef const double* second
    cdef double* outer = sums.outer if forest.step else pairs
    cdef bint has_no_edge = True
    for node in range(forest.n_nodes):
        if forest.parent[node] < 0:
            continue
        has_no_edge = False
        first, second = sums.up + node * ld, sums.beside + node * ld
        if not is_forward(forest, node):
            first, second = second, first
        if forest.step:
            memset(outer, 0, n * ld * sizeof(double))
        sks_add_outer(n, ld, sums.log_partition[node], first, second, outer)
        if forest.step:
            multiply(n * ld, outer, pairs + forest.edge_up[node] * forest.step)
    # the factor `ahead` of a shared table is applied once, at the end
    if forest.step == 0 and not has_no_edge:
        multiply(n * ld, sums.table.ahead, pairs)


cdef inline void multiply(Py_ssize_t n, const double* x, double* out) noexcept nogil:
    """out *= x, entry by entry."""
    cdef Py_ssize_t k
    for k in range(n):
        out[k] *= x[k]
