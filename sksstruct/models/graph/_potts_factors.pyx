"""Edges that score equal labels, as factors; see `_factors.pyx`.

Outcome (a, b) of an edge is the entry a K + b. With messages r and c the best outcome
is that of equal labels with a message at one end, or of any without, or it joins one of
the two best labels of each end.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.models.graph._factors cimport GraphFactors
from sksstruct.models.protocols._factors cimport Messages, Outcome
from sksstruct.models.tables._feature_rows cimport FeatureRows

from sksstruct.factor_graphs import Potts
from sksstruct.models.graph._factors import edge_features


cdef class PottsFactors(GraphFactors):
    """Edges that score equal labels, by their features: indicator factors."""

    # a row of features for each edge, and their weights
    cdef FeatureRows _edge_features
    cdef double[::1] _edge_weights

    def __init__(self, graphs):
        self._edge_features = edge_features(graphs.edge_rows)
        GraphFactors.__init__(self, graphs)
        # pairs of labels are numbered
        if self.n_labels > 46340:
            raise ValueError(
                f"{self.n_labels} labels are more than 32-bit indices of their pairs "
                "can tell apart; at most 46340 can be")

    def start(self):
        # one too many, so that no features at all are no empty buffer
        self._edge_weights = np.zeros(self.edge_rows.shape[1] + 1)
        self.start_rows()

    def edge_weights(self):
        return np.array(self._edge_weights[:self.edge_rows.shape[1]])

    def changes(self, pairs, left, right, amounts):
        equal = left == right
        by_edge = np.bincount(pairs[equal], amounts[equal], minlength=self.n_pairs)
        return self.edge_rows.T @ by_edge

    def edge_tables(self, edge_coef):
        table, weights = Potts(self.n_labels), self.edge_rows @ edge_coef
        return lambda start, stop: (
            [table], np.zeros(stop - start, dtype=np.intp), weights[start:stop])

    cdef double _equal_score(self, Py_ssize_t pair) noexcept nogil:
        """Return what equal labels score."""
        return self._edge_features.column_score(pair, &self._edge_weights[0], 1)

    cdef int find_pair(self, Py_ssize_t pair, bint linear, const Messages* messages,
                       double floor, Outcome* outcome) except -1 nogil:
        cdef double equal = self._equal_score(pair)
        outcome.value = floor
        self._tell(messages)
        if linear:
            self._scan(equal, outcome)
        else:
            self._search(equal, messages, outcome)
        self._forget(messages)
        return outcome.value > floor

    cdef void _offer(self, Py_ssize_t first, Py_ssize_t second, double score,
                     Outcome* outcome) noexcept nogil:
        """Take an outcome, of which the score without messages is given, if best."""
        cdef double value = score + self._told[0, first] + self._told[1, second]
        self.visited += 1
        if value > outcome.value:
            outcome.value = value
            outcome.labels[0], outcome.labels[1] = <int32_t> first, <int32_t> second

    cdef void _scan(self, double equal, Outcome* outcome) noexcept nogil:
        """Look at all outcomes."""
        cdef Py_ssize_t a, b
        for a in range(self.n_labels):
            for b in range(self.n_labels):
                self._offer(a, b, equal if a == b else 0.0, outcome)

    cdef void _search(self, double equal, const Messages* messages,
                      Outcome* outcome) noexcept nogil:
        """Look at the outcomes that may be best."""
        cdef Py_ssize_t best[2][2]
        cdef Py_ssize_t k, j, silent = 0
        cdef int side
        # equal labels: those with a message, and one without
        for side in range(2):
            for k in range(messages[side].size):
                self._offer(messages[side].labels[k], messages[side].labels[k], equal,
                            outcome)
        while silent < self.n_labels and (
                is_told(&messages[0], silent) or is_told(&messages[1], silent)):
            silent += 1
        if silent < self.n_labels:
            self._offer(silent, silent, equal, outcome)
        # different ones: of the two best at each end, as the best may be the same
        for side in range(2):
            self._two_best(side, &messages[side], best[side])
        for k in range(2):
            for j in range(2):
                if best[0][k] != best[1][j] and min(best[0][k], best[1][j]) >= 0:
                    self._offer(best[0][k], best[1][j], 0.0, outcome)

    cdef void _two_best(self, int side, const Messages* messages,
                        Py_ssize_t* best) noexcept nogil:
        """Write the two labels of an end with the largest messages; -1 for none."""
        cdef Py_ssize_t k, label = 0, unnamed = 0
        best[0] = best[1] = -1
        for k in range(messages.size):
            self._rank(side, messages.labels[k], best)
        # labels without a message have zero, and all alike: two of them are enough
        while label < self.n_labels and unnamed < 2:
            if not is_told(messages, label):
                self._rank(side, label, best)
                unnamed += 1
            label += 1

    cdef void _rank(self, int side, Py_ssize_t label, Py_ssize_t* best) noexcept nogil:
        """Put a label among the two best of an end."""
        cdef double told = self._told[side, label]
        if best[0] < 0 or told > self._told[side, best[0]]:
            best[0], best[1] = label, best[0]
        elif best[1] < 0 or told > self._told[side, best[1]]:
            best[1] = label

    cdef Py_ssize_t entry(self, Py_ssize_t pair, Py_ssize_t first_label,
                          Py_ssize_t second_label) except -1 nogil:
        return first_label * self.n_labels + second_label

    cdef int pair_scores(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                         double* scores, double* norms) except -1 nogil:
        cdef double equal = self._equal_score(pair)
        cdef Py_ssize_t k
        self.visited += n
        for k in range(n):
            # different labels have no features
            scores[k] = norms[k] = 0.0
            if are_equal(entries[k], self.n_labels):
                scores[k], norms[k] = equal, self._edge_norms[pair]
        return 0

    cdef int add_pairs(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil:
        cdef Py_ssize_t k
        cdef double change = 0.0
        for k in range(n):
            if are_equal(entries[k], self.n_labels):
                change += changes[k]
        if change != 0.0:
            self._edge_features.add_to_column(pair, change, &self._edge_weights[0], 1)
        return 0


cdef inline bint are_equal(int32_t entry, Py_ssize_t n_labels) noexcept nogil:
    """Whether an entry is of two equal labels, where rows are not padded."""
    return entry // n_labels == entry % n_labels


cdef inline bint is_told(const Messages* messages, Py_ssize_t label) noexcept nogil:
    """Whether a label has a message."""
    cdef Py_ssize_t k
    for k in range(messages.size):
        if messages.labels[k] == label:
            return True
    return False
