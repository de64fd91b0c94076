cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from sksstruct.inference.map.branch_and_bound._consistency cimport Consistency

cdef enum:
    # More variables that are open are not looked at.
    MOST_OPEN = 128


@cython.final
cdef class Tail:
    cdef object _owned
    # by variable: whether it is among those to branch on, and its value
    cdef uint8_t* core
    cdef int32_t* value
    # places of the open variables, and variables of the places
    cdef int32_t* _place
    cdef int32_t _open[MOST_OPEN]
    cdef Py_ssize_t _n_open
    # neighbors in lists, and for pairs whether they are
    cdef int32_t _degree[MOST_OPEN]
    cdef int32_t _around[MOST_OPEN][MOST_OPEN]
    cdef uint8_t _linked[MOST_OPEN][MOST_OPEN]
    # the order in which they go, with up to two neighbors, or -1
    cdef Py_ssize_t _n_gone
    cdef int32_t _gone[MOST_OPEN]
    cdef int32_t _next[MOST_OPEN][2]
    # tables of pairs of places, the lower one slow; where each begins, or -1
    cdef Py_ssize_t _begin[MOST_OPEN][MOST_OPEN]
    cdef int64_t* _entries
    cdef Py_ssize_t _n_entries, _capacity
    cdef int64_t* _unary
    cdef Py_ssize_t _unary_capacity
    cdef Py_ssize_t _first[MOST_OPEN + 1]
    # the best places of values for those of the neighbors
    cdef int32_t* _choices
    cdef Py_ssize_t _n_choices, _choices_capacity
    cdef Py_ssize_t _begin_choices[MOST_OPEN]

    cdef Py_ssize_t peel(self, Consistency network) noexcept nogil
    cdef int64_t solve(self, Consistency network) except -1 nogil
    cdef void _connect(self, Consistency network) noexcept nogil
    cdef void _link(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil
    cdef void _unlink(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil
    cdef int _load(self, Consistency network) except -1 nogil
    cdef int _add_factor(self, Consistency network, Py_ssize_t factor,
                         Py_ssize_t a, Py_ssize_t b) except -1 nogil
    cdef Py_ssize_t _table(self, Consistency network, Py_ssize_t a,
                           Py_ssize_t b) except -1 nogil
    cdef int64_t _eliminate(self, Consistency network, Py_ssize_t k) except -1 nogil
    cdef int64_t _pair(self, Consistency network, Py_ssize_t a, Py_ssize_t i,
                       Py_ssize_t b, Py_ssize_t j) noexcept nogil
    cdef void _read_off(self, Consistency network) noexcept nogil
