"""Multiclass classification: one row of features, one column for each class.

score(k) = <W[:, k], x> + bias[k]; with costs C the structured hinge is that of Crammer
and Singer (2001), max_k C[y, k] + score(k) - score(y). The example's Gram matrix is a
number, |x|^2 + 1, so that nothing but w is touched between two visits:

    |A_i^T d|^2 = (|x|^2 + 1) |d|^2

A labeling is one class, and its one key is the class. The change d is as long as a row
of weights, so that no list says where it is not zero, and A_i^T d is never formed.
"""

import numpy as np
from scipy import sparse

cimport cython
from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.models.tables._table cimport (
    Block, BoundTable, FeatureRow, TableScratch, TableWorkspace, feature_row,
)
from sksstruct.utils._simd cimport (
    sks_axpy, sks_exp_row, sks_prefetch, sks_rescale, sks_scatter_f64,
)


# Mean squares of features that dual ascent can do with, times n alpha mu.
cdef double MOST_STEEP = 200.0


# final: nobody derives from it
@cython.final
cdef class BoundMulticlass(BoundTable):
    """Classes bound to data.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_examples, n_features), float64
        Features.
    n_classes : int
        Number of classes K.
    labels : ndarray of shape (n_examples,), int32
        Classes.
    example_weights : ndarray of shape (n_examples,)
        The p_i.
    costs : ndarray of shape (n_classes, n_classes) or None
        Loss of predicting the column where the row is observed; zero on the diagonal.
        None: 1 for each error.
    fit_intercept : bool
        Whether there are biases, regularized like the other weights.
    """

    oracles = ("max", "topk", "exp", "projection")
    # finding the best of a table is nothing beside filling it
    oracle_cost = 1.0
    cdef readonly Py_ssize_t n_classes
    cdef const double[:, ::1] _costs
    cdef const double[::1] _norms
    cdef bint fit_intercept, _uniform

    def __cinit__(self, blocks, sizes, y_true, example_weights, max_keys, *, costs):
        X = blocks[0][0]
        self.n_classes, self.fit_intercept = blocks[0][2], blocks[0][3]
        self._uniform = costs is None
        # scaled scores of the exp oracle
        self.belief_size = self._blocks[0].ld
        if costs is not None:
            self._costs = np.ascontiguousarray(costs, dtype=np.float64)
        # |x|^2, and the square of the one that the bias is multiplied by
        squares = X.multiply(X) if sparse.issparse(X) else X * X
        self._norms = np.asarray(squares.sum(axis=1)).ravel() + self.fit_intercept

    @classmethod
    def bind(cls, X, n_classes, labels, example_weights, costs, fit_intercept):
        """Bind classes to data; see the class."""
        n_examples = X.shape[0]
        # an example is one row of features, and one label
        block = (X, np.arange(n_examples + 1), n_classes, fit_intercept)
        return cls([block], np.ones(n_examples, dtype=np.intp),
                   np.ascontiguousarray(labels, dtype=np.int32), example_weights, 1,
                   costs=costs)

    @property
    def costs(self):
        """Losses, as the parameter; None: 1 for each error."""
        return None if self._uniform else np.asarray(self._costs)

    def quick_ascent(self, alpha):
        # Passes grow with the squares of the features against n alpha mu, those of
        # L-BFGS much less; the limit is as measured on digits and letters.
        room = MOST_STEEP * self.n_examples * alpha * self.surrogate.mu
        return bool(np.mean(self._norms) <= room)

    # ---- the oracle, and what labelings are ----

    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil:
        cdef FeatureRow features
        # the pointers to rows are few, and at hand without asking for them
        if not soon:
            return
        features = feature_row(self._blocks, i)
        if features.index != NULL:
            sks_prefetch(features.index, 4 * features.count)
        sks_prefetch(features.values, 8 * features.count)

    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t label
        # one number for all classes, without a table that would have to be read
        if self._uniform:
            for label in range(self.n_classes):
                ws.theta[label] += scale
            ws.theta[self._y_true[i]] -= scale
            return 0
        for label in range(self.n_classes):
            ws.theta[label] += scale * self._costs[self._y_true[i], label]
        return 0

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t label, best = 0
        # strictly larger only: the lowest class wins a tie
        for label in range(1, self.n_classes):
            if ws.theta[label] > ws.theta[best]:
                best = label
        y[0] = <int32_t> best
        value[0] = ws.theta[best]
        return 0

    cdef int expect(self, Workspace workspace, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t ld = self._blocks[0].ld, label
        cdef double high, low, total = 0.0, scale = 1.0 / mu
        for label in range(self.n_classes):
            ws.beliefs[label] = scale * ws.theta[label]
        high = sks_exp_row(self.n_classes, ld, ws.beliefs, means, &low)
        for label in range(self.n_classes):
            total += means[label]
        # without any class that is possible, means are zero
        if high > -INFINITY:
            sks_rescale(ld, 1.0 / total, means)
        value[0] = mu * (high + log(total))
        return 0

    def find_topk(self, TableWorkspace workspace, Py_ssize_t i, Py_ssize_t k):
        # stable, so that ties are broken as by `decode`
        order = np.argsort(-workspace.theta[:self.n_classes], kind="stable")[:k]
        return order[:, None]

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        # also of the observed class, which costs nothing in either case
        if self._uniform:
            value[0] = y[0] != self._y_true[i]
        else:
            value[0] = self._costs[self._y_true[i], y[0]]
        return 0

    cdef int evaluate(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        # the loss is in the table
        value[0] = (<TableScratch*> workspace.scratch).theta[y[0]]
        return 0

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        return 0 <= y[0] < self.n_classes

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        keys[0] = y[0]
        return 1

    # ---- changes of mean parameters ----

    cdef int add_labeling(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        (<TableScratch*> workspace.scratch).d[y[0]] += coef
        return 0

    cdef int add_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n_keys,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil:
        cdef double* change = (<TableScratch*> workspace.scratch).d
        cdef Py_ssize_t k
        for k in range(n_keys):
            change[keys[k]] += coef * values[k]
        if value == NULL:
            return 0
        return self.evaluate_mean(workspace, i, n_keys, keys, values, value)

    cdef int add_means(self, TableScratch* ws, Py_ssize_t i,
                       const double* change) except -1 nogil:
        sks_axpy(self._blocks[0].ld, 1.0, change, ws.d)
        return 0

    cdef int change_norm(self, Workspace workspace, Py_ssize_t i,
                         double* value) except -1 nogil:
        cdef double* change = (<TableScratch*> workspace.scratch).d
        cdef Py_ssize_t label
        cdef double total = 0.0
        for label in range(self.n_classes):
            total += change[label] * change[label]
        # the Gram matrix is a number
        value[0] = total * self._norms[i]
        return 0

    cdef int scatter(self, Workspace workspace, Py_ssize_t i, double scale,
                     double* out) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Block* block = self._blocks
        cdef FeatureRow features = feature_row(block, i)
        # d as it is: its entries are those of a row of weights
        sks_scatter_f64(features.count, features.index, features.values, scale, ws.d,
                        block.ld, out)
        if block.has_bias:
            sks_axpy(block.ld, scale, ws.d, out + block.n_features * block.ld)
        return 0

    cdef int touch(self, Workspace workspace, Py_ssize_t i,
                   Weights weights) except -1 nogil:
        cdef Block* block = self._blocks
        cdef FeatureRow features = feature_row(block, i)
        cdef Py_ssize_t entry, feature
        for entry in range(features.count):
            # dense rows have no indices
            feature = entry if features.index == NULL else features.index[entry]
            weights.touch(feature * block.ld, block.ld)
        if block.has_bias:
            weights.touch(block.n_features * block.ld, block.ld)
        return 0

    cdef int clear(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        # all of it, which is shorter than a list of what changed would be
        memset(ws.d, 0, self._blocks[0].ld * sizeof(double))
        return 0

    cdef int gram_row(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n_labelings, const int32_t* labelings,
                      double* out) except -1 nogil:
        cdef Py_ssize_t k
        cdef int32_t observed = self._y_true[i], label = y[0]
        # of indicators relative to that of the observed class
        for k in range(n_labelings):
            out[k] = self._norms[i] * (
                <double> (label == labelings[k]) - (label == observed)
                - (labelings[k] == observed) + 1.0)
        return 0

    def flatten_bounds(self, bounds):
        raise ValueError("bounds are not available for a multiclass model")
