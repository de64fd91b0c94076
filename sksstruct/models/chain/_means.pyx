"""Expected mean parameters of one sequence: the exp oracle and the top-K oracle.

Of the smoothed maxima of Pillutla et al. (2018), Section 2, at potentials theta:

    entropy   m log sum_y exp(score(y) / m),          E mu = marginals
    l2        max_u <u, scores> - m/2 (|u|^2 - 1),    E mu = sum_k u_k mu(y_k)

over the K best labelings y_k, u being the projection of their scores / m onto the
simplex.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.chains._sumproduct cimport (
    EdgeTable, exponentiate_table, sum_product_padded,
)
from sksstruct.inference.chains._topk cimport TopK
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._workspace cimport ChainScratch
from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.projections._simplex cimport project_sorted

from sksstruct.utils._layout import aligned_zeros


cdef class ChainMeans:
    """Both oracles, with the scratch of one thread.

    Parameters
    ----------
    chain : BoundChain
        The chain; its sizes are read.
    k : int, default=1
        Number of labelings of the top-K oracle.
    """

    def __cinit__(self, BoundChain chain, Py_ssize_t k=1):
        cdef Py_ssize_t nodes = chain.max_size * chain.ld
        cdef double[::1] memory = aligned_zeros(
            3 * nodes + (3 + chain.n_labels) * chain.ld + chain.max_size + 2 * (k + 1))
        cdef int32_t[::1] labelings = np.empty((k + 1) * chain.max_size, dtype=np.int32)
        self._chain, self._k, self._arrays = chain, k, [memory, labelings]
        self._decoder = TopK()
        # rows of ld first, so that all of them are aligned
        self.other = &memory[0]
        self.sums.u = self.other + nodes
        self.sums.alpha = self.sums.u + nodes
        self.sums.rows = self.sums.alpha + nodes
        self.outer = self.sums.rows + 3 * chain.ld
        self.sums.scales = self.outer + chain.n_labels * chain.ld
        self._scores = self.sums.scales + chain.max_size
        self._shares = self._scores + k + 1
        self._labelings = &labelings[0]

    cdef int by_entropy(
            self, Py_ssize_t size, const double* theta, const EdgeTable* table,
            double weight, double* nodes, double* outer, double* edges,
            double* log_partition) except -1 nogil:
        """Marginals of the nodes, and weight times the edge means, by sum-product.

        Edge means are outer * table.ahead + edges, both of which are added to.
        """
        return sum_product_padded(
            size, self._chain.n_labels, self._chain.ld, theta, table, 0, &self.sums,
            nodes, weight, outer, 0, edges, 0, log_partition)

    cdef double by_topk(
            self, ChainScratch* ws, Py_ssize_t i, const double* table, double mu,
            double weight, double* nodes, double* edges,
            unsigned char* exact) except? -1 nogil:
        """The l2-smoothed maximum over the best labelings, and its means.

        The means of the nodes are written, weight times those of the edges are added.
        `exact` tells whether further labelings would get no weight (Proposition 4).
        """
        cdef Py_ssize_t size = self._chain._sizes[i], ld = self._chain.ld, n, k, t
        cdef double* scores = self._scores
        cdef double* u = self._shares
        cdef double value = 0.0, norm = 0.0, sum_of_gaps = 0.0
        cdef const int32_t* y
        # one more than are used says whether those beyond would get a weight
        n = self._decoder.decode(
            size, self._chain.n_labels, ld, ws.theta, ws.delta, table, 0, self._k + 1,
            scores, self._labelings)
        exact[0] = 1
        if n > self._k:
            n = self._k
            for k in range(n):
                sum_of_gaps += scores[k] - scores[n]
            exact[0] = mu <= sum_of_gaps
        project_sorted(n, scores, 1.0 / mu, u)
        memset(nodes, 0, size * ld * sizeof(double))
        for k in range(n):
            if u[k] == 0.0:
                continue
            value += u[k] * (scores[k] - scores[0])
            norm += u[k] * u[k]
            y = self._labelings + k * size
            for t in range(size):
                nodes[t * ld + y[t]] += u[k]
            for t in range(size - 1):
                edges[y[t] * ld + y[t + 1]] += weight * u[k]
        return scores[0] + value + 0.5 * mu * (1.0 - norm) + ws.constant


def write_marginals(BoundChain chain, Workspace workspace, Py_ssize_t start,
                    Py_ssize_t stop, double[:, ::1] nodes, double[::1] log_partition):
    """Node marginals of sequences start <= i < stop at the workspace's weights.

    nodes (n_positions, ld) is flat; log_partition is -inf where all is forbidden.
    """
    cdef Py_ssize_t cells = chain.n_labels * chain.ld, i
    cdef ChainMeans means = ChainMeans(chain)
    cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
    cdef double[::1] exponentials = aligned_zeros(2 * cells)
    cdef EdgeTable table
    table.scores = chain._transitions(ws)
    table.ahead, table.back = &exponentials[0], &exponentials[cells]
    with nogil:
        exponentiate_table(chain.n_labels, chain.ld, &table)
        for i in range(start, stop):
            chain.potentials(workspace, i)
            means.by_entropy(
                chain._sizes[i], ws.theta, &table, 1.0, &nodes[chain._starts[i], 0],
                NULL, NULL, &log_partition[i])
