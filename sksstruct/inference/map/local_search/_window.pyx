"""A window: variables that may change together, and candidate states of each variable.

A window numbers its variables by places 0, ..., size - 1. Every variable of the problem
has candidates: all or some of its states, in any order. This file computes no scores.
"""

cimport cython
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from sksstruct.utils._memory cimport resize
from sksstruct.utils._pointers cimport const_int32s


@cython.final
cdef class Window:
    """A window of a problem, empty at first."""

    def __cinit__(self, Problem problem):
        cdef Py_ssize_t variable, n = problem.n_variables
        # three arrays in one block of memory
        self.variable = <int32_t*>calloc(3 * n + 1, sizeof(int32_t))
        if self.variable == NULL:
            raise MemoryError
        self.place, self.n_candidates = self.variable + n, self.variable + 2 * n
        for variable in range(n):
            self.place[variable] = -1
        # room for all states: new candidates need no allocation
        resize(<void**>&self.candidates, problem.first[n] * sizeof(int32_t))
        self.all_states(problem)

    def __dealloc__(self):
        free(self.variable)
        free(self.candidates)

    def all_states(self, Problem problem):
        """Make all states of every variable candidates."""
        # all variables of the problem keep their candidates from window to window
        cdef Py_ssize_t variable
        for variable in range(problem.n_variables):
            self._take_all(problem, variable)

    def some_states(self, Problem problem, Py_ssize_t limit, candidates):
        """Restrict every variable with more than `limit` states to `limit` candidates.

        Parameters
        ----------
        problem : MAPProblem
            The graph.
        limit : int
            Largest number of states of each variable.
        candidates : ndarray of shape (n_states.sum(),), int32
            Candidates: the first `limit` entries from the offset of a variable's
            states.
        """
        cdef const int32_t* source = const_int32s(candidates)
        cdef Py_ssize_t variable, first
        for variable in range(problem.n_variables):
            first = problem.first[variable]
            if problem.states[variable] <= limit:
                self._take_all(problem, variable)
                continue
            memcpy(self.candidates + first, source + first, limit * sizeof(int32_t))
            self.n_candidates[variable] = limit

    cdef void _take_all(self, Problem problem, Py_ssize_t variable) noexcept nogil:
        """Make all states of a variable its candidates."""
        cdef Py_ssize_t k
        # an earlier selection may have left another order
        self.n_candidates[variable] = problem.states[variable]
        for k in range(problem.states[variable]):
            self.candidates[problem.first[variable] + k] = k

    cdef void enter(self, Problem problem, const int32_t* variables,
                    Py_ssize_t size) noexcept nogil:
        """Replace the variables of the window."""
        cdef Py_ssize_t place
        # variables leave the old window here, as its move may have ended with an error
        for place in range(self.size):
            leave(self, place)
        # places number the variables in the given order
        self.size = size
        for place in range(size):
            self.variable[place] = variables[place]
            self.place[variables[place]] = place

    cdef void admit(self, Problem problem, const int32_t* labeling) noexcept nogil:
        """Make the state of each variable of the window one of its candidates."""
        cdef Py_ssize_t place, variable, last, k
        for place in range(self.size):
            variable = self.variable[place]
            last = problem.first[variable] + self.n_candidates[variable] - 1
            # a state that is no candidate replaces the last candidate
            for k in range(problem.first[variable], last):
                if self.candidates[k] == labeling[variable]:
                    break
            else:
                self.candidates[last] = labeling[variable]
