"""Semi-Markov chains as a structure: see `inference/segments/_segments.pxd` for scores.

The tables of a sequence of T positions are, in this order and in rows of ld labels,

    nodes           n_roles rows for each position: where segments begin, inside, where
                    they end, and segments of one position; or one row for all of these
    lengths         one row for each length, up to the size or the largest there is
    transitions     one row for each label, then one for the first and one for the last;
                    these are one row of a block, and padded as such
    spans           one row for each candidate span, if there are any at all

A labeling has the label at the first position of a segment, and -1 - label at the
others.
"""

cimport cython

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.segments._segments cimport (
    BEGIN, END, INSIDE, SINGLE, SegmentMeans, Segments, best_scratch,
    best_segmentation,
)
from sksstruct.inference.segments._sums cimport (
    SegmentSums, load_sums, segment_probability, sum_segmentations, sums_scratch,
)
from sksstruct.inference.segments._topk cimport best_segmentations, topk_scratch
from sksstruct.models.tables._structure cimport OracleMemory, Potentials, Structure
from sksstruct.utils._memory cimport reserve

from sksstruct.models.tables._table import block_ld
from sksstruct.utils._layout import aligned_zeros, padded_length


cdef struct Segment:
    Py_ssize_t start, stop
    int32_t label


cdef inline Segment segment_at(const int32_t* y, Py_ssize_t start,
                               Py_ssize_t size) noexcept nogil:
    """Return the segment of a labeling that starts at a position."""
    cdef Segment found
    found.start, found.stop, found.label = start, start + 1, y[start]
    while found.stop < size and y[found.stop] < 0:
        found.stop += 1
    return found


cdef inline Py_ssize_t role_of(const Segment* segment, Py_ssize_t t) noexcept nogil:
    """Return the role of a position of a segment."""
    if segment.stop - segment.start == 1:
        return SINGLE
    if t == segment.start:
        return BEGIN
    return END if t == segment.stop - 1 else INSIDE


# final: every segment of a labeling is a call
@cython.final
cdef class SegmentSequences(Structure):
    """Segmentations of sequences.

    Parameters
    ----------
    sizes, y_true, max_keys : objects
        As of `Structure`: a number for each position, and at most four keys for each
        and two more.
    n_labels : int
        Number of labels.
    with_roles : bool
        Whether scores of positions depend on their role in the segment.
    allowed : ndarray of shape (max_length, n_labels), bool
        Lengths that a label may have.
    repeats : bool
        Whether segments of the same label may follow each other.
    counted : ndarray of shape (n_labels,), bool, or None
        With a loss by segments, the labels whose segments count; None: the loss is the
        number of wrong positions.
    costs : ndarray of shape (n_examples,) or None
        What an error costs; None for prediction.
    spans : tuple of (first_span, span_start, first_of_example), or None
        Candidate spans: for each example, one after the other, where those that stop
        after a position begin, (T + 1,), int32; the start of each span, int32; and
        where those of each example begin, (n_examples + 1,), intp.
    known : list of ndarray of shape (n_positions, n_roles * ld), uint8, or None
        Roles and labels that the positions of each example may have; None in the list,
        or for it: all. In prediction no other labeling is found; in training it is what
        was observed of the example, and `y_true` one labeling that agrees.
    """

    oracles = ("max", "topk", "exp")
    cdef readonly Py_ssize_t n_labels, ld, n_roles, max_length
    # numbers of the transitions, with their padding
    cdef Py_ssize_t _pair_size
    cdef readonly bint by_segment, repeats
    # numbers of the masked copies of lengths and transitions
    cdef Py_ssize_t _masked
    cdef const double[:, ::1] _forbidden
    cdef const int32_t[::1] _longest
    cdef const char[::1] _counted
    cdef const double[::1] _costs
    cdef bint _has_spans
    cdef const int32_t[::1] _first_span, _span_start
    cdef const Py_ssize_t[::1] _spans_of
    # where what is known of an example begins; -1: nothing is
    cdef const Py_ssize_t[::1] _known_at
    cdef const unsigned char[:, ::1] _known

    def __init__(self, sizes, y_true, max_keys, n_labels, with_roles, allowed, repeats,
                 counted, costs, spans, known=None):
        cdef Segments one
        self.n_labels, self.ld = n_labels, padded_length(n_labels)
        self.n_roles, self.max_length = 4 if with_roles else 1, len(allowed)
        self._pair_size = block_ld((n_labels + 2) * self.ld)
        self.repeats = repeats
        self._masked = (self.max_length + n_labels) * self.ld
        forbidden = np.full((self.max_length, self.ld), -np.inf)
        forbidden[:, :n_labels][allowed] = 0.0
        self._forbidden = forbidden
        # the last length that is allowed; none in the padding
        longest = np.zeros(self.ld, dtype=np.int32)
        lengths = np.arange(1, self.max_length + 1)[:, None]
        longest[:n_labels] = (allowed * lengths).max(axis=0)
        self._longest = longest
        self.by_segment = counted is not None
        if self.by_segment:
            self._counted = np.ascontiguousarray(counted, dtype=np.int8)
        self._costs, self._has_spans = costs, spans is not None
        self._set_known(known)
        if self._has_spans:
            self._first_span, self._span_start, self._spans_of = spans
        # after the masked copies the memory of any sequence: the longest one need not
        # be the one for which most is kept
        most_spans = np.diff(spans[2]).max() if self._has_spans else 0
        for size in np.unique(self.sizes):
            one = self._empty(size)
            self.memory_size = max(
                self.memory_size, self._masked + most_spans * self.ld
                + max(best_scratch(&one), sums_scratch(&one)))
        self.meaning += [allowed, with_roles, repeats]
        if self._has_spans:
            self.meaning += list(spans)

    def _set_known(self, known):
        """Put what is known of some examples into one array."""
        known = [None] * self.n_examples if known is None else known
        sizes = np.array([0 if rows is None else len(rows) for rows in known])
        self._known_at = np.where(sizes > 0, np.cumsum(sizes) - sizes, -1)
        if sizes.any():
            self._known = np.concatenate([rows for rows in known if rows is not None])
            if self.labeled:
                self.partial = sizes > 0

    cdef inline Py_ssize_t _n_lengths(self, Py_ssize_t i) noexcept nogil:
        """Return the number of rows of lengths of an example."""
        return min(self.max_length, self._sizes[i])

    cdef Segments _empty(self, Py_ssize_t size) noexcept nogil:
        """Return potentials of so many positions, without addresses."""
        cdef Segments out
        cdef Py_ssize_t role
        memset(&out, 0, sizeof(Segments))
        out.size, out.n_labels, out.ld = size, self.n_labels, self.ld
        out.max_length, out.longest = min(self.max_length, size), &self._longest[0]
        out.node_step = self.n_roles * self.ld
        for role in range(4):
            out.role_offset[role] = role * self.ld if self.n_roles == 4 else 0
        return out

    cdef Segments _read(self, Potentials* at, Py_ssize_t i) noexcept nogil:
        """Return the potentials of an example; what is forbidden is -inf."""
        cdef Segments out = self._empty(self._sizes[i])
        cdef const double* lengths = at.theta + out.size * out.node_step
        cdef const double* forbidden = &self._forbidden[0, 0]
        cdef const double* pairs = lengths + out.max_length * self.ld
        cdef double* transitions = at.memory + out.max_length * self.ld
        cdef Py_ssize_t k
        if not self.labeled:
            self._forbid_others(at, i)
        for k in range(out.max_length * self.ld):
            at.memory[k] = lengths[k] + forbidden[k]
        memcpy(transitions, pairs, self.n_labels * self.ld * sizeof(double))
        if not self.repeats:
            for k in range(self.n_labels):
                transitions[k * self.ld + k] = -INFINITY
        out.nodes, out.lengths, out.transitions = at.theta, at.memory, transitions
        out.first = pairs + self.n_labels * self.ld
        out.last = out.first + self.ld
        # an example may have no span, and no address then
        if self._has_spans and self._spans_of[i] < self._spans_of[i + 1]:
            out.spans = pairs + self._pair_size
            out.first_span = &self._first_span[self._starts[i] + i]
            out.span_start = &self._span_start[self._spans_of[i]]
        return out

    cdef void _forbid_others(self, Potentials* at, Py_ssize_t i) noexcept nogil:
        """Forbid what does not agree with what is known of an example."""
        cdef Py_ssize_t step = self.n_roles * self.ld, first = self._known_at[i], t, k
        # in place: potentials are formed again for each call
        for t in range(self._sizes[i] if first >= 0 else 0):
            for k in range(step):
                if not self._known[first + t, k]:
                    at.theta[t * step + k] = -INFINITY

    # ---- labelings ----

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        cdef Py_ssize_t size = self._sizes[i], start = 0, before = -1, t
        cdef Segment segment
        while start < size:
            segment = segment_at(y, start, size)
            if not 0 <= segment.label < self.n_labels:
                return 0
            if segment.stop - start > self.max_length:
                return 0
            if self._forbidden[segment.stop - start - 1, segment.label] < 0.0:
                return 0
            if segment.label == before and not self.repeats:
                return 0
            for t in range(start + 1, segment.stop):
                if y[t] != -1 - segment.label:
                    return 0
            before, start = segment.label, segment.stop
        return 1

    cdef int has_key(self, Py_ssize_t i, Py_ssize_t key) except -1 nogil:
        # all rows are padded alike
        return key % self.ld < self.n_labels

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t size = self._sizes[i], ld = self.ld, start = 0, count = 0, t
        cdef Py_ssize_t lengths = size * self.n_roles * ld, span
        cdef Py_ssize_t transitions = lengths + self._n_lengths(i) * ld, before = -1
        cdef Py_ssize_t stop
        cdef Segment segment
        while start < size:
            segment = segment_at(y, start, size)
            for t in range(start, segment.stop):
                keys[count] = self._node_key(&segment, t)
                count += 1
            keys[count] = <int32_t> (
                lengths + (segment.stop - start - 1) * ld + segment.label)
            # after the rows of all labels, the one of the first segment
            keys[count + 1] = <int32_t> (
                transitions + (before if start else self.n_labels) * ld + segment.label)
            count += 2
            if self._has_spans:
                stop = self._starts[i] + i + segment.stop
                for span in range(self._first_span[stop - 1], self._first_span[stop]):
                    if self._span_start[self._spans_of[i] + span] == start:
                        keys[count] = <int32_t> (
                            transitions + self._pair_size + span * ld + segment.label)
                        count += 1
            before, start = segment.label, segment.stop
        keys[count] = <int32_t> (transitions + (self.n_labels + 1) * ld + before)
        return count + 1

    cdef inline int32_t _node_key(self, const Segment* segment,
                                  Py_ssize_t t) noexcept nogil:
        """Return the key of a position of a segment."""
        cdef Py_ssize_t role = role_of(segment, t) if self.n_roles == 4 else 0
        return <int32_t> ((t * self.n_roles + role) * self.ld + segment.label)

    # ---- the loss ----

    cdef int add_loss(self, Potentials* at, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef const int32_t* observed = &self._y_true[self._starts[i]]
        cdef Py_ssize_t size = self._sizes[i], start = 0, t, length, label, span
        cdef double cost = scale * self._costs[i]
        cdef double* lengths = at.theta + size * self.n_roles * self.ld
        cdef double* spans = lengths + self._n_lengths(i) * self.ld + self._pair_size
        cdef Segment segment
        if self.by_segment:
            # each segment that is not right costs, and right ones save twice as much
            for length in range(self._n_lengths(i)):
                for label in range(self.n_labels):
                    if self._counted[label]:
                        lengths[length * self.ld + label] += cost
        while start < size:
            segment = segment_at(observed, start, size)
            if not self.by_segment:
                # all labelings gain the same but for what is right
                for t in range(start, segment.stop):
                    at.theta[self._node_key(&segment, t)] -= cost
                    at.constant += cost
            elif self._counted[segment.label]:
                at.constant += cost
                span = self._span_of(i, &segment)
                spans[span * self.ld + segment.label] -= 2.0 * cost
            start = segment.stop
        return 0

    cdef Py_ssize_t _span_of(self, Py_ssize_t i,
                             const Segment* segment) except -1 nogil:
        """Return the first candidate span that is a segment."""
        cdef Py_ssize_t span, first = self._starts[i] + i + segment.stop
        for span in range(self._first_span[first - 1], self._first_span[first]):
            if self._span_start[self._spans_of[i] + span] == segment.start:
                return span
        with gil:
            raise ValueError(
                f"the observed segment from {segment.start} to {segment.stop} of "
                f"example {i} is no candidate span")

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef const int32_t* observed = &self._y_true[self._starts[i]]
        cdef Py_ssize_t size = self._sizes[i], t, wrong = 0
        cdef Segment mine, other
        mine.stop = other.stop = 0
        for t in range(size):
            if t == mine.stop:
                mine = segment_at(y, t, size)
            if t == other.stop:
                other = segment_at(observed, t, size)
            if not self.by_segment:
                wrong += self._node_key(&mine, t) != self._node_key(&other, t)
            elif (mine.start != other.start or mine.stop != other.stop
                    or mine.label != other.label):
                # each of them once, where it starts
                if t == mine.start:
                    wrong += self._counted[mine.label]
                if t == other.start:
                    wrong += self._counted[other.label]
        value[0] = wrong * self._costs[i]
        return 0

    # ---- oracles ----

    cdef int decode(self, Potentials* at, OracleMemory own, Py_ssize_t i,
                    int32_t* y) except -1 nogil:
        cdef Segments segments = self._read(at, i)
        cdef double score = best_segmentation(
            &segments, at.memory + self._masked, y)
        if score == -INFINITY:
            with gil:
                raise ValueError(
                    f"example {i} of {self._sizes[i]} positions has no segmentation "
                    "with the lengths that labels may have, and with what is known")
        return 0

    cdef Py_ssize_t topk(self, Potentials* at, OracleMemory own, Py_ssize_t i,
                         Py_ssize_t k) except -1 nogil:
        cdef Segments segments = self._read(at, i)
        reserve(<void**> &own.scratch, &own.scratch_capacity,
                topk_scratch(&segments, k), sizeof(double))
        own.make_room(k, self._sizes[i])
        memset(own.labelings, 0, k * self._sizes[i] * sizeof(int32_t))
        return best_segmentations(
            &segments, k, own.scratch, own.labelings, own.values)

    cdef int expect(self, Potentials* at, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        cdef Segments segments = self._read(at, i)
        cdef SegmentSums sums = load_sums(
            &segments, 1.0 / mu, at.memory + self._masked)
        cdef SegmentMeans counts = self._means(&segments, means)
        memset(means, 0, at.size * sizeof(double))
        value[0] = at.constant + mu * sum_segmentations(&sums, 1.0, &counts)
        return 0

    cdef int expect_observed(self, Potentials* at, Py_ssize_t i, double mu,
                             double* means, double* value) except -1 nogil:
        self._forbid_others(at, i)
        return self.expect(at, i, mu, means, value)

    cdef SegmentMeans _means(self, const Segments* segments,
                             double* means) noexcept nogil:
        """Return where the means of the tables go."""
        cdef SegmentMeans out
        out.nodes = means
        out.lengths = means + segments.size * segments.node_step
        out.transitions = out.lengths + segments.max_length * self.ld
        out.first = out.transitions + self.n_labels * self.ld
        out.last = out.first + self.ld
        out.spans = out.transitions + self._pair_size
        if segments.spans == NULL:
            out.spans = NULL
        return out

    def probabilities(self, Py_ssize_t i, theta, const int32_t[:, ::1] segments):
        """Return the probability of each segment, in rows (start, stop, label)."""
        cdef Potentials at
        cdef Segments scores
        cdef SegmentSums sums
        cdef SegmentMeans counts
        cdef double[::1] table = np.ascontiguousarray(theta)
        cdef double[::1] means = np.zeros(len(theta))
        cdef double[::1] memory = aligned_zeros(self.memory_size)
        cdef double[::1] out = np.empty(segments.shape[0])
        cdef Py_ssize_t k
        at.theta, at.memory = &table[0], &memory[0]
        scores = self._read(&at, i)
        with nogil:
            sums = load_sums(&scores, 1.0, at.memory + self._masked)
            counts = self._means(&scores, &means[0])
            sum_segmentations(&sums, 1.0, &counts)
            for k in range(segments.shape[0]):
                out[k] = segment_probability(
                    &sums, segments[k, 0], segments[k, 1], segments[k, 2])
        return np.asarray(out)
