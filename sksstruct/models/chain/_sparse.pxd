from libc.stdint cimport int32_t

from sksstruct.inference.chains._sparse_viterbi cimport SparseTransitions
from sksstruct.models.chain._given cimport GivenChain


cdef class SparseChain(GivenChain):
    cdef SparseTransitions _transitions

    cdef double _augment(self, Py_ssize_t i, const int32_t* y_true,
                         const double* costs, double* theta) noexcept nogil
