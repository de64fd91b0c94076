"""Max-product linear programming: block-coordinate descent over factors of any size.

A. Globerson and T. Jaakkola, Fixing max-product, NIPS 2007. Factor f gives each of its
variables i the message

    lambda_fi(x_i) = -b_i(x_i)
        + max_{x_f with x_i} (theta_f(x_f) + sum_k b_k(x_k)) / |f|

with b_i = theta_i + sum of the messages of the other factors; then max over x_f of
theta_f - sum of its messages is 0, and the sum of the variables' maxima of theta_i +
all messages, the beliefs, is an upper bound that never rises.
"""

import numpy as np

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.inference.lp.core._problem cimport MAPProblem
from sksstruct.inference.lp.message_passing._higher cimport HigherFactors
from sksstruct.inference.lp.message_passing._messages cimport Messages


@cython.final
cdef class MaxProductLP(Messages):
    """Messages of a graph.

    Attributes
    ----------
    labeling : ndarray of shape (n_variables,), int32
        The best state of each variable.
    beliefs : ndarray of shape (n_states.sum(),)
        Scores of the states with all messages.
    bound : float
        Upper bound on all scores; inf before the first sweep.
    """

    cdef Py_ssize_t[:, ::1] _start          # of the messages of edges
    cdef Py_ssize_t[::1] _start_higher      # and of each place in a scope
    # of an edge: beliefs of its ends without its messages, and a product
    cdef double[:, ::1] _without
    cdef double[::1] _out
    # the larger factors
    cdef HigherFactors _higher

    def __init__(self, MAPProblem problem):
        cdef Py_ssize_t n_messages = 2 * problem.n_edges
        states = np.asarray(problem.states).astype(np.intp)
        # a message to each end of each edge, then to each variable of each factor
        sizes = np.concatenate([states[np.asarray(problem.ends)].reshape(-1),
                                states[np.asarray(problem.scope)]])
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        self._start = start[:n_messages].reshape(-1, 2)
        self._start_higher = start[n_messages:]
        self._messages = np.zeros(start[len(start) - 1])
        self._without = np.empty((2, problem.max_states))
        self._out = np.empty(problem.max_states)
        self._higher = HigherFactors(problem)

    @property
    def labeling(self):
        cdef MAPProblem problem = self.problem
        cdef Py_ssize_t variable, k
        cdef const double* belief
        cdef int32_t[::1] states = np.zeros(problem.n_variables, dtype=np.int32)
        for variable in range(problem.n_variables):
            belief = &self._beliefs[problem.first[variable]]
            # by itself, without regard to its neighbors: a local search does the rest
            for k in range(1, problem.states[variable]):
                if belief[k] > belief[states[variable]]:
                    states[variable] = k
        return np.asarray(states)

    def moved(self):
        cdef MAPProblem problem = self.problem
        cdef Py_ssize_t edge, factor, axis, place, begin, size, first
        messages = np.asarray(self._messages)
        found = []
        for edge in range(problem.n_edges):
            for axis in range(2):
                begin = self._start[edge, axis]
                size = problem.states[problem.ends[edge, axis]]
                found.append((edge, axis, messages[begin:begin + size]))
        for factor in range(problem.n_higher):
            first = problem.scope_first[factor]
            for place in range(first, problem.scope_first[factor + 1]):
                begin = self._start_higher[place]
                size = problem.states[problem.scope[place]]
                found.append((problem.n_edges + factor, place - first,
                              messages[begin:begin + size]))
        return found

    cdef int _sweep(self, MAPProblem problem, bint backward) except -1 nogil:
        """Update the edges and then the larger factors, or backward; then the bound."""
        cdef Py_ssize_t n_factors = problem.n_edges + problem.n_higher
        cdef Py_ssize_t factor, variable, k
        cdef double top, work
        for k in range(n_factors):
            factor = n_factors - 1 - k if backward else k
            if factor < problem.n_edges:
                work = <double>problem.states[problem.ends[factor, 0]]
                work *= problem.states[problem.ends[factor, 1]]
                self._update_edge(problem, factor)
            else:
                work = self._higher.n_entries(problem, factor - problem.n_edges)
                self._update_factor(problem, factor - problem.n_edges)
            if problem.late(work):
                self.bound = INFINITY
                return 0
        # factors are at zero by their messages: the bound is that of the variables
        self.bound = 0.0
        for variable in range(problem.n_variables):
            top = -INFINITY
            for k in range(problem.first[variable], problem.first[variable + 1]):
                top = max(top, self._beliefs[k])
            self.bound += top
        return 0

    # ---- edges ----

    cdef void _update_edge(self, MAPProblem problem, Py_ssize_t edge) noexcept nogil:
        """New messages of an edge to both of its ends."""
        cdef Py_ssize_t side, k, variable
        cdef double* belief
        cdef double* without
        cdef double* message
        cdef double* out = &self._out[0]
        # both messages come from the same b: what is without them goes first
        for side in range(2):
            variable = problem.ends[edge, side]
            without = &self._without[side, 0]
            belief = &self._beliefs[problem.first[variable]]
            message = &self._messages[self._start[edge, side]]
            for k in range(problem.states[variable]):
                without[k] = belief[k] - message[k]
        for side in range(2):
            variable = problem.ends[edge, side]
            without = &self._without[side, 0]
            belief = &self._beliefs[problem.first[variable]]
            message = &self._messages[self._start[edge, side]]
            problem.message(edge, side == 0, &self._without[1 - side, 0], out)
            # half of what the edge and both of its ends have together, |f| being 2
            for k in range(problem.states[variable]):
                belief[k] = 0.5 * (without[k] + out[k])
                message[k] = belief[k] - without[k]

    # ---- factors of three or more variables ----

    cdef void _update_factor(self, MAPProblem problem,
                             Py_ssize_t factor) noexcept nogil:
        """New messages of a larger factor to all of its variables."""
        cdef Py_ssize_t begin = problem.scope_first[factor], i, k, variable
        cdef Py_ssize_t arity = problem.scope_first[factor + 1] - begin
        cdef double* belief
        cdef double* message
        cdef double share
        # b: the beliefs without the messages of this factor
        for i in range(arity):
            variable = problem.scope[begin + i]
            belief = &self._beliefs[problem.first[variable]]
            message = &self._messages[self._start_higher[begin + i]]
            for k in range(problem.states[variable]):
                self._higher.incoming[i, k] = belief[k] - message[k]
        self._higher.maximize(problem, factor)
        # each variable gets its share, 1 / |f|, of what all have together
        for i in range(arity):
            variable = problem.scope[begin + i]
            belief = &self._beliefs[problem.first[variable]]
            message = &self._messages[self._start_higher[begin + i]]
            for k in range(problem.states[variable]):
                share = self._higher.best[i, k] / arity
                message[k] = share - self._higher.incoming[i, k]
                belief[k] = self._higher.incoming[i, k] + message[k]
