cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.core._tables cimport TableSpec
from sksstruct.inference.map.gdmm._slots cimport SlotState


@cython.final
cdef class HigherSearch:
    cdef readonly Py_ssize_t looked_up
    # of each table: the first of its entries in _order, by score, or -1; their number
    cdef Py_ssize_t[::1] _begin, _size
    cdef int32_t[::1] _order
    # of the factor at hand: the gradients of its ends by slot, the slot of each state,
    # states and strides
    cdef const double** _gradient
    cdef const int32_t** _slot
    cdef Py_ssize_t[::1] _state, _n_states, _stride

    cdef double run(self, SlotState state, Problem problem, Py_ssize_t factor,
                    bint multipliers, const double* gradient, Py_ssize_t width,
                    Py_ssize_t* found, double* score) except? -1 nogil
    cdef double n_entries(self, Problem problem, Py_ssize_t factor) noexcept nogil
    cdef double _run_table(self, SlotState state, Problem problem, Py_ssize_t factor,
                           double slack, Py_ssize_t* found,
                           double* score) noexcept nogil
    cdef inline double _descent(self, double score, Py_ssize_t arity,
                                const Py_ssize_t* states) noexcept nogil
    cdef double _run_condition(self, const TableSpec* table, Py_ssize_t arity,
                               Py_ssize_t* found) noexcept nogil
    cdef inline double _turn_on(self, Py_ssize_t literal, const TableSpec* table,
                                Py_ssize_t* found) noexcept nogil
    cdef inline double _gain(self, Py_ssize_t literal,
                             const TableSpec* table) noexcept nogil
