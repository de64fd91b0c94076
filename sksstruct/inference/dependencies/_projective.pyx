"""Projective dependency trees: the best one, the k best, and sums (Eisner, 1996).

The words below a head form a span. A complete span [head, end] has a tree of the words
from the head to the end; a linked span [head, modifier] ends with an outermost arc:

    linked[h, m]   = arc(h, m) + best_r complete[low, r] + complete[high, r + 1],
    complete[h, e] = best_m linked[h, m] + complete[m, e],

where low and high are h and m in order. Every tree has exactly one such analysis, so
that the same recursion with sums gives the partition function. The parts of both kinds
of splits are consecutive in rows of tables. Marginals are computed backward: the
probability of a span is distributed over its splits, the widest span first.

Loops over rows run beyond the spans to whole vectors. The wider spans there are not
filled yet (forward) or erased (backward), and contribute nothing.

Ties: a span takes its lowest split. J. Eisner, "Three new probabilistic models for
dependency parsing: an exploration", COLING 1996.

The k best trees are found lazily (Huang and Chiang, 2005, Algorithm 3). The chart has
the best tree of each span. The next tree of a span is the best of some candidates:
untried splits, and splits that were taken already, with the next tree of one of their
parts. Only spans of trees that were returned need a second tree. Every tree has one
analysis, so that all candidates differ. Ties: the earliest candidate wins, and among
the initial ones the lowest split. L. Huang and D. Chiang, "Better k-best parsing", IWPT
2005.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from sksstruct.inference.dependencies._arcs cimport load_rows, row_length, weigh_rows
from sksstruct.inference.trees._messages cimport best_state_given
from sksstruct.utils._heap cimport Heap, HeapOrder, pop, push
from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport const_doubles, doubles, int32s
from sksstruct.utils._simd cimport (
    sks_axpy,
    sks_logsum,
    sks_row_best,
    sks_share,
    sks_weigh,
)

# Weights are probabilities of heads, and terms that underflow in a sum are below
# 1e-308: a total above this has no relevant error.
cdef double SMALLEST = 1e-280


cdef enum:
    # contents of a chart: best scores, sums of weights, or logarithms of sums
    BEST, SUMS, LOGS


cdef struct Chart:
    Py_ssize_t n, ld, ld_arcs, cells
    int kind
    bint single_root
    double zero
    double* arcs        # (n + 1, ld_arcs): score or weight of arcs[modifier, head]
    # Tables (n + 1, ld), the first two consecutive: [head, end] complete spans, [head,
    # modifier] linked spans, and [end, head] complete spans transposed.
    double* complete
    double* linked
    double* turned
    double* products    # (ld,)


cdef struct Split:
    # cells of the two parts of a span, and the score of the arc that links them
    Py_ssize_t left, right
    double score


cdef Py_ssize_t projective_scratch(Py_ssize_t n) noexcept nogil:
    """Number of doubles of memory that the oracles need."""
    # arcs; three tables of a chart, and three of probabilities; products
    return (n + 1) * row_length(n) + (6 * (n + 1) + 1) * (row_length(n) + 8)


cdef Chart divide_memory(Py_ssize_t n, bint single_root, int kind,
                         double* scratch) noexcept nogil:
    """Divide memory into the tables of a chart; tables of probabilities follow."""
    cdef Chart c
    c.n, c.ld_arcs, c.single_root, c.kind = n, row_length(n), single_root, kind
    c.ld = c.ld_arcs + 8
    c.cells = (n + 1) * c.ld
    c.zero = 0.0 if kind == SUMS else -INFINITY
    c.arcs = scratch
    c.products = scratch + (n + 1) * c.ld_arcs
    c.complete = c.products + c.ld
    c.linked = c.complete + c.cells
    c.turned = c.linked + c.cells
    return c


cdef inline double combine(const Chart* c, Py_ssize_t size, const double* x,
                           const double* y) noexcept nogil:
    """Return the maximum or the sum of the values of all splits of a span.

    x and y have the values of the two parts of each split.
    """
    if c.kind == BEST:
        return sks_row_best(size, 1.0, x, y)
    size = (size + 7) // 8 * 8
    if c.kind == LOGS:
        return sks_logsum(size, x, y)
    return sks_weigh(size, x, y, c.products)


cdef inline double with_arc(const Chart* c, double value, Py_ssize_t head,
                            Py_ssize_t modifier) noexcept nogil:
    """Combine the value of a linked span's splits with its outermost arc."""
    cdef double arc = c.arcs[modifier * c.ld_arcs + head]
    return value * arc if c.kind == SUMS else value + arc


cdef inline void put(const Chart* c, Py_ssize_t head, Py_ssize_t end,
                     double value) noexcept nogil:
    """Write the value of a complete span to `complete` and, transposed, to `turned`."""
    c.complete[head * c.ld + end] = c.turned[end * c.ld + head] = value


cdef double fill(Chart* c) noexcept nogil:
    """Fill the chart with the values of all spans; return that of the whole sentence.

    This value is the score of a best tree, or the sum over all trees.
    """
    cdef Py_ssize_t low, high, width, ld = c.ld
    cdef double value
    for low in range(3 * c.cells):
        c.complete[low] = c.zero
    for low in range(c.n + 1):
        put(c, low, low, 1.0 if c.kind == SUMS else 0.0)
    for width in range(1, c.n + 1):
        for low in range(c.n + 1 - width):
            high = low + width
            value = combine(c, width, c.complete + low * ld + low,
                            c.complete + high * ld + low + 1)
            c.linked[low * ld + high] = with_arc(c, value, low, high)
            # With a single root, the word below the root spans all words: other
            # complete spans of the root stay empty.
            if low > 0 or not c.single_root or high == c.n:
                put(c, low, high, combine(c, width, c.linked + low * ld + low + 1,
                                          c.turned + high * ld + low + 1))
            # the root is no modifier
            if low > 0:
                c.linked[high * ld + low] = with_arc(c, value, high, low)
                put(c, high, low, combine(c, width, c.linked + high * ld + low,
                                          c.turned + low * ld + low))
    return c.complete[c.n]


# ---- the best tree ----

cdef Py_ssize_t n_options(const Chart* c, Py_ssize_t cell) noexcept nogil:
    """Return the number of splits of a cell of `complete` or of `linked`."""
    cdef Py_ssize_t head = cell % c.cells // c.ld, end = cell % c.cells % c.ld
    return max(head, end) - min(head, end)


cdef Split split_at(const Chart* c, Py_ssize_t cell,
                    Py_ssize_t option) noexcept nogil:
    """Return the split with number `option` of a cell of `complete` or of `linked`."""
    cdef Py_ssize_t head = cell % c.cells // c.ld, end = cell % c.cells % c.ld
    cdef Py_ssize_t low = min(head, end), modifier
    if cell >= c.cells:
        return Split(low * c.ld + low + option,
                     max(head, end) * c.ld + low + option + 1,
                     c.arcs[end * c.ld_arcs + head])
    modifier = low + option + (end > head)
    return Split(c.cells + head * c.ld + modifier, modifier * c.ld + end, 0.0)


cdef void read_best(const Chart* c, Py_ssize_t cell, int32_t* heads) noexcept nogil:
    """Write the heads of the words of a cell in its best tree."""
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
    """Find a best projective tree of n words; return its score."""
    cdef Chart chart = divide_memory(n, single_root, BEST, scratch)
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
    """Distribute the probability of a span, `share`, over the parts of its splits.

    x and y have the values of the two parts of each split, and the probabilities are
    added to of_x and of_y.
    """
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


cdef void write_marginals(const Chart* c, double* means) noexcept nogil:
    """Write the probabilities of arcs from a chart of sums, and erase the chart."""
    cdef Py_ssize_t low, high, width, side, head, end, start, ld = c.ld, n = c.n
    # probabilities of complete, linked and transposed cells
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
                put(c, head, end, c.zero)
            spread(c, width, of_linked[low * ld + high] + of_linked[high * ld + low],
                   c.complete + low * ld + low, c.complete + high * ld + low + 1,
                   of_complete + low * ld + low, of_complete + high * ld + low + 1)
            c.linked[low * ld + high] = c.linked[high * ld + low] = c.zero
    for head in range(n + 1):
        for end in range(1, n + 1):
            means[head * n + end - 1] = of_linked[head * ld + end]


cdef double projective_sums(Py_ssize_t n, bint single_root, const double* scores,
                            double scale, double* scratch,
                            double* means) noexcept nogil:
    """Return the log-partition of scaled scores; write the probability of each arc."""
    cdef Chart chart = divide_memory(n, single_root, SUMS, scratch)
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
        # sums of logarithms do not underflow, but take several times as long
        chart = divide_memory(n, single_root, LOGS, scratch)
        load_rows(n, scores, scale, chart.arcs)
        value = fill(&chart)
    if value > -INFINITY and means != NULL:
        write_marginals(&chart, means)
    return value


# ---- the k best trees ----

cdef struct Candidate:
    int32_t option, left_rank, right_rank


cdef struct Slot:
    # Candidates for the next tree of a cell: their offset in the pool, or -1 if no
    # second tree was needed; the number of candidates for which there is memory; and
    # the numbers of all candidates, of queued candidates, of taken candidates, and of
    # taken candidates whose successors were queued.
    Py_ssize_t first
    int32_t room, count, n_queued, n_taken, n_expanded


cdef struct Arrays:
    # arrays of a slot: values and candidates, a heap of queued candidates, and taken
    # candidates
    double* values
    Candidate* candidates
    int32_t* queue
    int32_t* taken


cdef struct Lists:
    Chart chart
    Slot* slots         # candidates of each cell of `complete`, then of `linked`
    # pool of doubles, its capacity, and the number in use
    double** pool
    Py_ssize_t* capacity
    Py_ssize_t used


cdef Py_ssize_t projective_topk_scratch(Py_ssize_t n) noexcept nogil:
    """Number of doubles of memory that `projective_topk` needs, without the pool."""
    cdef Chart chart = divide_memory(n, False, BEST, NULL)
    return projective_scratch(n) + 2 * chart.cells * <Py_ssize_t> sizeof(Slot) // 8


cdef inline Arrays arrays_at(double* place, Py_ssize_t room) noexcept nogil:
    """Return the arrays of a slot, which take four doubles per candidate."""
    cdef Arrays out
    out.values = place
    out.candidates = <Candidate*> (place + room)
    out.queue = <int32_t*> (out.candidates + room)
    out.taken = out.queue + room
    return out


cdef inline Arrays arrays_of(const Lists* s, const Slot* slot) noexcept nogil:
    """Return the arrays of a slot, which are valid until any slot grows."""
    return arrays_at(s.pool[0] + slot.first, slot.room)


cdef int grow(Lists* s, Slot* slot, Py_ssize_t room) except -1 nogil:
    """Move the arrays of a slot to memory for `room` candidates."""
    cdef Arrays old, new
    reserve(<void**> s.pool, s.capacity, s.used + 4 * room, sizeof(double))
    new = arrays_at(s.pool[0] + s.used, room)
    if slot.count:
        old = arrays_of(s, slot)
        memcpy(new.values, old.values, slot.count * sizeof(double))
        memcpy(new.candidates, old.candidates, slot.count * sizeof(Candidate))
        memcpy(new.queue, old.queue, slot.n_queued * sizeof(int32_t))
        memcpy(new.taken, old.taken, slot.n_taken * sizeof(int32_t))
    slot.first, slot.room = s.used, <int32_t> room
    s.used += 4 * room
    return 0


cdef double value_of(const Lists* s, Py_ssize_t cell, int32_t rank) noexcept nogil:
    """Return the score of the tree of a rank that was found for a cell."""
    cdef const Slot* slot = s.slots + cell
    cdef Arrays lists
    if slot.first < 0:
        return s.chart.complete[cell]
    lists = arrays_of(s, slot)
    return lists.values[lists.taken[rank]]


cdef int add_candidate(Lists* s, Py_ssize_t cell, int32_t option, int32_t left_rank,
                       int32_t right_rank) except -1 nogil:
    """Add a candidate to the queue of a cell, unless its score is -inf.

    The candidate is a split, with a rank for the tree of each part.
    """
    cdef Split split = split_at(&s.chart, cell, option)
    cdef Slot* slot = s.slots + cell
    cdef Arrays lists
    cdef Heap heap
    cdef HeapOrder order
    cdef double value = (value_of(s, split.left, left_rank)
                         + value_of(s, split.right, right_rank) + split.score)
    if value == -INFINITY:
        return 0
    if slot.count == slot.room:
        grow(s, slot, 2 * slot.room)
    lists = arrays_of(s, slot)
    heap = Heap(lists.queue, slot.n_queued, slot.room)
    order = HeapOrder(lists.values, True, NULL, 0)
    lists.candidates[slot.count] = Candidate(option, left_rank, right_rank)
    lists.values[slot.count] = value
    push(&heap, &order, slot.count)
    slot.count += 1
    slot.n_queued += 1
    return 0


cdef bint take_best(Lists* s, Slot* slot) noexcept nogil:
    """Move a cell's best candidate from the queue to the taken candidates.

    Returns False if the queue is empty.
    """
    cdef Arrays lists = arrays_of(s, slot)
    cdef Heap heap = Heap(lists.queue, slot.n_queued, slot.room)
    cdef HeapOrder order = HeapOrder(lists.values, True, NULL, 0)
    if slot.n_queued == 0:
        return False
    lists.taken[slot.n_taken] = heap.items[0]
    pop(&heap, &order)
    slot.n_queued -= 1
    slot.n_taken += 1
    return True


cdef bint find_rank(Lists* s, Py_ssize_t cell, int32_t rank) except -1 nogil:
    """Find the tree of a rank >= 1 of a cell; return False if there is none."""
    cdef Slot* slot = s.slots + cell
    cdef Py_ssize_t size = n_options(&s.chart, cell), option
    cdef Arrays lists
    cdef Candidate last
    cdef Split split
    if size == 0:
        return False
    if slot.first < 0:
        grow(s, slot, size + 2)
        for option in range(size):
            add_candidate(s, cell, <int32_t> option, 0, 0)
        take_best(s, slot)
    while slot.n_taken <= rank:
        # successors of the tree that was taken last are queued only when needed
        if slot.n_expanded < slot.n_taken:
            lists = arrays_of(s, slot)
            last = lists.candidates[lists.taken[slot.n_taken - 1]]
            split = split_at(&s.chart, cell, last.option)
            slot.n_expanded = slot.n_taken
            # each pair of ranks is the successor of a single pair: no candidate is
            # queued twice
            if find_rank(s, split.right, last.right_rank + 1):
                add_candidate(s, cell, last.option, last.left_rank, last.right_rank + 1)
            if last.right_rank == 0 and find_rank(s, split.left, last.left_rank + 1):
                add_candidate(s, cell, last.option, last.left_rank + 1, 0)
        if not take_best(s, slot):
            return False
    return True


cdef void read_tree(const Lists* s, Py_ssize_t cell, int32_t rank,
                    int32_t* heads) noexcept nogil:
    """Write the heads of the words of a cell in the tree of a rank."""
    cdef const Slot* slot = s.slots + cell
    cdef Py_ssize_t ld = s.chart.ld
    cdef Arrays lists
    cdef Candidate best
    cdef Split split
    if slot.first < 0:
        read_best(&s.chart, cell, heads)
        return
    if cell >= s.chart.cells:
        heads[cell % ld - 1] = <int32_t> (cell % s.chart.cells // ld)
    lists = arrays_of(s, slot)
    best = lists.candidates[lists.taken[rank]]
    split = split_at(&s.chart, cell, best.option)
    read_tree(s, split.left, best.left_rank, heads)
    read_tree(s, split.right, best.right_rank, heads)


cdef Py_ssize_t projective_topk(
    Py_ssize_t n, bint single_root, const double* scores, Py_ssize_t k, double* scratch,
    double** pool, Py_ssize_t* capacity, double* values, int32_t* trees
) except -1 nogil:
    """Find the k best projective trees of n words; return the number of trees found."""
    cdef Lists s
    cdef Py_ssize_t count = 0, cell
    s.chart = divide_memory(n, single_root, BEST, scratch)
    s.pool, s.capacity, s.used = pool, capacity, 0
    s.slots = <Slot*> (scratch + projective_scratch(n))
    load_rows(n, scores, 1.0, s.chart.arcs)
    values[0] = fill(&s.chart)
    if values[0] == -INFINITY:
        return 0
    memset(s.slots, 0, 2 * s.chart.cells * sizeof(Slot))
    for cell in range(2 * s.chart.cells):
        s.slots[cell].first = -1
    # cell n is the span of the root and all words
    while count < k and (count == 0 or find_rank(&s, n, <int32_t> count)):
        values[count] = value_of(&s, n, <int32_t> count)
        read_tree(&s, n, <int32_t> count, trees + count * n)
        count += 1
    return count


# ---- Python interface ----

def tree_memory(Py_ssize_t n):
    """Return the number of doubles of memory that `find_tree` needs."""
    return projective_scratch(n)


def find_tree(bint single_root, scores, scratch, heads):
    """Write the heads of a best tree, and return its score."""
    cdef Py_ssize_t n = len(heads)
    cdef const double* arcs = const_doubles(scores)
    cdef double* memory = doubles(scratch)
    cdef int32_t* tree = int32s(heads)
    cdef double value
    with nogil:
        value = projective_max(n, single_root, arcs, memory, tree)
    return value


def topk_memory(Py_ssize_t n, Py_ssize_t k):
    """Return the number of doubles of memory that `find_topk` needs for any k."""
    return projective_topk_scratch(n)


def find_topk(bint single_root, scores, scratch, values, heads):
    """Write the best trees and their scores, and return their number."""
    cdef Py_ssize_t k = heads.shape[0], n = heads.shape[1], count, capacity = 0
    cdef const double* arcs = const_doubles(scores)
    cdef double* memory = doubles(scratch)
    cdef double* tree_values = doubles(values)
    cdef int32_t* trees = int32s(heads)
    cdef double* pool = NULL
    try:
        with nogil:
            count = projective_topk(n, single_root, arcs, k, memory, &pool, &capacity,
                                    tree_values, trees)
    finally:
        free(pool)
    return count


def sums_memory(Py_ssize_t n):
    """Return the number of doubles of memory that `find_sums` needs."""
    return projective_scratch(n)


def find_sums(bint single_root, scores, double scale, scratch, marginals):
    """Write the probabilities of arcs, and return the log-partition."""
    cdef Py_ssize_t n = marginals.shape[1]
    cdef const double* arcs = const_doubles(scores)
    cdef double* memory = doubles(scratch)
    cdef double* means = doubles(marginals)
    cdef double value
    with nogil:
        value = projective_sums(n, single_root, arcs, scale, memory, means)
    return value
