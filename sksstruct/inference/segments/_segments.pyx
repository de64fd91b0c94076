"""Max-product on semi-Markov chains, and the score of a segmentation.

    max over segmentations of  sum over segments of
        nodes + lengths[length, label] + transitions[label before, label] + spans

The best prefix whose last segment has label b and stops at e is

    closed_e(b) = max_length opened_{e - length}(b) + gain(length, e, b)
    opened_s(b) = begin[s, b] + max_a closed_s(a) + transitions[a, b]

(Sarawagi and Cohen, 2004, Equation 3), where the maximum over the labels before is
taken once for each start, and the gain is that of all of a segment but the node of its
first position. It takes O(T (L + K) K) time and O(T K) memory for lengths up to L.

The scores inside a segment are differences of sums P from the first position on, which
is for a label

    closed_e = P(e-1) + end_{e-1} + max_length (opened_s - P(s+1)) + lengths[length]

so that the maximum is that of the sum of two vectors. P begins again where it gets
large, or -inf, and is added to the starts before then. The length of a segment of the
best segmentation is found from its gains, where nodes are summed up from its last
position to its first: labels are worked on by four, for each length, which makes
vectors of them. Segments that are longer than the table of lengths are in `_tails.pyx`,
and first and last ones with scores of lengths of their own in `_boundaries.pyx`.

Ties: the last label is the lowest. Then the last segment is the shortest, the label
before it the lowest, and so on.

S. Sarawagi and W. W. Cohen, "Semi-Markov conditional random fields for information
extraction", NIPS 2004.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.segments._boundaries cimport (
    Boundaries, boundaries_scratch, last_start, load_boundaries, open_first, stop_first,
    stop_last,
)
from sksstruct.inference.segments._scores cimport (
    BEGIN, END, INSIDE, SINGLE, Prefixes, SegmentMeans, Segments, add_length,
    length_score, longest_of, longest_segment, role_at,
)
from sksstruct.inference.segments._tails cimport (
    Tails, extend_tails, load_tails, stop_tails, tail_length, tail_score, tails_scratch,
)
from sksstruct.inference.trees._messages cimport best_state, best_state_given
from sksstruct.utils._simd cimport sks_maxplus, sks_row_best, sks_series_max

# What sums of scores inside stay below, so that no digits are lost in differences.
cdef double FAR = 1e4
# Lengths from which on they are maximized over by the best instructions there are.
cdef Py_ssize_t MANY = 16


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
    cdef double gain = 0.0, own = length_score(segments, start, stop, label)
    if own == -INFINITY:
        return own
    if length > 1:
        gain += segments.nodes[role_at(segments, END, stop - 1) + label]
    for t in range(stop - 2, start, -1):
        gain += segments.nodes[role_at(segments, INSIDE, t) + label]
    gain += own
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
    # four rows for each position, two more, the gains of four labels, and for each
    # label its lengths
    return ((4 * segments.size + 2) * segments.ld + 4 * longest_segment(segments)
            + segments.size + segments.n_labels * segments.max_length
            + tails_scratch(segments) + boundaries_scratch(segments))


cdef struct Lengths:
    # What lengths are maximized over: rows of starts and of lengths for each label.
    double* starts      # (n_labels, size) opened - P
    double* lengths     # (n_labels, max_length) from the largest to the least
    double* passed      # (ld,) P, without what is forbidden
    double* saved       # (size,) what spans have changed


cdef Lengths turn_lengths(const Segments* segments, double** memory) noexcept nogil:
    """Write the scores of lengths by label, and begin with P = 0."""
    cdef Lengths own
    cdef Py_ssize_t label, k, most = segments.max_length
    own.starts = memory[0]
    own.saved = own.starts + segments.n_labels * segments.size
    own.passed = own.saved + segments.size
    own.lengths = own.passed + segments.ld
    memory[0] = own.lengths + segments.n_labels * most
    memset(own.passed, 0, segments.ld * sizeof(double))
    for label in range(segments.n_labels):
        for k in range(most):
            own.lengths[label * most + most - 1 - k] = (
                segments.lengths[k * segments.ld + label])
    return own


cdef void add_start(const Segments* segments, Py_ssize_t start, Py_ssize_t label,
                    const Prefixes* prefixes, const Lengths* own) noexcept nogil:
    """Add a start to those of a label."""
    cdef double passed = own.passed[label] + segments.nodes[
        role_at(segments, INSIDE, start) + label]
    cdef double* starts = own.starts + label * segments.size
    cdef Py_ssize_t s
    # P begins again where it is -inf, or where digits would be lost
    if not -FAR < passed < FAR:
        for s in range(max(start - <Py_ssize_t> segments.longest[label], 0), start):
            starts[s] += passed
        passed = 0.0
    own.passed[label] = passed
    starts[start] = prefixes.opened[start * segments.ld + label] - passed


cdef double best_of_lengths(const Segments* segments, Py_ssize_t stop,
                            Py_ssize_t label, const Lengths* own) noexcept nogil:
    """The largest score of a start and a length of two or more."""
    cdef Py_ssize_t longest = min(<Py_ssize_t> segments.longest[label], stop), start
    cdef double* starts = own.starts + label * segments.size
    cdef const double* lengths
    cdef int32_t span, first = 0, last = 0
    cdef double best
    if longest < 2:
        return -INFINITY
    if segments.spans != NULL:
        first, last = segments.first_span[stop - 1], segments.first_span[stop]
    for span in range(first, last):
        start = segments.span_start[span]
        own.saved[start] = starts[start]
    for span in range(first, last):
        starts[segments.span_start[span]] += segments.spans[span * segments.ld + label]
    lengths = own.lengths + (label + 1) * segments.max_length - longest
    # a call through the table of kernels takes longer than short rows
    if longest < MANY:
        best = sks_row_best(longest - 1, 1.0, starts + stop - longest, lengths)
    else:
        best = sks_series_max(longest - 1, starts + stop - longest, lengths)
    for span in range(first, last):
        start = segments.span_start[span]
        starts[start] = own.saved[start]
    return best


cdef void close_segments(const Segments* segments, Py_ssize_t stop,
                         const Prefixes* prefixes, const Lengths* own,
                         const Tails* tails,
                         const Boundaries* boundaries) noexcept nogil:
    """Set the best scores of prefixes that stop at a position."""
    cdef Py_ssize_t label, cell = (stop - 1) * segments.ld, span
    cdef double longer
    for label in range(segments.n_labels):
        prefixes.closed[cell + label] = (
            prefixes.single[cell + label] + segments.lengths[label])
    if segments.spans != NULL:
        for span in range(segments.first_span[stop - 1], segments.first_span[stop]):
            if segments.span_start[span] == stop - 1:
                for label in range(segments.n_labels):
                    prefixes.closed[cell + label] += (
                        segments.spans[span * segments.ld + label])
    stop_tails(segments, stop, prefixes.closed + cell, tails)
    stop_first(segments, stop, prefixes.closed + cell, boundaries)
    for label in range(segments.n_labels if stop > 1 else 0):
        add_start(segments, stop - 2, label, prefixes, own)
        longer = (best_of_lengths(segments, stop, label, own) + own.passed[label]
                  + segments.nodes[role_at(segments, END, stop - 1) + label])
        if longer > prefixes.closed[cell + label]:
            prefixes.closed[cell + label] = longer


cdef Py_ssize_t best_length(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                            const Prefixes* prefixes, const Tails* tails,
                            const Boundaries* boundaries,
                            double* gains) noexcept nogil:
    """Shortest of the best last segments that have a label and stop at a position."""
    if boundaries.any and stop == segments.size:
        return stop - last_start(segments, label, boundaries)
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
    score = tail_score(segments, stop, label, tails)
    if score > highest:
        best, highest = tail_length(segments, stop, label, tails), score
    if boundaries.any and boundaries.first[(stop - 1) * ld + label] > highest:
        return stop
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
    cdef double* memory = gains + 4 * longest_segment(segments)
    cdef Lengths own = turn_lengths(segments, &memory)
    cdef Tails tails = load_tails(segments, True, &memory)
    cdef Boundaries boundaries = load_boundaries(segments, True, &memory)
    cdef double* final = prefixes.closed + (size - 1) * ld
    cdef const double* before = segments.first
    memset(entry, 0, row_bytes)
    if before == NULL:
        before = entry
    open_segments(segments, 0, before, &prefixes)
    open_first(segments, &prefixes, &boundaries)
    for stop in range(1, size + 1):
        if boundaries.any and stop == size:
            stop_last(segments, &prefixes, final, &boundaries)
        else:
            close_segments(segments, stop, &prefixes, &own, &tails, &boundaries)
        if stop < size:
            extend_tails(segments, stop - 1, &prefixes, &tails)
            memset(entry, 0, row_bytes)
            sks_maxplus(n, ld, prefixes.closed + (stop - 1) * ld, segments.transitions,
                        entry)
            open_segments(segments, stop, entry, &prefixes)
    if segments.last != NULL:
        for label in range(n):
            final[label] += segments.last[label]
    label, stop = best_state(n, final), size
    while True:
        start = stop - best_length(segments, stop, label, &prefixes, &tails,
                                   &boundaries, gains)
        write_segment(labeling, start, stop, label)
        if not start:
            return segmentation_score(segments, labeling)
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
        # in the order of `_topk.pyx`, for the same last digits
        if start:
            score += segments.transitions[before * segments.ld + label]
        elif segments.first != NULL:
            score += segments.first[label]
        score += segments.nodes[
            role_at(segments, BEGIN if stop - start > 1 else SINGLE, start) + label]
        score += segment_gain(segments, start, stop, label)
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
        add_length(segments, start, stop, label, weight, means)
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
