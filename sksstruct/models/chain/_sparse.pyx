"""Decoding chains with many labels, where few transitions have a weight.

Scores are as in `_given.pyx`, with transitions that are zero unless stored.
`SparseTransitions` finds the best labels without reading all pairs. Positions are t; a
row has ld >= n_labels entries.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.inference.chains._sparse_viterbi cimport (
    SparseTransitions, ViterbiScratch,
)
from sksstruct.models.chain._given cimport GivenChain

from sksstruct.utils._layout import aligned_zeros


cdef class SparseChain(GivenChain):
    """A chain with given weights and sparse transitions, to decode sequences.

    Parameters
    ----------
    X, emission, intercept, start, end, forbidden_labels, feature_scale : objects
        As in `GivenChain`.
    transitions : None
        Unused; see `pairs`.
    mask : ndarray of shape (2, ld) or None
        Constraints as scores of 0 or -inf: first labels, last labels.
    pairs : sparse array of shape (n_labels, n_labels)
        Transitions, from -> to; -inf for forbidden pairs.
    """

    def __init__(self, X, emission, intercept, start, end, transitions=None, mask=None,
                 forbidden_labels=None, feature_scale=1.0, *, pairs):
        super().__init__(X, emission, intercept, start, end, None, mask,
                         forbidden_labels, feature_scale)
        self._transitions = SparseTransitions.of_table(pairs)
        # a best score of -inf is an error in chains without constraints
        self.is_constrained = (
            self._constraints.exist or bool((pairs.data == -np.inf).any()))

    @staticmethod
    def of_flat(X, weights, transitions, mask=None, forbidden_labels=None,
                feature_scale=1.0):
        """Return the chain with weights in one array of shape (n_features + 3, ld)."""
        tail = weights[X.n_features:, :transitions.shape[0]]
        return SparseChain(X, weights[:X.n_features], *tail, None, mask,
                           forbidden_labels, feature_scale, pairs=transitions)

    cdef double _augment(self, Py_ssize_t i, const int32_t* y_true,
                         const double* costs, double* theta) noexcept nogil:
        """Add the cost of wrong labels to theta; return the score of y_true.

        Adding the cost to all labels but the observed one equals subtracting it from
        the observed one, up to a constant that all labelings share. The returned score
        contains this constant, and `decode` subtracts it.
        """
        cdef Py_ssize_t size = self._offsets[i + 1] - self._offsets[i], t
        cdef double observed = 0.0
        cdef double* gain
        # the first position has no incoming edge
        for t in range(size):
            gain = theta + t * self.ld + y_true[t]
            observed += gain[0] - costs[t]
            gain[0] -= costs[t]
            if t:
                observed += self._transitions.score(y_true[t - 1], y_true[t])
        return observed

    def workspace(self, weights=None, training=False):
        """Return None: `decode` has its own workspace."""
        # callers request a workspace from every kind of chain
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
            Overwritten with the scores of these labels, or with max_y L_i(y) + score(y)
            - score(y_i) if observed labels are given.
        y_true : ndarray of shape (n_positions,), int32, default=None
            Observed labels.
        costs : ndarray of shape (n_positions,), default=None
            Loss of missing the observed label of each position.
        """
        cdef Py_ssize_t i, first, longest = self._longest(start, stop)
        cdef bint augmented = y_true is not None
        cdef double observed = 0.0
        # threads call this method in parallel: each call allocates its scratch
        cdef double[::1] theta = aligned_zeros(longest * self.ld)
        cdef ViterbiScratch scratch = ViterbiScratch(longest, self.ld)
        with nogil:
            for i in range(start, stop):
                first = self._offsets[i]
                self._unary_scores(i, &theta[0])
                # `_augment` changes theta: scores without the loss are not needed again
                if augmented:
                    observed = self._augment(i, &y_true[first], &costs[first],
                                             &theta[0])
                scores[i] = self._transitions.decode(
                    scratch, self._offsets[i + 1] - first, self.ld, &theta[0],
                    &labels[first]) - observed
