"""The order in which the variables of a window are eliminated.

Eliminating a variable makes a table over its neighbors, which become neighbors of each
other. The next variable is the one whose elimination reads the fewest entries (the
min-weight heuristic; Dechter, Bucket elimination, Artificial Intelligence 113, 1999).
If every table would exceed the budget, the variable with most neighbors gets a fixed
state: it leaves the window, and is no neighbor of any other variable.
"""

cimport cython
from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free

from sksstruct.inference.map.core._problem cimport other_end
from sksstruct.inference.map.local_search._window cimport candidates_at, leave
from sksstruct.utils._memory cimport resize
from sksstruct.utils._random cimport step_random

# Ranks of variables that are not eliminated yet, or have a fixed state.
cdef enum:
    WAITING = -1
    FIXED = -2

# Under `all_or_nothing`, planning fails if more variables remain after the elimination
# of leaves: each further step scans all remaining variables, which takes quadratic time
# in total.
cdef Py_ssize_t MAX_CORE = 3000


@cython.final
cdef class EliminationOrder:
    """Elimination order for windows of a problem.

    Attributes
    ----------
    n_fixed : int
        Number of variables of the last window with fixed states.
    n_entries : int
        Number of entries that the elimination of the other variables reads.
    """

    def __cinit__(self, Problem problem):
        cdef Py_ssize_t n = problem.n_variables
        resize(<void**>&self.neighbors, n * sizeof(Neighbors))
        # all int32 arrays in one block of memory
        self.n_neighbors = <int32_t*>calloc(7 * n + 1, sizeof(int32_t))
        if self.n_neighbors == NULL:
            raise MemoryError
        self.rank, self.order = self.n_neighbors + n, self.n_neighbors + 2 * n
        self._index = self.n_neighbors + 3 * n
        # room for n initial leaves, and for two leaves after each elimination: three or
        # more neighbors are linked to each other and are no leaves
        self._leaves = self.n_neighbors + 4 * n

    def __dealloc__(self):
        free(self.neighbors)
        free(self.n_neighbors)

    cdef bint plan(self, Problem problem, Window window, double budget, double total,
                   bint all_or_nothing, uint64_t* random) noexcept nogil:
        """Order the variables of a window; return whether any can be eliminated.

        Each table has at most `budget` entries, and all tables at most `total`. With
        `all_or_nothing` planning ends with a positive `n_fixed` as soon as a state
        would have to be fixed.
        """
        cdef Py_ssize_t index
        cdef double cost
        self.n_fixed = self.n_eliminated = 0
        self._total_cost = 0.0
        self._connect(problem, window)
        self._list_waiting(window)
        while self.n_eliminated < self._end:
            # leaves (places with at most one neighbor) are eliminated first, because
            # this enlarges no table
            index = self._next_leaf()
            if index < 0:
                if all_or_nothing and (self.n_fixed
                                       or self._end - self.n_eliminated > MAX_CORE):
                    self.n_fixed += 1
                    return False
                index = self._cheapest(window)
            cost = self._cost(window, self.order[index])
            if cost > budget or self._total_cost + cost > total:
                if all_or_nothing:
                    self.n_fixed += 1
                    return False
                self._fix_waiting(window, self._most_connected(random))
            elif self._eliminate(index):
                self._total_cost += cost
            else:
                # the list of a neighbor is full
                self._fix_waiting(window, index)
        self.n_entries = <Py_ssize_t>self._total_cost
        return self.n_eliminated > 0

    # ---- the graph of neighbors ----

    cdef void _connect(self, Problem problem, Window window) noexcept nogil:
        """Link places that share a factor; fix states of places with too many links."""
        cdef Py_ssize_t place, variable, degree
        for place in range(window.size):
            self.n_neighbors[place], self.rank[place] = 0, WAITING
        for place in range(window.size):
            # the state may have been fixed for an earlier place
            if self.rank[place] != WAITING:
                continue
            variable = window.variable[place]
            degree = problem.in_first[variable + 1] - problem.in_first[variable]
            # the limit of the degree keeps each bucket within MAX_PARTS parts
            if (degree > 2 * MAX_NEIGHBORS
                    or not self._connect_edges(problem, window, place)
                    or not self._connect_factors(problem, window, place)):
                self._fix(window, place)

    cdef bint _connect_edges(self, Problem problem, Window window,
                             Py_ssize_t place) noexcept nogil:
        """Link a place to earlier places that share an edge; False: too many links."""
        cdef Py_ssize_t i, other, variable = window.variable[place]
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            other = window.place[other_end(problem, problem.in_factor[i], variable)]
            # `_connect` links later places when its loop reaches them
            if not 0 <= other < place or self._link(place, other):
                continue
            # the place with the full list gets a fixed state
            if self.n_neighbors[other] < MAX_NEIGHBORS:
                return False
            self._fix(window, other)
        return True

    cdef bint _connect_factors(self, Problem problem, Window window,
                               Py_ssize_t place) noexcept nogil:
        """Link a place to earlier places of larger factors; False: too many links."""
        cdef Py_ssize_t i, k, factor, other, variable = window.variable[place]
        for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
            factor = problem.in_factor[i]
            for k in range(problem.scope_first[factor],
                           problem.scope_first[factor + 1]):
                other = window.place[problem.scope[k]]
                if 0 <= other < place and not self._link(place, other):
                    return False
        return True

    cdef bint _link(self, Py_ssize_t place, Py_ssize_t other) noexcept nogil:
        """Make two places neighbors; False: the list of one place is full."""
        cdef Py_ssize_t k
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
        """Remove a place from the lists of its neighbors."""
        cdef Py_ssize_t k, i, other
        # the place's own list stays: the scope of the new table
        for k in range(self.n_neighbors[place]):
            other = self.neighbors[place][k]
            for i in range(self.n_neighbors[other]):
                if self.neighbors[other][i] == place:
                    self.n_neighbors[other] -= 1
                    self.neighbors[other][i] = self.neighbors[other][
                        self.n_neighbors[other]]
                    break

    cdef void _fix(self, Window window, Py_ssize_t place) noexcept nogil:
        """Fix the state of the variable at a place."""
        self._unlink(place)
        self.n_neighbors[place] = 0
        self.rank[place] = FIXED
        leave(window, place)
        self.n_fixed += 1

    # ---- the order ----

    cdef void _list_waiting(self, Window window) noexcept nogil:
        """List the places to eliminate, and the leaves among them."""
        cdef Py_ssize_t place, i
        self._end = self._n_leaves = 0
        for place in range(window.size):
            if self.rank[place] == WAITING:
                self.order[self._end] = place
                self._index[place] = self._end
                self._end += 1
        # with the stack of leaves, the places of a tree are ordered without a scan
        for i in range(self._end):
            if self.n_neighbors[self.order[i]] <= 1:
                self._leaves[self._n_leaves] = self.order[i]
                self._n_leaves += 1

    cdef Py_ssize_t _next_leaf(self) noexcept nogil:
        """Return the index in `order` of a place with at most one neighbor, or -1."""
        cdef Py_ssize_t place
        while self._n_leaves:
            self._n_leaves -= 1
            place = self._leaves[self._n_leaves]
            # later links may have given the place more neighbors
            if self.rank[place] == WAITING and self.n_neighbors[place] <= 1:
                return self._index[place]
        return -1

    cdef double _cost(self, Window window, Py_ssize_t place) noexcept nogil:
        """Return the number of entries that the elimination of a place reads.

        A float, as a product of up to 25 numbers of candidates may overflow an integer.
        """
        cdef Py_ssize_t k
        cdef double cost = candidates_at(window, place)
        for k in range(self.n_neighbors[place]):
            cost *= candidates_at(window, self.neighbors[place][k])
        return cost

    cdef Py_ssize_t _cheapest(self, Window window) noexcept nogil:
        """Return the index in `order` of the place with the least cost."""
        cdef Py_ssize_t i, best = -1
        cdef double cost, least = INFINITY
        # a scan, no heap: every elimination changes the costs of all neighbors
        for i in range(self.n_eliminated, self._end):
            cost = self._cost(window, self.order[i])
            if cost < least:
                best, least = i, cost
        return best

    cdef Py_ssize_t _most_connected(self, uint64_t* random) noexcept nogil:
        """Return the index in `order` of a place with most neighbors."""
        cdef Py_ssize_t i, degree, worst = self.n_eliminated
        cdef Py_ssize_t largest = self.n_neighbors[self.order[worst]]
        for i in range(worst + 1, self._end):
            degree = self.n_neighbors[self.order[i]]
            # ties are broken at random, so that repeated windows fix other variables
            if degree > largest or (degree == largest and step_random(random) & 1):
                worst, largest = i, degree
        return worst

    cdef bint _eliminate(self, Py_ssize_t index) noexcept nogil:
        """Link the neighbors of a place to each other; give the place the next rank.

        Returns False, and gives no rank, if a neighbor's list of neighbors is full.
        """
        cdef Py_ssize_t k, i, place = self.order[index]
        cdef bint fits = True
        # the place is unlinked first, to make room in the lists of its neighbors
        self._unlink(place)
        for k in range(self.n_neighbors[place]):
            for i in range(k):
                if not self._link(self.neighbors[place][k], self.neighbors[place][i]):
                    fits = False
        if not fits:
            return False
        # swap with the first waiting place
        self._move_to(self.n_eliminated, index)
        self.order[self.n_eliminated] = place
        self.rank[place] = self.n_eliminated
        self.n_eliminated += 1
        # push neighbors that have become leaves
        for k in range(self.n_neighbors[place]):
            if self.n_neighbors[self.neighbors[place][k]] <= 1:
                self._leaves[self._n_leaves] = self.neighbors[place][k]
                self._n_leaves += 1
        return True

    cdef void _fix_waiting(self, Window window, Py_ssize_t index) noexcept nogil:
        """Fix the state of the variable at an index of `order`."""
        # the last waiting place moves to this index
        self._fix(window, self.order[index])
        self._end -= 1
        self._move_to(self._end, index)

    cdef void _move_to(self, Py_ssize_t index, Py_ssize_t to) noexcept nogil:
        """Copy the place at one index of `order` to another, and update `_index`."""
        self.order[to] = self.order[index]
        self._index[self.order[to]] = to
