from libc.stdint cimport int32_t


cdef class TopK:
    # Scratch of one thread; grows to what the longest chain needs.
    cdef Py_ssize_t _size, _n, _ld, _k, _nodes, _slots, _used, _row, _list
    cdef const double* _theta
    cdef const double* _delta
    cdef const double* _table
    cdef Py_ssize_t _table_step
    cdef int32_t* _slot         # (size + 1, n) where a node's lists are, or -1
    cdef int32_t* _best         # (size + 1, n) first predecessor, or -1
    cdef int32_t* _path         # (size + 1,)
    cdef double* _waiting       # (slots, ld) score of the next prefix by predecessor
    cdef int32_t* _waiting_rank  # (slots, ld)
    cdef double* _score         # (slots, k) prefixes found
    cdef int32_t* _previous     # (slots, k) their last label but one
    cdef int32_t* _rank         # (slots, k) and rank there
    cdef int32_t* _count        # (slots,) how many; negative: there are no more

    cdef int _reserve(self, Py_ssize_t slots) except -1 nogil
    cdef Py_ssize_t _open(self, Py_ssize_t t, Py_ssize_t b) except -1 nogil
    cdef double _edge(self, Py_ssize_t t, Py_ssize_t a, Py_ssize_t b) noexcept nogil
    cdef Py_ssize_t _first(self, Py_ssize_t t, Py_ssize_t b) noexcept nogil
    cdef bint _next(self) except -1 nogil
    cdef Py_ssize_t decode(
        self, Py_ssize_t size, Py_ssize_t n, Py_ssize_t ld, const double* theta,
        double* delta, const double* table, Py_ssize_t table_step, Py_ssize_t k,
        double* scores, int32_t* labelings) except -1 nogil
