"""Joint best states of many variables by bucket elimination.

Bucket elimination (R. Dechter, Artificial Intelligence 113, 1999) for a maximum. In the
order of `EliminationOrder`, each variable is maximized out: the maxima for all states
of its neighbors are a new table, and the best states are backpointers. Then the
variables get their states in the reverse order. Variables whose tables would be too
large have fixed states, so that the move is exact on a subgraph of bounded width given
all other variables (width one is a forest, as in `Forest`). The labeling is optimal if
the window has all variables and no state is fixed.
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
        # `_choices`, the backpointers of all places, is allocated by `_add_part`
        self._chosen = np.zeros(n, dtype=np.int32)
        self._offset = np.zeros(n, dtype=np.intp)

    def __dealloc__(self):
        free(self._choices)

    def fits(self, Problem problem, double total):
        """Return whether elimination of all variables needs at most `total` entries.

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
        # a cheap check first: on average each variable has more than 64 edges, and
        # variables with more than MAX_NEIGHBORS neighbors cannot be eliminated
        if problem.n_edges > 32 * problem.n_variables:
            return False
        # under `all_or_nothing`, `plan` makes no random choice, and does not use the
        # state of the generator
        with nogil:
            self.window.enter(problem, &variables[0], problem.n_variables)
            self.order.plan(problem, self.window, total, total, True, &unused)
        return self.order.n_fixed == 0

    cdef double improve(self, Problem problem, int32_t* labeling,
                        const int32_t* variables, Py_ssize_t size, double budget,
                        double total, uint64_t* random) except? -1.0 nogil:
        """Give the variables of a window their best states; return the gain in score.

        Each table has at most `budget` entries, and all tables together at most
        `total`; to this end some variables may keep their states.
        """
        cdef double before
        self.solved = False
        self.window.enter(problem, variables, size)
        # with the current states among the candidates, no move lowers the score
        self.window.admit(problem, labeling)
        if not self.order.plan(problem, self.window, budget, total, False, random):
            return 0.0
        # the gain is a difference of two sums over the same tables: scores of all other
        # factors cancel
        self._buckets.load(problem, self.window, self.order, labeling)
        before = self._buckets.value(problem, self.window, labeling)
        if not self._maximize(problem):
            return 0.0
        # no failure is possible from here on: change the labeling
        self._follow_choices(problem, labeling)
        self.solved = self.order.n_fixed == 0
        return self._maximum - before

    cdef bint _maximize(self, Problem problem) except -1 nogil:
        """Eliminate the variables in order; False: no time left, or a bucket is full.
        """
        cdef Py_ssize_t rank, place, made
        cdef const Part* table
        cdef Scan scan
        self._maximum, self._n_choices = 0.0, 0
        for rank in range(self.order.n_eliminated):
            place = self.order.order[rank]
            made = self._add_part(self.order, place)
            # the pointer is valid until the next part is added
            table = &self._buckets.parts[made]
            if not self._open_bucket(&scan, place, table):
                return False
            if problem.late(
                    scan.n_parts * <double>(self._n_choices - self._offset[place])
                    * candidates_at(self.window, place)):
                return False
            self._take_maxima(&scan, place, self._buckets.entries + table.start)
            if table.count:
                self._buckets.file(self.order, made)
            else:
                # the last variable of a component: its maximum is the largest score of
                # the component
                self._maximum += self._buckets.entries[table.start]
        return True

    cdef Py_ssize_t _add_part(self, EliminationOrder order,
                              Py_ssize_t place) except -1 nogil:
        """Add the part for the maxima of a place, with room for its backpointers."""
        cdef Py_ssize_t k, new_part, count = 0, n_entries = 1
        cdef Part* table
        # states of neighbors may have been fixed after the place got its rank
        for k in range(order.n_neighbors[place]):
            if order.rank[order.neighbors[place][k]] >= 0:
                order.neighbors[place][count] = order.neighbors[place][k]
                count += 1
        order.n_neighbors[place] = count
        # `plan` has ensured that the number of entries is within the budget
        for k in range(count):
            n_entries *= candidates_at(self.window, order.neighbors[place][k])
        # parts of the bucket are over the neighbors and the eliminated place only
        new_part = self._buckets.add(n_entries)
        table = &self._buckets.parts[new_part]
        table.count = count
        for k in range(count):
            table.scope[k] = order.neighbors[place][k]
        reserve(<void**>&self._choices, &self._choices_capacity,
                self._n_choices + n_entries, sizeof(int32_t))
        self._offset[place] = self._n_choices
        self._n_choices += n_entries
        return new_part

    cdef bint _open_bucket(self, Scan* scan, Py_ssize_t place,
                           const Part* made) noexcept nogil:
        """Point `scan` at the first entries of a bucket's parts; False: too many parts.
        """
        cdef Py_ssize_t k, part = self._buckets.head[place]
        # all neighbors begin with candidate 0
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
        """Append a part to `scan`, at its first entry, and compute its strides."""
        cdef Py_ssize_t i, k, stride = 1, back = 0, p = scan.n_parts
        # a neighbor outside the scope of a part does not change the part's entry
        for k in range(made.count):
            scan.move[k][p] = 0
        # the candidate of the last place of a scope changes fastest
        for i in range(part.count - 1, -1, -1):
            if part.scope[i] == place:
                scan.own_stride[p] = stride
            for k in range(made.count):
                if made.scope[k] == part.scope[i]:
                    scan.move[k][p] = stride
                    break
            stride *= candidates_at(self.window, part.scope[i])
        # subtract offsets of faster neighbors, which return to candidate 0
        for k in range(made.count - 1, -1, -1):
            stride = scan.move[k][p]
            scan.move[k][p] = stride - back
            back += stride * (scan.radix[k] - 1)
        scan.entry[p] = part.start
        scan.n_parts += 1

    cdef void _take_maxima(self, Scan* scan, Py_ssize_t place,
                           double* out) noexcept nogil:
        """Write the maxima over a place for all candidates of its neighbors to `out`.

        Writes the backpointers to `_choices`.
        """
        cdef const double* entries = self._buckets.entries
        cdef int32_t* choice = &self._choices[self._offset[place]]
        cdef Py_ssize_t n_entries = self._n_choices - self._offset[place]
        cdef Py_ssize_t size = candidates_at(self.window, place)
        cdef Py_ssize_t n_parts = scan.n_parts, entry, best, i, k
        cdef double score, highest
        for entry in range(n_entries):
            highest, best = -INFINITY, 0
            for k in range(size):
                score = 0.0
                for i in range(n_parts):
                    score += entries[scan.entry[i] + k * scan.own_stride[i]]
                if score > highest:
                    highest, best = score, k
            out[entry] = highest
            choice[entry] = best
            _step(scan)

    cdef void _follow_choices(self, Problem problem, int32_t* labeling) noexcept nogil:
        """Set the best states by backpointers, in the reverse order of elimination."""
        cdef Py_ssize_t rank, place, k, other, entry, variable
        for rank in range(self.order.n_eliminated - 1, -1, -1):
            place = self.order.order[rank]
            # neighbors were eliminated later, and have their states already
            entry = 0
            for k in range(self.order.n_neighbors[place]):
                other = self.order.neighbors[place][k]
                entry = entry * candidates_at(self.window, other) + self._chosen[other]
            self._chosen[place] = self._choices[self._offset[place] + entry]
            variable = self.window.variable[place]
            labeling[variable] = candidate(
                self.window, problem, variable, self._chosen[place])


cdef inline void _step(Scan* scan) noexcept nogil:
    """Advance to the next candidates of the neighbors, the last neighbor fastest."""
    cdef Py_ssize_t i, k = scan.count - 1
    # as adding one to a number: full digits become zero, the next digit grows
    while k >= 0 and scan.digit[k] == scan.radix[k] - 1:
        scan.digit[k] = 0
        k -= 1
    # `move` includes the return of the faster digits
    if k >= 0:
        scan.digit[k] += 1
        for i in range(scan.n_parts):
            scan.entry[i] += scan.move[k][i]
