"""The order in which the variables of a window are eliminated.

Eliminating a variable makes a table of its neighbors, which are then neighbors of each
other. The next variable is the one whose elimination visits the fewest entries (the
min-weight heuristic; Dechter, Bucket elimination, Artificial Intelligence 113, 1999).
Where every table would be larger than a budget, the variable with most neighbors keeps
its state instead: it leaves the window, and nobody has it as a neighbor any more.
"""

cimport cython
from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free

from sksstruct.inference.map.core._problem cimport other_end
from sksstruct.inference.map.local_search._window cimport candidates_at, leave
from sksstruct.utils._memory cimport resize
from sksstruct.utils._random cimport step_random

# Variables that are not eliminated have no rank yet, or never get one.
cdef enum:
    WAITING = -1
    KEPT = -2

# Graphs whose cyclic part has more variables are not looked at as a whole: every step
# looks at all variables that are left, which takes quadratic time.
cdef Py_ssize_t MAX_CORE = 3000


@cython.final
cdef class EliminationOrder:
    """Elimination order for windows of a problem.

    Attributes
    ----------
    n_fixed : int
        Number of variables of the last window that have to keep their states.
    n_entries : int
        Number of entries read to eliminate the others.
    """

    def __cinit__(self, Problem problem):
        cdef Py_ssize_t n = problem.n_variables
        resize(<void**>&self.neighbors, n * sizeof(Neighbors))
        # one array after the other in one piece
        self.n_neighbors = <int32_t*>calloc(7 * n + 1, sizeof(int32_t))
        if self.n_neighbors == NULL:
            raise MemoryError
        self.rank, self.order = self.n_neighbors + n, self.n_neighbors + 2 * n
        self._index = self.n_neighbors + 3 * n
        # an elimination makes two leaves at most: three or more neighbors are then
        # neighbors of each other
        self._leaves = self.n_neighbors + 4 * n

    def __dealloc__(self):
        free(self.neighbors)
        free(self.n_neighbors)

    cdef bint plan(self, Problem problem, Window window, double budget, double total,
                   bint all_or_nothing, uint64_t* random) noexcept nogil:
        """Order the variables of a window; whether any of them can be eliminated.

        No table has more than `budget` entries, and all have `total` together at most.
        With `all_or_nothing` the search ends, and n_fixed is positive, as soon as a
        variable would have to keep its state.
        """
        cdef Py_ssize_t index
        cdef double cost
        self.n_fixed = self.n_eliminated = 0
        self._spent = 0.0
        self._connect(problem, window)
        self._list_waiting(window)
        while self.n_eliminated < self._end:
            # leaves first, as they come up: they make nobody's table larger
            index = self._next_leaf()
            if index < 0:
                if all_or_nothing and (self.n_fixed
                                       or self._end - self.n_eliminated > MAX_CORE):
                    self.n_fixed += 1
                    return False
                index = self._cheapest(window)
            cost = self._cost(window, self.order[index])
            if cost > budget or self._spent + cost > total:
                if all_or_nothing:
                    self.n_fixed += 1
                    return False
                self._drop_waiting(window, self._most_connected(random))
            elif self._eliminate(index):
                self._spent += cost
            else:
                # the lists of its neighbors are full
                self._drop_waiting(window, index)
        self.n_entries = <Py_ssize_t>self._spent
        return self.n_eliminated > 0

    # ---- the graph of neighbors ----

    cdef void _connect(self, Problem problem, Window window) noexcept nogil:
        """Find the neighbors of all places; where there are too many, a state is kept.
        """
        cdef Py_ssize_t place, variable, degree
        for place in range(window.size):
            self.n_neighbors[place], self.rank[place] = 0, WAITING
        for place in range(window.size):
            # a later one may have made it keep its state
            if self.rank[place] != WAITING:
                continue
            variable = window.variable[place]
            degree = problem.in_first[variable + 1] - problem.in_first[variable]
            # a bucket has limited room for the tables of one variable
            if (degree > 2 * MAX_NEIGHBORS
                    or not self._connect_edges(problem, window, place)
                    or not self._connect_factors(problem, window, place)):
                self._keep(window, place)

    cdef bint _connect_edges(self, Problem problem, Window window,
                             Py_ssize_t place) noexcept nogil:
        """Link a place to earlier ones that share an edge; False: too many."""
        cdef Py_ssize_t i, other, variable = window.variable[place]
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            other = window.place[other_end(problem, problem.in_factor[i], variable)]
            # later places link themselves
            if not 0 <= other < place or self._link(place, other):
                continue
            # the one whose list is full keeps its state
            if self.n_neighbors[other] < MAX_NEIGHBORS:
                return False
            self._keep(window, other)
        return True

    cdef bint _connect_factors(self, Problem problem, Window window,
                               Py_ssize_t place) noexcept nogil:
        """Link a place to earlier ones that share a larger factor; False: too many."""
        cdef Py_ssize_t i, k, factor, other, variable = window.variable[place]
        for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
            # a table has all of its variables: each is a neighbor of all others
            factor = problem.in_factor[i]
            for k in range(problem.scope_first[factor],
                           problem.scope_first[factor + 1]):
                other = window.place[problem.scope[k]]
                if 0 <= other < place and not self._link(place, other):
                    return False
        return True

    cdef bint _link(self, Py_ssize_t place, Py_ssize_t other) noexcept nogil:
        """Make two places neighbors; False where one of them has too many."""
        cdef Py_ssize_t k
        # lists are short enough to be looked through, and made without allocation
        for k in range(self.n_neighbors[place]):
            if self.neighbors[place][k] == other:
                return True
        if (self.n_neighbors[place] == MAX_NEIGHBORS
                or self.n_neighbors[other] == MAX_NEIGHBORS):
            return False
        self.neighbors[place][self.n_neighbors[place]] = other
        self.n_neighbors[place] += 1
        self.neighbors[other][self.n_neighbors[other]] = place
        self.n_neighbors[other] += 1
        return True

    cdef void _unlink(self, Py_ssize_t place) noexcept nogil:
        """Remove a place from the lists of its neighbors, which stay in its own."""
        cdef Py_ssize_t k, i, other
        # its own list stays: it is the scope of the table that is made
        for k in range(self.n_neighbors[place]):
            other = self.neighbors[place][k]
            for i in range(self.n_neighbors[other]):
                if self.neighbors[other][i] == place:
                    self.n_neighbors[other] -= 1
                    self.neighbors[other][i] = self.neighbors[other][
                        self.n_neighbors[other]]
                    break

    cdef void _keep(self, Window window, Py_ssize_t place) noexcept nogil:
        """Let the variable at a place keep its state."""
        self._unlink(place)
        self.n_neighbors[place] = 0
        self.rank[place] = KEPT
        leave(window, place)
        self.n_fixed += 1

    # ---- the order ----

    cdef void _list_waiting(self, Window window) noexcept nogil:
        """List the places that are to be eliminated, and those that are leaves."""
        cdef Py_ssize_t place, i
        self._end = self._n_leaves = 0
        for place in range(window.size):
            if self.rank[place] == WAITING:
                self.order[self._end] = place
                self._index[place] = self._end
                self._end += 1
        # leaves are kept apart: in a tree nothing else is ever looked at
        for i in range(self._end):
            if self.n_neighbors[self.order[i]] <= 1:
                self._leaves[self._n_leaves] = self.order[i]
                self._n_leaves += 1

    cdef Py_ssize_t _next_leaf(self) noexcept nogil:
        """Index in `order` of a place with one neighbor or none; -1: there is none."""
        cdef Py_ssize_t place
        while self._n_leaves:
            self._n_leaves -= 1
            place = self._leaves[self._n_leaves]
            # links of what was eliminated later may have made it an inner place again
            if self.rank[place] == WAITING and self.n_neighbors[place] <= 1:
                return self._index[place]
        return -1

    cdef double _cost(self, Window window, Py_ssize_t place) noexcept nogil:
        """Number of entries that eliminating a place visits.

        A float: the product of up to 25 numbers of candidates.
        """
        cdef Py_ssize_t k
        cdef double cost = candidates_at(window, place)
        for k in range(self.n_neighbors[place]):
            cost *= candidates_at(window, self.neighbors[place][k])
        return cost

    cdef Py_ssize_t _cheapest(self, Window window) noexcept nogil:
        """Index in `order` of the place with the least cost."""
        cdef Py_ssize_t i, best = -1
        cdef double cost, least = INFINITY
        # no heap: costs of all neighbors change with every elimination
        for i in range(self.n_eliminated, self._end):
            cost = self._cost(window, self.order[i])
            if cost < least:
                best, least = i, cost
        return best

    cdef Py_ssize_t _most_connected(self, uint64_t* random) noexcept nogil:
        """Index in `order` of a place with most neighbors."""
        cdef Py_ssize_t i, degree, worst = self.n_eliminated
        cdef Py_ssize_t largest = self.n_neighbors[self.order[worst]]
        for i in range(worst + 1, self._end):
            degree = self.n_neighbors[self.order[i]]
            # of those that tie any, so that windows are cut elsewhere each time
            if degree > largest or (degree == largest and step_random(random) & 1):
                worst, largest = i, degree
        return worst

    cdef bint _eliminate(self, Py_ssize_t index) noexcept nogil:
        """Give a place the next rank; False: its neighbors cannot all be linked."""
        cdef Py_ssize_t k, i, place = self.order[index]
        cdef bint fits = True
        # first, as its neighbors may need the room for each other
        self._unlink(place)
        for k in range(self.n_neighbors[place]):
            for i in range(k):
                if not self._link(self.neighbors[place][k], self.neighbors[place][i]):
                    fits = False
        if not fits:
            return False
        # the place that was there changes seats with it
        self._move(self.n_eliminated, index)
        self.order[self.n_eliminated] = place
        self.rank[place] = self.n_eliminated
        self.n_eliminated += 1
        # whoever has lost a neighbor may be a leaf now
        for k in range(self.n_neighbors[place]):
            if self.n_neighbors[self.neighbors[place][k]] <= 1:
                self._leaves[self._n_leaves] = self.neighbors[place][k]
                self._n_leaves += 1
        return True

    cdef void _drop_waiting(self, Window window, Py_ssize_t index) noexcept nogil:
        """Let the variable at an index of `order` keep its state."""
        # the last of those that wait takes its seat
        self._keep(window, self.order[index])
        self._end -= 1
        self._move(self._end, index)

    cdef void _move(self, Py_ssize_t index, Py_ssize_t to) noexcept nogil:
        """Put the place at one index of `order` at another one."""
        # both ways round, so that a leaf is found in the order at once
        self.order[to] = self.order[index]
        self._index[self.order[to]] = to
