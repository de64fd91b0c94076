from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport Problem


# One end of a factor f, the variable i, by slot: multipliers mu_if and the marginals
# M_if y_f.
cdef struct End:
    double* mu
    double* marginal


# The active entries of y_f: the slots of their states at the ends of f, one entry after
# the other, and their scores theta_f and values.
cdef struct Active:
    Py_ssize_t count, capacity, arity
    int32_t* slot
    double* score
    double* value


cdef class SlotState:
    cdef readonly Problem problem
    # what has all the arrays
    cdef object _owned
    cdef public double rho
    cdef readonly double primal_residual, dual_residual
    cdef readonly Py_ssize_t n_active
    # of each state: its slot, or -1; of each variable: its states by score, and how
    # many of these have slots
    cdef int32_t* _slot
    cdef const int32_t* _by_score
    cdef int32_t* _next
    # of each variable: the states of its slots, and its marginals x_i
    cdef int32_t* _n_slots
    cdef int32_t* _capacity
    cdef int32_t** _state
    cdef double** _x
    # an end for each place in a scope
    cdef End* _ends
    cdef Active* _active
    cdef Py_ssize_t _n_variables, _n_factors, _n_ends
    # scratch and its room: by slot of the ends of a factor, of which the largest has
    # _arity, and by slot or active entry
    cdef Py_ssize_t _arity, _room
    cdef double** _gradient
    cdef double* _work
    cdef double* _sorted

    cdef Py_ssize_t add_slot(self, Problem problem, Py_ssize_t variable,
                             Py_ssize_t state) except -1 nogil
    cdef int add_entry(self, Active* active, const int32_t* slots,
                       double score) except -1 nogil
    cdef int _add_capacity(self, Problem problem,
                           Py_ssize_t variable) except -1 nogil
    cdef int _cover(self, Py_ssize_t size) except -1 nogil


cdef inline Py_ssize_t find_entry(const Active* active,
                                  const int32_t* slots) noexcept nogil:
    """Index of the entry for some slots; -1: it is not active."""
    cdef Py_ssize_t k, i
    # entries are few: looking at all of them is faster than any index
    for k in range(active.count):
        i = 0
        while i < active.arity and active.slot[k * active.arity + i] == slots[i]:
            i += 1
        if i == active.arity:
            return k
    return -1
