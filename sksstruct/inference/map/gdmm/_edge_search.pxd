cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.core._tables cimport TableSpec
from sksstruct.inference.map.gdmm._slots cimport Active, SlotState
from sksstruct.inference.map.gdmm._toplists cimport Lists


# State of the search of an edge: its data, by side, and the best entry so far.
cdef struct Search:
    Py_ssize_t table_index
    const TableSpec* table
    double weight
    # -1 for negative weights, which make the least entries of a table the best
    double sign
    # whether the largest entries of rows and columns are known, and bound scores
    bint bounded
    Py_ssize_t n_states[2]
    Py_ssize_t n_slots[2]
    # state of each slot; slot of each state, or -1
    const int32_t* state[2]
    const int32_t* slot[2]
    # gradients by slot; states without a slot have gradient zero
    const double* gradient[2]
    double best
    Py_ssize_t row, col


@cython.final
cdef class EntrySearch:
    cdef readonly Py_ssize_t looked_up
    cdef Lists _lists
    cdef int32_t[::1] _order

    cdef int run(self, SlotState state, Problem problem, Py_ssize_t edge,
                 const double* first, const double* second,
                 Search* search) except -1 nogil
    cdef void _search_slots(self, Search* search) noexcept nogil
    cdef int _search_half_slots(self, Search* search, Py_ssize_t side) except -1 nogil
    cdef int _search_rest(self, Search* search) except -1 nogil
    cdef void _sort(self, const double* values, Py_ssize_t n) noexcept nogil
