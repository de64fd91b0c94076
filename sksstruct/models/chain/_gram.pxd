cimport cython
from libc.stdint cimport int32_t

from sksstruct.models.chain._workspace cimport ChainScratch
from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.utils._arena cimport Arena


# final: nobody derives from it
@cython.final
cdef class GramMatrices:
    cdef FeatureRows _rows
    cdef const Py_ssize_t[::1] _starts
    cdef Py_ssize_t _n_sequences, _ld
    # 1 if there is a bias, else 0
    cdef double _bias
    cdef bint _boundary
    # NULL until asked for
    cdef double** _matrices
    cdef Arena _arena

    cdef Py_ssize_t _size(self, Py_ssize_t i) noexcept nogil
    cdef bint fits(self, Py_ssize_t i) noexcept nogil
    cdef int find(self, Py_ssize_t i, double* spread,
                  const double** matrix) except -1 nogil
    cdef double* _make(self, Py_ssize_t i, double* spread) except NULL nogil
    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil
    # of labelings
    cdef int products(
        self, ChainScratch* ws, Py_ssize_t i, const int32_t* y, const int32_t* y_true,
        Py_ssize_t n_labelings, const int32_t* labelings, double* out) except -1 nogil
    cdef void _weigh(
        self, ChainScratch* ws, Py_ssize_t size, const double* gram, const int32_t* y,
        const int32_t* y_true) noexcept nogil
    cdef double _product(
        self, const ChainScratch* ws, Py_ssize_t size, const int32_t* other,
        const int32_t* y_true) noexcept nogil
