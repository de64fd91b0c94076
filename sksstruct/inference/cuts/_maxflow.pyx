"""Maximum flow between two terminals by search trees.

A tree grows from each terminal over arcs that have capacity left; where they meet there
is a path, which is filled, and the variables that lost their way to a terminal look for
another parent, the nearest to it, or fall out of the trees (Boykov and Kolmogorov,
2004). Arithmetic is in double precision; what fills an arc leaves exactly zero.

Capacities from the terminals are one number for each variable, positive from the source
and negative to the sink. When nothing grows any more, the source's tree is the smallest
side of a minimum cut.
"""

import numpy as np

from libc.stdint cimport int32_t


cdef class FlowTrees:
    """A graph with residual capacities and the two search trees.

    Parameters
    ----------
    edges : ndarray of shape (n_edges, 2), intp
        Pairs of variables, checked.
    n_variables : int
        Number of variables.
    """

    def __init__(self, edges, n_variables):
        self.edges = edges
        self.n_variables = self._n = n_variables
        self._m = len(self.edges)
        self._ends = self.edges
        cdef Py_ssize_t n = self._n, m = self._m, e, u, v
        if 2 * m >= 2**31 or n >= 2**31:
            raise ValueError("the graph is too large for 32-bit indices")
        degree = np.bincount(self.edges.ravel(), minlength=n)
        self._first = np.concatenate([[0], np.cumsum(degree)]).astype(np.int32)
        cdef int32_t[::1] place = np.array(self._first)
        self._head = np.empty(2 * m + 1, dtype=np.int32)
        self._sister = np.empty(2 * m + 1, dtype=np.int32)
        self._arc = np.empty(m + 1, dtype=np.int32)
        for e in range(m):
            u, v = self._ends[e, 0], self._ends[e, 1]
            self._head[place[u]], self._head[place[v]] = <int32_t> v, <int32_t> u
            self._sister[place[u]], self._sister[place[v]] = place[v], place[u]
            self._arc[e] = place[u]
            place[u] += 1
            place[v] += 1
        self._residual = np.zeros(2 * m + 1)
        self._terminal = np.zeros(n)
        self._flow = np.zeros(m + 1)
        self._parent = np.empty(n, dtype=np.int32)
        self._time = np.empty(n, dtype=np.int32)
        self._distance = np.empty(n, dtype=np.int32)
        self._side = np.empty(n, dtype=np.int8)
        self._active = np.empty(n, dtype=np.int32)
        self._is_active = np.empty(n, dtype=np.int8)
        self._orphans = np.empty(n, dtype=np.int32)

    cdef void _activate(self, Py_ssize_t v) noexcept nogil:
        cdef Py_ssize_t place
        if not self._is_active[v]:
            self._is_active[v] = 1
            place = self._active_first + self._active_count
            self._active[place - self._n if place >= self._n else place] = <int32_t> v
            self._active_count += 1

    cdef void _orphan(self, Py_ssize_t v) noexcept nogil:
        cdef Py_ssize_t place = self._orphan_first + self._orphan_count
        self._parent[v] = ORPHAN
        self._orphans[place - self._n if place >= self._n else place] = <int32_t> v
        self._orphan_count += 1

    cdef void _root(self, Py_ssize_t v) noexcept nogil:
        """Join a variable to the terminal that has capacity for it."""
        self._side[v] = SOURCE if self._terminal[v] > 0.0 else SINK
        self._parent[v] = TERMINAL
        self._time[v] = self._now
        self._distance[v] = 1
        self._activate(v)

    cdef void _start(self) noexcept nogil:
        cdef Py_ssize_t v
        self._now = 0
        self._active_first = self._active_count = 0
        self._orphan_first = self._orphan_count = 0
        for v in range(self._n):
            self._is_active[v] = 0
            self._parent[v] = FREE
            self._time[v] = 0
            if self._terminal[v] != 0.0:
                self._root(v)

    cdef void _force(self, Py_ssize_t v, double capacity) noexcept nogil:
        """Add terminal capacity that changes a variable's side, and mend the trees."""
        cdef Py_ssize_t a, w
        self._now += 1
        self._terminal[v] += capacity
        for a in range(self._first[v], self._first[v + 1]):
            w = self._head[a]
            if self._parent[w] == self._sister[a]:
                self._orphan(w)
        self._root(v)
        self._adopt_all()

    cdef void _maximise(self) noexcept nogil:
        cdef Py_ssize_t v, a
        while self._active_count:
            v = self._active[self._active_first]
            a = -1
            if self._parent[v] != FREE:
                a = self._grow(v)
            if a < 0:
                self._active_first += 1
                if self._active_first == self._n:
                    self._active_first = 0
                self._active_count -= 1
                self._is_active[v] = 0
                continue
            self._now += 1
            self._augment(a)
            self._adopt_all()

    cdef Py_ssize_t _grow(self, Py_ssize_t v) noexcept nogil:
        """Take in the free neighbours of v; an arc that joins the trees, or -1."""
        cdef Py_ssize_t a, w
        cdef bint from_source = self._side[v] == SOURCE
        cdef int32_t sister
        for a in range(self._first[v], self._first[v + 1]):
            sister = self._sister[a]
            if self._residual[a if from_source else sister] <= 0.0:
                continue
            w = self._head[a]
            if self._parent[w] == FREE:
                self._side[w] = self._side[v]
                self._parent[w] = sister
                self._time[w] = self._time[v]
                self._distance[w] = self._distance[v] + 1
                self._activate(w)
            elif self._side[w] != self._side[v]:
                return a if from_source else sister
            elif (self._time[w] <= self._time[v]
                  and self._distance[w] > self._distance[v]):
                # a shorter way to the terminal
                self._parent[w] = sister
                self._time[w] = self._time[v]
                self._distance[w] = self._distance[v] + 1
        return -1

    cdef void _augment(self, Py_ssize_t joint) noexcept nogil:
        """Push as much as the path through an arc between the trees takes."""
        cdef double most = self._residual[joint], c
        cdef Py_ssize_t v, a
        v = self._head[self._sister[joint]]
        while self._parent[v] != TERMINAL:
            c = self._residual[self._sister[self._parent[v]]]
            most = c if c < most else most
            v = self._head[self._parent[v]]
        most = self._terminal[v] if self._terminal[v] < most else most
        v = self._head[joint]
        while self._parent[v] != TERMINAL:
            c = self._residual[self._parent[v]]
            most = c if c < most else most
            v = self._head[self._parent[v]]
        most = -self._terminal[v] if -self._terminal[v] < most else most

        self._residual[joint] -= most
        self._residual[self._sister[joint]] += most
        v = self._head[self._sister[joint]]
        while self._parent[v] != TERMINAL:
            a = self._parent[v]
            self._residual[a] += most
            self._residual[self._sister[a]] -= most
            if self._residual[self._sister[a]] <= 0.0:
                self._orphan(v)
            v = self._head[a]
        self._terminal[v] -= most
        if self._terminal[v] <= 0.0:
            self._orphan(v)
        v = self._head[joint]
        while self._parent[v] != TERMINAL:
            a = self._parent[v]
            self._residual[a] -= most
            self._residual[self._sister[a]] += most
            if self._residual[a] <= 0.0:
                self._orphan(v)
            v = self._head[a]
        self._terminal[v] += most
        if self._terminal[v] >= 0.0:
            self._orphan(v)

    cdef void _adopt_all(self) noexcept nogil:
        cdef Py_ssize_t v
        while self._orphan_count:
            v = self._orphans[self._orphan_first]
            self._orphan_first += 1
            if self._orphan_first == self._n:
                self._orphan_first = 0
            self._orphan_count -= 1
            self._adopt(v)

    cdef int32_t _origin(self, Py_ssize_t v) noexcept nogil:
        """Steps from v to its terminal, or -1 where the way ends at an orphan."""
        cdef int32_t steps = 0
        while True:
            if self._time[v] == self._now and self._parent[v] != ORPHAN:
                return steps + self._distance[v]
            steps += 1
            if self._parent[v] == TERMINAL:
                self._time[v] = self._now
                self._distance[v] = 1
                return steps
            if self._parent[v] == ORPHAN:
                return -1
            v = self._head[self._parent[v]]

    cdef void _adopt(self, Py_ssize_t v) noexcept nogil:
        """A new parent for an orphan, the nearest to the terminal; or set it free."""
        cdef bint from_source = self._side[v] == SOURCE
        cdef Py_ssize_t a, w, best = -1
        cdef int32_t steps, fewest = 0
        for a in range(self._first[v], self._first[v + 1]):
            if self._residual[self._sister[a] if from_source else a] <= 0.0:
                continue
            w = self._head[a]
            if self._side[w] != self._side[v] or self._parent[w] == FREE:
                continue
            if self._parent[w] == ORPHAN:
                continue
            steps = self._origin(w)
            if steps < 0:
                continue
            if best < 0 or steps < fewest:
                best, fewest = a, steps
            # what was learnt on the way
            while self._time[w] != self._now:
                self._time[w] = self._now
                self._distance[w] = steps
                steps -= 1
                w = self._head[self._parent[w]]
        if best >= 0:
            self._parent[v] = <int32_t> best
            self._time[v] = self._now
            self._distance[v] = fewest + 1
            return
        for a in range(self._first[v], self._first[v + 1]):
            w = self._head[a]
            if self._side[w] != self._side[v] or self._parent[w] == FREE:
                continue
            if self._residual[self._sister[a] if from_source else a] > 0.0:
                self._activate(w)
            if self._parent[w] == self._sister[a]:
                self._orphan(w)
        self._parent[v] = FREE
