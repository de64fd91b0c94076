"""Messages through the tables of edges, by an algorithm for each kind of table.

A message is a max-plus product, out(x_v) = max_{x_u} a(x_u) + w t(x_u, x_v), where a
are the incoming scores, t is the table and w the weight of the edge. Messages of Potts
tables and of truncated linear or quadratic tables take linear time (Felzenszwalb and
Huttenlocher, Efficient belief propagation for early vision, 2006). Through large dense
tables, the states x_u send in descending order of the upper bound a(x_u) + max_{x_v} w
t(x_u, x_v), until no further state can change the message: the sparsity of Huang et al.
(2017), Section 3.2, in exact messages. Tables are not transposed in memory: a product
with a transpose reads single columns if few states remain, and whole rows otherwise.
"""

from libc.math cimport INFINITY

from sksstruct.utils._simd cimport (
    sks_backward,
    sks_extremes,
    sks_forward,
    sks_largest,
    sks_row_raise,
)
from sksstruct.utils._memory cimport resize
from sksstruct.utils._pointers cimport const_doubles

# Tables with fewer rows or columns are multiplied in full: a vectorized product of this
# size costs less than ordering states.
cdef Py_ssize_t LARGE = 48


# ---- descriptions of tables ----

cdef int specify(TableSpec* spec, tuple table, Py_ssize_t n_uses) except -1:
    """Fill the spec of a table that n_uses edges use; `table` is from `MAPProblem`."""
    cdef double first, second
    spec.kind, spec.rows, spec.cols, first, second, spec.condition, entries = table
    if spec.kind == POTTS:
        spec.agree, spec.differ = first, second
    else:
        spec.scale, spec.limit = first, second
    if entries is not None:
        spec.data = const_doubles(entries)
    # only edges send messages: tables without edges need no preparation
    if spec.kind != DENSE or not spec.rows or not n_uses:
        return 0
    # a table of two states is no faster as a Potts table
    if not (spec.rows == spec.cols > 2 and _becomes_potts(spec)):
        _store_extremes(spec, n_uses)
    return 0


cdef bint _becomes_potts(TableSpec* spec) noexcept nogil:
    """Describe a table as Potts if it has one value on and one off the diagonal."""
    cdef Py_ssize_t i, j, n = spec.rows
    cdef double agree = spec.data[0], differ = spec.data[1]
    for i in range(n):
        for j in range(n):
            if spec.data[i * n + j] != (agree if i == j else differ):
                return False
    spec.kind, spec.agree, spec.differ = POTTS, agree, differ
    return True


cdef int _store_extremes(TableSpec* spec, Py_ssize_t n_uses) except -1:
    """Store the largest entries of the rows and columns of a large dense table."""
    cdef Py_ssize_t i, j, n = spec.rows
    if min(n, spec.cols) < LARGE:
        return 0
    resize(<void**>&spec.row_high, (n + spec.cols) * sizeof(double))
    spec.col_high = spec.row_high + n
    sks_extremes(n, spec.cols, spec.data, spec.row_high, spec.col_high)
    # the comparison takes about as long as a few messages: skip it for tables of few
    # uses
    spec.symmetric = n_uses > 4 and n == spec.cols
    if spec.symmetric:
        for i in range(n):
            for j in range(i):
                if spec.data[i * n + j] != spec.data[j * n + i]:
                    spec.symmetric = False
                    return 0
    return 0


# ---- messages ----

cdef void send(const TableSpec* table, double weight, bint backward,
               const double* incoming, double* out, Scratch* scratch) noexcept nogil:
    """Write the max-plus product of incoming scores and the weighted table to `out`."""
    cdef double limit
    # dense tables first: most graphs have dense tables only
    if table.kind == DENSE:
        # the largest entries bound messages for positive weights only
        if table.row_high != NULL and weight > 0.0:
            _pruned(table, weight, backward, incoming, out, scratch)
        elif backward:
            sks_backward(table.rows, table.cols, weight, incoming, table.data, out)
        else:
            sks_forward(table.rows, table.cols, weight, incoming, table.data, out)
    # all other kinds are symmetric, so that `backward` makes no difference
    elif table.kind == POTTS:
        _potts(table.rows, weight * table.agree, weight * table.differ, incoming, out)
    elif weight < 0.0:
        # scores rise with distance, and the algorithms below need falling scores
        _all_pairs(table, weight, incoming, out)
    else:
        # zero times an infinite limit would be NaN
        limit = weight * table.limit if weight > 0.0 else 0.0
        if table.kind == LINEAR:
            _linear(table.rows, weight * table.scale, limit, incoming, out)
        else:
            _quadratic(table.rows, weight * table.scale, limit, incoming, out, scratch)


cdef void _all_pairs(const TableSpec* table, double weight, const double* incoming,
                     double* out) noexcept nogil:
    """Write a message by its definition, for tables that are given by a formula."""
    cdef Py_ssize_t i, j
    cdef double score
    for j in range(table.cols):
        out[j] = -INFINITY
        for i in range(table.rows):
            score = incoming[i] + weight * entry_of(table, i, j)
            if score > out[j]:
                out[j] = score


cdef void _potts(Py_ssize_t n_states, double agree, double differ,
                 const double* incoming, double* out) noexcept nogil:
    """Write the message of a Potts table: the better of agreement and difference."""
    # the best other state is the best state, or for the best state the second best one
    cdef Py_ssize_t i, best = 0
    cdef double second = -INFINITY, other, same
    for i in range(1, n_states):
        if incoming[i] > incoming[best]:
            best = i
    for i in range(n_states):
        if i != best and incoming[i] > second:
            second = incoming[i]
    for i in range(n_states):
        other = (second if i == best else incoming[best]) + differ
        same = incoming[i] + agree
        out[i] = same if same > other else other


cdef void _linear(Py_ssize_t n_states, double scale, double limit,
                  const double* incoming, double* out) noexcept nogil:
    """Write the message of a truncated linear table, by a pass in each direction."""
    cdef Py_ssize_t i
    cdef double high = sks_largest(n_states, incoming) - limit
    # maxima from the left, then from the right, each step a distance of one
    out[0] = incoming[0]
    for i in range(1, n_states):
        out[i] = max(incoming[i], out[i - 1] - scale)
    for i in range(n_states - 2, -1, -1):
        out[i] = max(out[i], out[i + 1] - scale)
    # beyond the truncation, the best state sends its score minus the limit
    for i in range(n_states):
        out[i] = max(out[i], high)


cdef void _quadratic(Py_ssize_t n_states, double scale, double limit,
                     const double* incoming, double* out,
                     Scratch* scratch) noexcept nogil:
    """Write the message of a truncated quadratic table, by an envelope of parabolas."""
    # begin and state of each piece of the envelope, which has at most one piece per
    # state
    cdef Py_ssize_t i, last, k = 0
    cdef double distance, high = sks_largest(n_states, incoming) - limit
    cdef double* begin = scratch.value
    cdef Py_ssize_t* top = scratch.index
    if scale == 0.0:
        # scale 0: every state sends its score to all states
        high = sks_largest(n_states, incoming)
        # the envelope would divide by the scale
        for i in range(n_states):
            out[i] = high
        return
    last = _envelope(n_states, scale, incoming, begin, top)
    # states and pieces are in ascending order: one pass finds the piece of each state
    for i in range(n_states):
        while k < last and begin[k + 1] < i:
            k += 1
        distance = <double>(i - top[k])
        out[i] = max(incoming[top[k]] - scale * distance * distance, high)


cdef inline Py_ssize_t _envelope(Py_ssize_t n_states, double scale,
                                 const double* incoming, double* begin,
                                 Py_ssize_t* top) noexcept nogil:
    """Write the upper envelope of incoming_i - scale (x - i)^2.

    Returns the index of the last piece.
    Piece k is the parabola of state top[k], from begin[k] to begin[k + 1].
    """
    cdef Py_ssize_t i, k = 0
    cdef double cross
    top[0] = 0
    begin[0] = -INFINITY
    for i in range(1, n_states):
        # remove pieces that the new parabola covers entirely
        while True:
            cross = ((scale * i * i - incoming[i])
                     - (scale * top[k] * top[k] - incoming[top[k]])) \
                / (2.0 * scale * (i - top[k]))
            if cross > begin[k] or k == 0:
                break
            k -= 1
        if cross > begin[k]:
            k += 1
        # piece 0 starts at -inf, as all states are at 0 or above
        top[k] = i
        begin[k] = cross if k else -INFINITY
    return k


# ---- large dense tables ----

cdef void _pruned(const TableSpec* table, double weight, bint backward,
                  const double* incoming, double* out,
                  Scratch* scratch) noexcept nogil:
    """Write the message of a large dense table, by senders that can change `out`."""
    cdef Py_ssize_t n_senders = table.cols if backward else table.rows
    cdef Py_ssize_t n_receivers = table.rows if backward else table.cols
    # rows of a symmetric table equal its columns, and are contiguous
    cdef bint by_column = backward and not table.symmetric
    cdef Py_ssize_t j, best, n_rest
    cdef double lowest
    best = _bound_senders(n_senders, weight, incoming,
                          table.col_high if backward else table.row_high, scratch)
    # only senders whose bounds exceed the best sender's least message can change `out`
    if by_column:
        lowest = _send_column(table, weight, best, incoming[best], out)
    else:
        for j in range(n_receivers):
            out[j] = -INFINITY
        lowest = sks_row_raise(n_receivers, incoming[best], weight,
                               table.data + best * table.cols, out)
    n_rest = _list_rest(n_senders, best, lowest, scratch)
    # With many senders left, the vectorized product of all is faster. Columns are
    # strided, so that this happens sooner for columns than for rows.
    if by_column and n_rest * 8 > n_senders:
        sks_backward(table.rows, table.cols, weight, incoming, table.data, out)
    elif by_column:
        _raise_columns(table, weight, incoming, out, n_rest, scratch)
    elif n_rest * 4 > n_senders * 3:
        sks_forward(table.rows, table.cols, weight, incoming, table.data, out)
    else:
        _raise_rows(table, weight, incoming, out, n_receivers, n_rest, lowest, scratch)


cdef inline Py_ssize_t _bound_senders(Py_ssize_t n_senders, double weight,
                                      const double* incoming, const double* high,
                                      Scratch* scratch) noexcept nogil:
    """Write the upper bound of each sender's messages to `scratch`.

    Returns the sender with the highest upper bound.
    """
    cdef double* upper_bound = scratch.value
    cdef Py_ssize_t i, best = 0
    # two loops, of which the first one is vectorized
    for i in range(n_senders):
        upper_bound[i] = incoming[i] + weight * high[i]
    for i in range(1, n_senders):
        if upper_bound[i] > upper_bound[best]:
            best = i
    return best


cdef inline double _send_column(const TableSpec* table, double weight,
                                Py_ssize_t column, double score,
                                double* out) noexcept nogil:
    """Write the messages of one column's state to all rows; return the least one."""
    cdef Py_ssize_t j
    cdef double lowest = INFINITY
    # the stride is a whole row: efficient for a few columns only
    for j in range(table.rows):
        out[j] = score + weight * table.data[j * table.cols + column]
        if out[j] < lowest:
            lowest = out[j]
    return lowest


cdef inline Py_ssize_t _list_rest(Py_ssize_t n_senders, Py_ssize_t best, double lowest,
                                  Scratch* scratch) noexcept nogil:
    """List the senders, except `best`, whose upper bound exceeds `lowest`."""
    cdef Py_ssize_t i, n_left = 0
    # a sender whose upper bound is at most the least of `out` cannot raise any entry
    for i in range(n_senders):
        if scratch.value[i] > lowest and i != best:
            scratch.index[n_left] = i
            n_left += 1
    return n_left


cdef inline void _raise_columns(const TableSpec* table, double weight,
                                const double* incoming, double* out,
                                Py_ssize_t n_left, Scratch* scratch) noexcept nogil:
    """Raise `out` by the messages of the listed senders, which are columns."""
    cdef const Py_ssize_t* senders = scratch.index
    cdef const double* row
    cdef Py_ssize_t j, k
    cdef double score, highest
    # row by row, so that each row is read while it is in the cache
    for j in range(table.rows):
        row = table.data + j * table.cols
        highest = out[j]
        for k in range(n_left):
            score = incoming[senders[k]] + weight * row[senders[k]]
            if score > highest:
                highest = score
        out[j] = highest


cdef inline void _raise_rows(const TableSpec* table, double weight,
                             const double* incoming, double* out,
                             Py_ssize_t n_receivers, Py_ssize_t n_left, double lowest,
                             Scratch* scratch) noexcept nogil:
    """Raise `out` by the listed senders' messages, the highest upper bound first."""
    cdef const double* upper_bound = scratch.value
    cdef Py_ssize_t* senders = scratch.index
    cdef Py_ssize_t i, k, best, n_remaining
    # no sorting: usually a few senders raise all of `out`, and no further sender can
    while n_left:
        best = 0
        for k in range(1, n_left):
            if upper_bound[senders[k]] > upper_bound[senders[best]]:
                best = k
        i = senders[best]
        # no remaining upper bound exceeds the least of `out`
        if upper_bound[i] <= lowest:
            return
        lowest = sks_row_raise(n_receivers, incoming[i], weight,
                               table.data + i * table.cols, out)
        n_left -= 1
        senders[best] = senders[n_left]
        # remove senders that cannot raise `out` any more, to shorten searches for the
        # best
        if n_left > 64:
            n_remaining = 0
            for k in range(n_left):
                if upper_bound[senders[k]] > lowest:
                    senders[n_remaining] = senders[k]
                    n_remaining += 1
            n_left = n_remaining
