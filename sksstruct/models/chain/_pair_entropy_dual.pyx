"""Dual variables of smooth losses of chains with features on pairs of labels.

The natural parameters are those of `_entropy_dual.pyx` and weights of these features. A
sequence stores the weights that it reads after the table that all positions share. The
means of their features follow the means of the table. The tables of positions are
formed from these weights, and never stored.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from sksstruct.inference.chains._sumproduct cimport EdgeTable
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._entropy_dual cimport ChainEntropyDual, Gibbs
from sksstruct.models.chain._workspace cimport ChainScratch, add_edge
from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.utils._simd cimport sks_add_table

from sksstruct.utils._layout import aligned_zeros


cdef class PairEntropyDual(ChainEntropyDual):
    """The dual variables of a chain with features on pairs of labels.

    Parameters
    ----------
    chain : BoundChain
        The chain with its data.
    mu : float
        Strength of the smoothing.
    state : dict, default=None
        The state of another object, whose distributions are used.
    shared : bool, default=False
        Whether that object is there, too, so that there is nothing to check.
    """

    cdef object _lists, _dense
    # the weights that each sequence reads, and where its list begins
    cdef const int64_t* _first_read
    cdef const int32_t* _read
    # (n_pair_weights,) of all weights, where the others are of those that are read
    cdef double* _spread

    def __init__(self, BoundChain chain, double mu, state=None, shared=False):
        cdef const int64_t[::1] first
        cdef const int32_t[::1] read
        cdef double[::1] dense = aligned_zeros(chain.n_pair_weights + 1)
        self._dense = dense
        first, read = self._lists = chain.pair_features.of_sequences(chain.starts)
        self._first_read, self._spread = &first[0], &dense[0]
        self._read = &read[0] if read.shape[0] else NULL
        # which asks how many there are
        ChainEntropyDual.__init__(self, chain, mu, state, shared)

    def state(self):
        return {
            **ChainEntropyDual.state(self),
            "pair_features": self.chain.pair_features.arrays(),
        }

    cdef Py_ssize_t _first_pairs(self, Py_ssize_t i) noexcept nogil:
        return ChainEntropyDual._first_pairs(self, i) + self._first_read[i]

    # ---- between weights that are read and all weights ----

    cdef void _spread_out(self, Py_ssize_t i, const double* values) noexcept nogil:
        """Write values of the weights that a sequence reads to where all weights are.

        The others are never read.
        """
        cdef Py_ssize_t first = self._first_read[i], k
        for k in range(self._first_read[i + 1] - first):
            self._spread[self._read[first + k]] = values[k]

    cdef void _sum_edges(self, Py_ssize_t i, double* pair_means) noexcept nogil:
        """Write the means of pairs, from tables of edge means of all positions."""
        cdef Py_ssize_t first = self._first_read[i], n = self._first_read[i + 1] - first
        cdef Py_ssize_t step = self.chain._table_step, t, k
        cdef Py_ssize_t second = self.chain._starts[i] + 1
        cdef const double* edges = self._oracle.edges
        memset(pair_means, 0, (step + n) * sizeof(double))
        # zeros, to which the means are added
        self._spread_out(i, pair_means + step)
        for t in range(self.chain._sizes[i] - 1):
            sks_add_table(step, 1.0, edges, pair_means)
            self.chain.pair_features.add_means(
                second + t, 1.0, edges, self._spread)
            edges += step
        for k in range(n):
            pair_means[step + k] = self._spread[self._read[first + k]]

    # ---- potentials and distributions ----

    cdef int load(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t first = self._first_read[i], k
        cdef double* scores = self._pairs + self.chain._table_step
        # the table that is shared, and then the weights that the sequence reads
        ChainEntropyDual.load(self, workspace, i)
        for k in range(self._first_read[i + 1] - first):
            scores[k] = ws.pair_weights[self._read[first + k]] / self.mu
        return 0

    cdef const EdgeTable* _exponentiate(self, ChainScratch* ws, Py_ssize_t i,
                                        const double* pairs) noexcept nogil:
        cdef Py_ssize_t step = self.chain._table_step, t
        cdef Py_ssize_t second = self.chain._starts[i] + 1
        self._spread_out(i, pairs + step)
        # in place of the tables of the potentials, which have been read
        for t in range(self.chain._sizes[i] - 1):
            memcpy(ws.tables + t * step, pairs, step * sizeof(double))
            self.chain.pair_features.add_scores(
                second + t, self._spread, ws.tables + t * step)
        ws.shared = pairs
        return self._oracle.load_tables(ws, i, 1.0, True)

    cdef int _find_pair_means(self, ChainScratch* ws, Py_ssize_t i, const Gibbs* tried,
                              double* log_partition) except -1 nogil:
        cdef Py_ssize_t size = self.chain._sizes[i]
        cdef double* edges = self._oracle.edges
        memset(edges, 0, (size - 1) * self.chain._table_step * sizeof(double))
        # tables of edge means live as long as this call only
        self._oracle.add_by_entropy(
            size, tried.nodes, self._exponentiate(ws, i, tried.pairs), 1.0,
            tried.node_means, edges, log_partition)
        self._sum_edges(i, tried.pair_means)
        return 0

    cdef void _write_observed_pairs(self, Py_ssize_t i,
                                    double* pair_means) noexcept nogil:
        cdef Py_ssize_t step = self.chain._table_step, ld = self.chain.ld, t
        cdef const int32_t* y = &self.chain._labels[self.chain._starts[i]]
        cdef double* edges = self._oracle.edges
        memset(edges, 0, (self.chain._sizes[i] - 1) * step * sizeof(double))
        # as tables too, so that there is one way to sum them
        for t in range(self.chain._sizes[i] - 1):
            edges[t * step + y[t] * ld + y[t + 1]] = 1.0
        self._sum_edges(i, pair_means)

    # ---- changes of means ----

    cdef double _change_score(self, const ChainScratch* ws, Py_ssize_t i,
                              const double* pairs) noexcept nogil:
        cdef Py_ssize_t first = self._first_read[i], step = self.chain._table_step, k
        cdef double total = ChainEntropyDual._change_score(self, ws, i, pairs)
        for k in range(self._first_read[i + 1] - first):
            total += pairs[step + k] * ws.edge_change[step + self._read[first + k]]
        return total

    cdef void _prepare_change(self, ChainScratch* ws, Py_ssize_t i, const Gibbs* new,
                              const Gibbs* old) noexcept nogil:
        cdef Py_ssize_t first = self._first_read[i], step = self.chain._table_step, k
        cdef double change
        ChainEntropyDual._prepare_change(self, ws, i, new, old)
        # lists of both are those of one sequence
        for k in range(self._first_read[i + 1] - first):
            change = new.pair_means[step + k] - old.pair_means[step + k]
            if change != 0.0:
                add_edge(ws, step + self._read[first + k], change)
