"""Matchings: rows take columns, and a pair scores <w, f_rc> (Taskar et al., 2005).

One block of one column, with a row of features for each pair. A matching that may
leave rows out scores 0 for these; keys are the pairs that are matched. Costs of pairs
make the loss: that of a link that is wrong, less that of missing one that is right.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment

from libc.stdint cimport int32_t

from sksstruct.models.tables._table cimport BoundTable, TableScratch, TableWorkspace

from sksstruct.inference import bmmf, matching_max_marginals


cdef class BoundMatching(BoundTable):
    """Matchings bound to data.

    Parameters
    ----------
    shapes : ndarray of shape (n_examples, 2), intp
        Numbers of rows and columns.
    costs : ndarray of shape (n_pairs,) or None
        What the loss gains where a pair is matched.
    constants : ndarray of shape (n_examples,) or None
        The loss of matching nothing.
    complete : bool
        Whether every row takes a column.
    """

    cdef const Py_ssize_t[:, ::1] _shapes
    cdef const double[::1] _costs, _constants
    cdef bint complete

    def __cinit__(self, blocks, sizes, y_true, example_weights, max_keys, *, shapes,
                  costs, constants, complete):
        self._shapes, self.complete = shapes, complete
        self._structure += [shapes, complete]
        if self._labeled:
            self._costs, self._constants = costs, constants

    def views(self, w):
        return {"coef": self.block(w, 0)[0][:, 0]}

    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t p, first = self._blocks[0].offsets[i]
        for p in range(self._blocks[0].offsets[i + 1] - first):
            ws.theta[p] += scale * self._costs[first + p]
        ws.constant += scale * self._constants[i]
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef Py_ssize_t r, first = self._blocks[0].offsets[i]
        value[0] = self._constants[i]
        for r in range(self._sizes[i]):
            if y[r] >= 0:
                value[0] += self._costs[first + r * self._shapes[i, 1] + y[r]]
        # rounding: the loss of the observed matching is zero
        if -1e-12 < value[0] < 1e-12:
            value[0] = 0.0
        return 0

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t r, count = 0
        for r in range(self._sizes[i]):
            if y[r] >= 0:
                keys[count] = <int32_t> (r * self._shapes[i, 1] + y[r])
                count += 1
        return count

    def find_topk(self, TableWorkspace workspace, Py_ssize_t i, Py_ssize_t k):
        n, m = self._shapes[i, 0], self._shapes[i, 1]
        scores = np.array(workspace.theta[:n * m]).reshape(n, m)
        if self.complete:
            return bmmf(matching_max_marginals, scores, k)[0]

        def max_marginals(table):
            return matching_max_marginals(table[:, :m], table[:, m])

        # a column more, which any row may take, at score 0
        labelings = bmmf(max_marginals, np.hstack([scores, np.zeros((n, 1))]), k)[0]
        return np.where(labelings == m, -1, labelings)

    def find(self, TableWorkspace workspace, Py_ssize_t i):
        n, m = self._shapes[i, 0], self._shapes[i, 1]
        labels = np.full(n, -1, dtype=np.int32)
        scores = workspace.theta[:n * m].reshape(n, m)
        # pairs that are not worth it count as none
        worth = scores if self.complete else np.maximum(scores, 0.0)
        rows, columns = linear_sum_assignment(worth, maximize=True)
        if not self.complete:
            keep = scores[rows, columns] > 0.0
            rows, columns = rows[keep], columns[keep]
        labels[rows] = columns
        return labels
