# Potentials of semi-Markov chains, which all kernels of segments share.

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

# Roles of a position in its segment. A segment of one position is neither begun nor
# ended: the position has a role of its own.
cdef enum Role:
    BEGIN
    INSIDE
    END
    SINGLE

# Potentials of a semi-Markov chain; nothing of it is owned. A labeling is `size`
# numbers: the label at the first position of a segment, and -1 - label at the others,
# so that a segment ends where a number is not negative, whatever the labels are.
cdef struct Segments:
    Py_ssize_t size, n_labels, ld
    Py_ssize_t max_length       # rows of `lengths`, at least one
    const int32_t* longest      # (ld,) largest allowed length; zero in the padding
    const double* nodes         # row of position t at nodes + t * node_step
    Py_ssize_t node_step
    Py_ssize_t[4] role_offset   # where the labels of a Role are in that row
    # (max_length, ld), row length - 1; -inf forbids, as above `longest`, which only
    # says where loops may stop
    const double* lengths
    # (ld,) of each position of a segment beyond max_length, added to the score of that
    # length; -inf forbids, and NULL all of them
    const double* tail
    # the same of segments that start at the first position or stop at the last one, or
    # NULL: these are as others
    const double* boundary_lengths
    const double* boundary_tail
    const double* transitions   # (n_labels, ld) from -> to
    const double* first         # (ld,) of the first segment, or NULL
    const double* last          # (ld,) of the last segment, or NULL
    # Scores of single segments (n_spans, ld), or NULL. Those that stop at `stop` are
    # first_span[stop - 1] to first_span[stop] - 1; those of one segment are added.
    const double* spans
    const int32_t* first_span   # (size + 1,)
    const int32_t* span_start   # (n_spans,)

# Numbers for each entry of Segments, in the same layout; NULL where that has NULL.
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

# Of all labelings of what comes before, by the label of a segment, (size, ld) each:
# the best score, or the logarithm of the sum of the exponentials of all scores.
cdef struct Prefixes:
    double* closed      # the segment stops after t
    double* single      # it starts at t, which is all of it; its length is missing
    double* opened      # it starts at t, and goes on; t is all of it that is there

cdef inline Py_ssize_t role_at(const Segments* segments, Role role,
                               Py_ssize_t t) noexcept nogil:
    """Where the labels of a role are in `nodes`."""
    return t * segments.node_step + segments.role_offset[<int> role]

cdef inline Py_ssize_t longest_segment(const Segments* segments) noexcept nogil:
    """Largest length that fits."""
    return min(segments.max_length, segments.size)

cdef inline Py_ssize_t longest_of(const Segments* segments, Py_ssize_t stop,
                                  Py_ssize_t label) noexcept nogil:
    """Largest length of four labels before a position."""
    cdef Py_ssize_t longest = 0, j
    for j in range(4):
        longest = max(longest, segments.longest[label + j])
    return min(longest, stop)

cdef inline bint is_boundary(const Segments* segments, Py_ssize_t start,
                             Py_ssize_t stop) noexcept nogil:
    """Whether the length of a segment has a score of boundaries."""
    return segments.boundary_lengths != NULL and (
        start == 0 or stop == segments.size)

cdef inline double length_score(const Segments* segments, Py_ssize_t start,
                                Py_ssize_t stop, Py_ssize_t label) noexcept nogil:
    """Score of the length of a segment; -inf if it is not allowed."""
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
    """Add a weight to the entries whose sum is the score of a length."""
    cdef Py_ssize_t over = max(stop - start - segments.max_length, 0)
    cdef Py_ssize_t cell = (stop - start - over - 1) * segments.ld + label
    cdef bint boundary = is_boundary(segments, start, stop)
    cdef double* lengths = means.boundary_lengths if boundary else means.lengths
    # what is too long has no row; its score is -inf
    if over and segments.tail == NULL:
        return
    lengths[cell] += weight
    if over and boundary:
        means.boundary_tail[label] += over * weight
    elif over:
        means.tail[label] += over * weight
