from libc.stdint cimport int32_t

# Largest number of least costs that `refresh` finds at once, for parts split later.
cdef enum:
    MOST_WANTED = 16


# Sums of the same numbers in different order differ by less than the margin of
# `rounded_up`. A cost is a difference of sums: between labelings that tie, the rounding
# error of a cost is relative to the size of the scores, not of the cost.
cdef inline double rounded_up(double value, double size) noexcept nogil:
    """Value plus a margin above rounding errors, for scores of a given size."""
    return value + 1e-9 * value + 1e-12 * size


cdef inline void insert_least(Py_ssize_t count, double* least,
                              double value) noexcept nogil:
    """Insert a value into the ascending list of the least values so far."""
    cdef Py_ssize_t k = count - 1
    if value >= least[k]:
        return
    while k > 0 and least[k - 1] > value:
        least[k] = least[k - 1]
        k -= 1
    least[k] = value


cdef struct Part:
    # Scores of the best labeling and of the second best labeling, whose states differ
    # at `variable`; the second best has `state` there, if the subclass sets `state`. A
    # part is stale if `next_score` is only an upper bound.
    double score, next_score
    Py_ssize_t variable, state
    bint stale


cdef class BestFirst:
    # Scratch of one thread; grows with the number of labelings.
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
