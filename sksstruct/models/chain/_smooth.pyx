"""Smooth losses of chains: value and gradient over all examples, and of one example.

For weights w and potentials theta_i = A_i w, with the loss L_i added or not,

    f_i(w) = h(theta_i) - <theta_i, mu_i(y_i)>,  grad f_i = A_i^T (E mu - mu_i(y_i))

where h is the smoothed maximum over labelings and E mu its gradient (`_means.pyx`). The
negative log-likelihood of a conditional random field is the loss smoothed by the
entropy with mu = 1 and L = 0. Where labels were not observed, the likelihood is that of
those that were, and mu_i(y_i) the mean over the labelings that agree with them.

A sweep writes the differences E mu - mu_i(y_i) of the nodes of every position, examples
being shared among threads, and then forms the gradient feature by feature, from a
transposed copy of sparse features. Both parts give the same bits for any number of
threads. Visits of one example bring the rows of weights that it reads up to date, so
that they cost the example's own features only.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from sksstruct.inference.chains._sumproduct cimport EdgeTable, exponentiate_table
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._means cimport ChainMeans
from sksstruct.models.chain._workspace cimport TRANSITIONS, ChainScratch, add_edge
from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.protocols._smooth_loss cimport SmoothLoss
from sksstruct.models.protocols._weights cimport LazyWeights
from sksstruct.models.tables._feature_rows cimport RowEntries
from sksstruct.utils._simd cimport (
    sks_add_table, sks_axpy, sks_scores_f32, sks_scores_f64, sks_weigh_add,
)

from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils.parallel import run_in_chunks

# Below this a change of a mean parameter is rounding error.
cdef double TINY = 1e-13
# Examples are summed over in so many parts, whatever the number of threads.
PARTS = 16


cdef class ChainSmoothLoss(SmoothLoss):
    """The mean smooth loss of a chain model, and its gradient.

    Parameters
    ----------
    chain : BoundChain
        The chain; for the likelihood its costs are zero.
    smoothing : SmoothedHinge
        Kind and strength of the smoothing, and the number of labelings.
    unknown : ndarray of shape (n_positions,), bool, or None
        Positions whose label was not observed; entropy only.
    numbers : ndarray of shape (n_sequences,), int, or None
        How errors number the sequences.
    nonsmooth : bool
        Whether the hinge is what is minimised.
    support : ndarray of int or None
        Flat weights that exist.
    """

    cdef readonly BoundChain chain
    cdef bint _entropy
    cdef Py_ssize_t _k
    cdef object _numbers
    cdef const unsigned char[::1] _unknown, _incomplete    # positions; sequences
    cdef bint _partial
    # features, in the form that the gradient reads
    cdef object _transposed, _values
    # of the last sweep
    cdef object _differences, _losses, _expected, _exponentials, _edge_means
    cdef double[:, ::1] _difference           # p_i (E mu_i - mu_i(y_i)) of all nodes
    cdef double* _kept                        # E mu_i of the edges of every example
    cdef EdgeTable _table
    # of visits
    cdef ChainMeans _visit_means
    cdef EdgeTable _visit_table
    cdef object _visit_memory
    cdef double* _visit_edges

    def __init__(self, BoundChain chain, smoothing, unknown=None, numbers=None,
                 bint nonsmooth=False, support=None):
        cdef Py_ssize_t cells = chain.n_labels * chain.ld
        cdef double[::1] memory = aligned_zeros(3 * cells)
        self.model = self.chain = chain
        self._entropy = smoothing.smoothing == "entropy"
        self.mu, self._k = smoothing.mu, most_labelings(chain, smoothing.k)
        self.nonsmooth, self.support, self.row_size = nonsmooth, support, chain.ld
        self._numbers = numbers
        self._bind_unknown(unknown)
        # omega is at most 1/2 in size, or the entropy of all labelings
        self.diameter = 0.5
        if self._entropy:
            self.diameter = float(
                chain.example_weights @ chain.sizes) * np.log(chain.n_labels)
        n_positions = chain.starts[-1]
        self._differences = aligned_zeros(n_positions * chain.ld).reshape(
            n_positions, chain.ld)
        self._difference = self._differences
        self._losses = np.empty(chain.n_examples)
        self._expected = np.zeros(chain.n_examples)
        self.exact = np.ones(chain.n_examples, dtype=np.uint8)
        self._exponentials = memory
        self._table.scores, self._table.ahead = &memory[0], &memory[cells]
        self._table.back = &memory[2 * cells]
        self._bind_features()

    def _bind_unknown(self, unknown):
        """Note which positions, and so which sequences, lack their label."""
        self._partial = unknown is not None and bool(unknown.any())
        self.convex = not self._partial
        if self._partial:
            flags = np.ascontiguousarray(unknown, dtype=np.uint8)
            self._unknown = flags
            self._incomplete = np.maximum.reduceat(flags, self.chain.starts[:-1])

    def _bind_features(self):
        """Transposed copy of sparse features."""
        values = self.chain.packed.values
        self._transposed, self._values = None, values
        if self.chain.packed.is_sparse:
            columns = values.tocsc()
            columns.sort_indices()
            self._transposed = (
                np.ascontiguousarray(columns.indptr, dtype=np.int64),
                np.ascontiguousarray(columns.indices, dtype=np.int32),
                np.ascontiguousarray(columns.data),
            )

    @property
    def node_differences(self):
        """p_i (E mu_i - mu_i(y_i)) of all positions at the last sweep."""
        return self._differences

    # ---- value and gradient ----

    def value_and_gradient(self, w, gradient, n_jobs=None):
        cdef BoundChain chain = self.chain
        cdef Py_ssize_t ld = chain.ld
        self._load_table(w)
        self._keep_edges(self.keep_anchors and self.convex)
        # of each part: bias, start, end, transitions as they are, and without factor
        sums = aligned_zeros(PARTS * (TRANSITIONS + 2 * chain.n_labels) * ld)
        sums = sums.reshape(PARTS, -1)
        bounds = [chain.n_examples * p // PARTS for p in range(PARTS + 1)]

        def run(first, last):
            workspace = chain.workspace(w, training=False)
            means = ChainMeans(chain, self._k)
            for p in range(first, last):
                self._sweep(workspace, means, bounds[p], bounds[p + 1], sums[p])

        run_in_chunks(run, PARTS, n_jobs)
        rows = gradient.reshape(-1, ld)
        self._write_tail(sums, rows)
        self._write_emission(rows, n_jobs)
        self._check_finite()
        self.expected_loss = float(chain.example_weights @ self._expected)
        return float(chain.example_weights @ self._losses)

    def _load_table(self, w):
        """The table of this sweep, forbidden transitions and the smoothing included."""
        cdef BoundChain chain = self.chain
        cdef Py_ssize_t ld = chain.ld, n = chain.n_labels
        table = np.asarray(self._exponentials)[:n * ld].reshape(n, ld)
        table[...] = w.reshape(-1, ld)[chain.n_features + TRANSITIONS:]
        if chain.mask is not None:
            table += chain.mask[2:]
        table *= 1.0 / self.mu if self._entropy else 1.0
        if self._entropy:
            exponentiate_table(n, ld, &self._table)

    def _keep_edges(self, bint keep):
        """Make room for the edge means of every example, or give it back."""
        cdef double[::1] view
        if not keep:
            self._edge_means, self._kept = None, NULL
        elif self._kept == NULL:
            self._edge_means = aligned_zeros(
                self.chain.n_examples * self.chain.n_labels * self.chain.ld)
            view = self._edge_means
            self._kept = &view[0]

    def _sweep(self, Workspace workspace, ChainMeans means, Py_ssize_t first,
               Py_ssize_t last, double[::1] sums):
        """Losses and node differences of examples first <= i < last; adds to sums."""
        cdef Py_ssize_t i
        cdef double[::1] losses = self._losses, expected = self._expected
        cdef unsigned char[::1] exact = self.exact
        with nogil:
            for i in range(first, last):
                self._sweep_example(workspace, means, i, &sums[0], &losses[i],
                                    &expected[i], &exact[i])

    cdef int _sweep_example(
            self, Workspace workspace, ChainMeans means, Py_ssize_t i, double* sums,
            double* loss, double* expected, unsigned char* exact) except -1 nogil:
        """Loss, expected loss and differences of one example.

        The means of its edges go to `sums`, and to what is kept of it.
        """
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.chain.ld, cells = self.chain.n_labels * ld
        cdef Py_ssize_t size = self.chain._sizes[i], start = self.chain._starts[i], t
        cdef const int32_t* y = &self.chain._labels[start]
        cdef double* node = &self._difference[start, 0]
        cdef double* edges = sums + TRANSITIONS * ld
        cdef double* own = self._kept + i * cells if self._kept else NULL
        cdef double weight = self.chain._example_weights[i], value, true_value = 0.0
        cdef bint incomplete = self._partial and self._incomplete[i]
        self.chain.potentials(workspace, i)
        if not incomplete:
            self.chain.evaluate(workspace, i, y, &true_value)
        if own:
            memset(own, 0, cells * sizeof(double))
        if self._entropy:
            value = self._entropy_means(ws, means, i, node, own, edges)
            if incomplete:
                true_value = self._observed_means(ws, means, i, node, edges)
        else:
            value = means.by_topk(
                ws, i, self._table.scores, self.mu, 1.0 if own else weight, node,
                own if own else edges, exact)
        if own:
            # an example's own sums are added to those of all
            sks_add_table(cells, weight, own, edges)
        loss[0] = value - true_value
        if not incomplete:
            expected[0] = 0.0
            for t in range(size):
                expected[0] += self.chain._cost[start + t] * (1.0 - node[t * ld + y[t]])
                node[t * ld + y[t]] -= 1.0
            for t in range(size - 1):
                edges[y[t] * ld + y[t + 1]] -= weight
        for t in range(size * ld):
            node[t] *= weight
        for t in range(size):
            sks_axpy(ld, 1.0, node + t * ld, sums)
        sks_axpy(ld, 1.0, node, sums + ld)
        sks_axpy(ld, 1.0, node + (size - 1) * ld, sums + 2 * ld)
        return 0

    cdef double _entropy_means(
            self, ChainScratch* ws, ChainMeans means, Py_ssize_t i, double* node,
            double* own, double* edges) except? -1 nogil:
        """Smoothed maximum and means of the loaded potentials, which are scaled.

        Edge means go to `own`, or weighted to `edges` and the table that comes after.
        """
        cdef Py_ssize_t cells = self.chain.n_labels * self.chain.ld, t
        cdef Py_ssize_t size = self.chain._sizes[i]
        cdef double scale = 1.0 / self.mu, value
        for t in range(size * self.chain.ld):
            ws.theta[t] *= scale
        if own:
            memset(means.outer, 0, cells * sizeof(double))
            means.by_entropy(size, ws.theta, &self._table, 1.0, node, means.outer, own,
                             &value)
            sks_weigh_add(cells, means.outer, self._table.ahead, own)
        else:
            means.by_entropy(size, ws.theta, &self._table,
                             self.chain._example_weights[i], node, edges + cells,
                             edges, &value)
        return value * self.mu + ws.constant

    cdef double _observed_means(
            self, ChainScratch* ws, ChainMeans means, Py_ssize_t i, double* node,
            double* edges) except? -1 nogil:
        """The maximum over the labelings that agree with the observed labels.

        Its means are subtracted from those in `node` and `edges`.
        """
        cdef Py_ssize_t ld = self.chain.ld, cells = self.chain.n_labels * ld, t, label
        cdef Py_ssize_t size = self.chain._sizes[i], start = self.chain._starts[i]
        cdef const int32_t* y = &self.chain._labels[start]
        cdef double value
        for t in range(size):
            if self._unknown[start + t]:
                continue
            for label in range(self.chain.n_labels):
                if label != y[t]:
                    ws.theta[t * ld + label] = -INFINITY
        means.by_entropy(size, ws.theta, &self._table, -self.chain._example_weights[i],
                         means.other, edges + cells, edges, &value)
        for t in range(size):
            sks_axpy(ld, -1.0, means.other + t * ld, node + t * ld)
        return value * self.mu + ws.constant

    def _write_tail(self, sums, rows):
        """Gradient of bias, start, end and transitions from the sums of all parts."""
        cdef Py_ssize_t ld = self.chain.ld, n = self.chain.n_labels
        total = sums[0]
        for p in range(1, PARTS):
            total += sums[p]
        total = total.reshape(-1, ld)
        if not self.chain.fit_intercept:
            total[0] = 0.0
        if not self.chain.boundary:
            total[1:TRANSITIONS] = 0.0
        tail = rows[self.chain.n_features:]
        tail[...] = total[:TRANSITIONS + n]
        if self._entropy and self._kept == NULL:
            ahead = np.asarray(self._exponentials).reshape(3, n, ld)[1, :, :n]
            tail[TRANSITIONS:, :n] += total[TRANSITIONS + n:, :n] * ahead

    def _write_emission(self, rows, n_jobs):
        """Gradient of the emission weights, F' times the node differences."""
        cdef Py_ssize_t d = self.chain.n_features
        if self._transposed is not None:
            run_in_chunks(lambda a, b: self._gather(a, b, rows), d, n_jobs)
        elif self._values.dtype == np.float64:
            np.matmul(self._values.T, self._differences, out=rows[:d])
        else:
            # in parts, as a copy of all features in double precision may be large
            rows[:d] = 0.0
            for first in range(0, len(self._values), 4096):
                part = slice(first, first + 4096)
                rows[:d] += self._values[part].T.astype(float) @ self._differences[part]

    def _gather(self, Py_ssize_t first, Py_ssize_t last, double[:, ::1] rows):
        """Gradient of the emission weights of features first <= j < last."""
        cdef const int64_t[::1] indptr = self._transposed[0]
        cdef const int32_t[::1] indices = self._transposed[1]
        cdef const float[::1] single
        cdef const double[::1] values
        cdef Py_ssize_t j, begin, count, ld = self.chain.ld
        cdef bint is_single = self._transposed[2].dtype == np.float32
        cdef double[::1] zeros = aligned_zeros(ld)
        if not len(indices):
            np.asarray(rows)[first:last] = 0.0
            return
        if is_single:
            single = self._transposed[2]
        else:
            values = self._transposed[2]
        with nogil:
            for j in range(first, last):
                begin = indptr[j]
                count = indptr[j + 1] - begin
                if count == 0:
                    memset(&rows[j, 0], 0, ld * sizeof(double))
                elif is_single:
                    sks_scores_f32(count, &indices[begin], &single[begin],
                                   &self._difference[0, 0], ld, &zeros[0], &rows[j, 0])
                else:
                    sks_scores_f64(count, &indices[begin], &values[begin],
                                   &self._difference[0, 0], ld, &zeros[0], &rows[j, 0])

    def _check_finite(self):
        finite = np.isfinite(self._losses)
        if finite.all():
            return
        number = np.flatnonzero(~finite)[0]
        if self._numbers is not None:
            number = self._numbers[number]
        raise ValueError(
            f"the loss of y[{number}] is not finite: no labeling agrees with its "
            "known labels and forbidden_transitions, or its scores are too large "
            "for floating-point arithmetic")

    # ---- visits of single examples ----

    def start_visits(self, bint anchored):
        cdef Py_ssize_t cells = self.chain.n_labels * self.chain.ld
        cdef double[::1] memory = aligned_zeros(4 * cells)
        if anchored and self._kept == NULL:
            raise ValueError(
                "there is no anchor: keep_anchors was not set in the sweep")
        self._visit_means = ChainMeans(self.chain, self._k)
        self._visit_memory = memory
        self._visit_table.scores = &memory[0]
        self._visit_table.ahead = &memory[cells]
        self._visit_table.back = &memory[2 * cells]
        self._visit_edges = &memory[3 * cells]

    cdef int catch_up(self, LazyWeights weights, Py_ssize_t i) except -1 nogil:
        cdef Py_ssize_t d = self.chain.n_features, j, t, entry
        cdef RowEntries entries
        if self.chain._rows.sparse:
            for t in range(self.chain._starts[i], self.chain._starts[i + 1]):
                entries = self.chain._rows.row(t)
                for entry in range(entries.count):
                    weights.catch_up(entries.index[entry])
        else:
            for j in range(d):
                weights.catch_up(j)
        for j in range(d, d + TRANSITIONS + self.chain.n_labels):
            weights.catch_up(j)
        return 0

    cdef int mean_change(self, Workspace workspace, Py_ssize_t i, double scale,
                         bint anchored) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.chain.ld, cells = self.chain.n_labels * ld, t
        cdef Py_ssize_t size = self.chain._sizes[i], start = self.chain._starts[i]
        cdef const int32_t* y = &self.chain._labels[start]
        cdef double* edges = self._visit_edges
        self._visit_means_at(workspace, i, scale)
        for t in range(size):
            ws.node_change[t * ld + y[t]] -= 1.0
        if anchored:
            # the anchor is p_i (E mu_i - mu_i(y_i)), its edges are E mu_i
            sks_add_table(size * ld, -1.0 / self.chain._example_weights[i],
                          &self._difference[start, 0], ws.node_change)
            sks_add_table(cells, -1.0, self._kept + i * cells, edges)
        else:
            for t in range(size - 1):
                edges[y[t] * ld + y[t + 1]] -= 1.0
        self._note_edges(ws)
        ws.scanned = False
        return 0

    cdef int _visit_means_at(self, Workspace workspace, Py_ssize_t i,
                             double scale) except -1 nogil:
        """E mu_i at scale times the weights read: nodes to d, edges to the visit's."""
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.chain.ld, cells = self.chain.n_labels * ld, t
        cdef Py_ssize_t size = self.chain._sizes[i]
        cdef double* table = <double*> self._visit_table.scores
        cdef double* edges = self._visit_edges
        cdef double factor = scale / self.mu if self._entropy else scale, value
        cdef unsigned char exact
        # The potentials are those of v with the loss divided by scale: times scale they
        # are those of the weights.
        workspace.loss_scale = 1.0 / scale
        self.chain.potentials(workspace, i)
        workspace.loss_scale = 1.0
        for t in range(size * ld):
            ws.theta[t] *= factor
        memset(table, 0, cells * sizeof(double))
        sks_add_table(cells, factor, ws.tail + TRANSITIONS * ld, table)
        if self.chain._constraints.mask != NULL:
            sks_add_table(cells, 1.0, self.chain._constraints.mask + 2 * ld, table)
        memset(edges, 0, cells * sizeof(double))
        if not self._entropy:
            self._visit_means.by_topk(ws, i, table, self.mu, 1.0, ws.node_change, edges, &exact)
            return 0
        exponentiate_table(self.chain.n_labels, ld, &self._visit_table)
        memset(self._visit_means.outer, 0, cells * sizeof(double))
        self._visit_means.by_entropy(size, ws.theta, &self._visit_table, 1.0, ws.node_change, self._visit_means.outer,
                         edges, &value)
        sks_weigh_add(cells, self._visit_means.outer, self._visit_table.ahead, edges)
        return 0

    cdef void _note_edges(self, ChainScratch* ws) noexcept nogil:
        """Add the edges of a visit to the change in the workspace."""
        cdef Py_ssize_t ld = self.chain.ld, n = self.chain.n_labels, label, cell
        for label in range(n):
            for cell in range(label * ld, label * ld + n):
                if self._visit_edges[cell] > TINY or self._visit_edges[cell] < -TINY:
                    add_edge(ws, cell, self._visit_edges[cell])

    def example_difference(self, Workspace workspace, Py_ssize_t i):
        """E mu_i - mu_i(y_i) at the weights that the workspace reads.

        Returns its nodes (size, ld), and rows in the layout of the weights whose bias,
        start, end and transitions are those of the gradient.
        """
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.chain.ld, size = self.chain._sizes[i], k
        cdef Py_ssize_t d = self.chain.n_features
        cdef double[:, ::1] nodes = np.empty((size, ld))
        cdef double[:, ::1] rows = np.zeros((d + TRANSITIONS + self.chain.n_labels, ld))
        if self._visit_means is None:
            self.start_visits(False)
        self.mean_change(workspace, i, 1.0, False)
        memcpy(&nodes[0, 0], ws.node_change, size * ld * sizeof(double))
        for k in range(ws.n_changed_edges):
            (&rows[d + TRANSITIONS, 0])[ws.changed_edges[k]] = ws.edge_change[ws.changed_edges[k]]
        self.chain.clear(workspace, i)
        rows.base[d] = nodes.base.sum(axis=0)
        rows.base[d + 1] = nodes.base[0]
        rows.base[d + 2] = nodes.base[size - 1]
        return nodes.base, rows.base


def most_labelings(BoundChain chain, k):
    """k, or the number of labelings of the longest sequence where that is less."""
    # the exponent is cut where the number is beyond any k
    return min(k, chain.n_labels ** min(int(chain.max_size), 64))
