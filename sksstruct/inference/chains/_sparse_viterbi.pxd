cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.chains._pair_index cimport PairIndex


cdef struct PairScore:
    double value
    # second label of the pair, and number of the pair
    int32_t label, pair


cdef struct PairRow:
    # The pairs with one first label, and their scores: positive scores in descending
    # order, then all other scores in any order.
    PairScore* items
    Py_ssize_t size, capacity, n_positive


cdef class ViterbiScratch:
    cdef object _arrays
    # `delta` has the best scores of prefixes by last label, in two rows, for even and
    # odd positions. `maxima` has the maximum of each block of the previous position's
    # row.
    cdef double* delta
    cdef double* maxima
    # backpointers: the best previous label of each label at every position
    cdef int32_t* back
    # labels in descending order of their prefix scores; the first n_ordered entries are
    # set
    cdef int32_t* order
    cdef Py_ssize_t n_ordered
    # labels a such that v[a, b] may raise the maximum of some b
    cdef int32_t* rows


# final: short methods are called directly, without a virtual table
@cython.final
cdef class SparseTransitions:
    cdef readonly Py_ssize_t n_labels
    cdef readonly PairIndex pairs
    cdef PairRow* _rows
    # largest score of each row if positive, else -inf
    cdef double* _highest
    # index of each pair in its row, -1 for pairs that are not stored
    cdef int32_t* _index_in_row
    cdef Py_ssize_t _n_indices

    cdef int load(self, const double* scores, Py_ssize_t n_pairs) except -1 nogil
    cpdef int set(self, Py_ssize_t pair, double score) except -1 nogil
    cdef double score(self, Py_ssize_t before, Py_ssize_t label) noexcept nogil
    cdef double decode(self, ViterbiScratch scratch, Py_ssize_t size, Py_ssize_t ld,
                       const double* unary, int32_t* labeling) noexcept nogil
    cdef int _reserve_indices(self) except -1 nogil
    cdef int _append(self, Py_ssize_t pair, double score) except -1 nogil
    cdef void _put(self, PairRow* row, Py_ssize_t place,
                   PairScore item) noexcept nogil
    cdef void _step(self, ViterbiScratch scratch, const double* previous,
                    double* best, int32_t* back) noexcept nogil
    cdef double _lower(self, ViterbiScratch scratch, const double* previous,
                       double* best, int32_t* back) noexcept nogil
    cdef void _raise(self, ViterbiScratch scratch, const double* previous,
                     double least, double* best, int32_t* back) noexcept nogil
