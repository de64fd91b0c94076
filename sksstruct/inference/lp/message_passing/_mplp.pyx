"""Max-product linear programming: block-coordinate descent over factors of any size.

A. Globerson and T. Jaakkola, Fixing max-product, NIPS 2007. Factor f gives each of its
variables i the message

    lambda_fi(x_i) = -b_i(x_i)
        + max_{x_f with x_i} (theta_f(x_f) + sum_k b_k(x_k)) / |f|

with b_i = theta_i + sum of the messages of the other factors; then max over x_f of
theta_f - sum of its messages is 0, and the sum of the variables' maxima of theta_i +
all messages is an upper bound that never rises. Conditions on binary variables have
their max-marginals in closed form.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.inference.lp.core._problem cimport (
    ATMOSTONE, BUDGET, DENSE, OR, OROUT, XOR, XOROUT, MAPProblem, TableSpec,
)


cdef class MaxProductLP:
    """Messages of a graph.

    Parameters
    ----------
    problem : Problem
        The graph.

    Attributes
    ----------
    labeling : ndarray of shape (n_variables,), int32
        The best state of each variable.
    beliefs : ndarray of shape (n_states.sum(),)
        Scores of the states with all messages.
    bound : float
        Upper bound; inf before the first sweep.
    """

    cdef MAPProblem problem
    cdef Py_ssize_t[:, ::1] _start          # of the messages of edges
    cdef Py_ssize_t[::1] _start_higher      # and of each place in a scope
    cdef double[::1] _messages, _beliefs, _a, _b, _out
    cdef double[::1] _on, _mm, _prefix
    cdef Py_ssize_t[::1] _digit, _rank
    cdef Py_ssize_t _width
    cdef readonly double bound

    def __init__(self, MAPProblem problem):
        self.problem = problem
        states = np.asarray(problem.states).astype(np.intp)
        sizes = np.concatenate([states[np.asarray(problem.ends)].reshape(-1),
                                states[np.asarray(problem.scope)]])
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        self._start = start[:2 * problem.m].reshape(-1, 2)
        self._start_higher = start[2 * problem.m:]
        self._messages = np.zeros(start[len(start) - 1])
        self._beliefs = np.array(problem.unary)
        self._a, self._b, self._out = (np.empty(problem.max_states) for _ in range(3))
        arity = int(np.diff(np.asarray(problem.scope_first)).max(initial=1))
        self._width = problem.max_states
        self._mm = np.empty(arity * self._width)
        self._on, self._prefix = np.empty(arity + 1), np.empty(arity + 1)
        self._digit, self._rank = (np.empty(arity, dtype=np.intp) for _ in range(2))
        self.bound = INFINITY

    @property
    def beliefs(self):
        return np.asarray(self._beliefs)

    def sweep(self, bint backward=False):
        """All factors once; then the bound.

        Parameters
        ----------
        backward : bool, default=False
            From the last factor to the first.

        Returns
        -------
        bound : float
            Upper bound of all scores.
        """
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t f, v, k
        cdef double top
        with nogil:
            for k in range(p.m + p.n_higher):
                f = p.m + p.n_higher - 1 - k if backward else k
                if f < p.m:
                    self._edge(p, f)
                else:
                    self._factor(p, f - p.m)
            self.bound = 0.0
            for v in range(p.n):
                top = -INFINITY
                for k in range(p.first[v], p.first[v + 1]):
                    top = max(top, self._beliefs[k])
                self.bound += top
        return self.bound

    @property
    def labeling(self):
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t v, k
        x = np.zeros(p.n, dtype=np.int32)
        cdef int32_t[::1] out = x
        for v in range(p.n):
            for k in range(1, p.states[v]):
                if self._beliefs[p.first[v] + k] > self._beliefs[p.first[v] + out[v]]:
                    out[v] = k
        return x

    cdef void _edge(self, MAPProblem p, Py_ssize_t e) noexcept nogil:
        cdef Py_ssize_t side, k, v
        cdef double* b
        cdef double* own
        cdef double* other
        # both from the same b: first what the messages leave out
        for side in range(2):
            v = p.ends[e, side]
            own = &self._a[0] if side == 0 else &self._b[0]
            b = &self._beliefs[p.first[v]]
            for k in range(p.states[v]):
                own[k] = b[k] - self._messages[self._start[e, side] + k]
        for side in range(2):
            v = p.ends[e, side]
            own = &self._a[0] if side == 0 else &self._b[0]
            other = &self._b[0] if side == 0 else &self._a[0]
            b = &self._beliefs[p.first[v]]
            p.message(e, side == 0, other, &self._out[0])
            for k in range(p.states[v]):
                b[k] = 0.5 * (own[k] + self._out[k])
                self._messages[self._start[e, side] + k] = b[k] - own[k]

    cdef void _factor(self, MAPProblem p, Py_ssize_t f) noexcept nogil:
        cdef Py_ssize_t begin = p.scope_first[f], n = p.scope_first[f + 1] - begin
        cdef Py_ssize_t i, k, v, s
        cdef double* b
        for i in range(n):
            v, s = p.scope[begin + i], self._start_higher[begin + i]
            b = &self._beliefs[p.first[v]]
            for k in range(p.states[v]):
                b[k] -= self._messages[s + k]
        if p.specs[p.higher_table[f]].kind == DENSE:
            self._dense(p, f)
        else:
            self._logic(p, f)
        for i in range(n):
            v, s = p.scope[begin + i], self._start_higher[begin + i]
            b = &self._beliefs[p.first[v]]
            for k in range(p.states[v]):
                self._messages[s + k] = self._mm[i * self._width + k] / n - b[k]
                b[k] += self._messages[s + k]

    cdef void _dense(self, MAPProblem p, Py_ssize_t f) noexcept nogil:
        """Max-marginals of a table plus the beliefs of its variables."""
        cdef const TableSpec* t = &p.specs[p.higher_table[f]]
        cdef Py_ssize_t begin = p.scope_first[f], n = p.scope_first[f + 1] - begin
        cdef Py_ssize_t i, k, v, at = 0
        cdef double total
        for i in range(n):
            self._digit[i] = 0
            for k in range(p.states[p.scope[begin + i]]):
                self._mm[i * self._width + k] = -INFINITY
        while True:
            total = t.data[at]
            for i in range(n):
                v = p.scope[begin + i]
                total += self._beliefs[p.first[v] + self._digit[i]]
            for i in range(n):
                k = i * self._width + self._digit[i]
                if total > self._mm[k]:
                    self._mm[k] = total
            at += 1
            i = n - 1
            while i >= 0:
                self._digit[i] += 1
                if self._digit[i] < p.states[p.scope[begin + i]]:
                    break
                self._digit[i] = 0
                i -= 1
            if i < 0:
                return

    cdef void _logic(self, MAPProblem p, Py_ssize_t f) noexcept nogil:
        """Max-marginals of a condition: what turning each variable on or off costs."""
        cdef const TableSpec* t = &p.specs[p.higher_table[f]]
        cdef Py_ssize_t begin = p.scope_first[f], n = p.scope_first[f + 1] - begin
        cdef Py_ssize_t i, v, on, inputs = n, best = -1, limit = <Py_ssize_t>t.b
        cdef int condition = <int>t.a
        cdef double base = 0.0, top = -INFINITY, second = -INFINITY
        cdef double plus = 0.0, out = 0.0
        cdef double s, yes, no, others, least = 0.0, best_off
        for i in range(n):
            v = p.scope[begin + i]
            on = 0 if t.data[i] else 1
            base += self._beliefs[p.first[v] + 1 - on]
            self._on[i] = (self._beliefs[p.first[v] + on]
                           - self._beliefs[p.first[v] + 1 - on])
        if condition == OROUT or condition == XOROUT:
            inputs = n - 1
            out = self._on[n - 1]
        # best and second best input, and the sum of those that want to be on
        for i in range(inputs):
            s = self._on[i]
            if s > top:
                top, second, best = s, top, i
            elif s > second:
                second = s
            if s > 0.0:
                plus += s
        if condition == BUDGET:
            self._sort(inputs)
        for i in range(n):
            s = self._on[i]
            others = second if i == best else top       # best of the others
            least = plus - max(0.0, s)                  # the others as they want
            # with at least one of the others on
            best_off = least if others > 0.0 else others
            if condition == XOR:
                yes, no = s, others
            elif condition == ATMOSTONE:
                yes, no = s, max(0.0, others)
            elif condition == OR:
                yes, no = s + least, best_off
            elif condition == OROUT and i == n - 1:
                yes, no = out + (plus if top > 0.0 else top), 0.0
            elif condition == OROUT:
                yes, no = out + s + least, max(0.0, out + best_off)
            elif condition == XOROUT and i == n - 1:
                yes, no = out + top, 0.0
            elif condition == XOROUT:
                yes, no = out + s, max(0.0, out + others)
            else:
                # the best `limit` of the others that want to be on
                yes = -INFINITY
                if self._rank[i] < limit:
                    no = self._prefix[min(limit + 1, n)] - max(0.0, s)
                else:
                    no = self._prefix[limit if limit < n else n]
                if limit > 0:
                    if self._rank[i] < limit - 1:
                        yes = s + self._prefix[limit if limit < n else n] - max(0.0, s)
                    else:
                        yes = s + self._prefix[limit - 1 if limit - 1 < n else n]
            # what cannot be is as bad as a penalty
            no = max(no, yes + p.penalty)
            yes = max(yes, no + p.penalty)
            v = p.scope[begin + i]
            on = 0 if t.data[i] else 1
            self._mm[i * self._width + on] = base + yes
            self._mm[i * self._width + 1 - on] = base + no

    cdef void _sort(self, Py_ssize_t n) noexcept nogil:
        """Ranks by `_on`, and sums of the best that are positive."""
        cdef Py_ssize_t i, k, now
        for i in range(n):
            self._digit[i] = i
        for i in range(1, n):
            now = self._digit[i]
            k = i
            while k and self._on[self._digit[k - 1]] < self._on[now]:
                self._digit[k] = self._digit[k - 1]
                k -= 1
            self._digit[k] = now
        self._prefix[0] = 0.0
        for k in range(n):
            self._rank[self._digit[k]] = k
            self._prefix[k + 1] = self._prefix[k] + max(0.0, self._on[self._digit[k]])
