cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.core._tables cimport TableSpec
from sksstruct.inference.map.gdmm._slots cimport Active, SlotState
from sksstruct.inference.map.gdmm._toplists cimport Lists


# Search for the best entry in the table of an edge: data of the edge, where index [0]
# is for its first end and [1] for its second end, and the best entry so far.
cdef struct Search:
    Py_ssize_t table_index
    const TableSpec* table
    double weight
    # sign of `weight`: with -1, the least entries of a table are the best
    double sign
    # whether the largest entry of a row or a column is known and, times the weight, is
    # an upper bound on the scores of this row or column
    bint bounded
    Py_ssize_t n_states[2]
    Py_ssize_t n_slots[2]
    # state of each slot; slot of each state, -1 for states without a slot
    const int32_t* state[2]
    const int32_t* slot[2]
    # gradient d_if of each slot; states without a slot have gradient zero
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
