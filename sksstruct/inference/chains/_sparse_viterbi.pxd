cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.chains._pair_index cimport PairIndex


cdef struct PairScore:
    double value
    # the second label, and the number of the pair
    int32_t label, pair


cdef struct PairRow:
    # positive scores first, in descending order, then the others in any order
    PairScore* items
    Py_ssize_t size, capacity, n_positive


cdef class ViterbiScratch:
    cdef object _arrays
    # two rows of best scores of prefixes, and the maxima of blocks of one of them
    cdef double* delta
    cdef double* maxima
    # the best label before each label, at every position
    cdef int32_t* back
    # labels in descending order of a row, as far as it is known
    cdef int32_t* order
    cdef Py_ssize_t n_ordered
    # rows that may hold scores that matter
    cdef int32_t* rows


# final: its methods are called directly, which the short ones notice
@cython.final
cdef class SparseTransitions:
    cdef readonly Py_ssize_t n_labels
    cdef readonly PairIndex pairs
    cdef PairRow* _rows
    # the first score of each row, where it is positive, else -inf
    cdef double* _highest
    # of each pair its place in its row, -1 where it is in none
    cdef int32_t* _place
    cdef Py_ssize_t _n_places

    cdef int load(self, const double* scores, Py_ssize_t n_pairs) except -1 nogil
    cpdef int set(self, Py_ssize_t pair, double score) except -1 nogil
    cdef double score(self, Py_ssize_t before, Py_ssize_t label) noexcept nogil
    cdef double decode(self, ViterbiScratch scratch, Py_ssize_t size, Py_ssize_t ld,
                       const double* unary, int32_t* labeling) noexcept nogil
    cdef int _reserve_places(self) except -1 nogil
    cdef int _append(self, Py_ssize_t pair, double score) except -1 nogil
    cdef void _put(self, PairRow* row, Py_ssize_t place,
                   PairScore item) noexcept nogil
    cdef void _step(self, ViterbiScratch scratch, const double* previous,
                    double* best, int32_t* back) noexcept nogil
    cdef double _lower(self, ViterbiScratch scratch, const double* previous,
                       double* best, int32_t* back) noexcept nogil
    cdef void _raise(self, ViterbiScratch scratch, const double* previous,
                     double least, double* best, int32_t* back) noexcept nogil
