cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.core._tables cimport TableSpec
from sksstruct.inference.map.gdmm._slots cimport SlotState


@cython.final
cdef class HigherSearch:
    cdef readonly Py_ssize_t looked_up
    # namespace of the arrays that the pointers below point into
    cdef object _owned
    # of each table: offset of its list in `_order`, and number of its entries; a list
    # has the indices of all entries in descending order of score
    cdef const Py_ssize_t* _begin
    cdef const Py_ssize_t* _size
    cdef const int32_t* _order
    # of each end of the current factor: gradient of each slot, slot of each state,
    # state in the current entry, number of states, and stride of the states in the
    # index of an entry
    cdef const double** _gradient
    cdef const int32_t** _slot
    cdef Py_ssize_t* _state
    cdef Py_ssize_t* _n_states
    cdef Py_ssize_t* _stride

    cdef double run(self, SlotState state, Problem problem, Py_ssize_t factor,
                    bint multipliers, double** gradient, Py_ssize_t* states,
                    double* score) except? -1 nogil
    cdef double n_entries(self, Problem problem, Py_ssize_t factor) noexcept nogil
    cdef double _run_table(self, SlotState state, Problem problem, Py_ssize_t factor,
                           double slack, Py_ssize_t* states,
                           double* score) noexcept nogil
    cdef inline double _descent(self, double score, Py_ssize_t arity,
                                const Py_ssize_t* states) noexcept nogil
    cdef double _run_condition(self, const TableSpec* table, Py_ssize_t arity,
                               Py_ssize_t* states) noexcept nogil
    cdef inline double _turn_on(self, Py_ssize_t literal, const TableSpec* table,
                                Py_ssize_t* states) noexcept nogil
    cdef inline double _gain(self, Py_ssize_t literal,
                             const TableSpec* table) noexcept nogil
