"""Max-product on semi-Markov chains, and the score of a segmentation.

    max over segmentations of  sum over segments of
        nodes + lengths[length, label] + transitions[label before, label] + spans

The best prefix whose last segment has label b and stops at e is

    closed_e(b) = max_length opened_{e - length}(b) + gain(length, e, b)
    opened_s(b) = begin[s, b] + max_a closed_s(a) + transitions[a, b]

(Sarawagi and Cohen, 2004, Equation 3), where the maximum over the labels before is
taken once for each start, and the gain is that of all of a segment but the node of its
first position. It takes O(T (L + K) K) time and O(T K) memory for lengths up to L: the
nodes inside a segment are summed up as it gets longer, from its last position to its
first. Differences of prefix sums would cost as much, and lose digits, and -inf.

Labels are worked on by four, for each length, which makes vectors of them.

Ties: the last label is the lowest. Then the last segment is the shortest, the label
before it the lowest, and so on.

S. Sarawagi and W. W. Cohen, "Semi-Markov conditional random fields for information
extraction", NIPS 2004.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.trees._messages cimport best_state, best_state_given
from sksstruct.utils._simd cimport sks_maxplus


# ---- scores of segments ----

cdef Py_ssize_t fill_gains(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                           double* gains) noexcept nogil:
    """Score segments that stop at a position, of four labels from `label` on.

    Row length - 1 of gains, (4,), has the scores of all but the nodes of the first
    position. Returns the number of rows: the largest length of the four labels.
    """
    cdef Py_ssize_t longest = longest_of(segments, stop, label), length, j
    cdef Py_ssize_t ld = segments.ld
    cdef int32_t span
    cdef const double* row
    cdef const double* inside
    cdef double[4] nodes
    if not longest:
        return 0
    row = segments.lengths + label
    inside = segments.nodes + role_at(segments, END, stop - 1) + label
    for j in range(4):
        gains[j], nodes[j] = row[j], inside[j]
    for length in range(2, longest + 1):
        row, gains = row + ld, gains + 4
        for j in range(4):
            gains[j] = nodes[j] + row[j]
        # inside of longer segments only
        inside = segments.nodes + role_at(segments, INSIDE, stop - length) + label
        for j in range(4):
            nodes[j] += inside[j]
    if segments.spans != NULL:
        gains -= 4 * (longest - 1)
        for span in range(segments.first_span[stop - 1], segments.first_span[stop]):
            length = stop - segments.span_start[span]
            if length <= longest:
                row = segments.spans + span * ld + label
                for j in range(4):
                    gains[4 * (length - 1) + j] += row[j]
    return longest


cdef double segment_gain(const Segments* segments, Py_ssize_t start, Py_ssize_t stop,
                         Py_ssize_t label) noexcept nogil:
    """One of the numbers of `fill_gains`; -inf where the segment is too long."""
    cdef Py_ssize_t length = stop - start, t
    cdef int32_t span
    cdef double gain = 0.0
    if length > segments.longest[label]:
        return -INFINITY
    if length > 1:
        gain = segments.nodes[role_at(segments, END, stop - 1) + label]
    for t in range(stop - 2, start, -1):
        gain += segments.nodes[role_at(segments, INSIDE, t) + label]
    gain += segments.lengths[(length - 1) * segments.ld + label]
    if segments.spans != NULL:
        for span in range(segments.first_span[stop - 1], segments.first_span[stop]):
            if segments.span_start[span] == start:
                gain += segments.spans[span * segments.ld + label]
    return gain


cdef void open_segments(const Segments* segments, Py_ssize_t start, const double* entry,
                        const Prefixes* prefixes) noexcept nogil:
    """Begin segments at a position; entry has what comes before it, by label."""
    cdef const double* single = segments.nodes + role_at(segments, SINGLE, start)
    cdef const double* begin = segments.nodes + role_at(segments, BEGIN, start)
    cdef double* alone = prefixes.single + start * segments.ld
    cdef double* opened = prefixes.opened + start * segments.ld
    cdef Py_ssize_t label
    for label in range(segments.ld):
        alone[label] = entry[label] + single[label]
        opened[label] = entry[label] + begin[label]


# ---- the best segmentation ----

cdef Py_ssize_t best_scratch(const Segments* segments) noexcept nogil:
    """Doubles that `best_segmentation` needs."""
    # three rows for each position, one more, and the gains of four labels
    return (3 * segments.size + 1) * segments.ld + 4 * longest_segment(segments)


cdef void close_segments(const Segments* segments, Py_ssize_t stop,
                         const Prefixes* prefixes, double* gains) noexcept nogil:
    """Set the best scores of prefixes that stop at a position."""
    cdef Py_ssize_t ld = segments.ld, label, length, longest, j
    cdef double score
    cdef double[4] best
    cdef const double* before
    for label in range(0, segments.n_labels, 4):
        longest = fill_gains(segments, stop, label, gains)
        before = prefixes.single + (stop - 1) * ld + label
        for j in range(4):
            best[j] = before[j] + gains[j] if longest else -INFINITY
        for length in range(2, longest + 1):
            before = prefixes.opened + (stop - length) * ld + label
            for j in range(4):
                score = before[j] + gains[4 * (length - 1) + j]
                best[j] = score if score > best[j] else best[j]
        for j in range(4):
            prefixes.closed[(stop - 1) * ld + label + j] = best[j]


cdef Py_ssize_t best_length(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                            const Prefixes* prefixes, double* gains) noexcept nogil:
    """Shortest of the best last segments that have a label and stop at a position."""
    cdef Py_ssize_t ld = segments.ld, length, best = 1, block = label - label % 4
    cdef Py_ssize_t longest = fill_gains(segments, stop, block, gains)
    cdef double score, highest = -INFINITY
    gains += label - block
    if longest:
        highest = prefixes.single[(stop - 1) * ld + label] + gains[0]
    for length in range(2, longest + 1):
        score = (prefixes.opened[(stop - length) * ld + label]
                 + gains[4 * (length - 1)])
        if score > highest:
            best, highest = length, score
    return best


cdef void write_segment(int32_t* labeling, Py_ssize_t start, Py_ssize_t stop,
                        Py_ssize_t label) noexcept nogil:
    """Write a segment in the integer form of `Segments`."""
    cdef Py_ssize_t t
    labeling[start] = <int32_t> label
    for t in range(start + 1, stop):
        labeling[t] = <int32_t> (-1 - label)


cdef double best_segmentation(const Segments* segments, double* scratch,
                              int32_t* labeling) noexcept nogil:
    """Find the best labeling and its score, -inf if none is allowed."""
    cdef Py_ssize_t size = segments.size, ld = segments.ld, n = segments.n_labels
    cdef Py_ssize_t row_bytes = ld * sizeof(double), start, stop, label
    cdef Prefixes prefixes = Prefixes(
        scratch, scratch + size * ld, scratch + 2 * size * ld)
    cdef double* entry = scratch + 3 * size * ld
    cdef double* gains = entry + ld
    cdef double* final = prefixes.closed + (size - 1) * ld
    cdef const double* before = segments.first
    cdef double score
    memset(entry, 0, row_bytes)
    if before == NULL:
        before = entry
    open_segments(segments, 0, before, &prefixes)
    for stop in range(1, size + 1):
        close_segments(segments, stop, &prefixes, gains)
        if stop < size:
            memset(entry, 0, row_bytes)
            sks_maxplus(n, ld, prefixes.closed + (stop - 1) * ld, segments.transitions,
                        entry)
            open_segments(segments, stop, entry, &prefixes)
    if segments.last != NULL:
        for label in range(n):
            final[label] += segments.last[label]
    label, stop = best_state(n, final), size
    score = final[label]
    while True:
        start = stop - best_length(segments, stop, label, &prefixes, gains)
        write_segment(labeling, start, stop, label)
        if not start:
            return score
        label, stop = best_state_given(n, prefixes.closed + (start - 1) * ld,
                                       segments.transitions + label, ld), start


# ---- a given segmentation ----

cdef inline Py_ssize_t segment_stop(const Segments* segments, const int32_t* labeling,
                                    Py_ssize_t start) noexcept nogil:
    """Where the segment that starts at a position stops."""
    cdef Py_ssize_t stop = start + 1
    while stop < segments.size and labeling[stop] < 0:
        stop += 1
    return stop


cdef double segmentation_score(const Segments* segments,
                               const int32_t* labeling) noexcept nogil:
    """Score of a labeling; -inf if it is not allowed."""
    cdef Py_ssize_t start = 0, stop = 0, label = 0, before
    cdef double score = 0.0
    while stop < segments.size:
        start, before, label = stop, label, labeling[stop]
        stop = segment_stop(segments, labeling, start)
        score += segments.nodes[
            role_at(segments, BEGIN if stop - start > 1 else SINGLE, start) + label]
        score += segment_gain(segments, start, stop, label)
        if start:
            score += segments.transitions[before * segments.ld + label]
        elif segments.first != NULL:
            score += segments.first[label]
    if segments.last != NULL:
        score += segments.last[label]
    return score


cdef void add_indicator(const Segments* segments, const int32_t* labeling,
                        double weight, const SegmentMeans* means) noexcept nogil:
    """Add a weight to the entries whose sum is the score of a labeling."""
    cdef Py_ssize_t start = 0, stop = 0, label = 0, before, t, ld = segments.ld
    cdef int32_t span
    while stop < segments.size:
        start, before, label = stop, label, labeling[stop]
        stop = segment_stop(segments, labeling, start)
        means.nodes[role_at(
            segments, BEGIN if stop - start > 1 else SINGLE, start) + label] += weight
        for t in range(start + 1, stop):
            means.nodes[role_at(
                segments, INSIDE if t < stop - 1 else END, t) + label] += weight
        # what is too long has no row; its score is -inf
        if stop - start <= segments.max_length:
            means.lengths[(stop - start - 1) * ld + label] += weight
        if start:
            means.transitions[before * ld + label] += weight
        elif means.first != NULL:
            means.first[label] += weight
        if means.spans == NULL:
            continue
        for span in range(segments.first_span[stop - 1], segments.first_span[stop]):
            if segments.span_start[span] == start:
                means.spans[span * ld + label] += weight
    if means.last != NULL:
        means.last[label] += weight
