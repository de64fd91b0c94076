"""Dual variables of smooth losses of chains, one Gibbs distribution for each sequence.

Natural parameters of a sequence are a row of scores for each position, its nodes, and
one table of scores of pairs, as potentials are (see `_pair_entropy_dual.pyx` where
features have weights on pairs); mixtures of potentials at several weights have that
form too. Its mean parameters are the node means and the sum of the edge means over the
positions, as nothing else enters the weights. The rest of the notation is that of
`_chain.pyx` and of `models/protocols/_entropy_dual.pyx`.
"""

from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.chains._sumproduct cimport EdgeTable, exponentiate_table
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._means cimport ChainMeans
from sksstruct.models.chain._workspace cimport TRANSITIONS, ChainScratch, add_edge
from sksstruct.models.protocols._bound_model cimport TINY, Workspace
from sksstruct.models.protocols._entropy_dual cimport EntropyDual, inner
from sksstruct.utils._simd cimport sks_add_table

from sksstruct.utils._layout import aligned_zeros


cdef class ChainEntropyDual(EntropyDual):
    """The dual variables of a chain.

    Parameters
    ----------
    chain, mu, state, shared : objects
        As in `EntropyDual`.
    """

    def __init__(self, BoundChain chain, double mu, state=None, bint shared=False):
        cdef Py_ssize_t cells = chain.n_labels * chain.ld
        cdef double[::1] tables = aligned_zeros(2 * cells)
        self._chain, self._oracle, self._memory = chain, ChainMeans(chain), tables
        self._table.ahead, self._table.back = &tables[0], &tables[cells]
        EntropyDual.__init__(self, chain, mu, state, shared)

    def sizes(self):
        return (self._chain.sizes + self._chain.n_labels) * self._chain.ld

    cdef Py_ssize_t n_nodes(self, Py_ssize_t i) noexcept nogil:
        return self._chain._sizes[i] * self._chain.ld

    # ---- potentials and distributions ----

    cdef int read(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self._chain.ld, cells = self._chain.n_labels * ld, k
        cdef Py_ssize_t nodes = self.n_nodes(i)
        cdef const double* mask = self._chain._constraints.mask
        for k in range(nodes):
            self._loaded[k] = ws.theta[k] / self.mu
        memset(self._loaded + nodes, 0, cells * sizeof(double))
        sks_add_table(
            cells, 1.0 / self.mu, ws.tail + TRANSITIONS * ld, self._loaded + nodes)
        # rows of first and last labels come before those of transitions
        if mask != NULL:
            sks_add_table(cells, 1.0, mask + 2 * ld, self._loaded + nodes)
        return 0

    cdef int favor(self, Py_ssize_t i, double* natural,
                   double advantage) except -1 nogil:
        cdef const int32_t* y = &self._chain._labels[self._chain._starts[i]]
        cdef Py_ssize_t t
        for t in range(self._chain._sizes[i]):
            natural[t * self._chain.ld + y[t]] += advantage
        return 0

    cdef const EdgeTable* _exponentiate(self, ChainScratch* ws, Py_ssize_t i,
                                        const double* pairs) noexcept nogil:
        """Return the tables that the oracle reads, for natural parameters of pairs."""
        self._table.scores = pairs
        exponentiate_table(self._chain.n_labels, self._chain.ld, &self._table)
        return &self._table

    cdef double expect(self, Workspace workspace, Py_ssize_t i, const double* natural,
                       double* means) except? -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t nodes = self.n_nodes(i)
        cdef double log_partition
        # the oracle adds to them, as one table serves all positions
        memset(means + nodes, 0, (self._size(i) - nodes) * sizeof(double))
        self._oracle.add_by_entropy(
            self._chain._sizes[i], natural, self._exponentiate(ws, i, natural + nodes),
            1.0, means, means + nodes, &log_partition)
        return log_partition

    cdef double log_partition(self, Workspace workspace,
                              Py_ssize_t i) except? -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef double log_partition
        # without means of pairs, which take most of the time
        self._oracle.by_entropy(
            self._chain._sizes[i], self._loaded,
            self._exponentiate(ws, i, self._loaded + self.n_nodes(i)), 1.0,
            self._tried_means, NULL, NULL, &log_partition)
        return log_partition

    # ---- the observed labeling ----

    cdef int observe(self, Py_ssize_t i, double* means) except -1 nogil:
        cdef Py_ssize_t nodes = self.n_nodes(i), t
        cdef const int32_t* y = &self._chain._labels[self._chain._starts[i]]
        memset(means, 0, nodes * sizeof(double))
        for t in range(self._chain._sizes[i]):
            means[t * self._chain.ld + y[t]] = 1.0
        return self._observe_pairs(i, means + nodes)

    cdef int _observe_pairs(self, Py_ssize_t i, double* pair_means) except -1 nogil:
        """Write the means of its pairs."""
        cdef Py_ssize_t ld = self._chain.ld, t
        cdef const int32_t* y = &self._chain._labels[self._chain._starts[i]]
        memset(pair_means, 0, (self._size(i) - self.n_nodes(i)) * sizeof(double))
        for t in range(self._chain._sizes[i] - 1):
            pair_means[y[t] * ld + y[t + 1]] += 1.0
        return 0

    cdef double observed_score(self, Workspace ws, Py_ssize_t i) except? -1 nogil:
        cdef Py_ssize_t ld = self._chain.ld, size = self._chain._sizes[i], t
        cdef const int32_t* y = &self._chain._labels[self._chain._starts[i]]
        # the tables of scores that `log_partition` has read
        cdef const double* pairs = self._table.scores
        cdef double score = 0.0
        if self._chain._table_step:
            pairs = self._oracle.tables.scores
        for t in range(size):
            score += self._loaded[t * ld + y[t]]
        for t in range(size - 1):
            score += pairs[t * self._chain._table_step + y[t] * ld + y[t + 1]]
        return score

    cdef double loss(self, Py_ssize_t i, const double* means) except? -1 nogil:
        cdef Py_ssize_t start = self._chain._starts[i], t
        cdef double total = 0.0
        # the share that is not on the observed label is wrong
        for t in range(self._chain._sizes[i]):
            total += self._chain._cost[start + t] * (
                1.0 - means[t * self._chain.ld + self._chain._labels[start + t]])
        return total

    cdef double wrong(self, Py_ssize_t i, const double* means) except? -1 nogil:
        cdef Py_ssize_t start = self._chain._starts[i], t
        cdef double total = 0.0
        for t in range(self._chain._sizes[i]):
            total += 1.0 - means[t * self._chain.ld + self._chain._labels[start + t]]
        return total

    # ---- changes of means ----

    cdef int prepare(self, Workspace workspace, Py_ssize_t i, const double* new,
                     const double* old) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self._chain.ld, n_labels = self._chain.n_labels
        cdef Py_ssize_t nodes = self.n_nodes(i), k, label
        cdef double change
        # written and not added to: the workspace was cleared by the last visit
        for k in range(nodes):
            ws.node_change[k] = new[k] - old[k]
        for label in range(n_labels):
            for k in range(label * ld, label * ld + n_labels):
                change = new[nodes + k] - old[nodes + k]
                # others would make lists of changed weights as long as the table
                if change > TINY or change < -TINY:
                    add_edge(ws, k, change)
        # rows of node changes are listed when they are first asked for
        ws.scanned = False
        return 0

    cdef double change_score(self, Workspace workspace, Py_ssize_t i,
                             const double* natural) except? -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t nodes = self.n_nodes(i)
        return (inner(nodes, natural, ws.node_change)
                + inner(self._chain.n_labels * self._chain.ld, natural + nodes,
                        ws.edge_change))
