"""Sum-product on semi-Markov chains: log-partition, expected counts, probabilities.

The forward pass is the recursion of `_segments.pyx` with log-sum-exp for the maximum
(Sarawagi and Cohen, 2004, Section 3.2). The backward pass multiplies conditional
probabilities: given that a segment with some label stops at a position, its length is
distributed as the terms of the sum over lengths; given that a segment with some label
starts, the label before is distributed as the terms of the sum over previous labels.
The probability of each stop is distributed over starts, and that of each start over the
stops before, so that no second set of sums is needed. Probabilities sum to one up to
rounding, for scores of any size.

Sums over lengths are computed by `_scaled.pyx`. If scores of lengths or spans differ
too much, sums over lengths are computed in log space, in tables with a column for each
of four labels; exponentials are relative to the largest entry of a column. Sums over
previous labels are products with a table of exponentials, or in log space if products
could underflow. Segments of one position, tails (`_tails.pyx`), and first segments with
boundary scores are no terms of sums over lengths: `alone` has their sums.

S. Sarawagi and W. W. Cohen, "Semi-Markov conditional random fields for information
extraction", NIPS 2004.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.chains._sumproduct cimport exponentiate_table
from sksstruct.inference.segments._boundaries cimport (
    boundaries_scratch, hand_first, hand_last, load_boundaries, open_first, stop_first,
    stop_last,
)
from sksstruct.inference.segments._scaled cimport (
    add_lengths, cells_scratch, close_labels, leave_stop, load_cells, start_backward,
    start_forward,
)
from sksstruct.inference.segments._scores cimport (
    BEGIN, END, INSIDE, SINGLE, Role, SegmentMeans, Segments, longest_of,
    longest_segment, role_at,
)
from sksstruct.inference.segments._segments cimport (
    fill_gains, open_segments, segment_gain,
)
from sksstruct.inference.segments._tails cimport (
    extend_tails, hand_stopping, hand_tails, load_tails, stop_tails, tails_scratch,
)
from sksstruct.utils._simd cimport (
    sks_add_outer, sks_exp_row, sks_logplus, sks_rescale, sks_scores_f64,
    sks_series_log, sks_weigh_add,
)


cdef struct Columns:
    # the largest entry of each of a table's four columns, and the sum of exponentials
    double[4] high
    double[4] total


# ---- memory ----

cdef Py_ssize_t table_size(const Segments* segments) noexcept nogil:
    """Number of entries in a table of four columns."""
    # room for one row more, as `sks_exp_row` works on eight entries at a time
    return 4 * (max(longest_segment(segments), segments.n_labels) + 1)


cdef Py_ssize_t sums_scratch(const Segments* segments) noexcept nogil:
    """Number of doubles that `load_sums` needs."""
    cdef Py_ssize_t size = segments.size, n_rows = 0
    if segments.spans != NULL:
        n_rows = segments.first_span[size]
    # rows of ld: four roles and nine others per position, lengths twice, transitions
    # four times, and seven single rows
    n_rows += 13 * size + 2 * segments.max_length + 4 * segments.n_labels + 7
    return (n_rows * segments.ld + table_size(segments) + cells_scratch(segments)
            + tails_scratch(segments) + boundaries_scratch(segments))


cdef double* take(double** memory, Py_ssize_t size) noexcept nogil:
    """Reserve `size` doubles at a pointer, and advance the pointer."""
    cdef double* out = memory[0]
    memory[0] += size
    return out


cdef const double* scaled_copy(double** memory, Py_ssize_t n, double scale,
                               const double* scores) noexcept nogil:
    """Write scores times a factor to reserved memory, and return their address."""
    cdef double* out
    cdef Py_ssize_t i
    if scores == NULL:
        return NULL
    out = take(memory, n)
    for i in range(n):
        out[i] = scale * scores[i]
    return out


cdef void scale_segments(double scale, double** memory,
                         Segments* segments) noexcept nogil:
    """Replace potentials by copies times a factor, in memory that is reserved here."""
    cdef Segments given = segments[0]
    cdef Py_ssize_t t, ld = given.ld
    cdef int role
    segments.nodes, segments.node_step = memory[0], 4 * ld
    for role in range(4):
        segments.role_offset[role] = role * ld
    for t in range(given.size):
        for role in range(4):
            scaled_copy(memory, ld, scale,
                        given.nodes + role_at(&given, <Role> role, t))
    segments.lengths = scaled_copy(memory, given.max_length * ld, scale, given.lengths)
    segments.tail = scaled_copy(memory, ld, scale, given.tail)
    segments.boundary_lengths = scaled_copy(memory, given.max_length * ld, scale,
                                            given.boundary_lengths)
    segments.boundary_tail = scaled_copy(memory, ld, scale, given.boundary_tail)
    segments.transitions = scaled_copy(memory, given.n_labels * ld, scale,
                                       given.transitions)
    segments.first = scaled_copy(memory, ld, scale, given.first)
    segments.last = scaled_copy(memory, ld, scale, given.last)
    if given.spans != NULL:
        segments.spans = scaled_copy(memory, given.first_span[given.size] * ld, scale,
                                     given.spans)


cdef SegmentSums load_sums(const Segments* segments, double scale,
                           double* memory) noexcept nogil:
    """Multiply potentials by a factor, and reserve the arrays of `SegmentSums`."""
    cdef SegmentSums s
    cdef Py_ssize_t ld = segments.ld, cells = segments.size * ld
    cdef Py_ssize_t square = segments.n_labels * ld
    s.scaled = s.given = segments[0]
    if scale != 1.0:
        scale_segments(scale, &memory, &s.scaled)
    s.prefixes.closed = take(&memory, cells)
    s.prefixes.single = take(&memory, cells)
    s.prefixes.opened = take(&memory, cells)
    s.ended, s.opened = take(&memory, cells), take(&memory, cells)
    s.closed_sums, s.weights = take(&memory, cells), take(&memory, cells)
    s.entry_sums, s.alone = take(&memory, cells), take(&memory, cells)
    s.row, s.message, s.zeros = take(&memory, ld), take(&memory, ld), take(&memory, ld)
    memset(s.zeros, 0, ld * sizeof(double))
    s.transitions.scores = s.scaled.transitions
    s.transitions.ahead = take(&memory, square)
    s.transitions.back = take(&memory, square)
    s.pairs = take(&memory, square)
    s.table = take(&memory, table_size(segments))
    exponentiate_table(segments.n_labels, ld, &s.transitions)
    s.tails = load_tails(&s.scaled, False, &memory)
    s.boundaries = load_boundaries(&s.scaled, False, &memory)
    s.logs, s.log_lengths = False, not load_cells(&s.scaled, &memory, &s.cells)
    return s


# ---- forward ----

cdef void exponentiate(Py_ssize_t n_rows, double* table,
                       Columns* columns) noexcept nogil:
    """Replace four columns by exponentials relative to the maxima; sum each column."""
    cdef double entry
    cdef Py_ssize_t row, j
    for j in range(4):
        columns.high[j], columns.total[j] = -INFINITY, 0.0
    for row in range(n_rows):
        for j in range(4):
            entry = table[4 * row + j]
            columns.high[j] = entry if entry > columns.high[j] else columns.high[j]
    for j in range(4):
        # the maximum of an entirely forbidden column: -inf - (-inf) would be NaN
        columns.high[j] = columns.high[j] if columns.high[j] > -INFINITY else 0.0
    for row in range(n_rows):
        for j in range(4):
            table[4 * row + j] -= columns.high[j]
    # `sks_exp_row` reads the whole table as one row, whose maximum is zero
    sks_exp_row(4 * n_rows, 4 * (n_rows + n_rows % 2), table, table, &entry)
    for row in range(n_rows):
        for j in range(4):
            columns.total[j] += table[4 * row + j]


cdef void weigh_lengths(const SegmentSums* sums, Py_ssize_t stop, Py_ssize_t label,
                        Columns* columns) noexcept nogil:
    """Fill a table with weights of segments of four labels that stop at a position.

    Row length - 1 has segments of this length; the first row has `alone` instead.
    """
    cdef Py_ssize_t length, j, ld = sums.scaled.ld
    cdef double* table = sums.table
    cdef Py_ssize_t longest = fill_gains(&sums.scaled, stop, label, table)
    cdef const double* alone = sums.alone + (stop - 1) * ld + label
    cdef const double* before = sums.prefixes.opened + label
    for j in range(4):
        table[j] = alone[j]
    for length in range(2, longest + 1):
        for j in range(4):
            table[4 * (length - 1) + j] += before[(stop - length) * ld + j]
    exponentiate(longest, table, columns)


cdef bint find_entry(SegmentSums* sums, Py_ssize_t start) noexcept nogil:
    """Write sums over the labels before a start to `row`; return False on underflow."""
    cdef Py_ssize_t ld = sums.scaled.ld, n = sums.scaled.n_labels, label
    cdef const double* closed = sums.prefixes.closed + (start - 1) * ld
    cdef double* weights = sums.weights + (start - 1) * ld
    cdef double* totals = sums.entry_sums + start * ld
    cdef double top, low
    if sums.logs:
        memset(sums.row, 0, ld * sizeof(double))
        sks_logplus(n, ld, closed, sums.scaled.transitions, sums.row)
        return True
    top = sks_exp_row(n, ld, closed, weights, &low) + sums.transitions.shift
    # if no product of nonzero factors is smaller than exp(-600), then sums here and
    # quotients in the backward pass are exact
    if low + sums.transitions.low < -600.0:
        return False
    sks_scores_f64(n, NULL, weights, 1.0, sums.transitions.ahead, ld, sums.zeros,
                   totals)
    memcpy(sums.row, totals, ld * sizeof(double))
    sks_series_log(ld, sums.row)
    for label in range(ld):
        sums.row[label] += top
    return True


cdef void close_alone(SegmentSums* sums, Py_ssize_t stop) noexcept nogil:
    """Write to `alone` the sums over segments that are no terms of sums over lengths.

    Such segments, with a given stop, have one position or a tail, or are first segments
    with boundary scores.
    """
    cdef const Segments* segments = &sums.scaled
    cdef Py_ssize_t ld = segments.ld, label
    cdef const double* single = sums.prefixes.single + (stop - 1) * ld
    cdef double* alone = sums.alone + (stop - 1) * ld
    cdef int32_t span
    for label in range(ld):
        alone[label] = single[label] + segments.lengths[label]
    if segments.spans != NULL:
        for span in range(segments.first_span[stop - 1], segments.first_span[stop]):
            if segments.span_start[span] == stop - 1:
                for label in range(ld):
                    alone[label] += segments.spans[span * ld + label]
    stop_tails(segments, stop, alone, &sums.tails)
    stop_first(segments, stop, alone, &sums.boundaries)


cdef void close_stop(SegmentSums* sums, Py_ssize_t stop) noexcept nogil:
    """Sum over the lengths of segments that stop at a position, into `closed`."""
    cdef Py_ssize_t label, cell, j
    cdef Columns columns
    close_alone(sums, stop)
    if not sums.log_lengths:
        close_labels(&sums.scaled, stop, sums.alone + (stop - 1) * sums.scaled.ld,
                     &sums.prefixes, &sums.cells)
        return
    for label in range(0, sums.scaled.n_labels, 4):
        weigh_lengths(sums, stop, label, &columns)
        cell = (stop - 1) * sums.scaled.ld + label
        for j in range(4):
            sums.closed_sums[cell + j] = columns.total[j]
            sums.prefixes.closed[cell + j] = columns.high[j] + log(columns.total[j])


cdef bint set_prefixes(SegmentSums* sums) noexcept nogil:
    """Write sums over prefixes; return False if sums over labels could underflow."""
    cdef const Segments* segments = &sums.scaled
    cdef Py_ssize_t stop
    cdef const double* entry = segments.first
    if entry == NULL:
        entry = sums.zeros
    open_segments(segments, 0, entry, &sums.prefixes)
    start_forward(segments, &sums.cells)
    open_first(segments, &sums.prefixes, &sums.boundaries)
    for stop in range(1, segments.size + 1):
        if sums.boundaries.any and stop == segments.size:
            stop_last(segments, &sums.prefixes,
                      sums.prefixes.closed + (stop - 1) * segments.ld,
                      &sums.boundaries)
            break
        close_stop(sums, stop)
        if stop < segments.size:
            extend_tails(segments, stop - 1, &sums.prefixes, &sums.tails)
            if not find_entry(sums, stop):
                return False
            open_segments(segments, stop, sums.row, &sums.prefixes)
    return True


cdef double sum_prefixes(SegmentSums* sums) noexcept nogil:
    """Return the log-partition; write probabilities of last labels to `ended`."""
    cdef const Segments* segments = &sums.scaled
    cdef Py_ssize_t ld = segments.ld, n = segments.n_labels, label
    cdef Py_ssize_t last = (segments.size - 1) * ld
    cdef double top, low, total = 0.0
    if not set_prefixes(sums):
        sums.logs = True
        set_prefixes(sums)
    for label in range(n):
        sums.row[label] = sums.prefixes.closed[last + label]
        if segments.last != NULL:
            sums.row[label] += segments.last[label]
    top = sks_exp_row(n, ld, sums.row, sums.ended + last, &low)
    if top == -INFINITY:
        return top
    for label in range(n):
        total += sums.ended[last + label]
    sks_rescale(ld, 1.0 / total, sums.ended + last)
    return top + log(total)


# ---- backward ----

cdef inline void find_shares(Py_ssize_t n, const double* probability,
                             const double* total, double* share) noexcept nogil:
    """Divide each probability by the sum of the terms that are to share it."""
    cdef Py_ssize_t label
    for label in range(n):
        # a sum of zero means that the label is forbidden here, and has probability zero
        share[label] = probability[label] / total[label] if total[label] > 0.0 else 0.0


cdef void distribute_stops(SegmentSums* sums, Py_ssize_t stop, Py_ssize_t label,
                           const SegmentMeans* means) noexcept nogil:
    """Distribute the probabilities of stops of four labels over lengths.

    Writes the probabilities of the segments in `alone` to `row`; adds those of all
    other segments to `opened`, at their starts.
    """
    cdef const Segments* given = &sums.given
    cdef Py_ssize_t ld = given.ld, longest = longest_of(given, stop, label), j
    cdef Py_ssize_t length, cell = (stop - 1) * ld + label
    cdef int32_t span
    cdef Columns columns
    cdef double[4] share, longer
    cdef double* table = sums.table
    cdef double* row
    cdef double* opened
    cdef double* lengths
    cdef double* nodes
    if not longest:
        return
    weigh_lengths(sums, stop, label, &columns)
    find_shares(4, sums.ended + cell, sums.closed_sums + cell, share)
    for j in range(4):
        longer[j] = 0.0
    # the longest length first: a position is inside all segments that are longer
    for length in range(longest, 1, -1):
        row = table + 4 * (length - 1)
        opened = sums.opened + (stop - length) * ld + label
        lengths = means.lengths + (length - 1) * ld + label
        nodes = means.nodes + label + role_at(
            given, INSIDE if length > 2 else END, stop - length + 1)
        for j in range(4):
            row[j] *= share[j]
            longer[j] += row[j]
            opened[j] += row[j]
            lengths[j] += row[j]
            nodes[j] += longer[j]
    for j in range(4):
        sums.row[label + j] = table[j] * share[j]
    if means.spans != NULL:
        for span in range(given.first_span[stop - 1], given.first_span[stop]):
            length = stop - given.span_start[span]
            for j in range(4 if 1 < length <= longest else 0):
                means.spans[span * ld + label + j] += table[4 * (length - 1) + j]


cdef void distribute_alone(SegmentSums* sums, Py_ssize_t stop,
                           const SegmentMeans* means) noexcept nogil:
    """Distribute the probabilities in `row`, of the segments in `alone`.

    Probabilities of tails and of first segments with boundary scores leave `row`;
    segments of one position are counted.
    """
    cdef const Segments* given = &sums.given
    cdef Py_ssize_t label, ld = given.ld
    cdef double* goes_on = NULL if sums.log_lengths else sums.cells.inside
    cdef double* nodes = means.nodes + role_at(given, SINGLE, stop - 1)
    cdef int32_t span
    hand_first(given, stop, sums.row, sums.opened, goes_on, means, &sums.boundaries)
    hand_stopping(given, stop, sums.row, goes_on, means, &sums.tails)
    if sums.boundaries.any and stop == 1:
        return
    for label in range(given.n_labels):
        nodes[label] += sums.row[label]
        means.lengths[label] += sums.row[label]
    if means.spans == NULL:
        return
    for span in range(given.first_span[stop - 1], given.first_span[stop]):
        if given.span_start[span] == stop - 1:
            for label in range(given.n_labels):
                means.spans[span * ld + label] += sums.row[label]


cdef void distribute_starts(SegmentSums* sums, Py_ssize_t start,
                            const SegmentMeans* means) noexcept nogil:
    """Distribute probabilities of starts, from `row`, over the labels before."""
    cdef Py_ssize_t ld = sums.given.ld, n = sums.given.n_labels, label, before, j
    cdef double* ended = sums.ended + (start - 1) * ld
    cdef double* weights = sums.weights + (start - 1) * ld
    cdef double* row
    cdef const double* scores
    cdef Columns columns
    cdef double[4] share
    if not sums.logs:
        find_shares(ld, sums.row, sums.entry_sums + start * ld, sums.row)
        # the factor `ahead` of the means is the same at all positions, and is applied
        # last
        sks_add_outer(n, ld, 1.0, weights, sums.row, sums.pairs)
        sks_scores_f64(n, NULL, sums.row, 1.0, sums.transitions.back, ld, sums.zeros,
                       sums.message)
        sks_weigh_add(ld, weights, sums.message, ended)
        return
    for label in range(0, n, 4):
        scores = sums.scaled.transitions + label
        for before in range(n):
            for j in range(4):
                sums.table[4 * before + j] = (
                    sums.prefixes.closed[(start - 1) * ld + before]
                    + scores[before * ld + j])
        exponentiate(n, sums.table, &columns)
        find_shares(4, sums.row + label, columns.total, share)
        for before in range(n):
            row = sums.table + 4 * before
            for j in range(4):
                row[j] *= share[j]
                means.transitions[before * ld + label + j] += row[j]
            ended[before] += (row[0] + row[1]) + (row[2] + row[3])


cdef void finish_starts(SegmentSums* sums, Py_ssize_t stop,
                        const SegmentMeans* means) noexcept nogil:
    """Add probabilities of starts at stop - 1 to means; distribute them over labels.

    The labels are those of the segments before. All stops of segments that start at
    stop - 1 have been distributed, so that the probabilities of starts are complete.
    """
    cdef Py_ssize_t label, ld = sums.given.ld
    cdef const double* opened = sums.opened + (stop - 1) * ld
    cdef double* nodes = means.nodes + role_at(&sums.given, BEGIN, stop - 1)
    for label in range(ld):
        nodes[label] += opened[label]
        sums.row[label] += opened[label]
    if stop > 1:
        distribute_starts(sums, stop - 1, means)


cdef double sum_segmentations(SegmentSums* sums, double weight,
                              const SegmentMeans* means) noexcept nogil:
    """Return the log-partition; add expected counts, times a weight, to means.

    means may be NULL. If the log-partition is -inf, nothing is added.
    `segment_probability` needs means of weight one.
    """
    cdef Py_ssize_t size = sums.given.size, ld = sums.given.ld, n = sums.given.n_labels
    cdef Py_ssize_t stop, label
    cdef double log_partition = sum_prefixes(sums)
    cdef double* ended = sums.ended + (size - 1) * ld
    if log_partition == -INFINITY or means == NULL:
        return log_partition
    memset(sums.ended, 0, (size - 1) * ld * sizeof(double))
    memset(sums.opened, 0, size * ld * sizeof(double))
    memset(sums.pairs, 0, n * ld * sizeof(double))
    start_backward(&sums.scaled, weight, &sums.cells)
    # all later steps are linear in the probabilities of the last labels
    for label in range(n):
        ended[label] *= weight
        if means.last != NULL:
            means.last[label] += ended[label]
    for stop in range(size, 0, -1):
        memset(sums.row, 0, ld * sizeof(double))
        if sums.boundaries.any and stop == size:
            hand_last(&sums.given, ended, sums.row, sums.opened,
                      NULL if sums.log_lengths else sums.cells.inside, means,
                      &sums.boundaries)
            finish_starts(sums, stop, means)
            continue
        hand_tails(&sums.given, stop - 1, sums.log_lengths, sums.opened, means,
                   &sums.tails)
        if sums.log_lengths:
            for label in range(0, n, 4):
                distribute_stops(sums, stop, label, means)
        else:
            leave_stop(&sums.scaled, stop, &sums.prefixes, sums.ended + (stop - 1) * ld,
                       sums.opened, sums.row, &sums.given, means, &sums.cells)
        distribute_alone(sums, stop, means)
        finish_starts(sums, stop, means)
    if means.first != NULL:
        for label in range(n):
            means.first[label] += sums.row[label]
    if not sums.log_lengths:
        add_lengths(&sums.scaled, &sums.cells, means)
    if not sums.logs:
        sks_weigh_add(n * ld, sums.pairs, sums.transitions.ahead, means.transitions)
    return log_partition


cdef double segment_probability(const SegmentSums* sums, Py_ssize_t start,
                                Py_ssize_t stop, Py_ssize_t label) noexcept nogil:
    """Return the probability of a segment, after `sum_segmentations`."""
    cdef Py_ssize_t ld = sums.scaled.ld, cell = (stop - 1) * ld + label
    cdef const double* before = sums.prefixes.opened
    if stop - start == 1:
        before = sums.prefixes.single
    if sums.boundaries.any and not start:
        before = sums.boundaries.begun if stop > 1 else sums.boundaries.single
    # a forbidden label has probability zero, where -inf - (-inf) would be NaN
    if sums.ended[cell] == 0.0:
        return 0.0
    return sums.ended[cell] * exp(
        before[start * ld + label] + segment_gain(&sums.scaled, start, stop, label)
        - sums.prefixes.closed[cell])
