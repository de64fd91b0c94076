from libc.stdint cimport int32_t

from sksstruct.inference.chains._sumproduct cimport EdgeTable, SumScratch
from sksstruct.inference.chains._topk cimport TopK
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._workspace cimport ChainScratch


cdef class ChainMeans:
    cdef BoundChain _chain
    cdef Py_ssize_t _k
    cdef object _arrays
    cdef TopK _decoder
    cdef SumScratch sums
    cdef double* other         # (max_size, ld) node means of a second distribution
    cdef double* outer         # (n_labels, ld) edge means without the table's factor
    cdef double* _scores       # (k + 1,) of the best labelings
    cdef double* _shares       # (k + 1,) and their weights u
    cdef int32_t* _labelings   # (k + 1, max_size)

    cdef int by_entropy(
        self, Py_ssize_t size, const double* theta, const EdgeTable* table,
        double weight, double* nodes, double* outer, double* edges,
        double* log_partition) except -1 nogil
    cdef double by_topk(
        self, ChainScratch* ws, Py_ssize_t i, const double* table, double mu,
        double weight, double* nodes, double* edges,
        unsigned char* exact) except? -1 nogil
