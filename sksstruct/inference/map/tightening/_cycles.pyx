"""Triplets and cycles on which the best states of edges contradict each other.

D. Sontag, T. Meltzer, A. Globerson, T. Jaakkola and Y. Weiss, Tightening LP relaxations
for MAP using message passing, UAI 2008: a triplet lowers the bound by at least

    max of (a, b) + max of (a, c) + max of (b, c) - max of their sum

Longer cycles, D. Sontag, D. K. Choe and Y. Li, Efficiently searching for frustrated
cycles in MAP inference, UAI 2012: the states of a variable are split in two, one state
and all others. An edge then has a weight, its maximum where both ends are on the same
side minus that where they are not. A cycle with an odd number of negative weights
cannot have the best of all its edges, and misses at least the smallest |weight|.
"""

import numpy as np

cimport cython
from libc.math cimport INFINITY, fabs
from libc.string cimport memset

from sksstruct.inference.map.core._index import places_by
from sksstruct.inference.map.core._problem cimport MAPProblem
from sksstruct.inference.map.tightening._clusters cimport Clusters
from sksstruct.utils._simd cimport sks_extremes, sks_largest, sks_row_best

# Nodes between the first ones of two searches: any number that is a prime.
cdef Py_ssize_t STRIDE = 7919


def spread(Clusters clusters):
    """Return the tables of the edges plus equal shares of the scores of variables.

    Parameters
    ----------
    clusters : Clusters
        The scores.

    Returns
    -------
    tables : ndarray of shape (n_entries,)
        The tables, one after the other.
    """
    cdef double[::1] out = np.array(clusters.tables)
    # what a variable has goes to its edges alone: sums of all scores stay
    degree = np.bincount(clusters.ends.ravel(), minlength=len(clusters.states))
    cdef double[::1] share = 1.0 / np.maximum(degree, 1)
    # a loop over all entries, without the GIL
    with nogil:
        _spread(clusters, share, out)
    return np.asarray(out)


cdef void _spread(Clusters clusters, double[::1] share, double[::1] out) noexcept nogil:
    """Add the shares of both ends to all entries of each edge."""
    cdef Py_ssize_t edge, u, v, j, k, at
    for edge in range(clusters.ends_.shape[0]):
        u, v = clusters.ends_[edge, 0], clusters.ends_[edge, 1]
        at = clusters.start[edge]
        for j in range(clusters.states[u]):
            for k in range(clusters.states[v]):
                out[at] += (share[u] * clusters.beliefs_[clusters.first[u] + j]
                            + share[v] * clusters.beliefs_[clusters.first[v] + k])
                at += 1


def promising(Clusters clusters, const double[::1] tables):
    """Score the states by the best entries that the edges have with each of them.

    Parameters
    ----------
    clusters : Clusters
        The graph.
    tables : ndarray
        Scores of its edges, from `spread`.

    Returns
    -------
    beliefs : ndarray of shape (n_states.sum(),)
        Sums of the best entries, or the scores of the variable if it has no edges.
    """
    most = int(np.max(clusters.states))
    cdef double[::1] row = np.empty(most), col = np.empty(most)
    cdef double[::1] out = np.array(clusters.beliefs_)
    with nogil:
        _add_maxima(clusters, tables, row, col, out)
    return np.asarray(out)


cdef void _add_maxima(Clusters clusters, const double[::1] tables, double[::1] row,
                      double[::1] col, double[::1] out) noexcept nogil:
    """Add the maxima of rows and columns to the states of both ends."""
    cdef Py_ssize_t edge, u, v, j, k, rows, cols
    cdef const double* table
    for edge in range(clusters.ends_.shape[0]):
        u, v = clusters.ends_[edge, 0], clusters.ends_[edge, 1]
        rows, cols = clusters.states[u], clusters.states[v]
        table = &tables[clusters.start[edge]]
        # what the edge has at best with each state of either end
        sks_extremes(rows, cols, table, &row[0], &col[0])
        for j in range(rows):
            out[clusters.first[u] + j] += row[j]
        for k in range(cols):
            out[clusters.first[v] + k] += col[k]


# ---- triangles ----

@cython.final
cdef class Triangles:
    """Search for triangles of the graph that would lower the bound.

    Parameters
    ----------
    clusters : Clusters
        The graph.
    tables : ndarray
        Scores of its edges, from `spread`.
    least : float
        Triangles that lower the bound by less are left out.

    Attributes
    ----------
    work : float
        Approximate number of table entries read.
    """

    cdef Clusters _clusters
    cdef const double[::1] _tables
    # of each edge, and room for maxima
    cdef double[::1] _top, _row, _col, _third
    cdef Py_ssize_t[::1] _mark
    cdef double _least
    cdef readonly double work

    def __init__(self, Clusters clusters, const double[::1] tables, double least):
        cdef Py_ssize_t edge
        self._clusters, self._tables, self._least = clusters, tables, least
        self.work = float(len(tables))
        n_edges = len(clusters.ends)
        # maxima of edges do not depend on the triangle
        self._top = np.empty(n_edges)
        for edge in range(n_edges):
            self._top[edge] = sks_largest(
                clusters.start[edge + 1] - clusters.start[edge],
                &tables[clusters.start[edge]])
        most = int(np.max(clusters.states))
        self._row, self._col, self._third = np.empty((3, most))
        self._mark = np.full(len(clusters.states), -1, dtype=np.intp)

    def find(self, double most_work):
        """Score the triangles.

        Parameters
        ----------
        most_work : float
            Approximate number of table entries to read.

        Returns
        -------
        triplets : ndarray of shape (n, 3)
            The variables, in increasing order.
        scores : ndarray of shape (n,)
            Lower bound on the amount by which each lowers the bound.
        """
        cdef Py_ssize_t a, b, c, i, j, n = self._clusters.states.shape[0]
        cdef double score
        found, scores = [], []
        cdef Clusters clusters = self._clusters
        # b and a are earlier neighbors of c, and a is one of b: every triangle once
        for c in range(n):
            for i in range(clusters._lower[c], clusters._lower[c + 1]):
                self._mark[clusters.ends_[i, 0]] = i
            for i in range(clusters._lower[c], clusters._lower[c + 1]):
                b = clusters.ends_[i, 0]
                for j in range(clusters._lower[b], clusters._lower[b + 1]):
                    a = clusters.ends_[j, 0]
                    if self._mark[a] < 0:
                        continue
                    with nogil:
                        score = self._score(clusters, j, self._mark[a], i)
                    if score > self._least:
                        found.append((a, b, c))
                        scores.append(score)
            # the marks of the next variable are others
            for i in range(clusters._lower[c], clusters._lower[c + 1]):
                self._mark[clusters.ends_[i, 0]] = -1
            if self.work > most_work or clusters.problem.late(1000.0):
                break
        return np.array(found, dtype=np.intp).reshape(-1, 3), np.array(scores)

    cdef double _score(self, Clusters clusters, Py_ssize_t low, Py_ssize_t side,
                       Py_ssize_t high) noexcept nogil:
        """By how much the best of the three edges miss the sum of their maxima."""
        cdef Py_ssize_t n_a = clusters.states[clusters.ends_[low, 0]]
        cdef Py_ssize_t n_b = clusters.states[clusters.ends_[low, 1]]
        cdef Py_ssize_t n_c = clusters.states[clusters.ends_[side, 1]]
        cdef const double* ab = &self._tables[clusters.start[low]]
        cdef const double* ac = &self._tables[clusters.start[side]]
        cdef const double* bc = &self._tables[clusters.start[high]]
        cdef double tops = self._top[low] + self._top[side] + self._top[high]
        cdef double best = -INFINITY, total
        cdef Py_ssize_t a, b, at = 0
        # what a and b can have with c at best, each by itself
        sks_extremes(n_a, n_c, ac, &self._row[0], &self._third[0])
        sks_extremes(n_b, n_c, bc, &self._col[0], &self._third[0])
        self.work += n_a * n_b + (n_a + n_b) * n_c
        # the most promising pair first: most others need no look at the third
        total = -INFINITY
        for a in range(n_a):
            for b in range(n_b):
                if ab[a * n_b + b] + self._row[a] + self._col[b] > total:
                    at = a * n_b + b
                    total = ab[at] + self._row[a] + self._col[b]
        best = ab[at] + sks_row_best(
            n_c, 1.0, ac + at // n_b * n_c, bc + at % n_b * n_c)
        # all pairs that could be better than that
        for a in range(n_a):
            for b in range(n_b):
                if ab[a * n_b + b] + self._row[a] + self._col[b] > best:
                    self.work += n_c
                    total = sks_row_best(n_c, 1.0, ac + a * n_c, bc + b * n_c)
                    best = max(best, ab[a * n_b + b] + total)
            # it can only get less
            if tops - best <= self._least:
                return 0.0
        return tops - best


# ---- cycles ----

@cython.final
cdef class SignedGraph:
    """Splits of the states of variables, and the weights between them.

    Parameters
    ----------
    clusters : Clusters
        The graph.
    tables : ndarray
        Scores of its edges, from `spread`.
    chosen : ndarray of shape (n_variables, n_chosen)
        States that are split from the others; -1 for none.

    Attributes
    ----------
    weights : ndarray of shape (n_weights,)
        Weights that are not zero, in decreasing order of |weight|.
    ends : ndarray of shape (n_weights, 2)
        Their ends: i * n_chosen + j is the j-th state of variable i.
    work : float
        Approximate number of weights read.
    """

    cdef readonly object weights, ends
    cdef readonly double work
    cdef MAPProblem _problem
    cdef Py_ssize_t n_nodes, n_chosen
    # weights of each node, as far as they are looked at
    cdef Py_ssize_t[::1] _first, _other
    cdef char[::1] _negative
    # search: the node that each was reached from, and what has been reached
    cdef Py_ssize_t[::1] _from, _queue

    def __init__(self, Clusters clusters, const double[::1] tables,
                 const Py_ssize_t[:, ::1] chosen):
        self._problem, self.work = clusters.problem, float(len(tables))
        n_chosen = self.n_chosen = chosen.shape[1]
        self.n_nodes = chosen.shape[0] * n_chosen
        ends = clusters.ends
        weights = np.zeros((len(ends), n_chosen, n_chosen))
        most = int(np.max(clusters.states))
        _weigh(clusters, tables, chosen, weights, np.empty((3, most)),
               np.empty(most, dtype=np.intp))
        # most are zero: then neither side is preferred
        edge, s, t = np.nonzero(weights)
        weights = weights[edge, s, t]
        nodes = np.stack(
            [ends[edge, 0] * n_chosen + s, ends[edge, 1] * n_chosen + t], 1)
        # a stable sort, so that results repeat
        order = np.argsort(-np.abs(weights), kind="stable")
        self.weights, self.ends = weights[order], nodes[order].astype(np.intp)
        self._from = np.full(2 * self.n_nodes, -1, dtype=np.intp)
        self._queue = np.empty(2 * self.n_nodes, dtype=np.intp)

    def threshold(self):
        """Return the largest number that all |weights| of a contradictory cycle reach.

        Returns
        -------
        threshold : float
            The number; 0 if there is no such cycle.
        """
        cdef Py_ssize_t[::1] parent = np.arange(self.n_nodes)
        cdef char[::1] parity = np.zeros(self.n_nodes, dtype=np.int8)
        cdef const Py_ssize_t[:, ::1] ends = self.ends
        cdef const double[::1] weights = self.weights
        cdef Py_ssize_t k, u, v
        cdef char odd
        # a maximum spanning tree: the first weight that contradicts its path
        for k in range(weights.shape[0]):
            odd = weights[k] < 0.0
            u = _root(parent, parity, ends[k, 0], &odd)
            v = _root(parent, parity, ends[k, 1], &odd)
            # the path in the tree has the largest weights there are
            if u == v and odd:
                return fabs(weights[k])
            if u != v:
                parent[u], parity[u] = v, odd
        return 0.0

    def cycles(self, double threshold, Py_ssize_t skip, double most_work):
        """Yield the shortest contradictory cycles through every node.

        Parameters
        ----------
        threshold : float
            Smallest |weight| to use.
        skip : int
            Where to begin, which matters if `most_work` ends the search early.
        most_work : float
            Number of weights to read.

        Yields
        ------
        variables : list of int
            Variables of a cycle, which may repeat.
        """
        cdef Py_ssize_t root, k
        cdef bint found
        cdef double end = self.work + most_work
        # weights are sorted: those in use are the first
        n_weights = int((np.abs(self.weights) >= threshold).sum())
        self._connect(n_weights)
        for k in range(self.n_nodes):
            root = (k + skip * STRIDE) % self.n_nodes
            # a node without weights is in no cycle
            if self._first[root] == self._first[root + 1]:
                continue
            with nogil:
                found = self._search(root)
            if found:
                yield [node // self.n_chosen for node in self._path(root)]
            if self.work > end or self._problem.late(2.0 * self.n_nodes):
                return

    def _connect(self, n_weights):
        """List the first weights at both of their nodes."""
        ends, negative = self.ends[:n_weights], self.weights[:n_weights] < 0
        # each weight at either end
        both = np.concatenate([ends, ends[:, ::-1]])
        self._first, order = places_by(both[:, 0], self.n_nodes)
        self._other = np.ascontiguousarray(both[order, 1])
        self._negative = np.concatenate([negative, negative])[order].astype(np.int8)

    cdef bint _search(self, Py_ssize_t root) noexcept nogil:
        """Breadth-first from a node to itself, over an odd number of negative weights.

        Node 2 v + 1 is v after an odd number of them.
        """
        cdef Py_ssize_t i, node, other, head = 0, tail = 1
        # -1 everywhere: not reached
        memset(&self._from[0], 0xff, 2 * self.n_nodes * sizeof(Py_ssize_t))
        self.work += 0.25 * self.n_nodes
        self._queue[0], self._from[2 * root] = 2 * root, 2 * root
        while head < tail:
            # the first way to a node is a shortest one
            node = self._queue[head]
            head += 1
            self.work += self._first[node // 2 + 1] - self._first[node // 2]
            for i in range(self._first[node // 2], self._first[node // 2 + 1]):
                other = 2 * self._other[i] + ((node % 2) ^ self._negative[i])
                if self._from[other] >= 0:
                    continue
                self._from[other] = node
                # back at the root, but odd: a contradiction
                if other == 2 * root + 1:
                    return True
                self._queue[tail] = other
                tail += 1
        return False

    def _path(self, Py_ssize_t root):
        """Return the nodes of the cycle that was found."""
        cdef Py_ssize_t node = self._from[2 * root + 1]
        nodes = []
        # backward from the end; the root itself comes first
        while node != 2 * root:
            nodes.append(node // 2)
            node = self._from[node]
        return [root, *nodes]


cdef Py_ssize_t _root(Py_ssize_t[::1] parent, char[::1] parity, Py_ssize_t node,
                      char* odd) noexcept nogil:
    """The root of a node; `odd` changes where the way has odd parity."""
    cdef Py_ssize_t up
    while parent[node] != node:
        up = parent[node]
        # half the path: the next time it is shorter
        if parent[up] != up:
            parity[node] ^= parity[up]
            parent[node] = parent[up]
        odd[0] ^= parity[node]
        node = parent[node]
    return node


cdef void _weigh(Clusters clusters, const double[::1] tables,
                 const Py_ssize_t[:, ::1] chosen, double[:, :, ::1] out,
                 double[:, ::1] high, Py_ssize_t[::1] where) noexcept:
    """Maxima on the same side minus maxima on different sides, for all splits.

    `high` and `where` are room for the two largest numbers of each column, for what is
    left of them without a row, and for the row of the first one.
    """
    cdef Py_ssize_t edge
    with nogil:
        for edge in range(clusters.ends_.shape[0]):
            _weigh_edge(clusters, edge, tables, chosen, out, high, where)


cdef void _weigh_edge(Clusters clusters, Py_ssize_t edge, const double[::1] tables,
                      const Py_ssize_t[:, ::1] chosen, double[:, :, ::1] out,
                      double[:, ::1] high, Py_ssize_t[::1] where) noexcept nogil:
    """The weights of all splits of one edge."""
    cdef Py_ssize_t u = clusters.ends_[edge, 0], v = clusters.ends_[edge, 1]
    cdef Py_ssize_t rows = clusters.states[u], cols = clusters.states[v]
    cdef Py_ssize_t s, t, j, k, row, col
    cdef const double* table = &tables[clusters.start[edge]]
    cdef double* rest = &high[2, 0]
    cdef double same, differ
    # leaving out a row, the largest entry of a column is its first or its second
    for k in range(cols):
        high[0, k] = high[1, k] = -INFINITY
        for j in range(rows):
            if table[j * cols + k] > high[0, k]:
                high[1, k], high[0, k] = high[0, k], table[j * cols + k]
                where[k] = j
            elif table[j * cols + k] > high[1, k]:
                high[1, k] = table[j * cols + k]
    for s in range(chosen.shape[1]):
        row = chosen[u, s]
        if row < 0:
            continue
        # the largest of each column without that row
        for k in range(cols):
            rest[k] = high[1, k] if where[k] == row else high[0, k]
        for t in range(chosen.shape[1]):
            col = chosen[v, t]
            if col < 0:
                continue
            # both chosen, or neither; the one or the other
            same, differ = table[row * cols + col], rest[col]
            for k in range(cols):
                if k != col:
                    same = max(same, rest[k])
                    differ = max(differ, table[row * cols + k])
            out[edge, s, t] = same - differ
