from libc.stdint cimport int32_t

# So many of what loses least are found at once: the next parts need them.
cdef enum:
    MOST_WANTED = 16


# Sums of the same numbers differ by less than this part of them. What is lost is a
# difference of sums: where labelings tie, what rounding leaves of it is no part of it,
# but of the size of the scores.
cdef inline double rounded_up(double value, double size) noexcept nogil:
    """A limit that a value does not exceed by rounding, with scores of some size."""
    return value + 1e-9 * value + 1e-12 * size


cdef inline void insert_least(Py_ssize_t count, double* least,
                              double value) noexcept nogil:
    """Insert a value into the least ones so far, which are in order."""
    cdef Py_ssize_t k = count - 1
    if value >= least[k]:
        return
    while k > 0 and least[k - 1] > value:
        least[k] = least[k - 1]
        k -= 1
    least[k] = value


cdef struct Part:
    # The best score; that of the second best labeling, which has the state `state` at
    # `variable`. A part is stale if `next_score` is only a bound from above.
    double score, next_score
    Py_ssize_t variable, state
    bint stale


cdef class BestFirst:
    # Scratch of one thread; grows to what is needed.
    cdef Py_ssize_t n_variables, n_parts
    cdef Part* _parts
    cdef int32_t* _labelings
    cdef Py_ssize_t _part_capacity, _label_capacity

    cdef Py_ssize_t find(self, Py_ssize_t k) except -1 nogil
    cdef double score(self, Py_ssize_t rank) noexcept nogil
    cdef int32_t* labeling(self, Py_ssize_t rank) noexcept nogil

    # what subclasses override; `_best_first.pyx` states each
    cdef int reserve_part(self, Py_ssize_t part) except -1 nogil
    cdef bint start(self) except -1 nogil
    cdef int refresh(self, Py_ssize_t part, Py_ssize_t wanted) except -1 nogil
    cdef bint split(self, Py_ssize_t part, Py_ssize_t other) except -1 nogil
