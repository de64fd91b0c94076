"""Sum-product on forests whose variables have the same labels, without the interpreter.

    log sum over y of exp( scale (sum_v theta[v, y_v] + sum_e table_e[y_u, y_v]) )

for n labels a, b. Marginals of a shared table are added up. Messages pass once from
children to parents and once back (Algorithm 9 of Pillutla et al., 2018). Messages
through full tables are scaled numbers (`_scaled.pyx`). If scaled numbers could
underflow, and for potts tables, messages are logarithms. up_v sums over the subtree
below v, and beside_c over all nodes above or beside a child c of v:

    up_v(a)     = theta_v(a) + sum over children c of  log sum_b exp(up_c(b) + table)
    beside_c(a) = theta_v(a) + message from v's parent + messages of v's other children

the marginal of c and v together is exp(up_c + table + beside_c - log Z). `beside` is
summed from both ends of the list of children, without subtraction, which would lose
digits, and be NaN for -inf.

A message through a full table is a product of a vector and a matrix of exponentials, as
long as no relevant product could underflow. If the scores of a table differ too much,
or some are -inf, each sum is computed in log space.
"""

from libc.math cimport INFINITY, exp, log
from libc.string cimport memcpy, memset

from sksstruct.inference.trees._flat cimport FlatForest, is_forward
from sksstruct.inference.trees._scaled cimport (
    Sums, exponentiate_edge, scaled_sum_product,
)
from sksstruct.utils._simd cimport (
    sks_add_outer, sks_exp_row, sks_max, sks_rescale, sks_scores_f64,
)

# Messages through tables whose scores differ by more are summed in log space.
cdef double WIDEST = 300.0


cdef Py_ssize_t sums_memory(Py_ssize_t n_nodes, Py_ssize_t n_labels,
                            Py_ssize_t ld) noexcept nogil:
    """Return the number of doubles of memory that `sum_product_forest` needs."""
    return (4 * n_nodes + 4 + 4 * n_labels) * ld + 2 * n_nodes


cdef inline double log_sum(Py_ssize_t n, const double* row) noexcept nogil:
    """Return log sum_a exp(row[a])."""
    cdef Py_ssize_t label
    cdef double high = sks_max(n, row), total = 0.0
    # -inf - (-inf) would be NaN
    if high == -INFINITY:
        return high
    for label in range(n):
        total += exp(row[label] - high)
    return high + log(total)


cdef inline double log_add(double x, double y) noexcept nogil:
    """Return log(exp(x) + exp(y))."""
    cdef double high = x if x > y else y
    if high == -INFINITY:
        return high
    return high + log(exp(x - high) + exp(y - high))


cdef void sum_product_forest(const FlatForest* forest, double scale, double* memory,
                             double* nodes, double* pairs,
                             double* log_partition) noexcept nogil:
    """Write marginals of nodes and pairs, and the log-partition function.

    Parameters
    ----------
    forest : FlatForest*
        Scores and order of messages.
    scale : double
        Factor of all scores.
    memory : double*
        `sums_memory` doubles, aligned.
    nodes, pairs : double*
        Marginals in the layout of the scores; must be zero, and remain zero if every
        labeling has score -inf.
    log_partition : double*
        Output.
    """
    cdef Sums sums
    cdef Py_ssize_t size = forest.n_nodes * forest.ld, k
    cdef Py_ssize_t cells = forest.n_labels * forest.ld
    cdef double* exponentials
    sums.forest, sums.scale = forest, scale
    sums.up, sums.message = memory, memory + size
    sums.beside, sums.belief = memory + 2 * size, memory + 3 * size
    sums.rows = memory + 4 * size
    sums.scores = sums.rows + 4 * forest.ld
    sums.outer = sums.scores + cells
    exponentials = sums.outer + cells
    sums.table.scores = sums.scores
    sums.table.ahead = exponentials
    sums.table.back = exponentials + cells
    sums.log_partition = exponentials + 2 * cells
    sums.low = sums.log_partition + forest.n_nodes
    memset(sums.rows, 0, forest.ld * sizeof(double))
    if not forest.potts:
        if scaled_sum_product(&sums, nodes, pairs, log_partition):
            return
        # the scaled pass may have set `ahead` to the memory of an edge
        sums.table.ahead = exponentials
    for k in range(size):
        sums.up[k] = sums.belief[k] = scale * forest.theta[k]
    # without edges the shared table may be missing
    if forest.step == 0 and forest.n_nodes > 1:
        load_table(&sums, 0)
    log_partition[0] = send_up(&sums)
    if log_partition[0] != -INFINITY:
        send_down(&sums, nodes, pairs)


# ---- tables ----

cdef void load_table(Sums* sums, Py_ssize_t edge) noexcept nogil:
    """Load the scaled table of an edge, with exponentials unless potts."""
    cdef const FlatForest* forest = sums.forest
    if forest.potts:
        sums.agreement = sums.scale * forest.tables[edge * forest.step]
    else:
        sums.direct = exponentiate_edge(sums, edge) and sums.table.low > -WIDEST


# ---- messages ----

cdef void send(Sums* sums, const double* row, bint forward, double* out) noexcept nogil:
    """Write the message of a row of logarithms through the loaded table.

    `forward` tells whether the row belongs to the first end of the edge.
    """
    cdef const FlatForest* forest = sums.forest
    cdef double* weights = sums.rows + forest.ld
    cdef double high, low
    cdef Py_ssize_t label, stride = forest.ld if forward else 1
    if forest.potts:
        send_potts(sums, row, out)
        return
    if not sums.direct:
        for label in range(forest.n_labels):
            out[label] = log_sum_through(
                forest.n_labels, row,
                sums.scores + (label if forward else label * forest.ld), stride)
        return
    high = sks_exp_row(forest.n_labels, forest.ld, row, weights, &low)
    sks_scores_f64(forest.n_labels, NULL, weights, 1.0,
                   sums.table.ahead if forward else sums.table.back, forest.ld,
                   sums.rows, out)
    # in a row of -inf all weights are zero: their logarithms make the message -inf
    if high == -INFINITY:
        high = 0.0
    high += sums.table.shift
    for label in range(forest.n_labels):
        out[label] = high + log(out[label])


cdef double log_sum_through(Py_ssize_t n, const double* row, const double* scores,
                            Py_ssize_t stride) noexcept nogil:
    """Return log sum_a exp(row[a] + scores[stride * a])."""
    cdef Py_ssize_t label
    cdef double high = -INFINITY, total = 0.0
    for label in range(n):
        high = max(high, row[label] + scores[stride * label])
    if high == -INFINITY:
        return high
    for label in range(n):
        total += exp(row[label] + scores[stride * label] - high)
    return high + log(total)


cdef void send_potts(const Sums* sums, const double* row, double* out) noexcept nogil:
    """Write the message of a row through a table with agreement on the diagonal."""
    cdef Py_ssize_t n = sums.forest.n_labels, label, best = 0
    cdef double high, second = -INFINITY, total = 0.0, rest = 0.0, other
    for label in range(1, n):
        if row[label] > row[best]:
            best = label
    high = row[best]
    for label in range(n):
        if label != best:
            second = max(second, row[label])
            total += exp(row[label] - high) if high > -INFINITY else 0.0
    for label in range(n):
        if label != best and second > -INFINITY:
            rest += exp(row[label] - second)
    for label in range(n):
        # Sum over all other labels. For a label that is not the best, its term is
        # subtracted from a sum of at least one, the best label's term. For the best
        # label the other labels are summed without subtraction.
        if label == best:
            other = second + log(rest) if second > -INFINITY else second
        elif high > -INFINITY:
            other = high + log(1.0 + (total - exp(row[label] - high)))
        else:
            other = high
        out[label] = log_add(other, row[label] + sums.agreement)


cdef double send_up(Sums* sums) noexcept nogil:
    """First pass: send messages to parents; return the sum of all trees' log Z."""
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t ld = forest.ld, k, node, label, parent
    cdef double total = 0.0
    for k in range(forest.n_nodes - 1, -1, -1):
        node = forest.order[k]
        parent = forest.parent[node]
        # the row of a root sums over the whole tree
        if parent < 0:
            sums.log_partition[node] = log_sum(
                forest.n_labels, sums.up + node * ld)
            total += sums.log_partition[node]
            continue
        if forest.step:
            load_table(sums, forest.edge_up[node])
        send(sums, sums.up + node * ld, is_forward(forest, node),
             sums.message + node * ld)
        for label in range(forest.n_labels):
            sums.up[parent * ld + label] += sums.message[node * ld + label]
    return total


cdef void send_down(Sums* sums, double* nodes, double* pairs) noexcept nogil:
    """Second pass: send messages to children, and write the marginals."""
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t ld = forest.ld, k, node, child, following = 0, first
    if not forest.potts:
        memset(sums.outer, 0, forest.n_labels * ld * sizeof(double))
    # the order has all roots, then the children of each node in the order of the nodes
    while following < forest.n_nodes and forest.parent[forest.order[following]] < 0:
        following += 1
    for k in range(forest.n_nodes):
        node = forest.order[k]
        first = following
        while (following < forest.n_nodes
               and forest.parent[forest.order[following]] == node):
            following += 1
        find_beside(sums, node, first, following)
        write_node(sums, node, nodes + node * ld)
        while first < following:
            child = forest.order[first]
            sums.log_partition[child] = sums.log_partition[node]
            if forest.step:
                load_table(sums, forest.edge_up[child])
            add_pair(sums, child, pairs + forest.edge_up[child] * forest.step)
            send_to_child(sums, child)
            first += 1
    if forest.step == 0 and not forest.potts and sums.direct and forest.n_nodes > 1:
        # the factor `ahead` of the shared table is applied once
        multiply(forest.n_labels * ld, sums.outer, sums.table.ahead, pairs)


cdef inline void multiply(Py_ssize_t n, const double* x, const double* y,
                          double* out) noexcept nogil:
    """out += x y, entry by entry."""
    cdef Py_ssize_t k
    for k in range(n):
        out[k] += x[k] * y[k]


cdef void send_to_child(Sums* sums, Py_ssize_t child) noexcept nogil:
    """Add the message from a child's parent to the belief of the child."""
    cdef Py_ssize_t ld = sums.forest.ld, label
    cdef double* message = sums.rows + 2 * ld
    send(sums, sums.beside + child * ld, not is_forward(sums.forest, child), message)
    for label in range(sums.forest.n_labels):
        sums.belief[child * ld + label] += message[label]


cdef void find_beside(Sums* sums, Py_ssize_t node, Py_ssize_t first,
                      Py_ssize_t last) noexcept nogil:
    """Write the row `beside` of each child of a node, and complete the node's belief.

    The children are nodes `first` to `last` - 1 in the order of messages.
    """
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t ld = forest.ld, k, label
    cdef double* belief = sums.belief + node * ld
    cdef double* after = sums.rows + 3 * ld
    cdef double* beside
    cdef const double* message
    # add to each child's row the messages of the siblings before it, then the messages
    # of the siblings after it
    for k in range(first, last):
        beside = sums.beside + forest.order[k] * ld
        message = sums.message + forest.order[k] * ld
        memcpy(beside, belief, ld * sizeof(double))
        for label in range(forest.n_labels):
            belief[label] += message[label]
    memset(after, 0, ld * sizeof(double))
    for k in range(last - 1, first - 1, -1):
        beside = sums.beside + forest.order[k] * ld
        message = sums.message + forest.order[k] * ld
        for label in range(forest.n_labels):
            beside[label] += after[label]
            after[label] += message[label]


# ---- marginals ----

cdef void write_node(Sums* sums, Py_ssize_t node, double* out) noexcept nogil:
    """Write the marginals of a node, from its belief."""
    cdef Py_ssize_t ld = sums.forest.ld, label
    cdef double low, total = 0.0
    sks_exp_row(sums.forest.n_labels, ld, sums.belief + node * ld, out, &low)
    # normalized by the sum: the log-partition has a rounding error for large scores
    for label in range(sums.forest.n_labels):
        total += out[label]
    sks_rescale(ld, 1.0 / total, out)


cdef void add_pair(Sums* sums, Py_ssize_t child, double* out) noexcept nogil:
    """Add the marginals of a child and its parent, in the table's layout."""
    cdef const FlatForest* forest = sums.forest
    cdef Py_ssize_t n = forest.n_labels, ld = forest.ld, a, b
    cdef const double* first = sums.up + child * ld
    cdef const double* second = sums.beside + child * ld
    cdef double* x = sums.rows + ld
    cdef double* y = sums.rows + 2 * ld
    cdef double shift = sums.log_partition[child], high, low
    if forest.potts:
        for a in range(n):
            out[0] += exp(first[a] + sums.agreement + second[a] - shift)
        return
    if not is_forward(forest, child):
        first, second = second, first
    if not sums.direct:
        for a in range(n):
            for b in range(n):
                out[a * ld + b] += exp(
                    first[a] + sums.scores[a * ld + b] + second[b] - shift)
        return
    high = sks_exp_row(n, ld, first, x, &low) + sks_exp_row(n, ld, second, y, &low)
    high = exp(high + sums.table.shift - shift)
    # the factor `ahead` of a shared table is applied once, at the end
    if forest.step == 0:
        sks_add_outer(n, ld, high, x, y, sums.outer)
        return
    memset(sums.outer, 0, n * ld * sizeof(double))
    sks_add_outer(n, ld, high, x, y, sums.outer)
    multiply(n * ld, sums.outer, sums.table.ahead, out)
