"""Semi-Markov chains as a structure: see `inference/segments/_scores.pxd` for scores.

The tables of a sequence of T positions are, in this order and in rows of ld labels,

    nodes           n_roles rows for each position: segments that begin, continue or
                    end there, and segments of one position; or one row for all roles
    lengths         one row for each length, up to the size or the largest length, and
                    if segments may be longer, one row of scores that each further
                    position adds; once more for boundaries, if their lengths have other
                    scores
    spans           one row for each candidate span, if the model has any
    transitions     one row for each label, then one for the first and one for the last;
                    these are one row of a block that all sequences share

A labeling has the label at the first position of a segment, and -1 - label at all
further positions.
"""

cimport cython

from libc.math cimport INFINITY
from libc.stdint cimport int8_t, int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.segments._scores cimport (
    BEGIN, END, INSIDE, SINGLE, SegmentMeans, Segments,
)
from sksstruct.inference.segments._segments cimport best_scratch, best_segmentation
from sksstruct.inference.segments._sums cimport (
    SegmentSums, load_sums, segment_probability, sum_segmentations, sums_scratch,
)
from sksstruct.inference.segments._topk cimport best_segmentations, topk_scratch
from sksstruct.models.tables._structure cimport OracleMemory, Potentials, Structure
from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport (
    const_doubles, const_int8s, const_int32s, const_intps, doubles,
)

from sksstruct.utils._layout import aligned_zeros


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


# a final class has no virtual calls, which would be made for every segment
@cython.final
cdef class SegmentSequences(Structure):
    """Segmentations of sequences, which `segment_sequences` sets up."""

    oracles = ("max", "topk", "exp")
    cdef readonly Py_ssize_t n_labels, ld, n_roles, max_length
    cdef readonly bint by_segment, repeats
    # number of entries of the copied tables: lengths (inner and at boundaries) and
    # transitions, with -inf for forbidden entries, and the largest lengths
    cdef Py_ssize_t _copied
    # arrays whose addresses are stored below; an address is NULL without its array
    cdef object _buffers
    cdef const double* _forbidden
    # for each example, the largest length that has a row of scores; and for each label,
    # 0 if longer segments may have the label, else -inf
    cdef const Py_ssize_t* _reach
    cdef const double* _tail
    # 0 or -inf for lengths at boundaries; NULL if they are allowed as in other segments
    cdef const double* _at_boundary
    cdef const int32_t* _longest
    cdef const int8_t* _counted
    # for each example, the cost of an error; for each label, the factor of this cost at
    # positions with this observed label
    cdef const double* _costs
    cdef const double* _label_costs
    cdef bint _has_spans
    cdef const int32_t* _first_span
    cdef const int32_t* _span_start
    cdef const Py_ssize_t* _spans_of

    def __init__(self, sizes, y_true, max_keys, arrays):
        cdef Segments one
        cdef Py_ssize_t size, reach
        self._buffers = arrays
        self.n_labels, self.ld = arrays.n_labels, arrays.ld
        self.n_roles = arrays.n_roles
        self.max_length, self.reads_shared = len(arrays.forbidden), True
        self.repeats, self.by_segment = arrays.repeats, arrays.counted is not None
        # without roles, a run of a label that may follow itself has many segmentations,
        # for which the entries of nodes are the same
        self.first_block_decides = self.n_roles == 4 or not self.repeats
        self._copied = (2 * self.max_length + self.n_labels + 3) * self.ld
        self._forbidden = const_doubles(arrays.forbidden)
        self._reach = const_intps(arrays.reach)
        if arrays.tail is not None:
            self._tail = const_doubles(arrays.tail)
        if arrays.at_boundary is not None:
            self._at_boundary = const_doubles(arrays.at_boundary)
        self._longest = const_int32s(arrays.longest)
        if self.by_segment:
            self._counted = const_int8s(arrays.counted)
        if arrays.costs is not None:
            self._costs = const_doubles(arrays.costs)
        self._label_costs = const_doubles(arrays.label_costs)
        self._has_spans = arrays.spans is not None
        if self._has_spans:
            first_span, span_start, spans_of = arrays.spans
            self._first_span = const_int32s(first_span)
            self._span_start = const_int32s(span_start)
            self._spans_of = const_intps(spans_of)
        self.meaning = arrays.meaning
        # scratch follows the copies; all sizes are tried, as a sequence that is not the
        # longest may need the most memory
        for size, reach in arrays.lengths:
            one = self._empty(size, reach)
            self.memory_size = max(
                self.memory_size,
                # memory for the scores of each span, and two numbers that locate it
                self._copied + arrays.most_spans * (self.ld + 2)
                + max(best_scratch(&one), sums_scratch(&one)))

    cdef inline Py_ssize_t _n_lengths(self, Py_ssize_t i) noexcept nogil:
        """Return the number of rows of lengths of an example."""
        return self._n_inner(i) * (2 if self._at_boundary != NULL else 1)

    cdef inline Py_ssize_t _n_inner(self, Py_ssize_t i) noexcept nogil:
        """Return the number of rows of lengths before the rows of boundaries."""
        return self._reach[i] + self._has_tail(i)

    cdef inline bint _has_tail(self, Py_ssize_t i) noexcept nogil:
        """Return whether an example may have segments longer than all rows."""
        return self._tail != NULL and self._sizes[i] > self._reach[i]

    cdef inline Py_ssize_t _n_spans(self, Py_ssize_t i) noexcept nogil:
        """Return the number of rows of spans of an example."""
        return self._spans_of[i + 1] - self._spans_of[i] if self._has_spans else 0

    cdef Segments _empty(self, Py_ssize_t size, Py_ssize_t reach) noexcept nogil:
        """Return potentials of given size and reach, without addresses of scores."""
        cdef Segments out
        cdef Py_ssize_t role
        memset(&out, 0, sizeof(Segments))
        out.size, out.n_labels, out.ld = size, self.n_labels, self.ld
        out.max_length = reach
        out.boundary_lengths = self._at_boundary
        if size > reach:
            out.tail = self._tail
        out.node_step = self.n_roles * self.ld
        for role in range(4):
            out.role_offset[role] = role * self.ld if self.n_roles == 4 else 0
        return out

    cdef Segments _read(self, Potentials* at, Py_ssize_t i) noexcept nogil:
        """Return the potentials of an example, with -inf for forbidden entries."""
        cdef Segments out = self._empty(self._sizes[i], self._reach[i])
        cdef const double* lengths = at.theta + out.size * out.node_step
        cdef double* transitions
        cdef int32_t* longest
        cdef Py_ssize_t k
        if not self.labeled:
            self.forbid_others(at, i)
        transitions = self._mask_lengths(lengths, self._forbidden, at.memory, &out)
        out.nodes, out.lengths, out.transitions = at.theta, at.memory, at.shared
        if out.tail != NULL:
            out.tail = transitions - self.ld
        if out.boundary_lengths != NULL:
            out.boundary_lengths = transitions
            transitions = self._mask_lengths(
                lengths + self._n_inner(i) * self.ld, self._at_boundary, transitions,
                &out)
            if out.tail != NULL:
                out.boundary_tail = transitions - self.ld
        longest = <int32_t*> (transitions + self.n_labels * self.ld)
        for k in range(self.ld):
            longest[k] = <int32_t> min(<Py_ssize_t> self._longest[k], out.max_length)
        out.longest = longest
        if not self.repeats:
            memcpy(transitions, at.shared, self.n_labels * self.ld * sizeof(double))
            for k in range(self.n_labels):
                transitions[k * self.ld + k] = -INFINITY
            out.transitions = transitions
        out.first = at.shared + self.n_labels * self.ld
        out.last = out.first + self.ld
        # the addresses of spans stay NULL for an example without spans
        if self._n_spans(i):
            out.spans = lengths + self._n_lengths(i) * self.ld
            out.first_span = &self._first_span[self._starts[i] + i]
            out.span_start = &self._span_start[self._spans_of[i]]
        return out

    cdef double* _mask_lengths(self, const double* lengths, const double* forbidden,
                               double* memory, const Segments* out) noexcept nogil:
        """Write the scores of lengths and of the tail, -inf if forbidden, to memory;
        return the address after these scores.
        """
        cdef Py_ssize_t k, cells = out.max_length * self.ld
        for k in range(cells):
            memory[k] = lengths[k] + forbidden[k]
        if out.tail == NULL:
            return memory + cells
        for k in range(self.ld):
            memory[cells + k] = lengths[cells + k] + self._tail[k]
        return memory + cells + self.ld

    # ---- labelings ----

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        cdef Py_ssize_t size = self._sizes[i], start = 0, before = -1, t
        cdef Py_ssize_t length
        cdef const double* forbidden
        cdef Segment segment
        while start < size:
            segment = segment_at(y, start, size)
            if not 0 <= segment.label < self.n_labels:
                return 0
            length = segment.stop - start
            forbidden = self._forbidden
            if self._at_boundary != NULL and (not start or segment.stop == size):
                forbidden = self._at_boundary
            if length <= self.max_length:
                if forbidden[(length - 1) * self.ld + segment.label] < 0.0:
                    return 0
            elif self._tail == NULL or self._tail[segment.label] < 0.0:
                return 0
            if segment.label == before and not self.repeats:
                return 0
            for t in range(start + 1, segment.stop):
                if y[t] != -1 - segment.label:
                    return 0
            before, start = segment.label, segment.stop
        return 1

    cdef int has_key(self, Py_ssize_t i, Py_ssize_t key) except -1 nogil:
        # all rows have the same padding
        return key % self.ld < self.n_labels

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t size = self._sizes[i], ld = self.ld, start = 0, count = 0, t
        cdef Py_ssize_t lengths, others = size * self.n_roles * ld, span
        cdef Py_ssize_t spans = others + self._n_lengths(i) * ld, before = -1
        cdef Py_ssize_t transitions = spans + self._n_spans(i) * ld, stop, over
        cdef Segment segment
        while start < size:
            segment = segment_at(y, start, size)
            for t in range(start, segment.stop):
                keys[count] = self._node_key(&segment, t)
                count += 1
            lengths = others
            if self._at_boundary != NULL and (not start or segment.stop == size):
                lengths += self._n_inner(i) * ld
            over = max(segment.stop - start - self._reach[i], 0)
            keys[count] = <int32_t> (
                lengths + (segment.stop - start - over - 1) * ld + segment.label)
            # the row of the label before; the first segment has the row that follows
            # the rows of all labels
            keys[count + 1] = <int32_t> (
                transitions + (before if start else self.n_labels) * ld + segment.label)
            count += 2
            for _ in range(over):
                keys[count] = <int32_t> (lengths + self._reach[i] * ld + segment.label)
                count += 1
            if self._has_spans:
                stop = self._starts[i] + i + segment.stop
                for span in range(self._first_span[stop - 1], self._first_span[stop]):
                    if self._span_start[self._spans_of[i] + span] == start:
                        keys[count] = <int32_t> (
                            spans + span * ld + segment.label)
                        count += 1
            before, start = segment.label, segment.stop
        keys[count] = <int32_t> (transitions + (self.n_labels + 1) * ld + before)
        return count + 1

    cdef inline int32_t _node_key(self, const Segment* segment,
                                  Py_ssize_t t) noexcept nogil:
        """Return the index in theta of the node entry of a position of a segment."""
        cdef Py_ssize_t role = role_of(segment, t) if self.n_roles == 4 else 0
        return <int32_t> ((t * self.n_roles + role) * self.ld + segment.label)

    # ---- the loss ----

    cdef int add_loss(self, Potentials* at, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef const int32_t* observed = &self._y_true[self._starts[i]]
        cdef Py_ssize_t size = self._sizes[i], start = 0, t, length, label, span
        cdef double cost = scale * self._costs[i], missed
        cdef double* lengths = at.theta + size * self.n_roles * self.ld
        cdef double* spans = lengths + self._n_lengths(i) * self.ld
        cdef Segment segment
        if self.by_segment:
            # every segment gets the cost of a wrong one; the observed segment subtracts
            # it twice, as it is neither wrong nor missed
            for length in range(self._n_lengths(i)):
                # rows of the tail add to the score of the largest length, which
                # includes the cost
                for label in range(
                        self.n_labels if length % self._n_inner(i) < self._reach[i]
                        else 0):
                    if self._counted[label]:
                        lengths[length * self.ld + label] += cost
        while start < size:
            segment = segment_at(observed, start, size)
            if not self.by_segment:
                # the constant adds the cost to all labels, theta subtracts it from the
                # observed label, which is a single entry
                missed = cost * self._label_costs[segment.label]
                for t in range(start, segment.stop):
                    at.theta[self._node_key(&segment, t)] -= missed
                    at.constant += missed
            elif self._counted[segment.label]:
                at.constant += cost
                span = self._span_of(i, &segment)
                spans[span * self.ld + segment.label] -= 2.0 * cost
            start = segment.stop
        return 0

    cdef Py_ssize_t _span_of(self, Py_ssize_t i,
                             const Segment* segment) except -1 nogil:
        """Return the number of the candidate span that is an observed segment."""
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
        cdef Py_ssize_t size = self._sizes[i], t
        cdef double wrong = 0.0
        cdef Segment predicted, truth
        predicted.stop = truth.stop = 0
        for t in range(size):
            if t == predicted.stop:
                predicted = segment_at(y, t, size)
            if t == truth.stop:
                truth = segment_at(observed, t, size)
            if not self.by_segment:
                if self._node_key(&predicted, t) != self._node_key(&truth, t):
                    wrong += self._label_costs[truth.label]
            elif (predicted.start != truth.start or predicted.stop != truth.stop
                    or predicted.label != truth.label):
                # each segment counts once, at its first position
                if t == predicted.start:
                    wrong += self._counted[predicted.label]
                if t == truth.start:
                    wrong += self._counted[truth.label]
        value[0] = wrong * self._costs[i]
        return 0

    # ---- oracles ----

    cdef int decode(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                    int32_t* y) except -1 nogil:
        cdef Segments segments = self._read(at, i)
        cdef double score = best_segmentation(
            &segments, at.memory + self._copied, y)
        if score == -INFINITY:
            with gil:
                raise ValueError(
                    f"example {i} of {self._sizes[i]} positions has no segmentation "
                    "with the lengths that labels may have, and with its known labels")
        return 0

    cdef Py_ssize_t topk(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                         Py_ssize_t k) except -1 nogil:
        cdef Segments segments = self._read(at, i)
        reserve(<void**> &oracle.scratch, &oracle.scratch_capacity,
                topk_scratch(&segments, k), sizeof(double))
        oracle.make_room(k, self._sizes[i])
        memset(oracle.labelings, 0, k * self._sizes[i] * sizeof(int32_t))
        return best_segmentations(
            &segments, k, oracle.scratch, oracle.labelings, oracle.values)

    cdef int expect(self, Potentials* at, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        cdef Segments segments = self._read(at, i)
        cdef SegmentSums sums = load_sums(
            &segments, 1.0 / mu, at.memory + self._copied)
        cdef SegmentMeans counts = self._means(&segments, i, means)
        memset(means, 0, at.size * sizeof(double))
        value[0] = at.constant + mu * sum_segmentations(&sums, 1.0, &counts)
        return 0

    cdef SegmentMeans _means(self, const Segments* segments, Py_ssize_t i,
                             double* means) noexcept nogil:
        """Return the address of each table's mean parameters in `means`."""
        cdef SegmentMeans out
        out.nodes = means
        out.lengths = means + segments.size * segments.node_step
        out.tail = out.lengths + segments.max_length * self.ld
        out.boundary_lengths = out.lengths + self._n_inner(i) * self.ld
        out.boundary_tail = out.boundary_lengths + segments.max_length * self.ld
        out.spans = out.lengths + self._n_lengths(i) * self.ld
        out.transitions = out.spans + self._n_spans(i) * self.ld
        out.first = out.transitions + self.n_labels * self.ld
        out.last = out.first + self.ld
        if segments.spans == NULL:
            out.spans = NULL
        return out

    def probabilities(self, Py_ssize_t i, theta, segments, out):
        """Write the probability of each segment to `out`.

        The rows of `segments` are (start, stop, label).
        """
        cdef Potentials at
        cdef Segments scores
        cdef SegmentSums sums
        cdef SegmentMeans counts
        cdef Py_ssize_t k, n = len(out)
        cdef const int32_t* row = const_int32s(segments)
        cdef double* values = doubles(out)
        cdef object memory = aligned_zeros(self.memory_size)
        cdef object table = aligned_zeros(len(theta))
        cdef double* means = doubles(table)
        at.theta, at.memory = doubles(theta), doubles(memory)
        at.shared = at.theta + self.ld * (
            self._sizes[i] * self.n_roles + self._n_lengths(i) + self._n_spans(i))
        scores = self._read(&at, i)
        with nogil:
            sums = load_sums(&scores, 1.0, at.memory + self._copied)
            counts = self._means(&scores, i, means)
            sum_segmentations(&sums, 1.0, &counts)
            for k in range(n):
                values[k] = segment_probability(
                    &sums, row[3 * k], row[3 * k + 1], row[3 * k + 2])
