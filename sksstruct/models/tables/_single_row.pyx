"""Tables of one row for each example, of which a labeling picks one entry.

The example's Gram matrix is a number, |x|^2 + 1, so that nothing but the weights is
touched between two visits:

    |A_i^T d|^2 = (|x|^2 + 1) |d|^2

The change d is as long as a row of weights, so that no list says where it is not zero,
and A_i^T d is never formed.
"""

import numpy as np
from scipy import sparse

cimport cython
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.models.tables._table cimport (
    Block, BoundTable, FeatureRow, TableScratch, feature_row,
)
from sksstruct.utils._simd cimport sks_axpy, sks_prefetch, sks_scatter_f64


# Mean squares of features that dual ascent can do with, times n alpha mu.
cdef double MOST_STEEP = 200.0


# final: nobody derives from it
@cython.final
cdef class BoundSingleRow(BoundTable):
    """A model of one block, with a row of features for each example.

    Parameters
    ----------
    blocks, structure, example_weights : objects
        As of `BoundTable`; a labeling is one integer, the entry of the row, and its
        loss is no constant.
    """

    cdef const double[::1] _norms

    def __cinit__(self, blocks, structure, example_weights):
        X = self.features[0]
        # |x|^2, and the square of the one that the bias is multiplied by
        squares = X.multiply(X) if sparse.issparse(X) else X * X
        self._norms = np.asarray(squares.sum(axis=1)).ravel() + self.has_bias[0]

    def quick_ascent(self, alpha):
        # Passes grow with the squares of the features against n alpha mu, those of
        # L-BFGS much less; the limit is as measured on digits and letters.
        room = MOST_STEEP * self.n_examples * alpha * self.surrogate.mu
        return bool(np.mean(self._norms) <= room)

    def flatten_bounds(self, bounds):
        raise ValueError("bounds are not available for a multiclass model")

    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil:
        cdef FeatureRow features
        # the pointers to rows are few, and at hand without asking for them
        if not soon:
            return
        features = feature_row(self._blocks, i)
        if features.index != NULL:
            sks_prefetch(features.index, 4 * features.count)
        sks_prefetch(features.values, 8 * features.count)

    cdef int evaluate(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        # the loss is in the table
        value[0] = (<TableScratch*> workspace.scratch).at.theta[y[0]]
        return 0

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

    cdef int add_means(self, Workspace workspace, Py_ssize_t i,
                       const double* change) except -1 nogil:
        sks_axpy(self._blocks[0].ld, 1.0, change,
                 (<TableScratch*> workspace.scratch).d)
        return 0

    cdef int change_norm(self, Workspace workspace, Py_ssize_t i,
                         double* value) except -1 nogil:
        cdef double* change = (<TableScratch*> workspace.scratch).d
        cdef Py_ssize_t label
        cdef double total = 0.0
        for label in range(self._blocks[0].n_columns):
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
        cdef int32_t observed = self.structure._y_true[i], label = y[0]
        # of indicators relative to that of the observed class
        for k in range(n_labelings):
            out[k] = self._norms[i] * (
                <double> (label == labelings[k]) - (label == observed)
                - (labelings[k] == observed) + 1.0)
        return 0
