"""Smooth losses of chains whose transitions depend on the observations.

These are the losses of `_smooth.pyx`, with one table of transitions for each position.
The edge means are formed for one example at a time, as one table for each pair of
neighbors. They are then added up twice: over positions for the transitions, and times
the features that have weights on pairs of labels. Tables of all examples would be much
larger than the features. The anchor of visits is therefore not its edge means but the
weights of the sweep, for which a visit calls the oracle once more.
"""

import numpy as np

from libc.string cimport memset

from sksstruct.inference.chains._sumproduct cimport EdgeTable
from sksstruct.models.chain._means cimport ChainMeans
from sksstruct.models.chain._smooth cimport ChainSmoothLoss
from sksstruct.models.chain._workspace cimport ChainScratch, add_edge
from sksstruct.models.protocols._bound_model cimport TINY, Workspace
from sksstruct.models.protocols._weights cimport LazyWeights
from sksstruct.utils._simd cimport sks_add_table, sks_axpy

from sksstruct.utils._layout import aligned_zeros


cdef class PairSmoothLoss(ChainSmoothLoss):
    """The mean smooth loss of a chain with features on pairs, and its gradient.

    Parameters
    ----------
    chain : BoundChain
        The chain, which has such features.
    smoothing, unknown, numbers, nonsmooth, support : objects
        As in `ChainSmoothLoss`.
    """

    # what visits subtract is found at the weights of the last sweep
    cdef Workspace _anchor
    cdef object _anchor_memory
    cdef double* _anchor_edges

    # ---- value and gradient ----

    def _load_table(self, w):
        """Do nothing: no table is shared, as each example has its own."""

    def _keep_anchor(self, w):
        """Keep the weights of a sweep if visits will be anchored there."""
        cdef double[::1] edges
        self._anchor = None
        if self._anchored:
            edges = aligned_zeros(max(self.chain._edge_cells(self.chain.max_size), 1))
            self._anchor_memory, self._anchor_edges = edges, &edges[0]
            # nodes go where changes do
            self._anchor = self.chain.workspace(np.array(w), training=True)

    cdef double _maximum(
        self, ChainScratch* ws, ChainMeans means, Py_ssize_t i, double* edges,
        unsigned char* exact
    ) except? -1 nogil:
        """Return the smoothed maximum; its edge means are written to `means.edges`."""
        cdef Py_ssize_t size = self.chain._sizes[i], entry
        cdef double* node = &self._difference[self.chain._starts[i], 0]
        cdef double scale = 1.0 / self.mu, value
        cdef const EdgeTable* tables
        # both oracles add to the edge means
        memset(means.edges, 0, self.chain._edge_cells(size) * sizeof(double))
        if not self._entropy:
            return means.by_topk(
                ws, i, ws.tables, self.mu, 1.0, node, means.edges, exact)
        for entry in range(size * self.chain.ld):
            ws.theta[entry] *= scale
        tables = means.load_tables(ws, i, scale, True)
        means.add_by_entropy(size, ws.theta, tables, 1.0, node, means.edges, &value)
        return value * self.mu + ws.constant

    cdef void _subtract_observed_edges(self, ChainMeans means, Py_ssize_t i,
                                       double* edges) noexcept nogil:
        cdef Py_ssize_t start = self.chain._starts[i], t
        cdef double* table = means.edges
        for t in range(start, start + self.chain._sizes[i] - 1):
            table[self.chain._labels[t] * self.chain.ld
                  + self.chain._labels[t + 1]] -= 1.0
            table += self.chain._table_step
        self._add_edges(means, i, edges)

    cdef double _subtract_agreeing(
        self, ChainScratch* ws, ChainMeans means, Py_ssize_t i, double* edges
    ) except? -1 nogil:
        cdef Py_ssize_t size = self.chain._sizes[i], ld = self.chain.ld, t
        cdef double* node = &self._difference[self.chain._starts[i], 0]
        cdef double value
        self._forbid_others(ws, i)
        # at the tables that the maximum has loaded
        means.add_by_entropy(
            size, ws.theta, means.tables, -1.0, means.other, means.edges, &value)
        for t in range(size):
            sks_axpy(ld, -1.0, means.other + t * ld, node + t * ld)
        self._add_edges(means, i, edges)
        return value * self.mu + ws.constant

    cdef void _add_edges(self, ChainMeans means, Py_ssize_t i,
                         double* edges) noexcept nogil:
        """Add p_i times the differences of edge means to the sums of a part."""
        cdef Py_ssize_t step = self.chain._table_step, t
        cdef Py_ssize_t second = self.chain._starts[i] + 1
        cdef double weight = self.chain._example_weights[i]
        # transitions come twice, the second time for those without a factor
        cdef double* pairs = edges + 2 * step
        for t in range(self.chain._sizes[i] - 1):
            sks_add_table(step, weight, means.edges + t * step, edges)
            self.chain.pair_features.add_means(
                second + t, weight, means.edges + t * step, pairs)

    # ---- visits of single examples ----

    cdef int catch_up(self, LazyWeights weights, Py_ssize_t i) except -1 nogil:
        cdef Py_ssize_t position
        ChainSmoothLoss.catch_up(self, weights, i)
        # the first position has no pair
        for position in range(self.chain._starts[i] + 1, self.chain._starts[i + 1]):
            self.chain.pair_features.catch_up(
                position, self.chain.first_pair, self.row_size, weights)
        return 0

    cdef const EdgeTable* _load_visit_table(
        self, ChainScratch* ws, Py_ssize_t i, double factor
    ) noexcept nogil:
        return self._visit_means.load_tables(ws, i, factor, self._entropy)

    cdef int _subtract_anchor(self, Py_ssize_t i, double* edges) except -1 nogil:
        cdef Py_ssize_t n_cells = self.chain._edge_cells(self.chain._sizes[i])
        # in a workspace of its own, whose nodes nobody reads
        self._visit_example(self._anchor, i, 1.0, self._anchor_edges)
        sks_add_table(n_cells, -1.0, self._anchor_edges, edges)
        return 0

    cdef void _note_edges(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil:
        cdef Py_ssize_t second = self.chain._starts[i] + 1, t, cell
        cdef Py_ssize_t step = self.chain._table_step
        cdef const double* edges = self._visit_edges
        for t in range(self.chain._sizes[i] - 1):
            # padding included, which is zero
            for cell in range(step):
                if edges[cell] > TINY or edges[cell] < -TINY:
                    add_edge(ws, cell, edges[cell])
            self.chain.pair_features.add_table(ws, second + t, edges, TINY)
            edges += step
