"""Distributions of whole labelings under fitted weights, one for each sequence.

With scores s(y), which are potentials divided by a temperature, and the log-partition
log Z of sum-product,

    log p(y) = s(y) - log Z

With order=1, labelings form a Markov chain, which is given by the marginals of the
first position and, for each position, the probabilities p(b | a) that label b follows
label a. With messages beta, weights u of labels and v of transitions
(`_sumproduct.pyx`),

    p(b | a) at t, t + 1 = v(a, b) u_{t+1}(b) beta_{t+1}(b) / beta_t(a)

A span (start, stop, kind) has the probability of all labelings that contain it: a span
begins at `start`, none begins between `start` and `stop`, and the label at `stop` is
outside or begins a new span. Each of these conditions is on two neighbors, so that the
probability is a product of a vector and, for each position, the matrix p(b | a) without
the pairs that break a condition. The entropy of a sequence is the entropy at the first
position plus, for each position, the mean of the entropies of the matrix rows, weighted
by the marginals: no large numbers cancel.

The expected number of correct labels of y is the sum of their marginals. It is largest
for the labels with the highest marginals; if these break a constraint, Viterbi finds
the best allowed labeling, with marginals as scores.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.chains._sumproduct cimport EdgeTable, exponentiate_table
from sksstruct.inference.chains._viterbi cimport viterbi_padded
from sksstruct.inference.trees._messages cimport best_state
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._means cimport ChainMeans
from sksstruct.models.chain._workspace cimport ChainScratch
from sksstruct.models.protocols._bound_model cimport Workspace

from sksstruct.utils._layout import aligned_zeros


cdef class Posterior:
    """The distribution of one sequence at a time, with the scratch of one thread.

    Parameters
    ----------
    chain : BoundChain
        The chain.
    workspace : Workspace
        Holds the weights.
    temperature : float
        Divisor of all scores.
    """

    cdef BoundChain _chain
    cdef Workspace _workspace
    cdef ChainMeans _means
    cdef ChainScratch* _ws
    cdef double _factor
    cdef EdgeTable _shared
    cdef const EdgeTable* _tables
    cdef object _memory
    cdef Py_ssize_t _size
    cdef bint _in_logs
    # (ld,) probabilities of the labels at the next position, given one label
    cdef double* _next
    # (ld,) for each label, the probability that a span reaches some position and that
    # this position has the label; `_longer` is the same for the next position
    cdef double* _span
    cdef double* _longer

    def __cinit__(self, BoundChain chain, Workspace workspace, double temperature):
        cdef Py_ssize_t cells = chain.n_labels * chain.ld
        cdef double[::1] memory = aligned_zeros(3 * (cells + chain.ld))
        cdef const double* transitions
        cdef Py_ssize_t cell
        self._chain, self._workspace, self._memory = chain, workspace, memory
        self._means, self._factor = ChainMeans(chain), 1.0 / temperature
        self._ws = <ChainScratch*> workspace.scratch
        self._next = &memory[0] + 3 * cells
        self._span, self._longer = self._next + chain.ld, self._next + 2 * chain.ld
        if chain.n_triples:
            self._means.triple_table.load(
                self._ws.triple_weights, self._factor, True)
        if chain._table_step:
            return
        # one table for all sequences, exponentiated once
        transitions = chain._transitions(self._ws)
        for cell in range(cells):
            memory[cell] = self._factor * transitions[cell]
        self._shared.scores = &memory[0]
        self._shared.ahead = &memory[0] + cells
        self._shared.back = &memory[0] + 2 * cells
        exponentiate_table(chain.n_labels, chain.ld, &self._shared)
        self._tables = &self._shared

    cdef int load(self, Py_ssize_t i) except -1 nogil:
        """Form the potentials of a sequence, divided by the temperature."""
        cdef Py_ssize_t entry
        self._chain.potentials(self._workspace, i)
        self._size = self._chain._sizes[i]
        for entry in range(self._size * self._chain.ld):
            self._ws.theta[entry] *= self._factor
        if self._chain._table_step:
            self._tables = self._means.load_tables(self._ws, i, self._factor, True)
        return 0

    cdef int sum(self, double* nodes, double* log_partition) except -1 nogil:
        """Write the log-partition, and marginals unless `nodes` is NULL."""
        self._in_logs = self._means.by_entropy(
            self._size, self._ws.theta, self._tables, 1.0, nodes, NULL, NULL, NULL,
            log_partition)
        return 0

    cdef void follow(self, Py_ssize_t t, Py_ssize_t label) noexcept nogil:
        """Set `_next` to the probabilities of labels at t + 1, given a label at t."""
        cdef Py_ssize_t n_labels = self._chain.n_labels, ld = self._chain.ld, after
        cdef const EdgeTable* table = self._tables
        cdef const double* weights = self._means.sums.u + (t + 1) * ld
        cdef const double* row
        cdef double total = 0.0
        if self._chain._table_step:
            table += t
        # `sum` leaves the products u beta in `sums.u`; if messages are logarithms, it
        # leaves log(u beta) in `sums.u` and log beta in `sums.alpha`
        if self._in_logs:
            row, total = table.scores + label * ld, self._means.sums.alpha[
                t * ld + label]
            for after in range(n_labels):
                self._next[after] = exp(row[after] + weights[after] - total)
            return
        row = table.ahead + label * ld
        for after in range(n_labels):
            self._next[after] = row[after] * weights[after]
            total += self._next[after]
        for after in range(n_labels):
            self._next[after] /= total

    cdef double entropy(self, const double* nodes) noexcept nogil:
        """Return the entropy of the labelings, in nats."""
        cdef Py_ssize_t n_labels = self._chain.n_labels, ld = self._chain.ld, t, label
        cdef double total = entropy_of(n_labels, nodes)
        for t in range(self._size - 1):
            for label in range(n_labels):
                if nodes[t * ld + label] > 0.0:
                    self.follow(t, label)
                    total += nodes[t * ld + label] * entropy_of(n_labels, self._next)
        return total

    cdef double span(
        self, const double* nodes, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t kind,
        const Py_ssize_t* kinds, const unsigned char* begins
    ) noexcept nogil:
        """Return the probability of a span; see `write_spans`."""
        cdef Py_ssize_t n_labels = self._chain.n_labels, ld = self._chain.ld
        cdef Py_ssize_t t, label, after
        cdef double total = 0.0
        memset(self._span, 0, ld * sizeof(double))
        for label in range(n_labels):
            if start == 0:
                # no label precedes the first position
                if kinds[label] == kind:
                    self._span[label] = nodes[label]
            elif nodes[(start - 1) * ld + label] > 0.0:
                self.follow(start - 1, label)
                for after in range(n_labels):
                    if kinds[after] == kind and begins[label * n_labels + after]:
                        self._span[after] += (
                            nodes[(start - 1) * ld + label] * self._next[after])
        for t in range(start, stop - 1):
            memset(self._longer, 0, ld * sizeof(double))
            for label in range(n_labels):
                if self._span[label] == 0.0:
                    continue
                self.follow(t, label)
                for after in range(n_labels):
                    if kinds[after] == kind and not begins[label * n_labels + after]:
                        self._longer[after] += self._span[label] * self._next[after]
            self._span, self._longer = self._longer, self._span
        for label in range(n_labels):
            if stop == self._size:
                total += self._span[label]
            elif self._span[label] > 0.0:
                self.follow(stop - 1, label)
                for after in range(n_labels):
                    if kinds[after] < 0 or begins[label * n_labels + after]:
                        total += self._span[label] * self._next[after]
        return total


cdef double entropy_of(Py_ssize_t n_labels, const double* shares) noexcept nogil:
    """Return the entropy of a distribution over labels."""
    cdef Py_ssize_t label
    cdef double total = 0.0
    for label in range(n_labels):
        if shares[label] > 0.0:
            total -= shares[label] * log(shares[label])
    return total


def write_marginals(BoundChain chain, Workspace workspace, double temperature,
                    Py_ssize_t start, Py_ssize_t stop, double[:, ::1] nodes,
                    double[::1] log_partition, double[::1] entropies=None):
    """Write node marginals, log-partitions and, if asked for, entropies of sequences.

    The sequences are start <= i < stop. Row t of nodes (n_positions, ld) is a position,
    sequence after sequence. log_partition is -inf if all labelings of a sequence are
    forbidden.
    """
    cdef Posterior posterior = Posterior(chain, workspace, temperature)
    cdef bint wants_entropies = entropies is not None
    cdef double* node
    cdef Py_ssize_t i
    with nogil:
        for i in range(start, stop):
            node = &nodes[chain._starts[i], 0]
            posterior.load(i)
            posterior.sum(node, &log_partition[i])
            if wants_entropies and log_partition[i] > -INFINITY:
                entropies[i] = posterior.entropy(node)


def write_likely_labels(BoundChain chain, Workspace workspace, double temperature,
                        Py_ssize_t start, Py_ssize_t stop, double[::1] log_partition,
                        int32_t[::1] labels):
    """Write the allowed labels with the highest expected number of correct labels."""
    cdef Posterior posterior = Posterior(chain, workspace, temperature)
    cdef double* nodes = posterior._means.spare_nodes
    cdef Py_ssize_t n_labels = chain.n_labels, ld = chain.ld, first, t, i
    cdef double[::1] memory = aligned_zeros(2 * n_labels * ld)
    # transitions score 0, or -inf if they are forbidden
    cdef const double* table = chain._constraints.transitions(
        &memory[0], &memory[n_labels * ld])
    with nogil:
        for i in range(start, stop):
            first = chain._starts[i]
            posterior.load(i)
            posterior.sum(nodes, &log_partition[i])
            if log_partition[i] == -INFINITY:
                continue
            if chain._constraints.mask != NULL:
                # forbidden labels get -inf, as marginals of allowed labels may
                # underflow to zero
                chain._constraints.forbid_labels(first, posterior._size, nodes)
                viterbi_padded(
                    posterior._size, n_labels, ld, nodes, table, 0, &labels[first])
                continue
            for t in range(posterior._size):
                labels[first + t] = <int32_t> best_state(n_labels, nodes + t * ld)


def write_log_proba(BoundChain chain, Workspace workspace, double temperature,
                    Py_ssize_t start, Py_ssize_t stop, const unsigned char[:, ::1]
                    forbidden, double[::1] log_partition, double[::1] log_proba):
    """Write the log-probability that a sequence has no forbidden label.

    forbidden (n_positions, n_labels) is added to the constraints of the chain, on which
    the probability is conditional.
    """
    cdef Posterior posterior = Posterior(chain, workspace, temperature)
    cdef Py_ssize_t i, t, label
    cdef double* theta = posterior._ws.theta
    with nogil:
        for i in range(start, stop):
            posterior.load(i)
            posterior.sum(NULL, &log_partition[i])
            for t in range(posterior._size):
                for label in range(chain.n_labels):
                    if forbidden[chain._starts[i] + t, label]:
                        theta[t * chain.ld + label] = -INFINITY
            posterior.sum(NULL, &log_proba[i])
            log_proba[i] -= log_partition[i]


def write_spans(
    BoundChain chain, Workspace workspace, double temperature, Py_ssize_t start,
    Py_ssize_t stop, const Py_ssize_t[::1] kinds, const unsigned char[:, ::1] begins,
    const Py_ssize_t[::1] first, const Py_ssize_t[:, ::1] spans,
    double[::1] log_partition, double[::1] probabilities
):
    """Write the probability of each span of sequences start <= i < stop.

    Sequence i has the spans first[i]:first[i + 1], rows (start, stop, kind). kinds
    (n_labels,) are -1 for labels outside of spans; begins[a, b] is whether a span
    begins with b after a.
    """
    cdef Posterior posterior = Posterior(chain, workspace, temperature)
    cdef double* nodes = posterior._means.spare_nodes
    cdef Py_ssize_t i, k
    with nogil:
        for i in range(start, stop):
            if first[i] == first[i + 1]:
                log_partition[i] = 0.0
                continue
            posterior.load(i)
            posterior.sum(nodes, &log_partition[i])
            if log_partition[i] == -INFINITY:
                continue
            for k in range(first[i], first[i + 1]):
                probabilities[k] = posterior.span(
                    nodes, spans[k, 0], spans[k, 1], spans[k, 2], &kinds[0],
                    &begins[0, 0])
