"""Max-product on semi-Markov chains, and the score of a segmentation.

    max over segmentations of  sum over segments of
        nodes + lengths[length, label] + transitions[label before, label] + spans

The best prefix whose last segment has label b and stops at e is

    closed_e(b) = max_length opened_{e - length}(b) + gain(length, e, b)
    opened_s(b) = begin[s, b] + max_a closed_s(a) + transitions[a, b]

(Sarawagi and Cohen, 2004, Equation 3). The maximum over previous labels is computed
once per start. The gain of a segment is its score without the score of the first
position and without the transition. Time is O(T (L + K) K) and memory O(T K) for
lengths up to L.

The sums of scores inside segments are differences of prefix sums P, with which, for one
label,

    closed_e = P(e-1) + end_{e-1} + max_length (opened_s - P(s+1)) + lengths[length]

so that the maximum runs over the sum of two vectors. P restarts at zero when P becomes
large or -inf; the old sum is then added to the earlier starts. The backward pass finds
the length of each segment of the best segmentation from gains, in which the nodes are
summed from the last position to the first. Gains of four labels are computed at once,
as vectors. Segments beyond the table of lengths are in `_tails.pyx`, and first and last
segments with boundary scores in `_boundaries.pyx`.

Ties: the last label is the lowest, then the last segment the shortest, then the label
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

# Bound on sums of inside scores: larger sums would lose digits in differences.
cdef double FAR = 1e4
# Number of lengths from which vector instructions are faster.
cdef Py_ssize_t MANY = 16


# ---- scores of segments ----

cdef Py_ssize_t fill_gains(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                           double* gains) noexcept nogil:
    """Compute the gains of segments that stop at a position, for four labels.

    The labels begin at `label`. The gain of a segment is its score without the score of
    its first position and without the transition to it; row length - 1 of gains has the
    gains of the four labels. Returns the number of rows: the largest length that the
    table allows for any of the four labels.
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
        # the position read next is inside all longer segments
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
    """Gain of one segment, see `fill_gains`; -inf if the length is forbidden."""
    cdef Py_ssize_t length = stop - start, t
    cdef int32_t span
    cdef double gain = 0.0, length_part = length_score(segments, start, stop, label)
    if length_part == -INFINITY:
        return length_part
    if length > 1:
        gain += segments.nodes[role_at(segments, END, stop - 1) + label]
    for t in range(stop - 2, start, -1):
        gain += segments.nodes[role_at(segments, INSIDE, t) + label]
    gain += length_part
    if segments.spans != NULL:
        for span in range(segments.first_span[stop - 1], segments.first_span[stop]):
            if segments.span_start[span] == start:
                gain += segments.spans[span * segments.ld + label]
    return gain


cdef void open_segments(const Segments* segments, Py_ssize_t start, const double* entry,
                        const Prefixes* prefixes) noexcept nogil:
    """Write `single` and `opened` of a start, by label: entry plus score of the start.

    entry has the scores of prefixes before the start, with the transition to each
    label. The start has the role SINGLE or BEGIN.
    """
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
    """Number of doubles that `best_segmentation` needs."""
    # rows of ld: `closed`, `single`, `opened` and `starts` of each position, `entry`
    # and `inside_sum`; then gains of four labels, `saved`, and lengths of each label
    return ((4 * segments.size + 2) * segments.ld + 4 * longest_segment(segments)
            + segments.size + segments.n_labels * segments.max_length
            + tails_scratch(segments) + boundaries_scratch(segments))


cdef struct Lengths:
    # Terms of the maximum over lengths, by label: a row of starts and a row of lengths.
    # P is the sum of inside scores up to a start.
    double* starts      # (n_labels, size) opened - P
    double* lengths     # (n_labels, max_length) length scores, the longest first
    double* inside_sum  # (ld,) P of the latest start
    double* saved       # (size,) entries of `starts` before span scores were added


cdef Lengths turn_lengths(const Segments* segments, double** memory) noexcept nogil:
    """Reserve `Lengths`; transpose the scores of lengths, and set P to zero."""
    cdef Lengths terms
    cdef Py_ssize_t label, k, most = segments.max_length
    terms.starts = memory[0]
    terms.saved = terms.starts + segments.n_labels * segments.size
    terms.inside_sum = terms.saved + segments.size
    terms.lengths = terms.inside_sum + segments.ld
    memory[0] = terms.lengths + segments.n_labels * most
    memset(terms.inside_sum, 0, segments.ld * sizeof(double))
    for label in range(segments.n_labels):
        for k in range(most):
            terms.lengths[label * most + most - 1 - k] = (
                segments.lengths[k * segments.ld + label])
    return terms


cdef void add_start(const Segments* segments, Py_ssize_t start, Py_ssize_t label,
                    const Prefixes* prefixes, const Lengths* terms) noexcept nogil:
    """Add the inside score of a position to P; write the term of this start."""
    cdef double inside_sum = terms.inside_sum[label] + segments.nodes[
        role_at(segments, INSIDE, start) + label]
    cdef double* starts = terms.starts + label * segments.size
    cdef Py_ssize_t s
    # P restarts when it becomes -inf, or so large that digits would be lost
    if not -FAR < inside_sum < FAR:
        for s in range(max(start - <Py_ssize_t> segments.longest[label], 0), start):
            starts[s] += inside_sum
        inside_sum = 0.0
    terms.inside_sum[label] = inside_sum
    starts[start] = prefixes.opened[start * segments.ld + label] - inside_sum


cdef double best_of_lengths(const Segments* segments, Py_ssize_t stop,
                            Py_ssize_t label, const Lengths* terms) noexcept nogil:
    """Largest sum of a start's term and a length's score, over lengths from two on."""
    cdef Py_ssize_t longest = min(<Py_ssize_t> segments.longest[label], stop), start
    cdef double* starts = terms.starts + label * segments.size
    cdef const double* lengths
    cdef int32_t span, first = 0, last = 0
    cdef double best
    if longest < 2:
        return -INFINITY
    if segments.spans != NULL:
        first, last = segments.first_span[stop - 1], segments.first_span[stop]
    for span in range(first, last):
        start = segments.span_start[span]
        terms.saved[start] = starts[start]
    for span in range(first, last):
        starts[segments.span_start[span]] += segments.spans[span * segments.ld + label]
    lengths = terms.lengths + (label + 1) * segments.max_length - longest
    # an indirect call to the vector kernel takes longer than a short loop
    if longest < MANY:
        best = sks_row_best(longest - 1, 1.0, starts + stop - longest, lengths)
    else:
        best = sks_series_max(longest - 1, starts + stop - longest, lengths)
    for span in range(first, last):
        start = segments.span_start[span]
        starts[start] = terms.saved[start]
    return best


cdef void close_segments(const Segments* segments, Py_ssize_t stop,
                         const Prefixes* prefixes, const Lengths* terms,
                         const Tails* tails,
                         const Boundaries* boundaries) noexcept nogil:
    """Write the best scores of prefixes that stop at a position to `closed`."""
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
        add_start(segments, stop - 2, label, prefixes, terms)
        longer = (best_of_lengths(segments, stop, label, terms)
                  + terms.inside_sum[label]
                  + segments.nodes[role_at(segments, END, stop - 1) + label])
        if longer > prefixes.closed[cell + label]:
            prefixes.closed[cell + label] = longer


cdef Py_ssize_t best_length(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                            const Prefixes* prefixes, const Tails* tails,
                            const Boundaries* boundaries,
                            double* gains) noexcept nogil:
    """Length of the shortest best last segment that has a given label and stop."""
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
    """Write a segment to a labeling in the encoding of `Segments`."""
    cdef Py_ssize_t t
    labeling[start] = <int32_t> label
    for t in range(start + 1, stop):
        labeling[t] = <int32_t> (-1 - label)


cdef double best_segmentation(const Segments* segments, double* scratch,
                              int32_t* labeling) noexcept nogil:
    """Find the best labeling and its score; -inf if every labeling is forbidden."""
    cdef Py_ssize_t size = segments.size, ld = segments.ld, n = segments.n_labels
    cdef Py_ssize_t row_bytes = ld * sizeof(double), start, stop, label
    cdef Prefixes prefixes = Prefixes(
        scratch, scratch + size * ld, scratch + 2 * size * ld)
    cdef double* entry = scratch + 3 * size * ld
    cdef double* gains = entry + ld
    cdef double* memory = gains + 4 * longest_segment(segments)
    cdef Lengths terms = turn_lengths(segments, &memory)
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
            close_segments(segments, stop, &prefixes, &terms, &tails, &boundaries)
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
    """Stop of the segment that starts at a position."""
    cdef Py_ssize_t stop = start + 1
    while stop < segments.size and labeling[stop] < 0:
        stop += 1
    return stop


cdef double segmentation_score(const Segments* segments,
                               const int32_t* labeling) noexcept nogil:
    """Score of a labeling; -inf if the labeling is forbidden."""
    cdef Py_ssize_t start = 0, stop = 0, label = 0, before
    cdef double score = 0.0
    while stop < segments.size:
        start, before, label = stop, label, labeling[stop]
        stop = segment_stop(segments, labeling, start)
        # terms are in the order of `_topk.pyx`, so that rounding is the same
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
    """Add a weight to all entries whose sum is the score of a labeling."""
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
