cimport cython
from libc.stdint cimport int32_t, int64_t

from sksstruct.inference.chains._triples cimport LabelTriples


cdef struct Suffix:
    # the labels from a position on, and the best labels before them
    double score            # of all these labels
    double rest             # without the best prefix that ends in the first two labels
    Py_ssize_t next         # the suffix without the first label
    Py_ssize_t start        # position of the first label
    int32_t label           # the first label


# final: its methods are called directly
@cython.final
cdef class SecondOrder:
    # Scratch of one thread; grows to what is needed.
    cdef LabelTriples _triples
    cdef Py_ssize_t _n, _ld
    cdef object _arrays
    cdef double* _rows              # (n_rows, ld) weights, spread out
    cdef int64_t* _written          # (n_rows,) call that wrote them
    cdef int64_t _call
    # (n, ld) largest weights of (c, b), and with the scores of transitions
    cdef double* _bounds
    cdef double* _turned
    cdef double* _range             # (ld,) largest entry less the least, of rows of b
    cdef double* _rest              # (ld,)
    cdef double* _row               # (ld,)
    cdef double* _maxima            # (n, ld)
    cdef double* _nothing           # (ld,) -inf
    cdef int32_t* _listed           # (n,)
    # the chain that is decoded
    cdef Py_ssize_t _size
    cdef const double* _theta
    cdef const double* _table
    cdef Py_ssize_t _table_step
    cdef const double* _weights
    # (size, ld) bounds on the scores of all labels from one on, what no part of a good
    # labeling exceeds, and a bound on the scores of the labelings that are looked for
    cdef double* _after
    cdef Py_ssize_t _after_capacity
    cdef double _scale, _least
    # (size, n, ld) score of the best prefix that ends in two labels
    cdef double* _best
    cdef Py_ssize_t _best_capacity
    cdef char* _reached             # (size, n) whether a row of `_best` is written
    cdef Py_ssize_t _reached_capacity
    # suffixes that were extended, and those that wait, the best first
    cdef Suffix* _taken
    cdef Py_ssize_t _n_taken, _taken_capacity
    cdef Suffix* _waiting
    cdef Py_ssize_t _n_waiting, _most_waiting, _waiting_capacity

    cdef Py_ssize_t decode(
        self, Py_ssize_t size, const double* theta, const double* table,
        Py_ssize_t table_step, const double* weights, Py_ssize_t k, double* scores,
        int32_t* labelings) except -1 nogil
    cdef void _bound_weights(self) noexcept nogil
    cdef int _bound_suffixes(self) except -1 nogil
    cdef double _bound_best(self) noexcept nogil
    cdef const double* _weights_after(self, Py_ssize_t row) noexcept nogil
    cdef int _find_prefixes(self) except -1 nogil
    cdef void _follow(self, Py_ssize_t t, Py_ssize_t b) noexcept nogil
    cdef void _find_margins(self, Py_ssize_t t) noexcept nogil
    cdef void _find_best(self, Py_ssize_t t) noexcept nogil
    cdef bint _precedes(self, const Suffix* one, const Suffix* other) noexcept nogil
    cdef int _wait(self, Suffix suffix) except -1 nogil
    cdef int _begin(self) except -1 nogil
    cdef int _extend(self, Py_ssize_t suffix) except -1 nogil
