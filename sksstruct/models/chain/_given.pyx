"""Decoding chains with given weights.

The score of labels y for the features F of a sequence is that of `_chain.pyx`,

    sum_t theta_t(y_t) + sum_t transitions[y_t, y_{t+1}]
    theta_t = F_t W + bias (+ start at the first position, + end at the last)

Nothing is prepared for training, and nothing is as long as the weights: a single short
sequence takes a few microseconds.
"""

from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free, malloc

from sksstruct.inference.chains._viterbi cimport viterbi_padded
from sksstruct.models.chain._constraints cimport ChainConstraints
from sksstruct.models.chain._workspace cimport BIAS, END, START, TRANSITIONS
from sksstruct.models.tables._feature_rows cimport FeatureRows, RowEntries
from sksstruct.utils._simd cimport sks_axpy, sks_prefetch

cdef enum:
    # weights, which are somewhere in memory, are asked for so many positions ahead
    AHEAD = 2
    # numbers in a cache line
    LINE = 8


cdef inline double* aligned(double* memory) noexcept nogil:
    """Return the first cache line of memory that has room for one more."""
    return <double*> ((<size_t> memory + 63) & ~<size_t> 63)


def entries_before(const double[::1] base, const double[:, :] part):
    """Return how many entries of an array come before those of a view of it."""
    return &part[0, 0] - &base[0]


cdef class GivenChain:
    """A chain with given weights and a table of transitions, to decode sequences.

    Parameters
    ----------
    X : PackedSequences
        Features.
    emission : ndarray of shape (n_features, ld)
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
        Factor of all features.

    Attributes
    ----------
    is_constrained : bool
        Whether some labelings are not allowed.
    """

    def __cinit__(self, X, const double[:, ::1] emission, const double[:] intercept,
                  const double[:] start, const double[:] end,
                  const double[:, :] transitions=None, mask=None,
                  forbidden_labels=None, double feature_scale=1.0, **options):
        cdef Py_ssize_t label, other, n_labels = intercept.shape[0], ld, n_rows
        # all are shared by threads, which only read them
        self._rows = FeatureRows(X, scale=feature_scale)
        self._emission, self._offsets = emission, X.offsets
        self.n_labels, self.ld = n_labels, emission.shape[1]
        ld, n_rows = self.ld, 0 if transitions is None else n_labels
        if (emission.shape[0] != self._rows.n_features or ld < n_labels
                or start.shape[0] != n_labels or end.shape[0] != n_labels
                or (n_rows and (transitions.shape[0] != n_labels
                                or transitions.shape[1] != n_labels))):
            raise ValueError("weights of different numbers of labels or features")
        self._memory = <double*> calloc(
            (TRANSITIONS + n_rows) * ld + LINE, sizeof(double))
        if self._memory == NULL:
            raise MemoryError()
        self._tail = aligned(self._memory)
        for label in range(n_labels):
            self._tail[BIAS * ld + label] = intercept[label]
            self._tail[START * ld + label] = start[label]
            self._tail[END * ld + label] = end[label]
        for label in range(n_rows):
            for other in range(n_labels):
                self._tail[(TRANSITIONS + label) * ld + other] = (
                    transitions[label, other])
        self._constraints = ChainConstraints(
            mask, forbidden_labels,
            n_positions=self._offsets[self._offsets.shape[0] - 1],
            n_labels=n_labels, ld=ld, n_rows=2 + n_rows)
        self.is_constrained = self._constraints.exist

    def __dealloc__(self):
        free(self._memory)

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
        cdef Py_ssize_t entry
        if position < last:
            row = self._rows.row(position)
            for entry in range(row.count):
                sks_prefetch(&self._emission[row.index[entry], 0], 8 * self.ld)

    cdef void _unary_scores(self, Py_ssize_t i, double* theta) noexcept nogil:
        """Write theta of a sequence, -inf where a constraint forbids the label."""
        cdef Py_ssize_t first = self._offsets[i], last = self._offsets[i + 1]
        cdef Py_ssize_t ld = self.ld, t
        cdef const double* tail = self._tail
        # without features there is no weight to point at
        cdef const double* weights = (
            &self._emission[0, 0] if self._emission.shape[0] else NULL)
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
                first, last - first, weights, ld, tail + BIAS * ld, theta)
        # a sequence of one position has both
        sks_axpy(ld, 1.0, tail + START * ld, theta)
        sks_axpy(ld, 1.0, tail + END * ld, theta + (last - first - 1) * ld)
        # last, as forbidden labels are written over what was added
        if self._constraints.exist:
            self._constraints.forbid_labels(first, last - first, theta)

    def predict(self, workspace, Py_ssize_t start, Py_ssize_t stop,
                int32_t[::1] labels, double[::1] scores):
        """Decode sequences start <= i < stop into flat labels and their scores."""
        cdef Py_ssize_t i, ld = self.ld, size = self._longest(start, stop) * ld
        # the caller's threads decode sequences of their own, each with its own array
        cdef double* memory = <double*> malloc(
            (size + self.n_labels * ld + LINE) * sizeof(double))
        cdef double* theta = aligned(memory)
        cdef const double* table
        if memory == NULL:
            raise MemoryError()
        with nogil:
            table = self._constraints.transitions(
                self._tail + TRANSITIONS * ld, theta + size)
            for i in range(start, stop):
                # in place: theta is of no more use
                self._unary_scores(i, theta)
                scores[i] = viterbi_padded(
                    self._offsets[i + 1] - self._offsets[i], self.n_labels, ld, theta,
                    table, 0, &labels[self._offsets[i]])
            free(memory)
