"""Decoding chains with many labels, where few transitions have a weight.

The score of labels y for the features F of a sequence is that of `_chain.pyx`,

    sum_t theta_t(y_t) + sum_t transitions[y_t, y_{t+1}]
    theta_t = F_t W + bias (+ start at the first position, + end at the last)

with transitions that are zero unless stored. `SparseTransitions` finds the best labels
without reading all pairs. Positions are t; a row has ld >= n_labels entries.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.inference.chains._sparse_viterbi cimport (
    SparseTransitions, ViterbiScratch,
)
from sksstruct.models.chain._constraints cimport ChainConstraints
from sksstruct.models.chain._workspace cimport BIAS, END, START
from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.utils._simd cimport sks_axpy

from sksstruct.utils._layout import aligned_zeros


cdef class SparseChain:
    """A chain with given weights, to decode sequences.

    Parameters
    ----------
    X : PackedSequences
        Features.
    weights : ndarray of shape (n_features + 3, ld)
        Emission rows, bias, start, end.
    transitions : sparse array of shape (n_labels, n_labels)
        Scores of pairs of labels; -inf for forbidden pairs.
    mask : ndarray of shape (2, ld) or None
        Constraints as scores of 0 or -inf: first labels, last labels.
    forbidden_labels : ndarray of shape (n_positions, n_labels), uint8, or None
        Labels that are not allowed at a position.
    feature_scale : float, default=1.0
        Factor of all features.
    """

    def __init__(self, X, weights, transitions, mask=None, forbidden_labels=None,
                 double feature_scale=1.0):
        self.n_labels, self.ld = transitions.shape[0], weights.shape[1]
        # both are shared by threads, which only read them
        self._rows = FeatureRows(X, scale=feature_scale)
        self._transitions = SparseTransitions.of_table(transitions)
        self._weights = weights
        self._offsets = np.ascontiguousarray(X.offsets, dtype=np.intp)
        # forbidden transitions are entries of the sparse array
        self._constraints = ChainConstraints(
            mask, forbidden_labels, n_positions=self._offsets[len(X)],
            n_labels=self.n_labels, ld=self.ld, n_rows=2)
        self.n_sequences = len(X)
        # a score of -inf is an error where nothing is forbidden
        self.is_constrained = (
            self._constraints.exist or bool((transitions.data == -np.inf).any()))

    cdef void _unary_scores(self, Py_ssize_t i, double* theta) noexcept nogil:
        """Write theta of a sequence, -inf where a constraint forbids the label."""
        cdef Py_ssize_t first = self._offsets[i], size = self._offsets[i + 1] - first
        cdef Py_ssize_t ld = self.ld
        cdef const double* weights = &self._weights[0, 0]
        cdef const double* tail = weights + self._rows.n_features * ld
        # the bias is what the scores begin with
        self._rows.scores_of_rows(first, size, weights, ld, tail + BIAS * ld, theta)
        # a sequence of one position has both
        sks_axpy(ld, 1.0, tail + START * ld, theta)
        sks_axpy(ld, 1.0, tail + END * ld, theta + (size - 1) * ld)
        # last, as forbidden labels are written over what was added
        if self._constraints.exist:
            self._constraints.forbid_labels(first, size, theta)

    cdef double _augment(self, Py_ssize_t i, const int32_t* y_true,
                         const double* costs, double* theta) noexcept nogil:
        """Let wrong labels gain their cost in theta; the score of the observed ones.

        All labels but the observed one would gain it. Taking it from that one instead
        changes one entry of a row, and every labeling by the same amount, which the
        score that is returned makes up for.
        """
        cdef Py_ssize_t size = self._offsets[i + 1] - self._offsets[i], t
        cdef double observed = 0.0
        cdef double* gain
        # the first position has no pair before it
        for t in range(size):
            gain = theta + t * self.ld + y_true[t]
            observed += gain[0] - costs[t]
            gain[0] -= costs[t]
            if t:
                observed += self._transitions.score(y_true[t - 1], y_true[t])
        return observed

    def workspace(self, weights=None, training=False):
        """Return None: `decode` has its own workspace."""
        # callers ask every kind of chain for one
        return None

    def predict(self, workspace, start, stop, labels, scores):
        """Decode sequences start <= i < stop into flat labels and their scores."""
        self.decode(start, stop, labels, scores)

    def decode(self, Py_ssize_t start, Py_ssize_t stop, int32_t[::1] labels,
               double[::1] scores, const int32_t[::1] y_true=None,
               const double[::1] costs=None):
        """Decode sequences, with the loss if observed labels and costs are given.

        Parameters
        ----------
        start, stop : int
            Sequences start <= i < stop.
        labels : ndarray of shape (n_positions,), int32
            Overwritten with the best labels, all sequences one after the other.
        scores : ndarray of shape (n_sequences,)
            Overwritten with their scores, or with max_y L_i(y) + score(y) - score(y_i)
            if observed labels are given.
        y_true : ndarray of shape (n_positions,), int32, default=None
            Observed labels.
        costs : ndarray of shape (n_positions,), default=None
            Loss of missing each of them.
        """
        cdef Py_ssize_t i, first, longest = 1
        cdef bint augmented = y_true is not None
        cdef double observed = 0.0
        # the caller's threads decode sequences of their own, each with its own arrays
        for i in range(start, stop):
            longest = max(longest, self._offsets[i + 1] - self._offsets[i])
        cdef double[::1] theta = aligned_zeros(longest * self.ld)
        cdef ViterbiScratch scratch = ViterbiScratch(longest, self.ld)
        with nogil:
            for i in range(start, stop):
                first = self._offsets[i]
                self._unary_scores(i, &theta[0])
                # in place: without the loss theta is of no more use
                if augmented:
                    observed = self._augment(i, &y_true[first], &costs[first],
                                             &theta[0])
                scores[i] = self._transitions.decode(
                    scratch, self._offsets[i + 1] - first, self.ld, &theta[0],
                    &labels[first]) - observed
