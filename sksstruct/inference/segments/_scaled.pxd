from sksstruct.inference.segments._scores cimport Prefixes, SegmentMeans, Segments

# What sums over lengths are taken of: for each label, the weights of its starts and of
# its lengths, whose products are those of segments, relative to a number that is the
# same for a block of stops.
cdef struct Cells:
    # rows (n_labels, max_length)
    double* lengths     # exponentials, relative to the largest of the label
    double* backward    # the same from the largest length to the least
    double* counts      # what the means of lengths are, but for these factors
    # rows (n_labels, size)
    double* starts      # weight of what starts at a position, in the present block
    double* shares      # probability of a stop, over the sum of its weights
    # rows (size, ld)
    double* longer      # sum of the weights of segments that stop, but of one position
    double* alone       # weight of what has no term of its own, `single`
    double* references  # logarithm that weights are relative to
    Py_ssize_t* begun   # the first stop of the block
    # rows (ld,), the state of each label
    double* slope       # what scores of lengths rise by, which is part of those inside
    double* high        # the largest score of a length, without that
    double* reference
    double* passed      # scores inside, since the block began
    double* base        # logarithm that the weights of a stop are relative to
    double* total       # their sum
    double* fresh       # (2 ld,) weights of the newest start, and of what is `alone`
    double* inside      # probability that a segment goes on, on the way back
    Py_ssize_t* first   # the first stop of the block
    Py_ssize_t* end     # the first stop after it, on the way back
    Py_ssize_t* alive   # the last start that a segment may have, or -1
    # spans by their starts, on the way back: the first of each, and the one after it
    Py_ssize_t* head
    Py_ssize_t* after
    Py_ssize_t* span_stop
    double weight       # of all means
    double* saved       # (size,) what spans have changed

# `load_cells` needs memory for so many doubles, and says where it ends; it returns
# whether the scores are of a size for which the other functions can be used.
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
