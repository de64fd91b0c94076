from libc.stdint cimport int32_t, int64_t

cdef enum:
    ROWS = 0
    COLUMNS = 1
    ALL = 2


cdef struct Heap:
    int32_t* items
    int32_t size
    int32_t room


cdef class IndicatorTable:
    cdef readonly Py_ssize_t n_rows, n_columns, n_stored
    cdef public int64_t visited          # entries looked at
    cdef double* _value
    cdef int32_t* _ends                  # row and column of each entry
    cdef int32_t* _place                 # of each entry in its three heaps
    cdef int32_t* _hash                  # entry + 1 where there is one
    cdef Py_ssize_t _room, _hash_size
    cdef Heap* _heaps                    # of the rows, of the columns, of all
    cdef int32_t* _frontier
    cdef double* _base                   # a row of scores, zero between calls

    cdef Heap* _heap(self, int kind, Py_ssize_t index) noexcept nogil
    cdef Py_ssize_t find(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil
    cdef Py_ssize_t insert(self, Py_ssize_t a, Py_ssize_t b) except -1 nogil
    cdef int change(self, Py_ssize_t entry, double amount) except -1 nogil
    cdef double lookup(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil
    cdef int best(
        self, Py_ssize_t n, const int32_t* rows, const double* row_messages,
        Py_ssize_t m, const int32_t* columns, const double* column_messages,
        double floor, int32_t* a, int32_t* b, double* value) except -1 nogil
    cdef int scan(
        self, Py_ssize_t n, const int32_t* rows, const double* row_messages,
        Py_ssize_t m, const int32_t* columns, const double* column_messages,
        double floor, int32_t* a, int32_t* b, double* value) except -1 nogil

    cdef int _push(self, Heap* heap, int kind, int32_t entry) except -1 nogil
    cdef void _settle(self, Heap* heap, int kind, Py_ssize_t k) noexcept nogil
    cdef Py_ssize_t _next(self, Heap* heap, int kind, double floor,
                          Py_ssize_t* waiting) noexcept nogil
    cdef Py_ssize_t _first(
        self, Heap* heap, int kind, Py_ssize_t n, const int32_t* rows, Py_ssize_t m,
        const int32_t* columns, double floor) noexcept nogil
    cdef bint _zero_in(
        self, int kind, Py_ssize_t index, Py_ssize_t n, const int32_t* taken,
        int32_t* found) noexcept nogil
