"""Sets of labels with scores of pairs: features times labels, and one row of pairs.

Score of labels y in {0, 1}^L for features x:

    sum_j y_j (<W[:, j], x> + bias[j])  +  scaling sum_(j, k) V[j, k] y_j y_k

with Hamming's loss, the number of labels that are wrong: without pairs training is one
binary support vector machine for each label. The maximum over the labelings is relaxed
to the local polytope, whose vertices are half-integral, or found by enumeration.

Labelings are in halves: states 0, 1, 2 of the labels, and after them one bit for each
pair, which tells whether two halves are on together. The features are halved too, so
that a key, listed once or twice, stands for half a label or half a pair.
"""

import numpy as np
from scipy import sparse

from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memset

from sksstruct.inference.cuts._roof_dual cimport RoofDual
from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.tables._table cimport BoundTable, TableScratch, TableWorkspace


cdef class MultilabelWorkspace(TableWorkspace):
    cdef RoofDual solver
    cdef double[::1] scores, fields

    def __init__(self, BoundMultilabel model, training=True):
        self.solver = RoofDual(model.pairs, model.n_labels)
        self.scores = np.empty(model.n_labels + model.n_pairs + 1)
        self.fields = np.empty(model.n_labels)


cdef class BoundMultilabel(BoundTable):
    """Label sets bound to data; see `bind`."""

    cdef readonly Py_ssize_t n_labels, n_pairs, n_words
    cdef readonly object pairs
    cdef readonly double scaling
    cdef readonly bint exact
    cdef object _features, _factors
    cdef const int32_t[:, ::1] _pairs
    cdef Py_ssize_t _pair_start

    def __cinit__(self, blocks, sizes, y_true, example_weights, max_keys, *, pairs,
                  exact):
        self.pairs = np.ascontiguousarray(pairs, dtype=np.int32).reshape(-1, 2)
        self._pairs = self.pairs
        self.n_labels, self.n_pairs = blocks[0][2], len(self.pairs)
        self.exact = exact
        self.n_words = 0 if exact else (self.n_pairs + 31) // 32
        self._pair_start = self._blocks[0].ld
        self._structure += [self.pairs, exact]

    oracles = ("max", "factors")
    # pairs of labels have no place of their own without the data
    views_need_data = True

    @property
    def preferred_solver(self):
        return None if self.exact else "gdmm"

    @classmethod
    def bind(cls, X, n_labels, pairs, Y, example_weights, *, scaling, exact,
             fit_intercept):
        """Bind label sets to data.

        Parameters
        ----------
        X : ndarray or CSR of shape (n_examples, n_features), float64
            Features.
        n_labels : int
            Number of labels L.
        pairs : ndarray of shape (n_pairs, 2)
            Pairs of labels.
        Y : ndarray of shape (n_examples, n_labels) or None
            Observed labels, 0 or 1.
        example_weights : ndarray of shape (n_examples,) or None
            The p_i.
        scaling : float
            Factor of the pairs' feature.
        exact : bool
            Whether all labelings are tried, and not the relaxation solved.
        fit_intercept : bool
            Whether labels have a bias.
        """
        n = X.shape[0]
        if fit_intercept:
            ones = np.ones((n, 1))
            X = sparse.hstack([X, ones]) if sparse.issparse(X) else np.hstack([X, ones])
        X = sparse.csr_array(X) * 0.5 if sparse.issparse(X) else X * 0.5
        each = np.arange(n + 1)
        blocks = [(X, each, n_labels, False)]
        if len(pairs):
            # a row of one column is not padded: two at least
            blocks.append((np.full((n, 1), 0.5 * scaling), each, max(len(pairs), 2),
                           False))
        words = 0 if exact else (len(pairs) + 31) // 32
        y_true = None
        if Y is not None:
            y_true = np.zeros((n, n_labels + words), dtype=np.int32)
            y_true[:, :n_labels] = 2 * np.asarray(Y)
            y_true = y_true.ravel()
        cdef BoundMultilabel model = cls(
            blocks, np.full(n, n_labels + words), y_true, example_weights,
            2 * (n_labels + len(pairs)), pairs=pairs, exact=exact)
        model._features, model.scaling = X, scaling
        return model

    def factors(self):
        """Labels and pairs as factors, which are trained on the relaxation."""
        from sksstruct.models.multilabel._factors import MultilabelFactors

        if self._factors is not None:
            return self._factors
        # as they were given, and a column of ones
        X = 2.0 * self._features
        Y = np.asarray(self._y_true).reshape(self.n_examples, -1)
        Y = Y[:, :self.n_labels] // 2
        relaxed = self
        if self.exact:
            relaxed = BoundMultilabel.bind(
                X, self.n_labels, self.pairs, Y, self.example_weights,
                scaling=self.scaling, exact=False, fit_intercept=False)
        self._factors = MultilabelFactors(
            X, Y, self.pairs, self.example_weights, self.scaling, relaxed)
        return self._factors

    def _workspace(self, training):
        return MultilabelWorkspace(self, training)

    def views(self, w):
        coef = self.block(w, 0)[0].T
        pairs = self.block(w, 1)[0][0, :self.n_pairs] if self.n_pairs else np.empty(0)
        return {"coef": coef, "pair_coef": pairs}

    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t j, first = self._starts[i]
        for j in range(self.n_labels):
            if self._y_true[first + j]:
                ws.theta[j] -= 0.5 * scale
                ws.constant += scale
            else:
                ws.theta[j] += 0.5 * scale
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef Py_ssize_t j, first = self._starts[i]
        cdef int32_t total = 0
        for j in range(self.n_labels):
            total += 2 - y[j] if self._y_true[first + j] else y[j]
        value[0] = 0.5 * total
        return 0

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        self._decode(<MultilabelWorkspace> workspace, ws, y)
        return self.evaluate(workspace, i, y, value)

    cdef void _decode(self, MultilabelWorkspace workspace, TableScratch* ws,
                      int32_t* y) noexcept nogil:
        cdef Py_ssize_t L = self.n_labels, j, e
        cdef double* c = &workspace.scores[0]
        cdef double* v = c + L
        for j in range(L):
            c[j] = 2.0 * ws.theta[j]
        for e in range(self.n_pairs):
            v[e] = 2.0 * ws.theta[self._pair_start + e]
        if self.exact:
            workspace.solver.enumerate(c, v, &workspace.fields[0], y)
            return
        workspace.solver.relax(c, v, y)
        memset(y + L, 0, self.n_words * sizeof(int32_t))
        for e in range(self.n_pairs):
            if v[e] > 0.0 and y[self._pairs[e, 0]] == 1 and y[self._pairs[e, 1]] == 1:
                y[L + e // 32] |= <int32_t> (<uint32_t> 1 << (e % 32))

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t L = self.n_labels, j, e, n = 0
        cdef int32_t both
        for j in range(L):
            for _k in range(y[j]):
                keys[n] = <int32_t> j
                n += 1
        for e in range(self.n_pairs):
            if not y[self._pairs[e, 0]] or not y[self._pairs[e, 1]]:
                continue
            both = y[self._pairs[e, 0]] + y[self._pairs[e, 1]] - 2
            if both == 0 and self.n_words:
                both = (y[L + e // 32] >> (e % 32)) & 1
            for _k in range(both):
                keys[n] = <int32_t> (self._pair_start + e)
                n += 1
        return n
