cimport cython

from sksstruct.models.tables._blocks cimport Block, WeightBlocks
from sksstruct.utils._arena cimport Arena


# a final class has no virtual calls
@cython.final
cdef class GramMatrices:
    cdef WeightBlocks _layout
    cdef Py_ssize_t _n_examples, _max_rows
    cdef bint _needed
    # for each block and example the address of its matrix, NULL until first looked up;
    # for an example of one row the only entry of its matrix in place of an address
    cdef double*** _matrices
    cdef Arena _arena

    cdef bint fits(self, Py_ssize_t number, Py_ssize_t i) noexcept nogil
    cdef int find(self, Py_ssize_t number, Py_ssize_t i, double* spread,
                  const double** matrix) except -1 nogil
    cdef double* _make(self, const Block* block, Py_ssize_t i,
                       double* spread) except NULL nogil
    cdef void prefetch(self, Py_ssize_t number, Py_ssize_t i, bint soon) noexcept nogil
