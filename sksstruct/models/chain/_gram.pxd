from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.utils._arena cimport Arena


cdef class GramMatrices:
    cdef FeatureRows _rows
    cdef const Py_ssize_t[::1] _starts
    cdef Py_ssize_t _n_sequences
    cdef double** _matrices        # NULL until asked for
    cdef Arena _arena

    cdef bint fits(self, Py_ssize_t i) noexcept nogil
    cdef int find(self, Py_ssize_t i, double* spread,
                  const double** matrix) except -1 nogil
    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil
