"""Candidates: one of many, and perhaps a class for it.

With candidates c and classes k of an example, whose features of a candidate are f_c,

    score(c, k) = <W[:, k], f_c> + bias[k]
    loss(c, k)  = 1 - overlap(c) [k is right]

and labelings are pairs (c, k). The overlap of a candidate with the observed one is 1
for itself, and 0 for the others or that of their boxes (Blaschko and Lampert, 2008).

The table has a row for each candidate and a column for each class; rows are `ld` apart,
the classes and a padding.
"""

import numpy as np

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.tables._table cimport BoundTable, TableScratch, TableWorkspace


cdef class BoundCandidates(BoundTable):
    """Candidates bound to data.

    Parameters
    ----------
    overlaps : ndarray of shape (n_candidates,) or None
        Overlap of each candidate with the observed one; None for prediction.
    """

    oracles = ("max", "topk", "exp")
    # candidates of all examples, one after the other
    cdef const double[::1] _overlaps
    cdef readonly Py_ssize_t n_labels, ld

    def __cinit__(self, blocks, sizes, y_true, example_weights, max_keys, *, overlaps):
        self.n_labels, self.ld = blocks[0][2], self._blocks[0].ld
        if self._labeled:
            self._overlaps = overlaps

    cdef inline Py_ssize_t _n_candidates(self, Py_ssize_t i) noexcept nogil:
        """Return the number of candidates of an example."""
        return self._blocks[0].offsets[i + 1] - self._blocks[0].offsets[i]

    # ---- the loss ----

    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t candidate, first = self._blocks[0].offsets[i]
        cdef int32_t observed = self._y_true[2 * i + 1]
        # only the observed class gains by an overlap: one column changes, and the 1 of
        # all labelings is the constant
        for candidate in range(self._n_candidates(i)):
            ws.theta[candidate * self.ld + observed] -= (
                scale * self._overlaps[first + candidate])
        ws.constant += scale
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        value[0] = 1.0
        # in a wrong class the right box is worth nothing
        if y[1] == self._y_true[2 * i + 1]:
            value[0] -= self._overlaps[self._blocks[0].offsets[i] + y[0]]
        return 0

    # ---- labelings ----

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        return 0 <= y[0] < self._n_candidates(i) and 0 <= y[1] < self.n_labels

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        keys[0] = <int32_t> (y[0] * self.ld + y[1])
        return 1

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t candidate, label
        cdef const double* row = ws.theta
        cdef double best = row[0]
        y[0] = y[1] = 0
        for candidate in range(self._n_candidates(i)):
            # not the padding, whose scores are zero
            for label in range(self.n_labels):
                # the first of those that tie, as `find_topk` has it
                if row[label] > best:
                    best = row[label]
                    y[0], y[1] = <int32_t> candidate, <int32_t> label
            row += self.ld
        value[0] = ws.constant + best
        return 0

    cdef int expect(self, Workspace workspace, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t n = self._n_candidates(i), candidate, label, k
        cdef double high = -INFINITY, total = 0.0
        memset(means, 0, n * self.ld * sizeof(double))
        for candidate in range(n):
            for label in range(self.n_labels):
                high = max(high, ws.theta[candidate * self.ld + label])
        value[0] = high
        # nothing has a probability
        if high == -INFINITY:
            return 0
        for candidate in range(n):
            for label in range(self.n_labels):
                k = candidate * self.ld + label
                means[k] = exp((ws.theta[k] - high) / mu)
                total += means[k]
        for k in range(n * self.ld):
            means[k] /= total
        value[0] = ws.constant + high + mu * log(total)
        return 0

    def find_topk(self, TableWorkspace workspace, Py_ssize_t i, Py_ssize_t k):
        n_candidates = self._n_candidates(i)
        table = workspace.theta[:n_candidates * self.ld].reshape(n_candidates, self.ld)
        scores = table[:, :self.n_labels].ravel()
        # stable: of labelings that tie, the order is that of `decode`
        order = np.argsort(-scores, kind="stable")[:k]
        return np.column_stack(np.divmod(order, self.n_labels))
