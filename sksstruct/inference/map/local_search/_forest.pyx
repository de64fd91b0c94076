"""Best states of a random forest of variables at once.

The variables of a window are taken in random order, except those that would close a
cycle with the ones taken before, and get their best states given all others by
max-product (Hamze and de Freitas, From fields to trees, UAI 2004, with a maximum in the
place of the sample). A factor of three or more variables has at most one of them in a
forest, so that it is a score of that variable alone.
"""

cimport cython
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from sksstruct.inference.map.core._problem cimport other_end
from sksstruct.utils._memory cimport resize
from sksstruct.utils._sets cimport root_of

# Parents of variables that are in the forest but not in the queue yet, and of roots.
cdef enum:
    UNREACHED = -2
    NOBODY = -1


@cython.final
cdef class Forest:
    """Forests in windows of a problem."""

    def __cinit__(self, Problem problem):
        cdef Py_ssize_t n = problem.n_variables
        # one array after the other in one piece, zeros where it matters
        self._taken = <int32_t*>calloc(7 * n + problem.n_factors + 1, sizeof(int32_t))
        if self._taken == NULL:
            raise MemoryError
        self._touched, self._touched_by = self._taken + n, self._taken + 2 * n
        self._root, self._queue = self._taken + 3 * n, self._taken + 4 * n
        self._parent, self._parent_edge = self._taken + 5 * n, self._taken + 6 * n
        self._factor_taken = self._taken + 7 * n
        # of all variables: a forest may have most of them
        resize(<void**>&self._scores,
               (problem.first[n] + problem.max_states) * sizeof(double))
        self._out = self._scores + problem.first[n]
        # zeros stand for no move, so that moves begin with 1
        self.clear()

    def __dealloc__(self):
        free(self._taken)
        free(self._scores)

    cdef void clear(self) noexcept nogil:
        """Take no variable: what earlier moves took counts no more."""
        self._move += 1

    cdef void condition(self, Problem problem, int32_t* labeling,
                        Py_ssize_t variable, double* out) noexcept nogil:
        """Scores of the states of a variable given all others outside of the forest."""
        cdef Py_ssize_t i, edge, other
        cdef int32_t state, present = labeling[variable]
        memcpy(out, &problem.unary[problem.first[variable]],
               problem.states[variable] * sizeof(double))
        # edges inside of the forest are left to messages
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            edge = problem.in_factor[i]
            other = other_end(problem, edge, variable)
            if self._taken[other] != self._move:
                problem.add_states(edge, problem.ends[edge][0] == variable,
                                   labeling[other], out)
        # scores of larger factors are functions of a labeling: write each state into it
        for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
            for state in range(problem.states[variable]):
                labeling[variable] = state
                out[state] += problem.higher_entry(problem.in_factor[i], labeling)
        labeling[variable] = present

    cdef double improve(self, Problem problem, int32_t* labeling, int32_t* window,
                        Py_ssize_t size, uint64_t* random) noexcept nogil:
        """Give a random forest in a window its best states; the gain in score.

        The window is shuffled.
        """
        cdef Py_ssize_t i
        cdef double before
        self.clear()
        _shuffle(window, size, random)
        # in random order, so that every variable is in a forest sooner or later
        for i in range(size):
            if not self._closes_cycle(problem, window[i]):
                self._take(problem, window[i])
        self._orient(problem, window, size)
        # by the same sums as after it, so that what stays as it is drops out
        before = self._condition_all(problem, labeling)
        self._send_to_roots(problem)
        return self._read_off(problem, labeling, random) - before

    # ---- the forest ----

    cdef bint _closes_cycle(self, Problem problem,
                            Py_ssize_t variable) noexcept nogil:
        """Whether a variable shares a factor with the forest or meets a tree twice."""
        cdef Py_ssize_t i, other, root
        # one variable of each larger factor: with more, messages would go through it
        for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
            if self._factor_taken[problem.in_factor[i]] == self._move:
                return True
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            other = other_end(problem, problem.in_factor[i], variable)
            if self._taken[other] != self._move:
                continue
            # two neighbors in one tree, or one by two edges: a cycle through the
            # variable
            root = root_of(self._root, other)
            if self._touched_by[root] == variable and self._touched[root] == self._move:
                return True
            self._touched_by[root], self._touched[root] = variable, self._move
        return False

    cdef void _take(self, Problem problem, Py_ssize_t variable) noexcept nogil:
        """Add a variable to the forest: it joins the trees of its neighbors."""
        cdef Py_ssize_t i, other
        for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
            self._factor_taken[problem.in_factor[i]] = self._move
        self._taken[variable] = self._move
        # a tree of its own, which becomes the root of all trees that it joins
        self._root[variable] = variable
        self._parent[variable] = UNREACHED
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            other = other_end(problem, problem.in_factor[i], variable)
            if self._taken[other] == self._move:
                self._root[root_of(self._root, other)] = variable

    cdef void _orient(self, Problem problem, const int32_t* window,
                      Py_ssize_t size) noexcept nogil:
        """Queue the variables of the forest, parents before their children."""
        cdef Py_ssize_t i, k, edge, variable, other, head = 0
        # breadth first from any variable of each tree: no recursion, and both passes of
        # max-product are loops over the queue
        self.size = 0
        for i in range(size):
            if (self._taken[window[i]] != self._move
                    or self._parent[window[i]] != UNREACHED):
                continue
            self._enqueue(window[i], NOBODY, -1)
            while head < self.size:
                variable = self._queue[head]
                head += 1
                for k in range(problem.in_first[variable],
                               problem.in_larger[variable]):
                    edge = problem.in_factor[k]
                    other = other_end(problem, edge, variable)
                    if (self._taken[other] == self._move
                            and self._parent[other] == UNREACHED):
                        self._enqueue(other, variable, edge)

    cdef void _enqueue(self, Py_ssize_t variable, Py_ssize_t parent,
                       Py_ssize_t edge) noexcept nogil:
        """Append a variable to the queue."""
        self._parent[variable] = parent
        self._parent_edge[variable] = edge
        self._queue[self.size] = variable
        self.size += 1

    # ---- max-product ----

    cdef double _condition_all(self, Problem problem,
                               int32_t* labeling) noexcept nogil:
        """Scores of all states given the others; the score of the labeling by them."""
        cdef Py_ssize_t i, variable, edge
        cdef double* scores
        cdef double total = 0.0
        # in the order of the queue, before any state changes
        for i in range(self.size):
            variable = self._queue[i]
            scores = &self._scores[problem.first[variable]]
            self.condition(problem, labeling, variable, scores)
            total += scores[labeling[variable]]
            # every edge of the forest once, with the child
            if self._parent[variable] != NOBODY:
                edge = self._parent_edge[variable]
                total += problem.entry(edge, labeling[problem.ends[edge][0]],
                                       labeling[problem.ends[edge][1]])
        return total

    cdef void _send_to_roots(self, Problem problem) noexcept nogil:
        """Add to the scores of each variable the messages of its children."""
        cdef Py_ssize_t i, k, variable, parent, edge
        cdef double* out = self._out
        cdef double* scores
        # children first: their scores are complete when they send
        for i in range(self.size - 1, -1, -1):
            variable = self._queue[i]
            parent, edge = self._parent[variable], self._parent_edge[variable]
            if parent == NOBODY:
                continue
            # backward where the child is the second end
            problem.message(edge, problem.ends[edge][1] == variable,
                            &self._scores[problem.first[variable]], out)
            scores = &self._scores[problem.first[parent]]
            for k in range(problem.states[parent]):
                scores[k] += out[k]

    cdef double _read_off(self, Problem problem, int32_t* labeling,
                          uint64_t* random) noexcept nogil:
        """Give all variables their best states, parents first; the score of these."""
        cdef Py_ssize_t i, variable, parent, edge, best
        cdef double* scores
        cdef double total = 0.0
        for i in range(self.size):
            variable = self._queue[i]
            parent, edge = self._parent[variable], self._parent_edge[variable]
            scores = &self._scores[problem.first[variable]]
            # the parent has its state now, which leaves the scores of the child alone
            if parent != NOBODY:
                problem.add_states(edge, problem.ends[edge][0] == variable,
                                   labeling[parent], scores)
            # random among ties, so that searches do not go in circles
            best = pick_best(scores, problem.states[variable], random)
            # the scores of a root have the messages of its whole tree
            if parent == NOBODY:
                total += scores[best]
            labeling[variable] = best
        return total


cdef void _shuffle(int32_t* window, Py_ssize_t size, uint64_t* random) noexcept nogil:
    """Put the variables of a window in random order (Fisher and Yates)."""
    cdef Py_ssize_t i, k
    for i in range(size - 1, 0, -1):
        k = random_below(random, i + 1)
        window[i], window[k] = window[k], window[i]
