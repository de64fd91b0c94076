"""Message passing between variables, edges and triplets of variables.

D. Sontag, T. Meltzer, A. Globerson, T. Jaakkola and Y. Weiss, Tightening LP relaxations
for MAP using message passing, UAI 2008: a triplet is a factor of three variables whose
scores are zero at first. It exchanges scores with its three *edges*, on which its
marginals have to agree; through variables alone it would change nothing. The order is
that of V. Kolmogorov, A new look at reweighted message passing, IEEE PAMI 37 (2015).

All scores are kept as they have been moved: those of variables and edges as tables,
those of a triplet (a, b, c) as the sum of three tables, of (a, b), (a, c) and (b, c).
Edges have their earlier variable first, and are in the order of their later variable
and then the earlier one. A sweep visits the edges that end at a variable and then that
variable. Whatever is visited takes the maxima of what contains it and was visited
before through another part, and gives what comes later equal shares. All tables that
were given are then at most zero but those of the variables, whose maxima are the bound.
"""

import numpy as np

cimport cython
from libc.math cimport INFINITY

from sksstruct.inference.map.core._index import offsets, places_by
from sksstruct.inference.map.core._problem cimport MAPProblem
from sksstruct.utils._simd cimport sks_largest, sks_row_best


@cython.final
cdef class Clusters:
    """Scores of variables, edges and triplets; labelings keep their total scores.

    Parameters
    ----------
    problem : MAPProblem
        The graph, which knows the time limit.
    rows : list of ndarrays of shape (n_states[i],)
        Scores of the variables.
    pairs : dict of (int, int) to ndarray
        Tables of edges (u, v), u < v.

    Attributes
    ----------
    beliefs : ndarray of shape (n_states.sum(),)
        Scores of the states.
    ends : ndarray of shape (n_edges, 2)
        The variables of the edges.
    triplets : ndarray of shape (n_triplets, 3)
        Variables of the triplets, in increasing order.
    bound : float
        Upper bound of the last sweep.
    """

    def __init__(self, MAPProblem problem, rows, pairs):
        self.problem = problem
        # flat, as all scores are: kernels know no lists
        self.beliefs_ = np.concatenate(rows)
        self.states = np.array([len(row) for row in rows], dtype=np.intp)
        self.first = offsets(self.states)
        # none at first: the relaxation of the edges
        self.triplets = np.zeros((0, 3), dtype=np.intp)
        self._messages = np.zeros(0)
        self.bound = INFINITY
        self._row = np.empty(int(np.max(self.states)))
        self._set_edges(pairs)
        self._index()

    def _set_edges(self, pairs):
        """Order the edges, and store their tables one after the other."""
        # those that end at a variable side by side, as sweeps visit them
        keys = sorted(pairs, key=lambda pair: (pair[1], pair[0]))
        self.ends_ = np.array(keys, dtype=np.intp).reshape(-1, 2)
        self.place = {key: edge for edge, key in enumerate(keys)}
        self.tables = np.concatenate([*(pairs[key].ravel() for key in keys), []])
        sizes = [pairs[key].size for key in keys]
        self.start = offsets(sizes)

    def _index(self):
        """List the edges and triplets of each variable, and triplets of each edge."""
        n, ends = len(self.states), np.asarray(self.ends_)
        # edges to earlier variables are where they are, those to later ones listed
        self._lower, _ = places_by(ends[:, 1], n)
        self._upper, self._upper_edge = places_by(ends[:, 0], n)
        # the edges of triplet (a, b, c) in their order: (a, b), (a, c), (b, c)
        corners = self.triplets
        parts = [self.place[a, b] for t in corners.tolist()
                 for a, b in ((t[0], t[1]), (t[0], t[2]), (t[1], t[2]))]
        # a table of its own for each of them
        parts = np.array(parts, dtype=np.intp)
        self._parts = parts.reshape(-1, 3)
        sizes = np.diff(np.asarray(self.start))[parts]
        self._start_message = start = offsets(sizes)
        # new triplets are last, and their tables are zero
        new = np.zeros(start[len(start) - 1])
        new[:self._messages.shape[0]] = self._messages
        self._messages = new
        # place 3 t + s of a list: part s of triplet t
        self._in, self._in_place = places_by(parts, len(ends))

    @property
    def beliefs(self):
        return np.asarray(self.beliefs_)

    @property
    def ends(self):
        return np.asarray(self.ends_)

    @property
    def n_entries(self):
        """The number of entries of the tables of all triplets."""
        return self._messages.shape[0]

    @property
    def sweep_work(self):
        """The approximate number of entries that a sweep reads."""
        sizes = np.asarray(self.states, dtype=np.float64)
        return 2.0 * sizes[self.triplets].prod(axis=1).sum() + 4.0 * len(self.tables)

    def add(self, triplets):
        """Add triplets, and edges with the score zero where edges are missing.

        Parameters
        ----------
        triplets : ndarray of shape (n, 3)
            New triplets; the variables of each are in increasing order.
        """
        # all tables move where edges are new, which is rare beside sweeps
        pairs = self.edge_tables()
        for a, b, c in np.asarray(triplets).tolist():
            for u, v in ((a, b), (a, c), (b, c)):
                if (u, v) not in pairs:
                    pairs[u, v] = np.zeros(self.n_states[[u, v]])
        self._set_edges(pairs)
        self.triplets = np.concatenate([self.triplets, triplets])
        self._index()

    def edge_tables(self):
        """Return the current tables of all edges.

        Returns
        -------
        tables : dict of (int, int) to ndarray of shape (n_states[u], n_states[v])
            Views of the tables.
        """
        parts = np.split(
            np.asarray(self.tables), np.asarray(self.start)[1:len(self.place)])
        sizes = self.n_states
        return {(u, v): parts[e].reshape(sizes[u], sizes[v])
                for (u, v), e in self.place.items()}

    def triplet_tables(self):
        """Yield the current tables of all triplets.

        Yields
        ------
        triplet : tuple of int
            The variables.
        table : ndarray
            Scores of their states.
        """
        parts = np.split(
            np.asarray(self._messages),
            np.asarray(self._start_message)[1:3 * len(self.triplets)])
        for t, scope in enumerate(self.triplets.tolist()):
            a, b, c = self.n_states[scope].tolist()
            shapes = (a, b, 1), (a, 1, c), (1, b, c)
            yield tuple(scope), sum(
                parts[3 * t + s].reshape(shape) for s, shape in enumerate(shapes))

    @property
    def n_states(self):
        return np.asarray(self.states)

    # ---- sweeps ----

    def sweep(self, bint backward=False):
        """Visit all edges and variables once, and update the bound.

        Parameters
        ----------
        backward : bool, default=False
            Whether to go from the last to the first.

        Returns
        -------
        bound : float
            Upper bound on all scores; inf if time ran out before the end.
        """
        # one call for all: kernels run without the GIL from here on
        with nogil:
            self._sweep(backward)
        return self.bound

    cdef int _sweep(self, bint backward) except -1 nogil:
        cdef Py_ssize_t n = self.states.shape[0], k, node, edge, i
        cdef double total = 0.0
        for k in range(n):
            node = n - 1 - k if backward else k
            # in both directions an edge comes after one end and before the other
            if backward:
                total += self._visit_node(node, True)
            for i in range(self._lower[node + 1] - self._lower[node]):
                edge = (self._lower[node + 1] - 1 - i if backward
                        else self._lower[node] + i)
                # between two edges all scores are as valid as after a whole sweep
                if self.problem.late(self._visit_edge(edge, backward)):
                    self.bound = INFINITY
                    return 0
            if not backward:
                total += self._visit_node(node, False)
        # edges and triplets are at zero: their last parts have taken their maxima
        self.bound = total
        return 0

    cdef double _visit_node(self, Py_ssize_t node, bint backward) noexcept nogil:
        """Take from edges to nodes before, give to those after; the maximum left."""
        cdef Py_ssize_t i, k, size = self.states[node]
        cdef Py_ssize_t n_lower = self._lower[node + 1] - self._lower[node]
        cdef Py_ssize_t n_upper = self._upper[node + 1] - self._upper[node]
        cdef double* belief = &self.beliefs_[self.first[node]]
        cdef Py_ssize_t n_give = n_lower if backward else n_upper
        # what the sweep back needs stays: shares are those of the busier side
        cdef double share = 1.0 / max(1, n_lower, n_upper)
        if backward:
            for i in range(self._upper[node], self._upper[node + 1]):
                self._take_first(self._upper_edge[i], belief)
            for i in range(self._lower[node], self._lower[node + 1]):
                self._give(i, True, belief, share)
        else:
            for i in range(self._lower[node], self._lower[node + 1]):
                self._take_second(i, belief)
            for i in range(self._upper[node], self._upper[node + 1]):
                self._give(self._upper_edge[i], False, belief, share)
        # what was given is gone
        for k in range(size):
            belief[k] -= n_give * (share * belief[k])
        return sks_largest(size, belief)

    cdef void _take_first(self, Py_ssize_t edge, double* belief) noexcept nogil:
        """Move the largest score of each row to the first end of an edge."""
        cdef Py_ssize_t j, k, rows = self.states[self.ends_[edge, 0]]
        cdef Py_ssize_t cols = self.states[self.ends_[edge, 1]]
        cdef double* table = &self.tables[self.start[edge]]
        cdef double top
        # afterwards the maximum of each row is zero
        for j in range(rows):
            top = sks_largest(cols, table)
            belief[j] += top
            for k in range(cols):
                table[k] -= top
            table += cols

    cdef void _take_second(self, Py_ssize_t edge, double* belief) noexcept nogil:
        """Move the largest score of each column to the second end of an edge."""
        cdef Py_ssize_t j, k, rows = self.states[self.ends_[edge, 0]]
        cdef Py_ssize_t cols = self.states[self.ends_[edge, 1]]
        cdef double* table = &self.tables[self.start[edge]]
        cdef double* top = &self._row[0]
        # row by row, as a pass over columns would miss the cache
        for k in range(cols):
            top[k] = table[k]
        for j in range(1, rows):
            for k in range(cols):
                top[k] = max(top[k], table[j * cols + k])
        # afterwards the maximum of each column is zero
        for k in range(cols):
            belief[k] += top[k]
        for j in range(rows):
            for k in range(cols):
                table[j * cols + k] -= top[k]

    cdef void _give(self, Py_ssize_t edge, bint second, const double* belief,
                    double share) noexcept nogil:
        """Add a share of the scores of an end of an edge to its rows or columns."""
        cdef Py_ssize_t j, k, cols = self.states[self.ends_[edge, 1]]
        cdef double* table = &self.tables[self.start[edge]]
        for j in range(self.states[self.ends_[edge, 0]]):
            for k in range(cols):
                table[j * cols + k] += share * (belief[k] if second else belief[j])

    # ---- triplets ----

    cdef double _visit_edge(self, Py_ssize_t edge, bint backward) noexcept nogil:
        """Take from triplets with parts before, give to those with parts after; work.

        An edge keeps a share, which its later variable will take.
        """
        cdef Py_ssize_t i, k, part, triplet, n_take = 0, n_give = 0
        cdef Py_ssize_t size = self.start[edge + 1] - self.start[edge]
        cdef double* table = &self.tables[self.start[edge]]
        cdef double* message
        cdef double share, work = 4.0 * size
        # part 0 is visited first, part 2 last, and the other way round backward
        for i in range(self._in[edge], self._in[edge + 1]):
            triplet, part = self._in_place[i] // 3, self._in_place[i] % 3
            n_give += part > 0 if backward else part < 2
            if part < 2 if backward else part > 0:
                n_take += 1
                work += self._take_triplet(triplet, part, table)
        # one share more than triplets: its own
        share = 1.0 / (1 + max(n_give, n_take))
        if n_give == 0:
            return work
        for i in range(self._in[edge], self._in[edge + 1]):
            part = self._in_place[i] % 3
            if part > 0 if backward else part < 2:
                message = &self._messages[self._start_message[self._in_place[i]]]
                for k in range(size):
                    message[k] += share * table[k]
        # after all have been given, as shares are equal
        for k in range(size):
            table[k] -= n_give * (share * table[k])
        return work + size * n_give

    cdef double _take_triplet(self, Py_ssize_t triplet, Py_ssize_t part,
                              double* table) noexcept nogil:
        """Move the largest score given each pair of states to an edge; the work."""
        cdef double* low = &self._messages[self._start_message[3 * triplet]]
        cdef double* side = &self._messages[self._start_message[3 * triplet + 1]]
        cdef double* high = &self._messages[self._start_message[3 * triplet + 2]]
        cdef Py_ssize_t n_a = self.states[self.ends_[self._parts[triplet, 0], 0]]
        cdef Py_ssize_t n_b = self.states[self.ends_[self._parts[triplet, 0], 1]]
        cdef Py_ssize_t n_c = self.states[self.ends_[self._parts[triplet, 1], 1]]
        cdef Py_ssize_t a, b, c, k
        cdef double* row = &self._row[0]
        cdef double top
        # c is innermost in all three: what it runs over lies side by side
        if part == 0:
            for a in range(n_a):
                for b in range(n_b):
                    top = sks_row_best(n_c, 1.0, side + a * n_c, high + b * n_c)
                    table[a * n_b + b] += low[a * n_b + b] + top
                    # what is left has the maximum zero
                    low[a * n_b + b] = -top
        # a row of maxima over b for each a
        elif part == 1:
            for a in range(n_a):
                for c in range(n_c):
                    row[c] = -INFINITY
                for b in range(n_b):
                    raise_row(row, high + b * n_c, low[a * n_b + b], n_c)
                for c in range(n_c):
                    k = a * n_c + c
                    table[k] += side[k] + row[c]
                    side[k] = -row[c]
        # a row of maxima over a for each b
        else:
            for b in range(n_b):
                for c in range(n_c):
                    row[c] = -INFINITY
                for a in range(n_a):
                    raise_row(row, side + a * n_c, low[a * n_b + b], n_c)
                for c in range(n_c):
                    k = b * n_c + c
                    table[k] += high[k] + row[c]
                    high[k] = -row[c]
        return <double>n_a * n_b * n_c


cdef inline void raise_row(double* row, const double* scores, double plus,
                           Py_ssize_t n) noexcept nogil:
    """row[k] = max(row[k], scores[k] + plus); faster than what tells the least, too."""
    cdef Py_ssize_t k
    for k in range(n):
        row[k] = max(row[k], scores[k] + plus)
