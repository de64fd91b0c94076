"""Decoding chains with given weights, in double or in single precision.

The score of labels y for the features F of a sequence is that of `_chain.pyx`,

    sum_t theta_t(y_t) + sum_t transitions[y_t, y_{t+1}]
    theta_t = F_t W + bias (+ start at the first position, + end at the last)

Nothing is prepared for training, and nothing is as long as the weights: a single short
sequence takes a few microseconds.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free, malloc

from sksstruct.inference.chains._viterbi cimport viterbi_padded
from sksstruct.models.chain._constraints cimport ChainConstraints
from sksstruct.models.chain._workspace cimport BIAS, END, START, TRANSITIONS
from sksstruct.models.tables._feature_rows cimport FeatureRows, RowEntries
from sksstruct.utils._simd cimport (
    sks_axpy, sks_prefetch, sks_single_best, sks_single_maxplus,
)

cdef enum:
    # weights, which are somewhere in memory, are asked for so many positions ahead
    AHEAD = 2
    # bytes of a cache line
    LINE = 64


cdef inline void* aligned(void* memory) noexcept nogil:
    """Return the first cache line of memory that has room for one more."""
    return <void*> ((<size_t> memory + LINE - 1) & ~<size_t> (LINE - 1))


def entries_before(const double[::1] base, const double[:, :] part):
    """Return how many entries of an array come before those of a view of it."""
    return &part[0, 0] - &base[0]


cdef class WeightedChain:
    """A chain with given weights, to decode sequences; the precision is a subclass.

    Parameters
    ----------
    X : PackedSequences
        Features.
    emission : ndarray of shape (n_features, ld), of the precision
        Emission rows.
    intercept, start, end : ndarray of shape (n_labels,)
        Bias, and weights of labels at the ends.
    transitions : ndarray of shape (n_labels, n_labels) or None
        From -> to.
    mask : ndarray of shape (2 + n_labels, ld) or None
        Constraints as scores of 0 or -inf: first labels, last labels, transitions.
    forbidden_labels : ndarray of shape (n_positions, n_labels), uint8, or None
        Labels that are not allowed at a position.
    feature_scale : float, default=1.0
        Factor of all features; 1 in single precision.

    Attributes
    ----------
    is_constrained : bool
        Whether some labelings are not allowed.
    """

    def __init__(self, X, emission, const double[:] intercept, const double[:] start,
                 const double[:] end, const double[:, :] transitions=None, mask=None,
                 forbidden_labels=None, double feature_scale=1.0):
        cdef Py_ssize_t n_labels = intercept.shape[0]
        cdef Py_ssize_t n_rows = 0 if transitions is None else n_labels
        # all are shared by threads, which only read them
        self._rows = FeatureRows(X, scale=feature_scale)
        self._owned, self._offsets = emission, X.offsets
        n_features, self.ld = emission.shape
        self.n_labels, self._itemsize = n_labels, emission.itemsize
        if (n_features != self._rows.n_features or self.ld < n_labels
                or start.shape[0] != n_labels or end.shape[0] != n_labels
                or (n_rows and (transitions.shape[0] != n_labels
                                or transitions.shape[1] != n_labels))):
            raise ValueError("weights of different numbers of labels or features")
        self._constraints = ChainConstraints(
            mask, forbidden_labels,
            n_positions=self._offsets[self._offsets.shape[0] - 1],
            n_labels=n_labels, ld=self.ld, n_rows=2 + n_rows)
        self.is_constrained = self._constraints.exist
        self._set_weights(intercept, start, end, transitions)

    def __dealloc__(self):
        free(self._memory)

    # Store the weights in the precision, with constraints that all sequences have.
    cdef int _set_weights(self, const double[:] bias, const double[:] start,
                          const double[:] end, const double[:, :] pairs) except -1:
        raise NotImplementedError

    cdef int _set_memory(self, Py_ssize_t n_rows) except -1:
        """Make room for further rows of weights, which are zero."""
        self._memory = calloc(n_rows * self.ld * self._itemsize + LINE, 1)
        if self._memory == NULL:
            raise MemoryError()
        self._further = aligned(self._memory)
        return 0

    cdef Py_ssize_t _longest(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
        """Return the length of the longest of some sequences, one at least."""
        cdef Py_ssize_t i, longest = 1
        for i in range(start, stop):
            longest = max(longest, self._offsets[i + 1] - self._offsets[i])
        return longest

    cdef void _prefetch_weights(self, Py_ssize_t position,
                                Py_ssize_t last) noexcept nogil:
        """Ask for the weights of the features of a position before the last."""
        cdef RowEntries row
        cdef Py_ssize_t entry, size = self.ld * self._itemsize
        if position < last:
            row = self._rows.row(position)
            for entry in range(row.count):
                sks_prefetch(self._weights + row.index[entry] * size, size)

    def predict(self, workspace, Py_ssize_t start, Py_ssize_t stop,
                int32_t[::1] labels, double[::1] scores):
        """Decode sequences start <= i < stop into flat labels and their scores."""
        cdef Py_ssize_t i, size = self._longest(start, stop) * self.ld
        # the caller's threads decode sequences of their own, each with its own array
        cdef void* memory = malloc(size * self._itemsize + LINE)
        if memory == NULL:
            raise MemoryError()
        with nogil:
            for i in range(start, stop):
                scores[i] = self._decode(
                    i, aligned(memory), &labels[self._offsets[i]])
            free(memory)

    # Write the best labels of a sequence, and return their score; the memory is that of
    # the scores of its positions.
    cdef double _decode(self, Py_ssize_t i, void* memory, int32_t* y) noexcept nogil:
        return 0.0


cdef class GivenChain(WeightedChain):
    """A chain with given weights, to decode sequences in double precision.

    Parameters are those of `WeightedChain`. Further rows of weights are bias, start,
    end and, unless they are sparse, transitions.
    """

    cdef int _set_weights(self, const double[:] bias, const double[:] start,
                          const double[:] end, const double[:, :] pairs) except -1:
        cdef const double[:, ::1] emission = self._owned
        cdef Py_ssize_t label, other, ld = self.ld
        cdef Py_ssize_t n_rows = 0 if pairs is None else self.n_labels
        cdef double* row
        # without features there is no weight to point at
        self._weights = <const char*> &emission[0, 0] if emission.shape[0] else NULL
        self._set_memory(TRANSITIONS + n_rows)
        row = <double*> self._further
        for label in range(self.n_labels):
            row[BIAS * ld + label] = bias[label]
            row[START * ld + label] = start[label]
            row[END * ld + label] = end[label]
        for label in range(n_rows):
            row = <double*> self._further + (TRANSITIONS + label) * ld
            for other in range(self.n_labels):
                row[other] = pairs[label, other]
            if self._constraints.mask != NULL:
                sks_axpy(ld, 1.0, self._constraints.mask + (2 + label) * ld, row)
        return 0

    cdef void _unary_scores(self, Py_ssize_t i, double* theta) noexcept nogil:
        """Write theta of a sequence, -inf where a constraint forbids the label."""
        cdef Py_ssize_t first = self._offsets[i], last = self._offsets[i + 1]
        cdef Py_ssize_t ld = self.ld, t
        cdef const double* tail = <const double*> self._further
        cdef const double* weights = <const double*> self._weights
        # the bias is what the scores begin with
        if self._rows.sparse:
            for t in range(first, min(first + AHEAD, last)):
                self._prefetch_weights(t, last)
            for t in range(first, last):
                self._prefetch_weights(t + AHEAD, last)
                self._rows.scores(
                    t, weights, ld, tail + BIAS * ld, theta + (t - first) * ld)
        else:
            # dense rows share what is read of the weights
            self._rows.scores_of_rows(
                first, last - first, weights, ld, ld, tail + BIAS * ld, theta)
        # a sequence of one position has both
        sks_axpy(ld, 1.0, tail + START * ld, theta)
        sks_axpy(ld, 1.0, tail + END * ld, theta + (last - first - 1) * ld)
        # last, as forbidden labels are written over what was added
        if self._constraints.exist:
            self._constraints.forbid_labels(first, last - first, theta)

    cdef double _decode(self, Py_ssize_t i, void* memory, int32_t* y) noexcept nogil:
        # in place: theta is of no more use
        self._unary_scores(i, <double*> memory)
        return viterbi_padded(
            self._offsets[i + 1] - self._offsets[i], self.n_labels, self.ld,
            <double*> memory, <const double*> self._further + TRANSITIONS * self.ld, 0,
            y)


cdef class SingleChain(WeightedChain):
    """A chain with given weights, to decode sequences in single precision.

    Parameters are those of `WeightedChain`. The best prefix that ends in label b at
    position t has the score

        delta_t(b) = theta_t(b) + max_a delta_{t-1}(a) + transitions[a, b]

    The way back finds the labels: the last by delta + end, and label a before b by
    delta(a) + transitions[a, b]. For this, the transposed table is stored as well.
    Further rows of weights are what scores begin with, at the first position too, the
    ends, transitions, and transitions to -> from.
    """

    cdef int _set_weights(self, const double[:] bias, const double[:] start,
                          const double[:] end, const double[:, :] pairs) except -1:
        cdef const float[:, ::1] emission = self._owned
        cdef Py_ssize_t label, other, ld = self.ld, n = self.n_labels
        cdef const double* mask = self._constraints.mask
        cdef float* row
        cdef float* turned
        self._weights = <const char*> &emission[0, 0] if emission.shape[0] else NULL
        self._set_memory(TRANSITIONS + 2 * n)
        row = <float*> self._further
        turned = row + (TRANSITIONS + n) * ld
        # once for all sequences, as the weights do not change
        for label in range(n):
            row[BIAS * ld + label] = <float> bias[label]
            row[START * ld + label] = <float> (
                bias[label] + (start[label] + (mask[label] if mask else 0.0)))
            row[END * ld + label] = <float> (
                end[label] + (mask[ld + label] if mask else 0.0))
        # where the best label is sought, it must not be one of the padding
        for label in range(n, ld):
            row[END * ld + label] = -INFINITY
            for other in range(n):
                turned[other * ld + label] = -INFINITY
        for label in range(n):
            row = <float*> self._further + (TRANSITIONS + label) * ld
            for other in range(n):
                row[other] = <float> (pairs[label, other] + (
                    mask[(2 + label) * ld + other] if mask else 0.0))
                turned[other * ld + label] = row[other]
        return 0

    cdef void _unary_scores(self, Py_ssize_t position, const float* init,
                            float* out) noexcept nogil:
        """out = init + the scores of the labels, -inf those that are not allowed"""
        cdef const unsigned char* forbidden = self._constraints.forbidden
        cdef Py_ssize_t label
        # dense rows read all weights one after the other, which needs no hint
        if self._rows.sparse:
            self._prefetch_weights(
                position + AHEAD, self._offsets[self._offsets.shape[0] - 1])
        self._rows.single_scores(
            position, <const float*> self._weights, self.ld, init, out)
        if forbidden != NULL:
            for label in range(self.n_labels):
                if forbidden[position * self.n_labels + label]:
                    out[label] = -INFINITY

    cdef double _decode(self, Py_ssize_t i, void* memory, int32_t* y) noexcept nogil:
        cdef Py_ssize_t first = self._offsets[i], size = self._offsets[i + 1] - first
        cdef Py_ssize_t ld = self.ld, t, label
        cdef const float* tail = <const float*> self._further
        cdef const float* transitions = tail + TRANSITIONS * ld
        cdef const float* turned = transitions + self.n_labels * ld
        cdef float* delta = <float*> memory
        cdef float* last = delta + (size - 1) * ld
        cdef double score
        # All positions first: weights, which are somewhere in memory, are read ahead
        # where nothing else is in between.
        for t in range(size):
            self._unary_scores(
                first + t, tail + (BIAS if t else START) * ld, delta + t * ld)
        # in place: delta_t needs delta_{t-1} and its own unary scores only
        for t in range(1, size):
            sks_single_maxplus(
                self.n_labels, ld, delta + (t - 1) * ld, transitions, delta + t * ld)
        label = sks_single_best(ld, last, tail + END * ld)
        score = last[label] + tail[END * ld + label]
        y[size - 1] = <int32_t> label
        for t in range(size - 2, -1, -1):
            label = sks_single_best(ld, delta + t * ld, turned + label * ld)
            y[t] = <int32_t> label
        return score
