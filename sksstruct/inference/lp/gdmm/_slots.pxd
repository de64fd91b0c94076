from libc.stdint cimport int32_t

from sksstruct.inference.lp.core._problem cimport MAPProblem


# One end i of an edge f, by slot: the multipliers mu_if and the marginals M_if y_f.
cdef struct End:
    double* mu
    double* marginal


# The active entries of y_f: the slots of their states at the two ends, and values.
cdef struct Active:
    Py_ssize_t count, capacity
    int32_t* slot[2]
    double* value


cdef class SlotState:
    cdef MAPProblem problem
    cdef public double rho
    cdef readonly double primal_residual, dual_residual
    cdef readonly Py_ssize_t n_active
    # of each state: its slot, or -1; of each variable: its states by score, and how
    # many of these have slots
    cdef int32_t[::1] _slot, _by_score, _next
    # of each variable: the states of its slots, and its marginals x_i
    cdef int32_t[::1] _n_slots, _capacity
    cdef int32_t** _state
    cdef double** _x
    cdef End* _ends
    cdef Active* _active
    cdef Py_ssize_t _n_variables, _n_edges
    # scratch: by slot of both ends of an edge, and by slot or active entry
    cdef double[:, ::1] _gradient
    cdef double[::1] _work, _sorted

    cdef Py_ssize_t add_slot(self, MAPProblem problem, Py_ssize_t variable,
                             Py_ssize_t state) except -1 nogil
    cdef int add_entry(self, Active* active, Py_ssize_t first,
                       Py_ssize_t second) except -1 nogil
    cdef int _add_capacity(self, MAPProblem problem,
                           Py_ssize_t variable) except -1 nogil
    cdef int _cover(self, Py_ssize_t size) except -1 nogil
    cdef int _resize_scratch(self, Py_ssize_t size) except -1


cdef inline Py_ssize_t find_entry(const Active* active, Py_ssize_t first,
                                  Py_ssize_t second) noexcept nogil:
    """Index of the entry for two slots; -1: it is not active."""
    cdef Py_ssize_t k
    # entries are few: looking at all of them is faster than any index
    for k in range(active.count):
        if active.slot[0][k] == first and active.slot[1][k] == second:
            return k
    return -1


cdef inline End* end_of(SlotState state, MAPProblem problem, Py_ssize_t edge,
                        Py_ssize_t variable) noexcept nogil:
    """The end of an edge that is at a variable."""
    return &state._ends[2 * edge + (problem.ends[edge, 1] == variable)]
