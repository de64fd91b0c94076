from sksstruct.inference.segments._scores cimport Prefixes, SegmentMeans, Segments

# Segments that are as long as the table of lengths has rows, or longer, and go on.
cdef struct Tails:
    bint any            # whether segments may be longer than that
    bint best           # whether scores are maxima, or logarithms of sums
    # Rows (size, ld). Of row t, the last position is t, which is inside the segment.
    double* scores      # of all starts
    double* older       # what part of these goes over t - 1 in the same way
    double* stopping    # what part of the segments that stop after t are tails
    double* rest        # sums of scores inside from t to the last position of its block
    # rows (ld,)
    double* passed      # the same from the first position of the block to the last one
    double* other       # what is merged
    double* weight      # probability of a tail, on the way back

# `load_tails` needs memory for so many doubles, and says where it ends.
cdef Py_ssize_t tails_scratch(const Segments* segments) noexcept nogil
cdef Tails load_tails(const Segments* segments, bint best,
                      double** memory) noexcept nogil
cdef void merge_scores(Py_ssize_t n, bint best, const double* other, double* row,
                       double* part) noexcept nogil
cdef void stop_tails(const Segments* segments, Py_ssize_t stop, double* row,
                     const Tails* tails) noexcept nogil
cdef void extend_tails(const Segments* segments, Py_ssize_t last,
                       const Prefixes* prefixes, const Tails* tails) noexcept nogil
cdef double tail_score(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                       const Tails* tails) noexcept nogil
cdef Py_ssize_t tail_length(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                            const Tails* tails) noexcept nogil
cdef void hand_tails(const Segments* given, Py_ssize_t last, bint inside,
                     double* opened, const SegmentMeans* means,
                     const Tails* tails) noexcept nogil
cdef void hand_stopping(const Segments* given, Py_ssize_t stop, double* row,
                        double* goes_on, const SegmentMeans* means,
                        const Tails* tails) noexcept nogil
