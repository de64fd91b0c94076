from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport Problem


# Vectors of one end of a factor f, at variable i, by slot: multipliers mu_if and
# marginals M_if y_f.
cdef struct End:
    double* mu
    double* marginal


# Active entries of y_f: the slots of each entry's states at the `arity` ends of f, its
# score theta_f, and its value in y_f.
cdef struct Active:
    Py_ssize_t count, capacity, arity
    int32_t* slot
    double* score
    double* value


cdef class SlotState:
    cdef readonly Problem problem
    # namespace of the NumPy arrays that some of the pointers below point into
    cdef object _owned
    cdef public double rho
    cdef readonly double primal_residual, dual_residual
    cdef readonly Py_ssize_t n_active
    # slot of each state, -1 without a slot; states of each variable in descending order
    # of score; and number of first states in this order that are known to have slots
    cdef int32_t* _slot
    cdef const int32_t* _by_score
    cdef int32_t* _next_rank
    # of each variable: number of slots, number of slots for which memory is reserved,
    # state of each slot, and marginal x_i of each slot
    cdef int32_t* _n_slots
    cdef int32_t* _capacity
    cdef int32_t** _state
    cdef double** _x
    # one `End` for each variable in the scope of each factor
    cdef End* _ends
    # one `Active` for each factor
    cdef Active* _active
    cdef Py_ssize_t _n_variables, _n_factors, _n_ends
    # workspace arrays of _scratch_size entries each: `_gradient` has the gradients of
    # each end of a factor by slot (_arity is the largest number of ends); `_work` and
    # `_sorted` are by slot or by active entry
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
