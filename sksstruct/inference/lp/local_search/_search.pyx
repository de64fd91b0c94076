"""Local search from a labeling: single variables, and forests of variables at once.

A move takes the variables near a random one in random order, keeps those that form no
cycle with the ones kept before, and finds their best states given all others by
max-product (Hamze and de Freitas, From fields to trees, UAI 2004, with a maximum in the
place of the sample); larger factors have at most one variable in a forest. Windows are
the same with subgraphs of larger width (`Elimination`). A round of `anneal` first puts
a few states elsewhere, then makes some moves, and is taken back where the score fell by
more than a falling heat allows: simulated annealing with an exact inner step.
"""

import numpy as np

from libc.math cimport log as log_of
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memcpy

from sksstruct.inference.lp.local_search._elimination cimport Elimination
from sksstruct.inference.lp.core._problem cimport MAPProblem


cdef class LocalSearch:
    """A labeling that gets better.

    Parameters
    ----------
    problem : Problem
        The graph.
    labeling : array-like of shape (n_variables,)
        Where to start.
    seed : int
        Of the random choices.

    Attributes
    ----------
    labeling : ndarray of shape (n_variables,), int32
        The best labeling so far.
    gain : float
        By how much its score is above the first one's.
    """

    cdef MAPProblem problem
    cdef int32_t[::1] _x, _saved, _keep, _best
    cdef uint64_t _random
    cdef double[::1] _scores, _out
    cdef int32_t[::1] _window, _parent, _parent_edge, _root, _queue
    cdef int32_t[::1] _stamp, _factor_stamp, _seen, _mark
    cdef int32_t _time
    cdef readonly double gain
    cdef double _now
    cdef readonly Py_ssize_t visited
    cdef readonly Elimination elimination

    def __init__(self, MAPProblem problem, labeling, seed):
        n = problem.n
        self.problem = problem
        self._x = np.array(labeling, dtype=np.int32)
        self._saved, self._keep, self._best = (
            np.empty(n, dtype=np.int32) for _ in range(3))
        self._random = (seed * 2 + 1) * 0x9E3779B97F4A7C15 % 2**64 | 1
        self._scores = np.empty(problem.first[n])
        self._out = np.empty(2 * problem.max_states)
        self._window, self._parent = (np.empty(n, dtype=np.int32) for _ in range(2))
        self._parent_edge, self._root, self._queue = (
            np.empty(n, dtype=np.int32) for _ in range(3))
        self._stamp, self._seen, self._mark = (
            np.zeros(n, dtype=np.int32) for _ in range(3))
        self._factor_stamp = np.zeros(problem.n_higher, dtype=np.int32)
        self._time = 0
        self.gain = self._now = 0.0
        self._best[:] = self._x
        self.elimination = Elimination(problem)

    @property
    def labeling(self):
        return np.asarray(self._best)

    cdef void _note(self, MAPProblem p, double gain) noexcept nogil:
        """The present labeling has gained; it may be the best now."""
        self._now += gain
        if self._now > self.gain:
            self.gain = self._now
            memcpy(&self._best[0], &self._x[0], p.n * sizeof(int32_t))

    cdef void _settle_down(self, MAPProblem p) noexcept nogil:
        """The best labeling becomes the present one."""
        memcpy(&self._x[0], &self._best[0], p.n * sizeof(int32_t))
        self._now = self.gain

    cdef uint64_t _next(self, uint64_t below) noexcept nogil:
        """A random number below a bound (xorshift64*)."""
        self._random ^= self._random >> 12
        self._random ^= self._random << 25
        self._random ^= self._random >> 27
        return ((self._random * 2685821657736338717ULL) >> 32) % below

    cdef void _condition(self, MAPProblem p, Py_ssize_t v, double* out) noexcept nogil:
        """Scores of the states of v given all neighbours outside of the forest."""
        cdef Py_ssize_t s, e, other, k, f
        cdef int32_t j, now = self._x[v]
        cdef bint first
        memcpy(out, &p.unary[p.first[v]], p.states[v] * sizeof(double))
        for s in range(p.adj_first[v], p.adj_first[v + 1]):
            e = p.adj_edge[s]
            first = p.ends[e, 0] == v
            other = p.ends[e, 1] if first else p.ends[e, 0]
            if self._stamp[other] != self._time:
                p.add_states(e, first, self._x[other], out)
        for k in range(p.in_first[v], p.in_first[v + 1]):
            f = p.in_factor[k]
            for j in range(p.states[v]):
                self._x[v] = j
                out[j] += p.higher_entry(f, &self._x[0])
        self._x[v] = now

    cdef Py_ssize_t _pick(self, const double* scores, Py_ssize_t n) noexcept nogil:
        """A best state; which of several that tie is random."""
        cdef Py_ssize_t i = self._next(n), best = i, _k
        for _k in range(n):
            if scores[i] > scores[best]:
                best = i
            i += 1
            if i == n:
                i = 0
        return best

    cdef double _settle(self, MAPProblem p, Py_ssize_t v) noexcept nogil:
        """Give v its best state; the gain."""
        cdef double* out = &self._out[0]
        cdef Py_ssize_t best
        cdef double gain
        self._time += 1
        self._condition(p, v, out)
        best = self._pick(out, p.states[v])
        gain = out[best] - out[self._x[v]]
        if gain > 0.0:
            self._x[v] = best
        return gain

    cdef Py_ssize_t _find(self, Py_ssize_t v) noexcept nogil:
        while self._root[v] != v:
            self._root[v] = self._root[self._root[v]]
            v = self._root[v]
        return v

    cdef double _forest(self, MAPProblem p, Py_ssize_t size) noexcept nogil:
        """Best states of a random forest in the window; the gain."""
        cdef Py_ssize_t i, k, v, s, e, other, head, tail, start, r, u
        cdef int32_t swap
        cdef bint good
        cdef double* a
        cdef double* out = &self._out[0]
        cdef double old = 0.0, new = 0.0
        self._time += 1
        for i in range(size - 1, 0, -1):
            k = self._next(i + 1)
            swap = self._window[i]
            self._window[i] = self._window[k]
            self._window[k] = swap
        for i in range(size):
            v = self._window[i]
            good = True
            for k in range(p.in_first[v], p.in_first[v + 1]):
                if self._factor_stamp[p.in_factor[k]] == self._time:
                    good = False
                    break
            if not good:
                continue
            for s in range(p.adj_first[v], p.adj_first[v + 1]):
                e = p.adj_edge[s]
                other = p.ends[e, 1] if p.ends[e, 0] == v else p.ends[e, 0]
                if self._stamp[other] != self._time:
                    continue
                r = self._find(other)
                if self._mark[r] == v + 1 and self._seen[r] == self._time:
                    good = False
                    break
                self._mark[r], self._seen[r] = v + 1, self._time
            if not good:
                continue
            for k in range(p.in_first[v], p.in_first[v + 1]):
                self._factor_stamp[p.in_factor[k]] = self._time
            self._stamp[v] = self._time
            self._root[v] = v
            self._parent[v] = -2
            for s in range(p.adj_first[v], p.adj_first[v + 1]):
                e = p.adj_edge[s]
                other = p.ends[e, 1] if p.ends[e, 0] == v else p.ends[e, 0]
                if self._stamp[other] == self._time and other != v:
                    self._root[self._find(other)] = v

        # parents first
        tail = 0
        for i in range(size):
            start = self._window[i]
            if self._stamp[start] != self._time or self._parent[start] != -2:
                continue
            self._parent[start] = -1
            head = tail
            self._queue[tail] = start
            tail += 1
            while head < tail:
                v = self._queue[head]
                head += 1
                for s in range(p.adj_first[v], p.adj_first[v + 1]):
                    e = p.adj_edge[s]
                    other = p.ends[e, 1] if p.ends[e, 0] == v else p.ends[e, 0]
                    if self._stamp[other] == self._time and self._parent[other] == -2:
                        self._parent[other] = v
                        self._parent_edge[other] = e
                        self._queue[tail] = other
                        tail += 1
        for i in range(tail):
            v = self._queue[i]
            a = &self._scores[p.first[v]]
            self._condition(p, v, a)
            old += a[self._x[v]]
            if self._parent[v] >= 0:
                e = self._parent_edge[v]
                old += p.entry(e, self._x[p.ends[e, 0]], self._x[p.ends[e, 1]])
        for i in range(tail - 1, -1, -1):
            v = self._queue[i]
            u = self._parent[v]
            if u < 0:
                continue
            e = self._parent_edge[v]
            p.message(e, p.ends[e, 1] == v, &self._scores[p.first[v]], out)
            a = &self._scores[p.first[u]]
            for k in range(p.states[u]):
                a[k] += out[k]
        for i in range(tail):
            v = self._queue[i]
            a = &self._scores[p.first[v]]
            u = self._parent[v]
            if u >= 0:
                e = self._parent_edge[v]
                p.add_states(e, p.ends[e, 0] == v, self._x[u], a)
            k = self._pick(a, p.states[v])
            if u < 0:
                new += a[k]
            self._x[v] = k
        self.visited += tail
        return new - old

    cdef Py_ssize_t _grow(self, MAPProblem p, Py_ssize_t start,
                          Py_ssize_t limit) noexcept nogil:
        """A window of variables around one."""
        cdef Py_ssize_t head = 0, tail = 1, v, s, e, other, k, f, begin, end
        self._time += 1
        self._window[0] = start
        self._seen[start] = self._time
        while head < tail and tail < limit:
            v = self._window[head]
            head += 1
            begin, end = p.adj_first[v], p.adj_first[v + 1]
            k = self._next(end - begin) if end > begin else 0
            for s in range(end - begin):
                e = p.adj_edge[begin + (s + k) % (end - begin)]
                other = p.ends[e, 1] if p.ends[e, 0] == v else p.ends[e, 0]
                if self._seen[other] != self._time and tail < limit:
                    self._seen[other] = self._time
                    self._window[tail] = other
                    tail += 1
            for s in range(p.in_first[v], p.in_first[v + 1]):
                f = p.in_factor[s]
                for k in range(p.scope_first[f], p.scope_first[f + 1]):
                    other = p.scope[k]
                    if self._seen[other] != self._time and tail < limit:
                        self._seen[other] = self._time
                        self._window[tail] = other
                        tail += 1
        return tail

    def restart(self):
        """Go on from random states; the best labeling stays what it is."""
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t v
        before = p.labeling_score(self._best)
        for v in range(p.n):
            self._x[v] = self._next(p.states[v])
        self._now = self.gain + p.labeling_score(self._x) - before

    def settle(self):
        """Iterated conditional modes: best states one by one, until none changes.

        Returns
        -------
        gain : float
            Total gain in score so far.
        """
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t v, rounds = 0
        cdef double gain, total
        with nogil:
            while True:
                total = 0.0
                for v in range(p.n):
                    gain = self._settle(p, v)
                    if gain > 0.0:
                        total += gain
                self._note(p, total)
                rounds += 1
                if not total > 0.0 or rounds == 1000:
                    break
        return self.gain

    def forests(self, Py_ssize_t moves):
        """Moves over all variables.

        Parameters
        ----------
        moves : int
            Number of forests.

        Returns
        -------
        gain : float
            Total gain in score so far.
        """
        cdef MAPProblem p = self.problem
        cdef Py_ssize_t v, _k
        with nogil:
            for _k in range(moves):
                for v in range(p.n):
                    self._window[v] = v
                self._note(p, self._forest(p, p.n))
        return self.gain

    def windows(self, Py_ssize_t moves, Py_ssize_t width, double budget,
                double total=1e7):
        """Moves that are exact on subgraphs of bounded width.

        Parameters
        ----------
        moves : int
            Number of windows.
        width : int
            Variables of each.
        budget, total : float
            Most entries of a table, and of all tables of a window.

        Returns
        -------
        gain : float
            Total gain in score so far.
        """
        cdef MAPProblem p = self.problem
        cdef Elimination elimination = self.elimination
        cdef Py_ssize_t size, _k
        cdef double gain
        with nogil:
            for _k in range(moves):
                size = self._grow(p, self._next(p.n), min(width, p.n))
                gain = elimination.improve(p, &self._x[0], &self._window[0], size,
                                           budget, total, &self._random)
                self._note(p, gain)
        return self.gain

    def solve(self, double total):
        """The best labeling of all, if the graph is narrow.

        Parameters
        ----------
        total : float
            Most entries of all tables.

        Returns
        -------
        solved : bool
            Whether no variable had to keep its state.
        """
        cdef MAPProblem p = self.problem
        cdef Elimination elimination = self.elimination
        cdef Py_ssize_t v
        cdef double gain
        if not elimination.fits(p, total):
            return False
        for v in range(p.n):
            self._window[v] = v
        with nogil:
            gain = elimination.improve(p, &self._x[0], &self._window[0], p.n, total,
                                       total, &self._random)
            self._note(p, gain)
        return elimination.solved

    def anneal(self, Py_ssize_t work, double heat=1.0, double cold=0.0,
               double budget=0.0, Py_ssize_t width=300):
        """Rounds of a kick and some moves around a variable, under a falling heat.

        The moves are exact in a window, or in three forests of it.

        Parameters
        ----------
        work : int
            Stop after so many variables were visited by moves.
        heat, cold : float, default=1.0, 0.0
            Losses that are accepted at first and in the end, in units of what a kick
            costs on average. Where cold is 0 the best labeling is the one that the
            next moves start from, else the last.
        budget : float, default=0.0
            Most entries of a table of a window; 0: forests.
        width : int, default=300
            Most variables of a window.

        Returns
        -------
        gain : float
            Total gain in score of the best labeling so far.
        """
        cdef MAPProblem p = self.problem
        cdef Elimination elimination = self.elimination
        cdef Py_ssize_t i, size, limit, kicks, v, log = 1, _k
        cdef double gain, loss, chance, cost = 0.0, n_kicks = 0.0
        while (2 << log) < p.n:
            log += 1
        with nogil:
            self.visited = 0
            while self.visited < work:
                self.visited += 1
                limit = min(p.n, width, 2 << self._next(log + 1))
                size = self._grow(p, self._next(p.n), limit)
                for i in range(size):
                    self._saved[i] = self._x[self._window[i]]
                gain = 0.0
                kicks = 1 + self._next(1 + min(size, 16) // 2)
                for _k in range(kicks):
                    v = self._window[self._next(size)]
                    loss = self._kick(p, v)
                    gain += loss
                    cost -= loss
                    n_kicks += 1.0
                # moves shuffle the window: remember what was where
                memcpy(&self._keep[0], &self._window[0], size * sizeof(int32_t))
                if budget > 0.0:
                    gain += elimination.improve(p, &self._x[0], &self._window[0], size,
                                                budget, 1e7, &self._random)
                    self.visited += size + elimination.n_entries // 8
                else:
                    for _k in range(3):
                        gain += self._forest(p, size)
                loss = min(1.0, <double>self.visited / work)
                loss = heat + (cold - heat) * loss
                loss *= max(0.0, cost / n_kicks)
                chance = (self._next(1 << 30) + 1.0) / (1 << 30)
                if gain < loss * log_of(chance) - 1e-12:
                    for i in range(size):
                        self._x[self._keep[i]] = self._saved[i]
                    continue
                self._note(p, gain)
            if cold == 0.0:
                self._settle_down(p)
        return self.gain

    cdef double _kick(self, MAPProblem p, Py_ssize_t v) noexcept nogil:
        """Put another state at v: the best of three random ones."""
        cdef double* out = &self._out[0]
        cdef Py_ssize_t state, best = self._next(p.states[v]), _k
        cdef double gain
        self._time += 1
        self._condition(p, v, out)
        for _k in range(2 if p.states[v] > 4 else 0):
            state = self._next(p.states[v])
            if state != self._x[v] and (out[state] > out[best]
                                        or best == self._x[v]):
                best = state
        gain = out[best] - out[self._x[v]]
        self._x[v] = best
        return gain
