from libc.stdint cimport int32_t

from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._pair_features cimport PairFeatures
from sksstruct.models.chain._workspace cimport ChainScratch


cdef class PairChain(BoundChain):
    # `_pair_chain.pyx` states each
    cdef readonly object pair_support
    cdef readonly PairFeatures pair_features
    cdef object _weights_read

    cdef void _form_tables(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil
    cdef void _add_pair(self, ChainScratch* ws, Py_ssize_t i, Py_ssize_t t,
                        const int32_t* y, double coef) noexcept nogil
    cdef double _pair_product(self, const ChainScratch* ws, Py_ssize_t i, Py_ssize_t t,
                              const int32_t* y) noexcept nogil
