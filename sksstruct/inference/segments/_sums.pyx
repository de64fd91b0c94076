"""Sum-product on semi-Markov chains: log-partition, expected counts, probabilities.

Forward it is the recursion of `_segments.pyx` with log-sum-exp for the maximum
(Sarawagi and Cohen, 2004, Section 3.2). Back it goes by conditional probabilities: the
length of a segment that stops somewhere, given its label, and the label before it,
given that of a segment that starts somewhere, are distributed as the terms of the two
sums. The probability that a segment of a label stops after a position is handed down to
the starts, and from these to the segments before, so that no other sums are needed, and
probabilities sum to one up to rounding for scores of any size.

The terms are formed again on the way back, which takes as long as to keep them for
chains that fit into the cache, and no O(T L K) memory. They are in tables of four
columns, labels, where exponentials are relative to the largest entry of the column.

S. Sarawagi and W. W. Cohen, "Semi-Markov conditional random fields for information
extraction", NIPS 2004.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.segments._segments cimport (
    BEGIN, END, INSIDE, SINGLE, Prefixes, Role, SegmentMeans,
    Segments, fill_gains, longest_segment,
    open_segments, role_at, segment_gain,
)
from sksstruct.utils._simd cimport sks_exp_row, sks_logplus, sks_rescale


cdef struct Columns:
    # of a table of four columns: the largest entries, and the sums of exponentials
    double[4] high
    double[4] total


# ---- memory ----

cdef Py_ssize_t sums_scratch(const Segments* segments) noexcept nogil:
    """Doubles that `load_sums` needs."""
    cdef Py_ssize_t size = segments.size, n_spans = 0
    if segments.spans != NULL:
        n_spans = segments.first_span[size]
    # nodes in four roles and five rows more for each position; first, last and one row
    return ((9 * size + segments.max_length + segments.n_labels + n_spans + 3)
            * segments.ld
            + 4 * max(longest_segment(segments), segments.n_labels) + 4)


cdef const double* scaled_copy(double** memory, Py_ssize_t n, double scale,
                               const double* scores) noexcept nogil:
    """Write scores times a factor to the next numbers of a stretch of memory."""
    cdef double* out = memory[0]
    cdef Py_ssize_t i
    if scores == NULL:
        return NULL
    for i in range(n):
        out[i] = scale * scores[i]
    memory[0] += n
    return out


cdef void scale_segments(double scale, double** memory, Segments* segments) noexcept nogil:
    """Replace potentials by scaled copies."""
    cdef Segments given = segments[0]
    cdef Py_ssize_t t, ld = given.ld
    cdef int role, n_roles = 1
    # most chains do not distinguish all roles, or none: then one copy is enough
    for role in range(1, 4):
        if given.role_offset[role] != given.role_offset[0]:
            n_roles = 4
    segments.nodes, segments.node_step = memory[0], n_roles * ld
    for t in range(given.size):
        for role in range(n_roles):
            scaled_copy(memory, ld, scale,
                        given.nodes + role_at(&given, <Role> role, t))
    for role in range(4):
        segments.role_offset[role] = role * ld if n_roles == 4 else 0
    segments.lengths = scaled_copy(memory, given.max_length * ld, scale, given.lengths)
    segments.transitions = scaled_copy(memory, given.n_labels * ld, scale,
                                       given.transitions)
    segments.first = scaled_copy(memory, ld, scale, given.first)
    segments.last = scaled_copy(memory, ld, scale, given.last)
    if given.spans != NULL:
        segments.spans = scaled_copy(memory, given.first_span[given.size] * ld, scale,
                                     given.spans)


cdef SegmentSums load_sums(const Segments* segments, double scale,
                           double* memory) noexcept nogil:
    """Scale potentials, and divide memory of `sums_scratch` doubles."""
    cdef SegmentSums sums
    cdef Py_ssize_t cells = segments.size * segments.ld
    sums.scaled = sums.given = segments[0]
    sums.prefixes = Prefixes(memory, memory + cells, memory + 2 * cells)
    sums.ended, sums.opened = memory + 3 * cells, memory + 4 * cells
    memory += 5 * cells
    if scale != 1.0:
        scale_segments(scale, &memory, &sums.scaled)
    sums.row, sums.table = memory, memory + segments.ld
    return sums


# ---- forward ----

cdef void exponentiate(Py_ssize_t n_rows, double* table, Columns* columns) noexcept nogil:
    """Replace the entries of four columns by exponentials, at most one, and add up."""
    cdef double low
    cdef Py_ssize_t row, j
    for j in range(4):
        columns.high[j], columns.total[j] = -INFINITY, 0.0
    for row in range(n_rows):
        for j in range(4):
            low = table[4 * row + j]
            columns.high[j] = low if low > columns.high[j] else columns.high[j]
    for j in range(4):
        # all of the column is forbidden: -inf less itself would be NaN
        if columns.high[j] == -INFINITY:
            columns.high[j] = 0.0
    for row in range(n_rows):
        for j in range(4):
            table[4 * row + j] -= columns.high[j]
    # the whole table is one row to this, whose maximum is zero; its length is even
    sks_exp_row(4 * n_rows, 4 * (n_rows + n_rows % 2), table, table, &low)
    for row in range(n_rows):
        for j in range(4):
            columns.total[j] += table[4 * row + j]


cdef Py_ssize_t weigh_lengths(const SegmentSums* sums, Py_ssize_t stop,
                              Py_ssize_t label, Columns* columns) noexcept nogil:
    """Fill the table with segments of four labels that stop there, by length."""
    cdef Py_ssize_t length, j, ld = sums.scaled.ld
    cdef Py_ssize_t longest = fill_gains(&sums.scaled, stop, label, sums.table)
    cdef const double* before = sums.prefixes.single
    cdef double* row = sums.table
    for length in range(1, longest + 1):
        for j in range(4):
            row[j] += before[(stop - length) * ld + label + j]
        row, before = row + 4, sums.prefixes.opened
    exponentiate(longest, sums.table, columns)
    return longest


cdef double sum_prefixes(SegmentSums* sums) noexcept nogil:
    """Set the prefixes, and the last row of `ended`; returns the log-partition."""
    cdef const Segments* segments = &sums.scaled
    cdef Py_ssize_t size = segments.size, ld = segments.ld, stop, label, j
    cdef Py_ssize_t row_bytes = ld * sizeof(double)
    cdef double* closed = NULL
    cdef double* ended = sums.ended + (size - 1) * ld
    cdef double top, low, total = 0.0
    cdef const double* entry = segments.first
    cdef Columns columns
    if entry == NULL:
        memset(sums.row, 0, row_bytes)
        entry = sums.row
    open_segments(segments, 0, entry, &sums.prefixes)
    for stop in range(1, size + 1):
        closed = sums.prefixes.closed + (stop - 1) * ld
        for label in range(0, segments.n_labels, 4):
            weigh_lengths(sums, stop, label, &columns)
            for j in range(4):
                closed[label + j] = columns.high[j] + log(columns.total[j])
        memset(sums.row, 0, row_bytes)
        if stop < size:
            sks_logplus(segments.n_labels, ld, closed, segments.transitions, sums.row)
            open_segments(segments, stop, sums.row, &sums.prefixes)
    for label in range(segments.n_labels):
        sums.row[label] = closed[label]
        if segments.last != NULL:
            sums.row[label] += segments.last[label]
    top = sks_exp_row(segments.n_labels, ld, sums.row, ended, &low)
    if top == -INFINITY:
        return top
    for label in range(segments.n_labels):
        total += ended[label]
    sks_rescale(ld, 1.0 / total, ended)
    return top + log(total)


# ---- and back ----

cdef void find_shares(const double* probability, const Columns* columns,
                      double* share) noexcept nogil:
    """Divide probabilities of four labels by the sums of their columns."""
    cdef Py_ssize_t j
    for j in range(4):
        # all of the column is forbidden, and so is the label
        share[j] = (probability[j] / columns.total[j]
                    if columns.total[j] > 0.0 else 0.0)


cdef inline bint are_zero(const double* probability) noexcept nogil:
    """Whether four labels have no probability, which saves their exponentials."""
    return (probability[0] == 0.0 and probability[1] == 0.0
            and probability[2] == 0.0 and probability[3] == 0.0)


cdef void hand_to_starts(SegmentSums* sums, Py_ssize_t stop, Py_ssize_t label,
                         const SegmentMeans* means) noexcept nogil:
    """Distribute over lengths the segments of four labels that stop at a position.

    Those of length 1 are put into `row`, and the others added to `opened`.
    """
    cdef const Segments* given = &sums.given
    cdef Py_ssize_t ld = given.ld, longest, length, start, j
    cdef int32_t span
    cdef Columns columns
    cdef double[4] share, longer
    cdef double* row
    cdef double* opened
    cdef double* lengths
    cdef double* nodes
    longest = weigh_lengths(sums, stop, label, &columns)
    find_shares(sums.ended + (stop - 1) * ld + label, &columns, share)
    for j in range(4):
        longer[j] = 0.0
    # the longest first: a position is inside all segments that are longer than it needs
    for length in range(longest, 1, -1):
        start, row = stop - length, sums.table + 4 * (length - 1)
        opened = sums.opened + start * ld + label
        lengths = means.lengths + (length - 1) * ld + label
        nodes = means.nodes + label + role_at(
            given, INSIDE if length > 2 else END, start + 1)
        for j in range(4):
            row[j] *= share[j]
            longer[j] += row[j]
            opened[j] += row[j]
            lengths[j] += row[j]
            nodes[j] += longer[j]
    if not longest:
        return
    nodes = means.nodes + role_at(given, SINGLE, stop - 1) + label
    for j in range(4):
        sums.table[j] *= share[j]
        sums.row[label + j] = sums.table[j]
        means.lengths[label + j] += sums.table[j]
        nodes[j] += sums.table[j]
    if means.spans != NULL:
        for span in range(given.first_span[stop - 1], given.first_span[stop]):
            length = stop - given.span_start[span]
            if length <= longest:
                for j in range(4):
                    means.spans[span * ld + label + j] += (
                        sums.table[4 * (length - 1) + j])


cdef void hand_to_ends(SegmentSums* sums, Py_ssize_t start, Py_ssize_t label,
                       const SegmentMeans* means) noexcept nogil:
    """Distribute segments of four labels that start somewhere over labels before."""
    cdef Py_ssize_t ld = sums.given.ld, before, j
    cdef Columns columns
    cdef double[4] share, started
    cdef const double* scores = sums.scaled.transitions + label
    cdef const double* opened = sums.opened + start * ld + label
    cdef double* nodes = means.nodes + role_at(&sums.given, BEGIN, start) + label
    cdef double* row
    for j in range(4):
        nodes[j] += opened[j]
        started[j] = opened[j] + sums.row[label + j]
    if start == 0:
        for j in range(4):
            if means.first != NULL:
                means.first[label + j] += started[j]
        return
    if are_zero(started):
        return
    for before in range(sums.given.n_labels):
        for j in range(4):
            sums.table[4 * before + j] = (
                sums.prefixes.closed[(start - 1) * ld + before]
                + scores[before * ld + j])
    exponentiate(sums.given.n_labels, sums.table, &columns)
    find_shares(started, &columns, share)
    for before in range(sums.given.n_labels):
        row = sums.table + 4 * before
        for j in range(4):
            row[j] *= share[j]
            means.transitions[before * ld + label + j] += row[j]
        sums.ended[(start - 1) * ld + before] += (row[0] + row[1]) + (row[2] + row[3])


cdef double sum_segmentations(SegmentSums* sums, double weight,
                              const SegmentMeans* means) noexcept nogil:
    """Log-partition; adds the expected counts of all entries, times a weight, to means.

    Without means nothing but the log-partition is found; if it is -inf nothing is
    added. `segment_probability` needs means of weight one.
    """
    cdef Py_ssize_t size = sums.given.size, ld = sums.given.ld, n = sums.given.n_labels
    cdef Py_ssize_t stop, label
    cdef double log_partition = sum_prefixes(sums)
    cdef double* ended = sums.ended + (size - 1) * ld
    if log_partition == -INFINITY or means == NULL:
        return log_partition
    memset(sums.ended, 0, (size - 1) * ld * sizeof(double))
    memset(sums.opened, 0, size * ld * sizeof(double))
    # all that follows is linear in the probabilities of the last segment
    for label in range(n):
        ended[label] *= weight
        if means.last != NULL:
            means.last[label] += ended[label]
    for stop in range(size, 0, -1):
        memset(sums.row, 0, ld * sizeof(double))
        for label in range(0, n, 4):
            if not are_zero(sums.ended + (stop - 1) * ld + label):
                hand_to_starts(sums, stop, label, means)
        for label in range(0, n, 4):
            hand_to_ends(sums, stop - 1, label, means)
    return log_partition


cdef double segment_probability(const SegmentSums* sums, Py_ssize_t start,
                                Py_ssize_t stop, Py_ssize_t label) noexcept nogil:
    """Probability of a segment, after `sum_segmentations`."""
    cdef Py_ssize_t ld = sums.scaled.ld, cell = (stop - 1) * ld + label
    cdef const double* before = sums.prefixes.opened
    if stop - start == 1:
        before = sums.prefixes.single
    # also where the label is forbidden: -inf less -inf would be NaN
    if sums.ended[cell] == 0.0:
        return 0.0
    return sums.ended[cell] * exp(
        before[start * ld + label] + segment_gain(&sums.scaled, start, stop, label)
        - sums.prefixes.closed[cell])
