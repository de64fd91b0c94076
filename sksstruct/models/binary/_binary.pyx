"""Two classes and a linear score: the support vector machine as a structured model.

The score of the positive class is <w, x> + bias and that of the negative one 0, so that
with y in {-1, 1} the structured hinge is max(0, 1 - y (<w, x> + bias)). The mean
parameter of an example is the probability of the positive class, key 1; key 0 stands
for the negative one. The bias is the last weight, the value of a feature that is 1.

A change d of mean parameters is one number, and A_i^T d is d times the features x_i of
example i. Below, j numbers the entries of a row of features, which for sparse rows are
the stored entries; k numbers keys or labelings.
"""

import numpy as np
from scipy import sparse

from libc.stdint cimport int32_t, int64_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace

from sksstruct.models.tables._feature_rows import stored_arrays


def best_bias(signs, weights, slopes, balance=0.0):
    """The bias of least risk, sum_i weights_i max(0, slopes_i - signs_i bias).

    The risk, to which `balance` times the bias may be added, is convex and piecewise
    linear in the bias, with one kink per example.
    """
    kinks = signs * slopes
    order = np.argsort(kinks, kind="stable")
    # slope of the risk right of each kink: left of all kinks only positive examples
    # have a loss, right of all kinks only negative examples
    slope = np.cumsum(weights[order]) - weights[signs > 0].sum() - balance
    k = min(int(np.searchsorted(slope, 0.0)), len(order) - 1)
    return float(kinks[order[k]])


cdef class BinaryWorkspace(Workspace):
    """Scratch of one thread: a score, and a change of one number."""

    def __cinit__(self):
        self.scratch = &self._scratch


cdef class BoundBinary(BoundModel):
    """A linear binary model bound to data.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_examples, n_features), float64
        Features.
    labels : ndarray of shape (n_examples,)
        1 for the positive class, 0 for the negative one.
    example_weights : ndarray of shape (n_examples,)
        The p_i.
    fit_intercept : bool
        Whether there is a bias; it is regularized like the other weights.
    free_bias : bool
        Whether there is a bias that is not regularized. Only the dual has this bias.
    """

    def __cinit__(self, X, labels, example_weights, bint fit_intercept=True,
                  bint free_bias=False):
        n_examples, n_features = X.shape
        self.X = X
        self.fit_intercept = fit_intercept
        self.free_bias = free_bias
        self.n_features = n_features
        # without a bias the last weight exists too, so that views have one layout
        self.n_weights = n_features + 1
        self.max_keys, self.key_space, self.visit_work = 1, 2, n_features
        self.set_sizes(np.ones(n_examples, dtype=np.intp), example_weights)
        self._labels = np.ascontiguousarray(labels, dtype=np.int32)
        if sparse.issparse(X):
            self._bind_sparse(X)
        else:
            self._bind_dense(X)

    cdef int _bind_dense(self, X) except -1:
        """Store addresses of dense features, and squared norms of their rows."""
        cdef const double[::1] values = X.reshape(-1)
        self._values = &values[0]
        # NULL marks dense rows
        self._indices, self._indptr = NULL, NULL
        self._arrays = [values]
        # the bias is the weight of a feature that is 1
        self._norms = np.asarray((X * X).sum(axis=1)).ravel() + self.fit_intercept
        return 0

    cdef int _bind_sparse(self, X) except -1:
        """Store addresses of sparse features, and squared norms of their rows."""
        cdef const double[::1] values
        cdef const int32_t[::1] indices
        cdef const int64_t[::1] indptr
        values, indices, indptr = stored_arrays(X)
        self._values, self._indices = &values[0], &indices[0]
        self._indptr = &indptr[0]
        # `stored_arrays` may return copies, which only this list keeps alive
        self._arrays = [values, indices, indptr]
        self._norms = (np.asarray(X.multiply(X).sum(axis=1)).ravel()
                       + self.fit_intercept)
        return 0

    @property
    def labels(self):
        """1 for the positive class, 0 for the negative one."""
        return np.asarray(self._labels)

    @property
    def oracles(self):
        # a bias without a penalty is not part of w: only the dual has it
        if self.free_bias:
            return ("projection",)
        return ("max", "projection", "coordinates")

    @property
    def oracle_note(self):
        return "penalize_intercept=False leaves Pragam only" if self.free_bias else None

    @property
    def views_need_data(self):
        return self.free_bias

    def views(self, w):
        coef, bias = w[:len(w) - 1], w[len(w) - 1:].copy()
        # a free bias is not a weight, but the optimum given the weights
        if self.free_bias:
            signs = np.where(self.labels == 1, 1.0, -1.0)
            bias[0] = best_bias(
                signs, self.example_weights, 1.0 - signs * (self.X @ coef + bias))
        return {"coef": coef[None], "intercept": bias}

    def flatten_bounds(self, bounds):
        raise ValueError("bounds are not available for a binary model")

    def _workspace(self, training):
        # training needs no further buffers
        return BinaryWorkspace()

    # ---- potentials and labelings ----

    cdef int potentials(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef BinaryScratch* ws = <BinaryScratch*> workspace.scratch
        ws.score = self._score(i, workspace.w)
        ws.y_true = self._labels[i]
        ws.loss = workspace.loss_scale
        return 0

    cdef double _score(self, Py_ssize_t i, const double* weights) noexcept nogil:
        """Return <w, x_i>, and the bias if there is one."""
        cdef Py_ssize_t j
        cdef double total = weights[self.n_features] if self.fit_intercept else 0.0
        cdef const double* row
        # two loops, as a test in each iteration would be slow
        if self._indices != NULL:
            for j in range(self._indptr[i], self._indptr[i + 1]):
                total += self._values[j] * weights[self._indices[j]]
        else:
            row = self._values + i * self.n_features
            for j in range(self.n_features):
                total += row[j] * weights[j]
        return total

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        cdef double zero, one
        y[0] = 0
        self.evaluate(workspace, i, y, &zero)
        y[0] = 1
        self.evaluate(workspace, i, y, &one)
        # ties go to the negative class, whichever class was observed
        y[0] = one > zero
        value[0] = one if one > zero else zero
        return 0

    cdef int y_true(self, Py_ssize_t i, int32_t* y) except -1 nogil:
        y[0] = self._labels[i]
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        value[0] = y[0] != self._labels[i]
        return 0

    cdef int evaluate(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        cdef BinaryScratch* ws = <BinaryScratch*> workspace.scratch
        # the score of the negative class is zero
        value[0] = ((ws.score if y[0] else 0.0)
                    + (ws.loss if y[0] != ws.y_true else 0.0))
        return 0

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        return 0 <= y[0] < 2

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        # a labeling has one key, the class
        keys[0] = y[0]
        return 1

    cdef int evaluate_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n_keys,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil:
        cdef Py_ssize_t k
        cdef double part
        value[0] = 0.0
        for k in range(n_keys):
            # a key is a class, which is a labeling
            self.evaluate(workspace, i, keys + k, &part)
            value[0] += values[k] * part
        return 0

    # ---- changes of mean parameters ----

    cdef int add_labeling(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        cdef BinaryScratch* ws = <BinaryScratch*> workspace.scratch
        # the negative class has no features
        if y[0]:
            ws.d += coef
        return 0

    cdef int add_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n_keys,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil:
        cdef Py_ssize_t k
        for k in range(n_keys):
            self.add_labeling(workspace, i, keys + k, coef * values[k])
        if value == NULL:
            return 0
        return self.evaluate_mean(workspace, i, n_keys, keys, values, value)

    cdef int change_norm(self, Workspace workspace, Py_ssize_t i,
                         double* value) except -1 nogil:
        # |d x_i|^2, from the stored norms
        cdef BinaryScratch* ws = <BinaryScratch*> workspace.scratch
        value[0] = ws.d * ws.d * self._norms[i]
        return 0

    cdef void _add_features(self, Py_ssize_t i, double scale,
                            double* out) noexcept nogil:
        """out += scale x_i, and scale for the bias."""
        cdef Py_ssize_t j
        cdef const double* row
        if self._indices != NULL:
            for j in range(self._indptr[i], self._indptr[i + 1]):
                out[self._indices[j]] += scale * self._values[j]
        else:
            row = self._values + i * self.n_features
            for j in range(self.n_features):
                out[j] += scale * row[j]
        if self.fit_intercept:
            out[self.n_features] += scale

    cdef int scatter(self, Workspace workspace, Py_ssize_t i, double scale,
                     double* out) except -1 nogil:
        cdef BinaryScratch* ws = <BinaryScratch*> workspace.scratch
        # a visit that changes nothing need not read the features
        if ws.d != 0.0:
            self._add_features(i, scale * ws.d, out)
        return 0

    cdef int clear(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        (<BinaryScratch*> workspace.scratch).d = 0.0
        return 0

    cdef int has_gram(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        # inner products need only |x_i|^2
        return 1

    cdef int gram_row(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n_labelings, const int32_t* labelings,
                      double* out) except -1 nogil:
        cdef Py_ssize_t k
        for k in range(n_labelings):
            # changes of the mean parameter are 0 for the observed labeling, else 1 or
            # -1
            out[k] = ((y[0] - self._labels[i]) * (labelings[k] - self._labels[i])
                      * self._norms[i])
        return 0
