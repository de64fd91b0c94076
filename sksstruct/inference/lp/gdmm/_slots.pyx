"""Sparse marginals and multipliers of a graph of edges, by slots.

Each variable has one list of the states that ever mattered to it, its slots. All
vectors of the variable and of its edges have an entry for each slot and are zero
elsewhere, so that they are short and dense (Huang et al., 2017, Section 3.2). The
marginals y_f of an edge are zero except for active entries, which are pairs of slots.
"""

import numpy as np

from libc.stdlib cimport calloc, free

from sksstruct.utils._memory cimport resize

# Slots of a variable, and entries of an edge, that there is room for at first: most
# variables and edges never need more.
cdef Py_ssize_t FIRST_CAPACITY = 4


cdef class SlotState:
    """Storage of x_i, y_f and mu_if; parameters are those of `MAPGDMMState`."""

    def __cinit__(self, MAPProblem problem, lists, double rho):
        cdef Py_ssize_t variable, n = problem.n_variables, m = problem.n_edges
        self.problem, self.rho = problem, rho
        # for __dealloc__, when the problem may be gone
        self._n_variables, self._n_edges = n, m
        self._slot = np.full(problem.first[n], -1, dtype=np.int32)
        self._by_score = np.empty(problem.first[n], dtype=np.int32)
        unary = np.asarray(problem.unary)
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
        self._ends = <End*>calloc(max(1, 2 * m), sizeof(End))
        self._active = <Active*>calloc(max(1, m), sizeof(Active))
        if not (self._state and self._x and self._ends and self._active):
            raise MemoryError
        self._gradient = np.zeros((2, 0))
        # more than most sweeps need, so that growing stays rare
        self._resize_scratch(64)
        # every variable starts in the state with its largest score
        for variable in range(n):
            self.add_slot(problem, variable, self._by_score[problem.first[variable]])
            self._x[variable][0] = 1.0

    def __dealloc__(self):
        cdef Py_ssize_t k, side
        # arrays of pointers may be missing where memory ran out half way
        for k in range(self._n_variables):
            if self._state:
                free(self._state[k])
            if self._x:
                free(self._x[k])
        for k in range(2 * self._n_edges if self._ends else 0):
            free(self._ends[k].mu)
            free(self._ends[k].marginal)
        for k in range(self._n_edges if self._active else 0):
            for side in range(2):
                free(self._active[k].slot[side])
            free(self._active[k].value)
        free(self._state)
        free(self._x)
        free(self._ends)
        free(self._active)

    # ---- slots ----

    cdef Py_ssize_t add_slot(self, MAPProblem problem, Py_ssize_t variable,
                             Py_ssize_t state) except -1 nogil:
        """Give a state a slot; the slot."""
        cdef Py_ssize_t i, slot = self._n_slots[variable]
        cdef End* end
        if slot == self._capacity[variable]:
            self._add_capacity(problem, variable)
        # what is outside of the slots is zero, so a new one changes nothing
        self._state[variable][slot] = state
        self._x[variable][slot] = 0.0
        for i in range(problem.adj_first[variable], problem.adj_first[variable + 1]):
            end = end_of(self, problem, problem.adj_edge[i], variable)
            end.mu[slot] = end.marginal[slot] = 0.0
        # last, as a slot that is counted has to be there
        self._slot[problem.first[variable] + state] = slot
        self._n_slots[variable] = slot + 1
        return slot

    cdef int _add_capacity(self, MAPProblem problem,
                           Py_ssize_t variable) except -1 nogil:
        """Make room for twice as many slots in all vectors of a variable."""
        cdef Py_ssize_t i, capacity = max(2 * self._capacity[variable], FIRST_CAPACITY)
        cdef End* end
        resize(<void**>&self._state[variable], capacity * sizeof(int32_t))
        resize(<void**>&self._x[variable], capacity * sizeof(double))
        for i in range(problem.adj_first[variable], problem.adj_first[variable + 1]):
            end = end_of(self, problem, problem.adj_edge[i], variable)
            resize(<void**>&end.mu, capacity * sizeof(double))
            resize(<void**>&end.marginal, capacity * sizeof(double))
        self._cover(capacity)
        # only now is there room in all of them, should any have failed
        self._capacity[variable] = capacity
        return 0

    cdef int add_entry(self, Active* active, Py_ssize_t first,
                       Py_ssize_t second) except -1 nogil:
        """Make a pair of slots an active entry, of zero."""
        cdef Py_ssize_t side, capacity, k = active.count
        if k == active.capacity:
            capacity = 2 * k if k else FIRST_CAPACITY
            for side in range(2):
                resize(<void**>&active.slot[side], capacity * sizeof(int32_t))
            resize(<void**>&active.value, capacity * sizeof(double))
            self._cover(capacity)
            active.capacity = capacity
        active.slot[0][k], active.slot[1][k] = first, second
        active.value[k] = 0.0
        active.count += 1
        return 0

    # ---- scratch ----

    cdef int _cover(self, Py_ssize_t size) except -1 nogil:
        """See to it that scratch has room for so many slots or entries."""
        # with a margin, since every variable and edge grows by itself
        if size > self._gradient.shape[1]:
            with gil:
                self._resize_scratch(2 * size)
        return 0

    cdef int _resize_scratch(self, Py_ssize_t size) except -1:
        """Scratch of a larger size; gradients stay, as a search may be under way."""
        # the other two hold nothing from one step to the next
        old = np.asarray(self._gradient)
        gradient = np.zeros((2, size))
        gradient[:, :old.shape[1]] = old
        self._work, self._sorted = np.zeros(size), np.zeros(size)
        # last: its size is the size of all
        self._gradient = gradient
        return 0

    # ---- what users see ----

    def labeling(self):
        """The most probable state of each variable.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), int32
            States; of equal ones that with the largest score.
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
        """The fractional solution.

        Returns
        -------
        marginals : ndarray of shape (n_states.sum(),)
            The x_i, one after the other.
        """
        cdef MAPProblem problem = self.problem
        cdef Py_ssize_t variable, k
        cdef double[::1] out = np.zeros(problem.first[self._n_variables])
        for variable in range(self._n_variables):
            # zero wherever a state has no slot
            for k in range(self._n_slots[variable]):
                out[problem.first[variable] + self._state[variable][k]] = (
                    self._x[variable][k])
        return np.asarray(out)

    def value(self):
        """Value of the relaxation at the marginals, as far as they are feasible.

        Returns
        -------
        value : float
            sum_i theta_i' x_i + sum_f theta_f' y_f.
        """
        cdef MAPProblem problem = self.problem
        cdef Py_ssize_t variable, edge, k
        cdef Active* active
        # the states of the slots of both ends of an edge
        cdef const int32_t* rows
        cdef const int32_t* cols
        cdef double total = 0.0
        for variable in range(self._n_variables):
            for k in range(self._n_slots[variable]):
                total += self._x[variable][k] * problem.unary[
                    problem.first[variable] + self._state[variable][k]]
        for edge in range(self._n_edges):
            active = &self._active[edge]
            rows = self._state[problem.ends[edge, 0]]
            cols = self._state[problem.ends[edge, 1]]
            for k in range(active.count):
                total += active.value[k] * problem.entry(
                    edge, rows[active.slot[0][k]], cols[active.slot[1][k]])
        return total

    def multipliers(self, Py_ssize_t edge):
        """The multipliers of an edge.

        Parameters
        ----------
        edge : int
            The edge (u, v).

        Returns
        -------
        mu_u, mu_v : ndarrays of shape (n_states[u],) and (n_states[v],)
            Those of its two ends.
        """
        cdef MAPProblem problem = self.problem
        cdef Py_ssize_t side, variable, k
        # written out, for tests: kernels never have them so
        out = []
        for side in range(2):
            variable = problem.ends[edge, side]
            out.append(np.zeros(problem.states[variable]))
            for k in range(self._n_slots[variable]):
                out[side][self._state[variable][k]] = self._ends[2 * edge + side].mu[k]
        return tuple(out)

    @property
    def n_slots(self):
        return int(np.sum(self._n_slots))
