"""Segments beyond the table of lengths: a constant score for each further position.

A segment of more than L positions, where L is the number of rows of the table, scores
as a segment of L positions plus `tail` per further position. One more position adds the
same score for every start. Segments of L positions or more that continue after t,
called tails, are therefore summarized by one number per position and label:

    tails_t(b) = max( tails_{t - 1}(b) + inside[t, b] + tail[b],
                      opened_s(b) + inside[s + 1 to t, b] + lengths[L, b] )

with s = t - L + 1. A segment that stops after t scores tails_{t - 1} + end[t] + tail.
The recursion takes O(T K) time and memory, like a state of a hidden semi-Markov model
whose durations have a geometric tail (Y. Guedon, "Estimating hidden semi-Markov chains
from discrete sequences", 2003). Sum-product replaces the maximum by log-sum-exp, and
stores the shares of the two terms for the backward pass.

Positions form blocks of L - 1. A sum of L - 1 inside scores reaches over at most two
blocks: it is a sum from a position to the end of a block, plus a sum from the beginning
of the next block. Differences of prefix sums would lose digits, and be NaN after a
forbidden position.
"""

from libc.math cimport INFINITY
from libc.string cimport memset

from sksstruct.inference.segments._scores cimport (
    END, INSIDE, Prefixes, SegmentMeans, Segments, role_at,
)
from sksstruct.utils._simd cimport sks_series_logadd


cdef Py_ssize_t tails_scratch(const Segments* segments) noexcept nogil:
    """Number of doubles that `load_tails` reserves."""
    if segments.tail == NULL or segments.size <= segments.max_length:
        return 0
    return (4 * segments.size + 3) * segments.ld


cdef Tails load_tails(const Segments* segments, bint best,
                      double** memory) noexcept nogil:
    """Reserve the rows of `Tails`, and write the sums `rest` of inside scores."""
    cdef Tails tails
    cdef Py_ssize_t ld = segments.ld, cells = segments.size * ld, t, label
    cdef Py_ssize_t width = segments.max_length - 1, node
    memset(&tails, 0, sizeof(Tails))
    tails.any, tails.best = tails_scratch(segments) > 0, best
    if not tails.any:
        return tails
    tails.scores = memory[0]
    tails.older, tails.stopping = tails.scores + cells, tails.scores + 2 * cells
    tails.rest = tails.scores + 3 * cells
    tails.block_sum = tails.rest + cells
    tails.other, tails.weight = tails.block_sum + ld, tails.block_sum + 2 * ld
    memory[0] += tails_scratch(segments)
    memset(tails.weight, 0, ld * sizeof(double))
    for t in range(segments.size - 1, -1 if width else segments.size - 1, -1):
        node = role_at(segments, INSIDE, t)
        for label in range(segments.n_labels):
            tails.rest[t * ld + label] = segments.nodes[node + label]
            if t + 1 < segments.size and (t + 1) % width:
                tails.rest[t * ld + label] += tails.rest[(t + 1) * ld + label]
    return tails


cdef void merge_scores(Py_ssize_t n, bint best, const double* other, double* row,
                       double* part) noexcept nogil:
    """Merge the scores `other` into `row`; write the shares of `other` to `part`.

    The merged score is the maximum if `best`, else the logarithm of the sum of
    exponentials.
    """
    cdef Py_ssize_t label
    if not best:
        sks_series_logadd(n, other, row, part)
        return
    for label in range(n):
        # on ties `row` stays, as its segments are shorter
        part[label] = other[label] > row[label]
        row[label] = other[label] if other[label] > row[label] else row[label]


# ---- forward ----

cdef double tail_score(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                       const Tails* tails) noexcept nogil:
    """Score of prefixes that end in a segment of more than max_length positions.

    The segment stops at `stop`. The score is -inf if there is no such segment.
    """
    if not tails.any or stop <= segments.max_length:
        return -INFINITY
    return (tails.scores[(stop - 2) * segments.ld + label]
            + segments.nodes[role_at(segments, END, stop - 1) + label]
            + segments.tail[label])


cdef void stop_tails(const Segments* segments, Py_ssize_t stop, double* row,
                     const Tails* tails) noexcept nogil:
    """Merge the scores of segments longer than max_length into `row`, for one stop."""
    cdef Py_ssize_t label
    if not tails.any or stop <= segments.max_length:
        return
    for label in range(segments.n_labels):
        tails.other[label] = tail_score(segments, stop, label, tails)
    merge_scores(segments.n_labels, tails.best, tails.other, row,
                 tails.stopping + (stop - 1) * segments.ld)


cdef void extend_tails(const Segments* segments, Py_ssize_t last,
                       const Prefixes* prefixes, const Tails* tails) noexcept nogil:
    """Score the tails that end at `last`; `opened` is known up to `last`."""
    cdef Py_ssize_t label, ld = segments.ld, width = segments.max_length - 1
    cdef Py_ssize_t start = last - width, first = start + 1
    cdef const double* inside = segments.nodes + role_at(segments, INSIDE, last)
    cdef const double* longest = segments.lengths + width * ld
    cdef double* row
    cdef double window
    if not tails.any:
        return
    row = tails.scores + last * ld
    for label in range(segments.n_labels):
        if width and last % width:
            tails.block_sum[label] += inside[label]
        else:
            tails.block_sum[label] = inside[label]
        if start < 0:
            continue
        window = tails.block_sum[label] if width else 0.0
        if width and first % width:
            window += tails.rest[first * ld + label]
        row[label] = prefixes.opened[start * ld + label] + window + longest[label]
        tails.other[label] = -INFINITY
        if start:
            tails.other[label] = row[label - ld] + inside[label] + segments.tail[label]
    if start >= 0:
        merge_scores(segments.n_labels, tails.best, tails.other, row,
                     tails.older + last * ld)


cdef Py_ssize_t tail_length(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                            const Tails* tails) noexcept nogil:
    """Length of the shortest best segment that has a tail and the given stop."""
    cdef Py_ssize_t last = stop - 2
    while tails.older[last * segments.ld + label] > 0.0:
        last -= 1
    return stop - last - 1 + segments.max_length


# ---- backward ----

cdef void hand_tails(const Segments* given, Py_ssize_t last, bint inside,
                     double* opened, const SegmentMeans* means,
                     const Tails* tails) noexcept nogil:
    """Distribute the probability of tails at `last` over tails before, and starts.

    The share of tails at `last` - 1 stays in `weight`; the share of tails that have
    just max_length positions is added to `opened`, probabilities of starts. Positions
    inside segments are counted if `inside`.
    """
    cdef Py_ssize_t label, ld = given.ld, start = last - given.max_length + 1, t
    cdef double older, begun
    # no segment continues after the last position of the sequence
    if not tails.any or start < 0 or last + 1 == given.size:
        return
    for label in range(given.n_labels):
        older = tails.weight[label] * tails.older[last * ld + label]
        begun = tails.weight[label] - older
        tails.weight[label] = older
        means.tail[label] += older
        means.lengths[(given.max_length - 1) * ld + label] += begun
        opened[start * ld + label] += begun
        if not inside:
            continue
        means.nodes[role_at(given, INSIDE, last) + label] += older
        for t in range(start + 1, last + 1 if begun != 0.0 else 0):
            means.nodes[role_at(given, INSIDE, t) + label] += begun


cdef void hand_stopping(const Segments* given, Py_ssize_t stop, double* row,
                        double* goes_on, const SegmentMeans* means,
                        const Tails* tails) noexcept nogil:
    """Subtract probabilities of segments longer than max_length from a row, by label.

    The segments stop at `stop`. Adds the probabilities to `weight`, and, unless NULL,
    to `goes_on`, probabilities that a segment contains the positions before the stop.
    """
    cdef Py_ssize_t label
    cdef double stopping
    if not tails.any or stop <= given.max_length:
        return
    for label in range(given.n_labels):
        stopping = row[label] * tails.stopping[(stop - 1) * given.ld + label]
        row[label] -= stopping
        tails.weight[label] += stopping
        means.tail[label] += stopping
        means.nodes[role_at(given, END, stop - 1) + label] += stopping
        if goes_on != NULL:
            goes_on[label] += stopping
