"""Messages through the tables of edges, each kind in its own way.

A message is a max-plus product, out(x_v) = max_{x_u} a(x_u) + w t(x_u, x_v), where a
are the incoming scores, t is the table and w the weight of the edge. With Potts tables
and truncated linear or quadratic ones it takes linear time (Felzenszwalb and
Huttenlocher, Efficient belief propagation for early vision, 2006). With large dense
tables the states x_u are visited by their promise a(x_u) + max_{x_v} w t(x_u, x_v),
largest first, until no other can change anything: the sparsity of Huang et al. (2017),
Section 3.2, in exact messages. No table is copied, so a product with a transpose reads
single columns where few states are left, and whole rows otherwise.
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

# Tables with fewer rows or columns are multiplied in full: a vectorized product of that
# size costs less than sorting out states.
cdef Py_ssize_t LARGE = 48


# ---- what the kernels know of a table ----

cdef int specify(TableSpec* spec, tuple table, Py_ssize_t n_uses) except -1:
    """Describe a table, used by so many edges, from what `MAPProblem` knows of it."""
    cdef double first, second
    spec.kind, spec.rows, spec.cols, first, second, spec.condition, entries = table
    if spec.kind == POTTS:
        spec.agree, spec.differ = first, second
    else:
        spec.scale, spec.limit = first, second
    if entries is not None:
        spec.data = const_doubles(entries)
    # only edges send messages; a table that no edge has needs no preparation
    if spec.kind != DENSE or not spec.rows or not n_uses:
        return 0
    # two states: the same work in either way, and no need to look
    if not (spec.rows == spec.cols > 2 and _becomes_potts(spec)):
        _note_extremes(spec, n_uses)
    return 0


cdef bint _becomes_potts(TableSpec* spec) noexcept nogil:
    """Describe a square table of two values, one on the diagonal, as a Potts table."""
    cdef Py_ssize_t i, j, n = spec.rows
    cdef double agree = spec.data[0], differ = spec.data[1]
    for i in range(n):
        for j in range(n):
            if spec.data[i * n + j] != (agree if i == j else differ):
                return False
    spec.kind, spec.agree, spec.differ = POTTS, agree, differ
    return True


cdef int _note_extremes(TableSpec* spec, Py_ssize_t n_uses) except -1:
    """Largest entries of the rows and columns of a large dense table."""
    cdef Py_ssize_t i, j, n = spec.rows
    if min(n, spec.cols) < LARGE:
        return 0
    resize(<void**>&spec.row_high, (n + spec.cols) * sizeof(double))
    spec.col_high = spec.row_high + n
    sks_extremes(n, spec.cols, spec.data, spec.row_high, spec.col_high)
    # the comparison costs about as much as a few messages, so it has to pay off
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
    """out = max-plus product of incoming with weight times the table or its transpose.
    """
    cdef double limit
    # dense tables first: for most graphs there are no others
    if table.kind == DENSE:
        # the largest entries bound what a state can give for positive weights only
        if table.row_high != NULL and weight > 0.0:
            _pruned(table, weight, backward, incoming, out, scratch)
        elif backward:
            sks_backward(table.rows, table.cols, weight, incoming, table.data, out)
        else:
            sks_forward(table.rows, table.cols, weight, incoming, table.data, out)
    # the other kinds are symmetric: backward makes no difference
    elif table.kind == POTTS:
        _potts(table.rows, weight * table.agree, weight * table.differ, incoming, out)
    elif weight < 0.0:
        # the passes below need scores that fall with the distance; here they rise
        _all_pairs(table, weight, incoming, out)
    else:
        # 0 times an infinite limit is not a number
        limit = weight * table.limit if weight > 0.0 else 0.0
        if table.kind == LINEAR:
            _linear(table.rows, weight * table.scale, limit, incoming, out)
        else:
            _quadratic(table.rows, weight * table.scale, limit, incoming, out, scratch)


cdef void _all_pairs(const TableSpec* table, double weight, const double* incoming,
                     double* out) noexcept nogil:
    """Message by the definition, for tables that are given by a formula."""
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
    """Message of a Potts table: a state agrees with itself or differs from the best."""
    # the best of the other states is the best of all, except for the best itself
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
    """Message of a truncated linear table, by a pass in each direction."""
    cdef Py_ssize_t i
    cdef double high = sks_largest(n_states, incoming) - limit
    # the best from the left, then also from the right, each step a distance of one
    out[0] = incoming[0]
    for i in range(1, n_states):
        out[i] = max(incoming[i], out[i - 1] - scale)
    for i in range(n_states - 2, -1, -1):
        out[i] = max(out[i], out[i + 1] - scale)
    # from farther away than the truncation nothing beats the best of all
    for i in range(n_states):
        out[i] = max(out[i], high)


cdef void _quadratic(Py_ssize_t n_states, double scale, double limit,
                     const double* incoming, double* out,
                     Scratch* scratch) noexcept nogil:
    """Message of a truncated quadratic table, by an upper envelope of parabolas."""
    # begin and top are the pieces of the envelope: as many as states at most
    cdef Py_ssize_t i, last, k = 0
    cdef double distance, high = sks_largest(n_states, incoming) - limit
    cdef double* begin = scratch.value
    cdef Py_ssize_t* top = scratch.index
    if scale == 0.0:
        # all states give the same to all others
        high = sks_largest(n_states, incoming)
        # the envelope would divide by the scale
        for i in range(n_states):
            out[i] = high
        return
    last = _envelope(n_states, scale, incoming, begin, top)
    # states and pieces are both in order, so that one pass meets every piece
    for i in range(n_states):
        while k < last and begin[k + 1] < i:
            k += 1
        distance = <double>(i - top[k])
        out[i] = max(incoming[top[k]] - scale * distance * distance, high)


cdef inline Py_ssize_t _envelope(Py_ssize_t n_states, double scale,
                                 const double* incoming, double* begin,
                                 Py_ssize_t* top) noexcept nogil:
    """Upper envelope of incoming_i - scale (x - i)^2; the index of its last piece.

    Piece k is the parabola of state top[k], from begin[k] to begin[k + 1].
    """
    cdef Py_ssize_t i, k = 0
    cdef double cross
    top[0] = 0
    begin[0] = -INFINITY
    for i in range(1, n_states):
        # pieces that end before they begin are covered by the new parabola
        while True:
            cross = ((scale * i * i - incoming[i])
                     - (scale * top[k] * top[k] - incoming[top[k]])) \
                / (2.0 * scale * (i - top[k]))
            if cross > begin[k] or k == 0:
                break
            k -= 1
        if cross > begin[k]:
            k += 1
        # the first piece begins everywhere, as states begin at 0
        top[k] = i
        begin[k] = cross if k else -INFINITY
    return k


# ---- large dense tables ----

cdef void _pruned(const TableSpec* table, double weight, bint backward,
                  const double* incoming, double* out,
                  Scratch* scratch) noexcept nogil:
    """Message of a large dense table, without states that cannot change it."""
    cdef Py_ssize_t n_senders = table.cols if backward else table.rows
    cdef Py_ssize_t n_receivers = table.rows if backward else table.cols
    # a symmetric table has its columns as rows, which are contiguous
    cdef bint by_column = backward and not table.symmetric
    cdef Py_ssize_t j, best, n_left
    cdef double lowest
    best = _make_promises(n_senders, weight, incoming,
                          table.col_high if backward else table.row_high, scratch)
    # what the most promising sender gives is what others have to exceed somewhere
    if by_column:
        lowest = _send_column(table, weight, best, incoming[best], out)
    else:
        for j in range(n_receivers):
            out[j] = -INFINITY
        lowest = sks_row_raise(n_receivers, incoming[best], weight,
                               table.data + best * table.cols, out)
    n_left = _promising(n_senders, best, lowest, scratch)
    # where many states are left, the vectorized product of all is faster; columns are
    # strided, and so lose to it sooner than rows
    if by_column and n_left * 8 > n_senders:
        sks_backward(table.rows, table.cols, weight, incoming, table.data, out)
    elif by_column:
        _raise_columns(table, weight, incoming, out, n_left, scratch)
    elif n_left * 4 > n_senders * 3:
        sks_forward(table.rows, table.cols, weight, incoming, table.data, out)
    else:
        _raise_rows(table, weight, incoming, out, n_receivers, n_left, lowest, scratch)


cdef inline Py_ssize_t _make_promises(Py_ssize_t n_senders, double weight,
                                      const double* incoming, const double* high,
                                      Scratch* scratch) noexcept nogil:
    """The most that each state can give to any other, in `scratch`; the best state."""
    cdef double* promise = scratch.value
    cdef Py_ssize_t i, best = 0
    # two loops, as the first one is made of vector instructions then
    for i in range(n_senders):
        promise[i] = incoming[i] + weight * high[i]
    for i in range(1, n_senders):
        if promise[i] > promise[best]:
            best = i
    return best


cdef inline double _send_column(const TableSpec* table, double weight,
                                Py_ssize_t column, double score,
                                double* out) noexcept nogil:
    """out = what the state of one column gives to all rows; the least of it."""
    cdef Py_ssize_t j
    cdef double lowest = INFINITY
    # a stride of a whole row: worth it for a few columns only
    for j in range(table.rows):
        out[j] = score + weight * table.data[j * table.cols + column]
        if out[j] < lowest:
            lowest = out[j]
    return lowest


cdef inline Py_ssize_t _promising(Py_ssize_t n_senders, Py_ssize_t best, double lowest,
                                  Scratch* scratch) noexcept nogil:
    """List the states other than the best that promise more than the lowest of out."""
    cdef Py_ssize_t i, n_left = 0
    # whoever promises no more than that to anybody cannot raise anything
    for i in range(n_senders):
        if scratch.value[i] > lowest and i != best:
            scratch.index[n_left] = i
            n_left += 1
    return n_left


cdef inline void _raise_columns(const TableSpec* table, double weight,
                                const double* incoming, double* out,
                                Py_ssize_t n_left, Scratch* scratch) noexcept nogil:
    """Raise out to what the listed states give, each being a column."""
    cdef const Py_ssize_t* left = scratch.index
    cdef const double* row
    cdef Py_ssize_t j, k
    cdef double score, highest
    # row by row, so that what is left of a row is read while it is in the cache
    for j in range(table.rows):
        row = table.data + j * table.cols
        highest = out[j]
        for k in range(n_left):
            score = incoming[left[k]] + weight * row[left[k]]
            if score > highest:
                highest = score
        out[j] = highest


cdef inline void _raise_rows(const TableSpec* table, double weight,
                             const double* incoming, double* out,
                             Py_ssize_t n_receivers, Py_ssize_t n_left, double lowest,
                             Scratch* scratch) noexcept nogil:
    """Raise out to what the listed states give, most promising first."""
    cdef const double* promise = scratch.value
    cdef Py_ssize_t* left = scratch.index
    cdef Py_ssize_t i, k, best, n_kept
    # no sorting: as a rule a few states raise everything, and the rest is dropped
    while n_left:
        best = 0
        for k in range(1, n_left):
            if promise[left[k]] > promise[left[best]]:
                best = k
        i = left[best]
        # the lowest of out has risen over all promises that are left
        if promise[i] <= lowest:
            return
        lowest = sks_row_raise(n_receivers, incoming[i], weight,
                               table.data + i * table.cols, out)
        n_left -= 1
        left[best] = left[n_left]
        # dropping what cannot matter any more keeps a long search for the best short
        if n_left > 64:
            n_kept = 0
            for k in range(n_left):
                if promise[left[k]] > lowest:
                    left[n_kept] = left[k]
                    n_kept += 1
            n_left = n_kept
