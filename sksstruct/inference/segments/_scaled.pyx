"""Sums over the lengths of segments, as products of vectors.

For a label, the weight of a segment from s to e is exp of

    opened(s) + inside(s + 1) + ... + inside(e - 2) + end(e - 1) + length(e - s)

Let P be the prefix sums of inside scores. The score is opened(s) - P(s + 1), which
depends on the start alone, plus P(e - 1) + end(e - 1), which depends on the stop alone,
plus the score of the length. Sums over lengths are therefore inner products of two
vectors, the exponentials of starts and of lengths, and a pair of a start and a stop
takes one multiplication and one addition.

Exponentials of starts are relative to a reference, which is constant in a block of
stops; P begins at the first stop of the block. The sum at a stop is exact as long as
the sum is neither large nor small: terms that underflow are negligible, and a term cut
off at the upper limit would make the sum large. Otherwise a new block begins: the
weights of starts are computed again, relative to the largest term at this stop. With
moderate scores new blocks are rare. With any scores the sums are exact, but each new
block takes exponentials of many starts.

No segment has a position inside whose inside score is -inf. At such a position a new
block begins, and all earlier starts get weight zero.

Scores of lengths may fall steadily, by more than the range of exp. A segment of length
l has l - 2 inside positions, so that a constant slope can be moved from the scores of
lengths to the inside scores.

Two kinds of segments are no terms of the products: segments of one position, which have
scores of their own, and segments beyond the table of lengths (`_tails.pyx`). The
logarithms of their sums, `alone`, are computed before.
"""

from libc.math cimport INFINITY, exp
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.segments._scores cimport (
    END, INSIDE, Prefixes, SegmentMeans, Segments, role_at,
)
from sksstruct.utils._simd cimport (
    sks_series_dot, sks_series_dot_add, sks_series_exp, sks_series_log,
)

# Logarithmic range of the weights of starts: larger weights are cut off at MOST,
# smaller weights become zero.
cdef double MOST = 690.0
cdef double LEAST = -700.0
# Range of the sum at a stop. Terms that underflow are below 1e-300, and a term that was
# cut off is above exp(MOST - MOST_LENGTHS - MOST_SPAN) = 1e212.
cdef double SMALL = 1e-280
cdef double LARGE = 1e200
# Logarithm of the largest term at the first stop of a block. Later terms are larger if
# later starts follow better prefixes.
cdef double FIRST = -400.0
# Bound on sums of inside scores: larger sums would lose digits in differences.
cdef double FAR = 1e4
# Largest difference of the length scores of a label, and largest absolute score of a
# span, for which exponentials are used.
cdef double MOST_LENGTHS = 150.0
cdef double MOST_SPAN = 50.0


# ---- memory ----

cdef Py_ssize_t cells_scratch(const Segments* segments) noexcept nogil:
    """Number of doubles that `load_cells` reserves."""
    cdef Py_ssize_t n_spans = 0
    if segments.spans != NULL:
        n_spans = segments.first_span[segments.size]
    return (segments.n_labels * (3 * segments.max_length + 2 * segments.size)
            + (4 * segments.size + 12) * segments.ld + 2 * segments.size
            + 2 * n_spans)


cdef inline double* take(double** memory, Py_ssize_t size) noexcept nogil:
    """Reserve `size` doubles at a pointer, and advance the pointer."""
    cdef double* out = memory[0]
    memory[0] += size
    return out


cdef bint load_cells(const Segments* segments, double** memory,
                     Cells* cells) noexcept nogil:
    """Reserve the rows of `Cells`, and compute the weights of lengths.

    Returns False if scores of lengths or of spans differ too much for exponentials.
    """
    cdef Py_ssize_t n = segments.n_labels, ld = segments.ld, size = segments.size
    cdef Py_ssize_t rows = n * segments.max_length, n_spans = 0, k
    if segments.spans != NULL:
        n_spans = segments.first_span[size]
    cells.lengths, cells.backward = take(memory, rows), take(memory, rows)
    cells.counts = take(memory, rows)
    cells.starts, cells.shares = take(memory, n * size), take(memory, n * size)
    cells.longer, cells.alone = take(memory, size * ld), take(memory, size * ld)
    cells.references = take(memory, size * ld)
    cells.block_start = <Py_ssize_t*> take(memory, size * ld)
    cells.high, cells.slope = take(memory, ld), take(memory, ld)
    cells.reference = take(memory, ld)
    cells.inside_sum, cells.inside = take(memory, ld), take(memory, ld)
    cells.base, cells.total = take(memory, ld), take(memory, ld)
    cells.new_terms = take(memory, 2 * ld)
    cells.first = <Py_ssize_t*> take(memory, ld)
    cells.end = <Py_ssize_t*> take(memory, ld)
    cells.latest_start = <Py_ssize_t*> take(memory, ld)
    cells.head = <Py_ssize_t*> take(memory, size)
    cells.saved = take(memory, size)
    cells.after = <Py_ssize_t*> take(memory, n_spans)
    cells.span_stop = <Py_ssize_t*> take(memory, n_spans)
    for k in range(n_spans * ld):
        if k % ld < n and segments.spans[k] != -INFINITY and not (
                -MOST_SPAN <= segments.spans[k] <= MOST_SPAN):
            return False
    for k in range(n):
        if not weigh_lengths(segments, k, cells):
            return False
    return True


cdef bint weigh_lengths(const Segments* segments, Py_ssize_t label,
                        Cells* cells) noexcept nogil:
    """Compute weights of a label's lengths; return False if scores differ too much."""
    cdef Py_ssize_t most = segments.max_length, k, first = -1, last = -1
    cdef const double* scores = segments.lengths + label
    cdef double* ahead = cells.lengths + label * most
    cdef double high = -INFINITY, low = INFINITY, slope = 0.0
    for k in range(1, most):
        if scores[k * segments.ld] > -INFINITY:
            first, last = k if first < 0 else first, k
    if last > first:
        slope = ((scores[last * segments.ld] - scores[first * segments.ld])
                 / (last - first))
    for k in range(most):
        ahead[k] = scores[k * segments.ld] - slope * (k - 1)
    for k in range(1, most):
        if ahead[k] > -INFINITY:
            high = ahead[k] if ahead[k] > high else high
            low = ahead[k] if ahead[k] < low else low
    cells.slope[label] = slope
    cells.high[label] = high = high if high > -INFINITY else 0.0
    for k in range(most):
        # the sums over lengths have no segments of length one
        ahead[k] = exp(ahead[k] - high) if k else 0.0
        cells.backward[(label + 1) * most - 1 - k] = ahead[k]
    return high - low <= MOST_LENGTHS


# ---- weights of starts ----

cdef inline double inside_at(const Segments* segments, Py_ssize_t t, Py_ssize_t label,
                             const Cells* cells) noexcept nogil:
    """Inside score of a position, plus the slope of the length scores."""
    return segments.nodes[role_at(segments, INSIDE, t) + label] + cells.slope[label]


cdef inline double end_at(const Segments* segments, Py_ssize_t stop,
                          Py_ssize_t label) noexcept nogil:
    """Score of the last position of a segment that stops at `stop`."""
    return segments.nodes[role_at(segments, END, stop - 1) + label]


cdef inline double weight_of(double score) noexcept nogil:
    """Exponential of a relative score; zero below LEAST, and cut off at MOST."""
    if score < LEAST:
        return 0.0
    return exp(score if score < MOST else MOST)


cdef Py_ssize_t relate(const Segments* segments, Py_ssize_t label, Py_ssize_t first,
                       Py_ssize_t last, const Prefixes* prefixes,
                       Cells* cells) noexcept nogil:
    """Write the scores opened - P of starts, for a block whose first stop is `first`.

    P, the prefix sums of inside scores, begins at the first stop of the block. The
    scores are those of starts up to `last`, from the earliest start of segments that
    stop in this block. Returns the earliest start.
    """
    cdef Py_ssize_t low = max(first - segments.longest[label], 0), s
    cdef Py_ssize_t ld = segments.ld
    cdef double inside = 0.0, score
    cdef double* starts = cells.starts + label * segments.size
    for s in range(first - 2, low - 1, -1):
        starts[s] = prefixes.opened[s * ld + label] + inside
        # this sum is -inf for all earlier starts if position s may not be inside
        inside += inside_at(segments, s, label, cells)
    inside = 0.0
    for s in range(first - 1, last + 1):
        score = inside_at(segments, s, label, cells)
        # a forbidden position is inside no segment of this block, and must not make the
        # sum -inf
        inside += score if score > -INFINITY else 0.0
        starts[s] = prefixes.opened[s * ld + label] - inside
    return low


cdef void begin_block(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                      double alone, const Prefixes* prefixes,
                      Cells* cells) noexcept nogil:
    """Begin a block at a stop: write starts' weights, relative to the largest term.

    `alone` is the log weight of segments that stop here and are in no sum over lengths.
    """
    cdef double* starts = cells.starts + label * segments.size
    cdef const double* lengths = segments.lengths + label
    cdef Py_ssize_t low = relate(segments, label, stop, stop - 2, prefixes, cells), s
    cdef double high = alone - end_at(segments, stop, label) - cells.high[label], score
    for s in range(low, stop - 1):
        score = (starts[s] + lengths[(stop - s - 1) * segments.ld] - cells.high[label]
                 - (stop - s - 2) * cells.slope[label])
        if segments.spans != NULL:
            score += span_score(segments, s, stop, label)
        high = score if score > high else high
    # high is -inf if all segments that stop here are forbidden, and inf if the last
    # position may not end a segment
    high = (high if -INFINITY < high < INFINITY else 0.0) - FIRST
    sks_series_exp(stop - 1 - low, high, starts + low)
    cells.first[label], cells.inside_sum[label] = stop, 0.0
    cells.reference[label] = high


cdef double span_score(const Segments* segments, Py_ssize_t start, Py_ssize_t stop,
                       Py_ssize_t label) noexcept nogil:
    """Sum of the scores of all spans from a start to a stop."""
    cdef int32_t span
    cdef double score = 0.0
    for span in range(segments.first_span[stop - 1], segments.first_span[stop]):
        if segments.span_start[span] == start:
            score += segments.spans[span * segments.ld + label]
    return score


# ---- forward ----

cdef void start_forward(const Segments* segments, Cells* cells) noexcept nogil:
    """Initialize the block, the latest start and the sums of each label."""
    cdef Py_ssize_t label
    for label in range(segments.ld):
        cells.first[label], cells.latest_start[label] = 1, -1
        cells.inside_sum[label] = cells.reference[label] = 0.0


cdef bint add_start(const Segments* segments, Py_ssize_t start, Py_ssize_t label,
                    const Prefixes* prefixes, Cells* cells) noexcept nogil:
    """Add a start to the state of a label; return False if a new block must begin.

    At the next stop, `start` + 2, segments of two positions may begin at `start`.
    """
    cdef double inside = inside_at(segments, start, label, cells)
    cdef bint goes_on = True
    if inside == -INFINITY:
        goes_on = cells.latest_start[label] < 0
        cells.latest_start[label] = -1
    else:
        cells.inside_sum[label] += inside
    if prefixes.opened[start * segments.ld + label] > -INFINITY:
        cells.latest_start[label] = start
    # a large sum of inside scores would lose digits in differences
    return goes_on and -FAR < cells.inside_sum[label] < FAR


cdef double sum_longer(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                       Cells* cells) noexcept nogil:
    """Sum the weights of a label's segments with a stop and two or more positions."""
    cdef Py_ssize_t longest = min(<Py_ssize_t> segments.longest[label], stop), start
    cdef double* starts = cells.starts + label * segments.size
    cdef int32_t span, first = 0, last = 0
    cdef double total
    if segments.spans != NULL:
        first, last = segments.first_span[stop - 1], segments.first_span[stop]
    for span in range(first, last):
        start = segments.span_start[span]
        cells.saved[start] = starts[start]
    for span in range(first, last):
        starts[segments.span_start[span]] *= exp(
            segments.spans[span * segments.ld + label])
    total = sks_series_dot(
        longest - 1, starts + stop - longest,
        cells.backward + (label + 1) * segments.max_length - longest)
    for span in range(first, last):
        start = segments.span_start[span]
        starts[start] = cells.saved[start]
    return total


cdef void find_base(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                    double alone, const Prefixes* prefixes,
                    Cells* cells) noexcept nogil:
    """Write logarithms of the two new weights at a stop to `new_terms`; set `base`."""
    cdef Py_ssize_t start = stop - 2, ld = segments.ld
    cells.new_terms[label] = (
        prefixes.opened[start * ld + label] - cells.inside_sum[label]
        - cells.reference[label])
    cells.base[label] = (cells.reference[label] + cells.high[label]
                         + cells.inside_sum[label] + end_at(segments, stop, label))
    cells.new_terms[ld + label] = alone - cells.base[label]


cdef bint has_longer(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                     const Cells* cells) noexcept nogil:
    """Whether segments of two positions or more may stop at a position."""
    return (cells.latest_start[label] >= 0
            and stop - cells.latest_start[label] <= segments.longest[label]
            and end_at(segments, stop, label) > -INFINITY)


cdef void sum_label(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                    double alone, const Prefixes* prefixes,
                    Cells* cells) noexcept nogil:
    """Write the sum of the weights of a label's segments with a stop to `total`."""
    cdef Py_ssize_t cell = (stop - 1) * segments.ld + label
    cells.starts[label * segments.size + stop - 2] = cells.new_terms[label]
    if not has_longer(segments, stop, label, cells):
        cells.longer[cell], cells.alone[cell] = 0.0, 1.0
        cells.base[label], cells.total[label] = alone, 1.0
        return
    cells.alone[cell] = cells.new_terms[segments.ld + label]
    cells.longer[cell] = sum_longer(segments, stop, label, cells)
    cells.total[label] = cells.longer[cell] + cells.alone[cell]
    if SMALL < cells.total[label] < LARGE:
        return
    begin_block(segments, stop, label, alone, prefixes, cells)
    find_base(segments, stop, label, alone, prefixes, cells)
    cells.alone[cell] = weight_of(cells.new_terms[segments.ld + label])
    cells.longer[cell] = sum_longer(segments, stop, label, cells)
    # the sum is large enough now, unless all segments that stop here are forbidden
    cells.total[label] = cells.longer[cell] + cells.alone[cell]


cdef void close_labels(const Segments* segments, Py_ssize_t stop, const double* alone,
                       const Prefixes* prefixes, Cells* cells) noexcept nogil:
    """Write to `closed` the log sums over lengths of segments that have a stop.

    `alone` has log weights, by label, of segments that are in no sum over lengths.
    """
    cdef Py_ssize_t label, ld = segments.ld, n = segments.n_labels
    cdef Py_ssize_t cell = (stop - 1) * ld
    for label in range(n):
        cells.base[label], cells.total[label] = alone[label], 1.0
        cells.longer[cell + label], cells.alone[cell + label] = 0.0, 1.0
        if stop == 1:
            continue
        if not add_start(segments, stop - 2, label, prefixes, cells):
            begin_block(segments, stop, label, alone[label], prefixes, cells)
        find_base(segments, stop, label, alone[label], prefixes, cells)
    if stop > 1:
        # one vectorized call exponentiates the terms of all labels
        sks_series_exp(n, 0.0, cells.new_terms)
        sks_series_exp(n, 0.0, cells.new_terms + ld)
        for label in range(n):
            sum_label(segments, stop, label, alone[label], prefixes, cells)
    sks_series_log(n, cells.total)
    for label in range(n):
        prefixes.closed[cell + label] = cells.base[label] + cells.total[label]
        cells.block_start[cell + label] = cells.first[label]
        cells.references[cell + label] = cells.reference[label]


# ---- backward ----

cdef void start_backward(const Segments* segments, double weight,
                         Cells* cells) noexcept nogil:
    """Initialize the backward pass of all labels; `weight` multiplies all means."""
    cdef Py_ssize_t label, t
    cells.weight = weight
    for label in range(segments.n_labels):
        # `_boundaries.pyx` may handle the last stop, which then has no share here
        cells.shares[(label + 1) * segments.size - 1] = 0.0
        cells.end[label], cells.inside[label] = segments.size + 1, 0.0
    for t in range(segments.size):
        cells.head[t] = -1
    memset(cells.counts, 0,
           segments.n_labels * segments.max_length * sizeof(double))


cdef void weigh_spans(const Segments* segments, Py_ssize_t start, Py_ssize_t label,
                      Cells* cells) noexcept nogil:
    """Multiply shares of stops by weights of spans from a start; save the shares."""
    cdef double* shares = cells.shares + label * segments.size - 1
    cdef Py_ssize_t span = cells.head[start]
    while span >= 0:
        cells.saved[cells.span_stop[span] - 1] = shares[cells.span_stop[span]]
        span = cells.after[span]
    span = cells.head[start]
    while span >= 0:
        shares[cells.span_stop[span]] *= exp(
            segments.spans[span * segments.ld + label])
        span = cells.after[span]


cdef void count_spans(const Segments* segments, Py_ssize_t start, Py_ssize_t first,
                      Py_ssize_t last, Py_ssize_t label, const SegmentMeans* means,
                      Cells* cells) noexcept nogil:
    """Add the means of the spans from a start; restore what `weigh_spans` changed."""
    cdef double* shares = cells.shares + label * segments.size - 1
    cdef double weight = cells.starts[label * segments.size + start], length
    cdef Py_ssize_t span = cells.head[start], stop
    while span >= 0:
        stop = cells.span_stop[span]
        if first <= stop <= last:
            length = cells.lengths[label * segments.max_length + stop - start - 1]
            means.spans[span * segments.ld + label] += (
                weight * (length * shares[stop]))
        span = cells.after[span]
    span = cells.head[start]
    while span >= 0:
        shares[cells.span_stop[span]] = cells.saved[cells.span_stop[span] - 1]
        span = cells.after[span]


cdef double share_start(const Segments* segments, Py_ssize_t start, Py_ssize_t first,
                        Py_ssize_t label, const SegmentMeans* means,
                        Cells* cells) noexcept nogil:
    """Return the probability of segments from a start to stops `first` or later.

    Stops of later blocks do not count. Adds to the counts of these segments' lengths.
    """
    cdef Py_ssize_t last = min(cells.end[label] - 1, start + segments.longest[label])
    cdef Py_ssize_t cell = label * segments.max_length + first - start - 1
    cdef double weight = cells.starts[label * segments.size + start], total
    cdef const double* shares = cells.shares + label * segments.size + first - 1
    cdef bint by_span = segments.spans != NULL and cells.head[start] >= 0
    if last < first or weight == 0.0:
        return 0.0
    if by_span:
        weigh_spans(segments, start, label, cells)
    total = sks_series_dot_add(last - first + 1, weight, shares, cells.lengths + cell,
                               cells.counts + cell)
    if by_span:
        count_spans(segments, start, first, last, label, means, cells)
    return weight * total


cdef void leave_block(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                      const Prefixes* prefixes, double* opened,
                      const SegmentMeans* means, Cells* cells) noexcept nogil:
    """Go from a block that begins at a stop to the block before.

    Adds the probabilities of starts that precede the stop to `opened`, and writes the
    weights of starts of the block before.
    """
    cdef Py_ssize_t low = max(stop - <Py_ssize_t> segments.longest[label], 0), s
    cdef Py_ssize_t before = (stop - 2) * segments.ld + label
    cdef double* starts = cells.starts + label * segments.size
    for s in range(low, stop - 1):
        opened[s * segments.ld + label] += share_start(
            segments, s, stop, label, means, cells)
    cells.end[label] = stop
    low = relate(segments, label, cells.block_start[before], stop - 3, prefixes, cells)
    sks_series_exp(stop - 2 - low, cells.references[before], starts + low)


cdef double leave_label(const Segments* scaled, Py_ssize_t stop, Py_ssize_t label,
                        double ended, const Prefixes* prefixes, double* opened,
                        const Segments* given, const SegmentMeans* means,
                        Cells* cells) noexcept nogil:
    """Distribute the probability that a label stops at a position over starts.

    Returns the probability of the segments in `alone`, which are in no sum over
    lengths.
    """
    cdef Py_ssize_t s = stop - 1, cell = s * given.ld + label
    cdef double total = cells.longer[cell] + cells.alone[cell]
    cdef double share = ended / total if total > 0.0 else 0.0, inside
    cdef double longer = share * cells.longer[cell], alone = share * cells.alone[cell]
    cells.shares[label * given.size + s] = share if longer != 0.0 else 0.0
    opened[cell] += share_start(scaled, s, stop + 1, label, means, cells)
    # position s is inside the segments that start before s and stop after `stop`
    inside = cells.inside[label] - opened[cell]
    # rounding may yield a wrong sign, or a positive number at a forbidden position
    if inside * cells.weight < 0.0 or inside_at(scaled, s, label, cells) == -INFINITY:
        inside = 0.0
    cells.inside[label] = inside + longer
    means.nodes[role_at(given, INSIDE, s) + label] += inside
    means.nodes[role_at(given, END, s) + label] += longer
    if stop > 1 and cells.block_start[cell] == stop:
        leave_block(scaled, stop, label, prefixes, opened, means, cells)
    return alone


cdef void leave_stop(const Segments* scaled, Py_ssize_t stop, const Prefixes* prefixes,
                     const double* ended, double* opened, double* row,
                     const Segments* given, const SegmentMeans* means,
                     Cells* cells) noexcept nogil:
    """Distribute the probabilities of stops at a position over lengths.

    Writes the probabilities of the segments in `alone` to `row`; adds those of all
    other segments to `opened`, at their starts.
    """
    cdef Py_ssize_t label, start
    cdef int32_t span, first = 0, last = 0
    if scaled.spans != NULL:
        first, last = scaled.first_span[stop - 1], scaled.first_span[stop]
    for span in range(first, last):
        start = scaled.span_start[span]
        cells.span_stop[span] = stop
        cells.after[span], cells.head[start] = cells.head[start], span
    for label in range(given.n_labels):
        row[label] = leave_label(scaled, stop, label, ended[label], prefixes, opened,
                                 given, means, cells)


cdef void add_lengths(const Segments* segments, const Cells* cells,
                      const SegmentMeans* means) noexcept nogil:
    """Add the means of lengths of two positions or more."""
    cdef Py_ssize_t label, k, most = segments.max_length
    for label in range(segments.n_labels):
        for k in range(1, most):
            # counts of forbidden lengths may be infinite if weights of starts were cut
            # off
            if cells.lengths[label * most + k] > 0.0:
                means.lengths[k * segments.ld + label] += (
                    cells.counts[label * most + k] * cells.lengths[label * most + k])
