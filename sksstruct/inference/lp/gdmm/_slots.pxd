from libc.stdint cimport int32_t

from sksstruct.inference.lp.core._problem cimport MAPProblem
from sksstruct.inference.lp.gdmm._toplists cimport Lists


# One end of an edge: multipliers and marginals of y_f by slot.
cdef struct End:
    double* mu
    double* my


# Active entries of y_f.
cdef struct Active:
    Py_ssize_t count, room
    int32_t* u          # slots of the states of the first variable
    int32_t* v
    double* y


cdef class SlotState:
    cdef MAPProblem problem
    cdef Lists lists
    cdef public double rho
    cdef readonly double primal_residual, dual_residual
    cdef readonly Py_ssize_t looked_up, n_active
    cdef int32_t[::1] _slot, _by_score, _next, _order
    cdef int32_t[::1] _n_slots, _room
    cdef int32_t** _state       # of each variable: the states of its slots
    cdef double** _x
    cdef End* _ends
    cdef Active* _active
    cdef double[::1] _du, _dv, _work, _sorted
    cdef Py_ssize_t _n, _m, _capacity

    cdef int slot_of(self, MAPProblem p, Py_ssize_t v,
                     Py_ssize_t state) except? -2 nogil
