"""Two classes and a linear score: the support vector machine as a structured model.

The score of the positive class is <w, x> + bias and that of the negative one 0, so that
with y in {-1, 1} the structured hinge is max(0, 1 - y (<w, x> + bias)). The mean
parameter of an example is the probability of the positive class, key 1; key 0 stands
for the negative one. The bias is the last weight, the value of a feature that is 1.
"""

import numpy as np
from scipy import sparse

from libc.stdint cimport int32_t, int64_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace


cdef class BinaryWorkspace(Workspace):
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
        Whether there is a bias; it is regularised like the other weights.
    free_bias : bool
        Whether there is one that is not regularised; its dual is all that knows of it.
    """

    def __cinit__(self, X, labels, example_weights, bint fit_intercept=True,
                  bint free_bias=False):
        cdef const double[::1] values
        cdef const int32_t[::1] indices
        cdef const int64_t[::1] indptr
        n, d = X.shape
        self.X = X
        self.fit_intercept = fit_intercept
        self.free_bias = free_bias
        self.n_features = d
        self.n_weights = d + 1
        self.max_keys, self.key_space, self.visit_work = 1, 2, d
        self.set_sizes(np.ones(n, dtype=np.intp), example_weights)
        self._labels = np.ascontiguousarray(labels, dtype=np.int32)
        self._indices, self._indptr = NULL, NULL
        if sparse.issparse(X):
            data, squares = X.data, X.multiply(X)
            index = np.ascontiguousarray(X.indices, dtype=np.int32)
            pointer = np.ascontiguousarray(X.indptr, dtype=np.int64)
            if not len(data):
                data, index = np.zeros(1), np.zeros(1, dtype=np.int32)
            indices, indptr = index, pointer
            self._indices, self._indptr = &indices[0], &indptr[0]
            self._owned = [index, pointer]
        else:
            data, squares = X.reshape(-1), X * X
            self._owned = []
        values = data
        self._values = &values[0]
        self._owned.append(data)
        self._norms = np.asarray(squares.sum(axis=1)).ravel() + fit_intercept

    @property
    def labels(self):
        """1 for the positive class, 0 for the negative one."""
        return np.asarray(self._labels)

    def dual_space(self):
        from sksstruct.models.binary._dual import BinaryDual

        return BinaryDual(self, self.free_bias)

    @property
    def oracles(self):
        # a bias without a penalty has no place in w: only the dual knows of it
        return ("projection",) if self.free_bias else ("max", "projection")

    @property
    def oracle_note(self):
        return "penalize_intercept=False leaves Pragam only" if self.free_bias else None

    @property
    def views_need_data(self):
        return self.free_bias

    def views(self, w):
        bias = w[-1:].copy()
        if self.free_bias:
            space = self.dual_space()
            bias[0] = space.bias(space.slopes(w))
        return {"coef": w[None, :-1], "intercept": bias}

    def flatten_bounds(self, bounds):
        raise ValueError("bounds are not available for a binary model")

    def _workspace(self, training):
        return BinaryWorkspace()

    # ---- potentials and labelings ----

    cdef int potentials(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef BinaryScratch* ws = <BinaryScratch*> workspace.scratch
        cdef Py_ssize_t d = self.n_features, j
        cdef double total = workspace.w[d] if self.fit_intercept else 0.0
        if self._indices != NULL:
            for j in range(self._indptr[i], self._indptr[i + 1]):
                total += self._values[j] * workspace.w[self._indices[j]]
        else:
            for j in range(d):
                total += self._values[i * d + j] * workspace.w[j]
        ws.score = total
        ws.y_true = self._labels[i]
        ws.loss = workspace.loss_scale
        return 0

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        cdef double zero, one
        y[0] = 0
        self.evaluate(workspace, i, y, &zero)
        y[0] = 1
        self.evaluate(workspace, i, y, &one)
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
        value[0] = ((ws.score if y[0] else 0.0)
                    + (ws.loss if y[0] != ws.y_true else 0.0))
        return 0

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        keys[0] = y[0]
        return 1

    cdef int evaluate_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil:
        cdef Py_ssize_t p
        cdef double part
        value[0] = 0.0
        for p in range(n):
            self.evaluate(workspace, i, keys + p, &part)
            value[0] += values[p] * part
        return 0

    # ---- changes of mean parameters ----

    cdef int add_labeling(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        cdef BinaryScratch* ws = <BinaryScratch*> workspace.scratch
        if y[0]:
            ws.d += coef
        return 0

    cdef int add_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil:
        cdef Py_ssize_t p
        for p in range(n):
            self.add_labeling(workspace, i, keys + p, coef * values[p])
        return self.evaluate_mean(workspace, i, n, keys, values, value)

    cdef int change_norm(self, Workspace workspace, Py_ssize_t i,
                         double* value) except -1 nogil:
        cdef BinaryScratch* ws = <BinaryScratch*> workspace.scratch
        value[0] = ws.d * ws.d * self._norms[i]
        return 0

    cdef void _add(self, Py_ssize_t i, double scale, double* out) noexcept nogil:
        cdef Py_ssize_t d = self.n_features, j
        if self._indices != NULL:
            for j in range(self._indptr[i], self._indptr[i + 1]):
                out[self._indices[j]] += scale * self._values[j]
        else:
            for j in range(d):
                out[j] += scale * self._values[i * d + j]
        if self.fit_intercept:
            out[d] += scale

    cdef int scatter(self, Workspace workspace, Py_ssize_t i, double scale,
                     double* out) except -1 nogil:
        cdef BinaryScratch* ws = <BinaryScratch*> workspace.scratch
        if ws.d != 0.0:
            self._add(i, scale * ws.d, out)
        return 0

    cdef int clear(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        (<BinaryScratch*> workspace.scratch).d = 0.0
        return 0

    cdef int has_gram(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        return 1

    cdef int gram_row(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n, const int32_t* labelings,
                      double* out) except -1 nogil:
        cdef Py_ssize_t k
        for k in range(n):
            out[k] = ((y[0] - self._labels[i]) * (labelings[k] - self._labels[i])
                      * self._norms[i])
        return 0
