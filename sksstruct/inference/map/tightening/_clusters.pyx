"""Message passing between variables, edges and triplets of variables.

D. Sontag, T. Meltzer, A. Globerson, T. Jaakkola and Y. Weiss, Tightening LP relaxations
for MAP using message passing, UAI 2008: a triplet is a factor of three variables with
initial scores of zero. A triplet exchanges scores with its three *edges*, so that the
marginals of triplet and edges have to agree; agreement on variables alone would not
tighten the relaxation. The order of updates is that of V. Kolmogorov, A new look at
reweighted message passing, IEEE PAMI 37 (2015).

The arrays hold reparametrized scores: tables of variables and edges, and for a triplet
(a, b, c) the sum of three tables, of (a, b), (a, c) and (b, c). Edges have their
earlier variable first, and are sorted by their later variable and then the earlier
one. A sweep visits the edges that end at a variable, and then the variable. At the
visit of a variable, the maxima of its edges to earlier variables are moved to the
variable, and equal shares of its scores are moved to its edges to later variables. At
the visit of an edge, scores are moved between the edge and its triplets likewise. At
the end of a sweep, edges and triplets have maxima of zero, and the sum of the
variables' maxima is the bound.
"""

cimport cython
from libc.math cimport INFINITY

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.utils._pointers cimport const_int32s, const_intps, doubles
from sksstruct.utils._simd cimport sks_largest, sks_row_best


@cython.final
cdef class Sweeps:
    """Sweeps that move scores in the arrays of `Clusters`."""

    def __cinit__(self, Problem problem, arrays):
        self.problem, self._owned = problem, arrays
        self.n, self.n_edges = len(arrays.states), len(arrays.ends)
        self.states, self.first = const_intps(arrays.states), const_intps(arrays.first)
        self.beliefs, self.tables = doubles(arrays.beliefs), doubles(arrays.tables)
        self.ends = <const Pair*>const_intps(arrays.ends)
        self.start = const_intps(arrays.start)
        self.lower, self.upper = const_intps(arrays.lower), const_intps(arrays.upper)
        self._upper_edge = const_int32s(arrays.upper_edge)
        self._parts = const_intps(arrays.parts)
        self._start_message = const_intps(arrays.start_message)
        self._messages = doubles(arrays.messages)
        self._in_first = const_intps(arrays.in_)
        self._in_place = const_int32s(arrays.in_place)
        self._row = doubles(arrays.row)

    def sweep(self, bint backward):
        """Visit all edges and variables once; return the bound, inf if time ran out."""
        cdef double bound
        with nogil:
            bound = self._sweep(backward)
        return bound

    cdef double _sweep(self, bint backward) except? -1.0 nogil:
        cdef Py_ssize_t n = self.n, k, node, edge, i
        cdef double total = 0.0
        for k in range(n):
            node = n - 1 - k if backward else k
            # a sweep in either direction visits an edge between the edge's two ends
            if backward:
                total += self._visit_node(node, True)
            for i in range(self.lower[node + 1] - self.lower[node]):
                edge = (self.lower[node + 1] - 1 - i if backward
                        else self.lower[node] + i)
                # an interruption between edges leaves a valid reparametrization
                if self.problem.late(self._visit_edge(edge, backward)):
                    return INFINITY
            if not backward:
                total += self._visit_node(node, False)
        # Maxima of edges and triplets are zero, and add nothing to the bound: the end
        # that is visited last takes the maxima of an edge, and the edge that is visited
        # last takes those of a triplet.
        return total

    cdef double _visit_node(self, Py_ssize_t node, bint backward) noexcept nogil:
        """Move scores between a node and its edges.

        The maxima of an edge move to the node if the edge's other end was visited
        before; shares of the node's scores move to all other edges. Returns the maximum
        of the scores that the node keeps.
        """
        cdef Py_ssize_t i, k, size = self.states[node]
        cdef Py_ssize_t n_lower = self.lower[node + 1] - self.lower[node]
        cdef Py_ssize_t n_upper = self.upper[node + 1] - self.upper[node]
        cdef double* belief = &self.beliefs[self.first[node]]
        cdef Py_ssize_t n_give = n_lower if backward else n_upper
        # as in TRW-S, the share is 1 / max(number of edges to earlier variables, number
        # of edges to later variables)
        cdef double share = 1.0 / max(1, n_lower, n_upper)
        if backward:
            for i in range(self.upper[node], self.upper[node + 1]):
                self._take_row_maxima(self._upper_edge[i], belief)
            for i in range(self.lower[node], self.lower[node + 1]):
                self._give_share(i, True, belief, share)
        else:
            for i in range(self.lower[node], self.lower[node + 1]):
                self._take_column_maxima(i, belief)
            for i in range(self.upper[node], self.upper[node + 1]):
                self._give_share(self._upper_edge[i], False, belief, share)
        # subtract the shares given to edges
        for k in range(size):
            belief[k] -= n_give * (share * belief[k])
        return sks_largest(size, belief)

    cdef void _take_row_maxima(self, Py_ssize_t edge, double* belief) noexcept nogil:
        """Move the maximum of each row of an edge's table to its first end."""
        cdef Py_ssize_t j, k, rows = self.states[self.ends[edge][0]]
        cdef Py_ssize_t cols = self.states[self.ends[edge][1]]
        cdef double* table = &self.tables[self.start[edge]]
        cdef double top
        for j in range(rows):
            top = sks_largest(cols, table)
            belief[j] += top
            for k in range(cols):
                table[k] -= top
            table += cols

    cdef void _take_column_maxima(self, Py_ssize_t edge, double* belief) noexcept nogil:
        """Move the maximum of each column of an edge's table to its second end."""
        cdef Py_ssize_t j, k, rows = self.states[self.ends[edge][0]]
        cdef Py_ssize_t cols = self.states[self.ends[edge][1]]
        cdef double* table = &self.tables[self.start[edge]]
        cdef double* top = self._row
        # row by row, for contiguous reads
        for k in range(cols):
            top[k] = table[k]
        for j in range(1, rows):
            for k in range(cols):
                top[k] = max(top[k], table[j * cols + k])
        for k in range(cols):
            belief[k] += top[k]
        for j in range(rows):
            for k in range(cols):
                table[j * cols + k] -= top[k]

    cdef void _give_share(self, Py_ssize_t edge, bint second, const double* belief,
                          double share) noexcept nogil:
        """Add a share of one end's scores to the rows or columns of an edge's table."""
        cdef Py_ssize_t j, k, cols = self.states[self.ends[edge][1]]
        cdef double* table = &self.tables[self.start[edge]]
        for j in range(self.states[self.ends[edge][0]]):
            for k in range(cols):
                table[j * cols + k] += share * (belief[k] if second else belief[j])

    # ---- triplets ----

    cdef double _visit_edge(self, Py_ssize_t edge, bint backward) noexcept nogil:
        """Move maxima of triplets to an edge, and shares of its scores to triplets.

        The edge receives maxima of triplets of which another edge was visited before,
        gives shares to triplets of which another edge is visited later, and keeps one
        share. Returns the work in table entries.
        """
        cdef Py_ssize_t i, k, part, triplet, n_take = 0, n_give = 0
        cdef Py_ssize_t size = self.start[edge + 1] - self.start[edge]
        cdef double* table = &self.tables[self.start[edge]]
        cdef double* message
        cdef double share, work = 4.0 * size
        # of the three edges of a triplet, a forward sweep visits part 0 first and part
        # 2 last; a backward sweep visits part 2 first and part 0 last
        for i in range(self._in_first[edge], self._in_first[edge + 1]):
            triplet, part = self._in_place[i] // 3, self._in_place[i] % 3
            n_give += part > 0 if backward else part < 2
            if part < 2 if backward else part > 0:
                n_take += 1
                work += self._take_triplet_maxima(triplet, part, table)
        # one share for each triplet, and one that the edge keeps
        share = 1.0 / (1 + max(n_give, n_take))
        if n_give == 0:
            return work
        for i in range(self._in_first[edge], self._in_first[edge + 1]):
            part = self._in_place[i] % 3
            if part > 0 if backward else part < 2:
                message = &self._messages[self._start_message[self._in_place[i]]]
                for k in range(size):
                    message[k] += share * table[k]
        # subtract the shares given to triplets
        for k in range(size):
            table[k] -= n_give * (share * table[k])
        return work + size * n_give

    cdef double _take_triplet_maxima(self, Py_ssize_t triplet, Py_ssize_t part,
                                     double* table) noexcept nogil:
        """Move a triplet's maxima to its edge `part`; return the work in table entries.

        The maxima are over the states of the third variable, for each pair of states of
        the edge.
        """
        cdef double* low = &self._messages[self._start_message[3 * triplet]]
        cdef double* side = &self._messages[self._start_message[3 * triplet + 1]]
        cdef double* high = &self._messages[self._start_message[3 * triplet + 2]]
        cdef Py_ssize_t n_a = self.states[self.ends[self._parts[3 * triplet]][0]]
        cdef Py_ssize_t n_b = self.states[self.ends[self._parts[3 * triplet]][1]]
        cdef Py_ssize_t n_c = self.states[self.ends[self._parts[3 * triplet + 1]][1]]
        cdef Py_ssize_t a, b, c, k
        cdef double* row = self._row
        cdef double top
        # `low`, `side` and `high` are the triplet's tables of (a, b), (a, c) and (b,
        # c). The innermost loop is over c in all three cases, for contiguous reads.
        if part == 0:
            for a in range(n_a):
                for b in range(n_b):
                    top = sks_row_best(n_c, 1.0, side + a * n_c, high + b * n_c)
                    table[a * n_b + b] += low[a * n_b + b] + top
                    # the triplet's maximum for this pair becomes zero
                    low[a * n_b + b] = -top
        # for each a, compute a row of maxima over b
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
        # for each b, compute a row of maxima over a
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
    """row[k] = max(row[k], scores[k] + plus)."""
    cdef Py_ssize_t k
    for k in range(n):
        row[k] = max(row[k], scores[k] + plus)
