"""Decoding chains with given weights, in double or in single precision.

The score of labels y for the features F of a sequence is as in `_chain.pyx`,

    sum_t theta_t(y_t) + sum_t transitions[y_t, y_{t+1}]
    theta_t = F_t W + bias (+ start at the first position, + end at the last)

Nothing is prepared for training, and no array is as long as the weights: a single
short sequence takes a few microseconds.
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
    # number of positions ahead whose weights, scattered in memory, are prefetched
    AHEAD = 2
    # bytes of a cache line
    LINE = 64


cdef inline void* aligned(void* memory) noexcept nogil:
    """Return the first cache line in memory, which has LINE spare bytes."""
    return <void*> ((<size_t> memory + LINE - 1) & ~<size_t> (LINE - 1))


def entries_before(const double[::1] base, const double[:, :] part):
    """Return the number of entries of an array before a view's first entry."""
    return &part[0, 0] - &base[0]


cdef class WeightedChain:
    """Base class of chains with given weights, which subclasses store in a precision.

    Parameters
    ----------
    X : PackedSequences
        Features.
    emission : ndarray of shape (n_features, ld), of the subclass's precision
        Emission rows.
    intercept, start, end : ndarray of shape (n_labels,)
        Bias, and weights of first and last labels.
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
        # threads share all attributes, and only read them
        self._rows = FeatureRows(X, scale=feature_scale)
        self._emission, self._offsets = emission, X.offsets
        n_features, self.ld = emission.shape
        self.n_labels, self._itemsize = n_labels, emission.itemsize
        if (n_features != self._rows.n_features or self.ld < n_labels
                or start.shape[0] != n_labels or end.shape[0] != n_labels
                or (n_rows and (transitions.shape[0] != n_labels
                                or transitions.shape[1] != n_labels))):
            raise ValueError(
                "X, emission, intercept, start, end and transitions must agree in "
                "their numbers of labels and features")
        self._constraints = ChainConstraints(
            mask, forbidden_labels,
            n_positions=self._offsets[self._offsets.shape[0] - 1],
            n_labels=n_labels, ld=self.ld, n_rows=2 + n_rows)
        self.is_constrained = self._constraints.exist
        self._set_weights(intercept, start, end, transitions)

    def __dealloc__(self):
        free(self._memory)

    # Store the weights in the subclass's precision; the mask is added to transitions.
    cdef int _set_weights(self, const double[:] bias, const double[:] start,
                          const double[:] end, const double[:, :] pairs) except -1:
        raise NotImplementedError

    cdef int _set_memory(self, Py_ssize_t n_rows) except -1:
        """Allocate the rows of `_tail`, which are zero."""
        self._memory = calloc(n_rows * self.ld * self._itemsize + LINE, 1)
        if self._memory == NULL:
            raise MemoryError()
        self._tail = aligned(self._memory)
        return 0

    cdef Py_ssize_t _longest(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
        """Return the largest length of sequences start <= i < stop, at least one."""
        cdef Py_ssize_t i, longest = 1
        for i in range(start, stop):
            longest = max(longest, self._offsets[i + 1] - self._offsets[i])
        return longest

    cdef void _prefetch_weights(self, Py_ssize_t position,
                                Py_ssize_t last) noexcept nogil:
        """Prefetch the weights of the features of a position, if it is below `last`."""
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
        # threads call this method in parallel: each call allocates its scratch
        cdef void* memory = malloc(size * self._itemsize + LINE)
        if memory == NULL:
            raise MemoryError()
        with nogil:
            for i in range(start, stop):
                scores[i] = self._decode(
                    i, aligned(memory), &labels[self._offsets[i]])
            free(memory)

    # Write the best labels of a sequence, and return their score; `memory` has space
    # for the scores of all positions.
    cdef double _decode(self, Py_ssize_t i, void* memory, int32_t* y) noexcept nogil:
        return 0.0


cdef class GivenChain(WeightedChain):
    """A chain with given weights, to decode sequences in double precision.

    Parameters are those of `WeightedChain`. Rows of the tail are bias, start, end and,
    unless they are sparse, transitions.
    """

    cdef int _set_weights(self, const double[:] bias, const double[:] start,
                          const double[:] end, const double[:, :] pairs) except -1:
        cdef const double[:, ::1] emission = self._emission
        cdef Py_ssize_t label, other, ld = self.ld
        cdef Py_ssize_t n_rows = 0 if pairs is None else self.n_labels
        cdef double* row
        # without features, the array of emission rows has no first entry
        self._weights = <const char*> &emission[0, 0] if emission.shape[0] else NULL
        self._set_memory(TRANSITIONS + n_rows)
        row = <double*> self._tail
        for label in range(self.n_labels):
            row[BIAS * ld + label] = bias[label]
            row[START * ld + label] = start[label]
            row[END * ld + label] = end[label]
        for label in range(n_rows):
            row = <double*> self._tail + (TRANSITIONS + label) * ld
            for other in range(self.n_labels):
                row[other] = pairs[label, other]
            if self._constraints.mask != NULL:
                sks_axpy(ld, 1.0, self._constraints.mask + (2 + label) * ld, row)
        return 0

    cdef void _unary_scores(self, Py_ssize_t i, double* theta) noexcept nogil:
        """Write the unary scores of a sequence to theta: -inf for forbidden labels."""
        cdef Py_ssize_t first = self._offsets[i], last = self._offsets[i + 1]
        cdef Py_ssize_t ld = self.ld, t
        cdef const double* tail = <const double*> self._tail
        cdef const double* weights = <const double*> self._weights
        # the kernels add the scores of the features to the bias row
        if self._rows.sparse:
            for t in range(first, min(first + AHEAD, last)):
                self._prefetch_weights(t, last)
            for t in range(first, last):
                self._prefetch_weights(t + AHEAD, last)
                self._rows.scores(
                    t, weights, ld, tail + BIAS * ld, theta + (t - first) * ld)
        else:
            # a single product of all dense rows reads each weight once
            self._rows.scores_of_rows(
                first, last - first, weights, ld, ld, tail + BIAS * ld, theta)
        # the only position of a sequence of length one has start and end weights
        sks_axpy(ld, 1.0, tail + START * ld, theta)
        sks_axpy(ld, 1.0, tail + END * ld, theta + (last - first - 1) * ld)
        # forbid labels last, so that -inf overwrites their scores
        if self._constraints.exist:
            self._constraints.forbid_labels(first, last - first, theta)

    cdef double _decode(self, Py_ssize_t i, void* memory, int32_t* y) noexcept nogil:
        # Viterbi overwrites the unary scores, which are not needed again
        self._unary_scores(i, <double*> memory)
        return viterbi_padded(
            self._offsets[i + 1] - self._offsets[i], self.n_labels, self.ld,
            <double*> memory, <const double*> self._tail + TRANSITIONS * self.ld, 0,
            y)


cdef class SingleChain(WeightedChain):
    """A chain with given weights, to decode sequences in single precision.

    Parameters are those of `WeightedChain`. The best prefix that ends in label b at
    position t has the score

        delta_t(b) = theta_t(b) + max_a delta_{t-1}(a) + transitions[a, b]

    Backtracking finds the last label by delta + end, and label a before b by delta(a) +
    transitions[a, b], read from a transposed copy. Rows of the tail are the initial
    scores (bias; for the first position bias + start), end, transitions, and
    transitions to -> from.
    """

    cdef int _set_weights(self, const double[:] bias, const double[:] start,
                          const double[:] end, const double[:, :] pairs) except -1:
        cdef const float[:, ::1] emission = self._emission
        cdef Py_ssize_t label, other, ld = self.ld, n = self.n_labels
        cdef const double* mask = self._constraints.mask
        cdef float* row
        cdef float* transposed
        self._weights = <const char*> &emission[0, 0] if emission.shape[0] else NULL
        self._set_memory(TRANSITIONS + 2 * n)
        row = <float*> self._tail
        transposed = row + (TRANSITIONS + n) * ld
        # sums of weights and mask are formed once for all sequences, as the weights do
        # not change
        for label in range(n):
            row[BIAS * ld + label] = <float> bias[label]
            row[START * ld + label] = <float> (
                bias[label] + (start[label] + (mask[label] if mask else 0.0)))
            row[END * ld + label] = <float> (
                end[label] + (mask[ld + label] if mask else 0.0))
        # padding has -inf, so that searches for the best label do not find it
        for label in range(n, ld):
            row[END * ld + label] = -INFINITY
            for other in range(n):
                transposed[other * ld + label] = -INFINITY
        for label in range(n):
            row = <float*> self._tail + (TRANSITIONS + label) * ld
            for other in range(n):
                row[other] = <float> (pairs[label, other] + (
                    mask[(2 + label) * ld + other] if mask else 0.0))
                transposed[other * ld + label] = row[other]
        return 0

    cdef void _unary_scores(self, Py_ssize_t position, const float* init,
                            float* out) noexcept nogil:
        """Write init plus the scores of a position's labels, -inf if forbidden."""
        cdef const unsigned char* forbidden = self._constraints.forbidden
        cdef Py_ssize_t label
        # dense rows read all weights in order, which the processor prefetches
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
        cdef const float* tail = <const float*> self._tail
        cdef const float* transitions = tail + TRANSITIONS * ld
        cdef const float* transposed = transitions + self.n_labels * ld
        cdef float* delta = <float*> memory
        cdef float* last = delta + (size - 1) * ld
        cdef double score
        # The scores of all positions are computed first: no other work delays the
        # prefetched weights.
        for t in range(size):
            self._unary_scores(
                first + t, tail + (BIAS if t else START) * ld, delta + t * ld)
        # delta overwrites the unary scores: delta_t needs only delta_{t-1} and theta_t
        for t in range(1, size):
            sks_single_maxplus(
                self.n_labels, ld, delta + (t - 1) * ld, transitions, delta + t * ld)
        label = sks_single_best(ld, last, tail + END * ld)
        score = last[label] + tail[END * ld + label]
        y[size - 1] = <int32_t> label
        for t in range(size - 2, -1, -1):
            label = sks_single_best(ld, delta + t * ld, transposed + label * ld)
            y[t] = <int32_t> label
        return score
