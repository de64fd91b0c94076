cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.chains._sumproduct cimport EdgeTable
from sksstruct.inference.chains._triples cimport LabelTriples


# final: methods are called directly
@cython.final
cdef class TripleTable:
    cdef readonly LabelTriples triples
    cdef object _arrays
    cdef double* weights            # (n_weights,) weights times a factor
    cdef double* _powers            # (n_weights,) exponentials of weights
    cdef double* ahead  # (n_rows, ld) exponentials, by rows of `LabelTriples`
    # the smallest and the largest score of a triple
    cdef double low, high

    cdef int load(self, const double* weights, double factor,
                  bint exponentials) noexcept nogil


# final: methods are called directly
@cython.final
cdef class SecondOrderSums:
    # Scratch of one thread.
    cdef Py_ssize_t _n, _ld
    cdef object _arrays
    cdef TripleTable table
    cdef double* _u                 # (max_size, ld) exp(theta), relative to the largest
    cdef double* _scales            # (max_size,)
    cdef double* _prefix            # (max_size, n, ld) weights of prefixes
    cdef double* _suffix            # (n, ld) weights of suffixes
    cdef double* _pairs             # (n, ld) probabilities of pairs at two positions
    cdef double* _row               # (ld,)
    cdef double* _zeros             # (ld,)
    cdef double* _values            # (n + 1,)
    cdef double* _shares            # (n + 1,)
    # (n_rows, ld) expected counts of triples, still without the factor `ahead`
    cdef double* _outer
    # (n_rows, ld) weights by rows of `LabelTriples`, for log space
    cdef double* _scores
    # the chain whose labelings are summed; and outputs, to which weight times means are
    # added
    cdef Py_ssize_t _size
    cdef const double* _theta
    cdef const EdgeTable* _tables
    cdef Py_ssize_t _step, _edges_step
    cdef double* _nodes
    cdef double _weight
    cdef double* _edges
    cdef double* _triples

    cdef int expect(
        self, Py_ssize_t size, const double* theta, const EdgeTable* tables,
        Py_ssize_t step, double* nodes, double weight, double* edges,
        Py_ssize_t edges_step, double* triples, double* log_partition) except -1 nogil
    cdef bint _sum_prefixes(self, double* log_partition) noexcept nogil
    cdef void _find_means(self) noexcept nogil
    cdef void _add_pairs(self, Py_ssize_t t) noexcept nogil
    cdef double _weigh_suffixes(self, Py_ssize_t t, Py_ssize_t b) noexcept nogil
    cdef void _step_back(self, Py_ssize_t t, Py_ssize_t b) noexcept nogil
    cdef void _add_triples(self) noexcept nogil
    cdef double _sum_logarithms(self) noexcept nogil
    cdef void _find_means_of_logarithms(self, double log_partition) noexcept nogil
    cdef void _distribute_pair(self, Py_ssize_t t, Py_ssize_t b, Py_ssize_t c,
                               double share) noexcept nogil
