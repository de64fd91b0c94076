"""Smooth losses of chains: value and gradient over all examples, and of one example.

For weights w and potentials theta_i = A_i w, with the loss L_i added or not,

    f_i(w) = h(theta_i) - <theta_i, mu_i(y_i)>,  grad f_i = A_i^T (E mu - mu_i(y_i))

where h is the smoothed maximum over labelings and E mu its gradient (`_means.pyx`). The
negative log-likelihood of a conditional random field is the loss smoothed by the
entropy with mu = 1 and L = 0. If only some labels were observed, the likelihood sums
over all labelings that agree with the observed labels, and mu_i(y_i) is their mean.

A sweep writes the differences E mu - mu_i(y_i) of the nodes of every position, for
examples that are divided among threads, and then forms the gradient feature by feature,
from a transposed copy of sparse features. Both parts give the same bits for any number
of threads. A visit of one example brings only the rows of weights up to date that the
example reads, so that its cost is in proportion to the example's features.

Positions are t and y is the observed labeling of an example. In arrays, `node` has rows
of node means, and `edges` has n_labels x ld edge means, like the transitions. The
strength of the smoothing is `mu`, while mu_i and E mu above are mean parameters.

If all examples share one table of transitions, edge means are added directly to sums
over the examples. If each position has its own table (`_pair_features.pyx`), edge
means are formed for one example at a time, one table for each pair of neighbors, and
summed twice: over positions for the transitions, and times the features for the
weights of pairs. Edge means of all examples would take more memory than the features,
so the anchor of visits is then not the edge means but the weights of the sweep, at
which a visit calls the oracle once more. Chains with weights of triples have the same
anchor; means of triples follow the edge means.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from sksstruct.inference.chains._second_order_sums cimport TripleTable
from sksstruct.inference.chains._sumproduct cimport EdgeTable, exponentiate_table
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._means cimport ChainMeans
from sksstruct.models.chain._workspace cimport (
    BIAS, END, START, TRANSITIONS, ChainScratch,
)
from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.protocols._smooth_loss cimport SmoothLoss
from sksstruct.models.protocols._weights cimport LazyWeights
from sksstruct.models.tables._feature_rows cimport RowEntries
from sksstruct.utils._simd cimport sks_add_table, sks_axpy

from sksstruct.models.tables._columns import transposed
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils.parallel import run_in_chunks

# Number of parts of sums over examples. It does not depend on the number of threads, so
# that rounding errors are the same.
PARTS = 16


cdef class ChainSmoothLoss(SmoothLoss):
    """The mean smooth loss of a chain model, and its gradient.

    Parameters
    ----------
    chain : BoundChain
        The chain; its costs are zero for the likelihood.
    smoothing : SmoothedHinge
        Kind and strength of the smoothing, and the number of labelings.
    unknown : ndarray of shape (n_positions,), bool, or None
        Positions without an observed label; only with the entropy.
    choices : csr_array of shape (n_positions, n_labels) or None
        Labels that some unknown positions may have; other positions may have all.
    numbers : ndarray of shape (n_sequences,), int, or None
        Numbers of the sequences in error messages.
    nonsmooth : bool
        Whether the hinge itself is minimized.
    support : ndarray of int or None
        Flat weights that exist.
    """

    def __init__(self, BoundChain chain, smoothing, unknown=None, choices=None,
                 numbers=None, bint nonsmooth=False, support=None):
        self.model = self.chain = chain
        self._entropy = smoothing.by_sums
        self.mu, self._n_best = smoothing.mu, most_labelings(chain, smoothing.k)
        self.nonsmooth, self.support, self.row_size = nonsmooth, support, chain.ld
        self._numbers = numbers
        self._bind_unknown(unknown, choices)
        # the smoothing term is at most mu / 2, or mu log(number of labelings)
        self.diameter = 0.5
        if self._entropy:
            self.diameter = float(
                chain.example_weights @ chain.sizes) * np.log(chain.n_labels)
        self._prepare_sweeps()
        self._transposed = transposed(chain.packed.values)

    def _bind_unknown(self, unknown, choices):
        """Store which positions, and which sequences, lack observed labels."""
        self._has_choices = choices is not None
        if self._has_choices:
            self._first_choice = choices.indptr.astype(np.int64)
            self._choices = choices.indices.astype(np.int32)
        self._partial = unknown is not None and bool(unknown.any())
        # the likelihood of incomplete labels is a difference of two convex functions
        self.convex = not self._partial
        if self._partial:
            flags = np.ascontiguousarray(unknown, dtype=np.uint8)
            self._unknown = flags
            starts = self.chain.starts[:self.chain.n_examples]
            self._incomplete = np.maximum.reduceat(flags, starts)

    def _prepare_sweeps(self):
        """Allocate the results of sweeps for every node and example."""
        cdef BoundChain chain = self.chain
        cdef Py_ssize_t cells = chain.n_labels * chain.ld
        cdef double[::1] memory = aligned_zeros(3 * cells)
        n_positions = chain.starts[chain.n_examples]
        self._differences = aligned_zeros(n_positions * chain.ld).reshape(
            n_positions, chain.ld)
        self._difference = self._differences
        self._work = n_positions * cells
        self._losses = np.empty(chain.n_examples)
        self._hinge = np.empty(0 if self._entropy else chain.n_examples)
        # the expected loss of sequences with unknown labels stays zero
        self._expected = np.zeros(chain.n_examples)
        self.exact = np.ones(chain.n_examples, dtype=np.uint8)
        self._exponentials = memory
        self._table.scores, self._table.ahead = &memory[0], &memory[cells]
        self._table.back = &memory[2 * cells]
        if chain.triples is not None:
            self._triple_table = TripleTable(chain.triples)

    # ---- value and gradient ----

    def value_and_gradient(self, w, gradient, n_jobs=None):
        cdef BoundChain chain = self.chain
        cdef Py_ssize_t ld = chain.ld
        self._load_table(w)
        # visits are not implemented for incomplete labels
        self._anchored = self.keep_anchors and self.convex
        self._keep_anchor(w)
        # gradients that are summed over a part of the examples: bias, start, end,
        # complete transitions, transitions without the factor `ahead`, weights of
        # features on pairs, and weights of triples
        n_sums = (TRANSITIONS + 2 * chain.n_labels) * ld
        n_sums += chain.n_weights - chain.first_pair
        sums = aligned_zeros(PARTS * n_sums).reshape(PARTS, -1)
        bounds = [chain.n_examples * part // PARTS for part in range(PARTS + 1)]

        def run(first, last):
            # one workspace for each thread, which runs several parts
            workspace = chain.workspace(w, training=False)
            means = ChainMeans(chain, self._n_best, self._triple_table)
            for part in range(first, last):
                self._sweep(
                    workspace, means, bounds[part], bounds[part + 1], sums[part])

        run_in_chunks(run, PARTS, n_jobs, self._work)
        rows = gradient.reshape(-1, ld)
        self._write_tail(sums, rows)
        self._write_emission(rows, n_jobs)
        self._check_finite()
        self.expected_loss = float(chain.example_weights @ self._expected)
        # the hinge needs the best labeling, which the exp oracle does not find
        if not self._entropy:
            self.hinge = float(chain.example_weights @ np.asarray(self._hinge))
        return float(chain.example_weights @ self._losses)

    def _load_table(self, w):
        """Form the shared table of this sweep, if there is one, with constraints and
        smoothing."""
        cdef BoundChain chain = self.chain
        cdef Py_ssize_t ld = chain.ld, n_labels = chain.n_labels
        cdef const double[::1] triples
        cdef double scale = 1.0 / self.mu if self._entropy else 1.0
        if chain.n_triples:
            triples = w[chain.first_pair + chain.n_pair_weights:]
            self._triple_table.load(&triples[0], scale, self._entropy)
        if chain._table_step:
            return
        table = np.asarray(self._exponentials)[:n_labels * ld].reshape(n_labels, ld)
        table[...] = w.reshape(-1, ld)[chain.n_features + TRANSITIONS:][:n_labels]
        if chain.mask is not None:
            table += chain.mask[2:]
        # sum-product expects scores divided by mu, the top-K oracle does not
        table *= scale
        if self._entropy:
            exponentiate_table(n_labels, ld, &self._table)

    def _keep_anchor(self, w):
        """Allocate the edge means of every example, the anchor of visits; or store the
        weights, if positions have their own tables or triples have weights."""
        cdef BoundChain chain = self.chain
        cdef double[::1] view
        if not self._anchored:
            self._edge_means, self._anchor_edges, self._anchor = None, NULL, None
        elif chain._table_step or chain.n_triples:
            self._anchor = chain.workspace(np.array(w), training=False)
        # the edge means are allocated once, and overwritten by each sweep
        elif self._anchor_edges == NULL:
            self._edge_means = aligned_zeros(
                chain.n_examples * chain.n_labels * chain.ld)
            view = self._edge_means
            self._anchor_edges = &view[0]

    def _sweep(self, Workspace workspace, ChainMeans means, Py_ssize_t first,
               Py_ssize_t last, double[::1] sums):
        """Write losses and node differences of examples first <= i < last.

        Adds the examples' part of the gradient of the tail to sums.
        """
        cdef Py_ssize_t i
        cdef double[::1] losses = self._losses, expected = self._expected
        cdef unsigned char[::1] exact = self.exact
        with nogil:
            for i in range(first, last):
                self._sweep_example(workspace, means, i, &sums[0], &losses[i],
                                    &expected[i], &exact[i])

    cdef int _sweep_example(
        self, Workspace workspace, ChainMeans means, Py_ssize_t i, double* sums,
        double* loss, double* expected, unsigned char* exact
    ) except -1 nogil:
        """Write loss, expected loss and node differences of one example.

        Adds the example's part of the gradient of the tail to sums.
        """
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef const int32_t* y = &self.chain._labels[self.chain._starts[i]]
        cdef double* edges = sums + TRANSITIONS * self.chain.ld
        cdef double* triples = sums + self.chain.n_pair_weights + (
            TRANSITIONS + 2 * self.chain.n_labels) * self.chain.ld
        cdef bint incomplete = self._partial and self._incomplete[i]
        cdef double value, true_value = 0.0
        self.chain.potentials(workspace, i)
        # y is evaluated before the call of `_maximum`, which scales the potentials
        if not incomplete:
            self.chain.evaluate(workspace, i, y, &true_value)
        value = self._maximum(ws, means, i, edges, triples, exact)
        if incomplete:
            true_value = self._subtract_agreeing(ws, means, i, edges, triples)
        else:
            expected[0] = self._subtract_observed(means, i, edges, triples)
        if self.chain._table_step:
            self._add_tables(means, i, edges, triples)
        loss[0] = value - true_value
        if not self._entropy:
            self._hinge[i] = means.best - true_value
        self._weigh_nodes(i, sums)
        return 0

    cdef double _maximum(
        self, ChainScratch* ws, ChainMeans means, Py_ssize_t i, double* edges,
        double* triples, unsigned char* exact
    ) except? -1 nogil:
        """Return the smoothed maximum of the loaded potentials, and scale them.

        Node means are written. Edge means are written to `means.edges` if each position
        has its own table; otherwise p_i times the edge means is added to `edges` and,
        if the entropy smooths and there is no anchor, to the table after it, which
        `_write_tail` multiplies by its factor `ahead`. Means of triples are stored
        after `means.edges`, or added to `triples`.
        """
        cdef Py_ssize_t size = self.chain._sizes[i], entry
        cdef Py_ssize_t cells = self.chain.n_labels * self.chain.ld
        cdef double weight = self.chain._example_weights[i], value
        cdef double scale = 1.0 / self.mu if self._entropy else 1.0
        cdef double* node = &self._difference[self.chain._starts[i], 0]
        cdef double* example_edges
        for entry in range(size * self.chain.ld if self._entropy else 0):
            ws.theta[entry] *= scale
        if self.chain._table_step:
            return self._example_maximum(
                ws, means, i, means.load_tables(ws, i, scale, self._entropy), node,
                means.edges, means.edges + self.chain._edge_cells(size), exact)
        if self._anchor_edges != NULL:
            # the anchor needs the edge means of each example
            example_edges = self._anchor_edges + i * cells
            value = self._example_maximum(
                ws, means, i, &self._table, node, example_edges,
                example_edges + cells, exact)
            sks_add_table(cells, weight, example_edges, edges)
            return value
        if not self._entropy:
            return means.by_topk(
                ws, i, self._table.scores, self.mu, weight, node, edges, triples, exact)
        means.by_entropy(
            size, ws.theta, &self._table, weight, node, edges + cells, edges, triples,
            &value)
        return value * self.mu + ws.constant

    cdef double _example_maximum(
        self, ChainScratch* ws, ChainMeans means, Py_ssize_t i, const EdgeTable* table,
        double* node, double* edges, double* triples, unsigned char* exact
    ) except? -1 nogil:
        """Return the smoothed maximum of one example, and write its means."""
        cdef Py_ssize_t size = self.chain._sizes[i]
        cdef double value
        # both oracles add to edges and triples, which must begin at zero
        memset(edges, 0, self.chain._edge_cells(size) * sizeof(double))
        if self.chain.n_triples:
            memset(triples, 0, self.chain.n_triples * sizeof(double))
        if not self._entropy:
            return means.by_topk(
                ws, i, table.scores, self.mu, 1.0, node, edges, triples, exact)
        means.add_by_entropy(size, ws.theta, table, 1.0, node, edges, triples, &value)
        return value * self.mu + ws.constant

    cdef double _subtract_observed(self, ChainMeans means, Py_ssize_t i,
                                   double* edges, double* triples) noexcept nogil:
        """Subtract mu_i(y_i) from the means of `_maximum`; return the expected loss."""
        cdef Py_ssize_t ld = self.chain.ld, step = self.chain._table_step, t
        cdef Py_ssize_t start = self.chain._starts[i], size = self.chain._sizes[i]
        cdef const int32_t* y = &self.chain._labels[start]
        cdef double* node = &self._difference[start, 0]
        cdef double expected = 0.0, weight = self.chain._example_weights[i]
        # the node means still hold the probabilities of the observed labels
        for t in range(size):
            expected += self.chain._cost[start + t] * (1.0 - node[t * ld + y[t]])
            node[t * ld + y[t]] -= 1.0
        if step:
            edges, weight = means.edges, 1.0
            expected += self.chain._expected_pairs(i, edges)
            triples = edges + self.chain._edge_cells(size)
        for t in range(size - 1):
            edges[t * step + y[t] * ld + y[t + 1]] -= weight
        self.chain.add_triples(i, y, -weight, triples)
        return expected

    cdef double _subtract_agreeing(
        self, ChainScratch* ws, ChainMeans means, Py_ssize_t i, double* edges,
        double* triples
    ) except? -1 nogil:
        """Subtract the means of the labelings that agree with the observed labels.

        Returns the smoothed maximum over these labelings, of the potentials that
        `_maximum` scaled.
        """
        cdef Py_ssize_t ld = self.chain.ld, cells = self.chain.n_labels * ld, t
        cdef Py_ssize_t size = self.chain._sizes[i]
        cdef double* node = &self._difference[self.chain._starts[i], 0]
        cdef double value
        self._forbid_others(ws, i)
        if self.chain._table_step:
            means.add_by_entropy(
                size, ws.theta, means.tables, -1.0, means.spare_nodes, means.edges,
                means.edges + self.chain._edge_cells(size), &value)
        else:
            means.by_entropy(
                size, ws.theta, &self._table, -self.chain._example_weights[i],
                means.spare_nodes, edges + cells, edges, triples, &value)
        # node means are subtracted without the weight p_i, by which `_weigh_nodes`
        # multiplies the difference
        for t in range(size):
            sks_axpy(ld, -1.0, means.spare_nodes + t * ld, node + t * ld)
        return value * self.mu + ws.constant

    cdef void _add_tables(self, ChainMeans means, Py_ssize_t i, double* edges,
                          double* triples) noexcept nogil:
        """Add p_i times differences of edge means and of means of triples to sums."""
        cdef Py_ssize_t step = self.chain._table_step, t, k
        cdef Py_ssize_t second = self.chain._starts[i] + 1
        cdef double weight = self.chain._example_weights[i]
        cdef const double* table = means.edges
        # in the sums, weights of features on pairs follow two tables of transitions
        cdef double* pairs = edges + 2 * step
        for t in range(self.chain._sizes[i] - 1):
            sks_add_table(step, weight, table, edges)
            self.chain.pair_features.add_means(second + t, weight, table, pairs)
            table += step
        for k in range(self.chain.n_triples):
            triples[k] += weight * table[k]

    cdef void _forbid_others(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil:
        """Forbid the labels that contradict the observed part of an example."""
        cdef Py_ssize_t start = self.chain._starts[i], t, label
        cdef const int32_t* y = &self.chain._labels[start]
        for t in range(self.chain._sizes[i]):
            if self._unknown[start + t]:
                if self._has_choices:
                    self._forbid_unlisted(ws, start + t, t)
                continue
            for label in range(self.chain.n_labels):
                if label != y[t]:
                    ws.theta[t * self.chain.ld + label] = -INFINITY

    cdef void _forbid_unlisted(self, ChainScratch* ws, Py_ssize_t position,
                               Py_ssize_t t) noexcept nogil:
        """Forbid the labels that a position may not have, if it has a list."""
        cdef int64_t next_choice = self._first_choice[position]
        cdef int64_t last = self._first_choice[position + 1]
        cdef Py_ssize_t label
        # a position without a list may have all labels
        for label in range(self.chain.n_labels if next_choice < last else 0):
            # listed labels ascend
            if next_choice < last and self._choices[next_choice] == label:
                next_choice += 1
            else:
                ws.theta[t * self.chain.ld + label] = -INFINITY

    cdef void _weigh_nodes(self, Py_ssize_t i, double* sums) noexcept nogil:
        """Multiply the node differences of an example by p_i, and add them to the
        gradients of bias, start and end weights in `sums`.
        """
        cdef Py_ssize_t ld = self.chain.ld, size = self.chain._sizes[i], t, entry
        cdef double* node = &self._difference[self.chain._starts[i], 0]
        cdef double weight = self.chain._example_weights[i]
        # the loop includes padding, which stays zero
        for entry in range(size * ld):
            node[entry] *= weight
        for t in range(size):
            sks_axpy(ld, 1.0, node + t * ld, sums + BIAS * ld)
        sks_axpy(ld, 1.0, node, sums + START * ld)
        sks_axpy(ld, 1.0, node + (size - 1) * ld, sums + END * ld)

    # ---- the gradient ----

    def _write_tail(self, sums, rows):
        """Write the gradient of the tail, from the sums of all parts."""
        cdef Py_ssize_t ld = self.chain.ld, n_labels = self.chain.n_labels
        # parts are added in their order: numpy's `sum` may choose another order
        total = sums[0]
        for part in range(1, PARTS):
            total += sums[part]
        after = TRANSITIONS + n_labels
        pairs = total[(after + n_labels) * ld:]
        total = total.reshape(-1, ld)
        # weights that do not exist stay zero
        if not self.chain.fit_intercept:
            total[BIAS] = 0.0
        if not self.chain.boundary:
            total[START:TRANSITIONS] = 0.0
        tail = rows[self.chain.n_features:]
        tail[:after] = total[:after]
        tail[after:] = pairs.reshape(-1, ld)
        # multiply by the factor `ahead`, which `by_entropy` left out, once for all
        # examples
        if self._entropy and self._anchor_edges == NULL:
            exponentials = np.asarray(self._exponentials).reshape(3, n_labels, ld)
            ahead = exponentials[1, :, :n_labels]
            tail[TRANSITIONS:after, :n_labels] += (
                total[after:after + n_labels, :n_labels] * ahead)

    def _write_emission(self, rows, n_jobs):
        """Write the gradient of the emission weights, F' times the node differences."""
        emission = rows[:self.chain.n_features]
        self._transposed.product(self._differences, emission, n_jobs)
        if self.chain.feature_scale != 1.0:
            emission *= self.chain.feature_scale

    def _check_finite(self):
        """Raise an error that names the first example without a finite loss."""
        finite = np.isfinite(self._losses)
        if finite.all():
            return
        # give the user's number of the sequence: empty sequences are left out here
        number = np.flatnonzero(~finite)[0]
        if self._numbers is not None:
            number = self._numbers[number]
        raise ValueError(
            f"the loss of y[{number}] is not finite: no labeling agrees with its "
            "known labels and forbidden_transitions, or its scores are too large "
            "for floating-point arithmetic")

    # ---- visits of single examples ----

    def start_visits(self, bint anchored):
        cdef BoundChain chain = self.chain
        cdef Py_ssize_t cells = chain.n_labels * chain.ld
        cdef Py_ssize_t n_means = chain.max_size * chain.ld
        n_means += chain._edge_cells(chain.max_size) + chain.n_triples
        # n_means is rounded up, so that `_anchor_mean` begins on a cache line
        n_means = (n_means + 7) // 8 * 8
        cdef double[::1] memory = aligned_zeros(3 * cells + 2 * n_means)
        if anchored and not self._anchored:
            # variance-reduced steps need the gradient at the anchor
            raise ValueError(
                "there is no anchor: keep_anchors was not set in the sweep")
        # visits have their own tables, which sweeps between visits do not overwrite
        self._visit_means = ChainMeans(chain, self._n_best)
        self._visit_memory = memory
        self._visit_table.scores = &memory[0]
        self._visit_table.ahead = &memory[cells]
        self._visit_table.back = &memory[2 * cells]
        self._visit_mean = &memory[3 * cells]
        self._anchor_mean = self._visit_mean + n_means

    cdef int catch_up(self, LazyWeights weights, Py_ssize_t i) except -1 nogil:
        cdef Py_ssize_t n_features = self.chain.n_features, row, position, entry
        cdef RowEntries entries
        if self.chain._rows.sparse:
            for position in range(self.chain._starts[i], self.chain._starts[i + 1]):
                entries = self.chain._rows.row(position)
                for entry in range(entries.count):
                    weights.catch_up(entries.index[entry])
            entries = self.chain._rows.shared()
            for entry in range(entries.count):
                weights.catch_up(entries.index[entry])
        else:
            # a dense row has all features
            for row in range(n_features):
                weights.catch_up(row)
        # every example reads the tail
        for row in range(n_features, n_features + TRANSITIONS + self.chain.n_labels):
            weights.catch_up(row)
        if self.chain._table_step:
            # the first position has no incoming edge
            for position in range(
                    self.chain._starts[i] + 1, self.chain._starts[i + 1]):
                self.chain.pair_features.catch_up(
                    position, self.chain.first_pair, self.row_size, weights)
        if self.chain.n_triples:
            # weights of triples may begin within a row
            position = self.chain.first_pair + self.chain.n_pair_weights
            for row in range(position // self.row_size,
                             self.chain.n_weights // self.row_size):
                weights.catch_up(row)
        return 0

    cdef int mean_change(self, Workspace workspace, Py_ssize_t i, double scale,
                         bint anchored) except -1 nogil:
        cdef Py_ssize_t ld = self.chain.ld, step = self.chain._table_step, t
        cdef Py_ssize_t size = self.chain._sizes[i], start = self.chain._starts[i]
        cdef const int32_t* y = &self.chain._labels[start]
        cdef double* node = self._visit_mean
        cdef double* edges = node + size * ld
        self._visit_example(workspace, i, scale, node)
        for t in range(size):
            node[t * ld + y[t]] -= 1.0
        if anchored:
            # The anchor's node means are p_i (E mu_i - mu_i(y_i)): mu_i(y_i) cancels.
            # The anchor's edge means are E mu_i, so that the observed edges are not
            # subtracted.
            sks_add_table(size * ld, -1.0 / self.chain._example_weights[i],
                          &self._difference[start, 0], node)
            self._subtract_anchor(i, edges)
        else:
            for t in range(size - 1):
                edges[t * step + y[t] * ld + y[t + 1]] -= 1.0
            self.chain.add_triples(
                i, y, -1.0, edges + self.chain._edge_cells(size))
        return self.chain.add_means(workspace, i, node)

    cdef int _subtract_anchor(self, Py_ssize_t i, double* edges) except -1 nogil:
        """Subtract from `edges` the means E mu_i of edges and of triples at the weights
        of the last sweep.
        """
        cdef Py_ssize_t size = self.chain._sizes[i]
        cdef Py_ssize_t cells = self.chain._edge_cells(size), k
        cdef const double* anchor
        if self.chain._table_step or self.chain.n_triples:
            self._visit_example(self._anchor, i, 1.0, self._anchor_mean)
            anchor = self._anchor_mean + size * self.chain.ld
        else:
            anchor = self._anchor_edges + i * cells
        sks_add_table(cells, -1.0, anchor, edges)
        for k in range(cells, cells + self.chain.n_triples):
            edges[k] -= anchor[k]
        return 0

    cdef int _visit_example(self, Workspace workspace, Py_ssize_t i, double scale,
                            double* means) except -1 nogil:
        """Write E mu_i at `scale` times the weights in the workspace, nodes first."""
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t nodes = self.chain._sizes[i] * self.chain.ld, entry
        cdef double factor = scale / self.mu if self._entropy else scale
        cdef unsigned char exact
        # The weights are scale times the stored vector v: potentials are formed at v,
        # with the loss divided by scale, and then multiplied by scale.
        workspace.loss_scale = 1.0 / scale
        self.chain.potentials(workspace, i)
        workspace.loss_scale = 1.0
        for entry in range(nodes):
            ws.theta[entry] *= factor
        if self.chain._has_triples(i):
            self._visit_means.triple_table.load(
                ws.triple_weights, factor, self._entropy)
        self._example_maximum(
            ws, self._visit_means, i, self._load_visit_table(ws, i, factor), means,
            means + nodes, means + nodes + self.chain._edge_cells(self.chain._sizes[i]),
            &exact)
        return 0

    cdef const EdgeTable* _load_visit_table(
        self, ChainScratch* ws, Py_ssize_t i, double factor
    ) noexcept nogil:
        """Return `factor` times the transitions, -inf for forbidden transitions."""
        cdef Py_ssize_t ld = self.chain.ld, cells = self.chain.n_labels * ld
        cdef const double* mask = self.chain._constraints.mask
        cdef double* table = <double*> self._visit_table.scores
        if self.chain._table_step:
            return self._visit_means.load_tables(ws, i, factor, self._entropy)
        memset(table, 0, cells * sizeof(double))
        sks_add_table(cells, factor, ws.tail + TRANSITIONS * ld, table)
        # the mask's rows of transitions follow its rows of first and last labels
        if mask != NULL:
            sks_add_table(cells, 1.0, mask + 2 * ld, table)
        if self._entropy:
            exponentiate_table(self.chain.n_labels, ld, &self._visit_table)
        return &self._visit_table


def most_labelings(BoundChain chain, k):
    """Return k or, if less, the number of labelings of the longest sequence."""
    # 64 positions are enough: their 2 ** 64 or more labelings are above any k
    return min(k, chain.n_labels ** min(int(chain.max_size), 64))
