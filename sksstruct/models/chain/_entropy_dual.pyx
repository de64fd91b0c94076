"""Dual variables of smooth losses of chains, one Gibbs distribution for each sequence.

Natural parameters of a sequence are a row of scores for each position and one table of
scores of pairs, as potentials are (see `_pair_entropy_dual.pyx` where features have
weights on pairs); mixtures of potentials at several weights have that form too. Its
mean parameters are the node means and the sum of the edge means over the positions, as
nothing else enters the weights. The rest of the notation is that of `_chain.pyx` and of
`models/protocols/_entropy_dual.pyx`.
"""

from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.chains._sumproduct cimport EdgeTable, exponentiate_table
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._means cimport ChainMeans
from sksstruct.models.chain._workspace cimport TRANSITIONS, ChainScratch, add_edge
from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.protocols._entropy_dual cimport DualStep, EntropyDual
from sksstruct.utils._simd cimport sks_add_table

from sksstruct.utils._layout import aligned_zeros, file_zeros

# Below this a change of a mean parameter is rounding error.
cdef double TINY = 1e-13


cdef inline double inner(Py_ssize_t n, const double* scores,
                         const double* means) noexcept nogil:
    """Return <scores, means>; a score of -inf counts nothing where the mean is zero."""
    cdef Py_ssize_t k
    cdef double total = 0.0
    for k in range(n):
        if means[k] != 0.0:
            total += scores[k] * means[k]
    return total


cdef class ChainEntropyDual(EntropyDual):
    """The dual variables of a chain.

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

    def __init__(self, BoundChain chain, double mu, state=None, shared=False):
        cdef Py_ssize_t ld = chain.ld, cells = chain.n_labels * ld
        cdef Py_ssize_t n_positions = chain.starts[chain.n_examples]
        self.chain, self._oracle = chain, ChainMeans(chain)
        sizes = max(n_positions * ld, 1), max(self._first_pairs(chain.n_examples), 1)
        if state is None:
            zeros = file_zeros if chain.on_disk else aligned_zeros
            self.kept = [zeros(size) for size in (*sizes, *sizes)]
        else:
            self.kept = self._checked(state, (*sizes, *sizes), shared)
        # of the longest sequence, and of the one that reads most
        nodes, pairs = chain.max_size * ld, self._most_pairs()
        # what is tried, and tables of exponentials and of scores
        self._scratch = [
            aligned_zeros(size)
            for size in (nodes, pairs, nodes, pairs, 2 * cells + pairs)]
        point_to(&self._kept, self.kept)
        point_to(&self._tried, self._scratch)
        cdef double[::1] tables = self._scratch[4]
        self._table.ahead, self._table.back = &tables[0], &tables[cells]
        self._pairs = &tables[2 * cells]
        if state is None:
            self._begin()

    def sharing(self):
        return type(self)(self.chain, self.mu, self.state(), True)

    def state(self):
        return {
            "mu": self.mu, "signature": self.chain.signature,
            "labels": self.chain.labels, "distributions": self.kept,
            "losses": self.losses, "entropies": self.entropies,
        }

    cdef int _begin(self) except -1:
        """Write the means of the observed labelings."""
        cdef Gibbs kept
        cdef Py_ssize_t i
        for i in range(self.chain.n_examples):
            kept = self._of(i)
            self._write_observed(i, kept.node_means, kept.pair_means)
        return 0

    cdef Gibbs _of(self, Py_ssize_t i) noexcept nogil:
        """Return where the distribution of a sequence is kept."""
        cdef Py_ssize_t first = self.chain._starts[i] * self.chain.ld
        cdef Py_ssize_t table = self._first_pairs(i)
        cdef Gibbs gibbs = self._kept
        gibbs.nodes += first
        gibbs.node_means += first
        gibbs.pairs += table
        gibbs.pair_means += table
        return gibbs

    cdef Py_ssize_t _first_pairs(self, Py_ssize_t i) noexcept nogil:
        """Return where natural parameters of pairs of a sequence begin."""
        return i * self.chain.n_labels * self.chain.ld

    cdef Py_ssize_t _n_pairs(self, Py_ssize_t i) noexcept nogil:
        """Return how many there are."""
        return self._first_pairs(i + 1) - self._first_pairs(i)

    cdef Py_ssize_t _most_pairs(self) noexcept nogil:
        """Return the largest of these numbers."""
        cdef Py_ssize_t i, most = 1
        # compiled, as every thread of a sweep asks
        for i in range(self.chain.n_examples):
            most = max(most, self._n_pairs(i))
        return most

    # ---- potentials and distributions ----

    cdef int load(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.chain.ld, cells = self.chain.n_labels * ld, k
        cdef const double* mask = self.chain._constraints.mask
        self.chain.potentials(workspace, i)
        # in place: a visit reads potentials as natural parameters only
        if self.mu != 1.0:
            for k in range(self.chain._sizes[i] * ld):
                ws.theta[k] /= self.mu
        # a copy, as the weights of forbidden transitions are kept apart from -inf
        memset(self._pairs, 0, cells * sizeof(double))
        sks_add_table(cells, 1.0 / self.mu, ws.tail + TRANSITIONS * ld, self._pairs)
        # rows of first and last labels come before those of transitions
        if mask != NULL:
            sks_add_table(cells, 1.0, mask + 2 * ld, self._pairs)
        return 0

    cdef int begin(self, Workspace workspace, Py_ssize_t i, double advantage,
                   DualStep* out) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.chain.ld, size = self.chain._sizes[i], t
        cdef const int32_t* y = &self.chain._labels[self.chain._starts[i]]
        cdef Gibbs kept = self._of(i)
        # potentials alone would be too far away at first: at large weights every step
        # of a sequence takes back most of what the others have learned
        memcpy(self._tried.nodes, ws.theta, size * ld * sizeof(double))
        memcpy(self._tried.pairs, self._pairs, self._n_pairs(i) * sizeof(double))
        for t in range(size):
            self._tried.nodes[t * ld + y[t]] += advantage
        self._find_means(ws, i, &kept, out)
        # eta_i is infinite: there is no slope
        out.slope = 0.0
        return 0

    cdef int mix(self, Workspace workspace, Py_ssize_t i, double share,
                 DualStep* out) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.chain.ld, k
        cdef Py_ssize_t nodes = self.chain._sizes[i] * ld
        cdef double rest = 1.0 - share
        cdef Gibbs kept = self._of(i)
        # both shares are positive, so that -inf of what is forbidden stays -inf
        for k in range(nodes):
            self._tried.nodes[k] = rest * kept.nodes[k] + share * ws.theta[k]
        for k in range(self._n_pairs(i)):
            self._tried.pairs[k] = rest * kept.pairs[k] + share * self._pairs[k]
        self._find_means(ws, i, &kept, out)
        out.slope = out.linear - self.mu * (
            inner(nodes, kept.nodes, ws.node_change)
            + self._change_score(ws, i, kept.pairs))
        return 0

    cdef int _find_means(self, ChainScratch* ws, Py_ssize_t i, const Gibbs* kept,
                         DualStep* out) except -1 nogil:
        """Find the means of what is tried, and prepare the change from those kept."""
        cdef Gibbs* tried = &self._tried
        cdef Py_ssize_t nodes = self.chain._sizes[i] * self.chain.ld
        cdef double log_partition
        self._find_pair_means(ws, i, tried, &log_partition)
        out.loss = self._loss(i, tried.node_means)
        out.wrong = self._wrong(i, tried.node_means)
        out.entropy = self.mu * (
            log_partition - inner(nodes, tried.nodes, tried.node_means)
            - inner(self._n_pairs(i), tried.pairs, tried.pair_means))
        self._prepare_change(ws, i, tried, kept)
        # all labelings gain the same from the constant part of the loss
        out.linear = self.mu * (
            inner(nodes, ws.theta, ws.node_change)
            + self._change_score(ws, i, self._pairs))
        return 0

    cdef const EdgeTable* _exponentiate(self, ChainScratch* ws, Py_ssize_t i,
                                        const double* pairs) noexcept nogil:
        """Return the tables that the oracle reads, for natural parameters of pairs."""
        self._table.scores = pairs
        exponentiate_table(self.chain.n_labels, self.chain.ld, &self._table)
        return &self._table

    cdef int _find_pair_means(self, ChainScratch* ws, Py_ssize_t i, const Gibbs* tried,
                              double* log_partition) except -1 nogil:
        """Call the oracle: write all means of what is tried."""
        # the oracle adds to them, as one table serves all positions
        memset(tried.pair_means, 0, self._n_pairs(i) * sizeof(double))
        return self._oracle.add_by_entropy(
            self.chain._sizes[i], tried.nodes, self._exponentiate(ws, i, tried.pairs),
            1.0, tried.node_means, tried.pair_means, log_partition)

    cdef void _write_observed(self, Py_ssize_t i, double* node_means,
                              double* pair_means) noexcept nogil:
        """Write the means of the observed labeling."""
        cdef Py_ssize_t ld = self.chain.ld, size = self.chain._sizes[i], t
        cdef const int32_t* y = &self.chain._labels[self.chain._starts[i]]
        memset(node_means, 0, size * ld * sizeof(double))
        for t in range(size):
            node_means[t * ld + y[t]] = 1.0
        self._write_observed_pairs(i, pair_means)

    cdef void _write_observed_pairs(self, Py_ssize_t i,
                                    double* pair_means) noexcept nogil:
        """Write those of its pairs."""
        cdef Py_ssize_t ld = self.chain.ld, t
        cdef const int32_t* y = &self.chain._labels[self.chain._starts[i]]
        memset(pair_means, 0, self._n_pairs(i) * sizeof(double))
        for t in range(self.chain._sizes[i] - 1):
            pair_means[y[t] * ld + y[t + 1]] += 1.0

    cdef double _change_score(self, const ChainScratch* ws, Py_ssize_t i,
                              const double* pairs) noexcept nogil:
        """Return <pairs, d_e> for natural parameters, d_e being prepared."""
        return inner(self.chain.n_labels * self.chain.ld, pairs, ws.edge_change)

    cdef double _loss(self, Py_ssize_t i, const double* node_means) noexcept nogil:
        """Return L_i of a mean."""
        cdef Py_ssize_t start = self.chain._starts[i], t
        cdef double total = 0.0
        # the share that is not on the observed label is wrong
        for t in range(self.chain._sizes[i]):
            total += self.chain._cost[start + t] * (
                1.0 - node_means[t * self.chain.ld + self.chain._labels[start + t]])
        return total

    cdef double _wrong(self, Py_ssize_t i, const double* node_means) noexcept nogil:
        """Return the part of the node means on labels that were not observed."""
        cdef Py_ssize_t start = self.chain._starts[i], t
        cdef double total = 0.0
        for t in range(self.chain._sizes[i]):
            total += 1.0 - node_means[
                t * self.chain.ld + self.chain._labels[start + t]]
        return total

    cdef void _prepare_change(self, ChainScratch* ws, Py_ssize_t i, const Gibbs* new,
                              const Gibbs* old) noexcept nogil:
        """Write the difference of two means to the workspace."""
        cdef Py_ssize_t ld = self.chain.ld, n_labels = self.chain.n_labels
        cdef Py_ssize_t k, label
        cdef double change
        # written and not added to: the workspace was cleared by the last visit
        for k in range(self.chain._sizes[i] * ld):
            ws.node_change[k] = new.node_means[k] - old.node_means[k]
        for label in range(n_labels):
            for k in range(label * ld, label * ld + n_labels):
                change = new.pair_means[k] - old.pair_means[k]
                # others would make lists of changed weights as long as the table
                if change > TINY or change < -TINY:
                    add_edge(ws, k, change)
        # rows of node changes are listed when they are first asked for
        ws.scanned = False

    cdef int accept(self, Py_ssize_t i, const DualStep* step) except -1 nogil:
        cdef Py_ssize_t nodes = self.chain._sizes[i] * self.chain.ld * sizeof(double)
        cdef Py_ssize_t pairs = self._n_pairs(i) * sizeof(double)
        cdef Gibbs kept = self._of(i)
        # natural parameters with their means: no later visit calls the oracle for both
        memcpy(kept.nodes, self._tried.nodes, nodes)
        memcpy(kept.node_means, self._tried.node_means, nodes)
        memcpy(kept.pairs, self._tried.pairs, pairs)
        memcpy(kept.pair_means, self._tried.pair_means, pairs)
        return EntropyDual.accept(self, i, step)

    cdef int distance(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Gibbs kept = self._of(i)
        # in the scratch of what is tried, which nobody needs now
        self._write_observed(i, self._tried.node_means, self._tried.pair_means)
        self._prepare_change(ws, i, &kept, &self._tried)
        # costs may be others than those of the problem that the means are from
        self._losses[i] = self._loss(i, kept.node_means)
        return 0

    # ---- certificates ----

    cdef int gap(self, Workspace workspace, Py_ssize_t i, double* loss,
                 double* gap) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.chain.ld, size = self.chain._sizes[i], t
        cdef const int32_t* y = &self.chain._labels[self.chain._starts[i]]
        cdef Gibbs kept = self._of(i)
        cdef double log_partition, score = 0.0, mean_score
        cdef const EdgeTable* tables
        self.load(workspace, i)
        # the scores of tables stay at hand for the observed labeling
        tables = self._exponentiate(ws, i, self._pairs)
        self._oracle.by_entropy(size, ws.theta, tables, 1.0,
                                self._tried.node_means, NULL, NULL, &log_partition)
        for t in range(size):
            score += ws.theta[t * ld + y[t]]
        for t in range(size - 1):
            score += tables.scores[t * self.chain._table_step + y[t] * ld + y[t + 1]]
        # the constant part of the loss is in both, and in no difference
        loss[0] = self.mu * (log_partition - score)
        mean_score = (inner(size * ld, ws.theta, kept.node_means)
                      + inner(self._n_pairs(i), self._pairs, kept.pair_means))
        gap[0] = self.mu * (log_partition - mean_score) - self._entropies[i]
        return 0


cdef int point_to(Gibbs* gibbs, list arrays) except -1:
    """Let a distribution be the first four of some arrays."""
    cdef double[::1] nodes, pairs, node_means, pair_means
    nodes, pairs, node_means, pair_means = arrays[:4]
    gibbs.nodes, gibbs.node_means = &nodes[0], &node_means[0]
    gibbs.pairs, gibbs.pair_means = &pairs[0], &pair_means[0]
    return 0
