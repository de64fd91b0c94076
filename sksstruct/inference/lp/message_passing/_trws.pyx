"""Sweeps of sequential tree-reweighted message passing.

V. Kolmogorov, Convergent tree-reweighted message passing for energy minimization, IEEE
PAMI 28 (2006), for monotonic chains in the order of the variables. Node i is in n_i =
max(earlier neighbours, later neighbours) chains and gives each of them 1 / n_i of its
reparametrised scores; a sweep sends, from each node to its later neighbours,

    M_ij(x_j) = max_{x_i}  theta'_i(x_i) / n_i - M_ji(x_i) + theta_ij(x_i, x_j)

and then the other way. The sum of the chains' maxima is an upper bound that never
rises. Only the messages that are needed next are kept: one vector for each edge.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memcpy

from sksstruct.inference.lp.core._problem cimport MAPProblem

cdef extern from "sksstruct/inference/lp/core/_rows.h" nogil:
    double sks_largest(Py_ssize_t n, const double* a) noexcept


cdef class TreeReweighted:
    """Messages of a pairwise graph.

    Parameters
    ----------
    problem : Problem
        The graph, without larger factors.

    Attributes
    ----------
    labeling : ndarray of shape (n_variables,), int32
        What the last sweep read off.
    beliefs : ndarray of shape (n_states.sum(),)
        Scores of the states with all messages, as the last sweep saw them.
    score, bound : float
        Its score, and the upper bound of that sweep.
    """

    cdef MAPProblem problem
    cdef Py_ssize_t[::1] _start
    cdef double[::1] _messages, _beliefs, _chosen, _out
    cdef double[::1] _share
    cdef int32_t[::1] _x
    cdef readonly double score, bound

    def __init__(self, MAPProblem problem):
        cdef Py_ssize_t n = problem.n
        self.problem = problem
        ends = np.asarray(problem.ends)
        sizes = np.asarray(problem.states)[ends].max(axis=1, initial=0)
        self._start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        self._messages = np.zeros(self._start[problem.m])
        self._beliefs = np.empty(problem.first[n])
        self._chosen = np.empty(problem.max_states)
        self._out = np.empty(problem.max_states)
        earlier = np.bincount(ends.max(axis=1, initial=0), minlength=n)
        later = np.bincount(ends.min(axis=1, initial=n), minlength=n)[:n]
        self._share = 1.0 / np.maximum(np.maximum(earlier[:n], later), 1)
        self._x = np.zeros(n, dtype=np.int32)

    @property
    def labeling(self):
        return np.asarray(self._x)

    @property
    def beliefs(self):
        return np.asarray(self._beliefs)

    def sweep(self, bint backward=False):
        """Send all messages one way; labeling, score and bound are those of the sweep.

        Parameters
        ----------
        backward : bool, default=False
            From the last variable to the first.

        Returns
        -------
        bound : float
            Upper bound of all scores.
        """
        cdef MAPProblem problem = self.problem
        with nogil:
            self._sweep(problem, backward)
        return self.bound

    cdef void _sweep(self, MAPProblem p, bint backward) noexcept nogil:
        cdef Py_ssize_t i, j, k, s, e, size, other, best, ends, size_other
        cdef double* belief
        cdef double* chosen = &self._chosen[0]
        cdef double* out = &self._out[0]
        cdef double* message
        cdef double share, top, total = 0.0, bound = 0.0
        cdef bint first
        for k in range(p.n):
            i = p.n - 1 - k if backward else k
            size = p.states[i]
            share = self._share[i]
            belief = &self._beliefs[p.first[i]]
            memcpy(belief, &p.unary[p.first[i]], size * sizeof(double))
            memcpy(chosen, belief, size * sizeof(double))
            ends = 0
            for s in range(p.adj_first[i], p.adj_first[i + 1]):
                e = p.adj_edge[s]
                first = p.ends[e, 0] == i
                other = p.ends[e, 1] if first else p.ends[e, 0]
                message = &self._messages[self._start[e]]
                for j in range(size):
                    belief[j] += message[j]
                if (other < i) != backward:
                    # the neighbour has its state: its scores are what counts
                    p.add_states(e, first, self._x[other], chosen)
                else:
                    ends += 1
                    for j in range(size):
                        chosen[j] += message[j]
            best = 0
            for j in range(1, size):
                if chosen[j] > chosen[best]:
                    best = j
            self._x[i] = best
            total += p.unary[p.first[i] + best]
            bound += (1.0 - ends * share) * sks_largest(size, belief)
            for s in range(p.adj_first[i], p.adj_first[i + 1]):
                e = p.adj_edge[s]
                first = p.ends[e, 0] == i
                other = p.ends[e, 1] if first else p.ends[e, 0]
                if (other < i) != backward:
                    if first:
                        total += p.entry(e, best, self._x[other])
                    else:
                        total += p.entry(e, self._x[other], best)
                    continue
                message = &self._messages[self._start[e]]
                for j in range(size):
                    chosen[j] = share * belief[j] - message[j]
                p.message(e, not first, chosen, out)
                size_other = p.states[other]
                top = sks_largest(size_other, out)
                bound += top
                for j in range(size_other):
                    message[j] = out[j] - top
        self.score, self.bound = total, bound
