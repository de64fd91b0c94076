from libc.stdint cimport int32_t, int64_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace


cdef struct BinaryScratch:
    double score        # <w, x_i> and the bias
    double d            # change of the mean parameter of the positive class
    int32_t y_true
    double loss


cdef class BinaryWorkspace(Workspace):
    cdef BinaryScratch _scratch


cdef class BoundBinary(BoundModel):
    cdef readonly Py_ssize_t n_features
    cdef readonly object X
    cdef readonly bint fit_intercept, free_bias
    cdef object _owned
    cdef const int32_t[::1] _labels
    cdef const double* _values
    cdef const int32_t* _indices
    cdef const int64_t* _indptr
    cdef const double[::1] _norms
    cdef void _add(self, Py_ssize_t i, double scale, double* out) noexcept nogil
