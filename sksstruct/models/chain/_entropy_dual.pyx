"""Dual variables of smooth losses of chains, one Gibbs distribution for each sequence.

Natural parameters of a sequence are a row of scores for each position, its nodes, and
one table of scores of pairs. Potentials have this form, and so do mixtures of
potentials at several weights. The mean parameters are the node means, and the edge
means summed over the positions, which determine the weights.

Where features have weights on pairs of labels, the weights that a sequence reads are
further natural parameters, after the table; the means of these features follow the
means of the table. Tables of positions are formed from these weights when needed, and
not stored. Scores of triples of labels are the last natural parameters. Further
notation is as in `_chain.pyx` and `models/protocols/_entropy_dual.pyx`.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from sksstruct.inference.chains._sumproduct cimport EdgeTable, exponentiate_table
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._means cimport ChainMeans
from sksstruct.models.chain._workspace cimport TRANSITIONS, ChainScratch
from sksstruct.models.protocols._bound_model cimport TINY, Workspace
from sksstruct.models.protocols._entropy_dual cimport EntropyDual
from sksstruct.models.tables._change cimport add_cell, add_cells
from sksstruct.utils._simd cimport sks_add_table

from sksstruct.utils._layout import aligned_zeros


cdef class ChainEntropyDual(EntropyDual):
    """The dual variables of a chain.

    Parameters
    ----------
    chain, mu, state, source : objects
        As in `EntropyDual`.
    """

    cdef BoundChain _chain
    cdef ChainMeans _oracle
    # exponentials of the natural parameters of pairs
    cdef object _memory
    cdef EdgeTable _table
    # number of cells of a table; number of triples, rounded up to whole cache lines
    cdef Py_ssize_t _cells, _n_triples
    # sequence i reads the weights of features on pairs whose indices are
    # _read[_list_starts[i]:_list_starts[i + 1]]; `_lists` holds both arrays
    cdef object _lists
    cdef const int64_t* _list_starts
    cdef const int32_t* _read
    # scratch (n_pair_weights,): values of the weights that a sequence reads, at the
    # indices of these weights; other entries are not read
    cdef double* _pair_values

    def __init__(self, BoundChain chain, double mu, state=None,
                 EntropyDual source=None):
        cdef Py_ssize_t cells = chain.n_labels * chain.ld
        cdef double[::1] tables = aligned_zeros(2 * cells + chain.n_pair_weights + 1)
        cdef const int64_t[::1] first
        cdef const int32_t[::1] read
        self._chain, self._oracle, self._cells = chain, ChainMeans(chain), cells
        self._table.ahead, self._table.back = &tables[0], &tables[cells]
        self._memory, self._pair_values = tables, &tables[2 * cells]
        self._n_triples = (chain.n_triples + 7) // 8 * 8
        if chain._table_step:
            first, read = self._lists = chain.pair_features.of_sequences(chain.starts)
            self._list_starts = &first[0]
            self._read = &read[0] if read.shape[0] else NULL
        EntropyDual.__init__(self, chain, mu, state, source)

    def sizes(self):
        sizes = (self._chain.sizes + self._chain.n_labels) * self._chain.ld
        sizes = sizes + self._n_triples
        if self._lists is None:
            return sizes
        # the number of weights that a sequence reads, rounded up to whole cache lines
        return sizes + (np.diff(self._lists[0]) + 7) // 8 * 8

    cdef Py_ssize_t _triples_begin(self, Py_ssize_t i) noexcept nogil:
        """Return the index of a sequence's first natural parameter of triples."""
        return self._size(i) - self._n_triples

    def state(self):
        state = EntropyDual.state(self)
        if self._lists is not None:
            state["pair_features"] = self._chain.pair_features.arrays()
        return state

    cdef Py_ssize_t n_nodes(self, Py_ssize_t i) noexcept nogil:
        return self._chain._sizes[i] * self._chain.ld

    # ---- weights of features on pairs ----

    cdef Py_ssize_t _n_read(self, Py_ssize_t i) noexcept nogil:
        """Return the number of weights of features on pairs that a sequence reads."""
        if not self._chain._table_step:
            return 0
        return self._list_starts[i + 1] - self._list_starts[i]

    cdef void _scatter_values(self, Py_ssize_t i, const double* values) noexcept nogil:
        """Write values of the weights that a sequence reads to `_pair_values`.

        Kernels do not read entries of other weights.
        """
        cdef Py_ssize_t first = self._list_starts[i], k
        for k in range(self._n_read(i)):
            self._pair_values[self._read[first + k]] = values[k]

    cdef void _sum_edges(self, Py_ssize_t i, double* pair_means) noexcept nogil:
        """Write the edge means of `_oracle`, summed over positions, and then the means
        of features on pairs to `pair_means`.
        """
        cdef Py_ssize_t first = self._list_starts[i], cells = self._cells
        cdef Py_ssize_t second = self._chain._starts[i] + 1, t, k
        cdef const double* edges = self._oracle.edges
        memset(pair_means, 0,
               (self._triples_begin(i) - self.n_nodes(i)) * sizeof(double))
        # as pair_means are zero, this call clears the entries that `add_means` adds to
        self._scatter_values(i, pair_means + cells)
        for t in range(self._chain._sizes[i] - 1):
            sks_add_table(cells, 1.0, edges, pair_means)
            self._chain.pair_features.add_means(
                second + t, 1.0, edges, self._pair_values)
            edges += cells
        for k in range(self._n_read(i)):
            pair_means[cells + k] = self._pair_values[self._read[first + k]]

    # ---- potentials and distributions ----

    cdef int read(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self._chain.ld, nodes = self.n_nodes(i), k
        cdef double* pairs = self._loaded + nodes
        cdef const double* mask = self._chain._constraints.mask
        for k in range(nodes):
            self._loaded[k] = ws.theta[k] / self.mu
        memset(pairs, 0, self._cells * sizeof(double))
        sks_add_table(self._cells, 1.0 / self.mu, ws.tail + TRANSITIONS * ld, pairs)
        # the mask's rows of transitions follow its rows of first and last labels
        if mask != NULL:
            sks_add_table(self._cells, 1.0, mask + 2 * ld, pairs)
        for k in range(self._n_read(i)):
            pairs[self._cells + k] = (
                ws.pair_weights[self._read[self._list_starts[i] + k]] / self.mu)
        for k in range(self._chain.n_triples):
            self._loaded[self._triples_begin(i) + k] = ws.triple_weights[k] / self.mu
        return 0

    cdef const EdgeTable* _exponentiate(self, ChainScratch* ws, Py_ssize_t i,
                                        const double* pairs) noexcept nogil:
        """Return the tables that the oracle reads, given natural parameters of pairs.

        The oracle also reads scores of triples, which follow the scores of pairs.
        """
        cdef Py_ssize_t cells = self._cells, t
        cdef Py_ssize_t second = self._chain._starts[i] + 1
        if self._chain._has_triples(i):
            self._oracle.triple_table.load(
                pairs + self._triples_begin(i) - self.n_nodes(i), 1.0, True)
        if not self._chain._table_step:
            self._table.scores = pairs
            exponentiate_table(self._chain.n_labels, self._chain.ld, &self._table)
            return &self._table
        self._scatter_values(i, pairs + cells)
        # overwrites the tables of the potentials; `read` has copied the weights from
        # which these tables were formed
        for t in range(self._chain._sizes[i] - 1):
            memcpy(ws.tables + t * cells, pairs, cells * sizeof(double))
            self._chain.pair_features.add_scores(
                second + t, self._pair_values, ws.tables + t * cells)
        ws.shared = pairs
        return self._oracle.load_tables(ws, i, 1.0, True)

    cdef double expect(self, Workspace workspace, Py_ssize_t i, const double* natural,
                       double* means) except? -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t size = self._chain._sizes[i], nodes = self.n_nodes(i)
        cdef bint paired = self._chain._table_step != 0
        # edge means of positions are needed only in this call
        cdef double* edges = self._oracle.edges if paired else means + nodes
        cdef double* triples = means + self._triples_begin(i)
        cdef double log_partition
        # the oracle adds to the means of edges and of triples, and does not clear them
        memset(edges, 0, self._chain._edge_cells(size) * sizeof(double))
        memset(triples, 0, self._n_triples * sizeof(double))
        self._oracle.add_by_entropy(
            size, natural, self._exponentiate(ws, i, natural + nodes), 1.0, means,
            edges, triples, &log_partition)
        if paired:
            self._sum_edges(i, means + nodes)
        return log_partition

    cdef double log_partition(self, Workspace workspace,
                              Py_ssize_t i) except? -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef double log_partition
        # edge means, which take most of the time, are not formed
        self._oracle.by_entropy(
            self._chain._sizes[i], self._loaded,
            self._exponentiate(ws, i, self._loaded + self.n_nodes(i)), 1.0,
            self._tried_means, NULL, NULL, NULL, &log_partition)
        return log_partition

    cdef int observe(self, Py_ssize_t i, double* means) except -1 nogil:
        cdef Py_ssize_t size = self._chain._sizes[i], nodes = self.n_nodes(i), k
        cdef Py_ssize_t n_keys
        if not self._chain._table_step:
            return EntropyDual.observe(self, i, means)
        n_keys = self.observed_keys(i)
        memset(means, 0, nodes * sizeof(double))
        memset(self._oracle.edges, 0, self._chain._edge_cells(size) * sizeof(double))
        # edge keys are indices of cells of all tables of positions, which `_sum_edges`
        # sums
        memset(means + self._triples_begin(i), 0, self._n_triples * sizeof(double))
        for k in range(n_keys):
            if self._keys[k] < nodes:
                means[self._keys[k]] = 1.0
            elif self._keys[k] < nodes + self._chain._edge_cells(size):
                self._oracle.edges[self._keys[k] - nodes] = 1.0
        self._chain.add_triples(
            i, &self._labeling[0], 1.0, means + self._triples_begin(i))
        self._sum_edges(i, means + nodes)
        return 0

    cdef double loss(self, Py_ssize_t i, const double* means) except? -1 nogil:
        cdef Py_ssize_t start = self._chain._starts[i], t
        cdef double total = 0.0
        # expected cost: the cost times the probability of a wrong label
        for t in range(self._chain._sizes[i]):
            total += self._chain._cost[start + t] * (
                1.0 - means[t * self._chain.ld + self._chain._labels[start + t]])
        return total

    cdef int add_change(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t nodes = self.n_nodes(i), k
        cdef const double* change = self._change + nodes
        if not self._chain._table_step:
            return EntropyDual.add_change(self, workspace, i)
        sks_add_table(nodes, 1.0, self._change, ws.change.d)
        add_cells(&ws.change, 0, self._cells, change, TINY)
        for k in range(self._n_read(i)):
            if change[self._cells + k] != 0.0:
                add_cell(&ws.change, self._cells + self._read[self._list_starts[i] + k],
                         change[self._cells + k])
        add_cells(&ws.change, self._chain._first_triple, self._chain.n_triples,
                  self._change + self._triples_begin(i), TINY)
        ws.change.scanned = False
        return 0
