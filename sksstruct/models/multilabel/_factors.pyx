"""Label sets as factors: the data and weights of block-greedy coordinate descent.

The score is that of `_multilabel.pyx`: label j of example i scores <w_j, x_i>, and a
pair of labels that are both on scores `scaling` times a weight of its own. Flat weights
are those of `_multilabel.pyx` too. In between they are kept label by label where
features are dense, so that a step for one label runs along its weights.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.models.protocols._factors cimport (
    BinaryFactorModel, FactorModel, Messages, Outcome, pair_score,
)
from sksstruct.models.tables._feature_rows cimport FeatureRows

from sksstruct.models.protocols._factors import feature_weights
from sksstruct.utils._layout import padded_length
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.parallel import run_in_chunks


cdef class MultilabelFactors(BinaryFactorModel):
    """Features of label sets, and the weights that are trained.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_examples, n_features), float64
        Features, a column of ones for the bias included.
    Y : ndarray of shape (n_examples, n_labels)
        Observed labels, 0 or 1.
    pairs : ndarray of shape (n_pairs, 2)
        Pairs of labels.
    example_weights : ndarray of shape (n_examples,)
        The p_i.
    scaling : float
        Factor of the pairs' feature.
    relaxed : BoundTable
        The same problem with its LP oracle, for the objective.
    """

    cdef readonly Py_ssize_t n_features, ld
    cdef FeatureRows _rows
    cdef object _weights, _relaxed
    cdef const double[::1] _norms
    # the weights, and the steps from feature to feature and from label to label
    cdef double* _first_weight
    cdef Py_ssize_t _feature_step, _label_step

    def __init__(self, X, Y, pairs, example_weights, double scaling, relaxed):
        self.set_factors(pairs, Y, example_weights, scaling)
        # examples are sequences of one position, whose features are one row
        packed = PackedSequences.from_lengths(X, np.ones(X.shape[0], dtype=np.intp))
        self._rows = FeatureRows(packed)
        self.n_features, self.ld = X.shape[1], padded_length(self.n_labels)
        squares = X.multiply(X) if self._rows.sparse else X * X
        self._norms = np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
        # for the objective, and the layout of flat weights
        self._relaxed = relaxed
        self.start()

    def start(self):
        self._weights = feature_weights(
            self.n_features, self.n_labels, self._rows.sparse)
        self._feature_step = self._weights.strides[0] // 8
        self._label_step = self._weights.strides[1] // 8
        self._first_weight = <double*> <size_t> self._weights.ctypes.data
        # one too many, so that no pairs at all are no empty buffer
        self._pair_weights = np.zeros(self.n_pairs + 1)
        self.visited = 0

    def weights(self):
        """Return flat weights, in the layout of the model with the LP oracle."""
        # the other layout has paddings of its own, which stay zero
        out = np.zeros(self._relaxed.n_weights)
        views = self._relaxed.views(out)
        views["coef"][...] = self._weights[:, :self.n_labels].T
        views["pair_coef"][...] = self.pair_weights()
        return out

    def views(self, weights):
        """Return named views of flat weights."""
        return self._relaxed.views(weights)

    def graph(self):
        """Return the model as variables of two labels, and pairs of them."""
        return MultilabelGraph(self)

    def maxima(self, weights, n_jobs=None):
        """Return the mean relaxed max_y L_i(y) + <w, phi(y) - phi(y_i)>."""
        # exact oracles of pairs are hard: the objective is that of the relaxation,
        # which is what the dual belongs to
        model = self._relaxed
        values = np.empty(self.n_examples)

        def sweep(start, stop):
            model.hinge(model.workspace(weights), start, stop, values)

        run_in_chunks(sweep, self.n_examples, n_jobs)
        return float(self.example_weights @ values)

    def square_with(self, changes):
        """Return |w|^2 after changes of the pairs' weights."""
        pairs = self.pair_weights() + changes
        labels = self._weights[:, :self.n_labels]
        return float((labels ** 2).sum()) + float(pairs @ pairs)

    # ---- labels ----

    cdef int label_scores(self, Py_ssize_t i, Py_ssize_t low, Py_ssize_t high,
                          double* scores) except -1 nogil:
        cdef Py_ssize_t j, size = (high - low + 7) // 8 * 8
        self.visited += high - low
        # label by label where their weights lie in a row, else all at once
        if self._feature_step == 1:
            for j in range(low, high):
                scores[j - low] = self.label_score(i, j)
            return 0
        # whole vectors, up to the padding, which weights have and callers leave
        size = size if low + size < self.ld else self.ld - low
        for j in range(size):
            scores[j] = 0.0
        self._rows.scores_of_part(
            i, self._first_weight + low, self.ld, size, scores, scores)
        return 0

    cdef double label_score(self, Py_ssize_t i, Py_ssize_t label) noexcept nogil:
        return self._rows.column_score(
            i, self._first_weight + label * self._label_step, self._feature_step)

    cdef int add_label(self, Py_ssize_t i, Py_ssize_t label,
                       double change) except -1 nogil:
        self._rows.add_to_column(
            i, change, self._first_weight + label * self._label_step,
            self._feature_step)
        return 0

    cdef double label_norm(self, Py_ssize_t i) noexcept nogil:
        return self._norms[i]


cdef class MultilabelGraph(FactorModel):
    """The same labels as variables of two labels each, and all pairs as factors.

    Algorithms 2 and 4 use it; they are not made for many pairs. With L labels and P
    pairs, variable i L + j is label j of example i, and pair i P + e its pair e.
    Outcome (a, b) of pair f is the entry 4 f + 2 a + b. Only (1, 1) has a weight, which
    all examples share.

    Parameters
    ----------
    labels : MultilabelFactors
        Features, observed labels and weights.
    """

    cdef readonly MultilabelFactors labels

    def __init__(self, MultilabelFactors labels):
        cdef Py_ssize_t n = labels.n_examples, L = labels.n_labels, P = labels.n_pairs
        # entries are kept as int32
        if 4 * n * P >= 2**31:
            raise ValueError(
                f"{n} examples of {P} pairs are too many for this update; use "
                "update='bgcd'")
        self.labels = labels
        # every example has the same pairs, between labels of its own; a wrong label
        # costs one
        firsts = np.arange(n) * L
        self.set_factors(
            np.arange(n + 1) * L, np.arange(n + 1) * P,
            (firsts[:, None, None] + labels.pairs[None]).reshape(-1, 2),
            np.asarray(labels._y_true).ravel(), np.ones(n * L),
            labels.example_weights, 2)
        # the feature of a pair is not one, but the scaling
        self.pair_norm = labels.scaling ** 2

    # ---- weights, which are those of the labels ----

    def start(self):
        self.labels.start()
        self.visited = 0

    def weights(self):
        return self.labels.weights()

    def views(self, weights):
        """Return named views of flat weights."""
        return self.labels.views(weights)

    def maxima(self, weights, n_jobs=None, multipliers=None):
        return self.labels.maxima(weights, n_jobs)

    def work_of_maxima(self):
        return self.labels.work_of_maxima()

    def square_with(self, pairs, left, right, amounts):
        # of four outcomes one has a weight, and pairs of all examples share it
        both = (left == 1) & (right == 1)
        changes = np.bincount(pairs[both] % max(self.labels.n_pairs, 1),
                              self.labels.scaling * amounts[both],
                              minlength=self.labels.n_pairs)
        return self.labels.square_with(changes)

    # ---- unigram factors ----

    cdef int find_label(
        self, Py_ssize_t variable, double part, Py_ssize_t n, const int32_t* labels,
        double floor, int32_t* label, double* value
    ) except -1 nogil:
        cdef double score
        # of the two labels one is always active, and the other may be asked for
        cdef int32_t other = 1 - labels[0]
        if n == 2:
            return 0
        self.visited += 1
        # a label that is off has no features
        score = self._score(variable) if other else 0.0
        score += other != self._y_true[variable]
        if score <= floor:
            return 0
        label[0], value[0] = other, score
        return 1

    cdef double _score(self, Py_ssize_t variable) noexcept nogil:
        """Score of a label that is on; one that is off scores zero."""
        return self.labels.label_score(
            variable // self.labels.n_labels, variable % self.labels.n_labels)

    cdef int label_scores(self, Py_ssize_t variable, Py_ssize_t n,
                          const int32_t* labels, double* scores) except -1 nogil:
        cdef Py_ssize_t k
        self.visited += n
        for k in range(n):
            scores[k] = self._score(variable) if labels[k] else 0.0
        return 0

    cdef int add_labels(self, Py_ssize_t variable, Py_ssize_t n,
                        const int32_t* labels, const double* changes) except -1 nogil:
        cdef Py_ssize_t k
        # of the two changes, which sum to zero, the one of the label that is on counts
        for k in range(n):
            if labels[k] and changes[k] != 0.0:
                self.labels.add_label(
                    variable // self.labels.n_labels, variable % self.labels.n_labels,
                    changes[k])
        return 0

    cdef double label_norm(self, Py_ssize_t variable) noexcept nogil:
        return self.labels.label_norm(variable // self.labels.n_labels)

    # ---- bigram factors ----

    cdef double _entry_score(self, Py_ssize_t entry) noexcept nogil:
        # (1, 1) is the last of the four
        if entry % 4 < 3:
            return 0.0
        return pair_score(self.labels, (entry // 4) % self.labels.n_pairs)

    cdef int find_pair(self, Py_ssize_t pair, bint linear, const Messages* messages,
                       double floor, Outcome* outcome) except -1 nogil:
        # messages by label, off and on, of the two ends
        cdef double told[2][2]
        cdef double score
        cdef Py_ssize_t k, code
        cdef int side, found = 0
        # labels that are not active have none
        for side in range(2):
            told[side][0] = told[side][1] = 0.0
            for k in range(messages[side].size):
                told[side][messages[side].labels[k]] = messages[side].values[k]
        # four outcomes are looked at one by one, whatever the oracle
        outcome.value = floor
        self.visited += 4
        for code in range(4):
            score = (told[0][code // 2] + told[1][code % 2]
                     + self._entry_score(4 * pair + code))
            if score > outcome.value:
                outcome.value, found = score, 1
                outcome.labels[0] = <int32_t> (code // 2)
                outcome.labels[1] = <int32_t> (code % 2)
        return found

    cdef Py_ssize_t entry(self, Py_ssize_t pair, Py_ssize_t first_label,
                          Py_ssize_t second_label) except -1 nogil:
        return 4 * pair + 2 * first_label + second_label

    cdef int pair_scores(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                         double* scores, double* norms) except -1 nogil:
        cdef Py_ssize_t k
        self.visited += n
        for k in range(n):
            scores[k] = self._entry_score(entries[k])
            # the other outcomes have no features
            norms[k] = self.pair_norm if entries[k] % 4 == 3 else 0.0
        return 0

    cdef int add_pairs(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil:
        cdef Py_ssize_t k
        for k in range(n):
            # the weight of a pair is that of all examples
            if entries[k] % 4 == 3:
                self.labels._pair_weights[(entries[k] // 4) % self.labels.n_pairs] += (
                    self.labels.scaling * changes[k])
        return 0
