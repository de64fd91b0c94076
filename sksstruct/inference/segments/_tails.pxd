from sksstruct.inference.segments._scores cimport Prefixes, SegmentMeans, Segments

# A tail at position t is a segment that has max_length positions or more up to t, and
# continues after t.
cdef struct Tails:
    bint any            # whether segments may be longer than max_length
    bint best           # whether scores are maxima, or else logarithms of sums
    # rows (size, ld), by position t and label
    double* scores      # scores of the tails at t: log-sum-exp or maximum over starts
    double* older       # share of `scores` that is due to the tails at t - 1
    # share of the segments with a tail that stop after t, in the scores into which
    # `stop_tails` merges their scores
    double* stopping
    # sums of inside scores from t to the end of the block of t; blocks have
    # max_length - 1 positions
    double* rest
    # rows (ld,)
    double* block_sum   # sums of inside scores since the current block began
    double* other       # scratch: scores to merge into a row
    double* weight      # backward pass: probability of tails at the current position

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
