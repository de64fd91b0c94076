from sksstruct.inference.segments._scores cimport Prefixes, SegmentMeans, Segments

# The first and the last segment, where the scores of their lengths are others.
cdef struct Boundaries:
    bint any            # whether they have scores of their own
    bint best           # whether scores are maxima, or logarithms of sums
    # rows (size, ld)
    double* first       # of the first segment if it stops after t: score, or its part
    double* last        # of the last segment if it starts at t: its part
    # rows (ld,)
    double* begun       # score of the first position, if the segment goes on
    double* single      # score of the first position, if the segment ends there
    double* inside      # sum of the scores inside after it, so far
    double* other       # scores that are merged into others
    double* goes_on     # probability that the first segment goes on; on the way back

# `load_boundaries` takes so many doubles of the memory, and moves its beginning on.
cdef Py_ssize_t boundaries_scratch(const Segments* segments) noexcept nogil
cdef Boundaries load_boundaries(const Segments* segments, bint best,
                                double** memory) noexcept nogil
cdef void open_first(const Segments* segments, const Prefixes* prefixes,
                     const Boundaries* ends) noexcept nogil
cdef void stop_first(const Segments* segments, Py_ssize_t stop, double* row,
                     const Boundaries* ends) noexcept nogil
cdef void stop_last(const Segments* segments, const Prefixes* prefixes, double* row,
                    const Boundaries* ends) noexcept nogil
cdef Py_ssize_t last_start(const Segments* segments, Py_ssize_t label,
                           const Boundaries* ends) noexcept nogil
cdef void hand_first(const Segments* given, Py_ssize_t stop, double* row,
                     double* opened, double* goes_on, const SegmentMeans* means,
                     const Boundaries* ends) noexcept nogil
cdef void hand_last(const Segments* given, const double* ended, double* row,
                    double* opened, double* goes_on, const SegmentMeans* means,
                    const Boundaries* ends) noexcept nogil
