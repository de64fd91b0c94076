"""Sparse marginals and multipliers of a graph of edges, by slots.

Each variable has one list of the states that ever mattered to it, its slots. All
vectors of the variable and of its edges have an entry for each slot and are zero
elsewhere, so that they are short and dense (Huang et al., 2017, Section 3.2).
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free, realloc

from sksstruct.inference.lp.core._problem cimport MAPProblem
from sksstruct.inference.lp.gdmm._toplists cimport Lists


cdef class SlotState:
    """Storage of x_i, y_f and mu_if; parameters are those of `MAPGDMMState`."""

    def __cinit__(self, MAPProblem problem, Lists lists, double rho):
        cdef Py_ssize_t v, n = problem.n, m = problem.m
        self.problem, self.lists, self.rho = problem, lists, rho
        self._n, self._m = n, m
        self._slot = np.full(problem.first[n], -1, dtype=np.int32)
        self._by_score = np.empty(problem.first[n], dtype=np.int32)
        unary = np.asarray(problem.unary)
        order = np.asarray(self._by_score)
        for v in range(n):
            part = slice(problem.first[v], problem.first[v + 1])
            order[part] = np.argsort(-unary[part], kind="stable")
        self._next = np.zeros(n, dtype=np.int32)
        self._order = np.empty(problem.max_states, dtype=np.int32)
        self._n_slots = np.zeros(n, dtype=np.int32)
        self._room = np.zeros(n, dtype=np.int32)
        self._state = <int32_t**>calloc(max(1, n), sizeof(int32_t*))
        self._x = <double**>calloc(max(1, n), sizeof(double*))
        self._ends = <End*>calloc(max(1, 2 * m), sizeof(End))
        self._active = <Active*>calloc(max(1, m), sizeof(Active))
        if not (self._state and self._x and self._ends and self._active):
            raise MemoryError
        self._resize(64)
        for v in range(n):
            if self.slot_of(problem, v, self._by_score[problem.first[v]]) < 0:
                raise MemoryError
            self._x[v][0] = 1.0

    def __dealloc__(self):
        cdef Py_ssize_t k
        for k in range(self._n):
            if self._state:
                free(self._state[k])
            if self._x:
                free(self._x[k])
        for k in range(2 * self._m if self._ends else 0):
            free(self._ends[k].mu)
            free(self._ends[k].my)
        for k in range(self._m if self._active else 0):
            free(self._active[k].u)
            free(self._active[k].v)
            free(self._active[k].y)
        free(self._state)
        free(self._x)
        free(self._ends)
        free(self._active)

    def _resize(self, Py_ssize_t capacity):
        """Scratch for so many slots or entries; what it holds stays."""
        grown = np.zeros((4, capacity))
        if self._capacity:
            for k, old in enumerate((self._du, self._dv, self._work, self._sorted)):
                grown[k, :self._capacity] = old
        self._du, self._dv, self._work, self._sorted = grown
        self._capacity = capacity

    cdef int slot_of(self, MAPProblem p, Py_ssize_t v,
                     Py_ssize_t state) except? -2 nogil:
        """Slot of a state, a new one where it has none; -1: no memory."""
        cdef Py_ssize_t at = p.first[v] + state, s, e, room, k
        cdef End* end
        cdef void* grown
        if self._slot[at] >= 0:
            return self._slot[at]
        k = self._n_slots[v]
        if k == self._room[v]:
            room = 4 if k == 0 else 2 * k
            grown = realloc(self._state[v], room * sizeof(int32_t))
            if not grown:
                return -1
            self._state[v] = <int32_t*>grown
            grown = realloc(self._x[v], room * sizeof(double))
            if not grown:
                return -1
            self._x[v] = <double*>grown
            for s in range(p.adj_first[v], p.adj_first[v + 1]):
                e = p.adj_edge[s]
                end = &self._ends[2 * e + (p.ends[e, 1] == v)]
                grown = realloc(end.mu, room * sizeof(double))
                if not grown:
                    return -1
                end.mu = <double*>grown
                grown = realloc(end.my, room * sizeof(double))
                if not grown:
                    return -1
                end.my = <double*>grown
            self._room[v] = room
            if room > self._capacity:
                with gil:
                    self._resize(2 * room)
        self._state[v][k] = state
        self._x[v][k] = 0.0
        for s in range(p.adj_first[v], p.adj_first[v + 1]):
            e = p.adj_edge[s]
            end = &self._ends[2 * e + (p.ends[e, 1] == v)]
            end.mu[k] = 0.0
            end.my[k] = 0.0
        self._slot[at] = k
        self._n_slots[v] = k + 1
        return k

    def labeling(self):
        """The most probable state of each variable.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), int32
            States; of equal ones that with the largest score.
        """
        cdef Py_ssize_t v, k, best
        cdef int32_t[::1] out = np.empty(self._n, dtype=np.int32)
        for v in range(self._n):
            best = 0
            for k in range(1, self._n_slots[v]):
                if self._x[v][k] > self._x[v][best]:
                    best = k
            out[v] = self._state[v][best]
        return np.asarray(out)

    def flat_marginals(self):
        """The fractional solution.

        Returns
        -------
        marginals : ndarray of shape (n_states.sum(),)
            The x_i, one after the other.
        """
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t v, k
        flat = np.zeros(p.first[self._n])
        cdef double[::1] out = flat
        for v in range(self._n):
            for k in range(self._n_slots[v]):
                out[p.first[v] + self._state[v][k]] = self._x[v][k]
        return flat

    def value(self):
        """Value of the relaxation at the marginals, as far as they are feasible.

        Returns
        -------
        value : float
            sum_i theta_i' x_i + sum_f theta_f' y_f.
        """
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t v, e, k
        cdef Active* act
        cdef double total = 0.0
        for v in range(self._n):
            for k in range(self._n_slots[v]):
                total += self._x[v][k] * p.unary[p.first[v] + self._state[v][k]]
        for e in range(self._m):
            act = &self._active[e]
            for k in range(act.count):
                total += act.y[k] * p.entry(
                    e, self._state[p.ends[e, 0]][act.u[k]],
                    self._state[p.ends[e, 1]][act.v[k]])
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
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t side, v, k
        out = []
        for side in range(2):
            v = p.ends[edge, side]
            out.append(np.zeros(p.states[v]))
            for k in range(self._n_slots[v]):
                out[side][self._state[v][k]] = self._ends[2 * edge + side].mu[k]
        return tuple(out)

    @property
    def n_slots(self):
        return int(np.sum(self._n_slots))
