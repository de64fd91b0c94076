"""Sweeps of sequential tree-reweighted message passing.

V. Kolmogorov, Convergent tree-reweighted message passing for energy minimization, IEEE
PAMI 28 (2006), for monotonic chains in the order of the variables (Figure 3 there, with
maxima in the place of minima). Node i is in n_i = max(earlier neighbors, later
neighbors) chains and gives each of them 1 / n_i of its reparametrised scores theta'_i,
the beliefs; a sweep sends, from each node i to its later neighbors j,

    M_ij(x_j) = max_{x_i}  theta'_i(x_i) / n_i - M_ji(x_i) + theta_ij(x_i, x_j)

and then the other way. The sum of the chains' maxima is an upper bound that never
rises. Only the messages that are needed next are kept: one vector for each edge.
"""

import numpy as np

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from sksstruct.inference.lp.core._problem cimport MAPProblem, entry_from, other_end
from sksstruct.inference.lp.message_passing._messages cimport Messages

cdef extern from "sksstruct/inference/lp/core/_rows.h" nogil:
    double sks_largest(Py_ssize_t n, const double* scores) noexcept


@cython.final
cdef class TreeReweighted(Messages):
    """Messages of a pairwise graph.

    Parameters
    ----------
    problem : MAPProblem
        The graph, without larger factors.

    Attributes
    ----------
    labeling : ndarray of shape (n_variables,), int32
        What the last sweep read off.
    beliefs : ndarray of shape (n_states.sum(),)
        Scores of the states with all messages, as the last sweep saw them.
    score, bound : float
        Score of the labeling, and the upper bound of that sweep.
    """

    cdef Py_ssize_t[::1] _start     # of the message of each edge
    cdef double[::1] _share         # the 1 / n_i
    cdef double[::1] _given         # scores of a node given the states read off so far
    cdef double[::1] _out
    cdef int32_t[::1] _labeling
    cdef readonly double score

    def __init__(self, MAPProblem problem):
        cdef Py_ssize_t n = problem.n_variables
        ends = np.asarray(problem.ends)
        # a message goes forward and then backward: room for the larger of both ends
        sizes = np.asarray(problem.states)[ends].max(axis=1, initial=0)
        self._start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        # no messages at first: the bound is that of the scores as they are
        self._messages = np.zeros(self._start[problem.n_edges])
        self._given = np.empty(problem.max_states)
        self._out = np.empty(problem.max_states)
        # the neighbors of each node on either side: an edge counts at both of its ends
        earlier = np.bincount(ends.max(axis=1, initial=0), minlength=n)
        later = np.bincount(ends.min(axis=1, initial=n), minlength=n)[:n]
        self._share = 1.0 / np.maximum(np.maximum(earlier[:n], later), 1)
        self._labeling = np.zeros(n, dtype=np.int32)

    @property
    def labeling(self):
        return np.asarray(self._labeling)

    def moved(self):
        cdef MAPProblem problem = self.problem
        cdef Py_ssize_t edge, variable
        messages = np.asarray(self._messages)
        for edge in range(problem.n_edges):
            # to the end that the last sweep visited last
            u, v = problem.ends[edge, 0], problem.ends[edge, 1]
            variable = min(u, v) if self.backward else max(u, v)
            begin = self._start[edge]
            yield edge, int(variable == v), messages[
                begin:begin + problem.states[variable]]

    def begin(self, messages):
        """Set the messages that the first sweep reads, those to earlier nodes.

        Any are valid. Where they are multipliers of a bound of the relaxation, the
        first sweep, which must not be backward, gives a bound that is not above it.

        Parameters
        ----------
        messages : ndarray of shape (n_edges, n_states)
            A row for each edge; all variables have as many states.
        """
        np.asarray(self._messages)[:] = messages.reshape(-1)

    cdef int _sweep(self, MAPProblem problem, bint backward) except -1 nogil:
        """Visit all nodes in their order, or backward."""
        cdef Py_ssize_t k, node, n_later, degree
        cdef double ending, work
        self.score = self.bound = 0.0
        for k in range(problem.n_variables):
            node = problem.n_variables - 1 - k if backward else k
            # about: other ends may have more states
            degree = problem.adj_first[node + 1] - problem.adj_first[node]
            work = <double>degree * problem.states[node] * problem.states[node]
            if problem.late(1.0 + work):
                self.bound = INFINITY
                break
            n_later = self._gather(problem, node, backward)
            # before messages go on: the labeling depends on earlier states, and on the
            # messages that later neighbors sent in the last sweep
            self._read_off(problem, node)
            # chains that go on count when they arrive; here those that end
            ending = 1.0 - n_later * self._share[node]
            self.bound += ending * sks_largest(
                problem.states[node], &self._beliefs[problem.first[node]])
            self._send_on(problem, node, backward)
        return 0

    cdef inline Py_ssize_t _gather(self, MAPProblem problem, Py_ssize_t node,
                                   bint backward) noexcept nogil:
        """Beliefs of a node, and its scores given earlier states; its later neighbors.
        """
        cdef Py_ssize_t i, j, edge, other, n_later = 0, size = problem.states[node]
        cdef double* belief = &self._beliefs[problem.first[node]]
        cdef double* given = &self._given[0]
        cdef const double* message
        memcpy(belief, &problem.unary[problem.first[node]], size * sizeof(double))
        memcpy(given, belief, size * sizeof(double))
        # earlier messages were sent in this sweep, later ones in the last: both count
        for i in range(problem.adj_first[node], problem.adj_first[node + 1]):
            edge = problem.adj_edge[i]
            other = other_end(problem, edge, node)
            message = &self._messages[self._start[edge]]
            for j in range(size):
                belief[j] += message[j]
            if (other < node) != backward:
                # the neighbor has its state: its scores are what counts
                problem.add_states(edge, problem.ends[edge, 0] == node,
                                   self._labeling[other], given)
            else:
                n_later += 1
                for j in range(size):
                    given[j] += message[j]
        return n_later

    cdef inline void _read_off(self, MAPProblem problem,
                               Py_ssize_t node) noexcept nogil:
        """Give a node the best state given the states of earlier nodes."""
        cdef const double* given = &self._given[0]
        cdef Py_ssize_t j, best = 0
        # of equal states the first, so that neighbors that tie choose alike
        for j in range(1, problem.states[node]):
            if given[j] > given[best]:
                best = j
        self._labeling[node] = best
        self.score += problem.unary[problem.first[node] + best]

    cdef inline void _send_on(self, MAPProblem problem, Py_ssize_t node,
                              bint backward) noexcept nogil:
        """Send the messages to later neighbors; score the edges to earlier ones."""
        cdef Py_ssize_t i, j, edge, other
        cdef double share = self._share[node], top
        cdef const double* belief = &self._beliefs[problem.first[node]]
        # the scores given earlier states have been read off: their room is free
        cdef double* reduced = &self._given[0]
        cdef double* out = &self._out[0]
        cdef double* message
        for i in range(problem.adj_first[node], problem.adj_first[node + 1]):
            edge = problem.adj_edge[i]
            other = other_end(problem, edge, node)
            # an edge is scored when its second end has been read off
            if (other < node) != backward:
                self.score += entry_from(problem, edge, node, self._labeling[node],
                                         self._labeling[other])
                continue
            # one vector for each edge: the message to this node gives its place to the
            # one from it, which is longer or shorter
            message = &self._messages[self._start[edge]]
            for j in range(problem.states[node]):
                reduced[j] = share * belief[j] - message[j]
            problem.message(edge, problem.ends[edge, 0] != node, reduced, out)
            # the maximum moves into the bound, so that messages do not grow
            top = sks_largest(problem.states[other], out)
            self.bound += top
            for j in range(problem.states[other]):
                message[j] = out[j] - top
