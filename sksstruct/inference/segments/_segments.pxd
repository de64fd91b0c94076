from libc.stdint cimport int32_t

from sksstruct.inference.segments._scores cimport Prefixes, SegmentMeans, Segments

cdef Py_ssize_t fill_gains(const Segments* segments, Py_ssize_t stop, Py_ssize_t label,
                           double* gains) noexcept nogil
cdef double segment_gain(const Segments* segments, Py_ssize_t start, Py_ssize_t stop,
                         Py_ssize_t label) noexcept nogil
cdef void open_segments(const Segments* segments, Py_ssize_t start, const double* entry,
                        const Prefixes* prefixes) noexcept nogil
cdef void write_segment(int32_t* labeling, Py_ssize_t start, Py_ssize_t stop,
                        Py_ssize_t label) noexcept nogil

# `best_segmentation` needs scratch of `best_scratch` doubles.
cdef Py_ssize_t best_scratch(const Segments* segments) noexcept nogil
cdef double best_segmentation(const Segments* segments, double* scratch,
                              int32_t* labeling) noexcept nogil
cdef double segmentation_score(const Segments* segments,
                               const int32_t* labeling) noexcept nogil
cdef void add_indicator(const Segments* segments, const int32_t* labeling,
                        double weight, const SegmentMeans* means) noexcept nogil
