"""Smooth losses of chains: value and gradient over all examples.

For weights w and potentials theta_i = A_i w, with the loss L_i added or not,

    f_i(w) = h(theta_i) - <theta_i, mu_i(y_i)>,  grad f_i = A_i^T (E mu - mu_i(y_i))

where h is the smoothed maximum over labelings and E mu its gradient (Pillutla et al.,
2018, Section 2):

    entropy   h = m log sum_y exp(score(y) / m),          E mu = marginals
    l2        h = max_u <u, scores> - m/2 (|u|^2 - 1),    E mu = sum_k u_k mu(y_k)

over the K best labelings y_k, u being the projection of their scores / m onto the
simplex. The negative log-likelihood of a conditional random field is the loss smoothed
by the entropy with m = 1 and L = 0. Where labels were not observed, the likelihood is
that of those that were, and mu_i(y_i) the mean over the labelings that agree with them.

Solvers that visit one example at a time get E mu_i at the weights of the visit, minus
E mu_i at those of the last sweep (the anchor) or mu_i(y_i). Weights are brought up to
date row by row when an example reads them, so that a visit costs its own features only.

A sweep writes the difference of node means of every position, examples being shared
among threads, and then forms the gradient feature by feature, from a transposed copy
of sparse features. Both parts give the same bits for any number of threads.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.chains._sumproduct cimport (
    EdgeTable, SumScratch, exponentiate_table, sum_product_padded,
)
from sksstruct.inference.chains._topk cimport TopK
from sksstruct.models.protocols._base cimport SmoothLoss, Workspace
from sksstruct.models.chain._chain cimport BoundChain, ChainScratch, add_edge
from sksstruct.projections._simplex cimport project_sorted
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
    model : BoundChain
        Model with its data; for the likelihood its costs are zero.
    smoothing : {"entropy", "l2"}
        Kind of smoothing.
    strength : float
        m, positive.
    k : int
        Labelings of the l2 smoothing.
    partial : ndarray of shape (n_positions,), bool, or None
        Positions whose label was not observed; entropy only.
    numbers : ndarray of shape (n_sequences,), int, or None
        How errors number the sequences.
    """

    cdef readonly BoundChain chain
    cdef readonly object transposed
    cdef readonly double strength
    cdef public bint keep_edges          # keep what visits of examples are anchored at
    cdef object _edge_means, _visit_arrays
    cdef double* _kept
    cdef const double* _anchors
    cdef TopK _decoder
    cdef SumScratch _visit_sums
    cdef EdgeTable _visit_table
    cdef double* _visit_scores
    cdef int32_t* _visit_labels
    cdef double* _visit_edges
    cdef double* _visit_outer
    cdef const double* _direction
    cdef double* _last
    cdef const unsigned char* _allowed
    cdef bint _entropy
    cdef Py_ssize_t _k
    cdef object _differences, _losses, _expected, _partial, _values, _arrays, _numbers
    cdef const unsigned char[::1] _unknown
    cdef const unsigned char[::1] _incomplete
    cdef EdgeTable _table

    def __init__(self, BoundChain model, smoothing="entropy", double strength=1.0,
                 Py_ssize_t k=1, partial=None, numbers=None):
        cdef Py_ssize_t cells = model.n_labels * model.ld
        cdef double[::1] memory = aligned_zeros(3 * cells)
        self.model = self.chain = model
        self._entropy = smoothing == "entropy"
        self.strength, self._k = strength, k
        offsets = np.asarray(model._starts)
        n_positions = offsets[model.n_examples]
        self._partial = None
        self._numbers = numbers
        # omega is at most 1/2 in size, or the entropy of all labelings
        self.diameter = 0.5
        if self._entropy:
            self.diameter = float(
                model.example_weights @ model.sizes) * np.log(model.n_labels)
        self.convex = partial is None or not partial.any()
        if partial is not None and partial.any():
            self._partial = np.ascontiguousarray(partial, dtype=np.uint8)
            self._unknown = self._partial
            self._incomplete = np.maximum.reduceat(
                self._partial, offsets[:model.n_examples])
        self._differences = aligned_zeros(n_positions * model.ld).reshape(
            n_positions, model.ld)
        cdef double[:, ::1] anchors = self._differences
        self._anchors = &anchors[0, 0]
        self._losses = np.empty(model.n_examples)
        self._expected = np.zeros(model.n_examples)
        self.exact = np.ones(model.n_examples, dtype=np.uint8)
        self._arrays = memory
        self._table.scores = &memory[0]
        self._table.ahead = &memory[cells]
        self._table.back = &memory[2 * cells]

    def bind(self, X):
        """Transposed copy of the features, in the form the gradient reads."""
        if X.is_sparse:
            columns = X.values.tocsc()
            columns.sort_indices()
            self.transposed = (
                np.ascontiguousarray(columns.indptr, dtype=np.int64),
                np.ascontiguousarray(columns.indices, dtype=np.int32),
                np.ascontiguousarray(columns.data),
            )
        else:
            self.transposed = None
            self._values = X.values
        return self

    def value_and_gradient(self, gradient, n_jobs=None):
        """Mean loss at the model's weights; its gradient is written out.

        Parameters
        ----------
        gradient : ndarray of shape (n_weights,)
            Written.
        n_jobs : int, default=None
            Threads; the result is the same for any number.

        Returns
        -------
        loss : float
            Mean loss.
        """
        cdef BoundChain model = self.chain
        cdef Py_ssize_t ld = model.ld, n = model.n_labels, d = model.n_features
        cdef double scale = 1.0 / self.strength if self._entropy else 1.0
        # The table of this sweep, forbidden transitions and the smoothing included.
        table = np.asarray(self._arrays)[:n * ld].reshape(n, ld)
        table[...] = model.w.reshape(-1, ld)[d + 3:]
        if model.mask is not None:
            table += model.mask[2:]
        table *= scale
        if self._entropy:
            exponentiate_table(n, ld, &self._table)
        self._keep(self.keep_edges and self.convex)
        # of each part: bias, start, end, transitions as they are, and without factor
        sums = aligned_zeros(PARTS * (3 + 2 * n) * ld).reshape(PARTS, -1)
        bounds = [model.n_examples * p // PARTS for p in range(PARTS + 1)]

        def run(first, last):
            workspace = model.workspace(training=False)
            scratch = aligned_zeros((3 * model.max_size + 3) * ld + model.max_size
                                    + 2 * (self._k + 1) + n * ld)
            labels = np.empty((self._k + 1) * model.max_size, dtype=np.int32)
            for p in range(first, last):
                self._sweep(workspace, bounds[p], bounds[p + 1], scratch,
                            labels, sums[p])

        run_in_chunks(run, PARTS, n_jobs)
        total = sums[0]
        for p in range(1, PARTS):
            total += sums[p]
        total = total.reshape(-1, ld)
        rows = gradient.reshape(-1, ld)
        if not model.fit_intercept:
            total[0] = 0.0
        if not model.boundary:
            total[1:3] = 0.0
        rows[d:] = total[:3 + n]
        if self._entropy and self._kept == NULL:
            ahead = np.asarray(self._arrays).reshape(3, n, ld)[1, :, :n]
            rows[d + 3:, :n] += total[3 + n:, :n] * ahead
        if self.transposed is not None:
            run_in_chunks(lambda a, b: self._gather(a, b, rows), d, n_jobs)
        elif self._values.dtype == np.float64:
            np.matmul(self._values.T, self._differences, out=rows[:d])
        else:
            rows[:d] = 0.0
            for first in range(0, len(self._values), 4096):
                part = slice(first, first + 4096)
                rows[:d] += self._values[part].T.astype(float) @ self._differences[part]
        finite = np.isfinite(self._losses)
        if not finite.all():
            number = np.flatnonzero(~finite)[0]
            if self._numbers is not None:
                number = self._numbers[number]
            raise ValueError(
                f"the loss of y[{number}] is not finite: no labeling agrees with its "
                "known labels and forbidden_transitions, or its scores are too large "
                "for floating-point arithmetic")
        self.expected_loss = float(model.example_weights @ self._expected)
        return float(model.example_weights @ self._losses)

    def _keep(self, bint keep):
        """Make room for the edge means of every example, or give it back."""
        cdef double[::1] view
        if not keep:
            self._edge_means, self._kept = None, NULL
        elif self._kept == NULL:
            self._edge_means = aligned_zeros(
                self.chain.n_examples * self.chain.n_labels * self.chain.ld)
            view = self._edge_means
            self._kept = &view[0]

    def _gather(self, Py_ssize_t first, Py_ssize_t last, double[:, ::1] rows):
        """Gradient of the emission weights of features first <= j < last."""
        cdef const long long[::1] indptr = self.transposed[0]
        cdef const int32_t[::1] indices = self.transposed[1]
        cdef const float[::1] single
        cdef const double[::1] values
        cdef const double[:, ::1] differences = self._differences
        cdef Py_ssize_t j, begin, count, ld = self.chain.ld
        cdef bint is_single = self.transposed[2].dtype == np.float32
        cdef double[::1] zeros = aligned_zeros(ld)
        if not len(indices):
            np.asarray(rows)[first:last] = 0.0
            return
        if is_single:
            single = self.transposed[2]
        else:
            values = self.transposed[2]
        with nogil:
            for j in range(first, last):
                begin = indptr[j]
                count = indptr[j + 1] - begin
                if count == 0:
                    memset(&rows[j, 0], 0, ld * sizeof(double))
                elif is_single:
                    sks_scores_f32(count, &indices[begin], &single[begin],
                                   &differences[0, 0], ld, &zeros[0], &rows[j, 0])
                else:
                    sks_scores_f64(count, &indices[begin], &values[begin],
                                   &differences[0, 0], ld, &zeros[0], &rows[j, 0])

    def _sweep(self, Workspace workspace, Py_ssize_t first, Py_ssize_t last,
               double[::1] scratch, int32_t[::1] labels, double[::1] sums):
        """Losses and node differences of examples first <= i < last; adds to sums."""
        cdef BoundChain model = self.chain
        cdef Py_ssize_t ld = model.ld, n = model.n_labels, i, t, size, start
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef double[:, ::1] differences = self._differences
        cdef double[::1] losses = self._losses
        cdef double[::1] expected = self._expected
        cdef unsigned char[::1] exact = self.exact
        cdef SumScratch sum_ws
        cdef TopK decoder = TopK()
        cdef double* node
        cdef double* other = &scratch[0]
        cdef double* own_outer
        cdef double* edges = &sums[3 * ld]
        cdef double* outer = edges + n * ld
        cdef double* own
        cdef double y_true, value, weight, scale = 1.0 / self.strength
        cdef bint incomplete
        cdef const int32_t* y
        sum_ws.u = other + model.max_size * ld
        sum_ws.alpha = sum_ws.u + model.max_size * ld
        sum_ws.rows = sum_ws.alpha + model.max_size * ld
        sum_ws.scales = sum_ws.rows + 3 * ld
        cdef double* scores = sum_ws.scales + model.max_size
        own_outer = scores + 2 * (self._k + 1)
        with nogil:
            for i in range(first, last):
                size, start = model._sizes[i], model._starts[i]
                weight = model._example_weights[i]
                node = &differences[start, 0]
                # an example's own sums are added to those of all
                own = self._kept + i * n * ld if self._kept else NULL
                y = &model._labels[start]
                incomplete = (self._partial is not None) and self._incomplete[i]
                model.potentials(workspace, i)
                if not incomplete:
                    model.evaluate(workspace, i, y, &y_true)
                if self._entropy:
                    for t in range(size * ld):
                        ws.theta[t] *= scale
                    if own:
                        memset(own, 0, n * ld * sizeof(double))
                        memset(own_outer, 0, n * ld * sizeof(double))
                        sum_product_padded(
                            size, n, ld, ws.theta, &self._table, 0, &sum_ws, node, 1.0,
                            own_outer, 0, own, 0, &value)
                        sks_weigh_add(n * ld, own_outer, self._table.ahead, own)
                    else:
                        sum_product_padded(
                            size, n, ld, ws.theta, &self._table, 0, &sum_ws, node,
                            weight, outer, 0, edges, 0, &value)
                    value = value * self.strength + ws.constant
                    if incomplete:
                        for t in range(size):
                            if not self._unknown[start + t]:
                                self._force(ws.theta + t * ld, y[t])
                        sum_product_padded(
                            size, n, ld, ws.theta, &self._table, 0, &sum_ws, other,
                            -weight, outer, 0, edges, 0, &y_true)
                        y_true = y_true * self.strength + ws.constant
                        for t in range(size):
                            sks_axpy(ld, -1.0, other + t * ld, node + t * ld)
                else:
                    if own:
                        memset(own, 0, n * ld * sizeof(double))
                    value = self._project(
                        model, ws, decoder, i, self._table.scores, node, scores,
                        &labels[0], 1.0 if own else weight, own if own else edges,
                        &exact[i])
                if own:
                    sks_add_table(n * ld, weight, own, edges)
                if not incomplete:
                    expected[i] = 0.0
                    for t in range(size):
                        expected[i] += model._cost[start + t] * (
                            1.0 - node[t * ld + y[t]])
                losses[i] = value - y_true
                if not incomplete:
                    for t in range(size):
                        node[t * ld + y[t]] -= 1.0
                    for t in range(size - 1):
                        edges[y[t] * ld + y[t + 1]] -= weight
                for t in range(size * ld):
                    node[t] *= weight
                for t in range(size):
                    sks_axpy(ld, 1.0, node + t * ld, &sums[0])
                sks_axpy(ld, 1.0, node, &sums[ld])
                sks_axpy(ld, 1.0, node + (size - 1) * ld, &sums[2 * ld])

    cdef void _force(self, double* row, Py_ssize_t label) noexcept nogil:
        cdef Py_ssize_t a
        for a in range(self.chain.n_labels):
            if a != label:
                row[a] = -INFINITY

    cdef double _project(
            self, BoundChain model, ChainScratch* ws, TopK decoder, Py_ssize_t i,
            const double* table, double* node, double* scores, int32_t* labels,
            double weight,
            double* edges, unsigned char* exact) except? -1 nogil:
        """The l2-smoothed maximum over the best labelings, and its means."""
        cdef Py_ssize_t size = model._sizes[i], ld = model.ld, n, p, t
        cdef double* u = scores + self._k + 1
        cdef double value = 0.0, norm = 0.0, sum_of_gaps = 0.0
        cdef const int32_t* y
        # One more than are used says whether those beyond would get a weight (Prop. 4).
        n = decoder.decode(size, model.n_labels, ld, ws.theta, ws.delta,
                           table, 0, self._k + 1, scores, labels)
        exact[0] = 1
        if n > self._k:
            n = self._k
            for p in range(n):
                sum_of_gaps += scores[p] - scores[n]
            exact[0] = self.strength <= sum_of_gaps
        project_sorted(n, scores, 1.0 / self.strength, u)
        memset(node, 0, size * ld * sizeof(double))
        for p in range(n):
            if u[p] == 0.0:
                continue
            value += u[p] * (scores[p] - scores[0])
            norm += u[p] * u[p]
            y = labels + p * size
            for t in range(size):
                node[t * ld + y[t]] += u[p]
            for t in range(size - 1):
                edges[y[t] * ld + y[t + 1]] += weight * u[p]
        return scores[0] + value + 0.5 * self.strength * (1.0 - norm) + ws.constant

    # ---- visits of single examples ----

    def set_smoothing(self, double strength):
        if not strength > 0.0:
            raise ValueError(f"the smoothing must be positive, got {strength}")
        self.strength = strength

    def start_visits(self, direction, bint anchored):
        cdef BoundChain model = self.chain
        cdef Py_ssize_t ld = model.ld, n = model.n_labels, cells = n * ld
        cdef Py_ssize_t rows = model.n_features + 3 + n
        cdef double[::1] memory = aligned_zeros(
            5 * cells + (2 * model.max_size + 3) * ld + model.max_size
            + 2 * (self._k + 1))
        cdef double[::1] last = np.zeros(rows)
        cdef const double[::1] along = direction
        cdef const unsigned char[::1] allowed
        cdef int32_t[::1] labels = np.empty((self._k + 1) * model.max_size,
                                            dtype=np.int32)
        if along.shape[0] != model.n_weights:
            raise ValueError(f"expected {model.n_weights} weights")
        if anchored and self._kept == NULL:
            raise ValueError("there is no anchor: keep_edges was not set in the sweep")
        self._visit_arrays = [memory, last, direction, labels]
        self._visit_table.scores = &memory[0]
        self._visit_table.ahead = &memory[cells]
        self._visit_table.back = &memory[2 * cells]
        self._visit_outer = &memory[3 * cells]
        self._visit_edges = &memory[4 * cells]
        self._visit_sums.u = self._visit_edges + cells
        self._visit_sums.alpha = self._visit_sums.u + model.max_size * ld
        self._visit_sums.rows = self._visit_sums.alpha + model.max_size * ld
        self._visit_sums.scales = self._visit_sums.rows + 3 * ld
        self._visit_scores = self._visit_sums.scales + model.max_size
        self._visit_labels = &labels[0]
        self._direction, self._last = &along[0], &last[0]
        self._decoder = TopK()
        self._allowed = NULL
        if self.support is not None:
            flags = np.zeros(model.n_weights, dtype=np.uint8)
            flags[self.support] = 1
            allowed = flags
            self._allowed = &allowed[0]
            self._visit_arrays.append(flags)

    @property
    def node_differences(self):
        """p_i (E mu_i - mu_i(y_i)) of all positions at the last sweep."""
        return self._differences

    def example_difference(self, Workspace workspace, Py_ssize_t i):
        """E mu_i - mu_i(y_i) at the model's weights.

        Returns its nodes (size, ld), and rows in the layout of the weights whose bias,
        start, end and transitions are those of the gradient.
        """
        cdef BoundChain model = self.chain
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = model.ld, size = model._sizes[i], d = model.n_features, p
        cdef double[:, ::1] nodes = np.empty((size, ld))
        cdef double[:, ::1] rows = np.zeros((d + 3 + model.n_labels, ld))
        if self._decoder is None:
            self.start_visits(np.zeros(model.n_weights), False)
        self.mean_change(workspace, i, 1.0, False)
        memcpy(&nodes[0, 0], ws.d, size * ld * sizeof(double))
        for p in range(ws.n_edges):
            (&rows[d + 3, 0])[ws.edges[p]] = ws.d_edge[ws.edges[p]]
        model.apply_change(workspace, i, 0.0, 0.0)
        rows.base[d] = nodes.base.sum(axis=0)
        rows.base[d + 1] = nodes.base[0]
        rows.base[d + 2] = nodes.base[size - 1]
        return nodes.base, rows.base

    def finish_visits(self, double total):
        cdef Py_ssize_t j
        for j in range(self.chain.n_features + 3 + self.chain.n_labels):
            self._catch_row(j, total)

    cdef void _catch_row(self, Py_ssize_t j, double total) noexcept nogil:
        cdef Py_ssize_t ld = self.chain.ld, k
        cdef double* row = self.chain._v + j * ld
        cdef double behind = total - self._last[j]
        if behind != 0.0:
            sks_axpy(ld, behind, self._direction + j * ld, row)
            self._last[j] = total
        if self._allowed:
            # A change goes to all weights of a row; those that do not exist are put
            # back to zero before the row is read.
            for k in range(ld):
                row[k] *= self._allowed[j * ld + k]

    cdef int catch_up(self, Py_ssize_t i, double total) except -1 nogil:
        cdef Py_ssize_t d = self.chain.n_features, j, p
        if self.chain._sparse:
            for p in range(self.chain._indptr[self.chain._starts[i]],
                           self.chain._indptr[self.chain._starts[i + 1]]):
                self._catch_row(self.chain._indices[p], total)
        else:
            for j in range(d):
                self._catch_row(j, total)
        for j in range(d, d + 3 + self.chain.n_labels):
            self._catch_row(j, total)
        return 0

    cdef int mean_change(self, Workspace workspace, Py_ssize_t i, double scale,
                         bint anchored) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t ld = self.chain.ld, n = self.chain.n_labels, cells = n * ld
        cdef Py_ssize_t size = self.chain._sizes[i], start = self.chain._starts[i], t, p
        cdef const int32_t* y = &self.chain._labels[start]
        cdef double* table = <double*> self._visit_table.scores
        cdef double* edges = self._visit_edges
        cdef const double* anchor = self._anchors + start * ld
        cdef double factor = scale / self.strength if self._entropy else scale
        cdef double value
        cdef unsigned char exact
        # The potentials are those of v with the loss divided by scale: times scale they
        # are those of the weights.
        self.chain.loss_scale = 1.0 / scale
        self.chain.potentials(workspace, i)
        self.chain.loss_scale = 1.0
        for t in range(size * ld):
            ws.theta[t] *= factor
        memset(table, 0, cells * sizeof(double))
        sks_add_table(cells, factor, self.chain._tail + 3 * ld, table)
        if self.chain._mask != NULL:
            sks_add_table(cells, 1.0, self.chain._mask + 2 * ld, table)
        memset(edges, 0, cells * sizeof(double))
        if self._entropy:
            exponentiate_table(n, ld, &self._visit_table)
            memset(self._visit_outer, 0, cells * sizeof(double))
            sum_product_padded(
                size, n, ld, ws.theta, &self._visit_table, 0, &self._visit_sums,
                ws.d, 1.0, self._visit_outer, 0, edges, 0, &value)
            sks_weigh_add(cells, self._visit_outer, self._visit_table.ahead, edges)
        else:
            self._project(self.chain, ws, self._decoder, i, table, ws.d,
                          self._visit_scores, self._visit_labels, 1.0, edges, &exact)
        for t in range(size):
            ws.d[t * ld + y[t]] -= 1.0
        if anchored:
            # the anchor is p_i (E mu_i - mu_i(y_i)), its edges are E mu_i
            sks_add_table(size * ld, -1.0 / self.chain._example_weights[i], anchor,
                          ws.d)
            sks_add_table(cells, -1.0, self._kept + i * cells, edges)
        else:
            for t in range(size - 1):
                edges[y[t] * ld + y[t + 1]] -= 1.0
        for t in range(n):
            for p in range(t * ld, t * ld + n):
                if edges[p] > TINY or edges[p] < -TINY:
                    add_edge(ws, p, edges[p])
        ws.scanned = False
        return 0


def write_marginals(BoundChain model, Py_ssize_t start, Py_ssize_t stop,
                    double[:, ::1] nodes, double[::1] log_partition):
    """Node marginals of sequences start <= i < stop at the weights read from.

    nodes (n_positions, ld) is flat; log_partition is -inf where all is forbidden.
    """
    cdef Py_ssize_t ld = model.ld, n = model.n_labels, i
    cdef Workspace workspace = model.workspace(training=False)
    cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
    cdef double[::1] scratch = aligned_zeros(
        2 * n * ld + (2 * model.max_size + 3) * ld + model.max_size)
    cdef EdgeTable table
    cdef SumScratch sum_ws
    table.scores = model._transitions(ws)
    table.ahead = &scratch[0]
    table.back = table.ahead + n * ld
    sum_ws.u = table.back + n * ld
    sum_ws.alpha = sum_ws.u + model.max_size * ld
    sum_ws.rows = sum_ws.alpha + model.max_size * ld
    sum_ws.scales = sum_ws.rows + 3 * ld
    with nogil:
        exponentiate_table(n, ld, &table)
        for i in range(start, stop):
            model.potentials(workspace, i)
            sum_product_padded(
                model._sizes[i], n, ld, ws.theta, &table, 0, &sum_ws,
                &nodes[model._starts[i], 0], 1.0, NULL, 0, NULL, 0, &log_partition[i])
