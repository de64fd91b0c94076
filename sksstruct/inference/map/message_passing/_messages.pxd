from sksstruct.inference.map.core._problem cimport MAPProblem


cdef class Messages:
    # messages are where each kernel says; beliefs are flat, as scores are
    cdef MAPProblem problem
    cdef double[::1] _messages, _beliefs
    cdef readonly double bound
    # direction of the last sweep
    cdef readonly bint backward

    cdef int _sweep(self, MAPProblem problem, bint backward) except -1 nogil
