"""Matchings of rows to columns; a pair scores <w, f_rc> + b (Taskar et al., 2005).

A labeling is the column of each row, or -1 for an unmatched row, which scores 0. The
table is one block of one column of weights, with a row of features for each pair: its
entries are the scores of pairs, row by row. Keys are the matched pairs.

The loss counts wrong links and missed links. It is the loss of matching nothing plus a
cost of each matched pair, which is negative if the pair is right.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memcpy

from sksstruct.inference.assignment._assign cimport assign, assignment_memory
from sksstruct.inference.assignment._topk cimport AssignmentSearch
from sksstruct.models.protocols._bound_model cimport in_range
from sksstruct.models.tables._structure cimport OracleMemory, Potentials, Structure


cdef class Matchings(Structure):
    """Matchings of rows and columns.

    Parameters
    ----------
    sizes, y_true, max_keys : objects
        As in `Structure`: a column or -1 for each row, and a key for each matched row.
    shapes : ndarray of shape (n_examples, 2), intp
        Numbers of rows and columns.
    offsets : ndarray of shape (n_examples + 1,), intp
        First pair of each example.
    costs : ndarray of shape (n_pairs,) or None
        Change of the loss if a pair is matched.
    constants : ndarray of shape (n_examples,) or None
        The loss of matching nothing.
    complete : bool
        Whether every row must be matched.
    """

    oracle_note = (
        "the sum over matchings is a permanent, which takes exponential time: "
        "loss='log' and smoothing='entropy' are not for matchings; use loss='hinge', "
        "or SmoothedHinge(smoothing='l2'), which takes the k best of them")
    cdef const Py_ssize_t[:, ::1] _shapes
    # first pair of each example; for each pair, the change of the loss if it is
    # matched; for each example, the loss of matching nothing
    cdef const Py_ssize_t[::1] _offsets
    cdef const double[::1] _costs, _constants
    cdef bint complete

    def __init__(self, sizes, y_true, max_keys, shapes, offsets, costs, constants,
                 complete):
        self._shapes, self._offsets, self.complete = shapes, offsets, complete
        # room for the scores that `assign` reads, the columns that it finds, and its
        # scratch
        self.memory_size = (shapes.prod(axis=1).max(initial=1) + self.max_size
                            + assignment_memory(np.max(shapes, initial=1)))
        # shapes are part of the meaning, as different shapes may have equally many
        # pairs
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
        # The loss of the observed matching must be exactly zero, but the costs of right
        # pairs cancel the constant only up to rounding errors.
        if -1e-12 < value[0] < 1e-12:
            value[0] = 0.0
        return 0

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        cdef Py_ssize_t row, other
        if not in_range(self._sizes[i], y, 0 if self.complete else -1,
                        self._shapes[i, 1]):
            return 0
        # a column is matched at most once
        for row in range(self._sizes[i]):
            for other in range(row):
                if y[row] >= 0 and y[row] == y[other]:
                    return 0
        return 1

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t row, n_keys = 0
        for row in range(self._sizes[i]):
            # an unmatched row has no features
            if y[row] >= 0:
                keys[n_keys] = <int32_t> (row * self._shapes[i, 1] + y[row])
                n_keys += 1
        return n_keys

    # ---- oracles ----

    cdef int decode(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                    int32_t* y) except -1 nogil:
        cdef Py_ssize_t n_rows = self._shapes[i, 0], n_columns = self._shapes[i, 1]
        cdef Py_ssize_t* columns = <Py_ssize_t*> (at.memory + n_rows * n_columns)
        cdef double* memory = at.memory + n_rows * n_columns + self.max_size
        cdef bint flipped = n_rows > n_columns
        cdef Py_ssize_t row, column, k, n = min(n_rows, n_columns)
        cdef double score
        # `assign` matches every row, or every column if there are fewer columns.
        # Without `complete`, scores below zero count as zero, and pairs that do not
        # score above zero are removed from the result.
        for row in range(n_rows):
            for column in range(n_columns):
                score = at.theta[row * n_columns + column]
                if score < 0.0 and not self.complete:
                    score = 0.0
                k = column * n_rows + row if flipped else row * n_columns + column
                at.memory[k] = score
        if not assign(n, max(n_rows, n_columns), at.memory, memory, columns):
            raise ValueError(
                f"the scores of example {i} forbid every matching: at least one must "
                "be allowed")
        for row in range(n_rows):
            y[row] = -1
        for k in range(n):
            row, column = columns[k] if flipped else k, k if flipped else columns[k]
            if self.complete or at.theta[row * n_columns + column] > 0.0:
                y[row] = <int32_t> column
        return 0

    cdef Py_ssize_t topk(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                         Py_ssize_t k) except -1 nogil:
        if oracle.search is None:
            with gil:
                oracle.search = AssignmentSearch()
        return self._search(at, <AssignmentSearch> oracle.search, oracle, i, k)

    cdef Py_ssize_t _search(self, Potentials* at, AssignmentSearch search,
                            OracleMemory oracle, Py_ssize_t i,
                            Py_ssize_t k) except -1 nogil:
        cdef Py_ssize_t n_rows = self._shapes[i, 0], n_columns = self._shapes[i, 1]
        cdef Py_ssize_t row, count, entry
        cdef double* scores
        search.prepare(n_rows, n_columns, not self.complete)
        scores = search.scores
        for row in range(n_rows):
            memcpy(scores, at.theta + row * n_columns, n_columns * sizeof(double))
            scores += n_columns
            # the last entry of a row stands for no column, and scores 0
            if not self.complete:
                scores[0] = 0.0
                scores += 1
        count = search.find(k)
        oracle.make_room(count, n_rows)
        # the labelings of all ranks are consecutive
        for entry in range(count * n_rows):
            oracle.labelings[entry] = search.labeling(0)[entry]
            if oracle.labelings[entry] == n_columns:
                oracle.labelings[entry] = -1
        return count
