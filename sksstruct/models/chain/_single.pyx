"""Decoding chains in single precision.

The score of labels y for the features F of a sequence is that of `_chain.pyx`. The best
prefix that ends in label b at position t has the score

    delta_t(b) = theta_t(b) + max_a delta_{t-1}(a) + transitions[a, b]

with theta_t = F_t W + bias (+ start at the first position). The way back finds the
labels: the last by delta + end, and label a before b by delta(a) + transitions[a, b].
For this, the transposed table, to -> from, is stored as well.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.models.tables._feature_rows cimport FeatureRows, RowEntries
from sksstruct.utils._simd cimport (
    sks_prefetch,
    sks_single_best,
    sks_single_maxplus,
)

from sksstruct.utils._layout import aligned_zeros


def _rows_of(table, ld, padding=0.0):
    """Copy a table to single precision, with rows padded to ld."""
    table = np.atleast_2d(table)
    out = aligned_zeros(len(table) * ld, np.float32).reshape(-1, ld)
    out[:, :table.shape[1]] = table
    out[:, table.shape[1]:] = padding
    return out


cdef class SingleChain:
    """A chain with given weights, to decode sequences in single precision.

    Parameters
    ----------
    X : PackedSequences
        Features.
    emission : ndarray of shape (n_features, ld), float32
        Emission rows.
    intercept, start, end : ndarray of shape (n_labels,)
        Bias, and weights of labels at the ends.
    transitions : ndarray of shape (n_labels, n_labels)
        From -> to.
    mask : ndarray of shape (2 + n_labels, ld) or None
        Constraints as scores of 0 or -inf: first labels, last labels, transitions.
    forbidden_labels : ndarray of shape (n_positions, n_labels), uint8, or None
        Labels that are not allowed at a position.

    Attributes
    ----------
    is_constrained : bool
        Whether some labelings are not allowed.
    """

    cdef readonly bint is_constrained
    cdef Py_ssize_t _n_labels, _ld
    cdef FeatureRows _rows
    cdef const Py_ssize_t[::1] _offsets
    cdef const float[:, ::1] _emission
    # rows of one: what scores begin with, at the first position too, and the ends
    cdef const float[:, ::1] _bias, _first, _end
    cdef const float[:, ::1] _transitions, _turned
    cdef const unsigned char[:, ::1] _forbidden

    def __init__(self, X, emission, intercept, start, end, transitions, mask=None,
                 forbidden_labels=None):
        n_labels, ld = len(intercept), emission.shape[1]
        self._n_labels, self._ld = n_labels, ld
        self.is_constrained = mask is not None or forbidden_labels is not None
        self._rows = FeatureRows(X)
        self._offsets = np.ascontiguousarray(X.offsets, dtype=np.intp)
        self._emission = emission
        # once for all sequences, as the weights do not change
        if mask is not None:
            start = start + mask[0, :n_labels]
            end = end + mask[1, :n_labels]
            transitions = transitions + mask[2:, :n_labels]
        self._bias = _rows_of(intercept, ld)
        self._first = _rows_of(intercept + start, ld)
        # where the best label is sought, it must not be one of the padding
        self._end = _rows_of(end, ld, -np.inf)
        self._transitions = _rows_of(transitions, ld)
        self._turned = _rows_of(transitions.T, ld, -np.inf)
        self._forbidden = forbidden_labels

    def predict(self, workspace, Py_ssize_t start, Py_ssize_t stop,
                int32_t[::1] labels, double[::1] scores):
        """Decode sequences start <= i < stop into flat labels and their scores."""
        cdef Py_ssize_t i, longest = 1
        # the caller's threads decode sequences of their own, each with its own array
        for i in range(start, stop):
            longest = max(longest, self._offsets[i + 1] - self._offsets[i])
        cdef float[::1] delta = aligned_zeros(longest * self._ld, np.float32)
        with nogil:
            for i in range(start, stop):
                scores[i] = self._decode(i, &delta[0], &labels[self._offsets[i]])

    cdef double _decode(self, Py_ssize_t i, float* delta, int32_t* y) noexcept nogil:
        """Write the best labels of a sequence, and return their score."""
        cdef Py_ssize_t first = self._offsets[i], size = self._offsets[i + 1] - first
        cdef Py_ssize_t ld = self._ld, t, label
        cdef float* last = delta + (size - 1) * ld
        cdef double score
        self._unary_scores(first, &self._first[0, 0], delta)
        # All positions first: weights, which are somewhere in memory, are read ahead
        # where nothing else is in between.
        for t in range(1, size):
            self._unary_scores(first + t, &self._bias[0, 0], delta + t * ld)
        # in place: delta_t needs delta_{t-1} and its own unary scores only
        for t in range(1, size):
            sks_single_maxplus(self._n_labels, ld, delta + (t - 1) * ld,
                               &self._transitions[0, 0], delta + t * ld)
        label = sks_single_best(ld, last, &self._end[0, 0])
        score = last[label] + self._end[0, label]
        y[size - 1] = <int32_t> label
        for t in range(size - 2, -1, -1):
            label = sks_single_best(ld, delta + t * ld, &self._turned[label, 0])
            y[t] = <int32_t> label
        return score

    cdef void _prefetch_weights(self, Py_ssize_t position) noexcept nogil:
        """Ask for the weights of a position, if there is one and its row is sparse."""
        cdef RowEntries row
        cdef Py_ssize_t entry
        # dense rows read all weights one after the other, which needs no hint
        if self._rows.sparse and position < self._offsets[self._offsets.shape[0] - 1]:
            row = self._rows.row(position)
            for entry in range(row.count):
                sks_prefetch(&self._emission[row.index[entry], 0],
                             self._ld * sizeof(float))

    cdef void _unary_scores(self, Py_ssize_t position, const float* init,
                            float* out) noexcept nogil:
        """out = init + the scores of the labels, -inf those that are not allowed"""
        cdef Py_ssize_t label
        self._prefetch_weights(position + 2)
        self._rows.single_scores(
            position, &self._emission[0, 0], self._ld, init, out)
        if self._forbidden is not None:
            for label in range(self._n_labels):
                if self._forbidden[position, label]:
                    out[label] = -INFINITY
