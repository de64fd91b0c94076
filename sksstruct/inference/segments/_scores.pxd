# Potentials of semi-Markov chains, read by all kernels of segments.

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

# Role of a position in its segment. The position of a segment of length one has the
# role SINGLE.
cdef enum Role:
    BEGIN
    INSIDE
    END
    SINGLE

# Potentials of a semi-Markov chain; the struct owns no memory. A labeling is `size`
# numbers: the label at the first position of a segment, and -1 - label at its other
# positions, so that nonnegative numbers mark the starts of segments.
cdef struct Segments:
    Py_ssize_t size, n_labels, ld
    Py_ssize_t max_length       # number of rows of `lengths`, at least one
    # (ld,) for each label: largest length that `lengths` allows; zero in the padding
    const int32_t* longest
    const double* nodes         # scores of labels at t: a row at nodes + t * node_step
    Py_ssize_t node_step
    Py_ssize_t[4] role_offset   # offset of the labels of each Role in that row
    # (max_length, ld), scores of a length in row length - 1; -inf forbids a length. All
    # lengths above `longest`, which only tells loops where to stop, have -inf here.
    const double* lengths
    # (ld,) score of each position of a segment beyond max_length, added to the score of
    # max_length; -inf or NULL forbid such segments
    const double* tail
    # lengths and tail for segments that start at the first position or stop at the
    # last; NULL if such segments have no scores of their own
    const double* boundary_lengths
    const double* boundary_tail
    # (n_labels, ld) scores of pairs of labels of neighboring segments, from -> to
    const double* transitions
    const double* first         # (ld,) scores of the first segment's label, or NULL
    const double* last          # (ld,) scores of the last segment's label, or NULL
    # Scores of single segments (n_spans, ld), or NULL. The spans that stop at `stop`
    # are first_span[stop - 1] to first_span[stop] - 1; scores of equal spans are added.
    const double* spans
    const int32_t* first_span   # (size + 1,)
    const int32_t* span_start   # (n_spans,) first position of each span

# Expected counts in the layout of the entries of Segments; NULL where Segments has
# NULL.
cdef struct SegmentMeans:
    double* nodes
    double* lengths
    double* tail
    double* boundary_lengths
    double* boundary_tail
    double* transitions
    double* first
    double* last
    double* spans

# Scores of prefixes by the label of their last segment, (size, ld) each: the maximum,
# or the logarithm of the sum of exponentials, over all labelings of the prefix.
cdef struct Prefixes:
    double* closed      # the last segment stops after t
    # the last segment is position t alone; the score of length one is missing
    double* single
    # the last segment starts at t and is longer; scores after t are missing
    double* opened

cdef inline Py_ssize_t role_at(const Segments* segments, Role role,
                               Py_ssize_t t) noexcept nogil:
    """Offset of a role's labels at position t in `nodes`."""
    return t * segments.node_step + segments.role_offset[<int> role]

cdef inline Py_ssize_t longest_segment(const Segments* segments) noexcept nogil:
    """Largest length in the table of lengths that fits into the sequence."""
    return min(segments.max_length, segments.size)

cdef inline Py_ssize_t longest_of(const Segments* segments, Py_ssize_t stop,
                                  Py_ssize_t label) noexcept nogil:
    """Largest length that the table allows for any of four labels at a stop."""
    cdef Py_ssize_t longest = 0, j
    for j in range(4):
        longest = max(longest, segments.longest[label + j])
    return min(longest, stop)

cdef inline bint is_boundary(const Segments* segments, Py_ssize_t start,
                             Py_ssize_t stop) noexcept nogil:
    """Whether a segment's length has a boundary score."""
    return segments.boundary_lengths != NULL and (
        start == 0 or stop == segments.size)

cdef inline double length_score(const Segments* segments, Py_ssize_t start,
                                Py_ssize_t stop, Py_ssize_t label) noexcept nogil:
    """Score of the length of a segment; -inf if the segment is not allowed."""
    cdef Py_ssize_t over = max(stop - start - segments.max_length, 0)
    cdef Py_ssize_t cell = (stop - start - over - 1) * segments.ld + label
    cdef const double* tail = segments.tail
    cdef double score = segments.lengths[cell]
    if is_boundary(segments, start, stop):
        score, tail = segments.boundary_lengths[cell], segments.boundary_tail
    if not over:
        return score
    return -INFINITY if tail == NULL else score + over * tail[label]

cdef inline void add_length(const Segments* segments, Py_ssize_t start, Py_ssize_t stop,
                            Py_ssize_t label, double weight,
                            const SegmentMeans* means) noexcept nogil:
    """Add a weight to the entries whose sum is the score of a segment's length."""
    cdef Py_ssize_t over = max(stop - start - segments.max_length, 0)
    cdef Py_ssize_t cell = (stop - start - over - 1) * segments.ld + label
    cdef bint boundary = is_boundary(segments, start, stop)
    cdef double* lengths = means.boundary_lengths if boundary else means.lengths
    # a segment that is too long has no entry, and a score of -inf
    if over and segments.tail == NULL:
        return
    lengths[cell] += weight
    if over and boundary:
        means.boundary_tail[label] += over * weight
    elif over:
        means.tail[label] += over * weight
