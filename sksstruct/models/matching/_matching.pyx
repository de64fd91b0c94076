"""Matchings: rows take columns, and a pair scores <w, f_rc> + b (Taskar et al., 2005).

A labeling is the column that each row takes, or -1 where a matching may leave rows out,
which scores 0. The table is one block of one column of weights, with a row of features
for each pair: its entries are the scores of pairs, those of the first row r first. Keys
are the pairs that are matched.

The loss counts links that are wrong and links that are missed. It is the loss of
matching nothing plus a cost of each pair that is matched. The cost is negative if the
pair is right.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment

from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport in_range
from sksstruct.models.tables._structure cimport Potentials, Structure

from sksstruct.inference import bmmf, matching_max_marginals


def best_matching(scores):
    """Return the best column of each row, and the score; -inf if none is allowed."""
    # scipy raises ValueError, for scores without NaN, only if no matching is feasible
    try:
        rows, columns = linear_sum_assignment(scores, maximize=True)
    except ValueError:
        return np.zeros(len(scores), dtype=np.intp), -np.inf
    return columns, scores[rows, columns].sum()


cdef class Matchings(Structure):
    """Matchings of rows and columns.

    Parameters
    ----------
    sizes, y_true, max_keys : objects
        As of `Structure`: a column or -1 for each row, and a key for each column.
    shapes : ndarray of shape (n_examples, 2), intp
        Numbers of rows and columns.
    offsets : ndarray of shape (n_examples + 1,), intp
        Where the pairs of each example begin.
    costs : ndarray of shape (n_pairs,) or None
        Change of the loss if a pair is matched.
    constants : ndarray of shape (n_examples,) or None
        The loss of matching nothing.
    complete : bool
        Whether every row takes a column.
    """

    oracle_note = (
        "the sum over matchings is a permanent, which takes exponential time: "
        "loss='log' and smoothing='entropy' are not for matchings; use loss='hinge', "
        "or SmoothedHinge(smoothing='l2'), which takes the k best of them")
    cdef const Py_ssize_t[:, ::1] _shapes
    # of the pairs of all examples, and of the examples
    cdef const Py_ssize_t[::1] _offsets
    cdef const double[::1] _costs, _constants
    cdef bint complete

    def __init__(self, sizes, y_true, max_keys, shapes, offsets, costs, constants,
                 complete):
        self._shapes, self._offsets, self.complete = shapes, offsets, complete
        # the same number of pairs may be of other shapes
        self.meaning += [shapes, complete]
        self._costs, self._constants = costs, constants

    cdef int add_loss(self, Potentials* at, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t pair, first = self._offsets[i]
        for pair in range(self._offsets[i + 1] - first):
            at.theta[pair] += scale * self._costs[first + pair]
        at.constant += scale * self._constants[i]
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef Py_ssize_t row, first = self._offsets[i]
        value[0] = self._constants[i]
        for row in range(self._sizes[i]):
            if y[row] >= 0:
                value[0] += self._costs[first + row * self._shapes[i, 1] + y[row]]
        # The costs of right pairs cancel the constant up to rounding errors, and the
        # loss of the observed matching must be zero, not nearly so.
        if -1e-12 < value[0] < 1e-12:
            value[0] = 0.0
        return 0

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        cdef Py_ssize_t row, other
        if not in_range(self._sizes[i], y, 0 if self.complete else -1,
                        self._shapes[i, 1]):
            return 0
        # no column twice
        for row in range(self._sizes[i]):
            for other in range(row):
                if y[row] >= 0 and y[row] == y[other]:
                    return 0
        return 1

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t row, n_keys = 0
        for row in range(self._sizes[i]):
            # a row that is left out has no features
            if y[row] >= 0:
                keys[n_keys] = <int32_t> (row * self._shapes[i, 1] + y[row])
                n_keys += 1
        return n_keys

    # ---- oracles, which are not compiled ----

    def find(self, i, theta, others):
        scores = theta.reshape(self._shapes[i, 0], self._shapes[i, 1])
        labels = np.full(len(scores), -1, dtype=np.int32)
        # The assignment is complete. Pairs that score less than nothing count as
        # nothing, and are taken out of it again.
        worth = scores if self.complete else np.maximum(scores, 0.0)
        rows, columns = linear_sum_assignment(worth, maximize=True)
        if not self.complete:
            keep = scores[rows, columns] > 0.0
            rows, columns = rows[keep], columns[keep]
        labels[rows] = columns
        return labels

    def find_topk(self, i, theta, others, k):
        scores = theta.reshape(self._shapes[i, 0], self._shapes[i, 1])
        if self.complete:
            return bmmf(matching_max_marginals, scores, k, max_product=best_matching)[0]
        n_rows, n_columns = scores.shape

        def max_marginals(table):
            return matching_max_marginals(table[:, :n_columns], table[:, n_columns])

        def max_product(table):
            # a column of its own for each row that stays without one
            columns, score = best_matching(
                np.hstack([table[:, :n_columns],
                           np.repeat(table[:, n_columns:], n_rows, axis=1)]))
            return np.minimum(columns, n_columns), score

        # a column more, which any row may take, at score 0
        table = np.hstack([scores, np.zeros((n_rows, 1))])
        labelings = bmmf(max_marginals, table, k, max_product=max_product)[0]
        return np.where(labelings == n_columns, -1, labelings)
