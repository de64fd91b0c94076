from sksstruct.inference.map.core._problem cimport Problem


cdef class Messages:
    # messages are where each kernel says; beliefs are flat, as scores are
    cdef Problem problem
    cdef double[::1] _messages, _beliefs
    cdef readonly double bound
    # direction of the last sweep
    cdef readonly bint backward

    cdef int _sweep(self, Problem problem, bint backward) except -1 nogil
