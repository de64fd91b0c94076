from sksstruct.inference.chains._sumproduct cimport EdgeTable
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._means cimport ChainMeans
from sksstruct.models.chain._workspace cimport ChainScratch
from sksstruct.models.protocols._entropy_dual cimport EntropyDual


cdef class ChainEntropyDual(EntropyDual):
    # `_entropy_dual.pyx` states each method
    cdef BoundChain _chain
    cdef ChainMeans _oracle
    # exponentials of the natural parameters of pairs
    cdef object _memory
    cdef EdgeTable _table

    cdef const EdgeTable* _exponentiate(self, ChainScratch* ws, Py_ssize_t i,
                                        const double* pairs) noexcept nogil
    cdef int _observe_pairs(self, Py_ssize_t i, double* pair_means) except -1 nogil
