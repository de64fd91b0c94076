"""Sparse marginals and multipliers of a graph, by slots.

Each variable has one list of the states that ever mattered to it, its slots. All
vectors of the variable and of its factors have an entry for each slot and are zero
elsewhere, so that they are short and dense (Huang et al., 2017, Section 3.2). The
marginals y_f of a factor are zero except for active entries: a slot of each variable.
"""

import numpy as np

from libc.stdlib cimport calloc, free

from sksstruct.inference.map.core._problem cimport arity_of, variable_at
from sksstruct.utils._memory cimport resize

# Slots of a variable, and entries of a factor, that there is room for at first: most
# variables and factors never need more.
cdef Py_ssize_t FIRST_CAPACITY = 4


cdef class SlotState:
    """Storage of x_i, y_f and mu_if; parameters are those of `MAPGDMMState`."""

    def __cinit__(self, Problem problem, lists, double rho, double eta=1.0):
        cdef Py_ssize_t variable, factor, n = problem.n_variables
        cdef Py_ssize_t m = problem.n_factors
        self.problem, self.rho = problem, rho
        # for __dealloc__, when the problem may be gone
        self._n_variables, self._n_factors = n, m
        self._n_ends = problem.scope_first[m]
        self._slot = np.full(problem.first[n], -1, dtype=np.int32)
        self._by_score = np.empty(problem.first[n], dtype=np.int32)
        unary = problem.arrays.unary
        # searches (7) go down this order, which does not change
        order = np.asarray(self._by_score)
        for variable in range(n):
            part = slice(problem.first[variable], problem.first[variable + 1])
            order[part] = np.argsort(-unary[part], kind="stable")
        self._next, self._n_slots, self._capacity = (
            np.zeros(n, dtype=np.int32) for _ in range(3))
        # zeroed: an array that is not there yet is NULL, which realloc and free take
        self._state = <int32_t**>calloc(max(1, n), sizeof(int32_t*))
        self._x = <double**>calloc(max(1, n), sizeof(double*))
        self._ends = <End*>calloc(max(1, self._n_ends), sizeof(End))
        self._active = <Active*>calloc(max(1, m), sizeof(Active))
        if not (self._state and self._x and self._ends and self._active):
            raise MemoryError
        arity = 2
        for factor in range(m):
            self._active[factor].arity = arity_of(problem, factor)
            arity = max(arity, self._active[factor].arity)
        self._gradient = np.zeros((arity, 0))
        # more than most sweeps need, so that growing stays rare
        self._resize_scratch(64)
        # every variable starts in the state with its largest score
        for variable in range(n):
            self.add_slot(problem, variable, self._by_score[problem.first[variable]])
            self._x[variable][0] = 1.0

    def __dealloc__(self):
        cdef Py_ssize_t k
        # arrays of pointers may be missing where memory ran out half way
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
        free(self._state)
        free(self._x)
        free(self._ends)
        free(self._active)

    # ---- slots ----

    cdef Py_ssize_t add_slot(self, Problem problem, Py_ssize_t variable,
                             Py_ssize_t state) except -1 nogil:
        """Give a state a slot; the slot."""
        cdef Py_ssize_t i, slot = self._n_slots[variable]
        cdef End* end
        if slot == self._capacity[variable]:
            self._add_capacity(problem, variable)
        # what is outside of the slots is zero, so a new one changes nothing
        self._state[variable][slot] = state
        self._x[variable][slot] = 0.0
        for i in range(problem.in_first[variable], problem.in_first[variable + 1]):
            end = &self._ends[problem.in_place[i]]
            end.mu[slot] = end.marginal[slot] = 0.0
        # last, as a slot that is counted has to be there
        self._slot[problem.first[variable] + state] = slot
        self._n_slots[variable] = slot + 1
        return slot

    cdef int _add_capacity(self, Problem problem,
                           Py_ssize_t variable) except -1 nogil:
        """Make room for twice as many slots in all vectors of a variable."""
        cdef Py_ssize_t i, capacity = max(2 * self._capacity[variable], FIRST_CAPACITY)
        cdef End* end
        resize(<void**>&self._state[variable], capacity * sizeof(int32_t))
        resize(<void**>&self._x[variable], capacity * sizeof(double))
        for i in range(problem.in_first[variable], problem.in_first[variable + 1]):
            end = &self._ends[problem.in_place[i]]
            resize(<void**>&end.mu, capacity * sizeof(double))
            resize(<void**>&end.marginal, capacity * sizeof(double))
        self._cover(capacity)
        # only now is there room in all of them, should any have failed
        self._capacity[variable] = capacity
        return 0

    cdef int add_entry(self, Active* active, const int32_t* slots,
                       double score) except -1 nogil:
        """Make an entry for some slots active, with a value of zero."""
        cdef Py_ssize_t i, capacity, k = active.count, arity = active.arity
        if k == active.capacity:
            capacity = 2 * k if k else FIRST_CAPACITY
            resize(<void**>&active.slot, capacity * arity * sizeof(int32_t))
            resize(<void**>&active.score, capacity * sizeof(double))
            resize(<void**>&active.value, capacity * sizeof(double))
            self._cover(capacity)
            active.capacity = capacity
        for i in range(arity):
            active.slot[k * arity + i] = slots[i]
        active.score[k], active.value[k] = score, 0.0
        active.count += 1
        return 0

    # ---- scratch ----

    cdef int _cover(self, Py_ssize_t size) except -1 nogil:
        """Ensure that scratch has room for so many slots or entries."""
        # with a margin, since every variable and factor grows by itself
        if size > self._gradient.shape[1]:
            with gil:
                self._resize_scratch(2 * size)
        return 0

    cdef int _resize_scratch(self, Py_ssize_t size) except -1:
        """Scratch of a larger size; gradients stay, as a search may be under way."""
        # the other two hold nothing from one step to the next
        old = np.asarray(self._gradient)
        gradient = np.zeros((len(old), size))
        gradient[:, :old.shape[1]] = old
        self._work, self._sorted = np.zeros(size), np.zeros(size)
        # last: its size is the size of all
        self._gradient = gradient
        return 0

    # ---- what users see ----

    def labeling(self):
        """Return the most probable state of each variable.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), int32
            States. Among equally probable states, the one with the largest score.
        """
        cdef Py_ssize_t variable, k, best
        cdef int32_t[::1] out = np.empty(self._n_variables, dtype=np.int32)
        for variable in range(self._n_variables):
            # with > the first slot, of the state with the largest score, wins ties
            best = 0
            for k in range(1, self._n_slots[variable]):
                if self._x[variable][k] > self._x[variable][best]:
                    best = k
            out[variable] = self._state[variable][best]
        return np.asarray(out)

    def flat_marginals(self):
        """Return the fractional solution.

        Returns
        -------
        marginals : ndarray of shape (n_states.sum(),)
            The x_i, one after the other.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t variable, k
        cdef double[::1] out = np.zeros(problem.first[self._n_variables])
        for variable in range(self._n_variables):
            # zero wherever a state has no slot
            for k in range(self._n_slots[variable]):
                out[problem.first[variable] + self._state[variable][k]] = (
                    self._x[variable][k])
        return np.asarray(out)

    def value(self):
        """Return the objective of the relaxation at the marginals, feasible or not.

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

    def multipliers(self, Py_ssize_t factor):
        """Return the multipliers of a factor.

        Parameters
        ----------
        factor : int
            The factor; edges come before larger factors.

        Returns
        -------
        mu : tuple of ndarrays of shape (n_states[i],)
            Multipliers of its ends.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t i, variable, k
        # written out, for tests: kernels never have them so
        out = []
        for i in range(arity_of(problem, factor)):
            variable = variable_at(problem, factor, i)
            out.append(np.zeros(problem.states[variable]))
            for k in range(self._n_slots[variable]):
                out[i][self._state[variable][k]] = (
                    self._ends[problem.scope_first[factor] + i].mu[k])
        return tuple(out)

    @property
    def n_slots(self):
        return int(np.sum(self._n_slots))
