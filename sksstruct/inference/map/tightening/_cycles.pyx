"""Triangles and cycles on which the best entries of edges contradict each other.

D. Sontag, T. Meltzer, A. Globerson, T. Jaakkola and Y. Weiss, Tightening LP relaxations
for MAP using message passing, UAI 2008: a triplet lowers the bound by at least

    max of (a, b) + max of (a, c) + max of (b, c) - max of their sum

For longer cycles, D. Sontag, D. K. Choe and Y. Li, Efficiently searching for frustrated
cycles in MAP inference, UAI 2012: a split separates one state of a variable from all
others. The weight of an edge between two splits is its maximum with both ends on the
same side, minus its maximum with the ends on different sides. No labeling has the best
entries of all edges of a cycle with an odd number of negative weights, so that every
labeling loses at least the smallest |weight| of the cycle.
"""

cimport cython
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int8_t
from libc.string cimport memset

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.tightening._clusters cimport Sweeps
from sksstruct.utils._pointers cimport (
    const_doubles, const_int8s, const_intps, doubles, int8s, intps,
)
from sksstruct.utils._simd cimport sks_extremes, sks_row_best

# Distance of the first roots of successive searches: a prime, to visit all nodes.
cdef Py_ssize_t STRIDE = 7919


def add_shares(Sweeps clusters, shares, out_tables):
    """Add shares of the scores of both ends to the table of each edge."""
    cdef Py_ssize_t edge, u, v, j, k, entry
    cdef const double* share = const_doubles(shares)
    cdef double* out = doubles(out_tables)
    with nogil:
        for edge in range(clusters.n_edges):
            u, v = clusters.ends[edge][0], clusters.ends[edge][1]
            entry = clusters.start[edge]
            for j in range(clusters.states[u]):
                for k in range(clusters.states[v]):
                    out[entry] += (share[u] * clusters.beliefs[clusters.first[u] + j]
                                   + share[v] * clusters.beliefs[clusters.first[v] + k])
                    entry += 1


def add_maxima(Sweeps clusters, all_tables, row_room, col_room, beliefs):
    """Add row and column maxima of each edge's table to the scores of its ends."""
    cdef Py_ssize_t edge, u, v, j, k, rows, cols
    cdef const double* tables = const_doubles(all_tables)
    cdef double* row = doubles(row_room)
    cdef double* col = doubles(col_room)
    cdef double* out = doubles(beliefs)
    with nogil:
        for edge in range(clusters.n_edges):
            u, v = clusters.ends[edge][0], clusters.ends[edge][1]
            rows, cols = clusters.states[u], clusters.states[v]
            # best entry of the edge for each state of either end
            sks_extremes(rows, cols, tables + clusters.start[edge], row, col)
            for j in range(rows):
                out[clusters.first[u] + j] += row[j]
            for k in range(cols):
                out[clusters.first[v] + k] += col[k]


# ---- triangles ----

@cython.final
cdef class TriangleSearch:
    """Search for triangles that would lower the bound by more than `least`."""

    cdef Sweeps _clusters
    cdef object _owned
    cdef const double* _tables
    # maximum of each edge table; workspace for row and column maxima
    cdef const double* _top
    cdef double* _row
    cdef double* _col
    cdef double* _third
    cdef Py_ssize_t* _mark
    cdef double _least
    cdef readonly double work

    def __cinit__(self, Sweeps clusters, double least, double work, arrays, room):
        self._clusters, self._least, self.work = clusters, least, work
        self._owned = arrays, room
        tables, top, mark = arrays
        self._tables, self._top = const_doubles(tables), const_doubles(top)
        self._mark, self._row = intps(mark), doubles(room)
        self._col = self._row + <Py_ssize_t>len(room[0])
        self._third = self._col + (self._col - self._row)

    def find(self, double most_work):
        """Return the triangles, and the guaranteed decrease of the bound by each."""
        cdef Py_ssize_t a, b, c, i, j
        cdef double score
        cdef list found = [], scores = []
        cdef Sweeps clusters = self._clusters
        # a < b < c finds every triangle once; `_mark` holds the edges of c by neighbor
        for c in range(clusters.n):
            for i in range(clusters.lower[c], clusters.lower[c + 1]):
                self._mark[clusters.ends[i][0]] = i
            for i in range(clusters.lower[c], clusters.lower[c + 1]):
                b = clusters.ends[i][0]
                for j in range(clusters.lower[b], clusters.lower[b + 1]):
                    a = clusters.ends[j][0]
                    if self._mark[a] < 0:
                        continue
                    with nogil:
                        score = self._score(clusters, j, self._mark[a], i)
                    if score > self._least:
                        found.append((a, b, c))
                        scores.append(score)
            # reset the marks for the next variable
            for i in range(clusters.lower[c], clusters.lower[c + 1]):
                self._mark[clusters.ends[i][0]] = -1
            if self.work > most_work or clusters.problem.late(1000.0):
                break
        return found, scores

    cdef double _score(self, Sweeps clusters, Py_ssize_t low, Py_ssize_t side,
                       Py_ssize_t high) noexcept nogil:
        """Return the decrease of the bound that a triangle guarantees; 0 if too small.

        This is the sum of the maxima of the three edges, minus the maximum of their
        sum. `low`, `side` and `high` are the edges (a, b), (a, c) and (b, c).
        """
        cdef Py_ssize_t n_a = clusters.states[clusters.ends[low][0]]
        cdef Py_ssize_t n_b = clusters.states[clusters.ends[low][1]]
        cdef Py_ssize_t n_c = clusters.states[clusters.ends[side][1]]
        cdef const double* ab = &self._tables[clusters.start[low]]
        cdef const double* ac = &self._tables[clusters.start[side]]
        cdef const double* bc = &self._tables[clusters.start[high]]
        cdef double tops = self._top[low] + self._top[side] + self._top[high]
        cdef double best = -INFINITY, total
        cdef Py_ssize_t a, b, best_pair = 0
        # best entries of (a, c) for each state of a, and of (b, c) for each state of b
        sks_extremes(n_a, n_c, ac, self._row, self._third)
        sks_extremes(n_b, n_c, bc, self._col, self._third)
        self.work += n_a * n_b + (n_a + n_b) * n_c
        # begin with the pair (a, b) of the largest upper bound
        total = -INFINITY
        for a in range(n_a):
            for b in range(n_b):
                if ab[a * n_b + b] + self._row[a] + self._col[b] > total:
                    best_pair = a * n_b + b
                    total = ab[best_pair] + self._row[a] + self._col[b]
        best = ab[best_pair] + sks_row_best(
            n_c, 1.0, ac + best_pair // n_b * n_c, bc + best_pair % n_b * n_c)
        # compute the maxima of other pairs whose upper bound is above the best maximum
        for a in range(n_a):
            for b in range(n_b):
                if ab[a * n_b + b] + self._row[a] + self._col[b] > best:
                    self.work += n_c
                    total = sks_row_best(n_c, 1.0, ac + a * n_c, bc + b * n_c)
                    best = max(best, ab[a * n_b + b] + total)
            # `best` can only rise, so that the decrease can only become smaller
            if tops - best <= self._least:
                return 0.0
        return tops - best


# ---- cycles ----

def weigh(Sweeps clusters, tables, chosen, Py_ssize_t n_chosen, weights, high, where):
    """Compute the weights of all pairs of splits of all edges.

    A split separates one state of a variable from all other states.
    `high` and `where` are workspace: three rows of numbers, and one of indices.
    """
    cdef Py_ssize_t edge
    cdef const double* entries = const_doubles(tables)
    cdef const Py_ssize_t* states = const_intps(chosen)
    cdef double* out = doubles(weights)
    cdef double* room = doubles(high)
    cdef Py_ssize_t* row = intps(where)
    with nogil:
        for edge in range(clusters.n_edges):
            _weigh_edge(clusters, edge, entries, states, n_chosen, out, room, row)


cdef void _weigh_edge(Sweeps clusters, Py_ssize_t edge, const double* tables,
                      const Py_ssize_t* chosen, Py_ssize_t n_chosen, double* out,
                      double* high, Py_ssize_t* where) noexcept nogil:
    """Compute the weights of all pairs of splits of one edge."""
    cdef Py_ssize_t u = clusters.ends[edge][0], v = clusters.ends[edge][1]
    cdef Py_ssize_t rows = clusters.states[u], cols = clusters.states[v]
    cdef Py_ssize_t s, t, j, k, row, col
    cdef const double* table = &tables[clusters.start[edge]]
    # of each column: largest entry (`high`), second largest entry, and largest entry
    # outside the row of the split state (`rest`)
    cdef double* second = high + cols
    cdef double* rest = high + 2 * cols
    cdef double same, differ
    # without one row, the maximum of a column is its largest or second largest entry
    for k in range(cols):
        high[k] = second[k] = -INFINITY
        for j in range(rows):
            if table[j * cols + k] > high[k]:
                second[k], high[k] = high[k], table[j * cols + k]
                where[k] = j
            elif table[j * cols + k] > second[k]:
                second[k] = table[j * cols + k]
    for s in range(n_chosen):
        row = chosen[u * n_chosen + s]
        if row < 0:
            continue
        # find the maximum of each column without the row of the split state
        for k in range(cols):
            rest[k] = second[k] if where[k] == row else high[k]
        for t in range(n_chosen):
            col = chosen[v * n_chosen + t]
            if col < 0:
                continue
            # compute the maxima with both or neither of the split states, and with
            # exactly one
            same, differ = table[row * cols + col], rest[col]
            for k in range(cols):
                if k != col:
                    same = max(same, rest[k])
                    differ = max(differ, table[row * cols + k])
            out[(edge * n_chosen + s) * n_chosen + t] = same - differ


def first_contradiction(all_weights, all_ends, parents, parities):
    """Return the first |weight| whose sign contradicts the path between its ends, or 0.

    Weights are in descending order of |weight|. The path is in the forest of the
    weights before.
    """
    cdef const double* weights = const_doubles(all_weights)
    cdef const Py_ssize_t* ends = const_intps(all_ends)
    cdef Py_ssize_t* parent = intps(parents)
    cdef int8_t* parity = int8s(parities)
    cdef Py_ssize_t k, u, v, n = len(all_weights)
    cdef int8_t odd
    # Kruskal's maximum spanning forest: union-find with the parity of paths
    for k in range(n):
        odd = weights[k] < 0.0
        u = _root(parent, parity, ends[2 * k], &odd)
        v = _root(parent, parity, ends[2 * k + 1], &odd)
        # all |weights| of the path in the forest are at least |weights[k]|
        if u == v and odd:
            return fabs(weights[k])
        if u != v:
            parent[u], parity[u] = v, odd
    return 0.0


cdef Py_ssize_t _root(Py_ssize_t* parent, int8_t* parity, Py_ssize_t node,
                      int8_t* odd) noexcept nogil:
    """Return the root of a node; flips `odd` if the path has odd parity."""
    cdef Py_ssize_t up
    while parent[node] != node:
        up = parent[node]
        # path halving: skip every other node of the path
        if parent[up] != up:
            parity[node] ^= parity[up]
            parent[node] = parent[up]
        odd[0] ^= parity[node]
        node = parent[node]
    return node


@cython.final
cdef class CycleSearch:
    """Search for cycles with an odd number of negative weights (contradictions)."""

    cdef Problem _problem
    cdef object _owned
    cdef readonly double work
    cdef double _end
    cdef Py_ssize_t n_nodes
    # of each node: offset of its weights in the arrays below; of each of these weights:
    # the node at the other end, and whether the weight is negative
    cdef const Py_ssize_t* _first
    cdef const Py_ssize_t* _other
    cdef const int8_t* _negative
    # breadth-first search: predecessor of each node, and the queue
    cdef Py_ssize_t* _reached_from
    cdef Py_ssize_t* _queue

    def __cinit__(self, Problem problem, Py_ssize_t n_nodes, arrays, double work,
                  double end):
        self._problem, self.n_nodes, self._owned = problem, n_nodes, arrays
        self.work, self._end = work, end
        first, other, negative, reached, queue = arrays
        self._first, self._other = const_intps(first), const_intps(other)
        self._negative = const_int8s(negative)
        self._reached_from, self._queue = intps(reached), intps(queue)

    def go_on(self, Py_ssize_t k, Py_ssize_t skip):
        """Search from the roots k, k + 1, ... until one of them is on a cycle.

        Returns the number after this root and the cycle, or -1 and None at the end.
        """
        cdef Py_ssize_t root
        cdef bint found
        # after a cycle, check the limits before the search continues
        if k > 0 and self._is_over():
            return -1, None
        for k in range(k, self.n_nodes):
            root = (k + skip * STRIDE) % self.n_nodes
            # a node without weights is in no cycle
            if self._first[root] == self._first[root + 1]:
                continue
            with nogil:
                found = self._search(root)
            if found:
                return k + 1, self._path(root)
            if self._is_over():
                break
        return -1, None

    cdef bint _is_over(self) except -1:
        """Whether the work or the time is used up."""
        return self.work > self._end or self._problem.late(2.0 * self.n_nodes)

    cdef bint _search(self, Py_ssize_t root) noexcept nogil:
        """Search for a walk back to the root over an odd number of negative weights.

        Breadth first; node 2 v is v after an even number of negative weights, 2 v + 1
        after an odd number.
        """
        cdef Py_ssize_t i, node, other, head = 0, tail = 1
        # -1 means that a node has not been reached
        memset(self._reached_from, 0xff, 2 * self.n_nodes * sizeof(Py_ssize_t))
        self.work += 0.25 * self.n_nodes
        self._queue[0], self._reached_from[2 * root] = 2 * root, 2 * root
        while head < tail:
            # breadth first: the first path to a node is a shortest one
            node = self._queue[head]
            head += 1
            self.work += self._first[node // 2 + 1] - self._first[node // 2]
            for i in range(self._first[node // 2], self._first[node // 2 + 1]):
                other = 2 * self._other[i] + ((node % 2) ^ self._negative[i])
                if self._reached_from[other] >= 0:
                    continue
                self._reached_from[other] = node
                # back at the root with odd parity: a contradictory cycle
                if other == 2 * root + 1:
                    return True
                self._queue[tail] = other
                tail += 1
        return False

    cdef list _path(self, Py_ssize_t root):
        """Return the nodes of the cycle found, the root first."""
        cdef Py_ssize_t node = self._reached_from[2 * root + 1]
        cdef list nodes = []
        while node != 2 * root:
            nodes.append(node // 2)
            node = self._reached_from[node]
        return [root, *nodes]
