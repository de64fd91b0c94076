from sksstruct.inference.segments._scores cimport Prefixes, SegmentMeans, Segments

# Weights of starts and of lengths of each label. The product of the two is the
# weight of a segment, relative to a reference. All stops of a block, a range of stops,
# share a reference.
cdef struct Cells:
    # rows (n_labels, max_length)
    double* lengths     # exp(length score without the slope - `high`)
    double* backward    # `lengths` in reverse order
    double* counts      # expected counts of lengths, without the factor `lengths`
    # rows (n_labels, size)
    double* starts  # weights of starts, relative to the reference of the current block
    # probability of each stop, divided by the sum of the weights of its segments
    double* shares
    # rows (size, ld)
    # sum of the weights of segments of two positions or more, by stop
    double* longer
    # weight of the segments that `longer` leaves out, by stop: segments of one
    # position, tails, and first segments with boundary scores
    double* alone
    double* references  # logarithm of the reference, by stop
    Py_ssize_t* block_start   # the first stop of each stop's block
    # rows (ld,), the current state of each label:
    # slope of the length scores, which is moved to the inside scores
    double* slope
    double* high        # largest score of a length, without the slope
    double* reference
    double* inside_sum      # sum of inside scores since the block began
    double* base        # logarithm of the factor that the weights at a stop omit
    double* total       # sum of the weights at a stop
    double* new_terms       # (2 ld,) weights of the newest start and of `alone`
    # backward pass: probability that a segment contains this position and the next
    double* inside
    Py_ssize_t* first   # first stop of the current block
    Py_ssize_t* end     # backward pass: first stop of the next block
    # latest allowed start after which no inside position is forbidden, or -1
    Py_ssize_t* latest_start
    # backward pass: linked lists of spans with equal starts; -1 ends a list. `head` has
    # the first span of each start, `after` the next span after each span.
    Py_ssize_t* head
    Py_ssize_t* after
    Py_ssize_t* span_stop
    double weight       # factor by which all means are multiplied
    double* saved       # (size,) entries of `starts` or `shares` without span scores

# `load_cells` reserves `cells_scratch` doubles, advances the pointer, and returns
# whether the scores permit the other functions; if not, the caller sums over lengths in
# log space.
cdef Py_ssize_t cells_scratch(const Segments* segments) noexcept nogil
cdef bint load_cells(const Segments* segments, double** memory,
                     Cells* cells) noexcept nogil
cdef void start_forward(const Segments* segments, Cells* cells) noexcept nogil
cdef void close_labels(const Segments* segments, Py_ssize_t stop, const double* alone,
                       const Prefixes* prefixes, Cells* cells) noexcept nogil
cdef void start_backward(const Segments* segments, double weight,
                         Cells* cells) noexcept nogil
cdef void leave_stop(const Segments* scaled, Py_ssize_t stop, const Prefixes* prefixes,
                     const double* ended, double* opened, double* row,
                     const Segments* given, const SegmentMeans* means,
                     Cells* cells) noexcept nogil
cdef void add_lengths(const Segments* segments, const Cells* cells,
                      const SegmentMeans* means) noexcept nogil
