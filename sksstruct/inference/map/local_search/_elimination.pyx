"""Best states of many variables at once by eliminating them one after the other.

Dechter, Bucket elimination (Artificial Intelligence 113, 1999), for a maximum. In the
order of `EliminationOrder`, each variable is maximized over for all states of its
neighbors: the maxima are a new table over these, the best states are remembered. Then
the variables get their states in the reverse order. Variables whose tables would be too
large keep their states, so that what is solved exactly is a subgraph of bounded width,
given the rest: with width one it is a forest, as in `Forest`. Where no variable had to
keep its state the labeling is optimal.
"""

import numpy as np

cimport cython
from libc.math cimport INFINITY
from libc.stdlib cimport free

from sksstruct.inference.map.local_search._window cimport candidate, candidates_at
from sksstruct.utils._memory cimport reserve


@cython.final
cdef class Elimination:
    """Exact moves in windows of a problem.

    Attributes
    ----------
    window : Window
        The variables of the last move, and the states that variables may take.
    order : EliminationOrder
        The order of the last move.
    solved : bool
        Whether all variables of the last move could change.
    """

    def __cinit__(self, Problem problem):
        cdef Py_ssize_t n = problem.n_variables
        self.window = Window(problem)
        self.order = EliminationOrder(problem)
        self._buckets = Buckets(problem)
        # choices of all tables are in one array that grows; these say where and which
        self._chosen = np.zeros(n, dtype=np.int32)
        self._begin = np.zeros(n, dtype=np.intp)

    def __dealloc__(self):
        free(self._choices)

    def fits(self, Problem problem, double total):
        """Return whether all variables can be eliminated with so many entries.

        Parameters
        ----------
        problem : MAPProblem
            The graph.
        total : float
            Largest number of entries of all tables.

        Returns
        -------
        fits : bool
            Whether `improve` with all variables would fix no variable.
        """
        cdef uint64_t unused = 1
        cdef int32_t[::1] variables = np.arange(problem.n_variables, dtype=np.int32)
        # a cheap look first: with so many edges, some variable has more of them than
        # a bucket holds
        if problem.n_edges > 32 * problem.n_variables:
            return False
        # nothing is kept, so that no random choice is made
        with nogil:
            self.window.enter(problem, &variables[0], problem.n_variables)
            self.order.plan(problem, self.window, total, total, True, &unused)
        return self.order.n_fixed == 0

    cdef double improve(self, Problem problem, int32_t* labeling,
                        const int32_t* variables, Py_ssize_t size, double budget,
                        double total, uint64_t* random) except? -1.0 nogil:
        """Give the variables of a window their best states; the gain in score.

        Tables have `budget` entries at most, and `total` together: some variables may
        have to keep their states.
        """
        cdef double before
        self.solved = False
        self.window.enter(problem, variables, size)
        # the labeling is among those compared, so that no move loses
        self.window.admit(problem, labeling)
        if not self.order.plan(problem, self.window, budget, total, False, random):
            return 0.0
        # in terms of the same tables, what the labeling scores without the window drops
        # out of the gain
        self._buckets.load(problem, self.window, self.order, labeling)
        before = self._buckets.value(problem, self.window, labeling)
        if not self._maximize(problem):
            return 0.0
        # nothing has changed before this, whatever failed
        self._read_off(problem, labeling)
        self.solved = self.order.n_fixed == 0
        return self._maximum - before

    cdef bint _maximize(self, Problem problem) except -1 nogil:
        """Eliminate the variables in order; False: no time, or a bucket is too full."""
        cdef Py_ssize_t rank, place, made
        cdef const Part* table
        cdef Scan scan
        self._maximum, self._n_choices = 0.0, 0
        for rank in range(self.order.n_eliminated):
            place = self.order.order[rank]
            made = self._prepare(self.order, place)
            # the pointers hold until the next part is added
            table = &self._buckets.parts[made]
            if not self._open_bucket(&scan, place, table):
                return False
            if problem.late(
                    scan.n_parts * <double>(self._n_choices - self._begin[place])
                    * candidates_at(self.window, place)):
                return False
            self._visit(&scan, place, self._buckets.entries + table.start)
            if table.count:
                self._buckets.file(self.order, made)
            else:
                # the last variable of a component: its maximum is that of the component
                self._maximum += self._buckets.entries[table.start]
        return True

    cdef Py_ssize_t _prepare(self, EliminationOrder order,
                             Py_ssize_t place) except -1 nogil:
        """Add the part that eliminating a place makes, and room for its choices."""
        cdef Py_ssize_t k, made, count = 0, n_entries = 1
        cdef Part* table
        # neighbors may have been kept after the place got its rank
        for k in range(order.n_neighbors[place]):
            if order.rank[order.neighbors[place][k]] >= 0:
                order.neighbors[place][count] = order.neighbors[place][k]
                count += 1
        order.n_neighbors[place] = count
        # no more than the budget, as the order has seen to
        for k in range(count):
            n_entries *= candidates_at(self.window, order.neighbors[place][k])
        # its neighbors are all that its bucket has besides itself
        made = self._buckets.add(n_entries)
        table = &self._buckets.parts[made]
        table.count = count
        for k in range(count):
            table.scope[k] = order.neighbors[place][k]
        reserve(<void**>&self._choices, &self._choices_capacity,
                self._n_choices + n_entries, sizeof(int32_t))
        self._begin[place] = self._n_choices
        self._n_choices += n_entries
        return made

    cdef bint _open_bucket(self, Scan* scan, Py_ssize_t place,
                           const Part* made) noexcept nogil:
        """Point at the first entries of all parts of a bucket; False: too many."""
        cdef Py_ssize_t k, part = self._buckets.head[place]
        # from candidate 0 of all neighbors on
        scan.n_parts, scan.count = 0, made.count
        for k in range(made.count):
            scan.digit[k] = 0
            scan.radix[k] = candidates_at(self.window, made.scope[k])
        while part >= 0:
            if scan.n_parts == MAX_PARTS:
                return False
            self._open_part(scan, place, made, &self._buckets.parts[part])
            part = self._buckets.parts[part].next
        return True

    cdef void _open_part(self, Scan* scan, Py_ssize_t place, const Part* made,
                         const Part* part) noexcept nogil:
        """Point at the first entry of a part, and find how its entries lie."""
        cdef Py_ssize_t i, k, stride = 1, back = 0, at = scan.n_parts
        # a part stays where it is while a neighbor outside of its scope moves
        for k in range(made.count):
            scan.move[k][at] = 0
        # the last place of a scope is the fastest
        for i in range(part.count - 1, -1, -1):
            if part.scope[i] == place:
                scan.own_stride[at] = stride
            for k in range(made.count):
                if made.scope[k] == part.scope[i]:
                    scan.move[k][at] = stride
                    break
            stride *= candidates_at(self.window, part.scope[i])
        # less the way back of the neighbors after each one
        for k in range(made.count - 1, -1, -1):
            stride = scan.move[k][at]
            scan.move[k][at] = stride - back
            back += stride * (scan.radix[k] - 1)
        scan.entry[at] = part.start
        scan.n_parts += 1

    cdef void _visit(self, Scan* scan, Py_ssize_t place,
                     double* out) noexcept nogil:
        """Maximize over a place for all states of its neighbors."""
        cdef const double* entries = self._buckets.entries
        cdef int32_t* choice = &self._choices[self._begin[place]]
        cdef Py_ssize_t n_entries = self._n_choices - self._begin[place]
        cdef Py_ssize_t size = candidates_at(self.window, place)
        cdef Py_ssize_t n_parts = scan.n_parts, entry, best, i, k
        cdef double score, top
        # entry by entry, so that both arrays are written in order and read anywhere
        for entry in range(n_entries):
            top, best = -INFINITY, 0
            # in the order of the bucket, for each candidate of the variable itself
            for k in range(size):
                score = 0.0
                for i in range(n_parts):
                    score += entries[scan.entry[i] + k * scan.own_stride[i]]
                if score > top:
                    top, best = score, k
            out[entry] = top
            choice[entry] = best
            _step(scan)

    cdef void _read_off(self, Problem problem, int32_t* labeling) noexcept nogil:
        """Give the variables their best states, the last one eliminated first."""
        cdef Py_ssize_t rank, place, k, other, entry, variable
        for rank in range(self.order.n_eliminated - 1, -1, -1):
            place = self.order.order[rank]
            # its neighbors were eliminated after it, and so have their states by now
            entry = 0
            for k in range(self.order.n_neighbors[place]):
                other = self.order.neighbors[place][k]
                entry = entry * candidates_at(self.window, other) + self._chosen[other]
            self._chosen[place] = self._choices[self._begin[place] + entry]
            variable = self.window.variable[place]
            labeling[variable] = candidate(
                self.window, problem, variable, self._chosen[place])


cdef inline void _step(Scan* scan) noexcept nogil:
    """Go on to the next states of the neighbors, the last one fastest."""
    cdef Py_ssize_t i, k = scan.count - 1
    # like a number: the digits that are full go back to zero, the next one goes on
    while k >= 0 and scan.digit[k] == scan.radix[k] - 1:
        scan.digit[k] = 0
        k -= 1
    # one pass over the parts, as their moves have the ways back in them
    if k >= 0:
        scan.digit[k] += 1
        for i in range(scan.n_parts):
            scan.entry[i] += scan.move[k][i]
