"""The k best segmentations of a semi-Markov chain.

The recursion of `_segments.pyx` with the k best prefixes in order where that has the
best one: each list is merged from those of all lengths, or of all labels before, which
takes O(T k (L + K) K) time and O(T K k) memory (Algorithm 2 of Pillutla et al., 2018).
Tails, as of `_tails.pyx`, have lists of their own, each merged from what begins to be
one and from those that were one before. First and last segments whose lengths have
other scores are lists to merge, too.

Ties: as for the best segmentation, and then in the order of the same rule.

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

# Scores from which on they are looked at by the best instructions there are.
cdef Py_ssize_t MANY = 16


cdef struct Prefix:
    # One of the best prefixes, and the one that it continues: its rank in the list of
    # a source, the length of the last segment less one, or the label before.
    double score
    int32_t source, rank


cdef struct Source:
    # a list to merge, the rank of what comes next, and what is added to its scores
    const Prefix* prefixes
    int32_t count, rank
    double node, gain


cdef struct Lists:
    Py_ssize_t k, n_labels
    # lists by position and label: of segments that stop after the position, and of
    # what comes before those that start at it
    Prefix* closed
    Prefix* entries
    int32_t* n_closed
    int32_t* n_entries
    # of segments whose last position is inside, and that are longer by now than the
    # table of lengths less one
    bint has_tails
    Prefix* tails
    int32_t* n_tails
    double* inside      # (n_labels,) scores inside the first segment so far
    Prefix* final
    Source* sources
    double* heads       # score of the next prefix of each source
    double* gains


cdef inline bint tailed(const Segments* segments) noexcept nogil:
    """Whether segments may be longer than the table of lengths."""
    return segments.tail != NULL and segments.size > segments.max_length


cdef inline Py_ssize_t most_sources(const Segments* segments) noexcept nogil:
    """Number of lists to merge at most."""
    cdef Py_ssize_t lengths = longest_segment(segments) + 2
    # the last segment starts anywhere
    if segments.boundary_lengths != NULL:
        lengths = max(lengths, segments.size)
    return max(lengths, segments.n_labels)


cdef Py_ssize_t topk_scratch(const Segments* segments, Py_ssize_t k) noexcept nogil:
    """Doubles that `best_segmentations` needs."""
    cdef Py_ssize_t cells = segments.size * segments.n_labels
    cdef Py_ssize_t longest = longest_segment(segments)
    cdef Py_ssize_t n_lists = (2 + tailed(segments)) * cells
    cdef Py_ssize_t n_bytes = (
        (n_lists + 1) * k * sizeof(Prefix)
        + most_sources(segments) * sizeof(Source)
        + (4 * longest + segments.n_labels + most_sources(segments)) * sizeof(double)
        + n_lists * sizeof(int32_t))
    return n_bytes // sizeof(double) + 1


cdef Lists carve(const Segments* segments, Py_ssize_t k, double* memory) noexcept nogil:
    """Divide memory of `topk_scratch` doubles."""
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
    # last, as these are shorter than a double
    lists.n_closed = <int32_t*> (lists.inside + segments.n_labels)
    lists.n_entries, lists.n_tails = lists.n_closed + cells, lists.n_closed + 2 * cells
    return lists


cdef inline double head_of(const Source* source) noexcept nogil:
    """Score of the next prefix of a source, -inf at the end of its list."""
    if source.rank >= source.count:
        return -INFINITY
    # in the order of `segmentation_score`, for the same last digits
    return (source.prefixes[source.rank].score + source.node) + source.gain


cdef inline Py_ssize_t best_head(Py_ssize_t n, const double* heads) noexcept nogil:
    """The first of the largest scores."""
    # a call through the table of kernels takes longer than short rows
    if n < MANY:
        return best_state(n, heads)
    return sks_first(n, heads, sks_max_below(n, heads, INFINITY))


cdef int32_t merge(const Lists* lists, Py_ssize_t n_sources,
                   Prefix* out) noexcept nogil:
    """Write the k best prefixes of all sources, in order; returns their number."""
    cdef Source* sources = lists.sources
    cdef double* heads = lists.heads
    cdef Py_ssize_t i, best
    cdef int32_t count = 0
    for i in range(n_sources):
        sources[i].rank = 0
        heads[i] = head_of(&sources[i])
    while n_sources and count < lists.k:
        # all heads are looked at: no heap is worth its order where they are in vectors
        best = best_head(n_sources, heads)
        # what is forbidden is in no list
        if heads[best] == -INFINITY:
            break
        out[count] = Prefix(heads[best], <int32_t> best, sources[best].rank)
        count += 1
        sources[best].rank += 1
        heads[best] = head_of(&sources[best])
    return count


cdef void close_lists(const Segments* segments, Py_ssize_t stop,
                      const Lists* lists) noexcept nogil:
    """Complete the lists of segments that stop at a position."""
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
                lists, add_longer(segments, stop, label, longest, lists),
                lists.closed + cell * lists.k)


cdef Py_ssize_t add_longer(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                           Py_ssize_t n_sources, const Lists* lists) noexcept nogil:
    """Add tails that stop at a position, and first segments; returns how many lists."""
    cdef Py_ssize_t cell = (stop - 2) * lists.n_labels + label, k
    cdef Source* source = lists.sources + longest_segment(segments)
    if not lists.has_tails and segments.boundary_lengths == NULL:
        return n_sources
    # numbers of these lists are the same, whatever lengths are forbidden
    for k in range(n_sources, longest_segment(segments) + 2):
        lists.sources[k].count = 0
    if lists.has_tails and stop > segments.max_length:
        source.prefixes = lists.tails + cell * lists.k
        source.count = lists.n_tails[cell]
        source.node = segments.nodes[role_at(segments, END, stop - 1) + label]
        source.gain = segments.tail[label]
    if segments.boundary_lengths != NULL:
        add_first(segments, stop, label, source + 1, lists)
    return longest_segment(segments) + 2


cdef void add_first(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                    Source* source, const Lists* lists) noexcept nogil:
    """Add the first segment that stops at a position; stops are in order."""
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


cdef void close_last(const Segments* segments, const Lists* lists) noexcept nogil:
    """Complete the lists of the last stop, where the lengths have other scores."""
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
        add_first(segments, size, label, lists.sources + (size - 1), lists)
        cell = (size - 1) * lists.n_labels + label
        lists.n_closed[cell] = merge(lists, size, lists.closed + cell * lists.k)


cdef void extend_lists(const Segments* segments, Py_ssize_t last,
                       const Lists* lists) noexcept nogil:
    """Complete the lists of tails whose last position is this one."""
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
    """Merge what stops at a position over all labels; scores is NULL for zeros."""
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
    """Write the labeling of a rank in the list of all."""
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
            # the second of two sources: tails before
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

    Returns how many there are, at most k; what is behind them is not written.
    """
    cdef Lists lists = carve(segments, k, scratch)
    cdef Py_ssize_t size = segments.size, n = segments.n_labels, label, stop, rank, cell
    cdef Py_ssize_t count
    for label in range(n):
        lists.entries[label * k] = Prefix(
            0.0 if segments.first == NULL else segments.first[label], 0, 0)
        # a score of -inf is no head of a list, and is left out then; first segments
        # whose lengths have other scores are in lists of their own
        lists.n_entries[label] = segments.boundary_lengths == NULL
        lists.inside[label] = 0.0
    for stop in range(1, size + 1):
        if stop == size and segments.boundary_lengths != NULL:
            close_last(segments, &lists)
        else:
            close_lists(segments, stop, &lists)
        if stop == size:
            break
        extend_lists(segments, stop - 1, &lists)
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
