cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.chains._sumproduct cimport EdgeTable
from sksstruct.inference.chains._triples cimport LabelTriples


# final: methods are called directly, without a virtual table
@cython.final
cdef class TripleTable:
    cdef readonly LabelTriples triples
    cdef object _arrays
    cdef double* weights            # (n_weights,) weights of triples times a factor
    cdef double* _powers            # (n_weights,) exp(`weights` - largest weight)
    cdef double* ahead  # (n_rows, ld) exp(`weights`), by rows of `LabelTriples`
    # the smallest and the largest of zero and all `weights`
    cdef double low, high

    cdef int load(self, const double* weights, double factor,
                  bint exponentials) noexcept nogil


# final: methods are called directly, without a virtual table
@cython.final
cdef class SecondOrderSums:
    # Workspace of one thread.
    cdef Py_ssize_t _n, _ld
    cdef object _arrays
    cdef TripleTable table
    cdef double* _u  # (max_size, ld) exp(theta), relative to each row's largest
    cdef double* _scales            # (max_size,) factors by which prefixes are scaled
    # (max_size, n, ld) weights of prefixes alpha_t(b, c), scaled, or their logarithms
    cdef double* _prefix
    # (n, ld) weights of suffixes beta_t(b, c); in log space, marginals of pairs
    cdef double* _suffix
    cdef double* _pairs             # (n, ld) marginals of pairs at t - 1 and t
    cdef double* _row               # (ld,) scratch
    cdef double* _zeros             # (ld,) constant zeros
    # (n + 1,) for one b: weights of prefixes, one per row, from `LabelTriples.gather`
    cdef double* _values
    cdef double* _shares            # (n + 1,) for one b: beta(a, b), one per row
    # (n_rows, ld) expected counts of triples, still without the factor `ahead`
    cdef double* _outer
    # (n_rows, ld) weights by rows of `LabelTriples`, for log space
    cdef double* _scores
    # The chain whose labelings are summed; and the outputs: node marginals, which are
    # overwritten, and tables to which `_weight` times the means are added.
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
