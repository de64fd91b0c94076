"""The k best projective trees, by need (Huang and Chiang, 2005, Algorithm 3).

Eisner's chart has the best tree of each span. The next one of a span is the best of a
few candidates: other splits, and splits that were taken with the next tree of one of
their parts. Only spans of trees that are taken are asked for a second tree. Every tree
has one analysis, so that no two of these are equal.

Ties: the candidate that came first, and at first the lowest split.

L. Huang and D. Chiang, "Better k-best parsing", IWPT 2005.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.dependencies._arcs cimport load_rows
from sksstruct.inference.dependencies._projective cimport (
    BEST,
    Chart,
    Split,
    carve,
    fill,
    n_options,
    projective_scratch,
    read_best,
    split_at,
)
from sksstruct.utils._heap cimport Heap, HeapOrder, pop, push
from sksstruct.utils._memory cimport reserve


cdef struct Candidate:
    int32_t option, left_rank, right_rank


cdef struct Slot:
    # Candidates of a cell, in the pool from `first` on, -1 where nobody asked; room for
    # them; how many there are, wait, were taken, and were taken with what follows.
    Py_ssize_t first
    int32_t room, count, n_waiting, n_taken, n_followed


cdef struct Arrays:
    # of a slot: values and candidates, the heap of those that wait, and those taken
    double* values
    Candidate* candidates
    int32_t* waiting
    int32_t* taken


cdef struct Lists:
    Chart chart
    Slot* slots         # of each cell
    # numbers that grow, and how many of them are used
    double** pool
    Py_ssize_t* capacity
    Py_ssize_t used


cdef Py_ssize_t projective_topk_scratch(Py_ssize_t n) noexcept nogil:
    """Numbers of memory that `projective_topk` needs beside its pool."""
    cdef Chart chart = carve(n, False, BEST, NULL)
    return projective_scratch(n) + 2 * chart.cells * <Py_ssize_t> sizeof(Slot) // 8


cdef inline Arrays arrays_at(double* place, Py_ssize_t room) noexcept nogil:
    """The arrays of a slot, in four numbers for each candidate."""
    cdef Arrays out
    out.values = place
    out.candidates = <Candidate*> (place + room)
    out.waiting = <int32_t*> (out.candidates + room)
    out.taken = out.waiting + room
    return out


cdef inline Arrays arrays_of(const Lists* s, const Slot* slot) noexcept nogil:
    """The arrays of a slot; they move when any slot grows."""
    return arrays_at(s.pool[0] + slot.first, slot.room)


cdef int grow(Lists* s, Slot* slot, Py_ssize_t room) except -1 nogil:
    """Move a slot to more room. Old places are as long as the new one together."""
    cdef Arrays old, new
    reserve(<void**> s.pool, s.capacity, s.used + 4 * room, sizeof(double))
    new = arrays_at(s.pool[0] + s.used, room)
    if slot.count:
        old = arrays_of(s, slot)
        memcpy(new.values, old.values, slot.count * sizeof(double))
        memcpy(new.candidates, old.candidates, slot.count * sizeof(Candidate))
        memcpy(new.waiting, old.waiting, slot.n_waiting * sizeof(int32_t))
        memcpy(new.taken, old.taken, slot.n_taken * sizeof(int32_t))
    slot.first, slot.room = s.used, <int32_t> room
    s.used += 4 * room
    return 0


cdef double value_of(const Lists* s, Py_ssize_t cell, int32_t rank) noexcept nogil:
    """The value of a tree of a cell that is known."""
    cdef const Slot* slot = s.slots + cell
    cdef Arrays lists
    if slot.first < 0:
        return s.chart.complete[cell]
    lists = arrays_of(s, slot)
    return lists.values[lists.taken[rank]]


cdef int add(Lists* s, Py_ssize_t cell, int32_t option, int32_t left_rank,
             int32_t right_rank) except -1 nogil:
    """Add a candidate to those that wait."""
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
    heap = Heap(lists.waiting, slot.n_waiting, slot.room)
    order = HeapOrder(lists.values, True, NULL, 0)
    lists.candidates[slot.count] = Candidate(option, left_rank, right_rank)
    lists.values[slot.count] = value
    push(&heap, &order, slot.count)
    slot.count += 1
    slot.n_waiting += 1
    return 0


cdef bint take(Lists* s, Slot* slot) noexcept nogil:
    """Take the best of the candidates that wait; False if there is none."""
    cdef Arrays lists = arrays_of(s, slot)
    cdef Heap heap = Heap(lists.waiting, slot.n_waiting, slot.room)
    cdef HeapOrder order = HeapOrder(lists.values, True, NULL, 0)
    if slot.n_waiting == 0:
        return False
    lists.taken[slot.n_taken] = heap.items[0]
    pop(&heap, &order)
    slot.n_waiting -= 1
    slot.n_taken += 1
    return True


cdef bint reach(Lists* s, Py_ssize_t cell, int32_t rank) except -1 nogil:
    """Find the tree of a rank >= 1 of a cell; False if there is none."""
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
            add(s, cell, <int32_t> option, 0, 0)
        take(s, slot)
    while slot.n_taken <= rank:
        # what follows the last one is needed only now
        if slot.n_followed < slot.n_taken:
            lists = arrays_of(s, slot)
            last = lists.candidates[lists.taken[slot.n_taken - 1]]
            split = split_at(&s.chart, cell, last.option)
            slot.n_followed = slot.n_taken
            # each pair of ranks comes from one other
            if reach(s, split.right, last.right_rank + 1):
                add(s, cell, last.option, last.left_rank, last.right_rank + 1)
            if last.right_rank == 0 and reach(s, split.left, last.left_rank + 1):
                add(s, cell, last.option, last.left_rank + 1, 0)
        if not take(s, slot):
            return False
    return True


cdef void read_tree(const Lists* s, Py_ssize_t cell, int32_t rank,
                    int32_t* heads) noexcept nogil:
    """Write the heads of the words of a cell, in the tree of a rank."""
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
    """Find the k best trees; returns how many there are."""
    cdef Lists s
    cdef Py_ssize_t count = 0, cell
    s.chart = carve(n, single_root, BEST, scratch)
    s.pool, s.capacity, s.used = pool, capacity, 0
    s.slots = <Slot*> (scratch + projective_scratch(n))
    load_rows(n, scores, 1.0, s.chart.arcs)
    values[0] = fill(&s.chart)
    if values[0] == -INFINITY:
        return 0
    memset(s.slots, 0, 2 * s.chart.cells * sizeof(Slot))
    for cell in range(2 * s.chart.cells):
        s.slots[cell].first = -1
    # all words are the span of the root, cell n
    while count < k and (count == 0 or reach(&s, n, <int32_t> count)):
        values[count] = value_of(&s, n, <int32_t> count)
        read_tree(&s, n, <int32_t> count, trees + count * n)
        count += 1
    return count
