from sksstruct.inference.segments._segments cimport Prefixes, SegmentMeans, Segments

# Potentials times a factor, and what sum-product makes of them.
cdef struct SegmentSums:
    Segments scaled
    Segments given      # whose layout the means have
    Prefixes prefixes   # logarithms
    double* ended       # (size, ld) probability that a segment of a label stops after t
    double* opened      # (size, ld) that one starts at t which is longer than t
    double* row         # (ld,)
    double* table       # four columns for each length, or for each label before

# `load_sums` needs memory for so many doubles, which it keeps.
cdef Py_ssize_t sums_scratch(const Segments* segments) noexcept nogil
cdef SegmentSums load_sums(const Segments* segments, double scale,
                           double* memory) noexcept nogil
cdef double sum_segmentations(SegmentSums* sums, double weight,
                              const SegmentMeans* means) noexcept nogil
cdef double segment_probability(const SegmentSums* sums, Py_ssize_t start,
                                Py_ssize_t stop, Py_ssize_t label) noexcept nogil
