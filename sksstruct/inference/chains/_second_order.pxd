cimport cython
from libc.stdint cimport int32_t, int64_t

from sksstruct.inference.chains._triples cimport LabelTriples


cdef struct Suffix:
    # The labels from a position to the end of the chain.
    double score            # score of the best labeling that ends in this suffix
    # `score` minus the score of the best prefix that ends in the suffix's first two
    # labels
    double rest
    Py_ssize_t next         # index in `_popped` of the suffix without the first label
    Py_ssize_t start        # position of the first label
    int32_t label           # first label


# final: methods are called directly, without a virtual table
@cython.final
cdef class SecondOrder:
    # Workspace of one thread, which grows with the longest chain.
    cdef LabelTriples _triples
    cdef Py_ssize_t _n, _ld
    cdef object _arrays
    cdef double* _rows  # (n_rows, ld) weights of triples, by rows of `LabelTriples`
    # (n_rows,) number of the call of `decode` that wrote each row of `_rows`
    cdef int64_t* _written
    cdef int64_t _call
    # (n, ld), at (c, b): `_bounds` has the largest of zero and w(a, b, c) over all a;
    # `_turned` has the sum of this maximum and the pairwise score of (b, c)
    cdef double* _bounds
    cdef double* _turned
    # (ld,) for each b: largest minus smallest of zero and all w(a, b, c)
    cdef double* _range
    # (ld,) for each b: best score of the prefixes that end in a pair (a, b) without
    # weights
    cdef double* _rest
    cdef double* _row               # (ld,) scratch
    # (n, ld), at (b, c): maximum over a of w(a, b, c) plus the best score of a prefix
    # that ends in (a, b)
    cdef double* _maxima
    cdef double* _minus_inf         # (ld,) constant -inf
    cdef int32_t* _listed           # (n,) for one a: labels b such that (a, b) is kept
    # the chain that is decoded; see `decode`
    cdef Py_ssize_t _size
    cdef const double* _theta
    cdef const double* _table
    cdef Py_ssize_t _table_step
    cdef const double* _weights
    # (size, ld) upper bounds on the scores of suffixes by first label
    cdef double* _after
    cdef Py_ssize_t _after_capacity
    # `_scale`: upper bound on partial sums of scores, for the margins of rounding
    # errors; `_least`: lower bound on the score of a best labeling
    cdef double _scale, _least
    # (size, n, ld), at (t, b, c): best score of a prefix that ends in b at t - 1, c at
    # t
    cdef double* _best
    cdef Py_ssize_t _best_capacity
    cdef char* _reached             # (size, n) whether row (t, b) of `_best` is written
    cdef Py_ssize_t _reached_capacity
    # `_popped` has the n suffixes of one label, then the suffixes taken from the queue;
    # `_queue` has the suffixes that are to be extended, the best first
    cdef Suffix* _popped
    cdef Py_ssize_t _n_popped, _popped_capacity
    cdef Suffix* _queue
    cdef Py_ssize_t _n_queued, _queue_limit, _queue_capacity

    cdef Py_ssize_t decode(
        self, Py_ssize_t size, const double* theta, const double* table,
        Py_ssize_t table_step, const double* weights, Py_ssize_t k, double* scores,
        int32_t* labelings) except -1 nogil
    cdef void _bound_weights(self) noexcept nogil
    cdef int _bound_suffixes(self) except -1 nogil
    cdef double _bound_best(self) noexcept nogil
    cdef const double* _weights_after(self, Py_ssize_t row) noexcept nogil
    cdef int _find_prefixes(self) except -1 nogil
    cdef void _append_label(self, Py_ssize_t t, Py_ssize_t b) noexcept nogil
    cdef void _find_thresholds(self, Py_ssize_t t) noexcept nogil
    cdef void _find_best(self, Py_ssize_t t) noexcept nogil
    cdef bint _precedes(self, const Suffix* one, const Suffix* other) noexcept nogil
    cdef int _enqueue(self, Suffix suffix) except -1 nogil
    cdef int _queue_last_pairs(self) except -1 nogil
    cdef int _extend(self, Py_ssize_t suffix) except -1 nogil
