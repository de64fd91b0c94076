from sksstruct.inference.map.core._problem cimport Problem


cdef class Messages:
    # kernels define the layout of messages; beliefs have the layout of the unary scores
    cdef readonly Problem problem
    cdef object _owned
    cdef double* _messages
    cdef double* _beliefs
    cdef readonly double bound
    # whether the last sweep was backward
    cdef readonly bint backward

    cdef int _sweep(self, Problem problem, bint backward) except -1 nogil
