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

A sweep writes the difference of node means of every position, examples being shared
among threads, and then forms the gradient feature by feature, from a transposed copy
of sparse features. Both parts give the same bits for any number of threads.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference._sumproduct cimport (
    EdgeTable, SumScratch, exponentiate_table, sum_product_padded,
)
from sksstruct.inference._topk cimport TopK
from sksstruct.models._base cimport SmoothLoss, Workspace
from sksstruct.models._chain cimport ChainModel, ChainScratch
from sksstruct.projections._simplex cimport project_sorted
from sksstruct.utils._simd cimport sks_axpy, sks_scores_f32, sks_scores_f64

from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils.parallel import run_in_chunks

# Examples are summed over in so many parts, whatever the number of threads.
PARTS = 16


cdef class ChainSmoothLoss(SmoothLoss):
    """The mean smooth loss of a chain model, and its gradient.

    Parameters
    ----------
    model : ChainModel
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

    cdef readonly ChainModel chain
    cdef readonly object transposed
    cdef double _strength
    cdef bint _entropy
    cdef Py_ssize_t _k
    cdef object _differences, _losses, _partial, _values, _arrays, _numbers
    cdef const unsigned char[::1] _unknown
    cdef const unsigned char[::1] _incomplete
    cdef EdgeTable _table

    def __init__(self, ChainModel model, smoothing="entropy", double strength=1.0,
                 Py_ssize_t k=1, partial=None, numbers=None):
        cdef Py_ssize_t cells = model.n_labels * model.ld
        cdef double[::1] memory = aligned_zeros(3 * cells)
        self.model = self.chain = model
        self._entropy = smoothing == "entropy"
        self._strength, self._k = strength, k
        offsets = np.asarray(model._offsets)
        n_positions = offsets[model.n_examples]
        self._partial = None
        self._numbers = numbers
        self.convex = partial is None or not partial.any()
        if partial is not None and partial.any():
            self._partial = np.ascontiguousarray(partial, dtype=np.uint8)
            self._unknown = self._partial
            self._incomplete = np.maximum.reduceat(
                self._partial, offsets[:model.n_examples])
        self._differences = aligned_zeros(n_positions * model.ld).reshape(
            n_positions, model.ld)
        self._losses = np.empty(model.n_examples)
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
        cdef ChainModel model = self.chain
        cdef Py_ssize_t ld = model.ld, n = model.n_labels, d = model.n_features
        cdef double scale = 1.0 / self._strength if self._entropy else 1.0
        # The table of this sweep, forbidden transitions and the smoothing included.
        table = np.asarray(self._arrays)[:n * ld].reshape(n, ld)
        table[...] = model.w.reshape(-1, ld)[d + 3:]
        if model.mask is not None:
            table += model.mask[2:]
        table *= scale
        if self._entropy:
            exponentiate_table(n, ld, &self._table)
        # of each part: bias, start, end, transitions as they are, and without factor
        sums = aligned_zeros(PARTS * (3 + 2 * n) * ld).reshape(PARTS, -1)
        bounds = [model.n_examples * p // PARTS for p in range(PARTS + 1)]

        def run(first, last):
            workspace = model.workspace(training=False)
            scratch = aligned_zeros((3 * model.max_size + 3) * ld + model.max_size
                                    + 2 * (self._k + 1))
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
        if self._entropy:
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
        return float(model.example_weights @ self._losses)

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
        cdef ChainModel model = self.chain
        cdef Py_ssize_t ld = model.ld, n = model.n_labels, i, t, size, start
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef double[:, ::1] differences = self._differences
        cdef double[::1] losses = self._losses
        cdef unsigned char[::1] exact = self.exact
        cdef SumScratch sum_ws
        cdef TopK decoder = TopK()
        cdef double* node
        cdef double* other = &scratch[0]
        cdef double* edges = &sums[3 * ld]
        cdef double* outer = edges + n * ld
        cdef double truth, value, weight, scale = 1.0 / self._strength
        cdef bint incomplete
        cdef const int32_t* y
        sum_ws.u = other + model.max_size * ld
        sum_ws.alpha = sum_ws.u + model.max_size * ld
        sum_ws.rows = sum_ws.alpha + model.max_size * ld
        sum_ws.scales = sum_ws.rows + 3 * ld
        cdef double* scores = sum_ws.scales + model.max_size
        with nogil:
            for i in range(first, last):
                size, start = model._sizes[i], model._offsets[i]
                weight = model._example_weights[i]
                node = &differences[start, 0]
                y = &model._labels[start]
                incomplete = (self._partial is not None) and self._incomplete[i]
                model.potentials(workspace, i)
                if not incomplete:
                    model.evaluate(workspace, i, y, &truth)
                if self._entropy:
                    for t in range(size * ld):
                        ws.theta[t] *= scale
                    sum_product_padded(size, n, ld, ws.theta, &self._table, 0, &sum_ws,
                                       node, weight, outer, 0, edges, 0, &value)
                    value = value * self._strength + ws.constant
                    if incomplete:
                        for t in range(size):
                            if not self._unknown[start + t]:
                                self._force(ws.theta + t * ld, y[t])
                        sum_product_padded(
                            size, n, ld, ws.theta, &self._table, 0, &sum_ws, other,
                            -weight, outer, 0, edges, 0, &truth)
                        truth = truth * self._strength + ws.constant
                        for t in range(size):
                            sks_axpy(ld, -1.0, other + t * ld, node + t * ld)
                else:
                    value = self._project(model, ws, decoder, i, node, scores,
                                          &labels[0], weight, edges, &exact[i])
                losses[i] = value - truth
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
            self, ChainModel model, ChainScratch* ws, TopK decoder, Py_ssize_t i,
            double* node, double* scores, int32_t* labels, double weight,
            double* edges, unsigned char* exact) except? -1 nogil:
        """The l2-smoothed maximum over the best labelings, and its means."""
        cdef Py_ssize_t size = model._sizes[i], ld = model.ld, n, p, t
        cdef double* u = scores + self._k + 1
        cdef double value = 0.0, norm = 0.0, sum_of_gaps = 0.0
        cdef const int32_t* y
        # One more than are used says whether those beyond would get a weight (Prop. 4).
        n = decoder.decode(size, model.n_labels, ld, ws.theta, ws.delta,
                           self._table.scores, 0, self._k + 1, scores, labels)
        exact[0] = 1
        if n > self._k:
            n = self._k
            for p in range(n):
                sum_of_gaps += scores[p] - scores[n]
            exact[0] = self._strength <= sum_of_gaps
        project_sorted(n, scores, 1.0 / self._strength, u)
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
        return scores[0] + value + 0.5 * self._strength * (1.0 - norm) + ws.constant


def write_marginals(ChainModel model, Py_ssize_t start, Py_ssize_t stop,
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
                &nodes[model._offsets[i], 0], 1.0, NULL, 0, NULL, 0, &log_partition[i])
