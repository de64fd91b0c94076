"""Expected mean parameters of one sequence: the exp oracle and the top-K oracle.

The smoothed maxima of Pillutla et al. (2018), Section 2, at potentials theta are

    entropy   m log sum_y exp(score(y) / m),          E mu = marginals
    l2        max_u <u, scores> - m/2 (|u|^2 - 1),    E mu = sum_k u_k mu(y_k)

where l2 is restricted to the K best labelings y_k, and the shares u are the projection
of scores / m onto the simplex. The strength m of the smoothing is called `mu` elsewhere
and in names of arguments. Sum-product runs with potentials divided by m.

Edge means are summed over positions into one table, like the transitions. If each
position has its own table of transitions, it has its own edge means. Means of triples
of labels are summed over positions, too, into `triples`.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.chains._second_order cimport SecondOrder
from sksstruct.inference.chains._second_order_sums cimport (
    SecondOrderSums, TripleTable,
)
from sksstruct.inference.chains._sumproduct cimport (
    EdgeTable, exponentiate_table, sum_product_padded,
)
from sksstruct.inference.chains._topk cimport TopK
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._workspace cimport ChainScratch
from sksstruct.projections._simplex cimport project_sorted
from sksstruct.utils._simd cimport sks_weigh_add

from sksstruct.utils._layout import aligned_zeros


cdef class ChainMeans:
    """The exp oracle and the top-K oracle, with the scratch of one thread.

    Parameters
    ----------
    chain : BoundChain
        The chain; its sizes are read.
    n_best : int, default=1
        K, the number of labelings for the top-K oracle.
    triple_table : TripleTable, default=None
        Weights of triples that the caller loads; None: a table of this object.

    Attributes
    ----------
    triple_table : TripleTable or None
        The weights of triples that the oracles read, if there are any.
    """

    def __cinit__(self, BoundChain chain, Py_ssize_t n_best=1, triple_table=None):
        cdef Py_ssize_t nodes = chain.max_size * chain.ld
        # labeling K + 1 is needed to check whether labelings beyond K would get a share
        cdef Py_ssize_t n_found = n_best + 1
        cdef double[::1] memory = aligned_zeros(
            3 * (nodes + chain.ld) + chain._edge_cells(chain.max_size)
            + chain.max_size + 2 * n_found)
        cdef int32_t[::1] labelings = np.empty(n_found * chain.max_size, dtype=np.int32)
        self._chain, self._n_best, self._arrays = chain, n_best, [memory, labelings]
        self._step = chain._table_step
        # `TopK` allocates memory when it is called for more labelings or for a longer
        # sequence than before
        self._decoder = TopK()
        # rows of ld numbers come first, so that all of them are aligned
        self.spare_nodes = &memory[0]
        self.sums.u = self.spare_nodes + nodes
        self.sums.alpha = self.sums.u + nodes
        self.sums.rows = self.sums.alpha + nodes
        self.outer = self.sums.rows + 3 * chain.ld
        self.sums.scales = self.outer + chain._edge_cells(chain.max_size)
        self._scores = self.sums.scales + chain.max_size
        self._shares = self._scores + n_found
        self._labelings = &labelings[0]
        if chain.triples is not None:
            self.triple_table = triple_table
            if triple_table is None:
                self.triple_table = TripleTable(chain.triples)
            self._second_decoder = SecondOrder(chain.triples)
            self._second_sums = SecondOrderSums(self.triple_table, chain.max_size)
        if self._step:
            self._features = chain.pair_features
            self._make_tables(max(chain.max_size - 1, 1))

    cdef int _make_tables(self, Py_ssize_t n_tables) except -1:
        """Allocate the tables of positions, and their edge means."""
        cdef Py_ssize_t t
        cdef Py_ssize_t n_edges = n_tables * self._step
        n_edges += (self._chain.n_triples + 7) // 8 * 8
        cdef double[::1] memory = aligned_zeros(
            n_edges + (2 * n_tables + 3) * self._step)
        cdef char[::1] tables = np.zeros(n_tables * sizeof(EdgeTable), dtype=np.int8)
        self._arrays += [memory, tables]
        self.tables, self.edges = <EdgeTable*> &tables[0], &memory[0]
        for t in range(n_tables):
            self.tables[t].ahead = self.edges + n_edges + 2 * t * self._step
            self.tables[t].back = self.tables[t].ahead + self._step
        self._shared_scores = self.edges + n_edges + 2 * n_tables * self._step
        self._shared.scores = self._shared_scores
        self._shared.ahead = self._shared_scores + self._step
        self._shared.back = self._shared.ahead + self._step
        return 0

    cdef const EdgeTable* load_tables(self, ChainScratch* ws, Py_ssize_t i,
                                      double factor, bint exponentials) noexcept nogil:
        """Multiply the loaded tables of all positions by `factor`; return `EdgeTable`s.

        The exponentials, which only the exp oracle reads, are computed if
        `exponentials` is true.
        """
        cdef Py_ssize_t n_labels = self._chain.n_labels, ld = self._chain.ld, t, entry
        cdef Py_ssize_t second = self._chain._starts[i] + 1
        cdef Py_ssize_t size = self._chain._sizes[i]
        for entry in range((size - 1) * self._step):
            ws.tables[entry] *= factor
        # `scores` is set even if a sequence of one position has no table, so that the
        # address is valid
        self.tables[0].scores = ws.tables
        if exponentials:
            for entry in range(self._step):
                self._shared_scores[entry] = factor * ws.shared[entry]
            exponentiate_table(n_labels, ld, &self._shared)
        for t in range(size - 1):
            self.tables[t].scores = ws.tables + t * self._step
            # costs of pairs change every cell, so that no exponential of `_shared` is
            # reused
            if exponentials and self._chain._costs_pairs:
                exponentiate_table(n_labels, ld, &self.tables[t])
            elif exponentials:
                self._features.exponentiate(
                    second + t, n_labels, ld, &self._shared, &self.tables[t])
        return self.tables

    # ---- the exp oracle ----

    cdef int by_entropy(
        self, Py_ssize_t size, const double* theta, const EdgeTable* table,
        double weight, double* nodes, double* outer, double* edges, double* triples,
        double* log_partition
    ) except -1 nogil:
        """Write marginals of nodes; add weight times the means of edges and triples.

        Edge means are outer * table.ahead + edges, and this method adds to both arrays.
        A sum over many sequences multiplies by the table only once. Returns whether
        messages are logarithms, as `sum_product_padded` does.
        """
        if self._chain.n_triples and size > 2:
            return self._second_sums.expect(
                size, theta, table, self._step != 0, nodes, weight, edges, self._step,
                triples, log_partition)
        return sum_product_padded(
            size, self._chain.n_labels, self._chain.ld, theta, table, self._step != 0,
            &self.sums, nodes, weight, outer, self._step, edges, self._step,
            log_partition)

    cdef int add_by_entropy(
        self, Py_ssize_t size, const double* theta, const EdgeTable* table,
        double weight, double* nodes, double* edges, double* triples,
        double* log_partition
    ) except -1 nogil:
        """Write marginals of the nodes; add weight times the complete edge means."""
        cdef Py_ssize_t cells = self._chain.n_labels * self._chain.ld, t
        cdef Py_ssize_t n_tables = size - 1 if self._step else 1
        memset(self.outer, 0, n_tables * cells * sizeof(double))
        self.by_entropy(
            size, theta, table, weight, nodes, self.outer, edges, triples,
            log_partition)
        for t in range(n_tables):
            sks_weigh_add(
                cells, self.outer + t * cells, table[t].ahead, edges + t * cells)
        return 0

    # ---- the top-K oracle ----

    cdef double by_topk(
        self, ChainScratch* ws, Py_ssize_t i, const double* table, double mu,
        double weight, double* nodes, double* edges, double* triples,
        unsigned char* exact
    ) except? -1 nogil:
        """Return the l2-smoothed maximum over the best labelings.

        The means of the nodes are written; weight times the means of edges and triples
        is added. `exact` becomes whether labelings beyond the K best would get no
        share.
        """
        cdef Py_ssize_t size = self._chain._sizes[i], ld = self._chain.ld, rank, t
        cdef Py_ssize_t n_shares = self._share_among_best(ws, i, table, mu, exact)
        cdef double share, best = self._scores[0], value = 0.0, norm = 0.0
        cdef const int32_t* y
        # node means are overwritten, as in `by_entropy`
        memset(nodes, 0, size * ld * sizeof(double))
        for rank in range(n_shares):
            share = self._shares[rank]
            # with weak smoothing, few of the K labelings get a share
            if share == 0.0:
                continue
            # differences from the best score, as scores may be large
            value += share * (self._scores[rank] - best)
            norm += share * share
            y = self._labelings + rank * size
            for t in range(size):
                nodes[t * ld + y[t]] += share
            for t in range(size - 1):
                edges[t * self._step + y[t] * ld + y[t + 1]] += weight * share
            self._chain.add_triples(i, y, weight * share, triples)
        self.best = best + ws.constant
        return best + value + 0.5 * mu * (1.0 - norm) + ws.constant

    cdef Py_ssize_t _share_among_best(
        self, ChainScratch* ws, Py_ssize_t i, const double* table, double mu,
        unsigned char* exact
    ) except -1 nogil:
        """Find the best labelings and their shares; return the number of shares."""
        cdef Py_ssize_t rank, n_best
        cdef double sum_of_gaps = 0.0
        if self._chain._has_triples(i):
            n_best = self._second_decoder.decode(
                self._chain._sizes[i], ws.theta, table, self._step,
                self.triple_table.weights, self._n_best + 1, self._scores,
                self._labelings)
        else:
            n_best = self._decoder.decode(
                self._chain._sizes[i], self._chain.n_labels, self._chain.ld, ws.theta,
                ws.delta, table, self._step, self._n_best + 1, self._scores,
                self._labelings)
        # K labelings are enough if no more exist
        exact[0] = 1
        if n_best > self._n_best:
            n_best = self._n_best
            for rank in range(n_best):
                sum_of_gaps += self._scores[rank] - self._scores[n_best]
            # Proposition 4: labeling K + 1 gets no share if the gaps to its score sum
            # to at least mu
            exact[0] = mu <= sum_of_gaps
        # scores descend, as the projection requires
        project_sorted(n_best, self._scores, 1.0 / mu, self._shares)
        return n_best
