from libc.stdint cimport int64_t


cdef class Tokens:
    cdef readonly bytes data
    cdef readonly str name
    cdef const char* _text
    # length of the text, place after the last token that was read, begin of this token
    cdef Py_ssize_t _size, _at, _last

    cdef bint _advance(self) noexcept nogil
    cdef bint _read_small(self, int64_t* value) noexcept nogil
    cdef int read_integer(self, int64_t low, int64_t high, object what,
                          int64_t* value) except -1
    cdef void _skip(self) noexcept nogil
    cdef int read_number(self, double* value) except -1 nogil
    cdef int _fill(self, Py_ssize_t n, double* values, object what,
                   bint infinite) except -1
    cdef double _read_by_python(self) except? -1.0
    cdef double _infinite(self, object what, bint infinite) except? -1.0
