from sksstruct.inference.segments._scores cimport Prefixes, SegmentMeans, Segments

# Workspace for the first and the last segment, whose lengths have boundary scores.
cdef struct Boundaries:
    bint any            # whether boundary scores are given
    bint best           # whether scores are maxima, or else logarithms of sums
    # rows (size, ld)
    # first segment that stops after t: its score if `best`, else its share of the
    # scores into which `stop_first` merges its score
    double* first
    # last segment that starts at t: its share among the last segments that start at t
    # or later; 0 or 1 if `best`
    double* last
    # rows (ld,)
    double* begun       # score of position 0 in a segment of two positions or more
    double* single      # score of position 0 in a segment of one position
    # sum of the inside scores from the second position to the current stop
    double* inside
    double* other       # scratch: scores to merge into a row
    # backward pass: probability that the first segment continues after the current
    # position
    double* goes_on

# `load_boundaries` reserves `boundaries_scratch` doubles, and advances the pointer.
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
