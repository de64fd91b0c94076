"""The k best segmentations of a semi-Markov chain.

The recursion of `_segments.pyx` with the k best prefixes, in order, in place of the
best prefix: each list is merged from the lists of all lengths, or of all previous
labels, which takes O(T k (L + K) K) time and O(T K k) memory (Algorithm 2 of Pillutla
et al., 2018). The tails of `_tails.pyx` have lists, too, each merged from two lists:
tails of L positions, and longer tails. First and last segments with boundary scores are
further sources of the merges.

Ties: segmentations of equal score are in the order of the rule of `_segments.pyx`, so
that the first segmentation is that of max-product.

K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
structured prediction models", NeurIPS 2018.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.inference.segments._scores cimport (
    BEGIN, END, INSIDE, SINGLE, Segments, length_score, longest_segment, role_at,
)
from sksstruct.inference.segments._segments cimport fill_gains, write_segment
from sksstruct.inference.trees._messages cimport best_state
from sksstruct.utils._simd cimport sks_first, sks_max_below

# Number of scores from which vector instructions are faster.
cdef Py_ssize_t MANY = 16


cdef struct Prefix:
    # A prefix in a list that `merge` has written. The prefix extends the prefix of rank
    # `rank` in the list of source number `source`. In most lists this number is the
    # length of the last segment less one, or the previous label.
    double score
    int32_t source, rank


cdef struct Source:
    # A list of prefixes to merge, the rank of the next prefix, and two terms to add to
    # the scores of the prefixes. In most lists the terms are the score of the first
    # position of the last segment, and the gain of this segment (see `_segments.pyx`).
    const Prefix* prefixes
    int32_t count, rank
    double node, gain


cdef struct Lists:
    Py_ssize_t k, n_labels
    # Lists by position t and label, and their lengths. `closed`: prefixes whose last
    # segment stops after t and has the label. `entries`: prefixes that end before t,
    # with the transition to the label.
    Prefix* closed
    Prefix* entries
    int32_t* n_closed
    int32_t* n_entries
    # lists of tails by position t and label: segments of max_length positions or more
    # that continue after t
    bint has_tails
    Prefix* tails
    int32_t* n_tails
    double* inside      # (n_labels,) sums of inside scores of the first segment
    Prefix* final
    Source* sources
    double* heads  # score of the next prefix of each source, with both terms
    double* gains


cdef inline bint tailed(const Segments* segments) noexcept nogil:
    """Whether segments may be longer than max_length."""
    return segments.tail != NULL and segments.size > segments.max_length


cdef inline Py_ssize_t most_sources(const Segments* segments) noexcept nogil:
    """Largest number of sources of a merge."""
    cdef Py_ssize_t lengths = longest_segment(segments) + 2
    # with boundary scores the last segment may have any start
    if segments.boundary_lengths != NULL:
        lengths = max(lengths, segments.size)
    return max(lengths, segments.n_labels)


cdef Py_ssize_t topk_scratch(const Segments* segments, Py_ssize_t k) noexcept nogil:
    """Number of doubles that `best_segmentations` needs."""
    cdef Py_ssize_t cells = segments.size * segments.n_labels
    cdef Py_ssize_t longest = longest_segment(segments)
    cdef Py_ssize_t n_lists = (2 + tailed(segments)) * cells
    cdef Py_ssize_t n_bytes = (
        (n_lists + 1) * k * sizeof(Prefix)
        + most_sources(segments) * sizeof(Source)
        + (4 * longest + segments.n_labels + most_sources(segments)) * sizeof(double)
        + n_lists * sizeof(int32_t))
    return n_bytes // sizeof(double) + 1


cdef Lists reserve_lists(const Segments* segments, Py_ssize_t k,
                         double* memory) noexcept nogil:
    """Divide `topk_scratch` doubles among the arrays of `Lists`."""
    cdef Lists lists
    cdef Py_ssize_t cells = segments.size * segments.n_labels
    cdef Py_ssize_t longest = longest_segment(segments)
    lists.k, lists.n_labels = k, segments.n_labels
    lists.closed = <Prefix*> memory
    lists.entries = lists.closed + cells * k
    lists.has_tails, lists.tails = tailed(segments), lists.entries + cells * k
    lists.final = lists.tails + lists.has_tails * cells * k
    lists.sources = <Source*> (lists.final + k)
    lists.heads = <double*> (lists.sources + most_sources(segments))
    lists.gains = lists.heads + most_sources(segments)
    lists.inside = lists.gains + 4 * longest
    # last in memory, as int32 needs less alignment than double
    lists.n_closed = <int32_t*> (lists.inside + segments.n_labels)
    lists.n_entries, lists.n_tails = lists.n_closed + cells, lists.n_closed + 2 * cells
    return lists


cdef inline double head_of(const Source* source) noexcept nogil:
    """Score of the next prefix of a source; -inf if no prefix is left."""
    if source.rank >= source.count:
        return -INFINITY
    # terms in the order of `segmentation_score`, so that rounding is the same
    return (source.prefixes[source.rank].score + source.node) + source.gain


cdef inline Py_ssize_t best_head(Py_ssize_t n, const double* heads) noexcept nogil:
    """Index of the source whose next prefix scores most; of equal scores, the first."""
    # an indirect call to the vector kernels takes longer than a short loop
    if n < MANY:
        return best_state(n, heads)
    return sks_first(n, heads, sks_max_below(n, heads, INFINITY))


cdef int32_t merge(const Lists* lists, Py_ssize_t n_sources,
                   Prefix* out) noexcept nogil:
    """Write the k best prefixes of all sources, in order; return their number."""
    cdef Source* sources = lists.sources
    cdef double* heads = lists.heads
    cdef Py_ssize_t i, best
    cdef int32_t count = 0
    for i in range(n_sources):
        sources[i].rank = 0
        heads[i] = head_of(&sources[i])
    while n_sources and count < lists.k:
        # a linear search by vector instructions is faster than a heap
        best = best_head(n_sources, heads)
        # a prefix of score -inf, which is forbidden, is in no list
        if heads[best] == -INFINITY:
            break
        out[count] = Prefix(heads[best], <int32_t> best, sources[best].rank)
        count += 1
        sources[best].rank += 1
        heads[best] = head_of(&sources[best])
    return count


cdef void list_stops(const Segments* segments, Py_ssize_t stop,
                     const Lists* lists) noexcept nogil:
    """Write the lists `closed` of prefixes whose last segment has a given stop."""
    cdef Py_ssize_t block, label, longest, length, cell, node
    cdef Source* source
    for block in range(0, segments.n_labels, 4):
        longest = fill_gains(segments, stop, block, lists.gains)
        for label in range(block, min(block + 4, segments.n_labels)):
            for length in range(1, longest + 1):
                source = lists.sources + (length - 1)
                cell = (stop - length) * lists.n_labels + label
                source.prefixes = lists.entries + cell * lists.k
                source.count = lists.n_entries[cell]
                node = role_at(segments, SINGLE if length == 1 else BEGIN,
                               stop - length)
                source.node = segments.nodes[node + label]
                source.gain = lists.gains[4 * (length - 1) + label - block]
            cell = (stop - 1) * lists.n_labels + label
            lists.n_closed[cell] = merge(
                lists, set_longer(segments, stop, label, longest, lists),
                lists.closed + cell * lists.k)


cdef Py_ssize_t set_longer(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                           Py_ssize_t n_sources, const Lists* lists) noexcept nogil:
    """Add sources of tails and of first segments; return the number of sources."""
    cdef Py_ssize_t cell = (stop - 2) * lists.n_labels + label, k
    cdef Source* source = lists.sources + longest_segment(segments)
    if not lists.has_tails and segments.boundary_lengths == NULL:
        return n_sources
    # sources keep their numbers if lengths are forbidden: sources in between are empty
    for k in range(n_sources, longest_segment(segments) + 2):
        lists.sources[k].count = 0
    if lists.has_tails and stop > segments.max_length:
        source.prefixes = lists.tails + cell * lists.k
        source.count = lists.n_tails[cell]
        source.node = segments.nodes[role_at(segments, END, stop - 1) + label]
        source.gain = segments.tail[label]
    if segments.boundary_lengths != NULL:
        set_first(segments, stop, label, source + 1, lists)
    return longest_segment(segments) + 2


cdef void set_first(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                    Source* source, const Lists* lists) noexcept nogil:
    """Set the source of the first segment with a given stop and label.

    Calls must be in ascending order of stops, as `inside` is updated.
    """
    cdef int32_t span
    source.prefixes, source.count = lists.entries + label * lists.k, 1
    source.node = segments.nodes[
        role_at(segments, BEGIN if stop > 1 else SINGLE, 0) + label]
    source.gain = length_score(segments, 0, stop, label)
    if stop > 1:
        source.gain += lists.inside[label] + segments.nodes[
            role_at(segments, END, stop - 1) + label]
        lists.inside[label] += segments.nodes[
            role_at(segments, INSIDE, stop - 1) + label]
    if segments.spans != NULL:
        for span in range(segments.first_span[stop - 1], segments.first_span[stop]):
            if not segments.span_start[span]:
                source.gain += segments.spans[span * segments.ld + label]


cdef void list_last_stop(const Segments* segments, const Lists* lists) noexcept nogil:
    """Write the lists `closed` of the last stop, with boundary scores."""
    cdef Py_ssize_t size = segments.size, label, start, cell
    cdef Source* source
    cdef double inside
    cdef int32_t span
    for label in range(segments.n_labels):
        inside = segments.nodes[role_at(segments, END, size - 1) + label]
        for start in range(size - 1, 0, -1):
            source = lists.sources + (size - start - 1)
            cell = start * lists.n_labels + label
            source.prefixes = lists.entries + cell * lists.k
            source.count = lists.n_entries[cell]
            source.node = segments.nodes[role_at(
                segments, BEGIN if start < size - 1 else SINGLE, start) + label]
            source.gain = length_score(segments, start, size, label)
            if start < size - 1:
                source.gain += inside
                inside += segments.nodes[role_at(segments, INSIDE, start) + label]
        for span in range(segments.first_span[size - 1] if segments.spans else 0,
                          segments.first_span[size] if segments.spans else 0):
            start = segments.span_start[span]
            if start:
                lists.sources[size - start - 1].gain += (
                    segments.spans[span * segments.ld + label])
        set_first(segments, size, label, lists.sources + (size - 1), lists)
        cell = (size - 1) * lists.n_labels + label
        lists.n_closed[cell] = merge(lists, size, lists.closed + cell * lists.k)


cdef void list_tails(const Segments* segments, Py_ssize_t last,
                     const Lists* lists) noexcept nogil:
    """Write the lists of tails that end at `last`."""
    cdef Py_ssize_t start = last - segments.max_length + 1, label, cell, t
    cdef Source* begun = lists.sources
    cdef Source* older = lists.sources + 1
    if not lists.has_tails or start < 0:
        return
    for label in range(segments.n_labels):
        cell = start * lists.n_labels + label
        begun.prefixes = lists.entries + cell * lists.k
        begun.count = lists.n_entries[cell]
        begun.node = segments.nodes[role_at(segments, BEGIN, start) + label]
        begun.gain = segments.lengths[
            (segments.max_length - 1) * segments.ld + label]
        for t in range(start + 1, last + 1):
            begun.gain += segments.nodes[role_at(segments, INSIDE, t) + label]
        cell = last * lists.n_labels + label
        older.prefixes = lists.tails + (cell - lists.n_labels) * lists.k
        older.count = lists.n_tails[cell - lists.n_labels] if start else 0
        older.node = segments.nodes[role_at(segments, INSIDE, last) + label]
        older.gain = segments.tail[label]
        lists.n_tails[cell] = merge(lists, 2, lists.tails + cell * lists.k)


cdef int32_t merge_labels(const Segments* segments, Py_ssize_t stop,
                          const double* scores, Py_ssize_t stride, const Lists* lists,
                          Prefix* out) noexcept nogil:
    """Merge the lists of all labels at a stop; return the number of prefixes.

    Adds scores[label * stride] to the prefixes of a label, unless scores is NULL.
    """
    cdef Py_ssize_t label, cell
    for label in range(segments.n_labels):
        cell = (stop - 1) * lists.n_labels + label
        lists.sources[label].prefixes = lists.closed + cell * lists.k
        lists.sources[label].count = lists.n_closed[cell]
        lists.sources[label].node = 0.0 if scores == NULL else scores[label * stride]
        lists.sources[label].gain = 0.0
    return merge(lists, segments.n_labels, out)


cdef void read_labeling(const Segments* segments, const Lists* lists,
                        Py_ssize_t rank, int32_t* labeling) noexcept nogil:
    """Write the labeling of the prefix that has a rank in the final list."""
    cdef Py_ssize_t stop = segments.size, start, label, last
    cdef Prefix prefix = lists.final[rank]
    while True:
        label = prefix.source
        prefix = lists.closed[
            ((stop - 1) * lists.n_labels + label) * lists.k + prefix.rank]
        start = stop - prefix.source - 1
        if segments.boundary_lengths != NULL and stop == segments.size:
            pass
        elif prefix.source == longest_segment(segments) + 1:
            start = 0
        elif prefix.source == longest_segment(segments):
            last = stop - 1
            # In a list of tails, source 0 stands for the first max_length positions of
            # a segment, and source 1 for the list of tails at the position before.
            while last == stop - 1 or prefix.source:
                last -= 1
                prefix = lists.tails[
                    (last * lists.n_labels + label) * lists.k + prefix.rank]
            start = last - segments.max_length + 1
        write_segment(labeling, start, stop, label)
        if not start:
            break
        prefix = lists.entries[
            (start * lists.n_labels + label) * lists.k + prefix.rank]
        stop = start


cdef Py_ssize_t best_segmentations(
    const Segments* segments, Py_ssize_t k, double* scratch, int32_t* labelings,
    double* scores
) noexcept nogil:
    """Find the k best allowed labelings, (k, size), and their scores, in order.

    Returns the number of labelings found, at most k; further rows are not written.
    """
    cdef Lists lists = reserve_lists(segments, k, scratch)
    cdef Py_ssize_t size = segments.size, n = segments.n_labels, label, stop, rank, cell
    cdef Py_ssize_t count
    for label in range(n):
        lists.entries[label * k] = Prefix(
            0.0 if segments.first == NULL else segments.first[label], 0, 0)
        # First segments with boundary scores have a source of their own, so that the
        # lists of starts at 0 are empty then.
        lists.n_entries[label] = segments.boundary_lengths == NULL
        lists.inside[label] = 0.0
    for stop in range(1, size + 1):
        if stop == size and segments.boundary_lengths != NULL:
            list_last_stop(segments, &lists)
        else:
            list_stops(segments, stop, &lists)
        if stop == size:
            break
        list_tails(segments, stop - 1, &lists)
        for label in range(n):
            cell = stop * n + label
            lists.n_entries[cell] = merge_labels(
                segments, stop, segments.transitions + label, segments.ld, &lists,
                lists.entries + cell * k)
    count = merge_labels(segments, size, segments.last, 1, &lists, lists.final)
    for rank in range(count):
        scores[rank] = lists.final[rank].score
        read_labeling(segments, &lists, rank, labelings + rank * size)
    return count
