# Pointers to the entries of NumPy arrays. Python code makes the arrays, and the kernel
# keeps them alive in an attribute: a pointer needs a tenth of the machine code of a
# memoryview, whose reference count changes in every call. Each function raises an error
# if the array has another type, is not contiguous, or is read-only although the pointer
# is for writing.

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t

cdef const void* address(object array, char kind, Py_ssize_t itemsize,
                         bint writable) except? NULL


cdef inline double* doubles(object array) except? NULL:
    return <double*> address(array, c"f", sizeof(double), True)


cdef inline const double* const_doubles(object array) except? NULL:
    return <const double*> address(array, c"f", sizeof(double), False)


cdef inline float* floats(object array) except? NULL:
    return <float*> address(array, c"f", sizeof(float), True)


cdef inline const float* const_floats(object array) except? NULL:
    return <const float*> address(array, c"f", sizeof(float), False)


cdef inline int8_t* int8s(object array) except? NULL:
    return <int8_t*> address(array, c"i", 1, True)


cdef inline const int8_t* const_int8s(object array) except? NULL:
    return <const int8_t*> address(array, c"i", 1, False)


cdef inline uint8_t* uint8s(object array) except? NULL:
    return <uint8_t*> address(array, c"u", 1, True)


cdef inline const uint8_t* const_uint8s(object array) except? NULL:
    return <const uint8_t*> address(array, c"u", 1, False)


cdef inline int32_t* int32s(object array) except? NULL:
    return <int32_t*> address(array, c"i", 4, True)


cdef inline const int32_t* const_int32s(object array) except? NULL:
    return <const int32_t*> address(array, c"i", 4, False)


cdef inline int64_t* int64s(object array) except? NULL:
    return <int64_t*> address(array, c"i", 8, True)


cdef inline const int64_t* const_int64s(object array) except? NULL:
    return <const int64_t*> address(array, c"i", 8, False)


cdef inline uint64_t* uint64s(object array) except? NULL:
    return <uint64_t*> address(array, c"u", 8, True)


# pointers to entries of NumPy's type intp
cdef inline Py_ssize_t* intps(object array) except? NULL:
    return <Py_ssize_t*> address(array, c"i", sizeof(Py_ssize_t), True)


cdef inline const Py_ssize_t* const_intps(object array) except? NULL:
    return <const Py_ssize_t*> address(array, c"i", sizeof(Py_ssize_t), False)
