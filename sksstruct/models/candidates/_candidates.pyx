"""Candidates: one of many, and perhaps a class for it.

score(c, k) = <W[:, k], f_c> + bias[k]; labelings are pairs (c, k). The loss is
1 - overlap(c) [k is right], the overlap of a candidate with the observed one being 1
for itself: 0 for the others, or that of their boxes (Blaschko and Lampert, 2008).
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.tables._table cimport BoundTable, TableScratch, TableWorkspace


cdef class BoundCandidates(BoundTable):
    """Candidates bound to data.

    Parameters
    ----------
    overlaps : ndarray of shape (n_candidates,) or None
        Overlap of each candidate with the observed one.
    """

    cdef const double[::1] _overlaps
    cdef Py_ssize_t n_labels, ld

    def __cinit__(self, blocks, sizes, y_true, example_weights, max_keys, *, overlaps):
        self.n_labels, self.ld = blocks[0][2], self._blocks[0].ld
        if self._labeled:
            self._overlaps = overlaps

    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t c, first = self._blocks[0].offsets[i]
        cdef int32_t label = self._y_true[2 * i + 1]
        for c in range(self._blocks[0].offsets[i + 1] - first):
            ws.theta[c * self.ld + label] -= scale * self._overlaps[first + c]
        ws.constant += scale
        return 0

    def find_topk(self, TableWorkspace workspace, Py_ssize_t i, Py_ssize_t k):
        n = self._blocks[0].offsets[i + 1] - self._blocks[0].offsets[i]
        scores = workspace.theta[:n * self.ld].reshape(n, self.ld)
        scores = scores[:, :self.n_labels].ravel()
        order = np.argsort(-scores, kind="stable")[:k]
        return np.column_stack(np.divmod(order, self.n_labels))

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        value[0] = 1.0
        if y[1] == self._y_true[2 * i + 1]:
            value[0] -= self._overlaps[self._blocks[0].offsets[i] + y[0]]
        return 0

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        keys[0] = <int32_t> (y[0] * self.ld + y[1])
        return 1

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t c, k
        cdef double best = ws.theta[0]
        y[0] = y[1] = 0
        for c in range(self._blocks[0].offsets[i + 1] - self._blocks[0].offsets[i]):
            for k in range(self.n_labels):
                if ws.theta[c * self.ld + k] > best:
                    best = ws.theta[c * self.ld + k]
                    y[0], y[1] = <int32_t> c, <int32_t> k
        value[0] = ws.constant + best
        return 0
