from libc.stdint cimport int32_t

from sksstruct.inference.segments._scores cimport Segments

# `best_segmentations` needs scratch of `topk_scratch` doubles.
cdef Py_ssize_t topk_scratch(const Segments* segments, Py_ssize_t k) noexcept nogil
cdef Py_ssize_t best_segmentations(
    const Segments* segments, Py_ssize_t k, double* scratch, int32_t* labelings,
    double* scores) noexcept nogil
