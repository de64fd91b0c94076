from sksstruct.inference.segments._scores cimport Prefixes, SegmentMeans, Segments

# Tails: segments of max_length positions or more, up to a position t, that continue
# after t.
cdef struct Tails:
    bint any            # whether segments may be longer than max_length
    bint best           # whether scores are maxima, or else logarithms of sums
    # Rows (size, ld); in the rows of t, tails end at t, which is inside their segments.
    double* scores      # sum or maximum over all starts
    double* older       # share of `scores` that is due to the tails of t - 1
    double* stopping    # share of tails in the segments that stop after t
    double* rest        # sums of inside scores from t to the end of the block of t
    # rows (ld,)
    double* block_sum      # sums of inside scores from the block's beginning on
    double* other       # scratch: scores to merge into a row
    double* weight      # backward pass: probability of tails that end at t

# `load_tails` reserves `tails_scratch` doubles, and advances the pointer.
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
