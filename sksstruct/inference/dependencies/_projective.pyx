"""Projective dependency trees: the best one, and sums over all (Eisner, 1996).

Below a head its words are a span. A complete span [head, end] has a tree of the words
from the head to the end; a linked one [head, modifier] ends in an outermost arc:

    linked[h, m]   = arc(h, m) + best_r complete[low, r] + complete[high, r + 1],
    complete[h, e] = best_m linked[h, m] + complete[m, e],

low and high being h and m in order. Every tree has one such analysis, so that the same
with sums gives the partition. Both splits run along rows of tables. Marginals go the
other way: the probability of a span is shared among its splits, the widest span first.

Rows reach beyond the spans to whole vectors. Spans that wide are not filled yet, on the
way up, or erased, on the way down, so that nothing is added.

Ties: a span takes its lowest split. J. Eisner, "Three new probabilistic models for
dependency parsing: an exploration", COLING 1996.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.dependencies._arcs cimport load_rows, row_length, weigh_rows
from sksstruct.inference.trees._messages cimport best_state_given
from sksstruct.utils._simd cimport (
    sks_axpy,
    sks_logsum,
    sks_row_best,
    sks_share,
    sks_weigh,
)

# Weights are probabilities of heads, and what is lost of sums is below 1e-308 a term:
# above this the terms lost cannot be seen.
cdef double SMALLEST = 1e-280


cdef Py_ssize_t projective_scratch(Py_ssize_t n) noexcept nogil:
    """Numbers of memory that the oracles need."""
    # arcs, three tables of a chart and three of probabilities, and products
    return (n + 1) * row_length(n) + (6 * (n + 1) + 1) * (row_length(n) + 8)


cdef Chart carve(Py_ssize_t n, bint single_root, int kind,
                 double* scratch) noexcept nogil:
    """Divide memory into the tables of a chart; those of probabilities come last."""
    cdef Chart c
    c.n, c.ld_arcs, c.single_root, c.kind = n, row_length(n), single_root, kind
    c.ld = c.ld_arcs + 8
    c.cells = (n + 1) * c.ld
    c.nothing = 0.0 if kind == SUMS else -INFINITY
    c.arcs = scratch
    c.products = scratch + (n + 1) * c.ld_arcs
    c.complete = c.products + c.ld
    c.linked = c.complete + c.cells
    c.turned = c.linked + c.cells
    return c


cdef inline double combine(const Chart* c, Py_ssize_t size, const double* x,
                           const double* y) noexcept nogil:
    """Best or sum of the splits whose parts are in two rows."""
    if c.kind == BEST:
        return sks_row_best(size, 1.0, x, y)
    size = (size + 7) // 8 * 8
    if c.kind == LOGS:
        return sks_logsum(size, x, y)
    return sks_weigh(size, x, y, c.products)


cdef inline double with_arc(const Chart* c, double value, Py_ssize_t head,
                            Py_ssize_t modifier) noexcept nogil:
    """The value of a span with an arc above it."""
    cdef double arc = c.arcs[modifier * c.ld_arcs + head]
    return value * arc if c.kind == SUMS else value + arc


cdef inline void put(const Chart* c, Py_ssize_t head, Py_ssize_t end,
                     double value) noexcept nogil:
    """Write a complete span."""
    c.complete[head * c.ld + end] = c.turned[end * c.ld + head] = value


cdef double fill(Chart* c) noexcept nogil:
    """Fill the tables; returns the value of all words."""
    cdef Py_ssize_t low, high, width, ld = c.ld
    cdef double value
    for low in range(3 * c.cells):
        c.complete[low] = c.nothing
    for low in range(c.n + 1):
        put(c, low, low, 1.0 if c.kind == SUMS else 0.0)
    for width in range(1, c.n + 1):
        for low in range(c.n + 1 - width):
            high = low + width
            value = combine(c, width, c.complete + low * ld + low,
                            c.complete + high * ld + low + 1)
            c.linked[low * ld + high] = with_arc(c, value, low, high)
            # A single word below the root has all others below it: spans of the root
            # that end earlier stay empty.
            if low > 0 or not c.single_root or high == c.n:
                put(c, low, high, combine(c, width, c.linked + low * ld + low + 1,
                                          c.turned + high * ld + low + 1))
            # nothing is above the root
            if low > 0:
                c.linked[high * ld + low] = with_arc(c, value, high, low)
                put(c, high, low, combine(c, width, c.linked + high * ld + low,
                                          c.turned + low * ld + low))
    return c.complete[c.n]


# ---- the best tree ----

cdef Py_ssize_t n_options(const Chart* c, Py_ssize_t cell) noexcept nogil:
    """Number of splits of a cell, which is one of `complete` or of `linked`."""
    cdef Py_ssize_t head = cell % c.cells // c.ld, end = cell % c.cells % c.ld
    return max(head, end) - min(head, end)


cdef Split split_at(const Chart* c, Py_ssize_t cell,
                    Py_ssize_t option) noexcept nogil:
    """One of the splits of a cell."""
    cdef Py_ssize_t head = cell % c.cells // c.ld, end = cell % c.cells % c.ld
    cdef Py_ssize_t low = min(head, end), modifier
    if cell >= c.cells:
        return Split(low * c.ld + low + option,
                     max(head, end) * c.ld + low + option + 1,
                     c.arcs[end * c.ld_arcs + head])
    modifier = low + option + (end > head)
    return Split(c.cells + head * c.ld + modifier, modifier * c.ld + end, 0.0)


cdef void read_best(const Chart* c, Py_ssize_t cell, int32_t* heads) noexcept nogil:
    """Write the heads of the words of a cell, in its best tree."""
    cdef Py_ssize_t size = n_options(c, cell), end = cell % c.cells % c.ld
    cdef Py_ssize_t option
    cdef Split first
    if size == 0:
        return
    first = split_at(c, cell, 0)
    if cell >= c.cells:
        heads[end - 1] = <int32_t> (cell % c.cells // c.ld)
        option = best_state_given(size, c.complete + first.left,
                                  c.complete + first.right, 1)
    else:
        option = best_state_given(size, c.complete + first.left,
                                  c.turned + end * c.ld + first.right // c.ld, 1)
    first = split_at(c, cell, option)
    read_best(c, first.left, heads)
    read_best(c, first.right, heads)


cdef double projective_max(Py_ssize_t n, bint single_root, const double* scores,
                           double* scratch, int32_t* heads) noexcept nogil:
    """Find a best tree; returns its score."""
    cdef Chart chart = carve(n, single_root, BEST, scratch)
    cdef double value
    load_rows(n, scores, 1.0, chart.arcs)
    value = fill(&chart)
    memset(heads, 0, n * sizeof(int32_t))
    if value > -INFINITY:
        read_best(&chart, n, heads)
    return value


# ---- sums over all trees ----

cdef inline void spread(const Chart* c, Py_ssize_t size, double share, const double* x,
                        const double* y, double* of_x, double* of_y) noexcept nogil:
    """Share the probability of a span among its splits."""
    cdef double total
    if share == 0.0:
        return
    total = combine(c, size, x, y)
    size = (size + 7) // 8 * 8
    if c.kind == LOGS:
        sks_share(size, x, y, total, share, 1.0, c.products, of_x, of_y)
    else:
        sks_axpy(size, share / total, c.products, of_x)
        sks_axpy(size, share / total, c.products, of_y)


cdef void go_down(const Chart* c, double* means) noexcept nogil:
    """Write the probabilities of arcs from a chart of sums, which is erased."""
    cdef Py_ssize_t low, high, width, side, head, end, start, ld = c.ld, n = c.n
    # of complete, linked and turned cells
    cdef double* of_complete = c.turned + c.cells
    cdef double* of_linked = of_complete + c.cells
    cdef double* of_turned = of_linked + c.cells
    memset(of_complete, 0, 3 * c.cells * sizeof(double))
    of_complete[n] = 1.0
    for width in range(n, 0, -1):
        for low in range(n + 1 - width):
            high = low + width
            for side in range(2):
                head, end = (high, low) if side else (low, high)
                start = low + 1 - side
                spread(c, width,
                       of_complete[head * ld + end] + of_turned[end * ld + head],
                       c.linked + head * ld + start, c.turned + end * ld + start,
                       of_linked + head * ld + start, of_turned + end * ld + start)
                put(c, head, end, c.nothing)
            spread(c, width, of_linked[low * ld + high] + of_linked[high * ld + low],
                   c.complete + low * ld + low, c.complete + high * ld + low + 1,
                   of_complete + low * ld + low, of_complete + high * ld + low + 1)
            c.linked[low * ld + high] = c.linked[high * ld + low] = c.nothing
    for head in range(n + 1):
        for end in range(1, n + 1):
            means[head * n + end - 1] = of_linked[head * ld + end]


cdef double projective_sums(Py_ssize_t n, bint single_root, const double* scores,
                            double scale, double* scratch,
                            double* means) noexcept nogil:
    """Log-partition of scaled scores, and the probability of each arc."""
    cdef Chart chart = carve(n, single_root, SUMS, scratch)
    cdef double value = 0.0, shift
    if means != NULL:
        memset(means, 0, (n + 1) * n * sizeof(double))
    load_rows(n, scores, scale, chart.arcs)
    shift = weigh_rows(n, single_root, chart.arcs)
    if shift == -INFINITY:
        return shift
    value = fill(&chart)
    if value >= SMALLEST:
        value = log(value) + shift
    else:
        # Logarithms do not vanish, and take several times as long.
        chart = carve(n, single_root, LOGS, scratch)
        load_rows(n, scores, scale, chart.arcs)
        value = fill(&chart)
    if value > -INFINITY and means != NULL:
        go_down(&chart, means)
    return value
