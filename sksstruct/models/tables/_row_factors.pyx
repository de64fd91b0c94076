"""Variables with rows of features as factors with inner-product scores.

The scores of the labels of variable v are the products of its row of features with the
weights of each label, plus a bias, plus weights of up to two marks. A mark is a feature
that is one for some variables. The bias and the two marks are the last three features.

Subclasses add pairs of variables.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.models.protocols._factors cimport FactorModel
from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.utils._simd cimport sks_axpy, sks_max

from sksstruct.models.protocols._factors import feature_weights
from sksstruct.models.scale import row_squares
from sksstruct.utils._layout import aligned_zeros, padded_length

# Score of a forbidden label: finite, so that its product with a probability of zero is
# zero, and too low for any multipliers to compensate.
cdef double LEAST_SCORE = -1e100


cdef class RowFactors(FactorModel):
    """Base class of models of variables with rows of features."""

    def set_rows(self, X, bint fit_intercept, marks, double scale=1.0):
        """Set the features of the variables; call `set_factors` first.

        Parameters
        ----------
        X : PackedSequences
            Features of the variables.
        fit_intercept : bool
            Whether labels have a bias.
        marks : ndarray of shape (n_variables,), uint8
            Bits 1 and 2: whether a variable has the first and the second mark.
        scale : float
            Factor of all features.
        """
        self.fit_intercept = fit_intercept
        self.n_features, self.ld = X.n_features, padded_length(self.n_labels)
        self._rows, self._packed, self._marks = FeatureRows(X, scale=scale), X, marks
        norms = scale * scale * row_squares(X.values)
        # the bias and the marks are features that are one
        self._norms = norms + fit_intercept + (marks & FIRST_MARK) + (marks >> 1)
        # no labels are forbidden until `forbid_labels` is called
        self._label_mask = self._masked = None
        # a search visits all labels until `set_partition` divides them into parts
        self.width = self.ld

    def forbid_labels(self, mask, marks):
        """Forbid labels of some variables; called once, if at all.

        Parameters
        ----------
        mask : ndarray of shape (2, ld)
            0 for allowed labels, -inf for forbidden ones: a row for variables with the
            first mark, and a row for variables with the second mark.
        marks : ndarray of shape (n_variables,), uint8
            Bits 1 and 2: whether a variable has the first and the second of these
            marks.
        """
        self._label_mask, self._masked = mask, marks
        self.constrained = True

    def set_partition(self, n_parts):
        # parts are whole vectors of labels, as scores are computed in SIMD vectors
        step = 4 if self.ld == 4 else 8
        self.width = min(-(-self.ld // (n_parts * step)) * step, self.ld)
        # parts of padding alone are not counted
        return (self.n_labels + self.width - 1) // self.width

    def start_rows(self):
        """Set the weights of the labels to zero."""
        cdef double[::1] scores
        # the bias and the two marks are the last three features
        self._weights = feature_weights(
            self.n_features + 3, self.n_labels, self._rows.sparse)
        self._feature_step = self._weights.strides[0] // 8
        self._label_step = self._weights.strides[1] // 8
        self._first_weight = <double*> <size_t> self._weights.ctypes.data
        # one row of scratch is enough, as visits do not run in parallel
        self._buffer = aligned_zeros(self.ld)
        scores = self._buffer
        self._scores = &scores[0]
        self.visited = 0

    # ---- unigram factors ----

    cdef int find_label(
        self, Py_ssize_t variable, double part, Py_ssize_t n, const int32_t* labels,
        double floor, int32_t* label, double* value
    ) except -1 nogil:
        cdef Py_ssize_t low = 0, high = self.ld, k, n_parts
        cdef double* scores = self._scores
        cdef double best
        # the last part of the labels may be shorter
        if part >= 0.0 and self.width < self.ld:
            n_parts = (self.n_labels + self.width - 1) // self.width
            low = <Py_ssize_t> (part * n_parts) * self.width
            high = low + self.width if low + self.width < self.ld else self.ld
        self._score_part(variable, low, high)
        # active labels are left out: the caller adds messages to their scores
        for k in range(n):
            if low <= labels[k] < high:
                scores[labels[k] - low] = -INFINITY
        self.visited += high - low
        # the maximum is computed in SIMD vectors first: few calls need its index
        best = sks_max(high - low, scores)
        # negated, so that NaN counts as not above the floor
        if not best + self._cost[variable] > floor:
            return 0
        value[0] = best + self._cost[variable]
        k = 0
        while scores[k] != best:
            k += 1
        label[0] = <int32_t> (low + k)
        return 1

    cdef int _score_part(self, Py_ssize_t variable, Py_ssize_t low,
                         Py_ssize_t high) except -1 nogil:
        """Write the scores of labels low <= k < high to `_scores`; -inf in padding."""
        cdef Py_ssize_t ld = self.ld, k
        cdef double* scores = self._scores
        cdef double* weights
        # label by label if the weights of a label are consecutive, otherwise in vectors
        # of labels
        if self._feature_step == 1:
            for k in range(low, high):
                scores[k - low] = self._score(variable, k)
        else:
            weights = self._first_weight + low
            self._rows.scores_of_part(
                variable, weights, ld, high - low, weights + self.n_features * ld,
                scores)
            weights += (self.n_features + 1) * ld
            if self._marks[variable] & FIRST_MARK:
                sks_axpy(high - low, 1.0, weights, scores)
            if self._marks[variable] & SECOND_MARK:
                sks_axpy(high - low, 1.0, weights + ld, scores)
        # weights of the padding are zero, but a score of zero could be the maximum
        for k in range(self.n_labels, high):
            scores[k - low] = -INFINITY
        if self._masked is not None:
            if self._masked[variable] & FIRST_MARK:
                sks_axpy(high - low, 1.0, &self._label_mask[0, low], scores)
            if self._masked[variable] & SECOND_MARK:
                sks_axpy(high - low, 1.0, &self._label_mask[1, low], scores)
        return 0

    cdef bint _forbids(self, Py_ssize_t variable, Py_ssize_t label) noexcept nogil:
        """Return whether a variable must not have a label."""
        if self._masked is None:
            return False
        return ((self._masked[variable] & FIRST_MARK
                 and self._label_mask[0, label] < 0.0)
                or (self._masked[variable] & SECOND_MARK
                    and self._label_mask[1, label] < 0.0))

    cdef double _score(self, Py_ssize_t variable, Py_ssize_t label) noexcept nogil:
        """Return the score of one label of a variable."""
        cdef Py_ssize_t step = self._feature_step
        cdef double* weights = self._first_weight + label * self._label_step
        cdef double* bias = weights + self.n_features * step
        cdef double score = self._rows.column_score(variable, weights, step) + bias[0]
        if self._marks[variable] & FIRST_MARK:
            score += bias[step]
        if self._marks[variable] & SECOND_MARK:
            score += bias[2 * step]
        return score

    cdef int label_scores(self, Py_ssize_t variable, Py_ssize_t n,
                          const int32_t* labels, double* scores) except -1 nogil:
        cdef Py_ssize_t k
        self.visited += n
        # label by label, as active labels are few and scattered over the row
        for k in range(n):
            scores[k] = self._score(variable, labels[k])
        # a pair may have activated a forbidden label
        if self._masked is not None:
            for k in range(n):
                if self._forbids(variable, labels[k]):
                    scores[k] = LEAST_SCORE
        return 0

    cdef int add_labels(self, Py_ssize_t variable, Py_ssize_t n,
                        const int32_t* labels, const double* changes) except -1 nogil:
        cdef Py_ssize_t step = self._feature_step, k
        cdef double* weights
        cdef double* bias
        for k in range(n):
            # most active labels keep their dual variables in a visit
            if changes[k] == 0.0:
                continue
            weights = self._first_weight + labels[k] * self._label_step
            bias = weights + self.n_features * step
            self._rows.add_to_column(variable, changes[k], weights, step)
            # weights of a missing bias stay zero, so that scores can always add them
            if self.fit_intercept:
                bias[0] += changes[k]
            if self._marks[variable] & FIRST_MARK:
                bias[step] += changes[k]
            if self._marks[variable] & SECOND_MARK:
                bias[2 * step] += changes[k]
        return 0

    cdef double label_norm(self, Py_ssize_t variable) noexcept nogil:
        return self._norms[variable]
