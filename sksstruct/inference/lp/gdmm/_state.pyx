"""Greedy direction method of multipliers for large domains: Algorithm 1.

X. Huang et al., Greedy direction method of multiplier for MAP inference of large output
domain, AISTATS 2017, minimise the augmented Lagrangian (3) of the LP relaxation over
the marginals x_i of variables and y_f of edges, which are zero but for a few states:

    sum_i -theta_i' x_i + sum_f -theta_f' y_f
        + rho / 2 sum_(f,i) |M_if y_f - x_i + mu_if / rho|^2

A sweep adds to each y_f the entry of steepest descent (8), found by lists where the
multipliers are zero and one by one where they are not, and takes one projected gradient
step (6) whose Q is doubled until it is an upper bound; then the same for x_i, where the
projection (4) is exact; then the multipliers move by (9), with eta = rho. Vectors are
sparse, see `SlotState`.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport realloc

from sksstruct.inference.lp.core._problem cimport DENSE, MAPProblem, TableSpec, entry_of
from sksstruct.inference.lp.gdmm._slots cimport Active, End, SlotState


cdef class MAPGDMMState(SlotState):
    """State of Algorithm 1 on a pairwise graph.

    Parameters
    ----------
    problem : Problem
        The graph, without larger factors.
    lists : Lists
        Of its tables.
    rho : float
        Weight of the quadratic terms at first.

    Attributes
    ----------
    rho : float
        Its present value.
    primal_residual, dual_residual : float
        Norm of M y - x, and rho times that of the last change of x over all edges.
    looked_up : int
        Entries of tables that were read by searches.
    """

    # ---- the search (8) ----

    cdef void _sort(self, const double* values, Py_ssize_t n) noexcept nogil:
        """`_order` = the places of the values, least first (Shell's sort)."""
        cdef Py_ssize_t gap = 1, i, k
        cdef int32_t* order = &self._order[0]
        cdef int32_t now
        for i in range(n):
            order[i] = i
        while gap < n // 3:
            gap = 3 * gap + 1
        while gap > 0:
            for i in range(gap, n):
                now = order[i]
                k = i
                while k >= gap and values[order[k - gap]] > values[now]:
                    order[k] = order[k - gap]
                    k -= gap
                order[k] = now
            gap //= 3

    cdef double _best(self, MAPProblem p, Py_ssize_t e, const double* du,
                      const double* dv, Py_ssize_t* i_best,
                      Py_ssize_t* j_best) noexcept nogil:
        """Largest theta_f(i, j) - du(i) - dv(j), where d are zero outside of slots."""
        cdef Py_ssize_t u = p.ends[e, 0], v = p.ends[e, 1], t = p.table_of[e]
        cdef const TableSpec* spec = &p.specs[t]
        cdef const int32_t* su = self._state[u]
        cdef const int32_t* sv = self._state[v]
        cdef const int32_t* slot_u = &self._slot[p.first[u]]
        cdef const int32_t* slot_v = &self._slot[p.first[v]]
        cdef Py_ssize_t nu = self._n_slots[u], nv = self._n_slots[v], a, b, i, j, k
        cdef double w = p.weight(e), c, high, best = -INFINITY, low
        cdef double sign = 1.0 if w >= 0 else -1.0
        cdef bint lists = self.lists.lists[t].rows != NULL and w > 0
        # what is active already is close to the best
        for k in range(self._active[e].count):
            a, b = self._active[e].u[k], self._active[e].v[k]
            c = w * entry_of(spec, su[a], sv[b]) - du[a] - dv[b]
            if c > best:
                best = c
                i_best[0], j_best[0] = su[a], sv[b]
        # both states have slots: those of v by dv, as far as they can be better
        self._sort(dv, nv)
        low = dv[self._order[0]]
        for a in range(nu):
            i = su[a]
            high = w * spec.row_high[i] - du[a] if lists else INFINITY
            if high - low <= best:
                continue
            for k in range(nv):
                b = self._order[k]
                if high - dv[b] <= best:
                    break
                c = w * entry_of(spec, i, sv[b]) - du[a] - dv[b]
                if c > best:
                    best = c
                    i_best[0], j_best[0] = i, sv[b]
            self.looked_up += k + 1
        # one of them has
        if nv < p.states[v]:
            for a in range(nu):
                i = su[a]
                if lists and w * spec.row_high[i] - du[a] <= best:
                    continue
                j = self.lists.outside(t, False, i, sign, slot_v)
                self.looked_up += 1
                if j >= 0:
                    c = w * entry_of(spec, i, j) - du[a]
                    if c > best:
                        best = c
                        i_best[0], j_best[0] = i, j
        if nu < p.states[u]:
            for b in range(nv):
                j = sv[b]
                if lists and w * spec.col_high[j] - dv[b] <= best:
                    continue
                i = self.lists.outside(t, True, j, sign, slot_u)
                self.looked_up += 1
                if i >= 0:
                    c = w * entry_of(spec, i, j) - dv[b]
                    if c > best:
                        best = c
                        i_best[0], j_best[0] = i, j
        # neither has: rows by their largest entry, while one can be better
        if nu < p.states[u] and nv < p.states[v]:
            for k in range(p.states[u]):
                i = self.lists.lists[t].by_high[k] if lists else k
                if slot_u[i] >= 0:
                    continue
                if lists and w * spec.row_high[i] <= best:
                    break
                j = self.lists.outside(t, False, i, sign, slot_v)
                self.looked_up += 1
                if j >= 0:
                    c = w * entry_of(spec, i, j)
                    if c > best:
                        best = c
                        i_best[0], j_best[0] = i, j
                    # with a formula, no other row is better than a state on its own
                    if spec.kind != DENSE and (i == j) == (spec.a > spec.b
                                                           or spec.kind > 1):
                        if sign > 0:
                            break
        return best

    # ---- one sweep ----

    cdef double _threshold(self, double* values, Py_ssize_t n) noexcept nogil:
        """tau such that the sum of max(0, values - tau) is 1; few values."""
        cdef double* s = &self._sorted[0]
        cdef Py_ssize_t a, b
        cdef double c, total = 0.0, tau = 0.0
        for a in range(n):
            c = values[a]
            b = a
            while b and s[b - 1] < c:
                s[b] = s[b - 1]
                b -= 1
            s[b] = c
        for a in range(n):
            total += s[a]
            if s[a] > (total - 1.0) / (a + 1):
                tau = (total - 1.0) / (a + 1)
            else:
                break
        return tau

    cdef int _factor(self, MAPProblem p, Py_ssize_t e) except -1 nogil:
        """Search (8) and step (6) for one edge; whether it moved."""
        cdef Py_ssize_t u = p.ends[e, 0], v = p.ends[e, 1], k, i = 0, j = 0, count, room
        cdef int a, b
        cdef End* eu = &self._ends[2 * e]
        cdef End* ev = &self._ends[2 * e + 1]
        cdef Active* act = &self._active[e]
        cdef double rho = self.rho, q, change, moved, tau, c
        cdef const TableSpec* spec = &p.specs[p.table_of[e]]
        cdef double w = p.weight(e)
        cdef bint there = False
        cdef void* grown
        for k in range(self._n_slots[u]):
            self._du[k] = rho * (eu.my[k] - self._x[u][k]) + eu.mu[k]
        for k in range(self._n_slots[v]):
            self._dv[k] = rho * (ev.my[k] - self._x[v][k]) + ev.mu[k]
        self._best(p, e, &self._du[0], &self._dv[0], &i, &j)
        a, b = self.slot_of(p, u, i), self.slot_of(p, v, j)
        if a < 0 or b < 0:
            with gil:
                raise MemoryError
        # new slots have nothing yet but what is zero
        if a == self._n_slots[u] - 1 and eu.my[a] == 0.0 and eu.mu[a] == 0.0:
            self._du[a] = -rho * self._x[u][a]
        if b == self._n_slots[v] - 1 and ev.my[b] == 0.0 and ev.mu[b] == 0.0:
            self._dv[b] = -rho * self._x[v][b]
        for k in range(act.count):
            if act.u[k] == a and act.v[k] == b:
                there = True
        if not there:
            if act.count == act.room:
                room = 4 if act.room == 0 else 2 * act.room
                grown = realloc(act.u, room * sizeof(int32_t))
                if grown:
                    act.u = <int32_t*>grown
                    grown = realloc(act.v, room * sizeof(int32_t))
                if grown:
                    act.v = <int32_t*>grown
                    grown = realloc(act.y, room * sizeof(double))
                if not grown:
                    with gil:
                        raise MemoryError
                act.y = <double*>grown
                act.room = room
                if room > self._capacity:
                    with gil:
                        self._resize(2 * room)
            act.u[act.count], act.v[act.count] = a, b
            act.y[act.count] = 1.0 if act.count == 0 else 0.0
            if act.count == 0:
                eu.my[a] += 1.0
                ev.my[b] += 1.0
                self._du[a] += rho
                self._dv[b] += rho
            act.count += 1
        count = act.count
        if count == 1:
            self.n_active += 1
            return 0
        q = 2.0 * rho
        while True:
            for k in range(count):
                c = (w * entry_of(spec, self._state[u][act.u[k]],
                                  self._state[v][act.v[k]])
                     - self._du[act.u[k]] - self._dv[act.v[k]])
                self._work[k] = act.y[k] + c / q
            tau = self._threshold(&self._work[0], count)
            moved = 0.0
            for k in range(count):
                c = self._work[k] - tau
                self._work[k] = (c if c > 0.0 else 0.0) - act.y[k]
                moved += self._work[k] * self._work[k]
            # my holds M (y + step) for now
            for k in range(count):
                eu.my[act.u[k]] += self._work[k]
                ev.my[act.v[k]] += self._work[k]
            change = 0.0
            for k in range(count):
                # |M step|^2, without another array: step' M' (M step)
                c = (eu.my[act.u[k]] - (self._du[act.u[k]] - eu.mu[act.u[k]]) / rho
                     - self._x[u][act.u[k]])
                c += (ev.my[act.v[k]] - (self._dv[act.v[k]] - ev.mu[act.v[k]]) / rho
                      - self._x[v][act.v[k]])
                change += self._work[k] * c
            if rho * change <= q * moved * (1.0 + 1e-9) or q > 4.0 * rho * count:
                break
            for k in range(count):
                eu.my[act.u[k]] -= self._work[k]
                ev.my[act.v[k]] -= self._work[k]
            q *= 2.0
        # what fell to zero leaves
        k = 0
        for i in range(count):
            act.y[i] += self._work[i]
            if act.y[i] > 0.0:
                act.u[k], act.v[k], act.y[k] = act.u[i], act.v[i], act.y[i]
                k += 1
        act.count = k
        self.n_active += k
        return moved > 1e-18

    cdef int _variable(self, MAPProblem p, Py_ssize_t v,
                       bint multipliers) except -1 nogil:
        """Search (7) and projection (4) for one variable."""
        cdef Py_ssize_t s, e, k, n, degree = p.adj_first[v + 1] - p.adj_first[v]
        cdef Py_ssize_t first = p.first[v]
        cdef End* end
        cdef double rho = self.rho, tau, c, moved = 0.0
        cdef double* x
        if degree == 0:
            return 0
        # (7): outside of the slots the gradient is -theta_i
        while (self._next[v] < p.states[v]
               and self._slot[first + self._by_score[first + self._next[v]]] >= 0):
            self._next[v] += 1
        if self._next[v] < p.states[v]:
            s = self._by_score[first + self._next[v]]
            tau = self._project(p, v, degree)
            # it gets a slot only where it would be positive
            if p.unary[first + s] / (rho * degree) > tau:
                if self.slot_of(p, v, s) < 0:
                    with gil:
                        raise MemoryError
        tau = self._project(p, v, degree)
        n = self._n_slots[v]
        x = self._x[v]
        for k in range(n):
            c = self._work[k] - tau
            c = c if c > 0.0 else 0.0
            moved += (c - x[k]) * (c - x[k])
            x[k] = c
        self.dual_residual += rho * rho * degree * moved
        # (9)
        for s in range(p.adj_first[v], p.adj_first[v + 1]):
            e = p.adj_edge[s]
            end = &self._ends[2 * e + (p.ends[e, 1] == v)]
            for k in range(n):
                c = end.my[k] - x[k]
                self.primal_residual += c * c
                if multipliers:
                    end.mu[k] += rho * c
        return 0

    cdef double _project(self, MAPProblem p, Py_ssize_t v,
                         Py_ssize_t degree) noexcept nogil:
        """Fill `_work` with what (4) projects; the threshold."""
        cdef Py_ssize_t s, e, k, n = self._n_slots[v]
        cdef End* end
        for k in range(n):
            self._work[k] = p.unary[p.first[v] + self._state[v][k]] / self.rho
        for s in range(p.adj_first[v], p.adj_first[v + 1]):
            e = p.adj_edge[s]
            end = &self._ends[2 * e + (p.ends[e, 1] == v)]
            for k in range(n):
                self._work[k] += end.my[k] + end.mu[k] / self.rho
        for k in range(n):
            self._work[k] /= degree
        return self._threshold(&self._work[0], n)

    def sweep(self, Py_ssize_t steps=1, bint multipliers=True):
        """All edges, all variables, all multipliers.

        Parameters
        ----------
        steps : int, default=1
            Searches and steps of each edge.
        multipliers : bool, default=True
            Whether the multipliers move as well.
        """
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t e, v, _k
        with nogil:
            self.primal_residual = self.dual_residual = 0.0
            self.n_active = 0
            for e in range(self._m):
                for _k in range(steps):
                    if self._factor(p, e) == 0:
                        break
            for v in range(self._n):
                self._variable(p, v, multipliers)
            self.primal_residual = self.primal_residual ** 0.5
            self.dual_residual = self.dual_residual ** 0.5

    def bound(self):
        """Upper bound of all scores: the Lagrangian's maximum at the multipliers.

        Returns
        -------
        bound : float
            sum_i max(theta_i + sum_f mu_if) + sum_f max(theta_f - M' mu_f).
        """
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t v, e, s, k, i = 0, j = 0, first
        cdef double total = 0.0, best, c
        with nogil:
            for v in range(self._n):
                first = p.first[v]
                best = -INFINITY
                for k in range(self._n_slots[v]):
                    c = p.unary[first + self._state[v][k]]
                    for s in range(p.adj_first[v], p.adj_first[v + 1]):
                        e = p.adj_edge[s]
                        c += self._ends[2 * e + (p.ends[e, 1] == v)].mu[k]
                    if c > best:
                        best = c
                for k in range(p.states[v]):
                    s = self._by_score[first + k]
                    if self._slot[first + s] < 0:
                        best = max(best, p.unary[first + s])
                        break
                total += best
            for e in range(self._m):
                total += self._best(p, e, self._ends[2 * e].mu,
                                    self._ends[2 * e + 1].mu, &i, &j)
        return total

    def lagrangian(self):
        """The augmented Lagrangian (3), less its terms in the multipliers alone.

        Returns
        -------
        value : float
            -value() + sum mu' (M y - x) + rho / 2 sum |M y - x|^2.
        """
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t e, side, v, k
        cdef End* end
        cdef double c, total = -self.value()
        for e in range(self._m):
            for side in range(2):
                v = p.ends[e, side]
                end = &self._ends[2 * e + side]
                for k in range(self._n_slots[v]):
                    c = end.my[k] - self._x[v][k]
                    total += end.mu[k] * c + 0.5 * self.rho * c * c
        return total

    def residual(self):
        """Violation of the constraints and change of the last sweep.

        Returns
        -------
        residual : float
            The larger of the two residuals, relative to the number of edges' ends.
        """
        cdef double scale = max(1.0, 2.0 * self._m) ** 0.5
        return max(self.primal_residual, self.dual_residual) / scale
