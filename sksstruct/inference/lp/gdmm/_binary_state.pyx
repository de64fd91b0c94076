"""Greedy direction method of multipliers for many binary factors: Algorithm 2.

X. Huang et al. (2017), Section 3.3. With binary variables the scores of an edge are c_f
y_f(1, 1) plus what its ends score by themselves, and the augmented Lagrangian is

    sum_i -c_i x_i + sum_f -c_f y_f(1, 1)
        + sum_(f,i) mu_if (y_if - x_i) + rho / 2 (y_if - x_i)^2

with x_i = x_i(1) and y_if = y_f(x_i = 1), under (12). Variables and edges are left out
while they are zero: those are consistent and have no multipliers. Every iteration lets
in the variables of steepest descent (10), all edges between active variables, and the
edges with the largest c_f > 0 (11), which come from a list that is sorted as deep as it
is read. The problem of one edge is solved exactly (Martins et al., AD3, JMLR 16, 2015,
Proposition 5.1 and its sequel, for c_f >= 0; else one variable is flipped).
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.inference.lp.core._problem cimport MAPProblem


cdef class MAPBinaryGDMMState:
    """State of Algorithm 2 on a graph of binary variables and edges.

    Parameters
    ----------
    problem : Problem
        The graph.
    rho : float
        Weight of the quadratic terms.

    Attributes
    ----------
    unary, pair : ndarrays of shape (n_variables,) and (n_edges,)
        The c_i and c_f.
    constant : float
        Score of all variables at 0.
    x : ndarray of shape (n_variables,)
        The x_i.
    n_active, n_variables : int
        Active edges and variables.
    primal_residual, dual_residual : float
        As in Algorithm 1.
    """

    cdef MAPProblem problem
    cdef public double rho
    cdef readonly double constant, primal_residual, dual_residual
    cdef readonly Py_ssize_t n_active, n_variables
    cdef double[::1] _c, _w, _x, _sum
    cdef int32_t[::1] _count
    cdef signed char[::1] _on, _edge_on
    cdef int32_t[::1] _edges            # the active ones
    cdef double[:, ::1] _state          # of each: y_u, y_v, mu_u, mu_v
    cdef double[::1] _joint             # and y(1, 1)
    cdef object _list                   # edges by c_f, as deep as sorted
    cdef Py_ssize_t _read, _depth, _n_positive

    def __init__(self, MAPProblem problem, double rho):
        cdef Py_ssize_t n = problem.n, m = problem.m, e, u, v
        cdef double t00, t01, t10, constant = 0.0
        self.problem, self.rho = problem, rho
        self._c, self._x, self._sum = np.zeros(n), np.zeros(n), np.zeros(n)
        self._w = np.empty(m)
        self._count = np.zeros(n, dtype=np.int32)
        self._on, self._edge_on = np.zeros(n, dtype=np.int8), np.zeros(m, dtype=np.int8)
        self._edges = np.empty(0, dtype=np.int32)
        self._state, self._joint = np.empty((0, 4)), np.empty(0)
        with nogil:
            for v in range(n):
                constant += problem.unary[2 * v]
                self._c[v] = problem.unary[2 * v + 1] - problem.unary[2 * v]
            for e in range(m):
                u, v = problem.ends[e, 0], problem.ends[e, 1]
                t00 = problem.entry(e, 0, 0)
                t01 = problem.entry(e, 0, 1)
                t10 = problem.entry(e, 1, 0)
                constant += t00
                self._c[u] += t10 - t00
                self._c[v] += t01 - t00
                self._w[e] = problem.entry(e, 1, 1) + t00 - t01 - t10
            for v in range(n):
                if self._c[v] > 0.0:
                    self._on[v] = 1
                    self._x[v] = 1.0
        self.constant = constant
        self._n_positive = np.count_nonzero(np.asarray(self._w) > 0.0)
        self._list, self._read, self._depth = np.empty(0, dtype=np.intp), 0, 0
        for v in np.flatnonzero(self._on):
            self._enter(v)

    @property
    def unary(self):
        return np.asarray(self._c)

    @property
    def pair(self):
        return np.asarray(self._w)

    @property
    def x(self):
        return np.asarray(self._x)

    cdef _enter(self, Py_ssize_t v):
        """Let in a variable, and its edges to those that are in."""
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t s, e, other
        self._on[v] = 1
        self.n_variables += 1
        found = []
        for s in range(p.adj_first[v], p.adj_first[v + 1]):
            e = p.adj_edge[s]
            other = p.ends[e, 1] if p.ends[e, 0] == v else p.ends[e, 0]
            if self._on[other] and not self._edge_on[e]:
                found.append(e)
                self._edge_on[e] = 1
        self._activate(found)

    cdef _activate(self, found):
        """Let in edges, at the marginals that fit their ends best."""
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t e, k, size = self.n_active + len(found)
        if size > len(self._edges):
            room = max(2 * len(self._edges), size, 256)
            edges, state = np.empty(room, dtype=np.int32), np.zeros((room, 4))
            joint = np.zeros(room)
            edges[:self.n_active] = self._edges[:self.n_active]
            state[:self.n_active] = self._state[:self.n_active]
            joint[:self.n_active] = self._joint[:self.n_active]
            self._edges, self._state, self._joint = edges, state, joint
        for e in found:
            k = self.n_active
            self._edges[k] = e
            self._state[k, 0] = self._x[p.ends[e, 0]]
            self._state[k, 1] = self._x[p.ends[e, 1]]
            self._state[k, 2] = self._state[k, 3] = 0.0
            self._joint[k] = 0.0
            self._count[p.ends[e, 0]] += 1
            self._count[p.ends[e, 1]] += 1
            self.n_active += 1

    cdef _next_edges(self, Py_ssize_t count):
        """The edges with the largest positive c_f among those that are left out."""
        cdef Py_ssize_t e
        found = []
        while len(found) < count:
            if self._read == self._depth:
                if self._depth >= self._n_positive:
                    break
                self._depth = min(max(1024, 4 * self._depth), self._n_positive)
                w = self.pair
                if self._depth < len(w):
                    top = np.argpartition(-w, self._depth - 1)[:self._depth]
                else:
                    top = np.arange(len(w))
                self._list = top[np.lexsort((top, -w[top]))]
                # among equal edges others may have come in
                self._read = 0
            e = self._list[self._read]
            self._read += 1
            if not self._edge_on[e]:
                self._edge_on[e] = 1
                found.append(e)
        self._activate(found)

    def grow(self, Py_ssize_t variables, Py_ssize_t edges):
        """Steps 1, 2 and 4: let in what descends most.

        Parameters
        ----------
        variables, edges : int
            At most so many.

        Returns
        -------
        entered : int
            Number of variables that came in.
        """
        cdef Py_ssize_t v, k, e
        cdef MAPProblem p = self.problem
        cdef double[::1] descent = np.array(self._c)
        # c_i + sum_f mu_if + rho (y_if - x_i), with x_i = 0
        for k in range(self.n_active):
            e = self._edges[k]
            descent[p.ends[e, 0]] += self._state[k, 2] + self.rho * self._state[k, 0]
            descent[p.ends[e, 1]] += self._state[k, 3] + self.rho * self._state[k, 1]
        values = np.where(np.asarray(self._on) == 0, np.asarray(descent), 0.0)
        best = np.argsort(-values, kind="stable")[:variables]
        cdef Py_ssize_t entered = 0
        for v in best[values[best] > 0.0]:
            self._enter(v)
            entered += 1
        self._next_edges(edges)
        return entered

    def iterate(self):
        """Steps 3, 5 and 6: variables, edges, multipliers of what is active."""
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t k, e, u, v
        cdef double rho = self.rho, x, yu, yv, primal = 0.0, dual = 0.0, joint
        with nogil:
            for v in range(p.n):
                self._sum[v] = self._c[v]
            for k in range(self.n_active):
                e = self._edges[k]
                self._sum[p.ends[e, 0]] += self._state[k, 2] + rho * self._state[k, 0]
                self._sum[p.ends[e, 1]] += self._state[k, 3] + rho * self._state[k, 1]
            for v in range(p.n):
                if self._on[v]:
                    if self._count[v]:
                        x = self._sum[v] / (rho * self._count[v])
                        x = min(1.0, max(0.0, x))
                    else:
                        x = 1.0 if self._c[v] > 0.0 else 0.0
                    dual += self._count[v] * (x - self._x[v]) * (x - self._x[v])
                    self._x[v] = x
            for k in range(self.n_active):
                e = self._edges[k]
                u, v = p.ends[e, 0], p.ends[e, 1]
                joint = solve_edge(self._x[u] - self._state[k, 2] / rho,
                                   self._x[v] - self._state[k, 3] / rho,
                                   self._w[e] / rho, &yu, &yv)
                self._state[k, 0], self._state[k, 1] = yu, yv
                self._joint[k] = joint
                yu -= self._x[u]
                yv -= self._x[v]
                self._state[k, 2] += rho * yu
                self._state[k, 3] += rho * yv
                primal += yu * yu + yv * yv
            self.primal_residual = primal ** 0.5
            self.dual_residual = rho * dual ** 0.5

    def bound(self):
        """Upper bound of all scores at the multipliers.

        Returns
        -------
        bound : float
            sum_i max(0, c_i + sum_f mu_if) + sum_f max(0, -mu_u, -mu_v, c_f - mu_u -
            mu_v), where edges that are left out have no multipliers.
        """
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t k, e, v
        cdef double total = self.constant, a, b
        with nogil:
            for v in range(p.n):
                self._sum[v] = self._c[v]
            for e in range(p.m):
                if not self._edge_on[e] and self._w[e] > 0.0:
                    total += self._w[e]
            for k in range(self.n_active):
                e = self._edges[k]
                a, b = -self._state[k, 2], -self._state[k, 3]
                self._sum[p.ends[e, 0]] -= a
                self._sum[p.ends[e, 1]] -= b
                total += max(max(0.0, a), max(b, self._w[e] + a + b))
            for v in range(p.n):
                if self._sum[v] > 0.0:
                    total += self._sum[v]
        return total

    def settle(self, labeling):
        """Flip the variable that gains most, until none gains.

        Parameters
        ----------
        labeling : array-like of shape (n_variables,)
            Where to start.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), int32
            A labeling that no flip improves.
        """
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t v, e, s, best, other
        cdef double gain, top, change
        found = np.array(labeling, dtype=np.int32)
        cdef int32_t[::1] x = found
        # what turning each variable on gains, given the others; flips keep it right
        cdef double[::1] field = np.array(self._c)
        with nogil:
            for e in range(p.m):
                if x[p.ends[e, 0]]:
                    field[p.ends[e, 1]] += self._w[e]
                if x[p.ends[e, 1]]:
                    field[p.ends[e, 0]] += self._w[e]
            while True:
                top, best = 1e-12, -1
                for v in range(p.n):
                    gain = -field[v] if x[v] else field[v]
                    if gain > top:
                        top, best = gain, v
                if best < 0:
                    break
                change = -1.0 if x[best] else 1.0
                x[best] = 1 - x[best]
                for s in range(p.adj_first[best], p.adj_first[best + 1]):
                    e = p.adj_edge[s]
                    other = p.ends[e, 1] if p.ends[e, 0] == best else p.ends[e, 0]
                    field[other] += change * self._w[e]
        return found

    def value(self):
        """Value of the relaxation at the marginals, as far as they are feasible.

        Returns
        -------
        value : float
            sum_i c_i x_i + sum_f c_f y_f(1, 1), and the constant.
        """
        edges = np.asarray(self._edges[:self.n_active])
        return float(self.constant + np.dot(self._c, self._x)
                     + np.dot(self.pair[edges], self._joint[:self.n_active]))


cdef double solve_edge(double a, double b, double c, double* u,
                       double* v) noexcept nogil:
    """Minimise (u - a)^2 / 2 + (v - b)^2 / 2 - c y over marginals; y(1, 1)."""
    cdef double flipped, joint
    if c < 0.0:
        # with v flipped, y = u - y', so that a moves by c
        joint = solve_edge(a + c, 1.0 - b, -c, u, &flipped)
        v[0] = 1.0 - flipped
        return max(0.0, u[0] - joint)
    if a > b + c:
        u[0], v[0] = a, b + c
    elif b > a + c:
        u[0], v[0] = a + c, b
    else:
        u[0] = v[0] = 0.5 * (a + b + c)
    u[0] = min(1.0, max(0.0, u[0]))
    v[0] = min(1.0, max(0.0, v[0]))
    return min(u[0], v[0])


def edge_marginals(double a, double b, double c):
    """Minimise (u - a)^2 / 2 + (v - b)^2 / 2 - c y over the marginals of an edge.

    Parameters
    ----------
    a, b, c : float
        What the marginals of the two ends are drawn to, and the score of (1, 1).

    Returns
    -------
    u, v, y : float
        P(x_u = 1), P(x_v = 1), P(x_u = x_v = 1).
    """
    cdef double u, v
    cdef double joint = solve_edge(a, b, c, &u, &v)
    return u, v, joint
