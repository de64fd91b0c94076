cimport cython
from libc.stdint cimport int32_t, int64_t


@cython.final
cdef class FeatureRows:
    cdef readonly Py_ssize_t n_features
    cdef bint sparse, single
    cdef const float* values32
    cdef const double* values64
    cdef const int32_t* indices
    cdef const int64_t* indptr
    cdef object _owned

    cdef Py_ssize_t row(self, Py_ssize_t pos, Py_ssize_t* first,
                        const int32_t** index) noexcept nogil
    cdef void scores(self, Py_ssize_t pos, const double* weights, Py_ssize_t ld,
                     const double* init, double* out) noexcept nogil
    cdef void scatter(self, Py_ssize_t pos, double scale, const double* change,
                      Py_ssize_t ld, double* weights) noexcept nogil
    cdef Py_ssize_t spread(self, Py_ssize_t pos, double* out) noexcept nogil
    cdef double spread_dot(self, Py_ssize_t pos,
                           const double* spread) noexcept nogil
    cdef Py_ssize_t entries(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef void prefetch(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef void scores_of_part(self, Py_ssize_t pos, const double* weights,
                             Py_ssize_t ld, Py_ssize_t size, const double* init,
                             double* out) noexcept nogil
    cdef double column_score(self, Py_ssize_t pos, const double* weights,
                             Py_ssize_t step) noexcept nogil
    cdef void add_to_column(self, Py_ssize_t pos, double scale, double* weights,
                            Py_ssize_t step) noexcept nogil
