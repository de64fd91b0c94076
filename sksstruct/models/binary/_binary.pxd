cimport cython
from libc.stdint cimport int32_t, int64_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace


cdef struct BinaryScratch:
    double score        # <w, x_i> and the bias
    double d            # change of the mean parameter of the positive class
    # the observed class of the loaded example, and the cost of the other class
    int32_t y_true
    double loss


cdef class BinaryWorkspace(Workspace):
    cdef BinaryScratch _scratch


# a final class has no virtual calls, which would take a part of the time of visits
@cython.final
cdef class BoundBinary(BoundModel):
    cdef readonly Py_ssize_t n_features
    cdef readonly object X
    cdef readonly bint fit_intercept, free_bias
    cdef const int32_t[::1] _labels
    # features row by row, and the arrays that hold them; indices and indptr are NULL
    # for dense rows
    cdef object _arrays
    cdef const double* _values
    cdef const int32_t* _indices
    cdef const int64_t* _indptr
    # |x_i|^2, with the bias
    cdef const double[::1] _norms

    cdef int _bind_dense(self, X) except -1
    cdef int _bind_sparse(self, X) except -1
    cdef double _score(self, Py_ssize_t i, const double* weights) noexcept nogil
    cdef void _add_features(self, Py_ssize_t i, double scale,
                            double* out) noexcept nogil
