"""Joint best states of a random forest of variables.

The variables of a window enter the forest in random order, except variables that would
close a cycle. Max-product then finds the best states of the forest given all other
variables (Hamze and de Freitas, From fields to trees, UAI 2004, with a maximum in place
of the sample). A factor of three or more variables has at most one variable in the
forest, so that it is a unary score of this variable.
"""

cimport cython
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from sksstruct.inference.map.core._problem cimport other_end
from sksstruct.utils._memory cimport resize
from sksstruct.utils._sets cimport root_of

# Values of `_parent` for variables that are not in the queue yet, and for roots.
cdef enum:
    UNREACHED = -2
    NO_PARENT = -1


@cython.final
cdef class Forest:
    """Moves that give random forests of variables in windows their best states."""

    def __cinit__(self, Problem problem):
        cdef Py_ssize_t n = problem.n_variables
        # all int32 arrays in one block of memory; stamps begin with zero
        self._stamp = <int32_t*>calloc(7 * n + problem.n_factors + 1, sizeof(int32_t))
        if self._stamp == NULL:
            raise MemoryError
        self._touched, self._touched_by = self._stamp + n, self._stamp + 2 * n
        self._root, self._queue = self._stamp + 3 * n, self._stamp + 4 * n
        self._parent, self._parent_edge = self._stamp + 5 * n, self._stamp + 6 * n
        self._factor_stamp = self._stamp + 7 * n
        # room for the states of all variables, and for a message
        resize(<void**>&self._scores,
               (problem.first[n] + problem.max_states) * sizeof(double))
        self._message = self._scores + problem.first[n]
        # the first move is 1: a stamp of zero matches no move
        self.clear()

    def __dealloc__(self):
        free(self._stamp)
        free(self._scores)

    cdef void clear(self) noexcept nogil:
        """Begin a move with an empty forest."""
        self._move += 1

    cdef void condition(self, Problem problem, int32_t* labeling,
                        Py_ssize_t variable, double* out) noexcept nogil:
        """Write a variable's scores given all variables outside the forest to `out`."""
        cdef Py_ssize_t i, edge, other
        cdef int32_t state, present = labeling[variable]
        memcpy(out, &problem.unary[problem.first[variable]],
               problem.states[variable] * sizeof(double))
        # edges inside the forest are left out, as messages account for them
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            edge = problem.in_factor[i]
            other = other_end(problem, edge, variable)
            if self._stamp[other] != self._move:
                problem.add_states(edge, problem.ends[edge][0] == variable,
                                   labeling[other], out)
        # `higher_entry` scores a labeling: each state is written to the labeling in
        # turn
        for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
            for state in range(problem.states[variable]):
                labeling[variable] = state
                out[state] += problem.higher_entry(problem.in_factor[i], labeling)
        labeling[variable] = present

    cdef double improve(self, Problem problem, int32_t* labeling, int32_t* window,
                        Py_ssize_t size, uint64_t* random) noexcept nogil:
        """Give a random forest in a window its best states; return the gain in score.

        Shuffles the window.
        """
        cdef Py_ssize_t i
        cdef double before
        self.clear()
        _shuffle(window, size, random)
        # the order is random, so that every variable enters some of the forests
        for i in range(size):
            if not self._closes_cycle(problem, window[i]):
                self._add_variable(problem, window[i])
        self._orient(problem, window, size)
        # score of the forest given all other variables; all other scores stay the same
        before = self._condition_all(problem, labeling)
        self._collect_messages(problem)
        return self._read_off(problem, labeling, random) - before

    # ---- the forest ----

    cdef bint _closes_cycle(self, Problem problem,
                            Py_ssize_t variable) noexcept nogil:
        """Whether a variable shares a larger factor with the forest, or closes a cycle.
        """
        cdef Py_ssize_t i, other, root
        # a second variable of a larger factor would need messages through the factor
        for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
            if self._factor_stamp[problem.in_factor[i]] == self._move:
                return True
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            other = other_end(problem, problem.in_factor[i], variable)
            if self._stamp[other] != self._move:
                continue
            # two edges to the same tree close a cycle through the variable
            root = root_of(self._root, other)
            if self._touched_by[root] == variable and self._touched[root] == self._move:
                return True
            self._touched_by[root], self._touched[root] = variable, self._move
        return False

    cdef void _add_variable(self, Problem problem, Py_ssize_t variable) noexcept nogil:
        """Add a variable to the forest, and join the trees of its neighbors."""
        cdef Py_ssize_t i, other
        for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
            self._factor_stamp[problem.in_factor[i]] = self._move
        self._stamp[variable] = self._move
        # the variable becomes the union-find root of the joined tree
        self._root[variable] = variable
        self._parent[variable] = UNREACHED
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            other = other_end(problem, problem.in_factor[i], variable)
            if self._stamp[other] == self._move:
                self._root[root_of(self._root, other)] = variable

    cdef void _orient(self, Problem problem, const int32_t* window,
                      Py_ssize_t size) noexcept nogil:
        """Queue the variables of the forest, parents before children."""
        cdef Py_ssize_t i, k, edge, variable, other, head = 0
        # breadth first from one variable of each tree; both passes of max-product are
        # loops over the queue
        self.size = 0
        for i in range(size):
            if (self._stamp[window[i]] != self._move
                    or self._parent[window[i]] != UNREACHED):
                continue
            self._enqueue(window[i], NO_PARENT, -1)
            while head < self.size:
                variable = self._queue[head]
                head += 1
                for k in range(problem.in_first[variable],
                               problem.in_larger[variable]):
                    edge = problem.in_factor[k]
                    other = other_end(problem, edge, variable)
                    if (self._stamp[other] == self._move
                            and self._parent[other] == UNREACHED):
                        self._enqueue(other, variable, edge)

    cdef void _enqueue(self, Py_ssize_t variable, Py_ssize_t parent,
                       Py_ssize_t edge) noexcept nogil:
        """Append a variable to the queue; store its parent and the edge to the parent.
        """
        self._parent[variable] = parent
        self._parent_edge[variable] = edge
        self._queue[self.size] = variable
        self.size += 1

    # ---- max-product ----

    cdef double _condition_all(self, Problem problem,
                               int32_t* labeling) noexcept nogil:
        """Compute the scores of the forest's states given all other variables.

        Returns the score of the forest's states in the labeling.
        """
        cdef Py_ssize_t i, variable, edge
        cdef double* scores
        cdef double total = 0.0
        # all scores are computed before any state changes
        for i in range(self.size):
            variable = self._queue[i]
            scores = &self._scores[problem.first[variable]]
            self.condition(problem, labeling, variable, scores)
            total += scores[labeling[variable]]
            # each edge of the forest is counted once, at the child
            if self._parent[variable] != NO_PARENT:
                edge = self._parent_edge[variable]
                total += problem.entry(edge, labeling[problem.ends[edge][0]],
                                       labeling[problem.ends[edge][1]])
        return total

    cdef void _collect_messages(self, Problem problem) noexcept nogil:
        """Send max-product messages from the leaves to the roots."""
        cdef Py_ssize_t i, k, variable, parent, edge
        cdef double* out = self._message
        cdef double* scores
        # children before parents: the scores of a sender are complete
        for i in range(self.size - 1, -1, -1):
            variable = self._queue[i]
            parent, edge = self._parent[variable], self._parent_edge[variable]
            if parent == NO_PARENT:
                continue
            # the message goes backward if the child is the second end
            problem.message(edge, problem.ends[edge][1] == variable,
                            &self._scores[problem.first[variable]], out)
            scores = &self._scores[problem.first[parent]]
            for k in range(problem.states[parent]):
                scores[k] += out[k]

    cdef double _read_off(self, Problem problem, int32_t* labeling,
                          uint64_t* random) noexcept nogil:
        """Set the best states from the roots to the leaves; return their score."""
        cdef Py_ssize_t i, variable, parent, edge, best
        cdef double* scores
        cdef double total = 0.0
        for i in range(self.size):
            variable = self._queue[i]
            parent, edge = self._parent[variable], self._parent_edge[variable]
            scores = &self._scores[problem.first[variable]]
            # the parent's state is set: add the edge's scores given this state
            if parent != NO_PARENT:
                problem.add_states(edge, problem.ends[edge][0] == variable,
                                   labeling[parent], scores)
            # ties are broken at random, so that searches leave cycles of equal
            # labelings
            best = pick_best(scores, problem.states[variable], random)
            # the best score of a root is the score of its tree
            if parent == NO_PARENT:
                total += scores[best]
            labeling[variable] = best
        return total


cdef void _shuffle(int32_t* window, Py_ssize_t size, uint64_t* random) noexcept nogil:
    """Shuffle the variables of a window (Fisher and Yates)."""
    cdef Py_ssize_t i, k
    for i in range(size - 1, 0, -1):
        k = random_below(random, i + 1)
        window[i], window[k] = window[k], window[i]
