"""Dual variables of smooth losses of chains with features on pairs of labels.

The natural parameters are those of `_entropy_dual.pyx` and weights of these features. A
sequence stores the weights that it reads after the table that all positions share. The
means of their features follow the means of the table. The tables of positions are
formed from these weights, and never stored.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from sksstruct.inference.chains._sumproduct cimport EdgeTable
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._entropy_dual cimport ChainEntropyDual
from sksstruct.models.chain._workspace cimport ChainScratch, add_edge
from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.utils._simd cimport sks_add_table

from sksstruct.utils._layout import aligned_zeros


cdef class PairEntropyDual(ChainEntropyDual):
    """The dual variables of a chain with features on pairs of labels.

    Parameters
    ----------
    chain, mu, state, shared : objects
        As in `EntropyDual`.
    """

    cdef object _lists, _dense
    # the weights that each sequence reads, and where its list begins
    cdef const int64_t* _first_read
    cdef const int32_t* _read
    # (n_pair_weights,) of all weights, where the others are of those that are read
    cdef double* _spread

    def __init__(self, BoundChain chain, double mu, state=None, bint shared=False):
        cdef const int64_t[::1] first
        cdef const int32_t[::1] read
        cdef double[::1] dense = aligned_zeros(chain.n_pair_weights + 1)
        self._dense = dense
        first, read = self._lists = chain.pair_features.of_sequences(chain.starts)
        self._first_read, self._spread = &first[0], &dense[0]
        self._read = &read[0] if read.shape[0] else NULL
        ChainEntropyDual.__init__(self, chain, mu, state, shared)

    def sizes(self):
        # whole cache lines, as other parameters take
        n_read = np.diff(self._lists[0])
        return ChainEntropyDual.sizes(self) + (n_read + 7) // 8 * 8

    def state(self):
        return {
            **ChainEntropyDual.state(self),
            "pair_features": self._chain.pair_features.arrays(),
        }

    # ---- between weights that are read and all weights ----

    cdef Py_ssize_t _n_read(self, Py_ssize_t i) noexcept nogil:
        """Return how many weights a sequence reads."""
        return self._first_read[i + 1] - self._first_read[i]

    cdef void _spread_out(self, Py_ssize_t i, const double* values) noexcept nogil:
        """Write values of the weights that a sequence reads to where all weights are.

        The others are never read.
        """
        cdef Py_ssize_t first = self._first_read[i], k
        for k in range(self._n_read(i)):
            self._spread[self._read[first + k]] = values[k]

    cdef void _sum_edges(self, Py_ssize_t i, double* pair_means) noexcept nogil:
        """Write the means of pairs, from tables of edge means of all positions."""
        cdef Py_ssize_t first = self._first_read[i], step = self._chain._table_step
        cdef Py_ssize_t second = self._chain._starts[i] + 1, t, k
        cdef const double* edges = self._oracle.edges
        memset(pair_means, 0, (self._size(i) - self.n_nodes(i)) * sizeof(double))
        # zeros, to which the means are added
        self._spread_out(i, pair_means + step)
        for t in range(self._chain._sizes[i] - 1):
            sks_add_table(step, 1.0, edges, pair_means)
            self._chain.pair_features.add_means(
                second + t, 1.0, edges, self._spread)
            edges += step
        for k in range(self._n_read(i)):
            pair_means[step + k] = self._spread[self._read[first + k]]

    # ---- potentials and distributions ----

    cdef int read(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef double* scores = self._loaded + self.n_nodes(i) + self._chain._table_step
        cdef Py_ssize_t first = self._first_read[i], k
        # the table that is shared, and then the weights that the sequence reads
        ChainEntropyDual.read(self, workspace, i)
        for k in range(self._n_read(i)):
            scores[k] = ws.pair_weights[self._read[first + k]] / self.mu
        return 0

    cdef const EdgeTable* _exponentiate(self, ChainScratch* ws, Py_ssize_t i,
                                        const double* pairs) noexcept nogil:
        cdef Py_ssize_t step = self._chain._table_step, t
        cdef Py_ssize_t second = self._chain._starts[i] + 1
        self._spread_out(i, pairs + step)
        # in place of the tables of the potentials, which have been read
        for t in range(self._chain._sizes[i] - 1):
            memcpy(ws.tables + t * step, pairs, step * sizeof(double))
            self._chain.pair_features.add_scores(
                second + t, self._spread, ws.tables + t * step)
        ws.shared = pairs
        return self._oracle.load_tables(ws, i, 1.0, True)

    cdef double expect(self, Workspace workspace, Py_ssize_t i, const double* natural,
                       double* means) except? -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t size = self._chain._sizes[i], nodes = self.n_nodes(i)
        cdef double* edges = self._oracle.edges
        cdef double log_partition
        memset(edges, 0, (size - 1) * self._chain._table_step * sizeof(double))
        # tables of edge means live as long as this call only
        self._oracle.add_by_entropy(
            size, natural, self._exponentiate(ws, i, natural + nodes), 1.0, means,
            edges, &log_partition)
        self._sum_edges(i, means + nodes)
        return log_partition

    cdef int _observe_pairs(self, Py_ssize_t i, double* pair_means) except -1 nogil:
        cdef Py_ssize_t step = self._chain._table_step, ld = self._chain.ld, t
        cdef const int32_t* y = &self._chain._labels[self._chain._starts[i]]
        cdef double* edges = self._oracle.edges
        memset(edges, 0, (self._chain._sizes[i] - 1) * step * sizeof(double))
        # as tables too, so that there is one way to sum them
        for t in range(self._chain._sizes[i] - 1):
            edges[t * step + y[t] * ld + y[t + 1]] = 1.0
        self._sum_edges(i, pair_means)
        return 0

    # ---- changes of means ----

    cdef int prepare(self, Workspace workspace, Py_ssize_t i, const double* new,
                     const double* old) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t first = self._first_read[i], step = self._chain._table_step
        cdef Py_ssize_t start = self.n_nodes(i) + step, k
        cdef double change
        ChainEntropyDual.prepare(self, workspace, i, new, old)
        # lists of both are those of one sequence
        for k in range(self._n_read(i)):
            change = new[start + k] - old[start + k]
            if change != 0.0:
                add_edge(ws, step + self._read[first + k], change)
        return 0

    cdef double change_score(self, Workspace workspace, Py_ssize_t i,
                             const double* natural) except? -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t first = self._first_read[i], step = self._chain._table_step
        cdef const double* scores = natural + self.n_nodes(i) + step
        cdef Py_ssize_t k
        cdef double total = ChainEntropyDual.change_score(self, workspace, i, natural)
        for k in range(self._n_read(i)):
            total += scores[k] * ws.edge_change[step + self._read[first + k]]
        return total
