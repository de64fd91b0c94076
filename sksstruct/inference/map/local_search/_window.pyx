"""Variables that may change together, and the states that each of them may take.

A window numbers its variables by places 0, ..., size - 1, and every variable of the
problem has candidates: its states, or some of them, in any order.
"""

import numpy as np

cimport cython


@cython.final
cdef class Window:
    """A window of a problem, which has no variables at first."""

    def __cinit__(self, Problem problem):
        cdef Py_ssize_t n = problem.n_variables
        self.variable = np.zeros(n, dtype=np.int32)
        self.place = np.full(n, -1, dtype=np.int32)
        self.n_candidates = np.zeros(n, dtype=np.int32)
        # room for all states, so that nothing is allocated when candidates change
        self.candidates = np.empty(problem.first[n], dtype=np.int32)
        self.all_states(problem)

    def all_states(self, Problem problem):
        """Let every variable take all of its states."""
        # of the whole problem: windows come and go, candidates stay
        cdef Py_ssize_t variable
        for variable in range(problem.n_variables):
            self._take_all(problem, variable)

    def best_states(self, Problem problem, const double[::1] scores,
                    Py_ssize_t limit, const int32_t[::1] labeling):
        """Let every variable take only its states with the largest scores.

        Parameters
        ----------
        problem : MAPProblem
            The graph.
        scores : ndarray of shape (n_states.sum(),)
            Scores of all states.
        limit : int
            Largest number of states of each variable.
        labeling : ndarray of shape (n_variables,)
            States that are always allowed.
        """
        cdef Py_ssize_t variable, first, size
        for variable in range(problem.n_variables):
            first, size = problem.first[variable], problem.states[variable]
            if size <= limit:
                self._take_all(problem, variable)
                continue
            # the order among them does not matter, so that partitioning is enough
            part = np.asarray(scores[first:first + size])
            best = np.argpartition(-part, limit - 1)[:limit]
            # a labeling to go on from has to stay possible: it replaces the worst
            if labeling[variable] not in best:
                best[np.argmin(part[best])] = labeling[variable]
            np.asarray(self.candidates)[first:first + limit] = best
            self.n_candidates[variable] = limit

    cdef void _take_all(self, Problem problem, Py_ssize_t variable) noexcept nogil:
        """Make all states of a variable its candidates."""
        cdef Py_ssize_t k
        # written again, as another selection may have left them in another order
        self.n_candidates[variable] = problem.states[variable]
        for k in range(problem.states[variable]):
            self.candidates[problem.first[variable] + k] = k

    cdef void enter(self, Problem problem, const int32_t* variables,
                    Py_ssize_t size) noexcept nogil:
        """Replace the variables of the window by others."""
        cdef Py_ssize_t place
        # here and not after the work, which may end with an error
        for place in range(self.size):
            leave(self, place)
        # numbered as they come, which is how orders and tables know them
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
            # the last candidate gives way to a state that is none of them
            for k in range(problem.first[variable], last):
                if self.candidates[k] == labeling[variable]:
                    break
            else:
                self.candidates[last] = labeling[variable]
