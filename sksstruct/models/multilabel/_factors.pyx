"""Label sets as factors: the data and weights of block-greedy coordinate descent.

The score is that of `_multilabel.pyx`: label j of example i scores <w_j, x_i>, and a
pair of labels that are both on scores `scaling` times the weight of the pair. Flat
weights have the layout of `_multilabel.pyx`. During training, the weights are stored
label by label if features are dense, so that a step for one label reads one row.
"""

from libc.stdint cimport int32_t

from sksstruct.models.protocols._factors cimport (
    BinaryFactorModel, FactorModel, Messages, Outcome, pair_score,
)
from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.utils._pointers cimport const_doubles


cdef class LabelKernel(BinaryFactorModel):
    """Scores of labels; `MultilabelFactors` sets them up."""

    cdef readonly Py_ssize_t ld
    cdef FeatureRows _rows
    # own the memory whose addresses are stored below
    cdef object _squares, _weights
    cdef const double* _norms
    # address of the first weight; distances between the weights of neighboring features
    # and of neighboring labels
    cdef double* _first_weight
    cdef Py_ssize_t _feature_step, _label_step

    def set_rows(self, FeatureRows rows, squares, Py_ssize_t ld):
        """Set features, and the squared norm of each row of them."""
        self._rows, self._squares, self.ld = rows, squares, ld
        self._norms = const_doubles(squares)

    def set_weights(self, weights, double[::1] pair_weights):
        """Set the weights that steps change."""
        self._weights, self._pair_weights = weights, pair_weights
        self._feature_step, self._label_step = (
            weights.strides[0] // 8, weights.strides[1] // 8)
        # the address is read directly, since `doubles` rejects the weights of dense
        # features: they have a row for each label, with padding, and are not contiguous
        self._first_weight = <double*> <size_t> weights.ctypes.data
        self.visited = 0

    cdef int label_scores(self, Py_ssize_t i, Py_ssize_t low, Py_ssize_t high,
                          double* scores) except -1 nogil:
        cdef Py_ssize_t j, size = (high - low + 7) // 8 * 8
        self.visited += high - low
        # labels one by one if the weights of a label are contiguous
        if self._feature_step == 1:
            for j in range(low, high):
                scores[j - low] = self.label_score(i, j)
            return 0
        # else all labels at once, in whole vectors within the padding of the weights
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


cdef class PairKernel(FactorModel):
    """Scores of labels and pairs; `MultilabelGraph` sets them up."""

    cdef readonly LabelKernel labels

    def set_labels(self, LabelKernel labels):
        """Set the kernel that has the weights; call `set_factors` first."""
        self.labels = labels
        # the feature of a pair has the value `scaling`
        self.pair_norm = labels.scaling ** 2

    def start(self):
        self.labels.start()
        self.visited = 0

    # ---- unigram factors ----

    cdef int find_label(
        self, Py_ssize_t variable, double part, Py_ssize_t n, const int32_t* labels,
        double floor, int32_t* label, double* value
    ) except -1 nogil:
        cdef double score
        # one of the two states of a label is always active: only the other one can be
        # found
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
        """Score of a label that is on; the score of a label that is off is zero."""
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
        # the changes of states off and on sum to zero; only the state on has weights
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
        # only (1, 1), the last of four outcomes, has a score
        if entry % 4 < 3:
            return 0.0
        return pair_score(self.labels, (entry // 4) % self.labels.n_pairs)

    cdef int find_pair(self, Py_ssize_t pair, bint linear, const Messages* messages,
                       double floor, Outcome* outcome) except -1 nogil:
        # for each end, the messages to its label if it is off, and if it is on
        cdef double incoming[2][2]
        cdef double score
        cdef Py_ssize_t k, code
        cdef int side, found = 0
        # the message of a label that is not active is zero
        for side in range(2):
            incoming[side][0] = incoming[side][1] = 0.0
            for k in range(messages[side].size):
                incoming[side][messages[side].labels[k]] = messages[side].values[k]
        # there are only four outcomes, so that all are compared, whatever `linear` is
        outcome.value = floor
        self.visited += 4
        for code in range(4):
            score = (incoming[0][code // 2] + incoming[1][code % 2]
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
            # outcomes other than (1, 1) have no features
            norms[k] = self.pair_norm if entries[k] % 4 == 3 else 0.0
        return 0

    cdef int add_pairs(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil:
        cdef Py_ssize_t k
        for k in range(n):
            # all examples share the weight of a pair
            if entries[k] % 4 == 3:
                self.labels._pair_weights[(entries[k] // 4) % self.labels.n_pairs] += (
                    self.labels.scaling * changes[k])
        return 0
