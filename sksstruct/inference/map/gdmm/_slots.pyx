"""Sparse marginals and multipliers of a graph, by slots.

Each variable has a list of slots: states that have become relevant. All vectors of the
variable and of its factors have an entry per slot and are zero elsewhere, so that the
vectors are short and dense (Huang et al., 2017, Section 3.2). The marginals y_f of a
factor are zero except for active entries; an active entry is a combination of slots of
the factor's variables.
"""

from libc.stdlib cimport calloc, free

from sksstruct.inference.map.core._problem cimport arity_of
from sksstruct.utils._memory cimport resize
from sksstruct.utils._pointers cimport const_int32s, doubles, int32s

# Initial capacity of slots per variable and of active entries per factor: most
# variables and factors never need more.
cdef Py_ssize_t FIRST_CAPACITY = 4


cdef class SlotState:
    """Storage of x_i, y_f and mu_if, with the arrays of `MAPGDMMState`."""

    def __init__(self, Problem problem, double rho, arrays):
        cdef Py_ssize_t variable, factor, n = problem.n_variables
        cdef Py_ssize_t m = problem.n_factors
        self.problem, self.rho, self._owned = problem, rho, arrays
        # lengths for __dealloc__, which may run after the problem is gone
        self._n_variables, self._n_factors = n, m
        self._n_ends = problem.scope_first[m]
        self._slot, self._by_score = int32s(arrays.slot), const_int32s(arrays.by_score)
        self._next_rank, self._n_slots = int32s(arrays.next), int32s(arrays.n_slots)
        self._capacity = int32s(arrays.capacity)
        # zeroed: realloc and free accept NULL for arrays that have not been allocated
        self._state = <int32_t**>calloc(max(1, n), sizeof(int32_t*))
        self._x = <double**>calloc(max(1, n), sizeof(double*))
        self._ends = <End*>calloc(max(1, self._n_ends), sizeof(End))
        self._active = <Active*>calloc(max(1, m), sizeof(Active))
        self._arity = len(arrays.found)
        self._gradient = <double**>calloc(self._arity, sizeof(double*))
        if not (self._state and self._x and self._ends and self._active
                and self._gradient):
            raise MemoryError
        for factor in range(m):
            self._active[factor].arity = arity_of(problem, factor)
        # more scratch than most sweeps need, so that reallocations are rare
        self._reserve_scratch(32)
        # each variable starts in the state with its largest score
        for variable in range(n):
            self.add_slot(problem, variable, self._by_score[problem.first[variable]])
            self._x[variable][0] = 1.0

    def __dealloc__(self):
        cdef Py_ssize_t k
        # arrays of pointers may be missing if an allocation failed
        for k in range(self._n_variables):
            if self._state:
                free(self._state[k])
            if self._x:
                free(self._x[k])
        for k in range(self._n_ends if self._ends else 0):
            free(self._ends[k].mu)
            free(self._ends[k].marginal)
        for k in range(self._n_factors if self._active else 0):
            free(self._active[k].slot)
            free(self._active[k].score)
            free(self._active[k].value)
        for k in range(self._arity if self._gradient else 0):
            free(self._gradient[k])
        free(self._gradient)
        free(self._work)
        free(self._sorted)
        free(self._state)
        free(self._x)
        free(self._ends)
        free(self._active)

    # ---- slots ----

    cdef Py_ssize_t add_slot(self, Problem problem, Py_ssize_t variable,
                             Py_ssize_t state) except -1 nogil:
        """Add a slot for a state of a variable, and return the slot."""
        cdef Py_ssize_t i, slot = self._n_slots[variable]
        cdef End* end
        if slot == self._capacity[variable]:
            self._add_capacity(problem, variable)
        # vectors are zero outside of the slots: a new slot changes no value
        self._state[variable][slot] = state
        self._x[variable][slot] = 0.0
        for i in range(problem.in_first[variable], problem.in_first[variable + 1]):
            end = &self._ends[problem.in_place[i]]
            end.mu[slot] = end.marginal[slot] = 0.0
        # last: a failure above must not leave a slot without memory
        self._slot[problem.first[variable] + state] = slot
        self._n_slots[variable] = slot + 1
        return slot

    cdef int _add_capacity(self, Problem problem,
                           Py_ssize_t variable) except -1 nogil:
        """Double the capacity of all vectors of a variable."""
        cdef Py_ssize_t i, capacity = max(2 * self._capacity[variable], FIRST_CAPACITY)
        cdef End* end
        resize(<void**>&self._state[variable], capacity * sizeof(int32_t))
        resize(<void**>&self._x[variable], capacity * sizeof(double))
        for i in range(problem.in_first[variable], problem.in_first[variable + 1]):
            end = &self._ends[problem.in_place[i]]
            resize(<void**>&end.mu, capacity * sizeof(double))
            resize(<void**>&end.marginal, capacity * sizeof(double))
        self._reserve_scratch(capacity)
        # last: if any allocation failed, the old capacity remains valid
        self._capacity[variable] = capacity
        return 0

    cdef int add_entry(self, Active* active, const int32_t* slots,
                       double score) except -1 nogil:
        """Append an entry with value zero to the active entries of a factor."""
        cdef Py_ssize_t i, capacity, k = active.count, arity = active.arity
        if k == active.capacity:
            capacity = 2 * k if k else FIRST_CAPACITY
            resize(<void**>&active.slot, capacity * arity * sizeof(int32_t))
            resize(<void**>&active.score, capacity * sizeof(double))
            resize(<void**>&active.value, capacity * sizeof(double))
            self._reserve_scratch(capacity)
            active.capacity = capacity
        for i in range(arity):
            active.slot[k * arity + i] = slots[i]
        active.score[k], active.value[k] = score, 0.0
        active.count += 1
        return 0

    # ---- scratch ----

    cdef int _reserve_scratch(self, Py_ssize_t size) except -1 nogil:
        """Ensure that scratch arrays have at least `size` entries."""
        cdef Py_ssize_t i
        if size <= self._scratch_size:
            return 0
        # Twice the size, since slots and active entries are added one by one. Gradients
        # keep their contents, as a search may be using them.
        for i in range(self._arity):
            resize(<void**>&self._gradient[i], 2 * size * sizeof(double))
        resize(<void**>&self._work, 2 * size * sizeof(double))
        resize(<void**>&self._sorted, 2 * size * sizeof(double))
        # last: if any allocation failed, the old size remains valid
        self._scratch_size = 2 * size
        return 0

    # ---- access from Python ----

    def read_labeling(self, out):
        """Write the state with the largest marginal x_i of each variable to `out`."""
        cdef int32_t* labeling = int32s(out)
        cdef Py_ssize_t variable, k, best
        for variable in range(self._n_variables):
            # strict comparison: of tied slots the first one wins; slot 0 is the state
            # with the largest score
            best = 0
            for k in range(1, self._n_slots[variable]):
                if self._x[variable][k] > self._x[variable][best]:
                    best = k
            labeling[variable] = self._state[variable][best]

    def read_marginals(self, out):
        """Write the marginals x_i, variable by variable, into an array of zeros."""
        cdef double* marginals = doubles(out)
        cdef Problem problem = self.problem
        cdef Py_ssize_t variable, k
        for variable in range(self._n_variables):
            # states without a slot stay zero
            for k in range(self._n_slots[variable]):
                marginals[problem.first[variable] + self._state[variable][k]] = (
                    self._x[variable][k])

    def read_multipliers(self, Py_ssize_t place, out):
        """Write the multipliers of the end at `place` to an array of zeros."""
        cdef double* multipliers = doubles(out)
        cdef Py_ssize_t k, variable = self.problem.scope[place]
        for k in range(self._n_slots[variable]):
            multipliers[self._state[variable][k]] = self._ends[place].mu[k]

    def value(self):
        """Return the objective of the LP relaxation at the current marginals.

        The marginals x_i and y_f may be inconsistent before convergence.

        Returns
        -------
        value : float
            sum_i theta_i' x_i + sum_f theta_f' y_f.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t variable, factor, k
        cdef Active* active
        cdef double total = 0.0
        for variable in range(self._n_variables):
            for k in range(self._n_slots[variable]):
                total += self._x[variable][k] * problem.unary[
                    problem.first[variable] + self._state[variable][k]]
        for factor in range(self._n_factors):
            active = &self._active[factor]
            for k in range(active.count):
                total += active.value[k] * active.score[k]
        return total
