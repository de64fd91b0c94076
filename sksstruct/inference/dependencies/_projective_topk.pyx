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
from libc.string cimport memset

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


cdef struct Candidate:
    int32_t option, left_rank, right_rank


cdef struct Lists:
    Chart chart
    Py_ssize_t k, room, n_slots
    int32_t* slot       # of each cell, -1 for those that nobody asked
    # of each slot: candidates, their values and the heap of those that wait, which have
    # `room` entries, and the candidates that were taken
    Candidate* candidates
    double* values
    int32_t* waiting
    int32_t* taken      # (k,)
    int32_t* numbers    # of candidates, waiting, taken, and taken with what follows


cdef Py_ssize_t most_slots(Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """The most cells that are asked: of a tree for each rank, or all."""
    return min(k * (3 * n + 1), 2 * n * (n + 1))


cdef Py_ssize_t projective_topk_scratch(Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """Numbers of memory that `projective_topk` needs."""
    cdef Py_ssize_t room = n + 2 * k
    # values, and four integers for each candidate
    return 2 * projective_scratch(n) + most_slots(n, k) * (3 * room + k // 2 + 4)


cdef double value_of(const Lists* s, Py_ssize_t cell, int32_t rank) noexcept nogil:
    """The value of a tree of a cell that is known."""
    cdef Py_ssize_t slot = s.slot[cell]
    if slot < 0:
        return s.chart.complete[cell]
    return s.values[slot * s.room + s.taken[slot * s.k + rank]]


cdef void add(Lists* s, Py_ssize_t cell, Py_ssize_t slot, int32_t option,
              int32_t left_rank, int32_t right_rank) noexcept nogil:
    """Add a candidate to those that wait."""
    cdef Split split = split_at(&s.chart, cell, option)
    cdef int32_t* numbers = s.numbers + 4 * slot
    cdef double* values = s.values + slot * s.room
    cdef Heap heap = Heap(s.waiting + slot * s.room, numbers[1], s.room)
    cdef HeapOrder order = HeapOrder(values, True, NULL, 0)
    cdef double value = (value_of(s, split.left, left_rank)
                         + value_of(s, split.right, right_rank) + split.score)
    if value == -INFINITY:
        return
    s.candidates[slot * s.room + numbers[0]] = Candidate(option, left_rank, right_rank)
    values[numbers[0]] = value
    push(&heap, &order, numbers[0])
    numbers[0] += 1
    numbers[1] += 1


cdef bint take(Lists* s, Py_ssize_t slot) noexcept nogil:
    """Take the best of the candidates that wait; False if there is none."""
    cdef int32_t* numbers = s.numbers + 4 * slot
    cdef Heap heap = Heap(s.waiting + slot * s.room, numbers[1], s.room)
    cdef HeapOrder order = HeapOrder(s.values + slot * s.room, True, NULL, 0)
    if numbers[1] == 0:
        return False
    s.taken[slot * s.k + numbers[2]] = heap.items[0]
    pop(&heap, &order)
    numbers[1] -= 1
    numbers[2] += 1
    return True


cdef bint reach(Lists* s, Py_ssize_t cell, int32_t rank) noexcept nogil:
    """Find the tree of a rank >= 1 of a cell; False if there is none."""
    cdef Py_ssize_t slot = s.slot[cell], size = n_options(&s.chart, cell), option
    cdef int32_t* numbers
    cdef Candidate last
    cdef Split split
    if size == 0:
        return False
    if slot < 0:
        slot = s.n_slots
        s.n_slots += 1
        memset(s.numbers + 4 * slot, 0, 4 * sizeof(int32_t))
        for option in range(size):
            add(s, cell, slot, <int32_t> option, 0, 0)
        s.slot[cell] = <int32_t> slot
        take(s, slot)
    numbers = s.numbers + 4 * slot
    while numbers[2] <= rank:
        # what follows the last one is needed only now
        if numbers[3] < numbers[2]:
            last = s.candidates[slot * s.room + s.taken[slot * s.k + numbers[2] - 1]]
            split = split_at(&s.chart, cell, last.option)
            numbers[3] = numbers[2]
            # each pair of ranks comes from one other
            if reach(s, split.right, last.right_rank + 1):
                add(s, cell, slot, last.option, last.left_rank, last.right_rank + 1)
            if last.right_rank == 0 and reach(s, split.left, last.left_rank + 1):
                add(s, cell, slot, last.option, last.left_rank + 1, 0)
        if not take(s, slot):
            return False
    return True


cdef void read_tree(const Lists* s, Py_ssize_t cell, int32_t rank,
                    int32_t* heads) noexcept nogil:
    """Write the heads of the words of a cell, in the tree of a rank."""
    cdef Py_ssize_t slot = s.slot[cell], ld = s.chart.ld
    cdef Candidate best
    cdef Split split
    if slot < 0:
        read_best(&s.chart, cell, heads)
        return
    if cell >= s.chart.cells:
        heads[cell % ld - 1] = <int32_t> (cell % s.chart.cells // ld)
    best = s.candidates[slot * s.room + s.taken[slot * s.k + rank]]
    split = split_at(&s.chart, cell, best.option)
    read_tree(s, split.left, best.left_rank, heads)
    read_tree(s, split.right, best.right_rank, heads)


cdef Py_ssize_t projective_topk(
    Py_ssize_t n, bint single_root, const double* scores, Py_ssize_t k, double* scratch,
    double* values, int32_t* trees
) noexcept nogil:
    """Find the k best trees; returns how many there are."""
    cdef Lists s
    cdef Py_ssize_t slots = most_slots(n, k), count = 0
    s.chart = carve(n, single_root, BEST, scratch)
    s.k, s.room, s.n_slots = k, n + 2 * k, 0
    s.values = scratch + projective_scratch(n)
    s.slot = <int32_t*> (s.values + slots * s.room)
    s.candidates = <Candidate*> (s.slot + 2 * s.chart.cells)
    s.waiting = <int32_t*> (s.candidates + slots * s.room)
    s.taken = s.waiting + slots * s.room
    s.numbers = s.taken + slots * k
    load_rows(n, scores, 1.0, s.chart.arcs)
    values[0] = fill(&s.chart)
    if values[0] == -INFINITY:
        return 0
    # bytes of 255 are -1
    memset(s.slot, 255, 2 * s.chart.cells * sizeof(int32_t))
    # all words are the span of the root, cell n
    while count < k and (count == 0 or reach(&s, n, <int32_t> count)):
        values[count] = value_of(&s, n, <int32_t> count)
        read_tree(&s, n, <int32_t> count, trees + count * n)
        count += 1
    return count
