from libc.stdint cimport int32_t

# `refresh` computes the costs of the k cheapest changes of a part's best labeling, with
# k at most MOST_WANTED: parts that are split off later use these costs as bounds.
cdef enum:
    MOST_WANTED = 16


# Sums of the same numbers in different order differ by less than the margin of
# `rounded_up`. A cost is the difference between the scores of two labelings. If the
# labelings tie, the rounding error of the cost is relative to the size of the scores,
# not of the cost.
cdef inline double rounded_up(double value, double size) noexcept nogil:
    """Return a cost plus a margin above rounding errors of scores of a given size."""
    return value + 1e-9 * value + 1e-12 * size


cdef inline void insert_least(Py_ssize_t count, double* least,
                              double value) noexcept nogil:
    """Insert a value into the ascending list of the `count` least values so far."""
    cdef Py_ssize_t k = count - 1
    if value >= least[k]:
        return
    while k > 0 and least[k - 1] > value:
        least[k] = least[k - 1]
        k -= 1
    least[k] = value


cdef struct Part:
    # A part of the set of labelings, with the scores of its best labeling (`score`) and
    # of its second best labeling (`next_score`). The two differ at `variable`, where
    # the second best labeling has `state`; some subclasses do not set `state`. A part
    # is stale if `next_score` is only an upper bound.
    double score, next_score
    Py_ssize_t variable, state
    bint stale


cdef class BestFirst:
    # Workspace of one thread. Row k of `_labelings`, of n_variables states, is the best
    # labeling of part k. Both arrays grow with the number of parts.
    cdef Py_ssize_t n_variables, n_parts
    cdef Part* _parts
    cdef int32_t* _labelings
    cdef Py_ssize_t _part_capacity, _label_capacity

    cdef Py_ssize_t find(self, Py_ssize_t k) except -1 nogil
    cdef double score(self, Py_ssize_t rank) noexcept nogil
    cdef int32_t* labeling(self, Py_ssize_t rank) noexcept nogil

    # overridden by subclasses; see `_best_first.pyx`
    cdef int reserve_part(self, Py_ssize_t part) except -1 nogil
    cdef bint start(self) except -1 nogil
    cdef int refresh(self, Py_ssize_t part, Py_ssize_t wanted) except -1 nogil
    cdef bint split(self, Py_ssize_t part, Py_ssize_t other) except -1 nogil
