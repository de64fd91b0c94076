"""Smooth losses of models of tables: value and gradient, and visits of one example.

For weights w and the tables theta_i = A_i w, with the loss L_i added or not,

    f_i(w) = h(theta_i) - <theta_i, mu_i(y_i)>,  grad f_i = A_i^T (E mu_i - mu_i(y_i))

where h is the maximum over labelings smoothed by the entropy, and E mu_i its gradient:
the results of the model's exp oracle. The negative log-likelihood is the loss with
mu = 1 and L = 0. If y_i was observed in part, h and E mu of the sum over the labelings
that agree with the observed part replace <theta_i, mu_i(y_i)> and mu_i(y_i).

A sweep over the examples, by threads in parallel, writes the differences of their
tables D = p_i (E mu_i - mu_i(y_i)). The gradient of a block of weights is then F' D,
with the features F of all examples: a product of matrices; sparse features have a copy
by columns, from which each row is computed. No sum is divided among threads, so that
any number of threads gives the same bits. Visits with an anchor subtract the
differences of the sweep.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.protocols._smooth_loss cimport SmoothLoss
from sksstruct.models.protocols._weights cimport LazyWeights
from sksstruct.models.tables._blocks cimport Block
from sksstruct.models.tables._structure cimport Potentials
from sksstruct.models.tables._table cimport BoundTable, TableScratch

from sksstruct.models.tables._columns import transposed
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils.parallel import run_in_chunks

# Least number of parts of the examples, and about the number of scores in a part.
LEAST_PARTS, PART_SIZE = 8, 2**15


cdef class MeansScratch:
    """Scratch of a thread to compute E mu_i - mu_i(y_i) of one example."""

    def __cinit__(self, BoundTable table):
        cdef double[::1] means = aligned_zeros(table.table_size + table.n_other)
        cdef double[::1] losses = aligned_zeros(table.table_size + table.n_other)
        cdef int32_t[::1] labeling = np.zeros(max(table.max_size, 1), dtype=np.int32)
        self._arrays = means, losses, labeling
        self.means, self.losses = &means[0], &losses[0]
        self.labeling = &labeling[0]
        self.scores = <double**> calloc(
            max(table._layout.n_blocks, 1), sizeof(double*))
        if self.scores == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.scores)


cdef class TableSmoothLoss(SmoothLoss):
    """The mean smooth loss of a model of tables, and its gradient.

    Parameters
    ----------
    table : BoundTable
        The model, which has the oracle "exp".
    smoothing : SmoothedHinge
        Smoothing by "entropy", with its strength.
    nonsmooth : bool
        Whether the hinge itself is minimized.

    Attributes
    ----------
    differences : list of ndarray of shape (n_rows, ld)
        D of each block.
    other_differences : ndarray of shape (n_examples, n_other)
        p_i times the differences of features of the weights beyond the blocks.
    """

    def __cinit__(self, BoundTable table, *args):
        cdef double[:, ::1] rows
        cdef Py_ssize_t number
        self.model = self.table = table
        self._differences = <double**> calloc(
            max(table._layout.n_blocks, 1), sizeof(double*))
        if self._differences == NULL:
            raise MemoryError()
        self.differences = []
        for number in range(table._layout.n_blocks):
            block = table.features[number].shape[0], table._blocks[number].ld
            # a spare row, so that the address is valid without any rows
            rows = aligned_zeros((block[0] + 1) * block[1]).reshape(-1, block[1])
            self._differences[number] = &rows[0, 0]
            self.differences.append(np.asarray(rows)[:block[0]])
        self._other = np.zeros((table.n_examples, table.n_other))
        self.other_differences = np.asarray(self._other)

    def __dealloc__(self):
        free(self._differences)

    def __init__(self, BoundTable table, smoothing, bint nonsmooth):
        self.mu, self.nonsmooth = smoothing.mu, nonsmooth
        partial = table.structure.partial
        # the negative log-likelihood of an observed part is a difference of convex
        # functions
        self.convex, self.support = partial is None, None
        self._partial = np.zeros(table.n_examples, dtype=np.uint8)
        if partial is not None:
            self._partial = partial.astype(np.uint8)
        self.row_size = table.row_size
        self.exact = np.ones(table.n_examples, dtype=np.uint8)
        self._losses = np.zeros(table.n_examples)
        self._expected = np.zeros(table.n_examples)
        self._columns = [transposed(rows) for rows in table.features]
        self._observed, self._idle = self._observed_features(), []
        if nonsmooth:
            self.diameter = self._mean_entropy()

    def _observed_features(self):
        """Return the features of mu_i(y_i) for the weights beyond the blocks."""
        cdef BoundTable table = self.table
        out = np.zeros((table.n_examples, table.n_other))
        if table.n_other:
            workspace = table.workspace(np.zeros(table.n_weights))
            for i in range(table.n_examples):
                y = table.labels[table.starts[i]:table.starts[i + 1]]
                feature = table.joint_feature(workspace, i, y)
                out[i] = feature[table.n_weights - table.n_other:]
        return out

    def _mean_entropy(self):
        """Return the mean over the examples of the log of the number of labelings."""
        cdef BoundTable table = self.table
        workspace = table.workspace(np.zeros(table.n_weights), training=False)
        # without scores and losses the distribution is uniform
        workspace.loss_scale = 0.0
        return float(sum(
            weight * table.expectation(workspace, i)[1]
            for i, weight in enumerate(table.example_weights)))

    # ---- value and gradient ----

    def value_and_gradient(self, w, gradient, n_jobs=None):
        cdef BoundTable table = self.table
        self._anchored = self.keep_anchors

        parts = self._parts()

        def run(first, last):
            # reuses workspaces of earlier chunks and sweeps; `pop` is atomic
            try:
                workspace, scratch = self._idle.pop()
                workspace.read(w)
            except IndexError:
                workspace = table.workspace(w, training=False)
                scratch = MeansScratch(table)
            for part in range(first, last):
                self._sweep(workspace, scratch, w, parts[part], parts[part + 1])
            self._idle.append((workspace, scratch))

        # an entry of a table takes about eight operations
        work = 8 * int(table._layout.table_sizes.sum())
        run_in_chunks(run, len(parts) - 1, n_jobs, work)
        self._write_gradient(gradient, n_jobs)
        self._check_finite()
        self.expected_loss = float(table.example_weights @ self._expected)
        return float(table.example_weights @ self._losses)

    def _parts(self):
        """Return the bounds of the parts of the examples that are scored together."""
        n, total = self.table.n_examples, self.table._layout.table_sizes.sum()
        # the number of parts is independent of the number of threads, as the rounding
        # of a product of matrices may depend on its shape
        n_parts = min(max(LEAST_PARTS, -(-total // PART_SIZE)), n)
        return [n * part // n_parts for part in range(n_parts + 1)]

    def _score(self, MeansScratch scratch, w, Py_ssize_t first, Py_ssize_t last):
        """Score examples first <= i < last together, if all features are dense.

        One product of matrices takes less time than a product for each row. Returns
        whether all features are dense.
        """
        cdef Block* block
        cdef double[:, ::1] scores
        if not all(isinstance(rows, np.ndarray) for rows in self.table.features):
            return False
        arrays = []
        for number, rows in enumerate(self.table.features):
            block = &self.table._blocks[<Py_ssize_t> number]
            n, ld, start = block.n_features, block.ld, block.first_weight
            begin, end = block.offsets[first], block.offsets[last]
            # a spare row, so that the address is valid without any rows
            scores = np.empty((end - begin + 1, ld))
            np.matmul(rows[begin:end], w[start:start + n * ld].reshape(n, ld),
                      out=np.asarray(scores)[:end - begin])
            scratch.scores[<Py_ssize_t> number] = &scores[0, 0]
            arrays.append(scores)
        scratch._scores = arrays
        return True

    def _sweep(self, Workspace workspace, MeansScratch scratch, w, Py_ssize_t first,
               Py_ssize_t last):
        """Compute and store the loss f_i, the expected loss, and the differences
        p_i (E mu_i - mu_i(y_i)) of examples first <= i < last.
        """
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef bint scored = self._score(scratch, w, first, last)
        cdef Py_ssize_t i
        with nogil:
            for i in range(first, last):
                if scored:
                    self._load_scores(workspace, i, scratch.scores)
                else:
                    self.table.potentials(workspace, i)
                self._losses[i] = self._difference(workspace, scratch, i, self.mu)
                self._expected[i] = self._expected_loss(ws, scratch, i)
                self._store_differences(i, scratch.means)

    cdef int _load_scores(self, Workspace workspace, Py_ssize_t i,
                          double** scores) except -1 nogil:
        """Load potentials from scores of rows, and advance `scores` by one example."""
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t number, row, k, n_rows
        cdef double* table = ws.at.theta
        cdef const double* bias
        cdef Block* block
        for number in range(self.table._layout.n_blocks):
            block = &self.table._blocks[number]
            bias = workspace.w + block.first_weight + block.n_features * block.ld
            n_rows = block.offsets[i + 1] - block.offsets[i]
            memcpy(table, scores[number], n_rows * block.ld * sizeof(double))
            scores[number] += n_rows * block.ld
            # all rows have the same bias
            for row in range(n_rows if block.has_bias else 0):
                for k in range(block.ld):
                    table[row * block.ld + k] += bias[k]
            table += n_rows * block.ld
        # the last steps of `BoundTable.potentials`
        self.table.take_tables(workspace, i)
        if not self.table.likelihood:
            return self.table.structure.add_loss(&ws.at, i, workspace.loss_scale)
        return 0

    cdef double _difference(self, Workspace workspace, MeansScratch scratch,
                            Py_ssize_t i, double mu) except? -1 nogil:
        """Write E mu_i - mu_i(y_i) at the loaded potentials to scratch.means; return
        f_i.
        """
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t end = self.table.tables_end(i)
        cdef Py_ssize_t n_keys, k
        cdef double value, true_value
        if self._partial[i]:
            return self._partial_difference(workspace, scratch, i, mu)
        self.table.y_true(i, scratch.labeling)
        self.table.evaluate(workspace, i, scratch.labeling, &true_value)
        self.table.expect(workspace, i, mu, scratch.means, &value)
        n_keys = self.table.indicator(i, scratch.labeling, ws.keys)
        for k in range(n_keys):
            # features of keys beyond the tables are subtracted below
            if ws.keys[k] < end:
                scratch.means[ws.keys[k]] -= 1.0
        for k in range(self.table.n_other):
            scratch.means[end + k] -= self._observed[i, k]
        return value - true_value

    cdef double _partial_difference(
        self, Workspace workspace, MeansScratch scratch, Py_ssize_t i, double mu
    ) except? -1 nogil:
        """Write E mu_i minus E mu_i given the observed part to scratch.means; return
        f_i.
        """
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t end = self.table.tables_end(i)
        cdef double value, observed
        cdef Py_ssize_t k
        self.table.expect(workspace, i, mu, scratch.means, &value)
        # scratch.losses may hold means, as the likelihood has no loss
        self.table.structure.expect_observed(&ws.at, i, mu, scratch.losses, &observed)
        for k in range(end + self.table.n_other):
            scratch.means[k] -= scratch.losses[k]
        return value - observed

    cdef double _expected_loss(self, TableScratch* ws, MeansScratch scratch,
                               Py_ssize_t i) except? -1 nogil:
        """Return E L_i as <losses, E mu_i - mu_i(y_i)>, as the loss of y_i is zero."""
        cdef Py_ssize_t end = self.table.tables_end(i)
        cdef Potentials loss_only = ws.at
        cdef Py_ssize_t k
        cdef double total = 0.0
        if self.table.likelihood:
            return 0.0
        # tables of the loss alone
        loss_only.theta, loss_only.constant = scratch.losses, 0.0
        loss_only.shared = loss_only.theta + loss_only.rows
        memset(scratch.losses, 0, end * sizeof(double))
        self.table.structure.add_loss(&loss_only, i, 1.0)
        for k in range(end):
            total += scratch.losses[k] * scratch.means[k]
        return total

    cdef void _store_differences(self, Py_ssize_t i,
                                 const double* means) noexcept nogil:
        """Store p_i times `means`, which are E mu_i - mu_i(y_i), for the gradient."""
        cdef Py_ssize_t number, k, size
        cdef double weight = self.table._example_weights[i]
        cdef double* rows
        cdef Block* block
        for number in range(self.table._layout.n_blocks):
            block = &self.table._blocks[number]
            rows = self._differences[number] + block.offsets[i] * block.ld
            size = (block.offsets[i + 1] - block.offsets[i]) * block.ld
            for k in range(size):
                rows[k] = weight * means[k]
            means += size
        for k in range(self.table.n_other):
            self._other[i, k] = weight * means[k]

    def _write_gradient(self, gradient, n_jobs):
        """Write the gradient F' D of each block, from the stored differences D."""
        cdef Block* block
        # padding between the blocks stays zero
        gradient[:] = 0.0
        for number in range(self.table._layout.n_blocks):
            block = &self.table._blocks[<Py_ssize_t> number]
            first, ld, n = block.first_weight, block.ld, block.n_features
            out = gradient[first:first + (n + block.has_bias) * ld].reshape(-1, ld)
            differences = self.differences[number]
            self._columns[number].product(differences, out[:n], n_jobs)
            if block.has_bias:
                out[n] = differences.sum(axis=0)
        if self.table.n_other:
            gradient[-self.table.n_other:] = self.other_differences.sum(axis=0)

    def _check_finite(self):
        """Raise an error that names the first example without a finite loss."""
        finite = np.isfinite(self._losses)
        if not finite.all():
            raise ValueError(
                f"the loss of example {np.flatnonzero(~finite)[0]} is not finite: its "
                "scores are too large for floating-point arithmetic")

    # ---- visits of single examples ----

    def start_visits(self, bint anchored):
        if anchored and not self._anchored:
            # without the anchor's gradient, visits would have no variance reduction
            raise ValueError(
                "there is no anchor: keep_anchors was not set in the sweep")
        self._visit = MeansScratch(self.table)

    cdef int catch_up(self, LazyWeights weights, Py_ssize_t i) except -1 nogil:
        return self.table.catch_up(weights, i)

    cdef int mean_change(self, Workspace workspace, Py_ssize_t i, double scale,
                         bint anchored) except -1 nogil:
        # The weights are scale times the stored vector v. With v, the loss divided by
        # scale, and smoothing mu / scale, the distribution is the same.
        workspace.loss_scale = 1.0 / scale
        self.table.potentials(workspace, i)
        workspace.loss_scale = 1.0
        self._difference(workspace, self._visit, i, self.mu / scale)
        # the differences at the weights and at the anchor both contain mu_i(y_i), which
        # cancels
        if anchored:
            self._subtract_anchor(i, self._visit.means)
        return self.table.add_means(workspace, i, self._visit.means)

    cdef void _subtract_anchor(self, Py_ssize_t i, double* means) noexcept nogil:
        """Subtract the differences of the last sweep, without their factor p_i."""
        cdef Py_ssize_t number, k, size
        cdef double scale = 1.0 / self.table._example_weights[i]
        cdef const double* rows
        cdef Block* block
        for number in range(self.table._layout.n_blocks):
            block = &self.table._blocks[number]
            rows = self._differences[number] + block.offsets[i] * block.ld
            size = (block.offsets[i + 1] - block.offsets[i]) * block.ld
            for k in range(size):
                means[k] -= scale * rows[k]
            means += size
        for k in range(self.table.n_other):
            means[k] -= scale * self._other[i, k]
