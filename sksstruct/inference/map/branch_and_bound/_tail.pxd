cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from sksstruct.inference.map.branch_and_bound._consistency cimport Consistency

cdef enum:
    # Largest number of open variables (with two or more values) for elimination.
    MOST_OPEN = 128


@cython.final
cdef class Tail:
    cdef object _owned
    # of each open variable: whether it is in the core, the variables that elimination
    # leaves; of each variable: its value in the best labeling
    cdef uint8_t* core
    cdef int32_t* value
    # the place (number) of each open variable, and the variable at each place
    cdef int32_t* _place
    cdef int32_t _open[MOST_OPEN]
    cdef Py_ssize_t _n_open
    # number and list of the neighbors of each place; for each pair of places, whether
    # they are neighbors
    cdef int32_t _degree[MOST_OPEN]
    cdef int32_t _neighbors[MOST_OPEN][MOST_OPEN]
    cdef uint8_t _linked[MOST_OPEN][MOST_OPEN]
    # order of elimination: places, and their up to two neighbors at that time, or -1
    cdef Py_ssize_t _n_gone
    cdef int32_t _order[MOST_OPEN]
    cdef int32_t _near[MOST_OPEN][2]
    # offset in `_entries` of the table of each pair of places, -1 without a table; the
    # lower place is on the table's first axis
    cdef Py_ssize_t _offset[MOST_OPEN][MOST_OPEN]
    cdef int64_t* _entries
    cdef Py_ssize_t _n_entries, _capacity
    # unary costs of the alive values at all places, and the offset of each place
    cdef int64_t* _unary
    cdef Py_ssize_t _unary_capacity
    cdef Py_ssize_t _first[MOST_OPEN + 1]
    # the best value of an eliminated variable for each pair of values of its neighbors
    cdef int32_t* _choices
    cdef Py_ssize_t _n_choices, _choices_capacity
    cdef Py_ssize_t _choices_begin[MOST_OPEN]

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
    cdef int64_t _pair_cost(self, Consistency network, Py_ssize_t a, Py_ssize_t i,
                            Py_ssize_t b, Py_ssize_t j) noexcept nogil
    cdef void _read_off(self, Consistency network) noexcept nogil
