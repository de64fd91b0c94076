from libc.stdint cimport int32_t


cdef struct Prefix:
    double score
    int32_t previous    # last label but one
    int32_t rank        # and rank there


cdef class TopK:
    # Scratch of one thread; grows to what is needed.
    cdef Py_ssize_t _size, _n, _ld, _nodes, _slots, _used, _row, _room, _taken
    cdef const double* _theta
    cdef const double* _delta
    cdef const double* _table
    cdef Py_ssize_t _table_step
    cdef int32_t* _slot         # (size + 1, n) where a node's lists are, or -1
    cdef int32_t* _best         # (size + 1, n) first predecessor, or -1
    cdef int32_t* _path         # (size + 1,)
    cdef double* _waiting       # (slots, ld) score of the next prefix by predecessor
    cdef int32_t* _waiting_rank  # (slots, ld)
    cdef int32_t* _count        # (slots,) prefixes found; negative: there are no more
    cdef int32_t* _capacity     # (slots,)
    cdef Py_ssize_t* _start     # (slots,) where they are in the pool
    cdef Prefix* _pool

    cdef int _reserve(self, Py_ssize_t slots) except -1 nogil
    cdef Py_ssize_t _take(self, Py_ssize_t count) except -1 nogil
    cdef Py_ssize_t _open(self, Py_ssize_t t, Py_ssize_t b) except -1 nogil
    cdef double _edge(self, Py_ssize_t t, Py_ssize_t a, Py_ssize_t b) noexcept nogil
    cdef Py_ssize_t _first(self, Py_ssize_t t, Py_ssize_t b) noexcept nogil
    cdef bint _next(self) except -1 nogil
    cdef Py_ssize_t decode(
        self, Py_ssize_t size, Py_ssize_t n, Py_ssize_t ld, const double* theta,
        double* delta, const double* table, Py_ssize_t table_step, Py_ssize_t k,
        double* scores, int32_t* labelings) except -1 nogil
