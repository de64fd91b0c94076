"""First and last segment of a sequence, whose lengths have boundary scores.

A sequence may begin and end inside a segment, of which the sequence has only a part.
These first and last segments are no terms of the recursions of other kernels. The first
segment has one score for each stop, and the last segment one for each start, so that
both take O(T K) time. Sums of inside scores are updated from position to position.
Other kernels start no segment at the first position (`open_first` forbids these
starts), and leave the last stop to `stop_last`.

As in `_tails.pyx`, shares of merged scores are stored for the backward pass.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.segments._scores cimport (
    END, INSIDE, SINGLE, Prefixes, SegmentMeans, Segments, add_length,
    length_score, role_at,
)
from sksstruct.inference.segments._tails cimport merge_scores


cdef Py_ssize_t boundaries_scratch(const Segments* segments) noexcept nogil:
    """Number of doubles that `load_boundaries` reserves."""
    if segments.boundary_lengths == NULL:
        return 0
    return (2 * segments.size + 5) * segments.ld


cdef Boundaries load_boundaries(const Segments* segments, bint best,
                                double** memory) noexcept nogil:
    """Reserve the rows of `Boundaries`."""
    cdef Boundaries ends
    cdef Py_ssize_t ld = segments.ld
    memset(&ends, 0, sizeof(Boundaries))
    ends.any, ends.best = segments.boundary_lengths != NULL, best
    if not ends.any:
        return ends
    ends.first, ends.last = memory[0], memory[0] + segments.size * ld
    ends.begun = ends.last + segments.size * ld
    ends.single, ends.inside = ends.begun + ld, ends.begun + 2 * ld
    ends.other, ends.goes_on = ends.begun + 3 * ld, ends.begun + 4 * ld
    memory[0] += boundaries_scratch(segments)
    memset(ends.goes_on, 0, ld * sizeof(double))
    return ends


# ---- forward ----

cdef void open_first(const Segments* segments, const Prefixes* prefixes,
                     const Boundaries* ends) noexcept nogil:
    """Move the scores of starts at position 0 from prefixes to `ends`.

    They become -inf in prefixes, which other kernels read.
    """
    cdef Py_ssize_t label, row_bytes = segments.ld * sizeof(double)
    if not ends.any:
        return
    memcpy(ends.begun, prefixes.opened, row_bytes)
    memcpy(ends.single, prefixes.single, row_bytes)
    memset(ends.inside, 0, row_bytes)
    for label in range(segments.ld):
        prefixes.opened[label] = prefixes.single[label] = -INFINITY


cdef void score_first(const Segments* segments, Py_ssize_t stop, double* row,
                      const Boundaries* ends) noexcept nogil:
    """Write to a row the scores of the first segment with a given stop, by label.

    Calls must be in ascending order of stops, as `inside` is updated.
    """
    cdef Py_ssize_t label, ld = segments.ld
    cdef int32_t span
    for label in range(segments.n_labels):
        row[label] = ends.single[label]
        if stop > 1:
            row[label] = ends.begun[label] + ends.inside[label] + segments.nodes[
                role_at(segments, END, stop - 1) + label]
            # position stop - 1 is inside all first segments with later stops
            ends.inside[label] += segments.nodes[
                role_at(segments, INSIDE, stop - 1) + label]
        row[label] += length_score(segments, 0, stop, label)
    if segments.spans == NULL:
        return
    for span in range(segments.first_span[stop - 1], segments.first_span[stop]):
        for label in range(0 if segments.span_start[span] else segments.n_labels):
            row[label] += segments.spans[span * ld + label]


cdef void stop_first(const Segments* segments, Py_ssize_t stop, double* row,
                     const Boundaries* ends) noexcept nogil:
    """Merge the scores of the first segment with a given stop into a row of prefixes.

    The last stop is not merged here, but by `stop_last`.
    """
    cdef double* first = ends.first + (stop - 1) * segments.ld
    if not ends.any:
        return
    score_first(segments, stop, ends.other, ends)
    merge_scores(segments.n_labels, ends.best, ends.other, row, first)
    if ends.best:
        memcpy(first, ends.other, segments.n_labels * sizeof(double))


cdef void stop_last(const Segments* segments, const Prefixes* prefixes, double* row,
                    const Boundaries* ends) noexcept nogil:
    """Write to a row the scores of all prefixes that stop at the last position."""
    cdef Py_ssize_t size = segments.size, ld = segments.ld, n = segments.n_labels
    cdef Py_ssize_t start, label, stop = size
    cdef const double* end = segments.nodes + role_at(segments, END, size - 1)
    cdef double* scores
    cdef int32_t span
    # start 0: the first segment is the whole sequence
    score_first(segments, size, ends.last, ends)
    memcpy(row, end, n * sizeof(double))
    for start in range(size - 1, 0, -1):
        scores = ends.last + start * ld
        for label in range(n):
            scores[label] = prefixes.single[start * ld + label]
            if start < size - 1:
                scores[label] = prefixes.opened[start * ld + label] + row[label]
                # position `start` is inside all last segments with earlier starts
                row[label] += segments.nodes[role_at(segments, INSIDE, start) + label]
            scores[label] += length_score(segments, start, stop, label)
    if segments.spans != NULL:
        for span in range(segments.first_span[size - 1], segments.first_span[size]):
            start = segments.span_start[span]
            for label in range(n if start else 0):
                ends.last[start * ld + label] += segments.spans[span * ld + label]
    for label in range(n):
        row[label] = -INFINITY
    # from the shortest segment to the longest: on ties the shortest remains
    for start in range(size - 1, -1, -1):
        memcpy(ends.other, ends.last + start * ld, n * sizeof(double))
        merge_scores(n, ends.best, ends.other, row, ends.last + start * ld)


cdef Py_ssize_t last_start(const Segments* segments, Py_ssize_t label,
                           const Boundaries* ends) noexcept nogil:
    """Return the start of the shortest of the best last segments of a label."""
    cdef Py_ssize_t start = 0
    # a share of zero means that a shorter segment scores at least as much
    while start < segments.size - 1 and ends.last[start * segments.ld + label] == 0.0:
        start += 1
    return start


# ---- backward ----

cdef void hand_first(const Segments* given, Py_ssize_t stop, double* row,
                     double* opened, double* goes_on, const SegmentMeans* means,
                     const Boundaries* ends) noexcept nogil:
    """Subtract the probabilities of first segments with a given stop from a row.

    The probability of a first segment of one position stays in the row. Probabilities
    of longer segments are added to `opened`, probabilities of starts, and to `goes_on`,
    probabilities that a segment contains the position before. If `goes_on` is NULL,
    inside positions are counted here.
    """
    cdef Py_ssize_t label, ld = given.ld, last = stop - 1
    cdef double first
    cdef int32_t span
    if not ends.any:
        return
    for label in range(given.n_labels):
        first = row[label] * ends.first[last * ld + label]
        ends.other[label] = first
        add_length(given, 0, stop, label, first, means)
        if not last:
            # the first segment has one position: its probability stays in the row
            means.nodes[role_at(given, SINGLE, 0) + label] += first
            continue
        row[label] -= first
        opened[label] += first
        means.nodes[role_at(given, END, last) + label] += first
        if goes_on != NULL:
            goes_on[label] += first
            continue
        means.nodes[role_at(given, INSIDE, last) + label] += ends.goes_on[label]
        ends.goes_on[label] += first
    if means.spans == NULL:
        return
    for span in range(given.first_span[last], given.first_span[stop]):
        for label in range(0 if given.span_start[span] else given.n_labels):
            means.spans[span * ld + label] += ends.other[label]


cdef void hand_last(const Segments* given, const double* ended, double* row,
                    double* opened, double* goes_on, const SegmentMeans* means,
                    const Boundaries* ends) noexcept nogil:
    """Distribute the probability of stops at the last position over their starts.

    Probabilities of segments of one position are written to a row; those of longer
    segments are added to `opened` and `goes_on`; see `hand_first`.
    """
    cdef Py_ssize_t size = given.size, ld = given.ld, n = given.n_labels, label, start
    cdef double share, longer
    cdef double* part
    cdef int32_t span
    for label in range(n):
        longer = 0.0
        row[label] = ended[label]
        # in the reverse order of the merges: from the longest segment to the shortest
        for start in range(size - 1):
            part = ends.last + start * ld + label
            share = part[0] = row[label] * part[0]
            row[label] -= share
            opened[start * ld + label] += share
            add_length(given, start, size, label, share, means)
            longer += share
            if goes_on == NULL and start < size - 2:
                means.nodes[role_at(given, INSIDE, start + 1) + label] += longer
        means.nodes[role_at(given, END, size - 1) + label] += longer
        means.nodes[role_at(given, SINGLE, size - 1) + label] += row[label]
        ends.last[(size - 1) * ld + label] = row[label]
        add_length(given, size - 1, size, label, row[label], means)
        if goes_on != NULL:
            goes_on[label] += longer
    if means.spans == NULL:
        return
    for span in range(given.first_span[size - 1], given.first_span[size]):
        part = ends.last + given.span_start[span] * ld
        for label in range(n):
            means.spans[span * ld + label] += part[label]
