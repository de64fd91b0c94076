"""Multiclass classification: a row of scores, from which a labeling picks one.

score(k) = <W[:, k], x> + bias[k]; with costs C the structured hinge is the one of
Crammer and Singer (2001), max_k C[y, k] + score(k) - score(y). A labeling is one class,
which is also its only key.
"""

import numpy as np

cimport cython
from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t

from sksstruct.models.tables._best cimport keep_best
from sksstruct.models.tables._structure cimport OracleMemory, Potentials, Structure
from sksstruct.utils._simd cimport sks_exp_row, sks_rescale

from sksstruct.models.tables._table import block_ld


# a final class has no virtual calls
@cython.final
cdef class Classes(Structure):
    """Structure in which a labeling is one of n_labels classes.

    Parameters
    ----------
    sizes, y_true, max_keys : objects
        As in `Structure`: one class, and one key.
    n_labels : int
        Number of classes.
    costs : ndarray of shape (n_labels, n_labels) or None
        Loss of predicting the column where the row is observed; zero on the diagonal.
        None: 1 for each error.
    """

    oracles = ("max", "topk", "exp", "projection")
    # finding the best class takes little time beside computing scores
    oracle_cost = 1.0
    cdef readonly Py_ssize_t n_labels, ld
    cdef readonly object costs
    cdef const double[:, ::1] _costs
    cdef bint _uniform

    def __init__(self, sizes, y_true, max_keys, n_labels, costs=None):
        self.n_labels, self.ld = n_labels, block_ld(n_labels)
        self._uniform, self.one_entry = costs is None, True
        # the exp oracle stores scores divided by mu
        self.memory_size = self.ld
        if costs is not None:
            self._costs = self.costs = np.ascontiguousarray(costs, dtype=np.float64)

    # ---- the loss ----

    cdef int add_loss(self, Potentials* at, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t label
        # uniform costs need no table, which would have to be read
        if self._uniform:
            for label in range(self.n_labels):
                at.theta[label] += scale
            at.theta[self._y_true[i]] -= scale
            return 0
        for label in range(self.n_labels):
            at.theta[label] += scale * self._costs[self._y_true[i], label]
        return 0

    # ---- labelings, and the oracles ----

    cdef int decode(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                    int32_t* y) except -1 nogil:
        cdef Py_ssize_t label, best = 0
        # strictly larger, so that the lowest class wins a tie
        for label in range(1, self.n_labels):
            if at.theta[label] > at.theta[best]:
                best = label
        y[0] = <int32_t> best
        return 0

    cdef int expect(self, Potentials* at, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        cdef Py_ssize_t ld = self.ld, label
        cdef double high, low, total = 0.0, scale = 1.0 / mu
        for label in range(self.n_labels):
            at.memory[label] = scale * at.theta[label]
        high = sks_exp_row(self.n_labels, ld, at.memory, means, &low)
        for label in range(self.n_labels):
            total += means[label]
        # if all classes are forbidden, means stay zero
        if high > -INFINITY:
            sks_rescale(ld, 1.0 / total, means)
        value[0] = mu * (high + log(total))
        return 0

    cdef Py_ssize_t topk(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                         Py_ssize_t k) except -1 nogil:
        cdef Py_ssize_t label, count = 0
        k = min(k, self.n_labels)
        oracle.make_room(k, 1)
        for label in range(self.n_labels):
            count = keep_best(count, k, at.theta[label], <int32_t> label, oracle.values,
                              oracle.labelings)
        return count

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        # the observed class has loss 0 in both cases
        if self._uniform:
            value[0] = y[0] != self._y_true[i]
        else:
            value[0] = self._costs[self._y_true[i], y[0]]
        return 0

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        return 0 <= y[0] < self.n_labels

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        keys[0] = y[0]
        return 1
