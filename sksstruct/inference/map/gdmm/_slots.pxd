from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport Problem


# Vectors of one end of a factor f, at variable i, by slot: multipliers mu_if and
# marginals M_if y_f.
cdef struct End:
    double* mu
    double* marginal


# Active entries of y_f: slots of their states at the ends of f, entry by entry; scores
# theta_f; and values.
cdef struct Active:
    Py_ssize_t count, capacity, arity
    int32_t* slot
    double* score
    double* value


cdef class SlotState:
    cdef readonly Problem problem
    # namespace that owns all arrays
    cdef object _owned
    cdef public double rho
    cdef readonly double primal_residual, dual_residual
    cdef readonly Py_ssize_t n_active
    # slot of each state, or -1; states of each variable by score; and number of leading
    # states in this order that are known to have slots
    cdef int32_t* _slot
    cdef const int32_t* _by_score
    cdef int32_t* _next_rank
    # of each variable: number of slots, states of the slots, and marginals x_i
    cdef int32_t* _n_slots
    cdef int32_t* _capacity
    cdef int32_t** _state
    cdef double** _x
    # one end for each position in the scopes
    cdef End* _ends
    cdef Active* _active
    cdef Py_ssize_t _n_variables, _n_factors, _n_ends
    # scratch of _scratch_size entries: gradients of each end of a factor, by slot
    # (_arity is the largest number of ends); two arrays by slot or by active entry
    cdef Py_ssize_t _arity, _scratch_size
    cdef double** _gradient
    cdef double* _work
    cdef double* _sorted

    cdef Py_ssize_t add_slot(self, Problem problem, Py_ssize_t variable,
                             Py_ssize_t state) except -1 nogil
    cdef int add_entry(self, Active* active, const int32_t* slots,
                       double score) except -1 nogil
    cdef int _add_capacity(self, Problem problem,
                           Py_ssize_t variable) except -1 nogil
    cdef int _reserve_scratch(self, Py_ssize_t size) except -1 nogil


cdef inline Py_ssize_t find_entry(const Active* active,
                                  const int32_t* slots) noexcept nogil:
    """Return the index of the active entry with the given slots, or -1."""
    cdef Py_ssize_t k, i
    # active entries are few: a linear search is faster than an index
    for k in range(active.count):
        i = 0
        while i < active.arity and active.slot[k * active.arity + i] == slots[i]:
            i += 1
        if i == active.arity:
            return k
    return -1
