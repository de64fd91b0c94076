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

cimport cython
from libc.math cimport INFINITY

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.utils._pointers cimport const_int32s, const_intps, doubles
from sksstruct.utils._simd cimport sks_largest, sks_row_best


@cython.final
cdef class Sweeps:
    """Sweeps over the arrays of `Clusters`, which are checked there."""

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
        self._in = const_intps(arrays.in_)
        self._in_place = const_int32s(arrays.in_place)
        self._row = doubles(arrays.row)

    def sweep(self, bint backward):
        """Visit all edges and variables once; the bound, inf if time ran out."""
        cdef double bound
        # one call for all: kernels run without the GIL from here on
        with nogil:
            bound = self._sweep(backward)
        return bound

    cdef double _sweep(self, bint backward) except? -1.0 nogil:
        cdef Py_ssize_t n = self.n, k, node, edge, i
        cdef double total = 0.0
        for k in range(n):
            node = n - 1 - k if backward else k
            # in both directions an edge comes after one end and before the other
            if backward:
                total += self._visit_node(node, True)
            for i in range(self.lower[node + 1] - self.lower[node]):
                edge = (self.lower[node + 1] - 1 - i if backward
                        else self.lower[node] + i)
                # between two edges all scores are as valid as after a whole sweep
                if self.problem.late(self._visit_edge(edge, backward)):
                    return INFINITY
            if not backward:
                total += self._visit_node(node, False)
        # edges and triplets are at zero: their last parts have taken their maxima
        return total

    cdef double _visit_node(self, Py_ssize_t node, bint backward) noexcept nogil:
        """Take from edges to nodes before, give to those after; the maximum left."""
        cdef Py_ssize_t i, k, size = self.states[node]
        cdef Py_ssize_t n_lower = self.lower[node + 1] - self.lower[node]
        cdef Py_ssize_t n_upper = self.upper[node + 1] - self.upper[node]
        cdef double* belief = &self.beliefs[self.first[node]]
        cdef Py_ssize_t n_give = n_lower if backward else n_upper
        # what the sweep back needs stays: shares are those of the busier side
        cdef double share = 1.0 / max(1, n_lower, n_upper)
        if backward:
            for i in range(self.upper[node], self.upper[node + 1]):
                self._take_first(self._upper_edge[i], belief)
            for i in range(self.lower[node], self.lower[node + 1]):
                self._give(i, True, belief, share)
        else:
            for i in range(self.lower[node], self.lower[node + 1]):
                self._take_second(i, belief)
            for i in range(self.upper[node], self.upper[node + 1]):
                self._give(self._upper_edge[i], False, belief, share)
        # what was given is gone
        for k in range(size):
            belief[k] -= n_give * (share * belief[k])
        return sks_largest(size, belief)

    cdef void _take_first(self, Py_ssize_t edge, double* belief) noexcept nogil:
        """Move the largest score of each row to the first end of an edge."""
        cdef Py_ssize_t j, k, rows = self.states[self.ends[edge][0]]
        cdef Py_ssize_t cols = self.states[self.ends[edge][1]]
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
        cdef Py_ssize_t j, k, rows = self.states[self.ends[edge][0]]
        cdef Py_ssize_t cols = self.states[self.ends[edge][1]]
        cdef double* table = &self.tables[self.start[edge]]
        cdef double* top = self._row
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
        cdef Py_ssize_t j, k, cols = self.states[self.ends[edge][1]]
        cdef double* table = &self.tables[self.start[edge]]
        for j in range(self.states[self.ends[edge][0]]):
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
        cdef Py_ssize_t n_a = self.states[self.ends[self._parts[3 * triplet]][0]]
        cdef Py_ssize_t n_b = self.states[self.ends[self._parts[3 * triplet]][1]]
        cdef Py_ssize_t n_c = self.states[self.ends[self._parts[3 * triplet + 1]][1]]
        cdef Py_ssize_t a, b, c, k
        cdef double* row = self._row
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
