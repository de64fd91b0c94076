"""Label sets as factors: the data and weights of block-greedy coordinate descent.

The score is that of `_multilabel.pyx`, and so are the flat weights. In between they are
kept label by label where features are dense, so that a step for one label runs along
its weights.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.models.protocols._factors cimport BinaryFactorModel, FactorModel
from sksstruct.models.tables._feature_rows cimport FeatureRows

from sksstruct.utils._layout import aligned_zeros, padded_length
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
    relaxed : BoundMultilabel
        The same problem with its LP oracle, for the objective.
    """

    cdef readonly Py_ssize_t n_features, ld
    cdef FeatureRows _rows
    cdef object _weights, _relaxed
    cdef const double[::1] _norms
    cdef double* _w
    cdef Py_ssize_t _step, _label_step

    def __init__(self, X, Y, pairs, example_weights, double scaling, relaxed):
        self.set_factors(pairs, Y, example_weights, scaling)
        packed = PackedSequences.from_lengths(X, np.ones(X.shape[0], dtype=np.intp))
        self._rows = FeatureRows(packed)
        self.n_features, self.ld = X.shape[1], padded_length(self.n_labels)
        squares = X.multiply(X) if self._rows.sparse else X * X
        self._norms = np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
        self._relaxed = relaxed
        self.start()

    def start(self):
        # as in `_multilabel.pyx`, one label being a block of one column
        d, ld = self.n_features, self.ld
        if self._rows.sparse:
            self._weights = aligned_zeros(d * ld).reshape(d, ld)
            self._step, self._label_step = ld, 1
        else:
            self._step, self._label_step = 1, padded_length(d)
            self._weights = aligned_zeros(ld * self._label_step)
            self._weights = self._weights.reshape(ld, -1)[:, :d].T
        self._w = <double*> <size_t> self._weights.ctypes.data
        self._pair_weights = np.zeros(self.n_pairs + 1)
        self.visited = 0

    def weights(self):
        """Flat weights, in the layout of the model with the LP oracle."""
        out = np.zeros(self._relaxed.n_weights)
        views = self._relaxed.views(out)
        views["coef"][...] = self._weights[:, :self.n_labels].T
        views["pair_coef"][...] = self.pair_weights()
        return out

    def views(self, w):
        """Named views of flat weights."""
        return self._relaxed.views(w)

    def graph(self):
        """The same as variables of two labels and pairs of them."""
        return MultilabelGraph(self)

    def maxima(self, weights, n_jobs=None):
        """Mean over the examples of the relaxed max_y L_i(y) + <w, phi(y) - phi(y_i)>.
        """
        model = self._relaxed
        values = np.empty(self.n_examples)
        run_in_chunks(
            lambda a, b: model.hinge(model.workspace(weights), a, b, values),
            self.n_examples, n_jobs)
        return float(self.example_weights @ values)

    def square_with(self, changes):
        """|w|^2 after changes of the pairs' weights."""
        pairs = self.pair_weights() + changes
        labels = self._weights[:, :self.n_labels]
        return float((labels ** 2).sum()) + float(pairs @ pairs)

    cdef int scores(self, Py_ssize_t i, Py_ssize_t low, Py_ssize_t high,
                    double* out) except -1 nogil:
        cdef Py_ssize_t j, whole = (high - low + 7) // 8 * 8
        self.visited += high - low
        if self._step == 1:
            for j in range(low, high):
                out[j - low] = self.score(i, j)
            return 0
        # whole vectors, for which weights and scores have room
        whole = whole if low + whole < self.ld else self.ld - low
        for j in range(whole):
            out[j] = 0.0
        self._rows.scores_of_part(i, self._w + low, self.ld, whole, out, out)
        return 0

    cdef double score(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
        return self._rows.column_score(i, self._w + j * self._label_step, self._step)

    cdef int add(self, Py_ssize_t i, Py_ssize_t j, double change) except -1 nogil:
        self._rows.add_to_column(i, change, self._w + j * self._label_step, self._step)
        return 0

    cdef double norm(self, Py_ssize_t i) noexcept nogil:
        return self._norms[i]


cdef class MultilabelGraph(FactorModel):
    """The same labels as variables of two labels each, and all pairs as factors.

    For the updates that are not made for many pairs; pairs of labels (a, b) of factor f
    are the entries 4 f + 2 a + b, of which the last has a weight.

    Parameters
    ----------
    labels : MultilabelFactors
        Features, observed labels and weights.
    """

    cdef readonly MultilabelFactors labels

    def __init__(self, MultilabelFactors labels):
        cdef Py_ssize_t n = labels.n_examples, L = labels.n_labels, P = labels.n_pairs
        if 4 * n * P >= 2**31:
            raise ValueError(
                f"{n} examples of {P} pairs are too many for this update; use "
                "update='bgcd'")
        self.labels = labels
        firsts = np.arange(n) * L
        self.set_factors(
            np.arange(n + 1) * L, np.arange(n + 1) * P,
            (firsts[:, None, None] + labels.pairs[None]).reshape(-1, 2),
            np.asarray(labels._y_true).ravel(), np.ones(n * L),
            labels.example_weights, 2)
        self.pair_norm = labels.scaling ** 2

    def start(self):
        self.labels.start()
        self.visited = 0

    def weights(self):
        return self.labels.weights()

    def views(self, w):
        """Named views of flat weights."""
        return self.labels.views(w)

    def maxima(self, weights, n_jobs=None):
        return self.labels.maxima(weights, n_jobs)

    def work_of_maxima(self):
        return self.labels.work_of_maxima()

    def square_with(self, pairs, left, right, amounts):
        both = (left == 1) & (right == 1)
        changes = np.bincount(pairs[both] % max(self.labels.n_pairs, 1),
                              self.labels.scaling * amounts[both],
                              minlength=self.labels.n_pairs)
        return self.labels.square_with(changes)

    cdef int find_label(
        self, Py_ssize_t v, double part, Py_ssize_t n, const int32_t* labels,
        double floor, int32_t* label, double* value
    ) except -1 nogil:
        cdef double score
        cdef int32_t other = 1 - labels[0]
        if n == 2:
            return 0
        self.visited += 1
        score = self._score(v) if other else 0.0
        if score + (other != self._y_true[v]) <= floor:
            return 0
        label[0], value[0] = other, score + (other != self._y_true[v])
        return 1

    cdef double _score(self, Py_ssize_t v) noexcept nogil:
        return self.labels.score(v // self.labels.n_labels, v % self.labels.n_labels)

    cdef int label_scores(self, Py_ssize_t v, Py_ssize_t n, const int32_t* labels,
                          double* out) except -1 nogil:
        cdef Py_ssize_t k
        self.visited += n
        for k in range(n):
            out[k] = self._score(v) if labels[k] else 0.0
        return 0

    cdef int add_labels(self, Py_ssize_t v, Py_ssize_t n, const int32_t* labels,
                        const double* changes) except -1 nogil:
        cdef Py_ssize_t k
        for k in range(n):
            if labels[k] and changes[k] != 0.0:
                self.labels.add(v // self.labels.n_labels, v % self.labels.n_labels,
                                changes[k])
        return 0

    cdef double label_norm(self, Py_ssize_t v) noexcept nogil:
        return self.labels.norm(v // self.labels.n_labels)

    cdef double _entry_score(self, Py_ssize_t entry) noexcept nogil:
        if entry % 4 < 3:
            return 0.0
        return self.labels.scaling * self.labels._pair_weights[
            (entry // 4) % self.labels.n_pairs]

    cdef int find_pair(
        self, Py_ssize_t f, bint linear, Py_ssize_t n, const int32_t* left,
        const double* left_messages, Py_ssize_t m, const int32_t* right,
        const double* right_messages, double floor, int32_t* a, int32_t* b,
        double* value
    ) except -1 nogil:
        cdef double first[2]
        cdef double second[2]
        cdef double score
        cdef Py_ssize_t k, code
        cdef int found = 0
        first[0] = first[1] = second[0] = second[1] = 0.0
        for k in range(n):
            first[left[k]] = left_messages[k]
        for k in range(m):
            second[right[k]] = right_messages[k]
        value[0] = floor
        self.visited += 4
        for code in range(4):
            score = (first[code // 2] + second[code % 2]
                     + self._entry_score(4 * f + code))
            if score > value[0]:
                value[0], found = score, 1
                a[0], b[0] = <int32_t> (code // 2), <int32_t> (code % 2)
        return found

    cdef Py_ssize_t entry(self, Py_ssize_t f, Py_ssize_t a,
                          Py_ssize_t b) except -1 nogil:
        return 4 * f + 2 * a + b

    cdef int pair_scores(self, Py_ssize_t n, const int32_t* entries, double* out,
                         double* norms) except -1 nogil:
        cdef Py_ssize_t k
        self.visited += n
        for k in range(n):
            out[k] = self._entry_score(entries[k])
            norms[k] = self.pair_norm if entries[k] % 4 == 3 else 0.0
        return 0

    cdef int add_pairs(self, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil:
        cdef Py_ssize_t k
        for k in range(n):
            if entries[k] % 4 == 3:
                self.labels._pair_weights[(entries[k] // 4) % self.labels.n_pairs] += (
                    self.labels.scaling * changes[k])
        return 0
