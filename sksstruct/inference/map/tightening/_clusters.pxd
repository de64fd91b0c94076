from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport MAPProblem


cdef class Clusters:
    cdef MAPProblem problem
    # variables: number of states, first state, scores that are left
    cdef Py_ssize_t[::1] states, first
    cdef double[::1] beliefs_
    # edges: variables, and tables that are left, from start[e] to start[e + 1]
    cdef Py_ssize_t[:, ::1] ends_
    cdef Py_ssize_t[::1] start
    cdef double[::1] tables
    cdef readonly dict place
    # of a variable: edges to earlier ones are side by side, those to later ones listed
    cdef Py_ssize_t[::1] _lower, _upper
    cdef int32_t[::1] _upper_edge
    # triplets: variables, edges, and the start of each of the three tables
    cdef readonly object triplets
    cdef Py_ssize_t[:, ::1] _parts
    cdef Py_ssize_t[::1] _start_message
    cdef double[::1] _messages
    # of an edge: the parts of triplets that it is
    cdef Py_ssize_t[::1] _in
    cdef int32_t[::1] _in_place
    cdef double[::1] _row
    cdef readonly double bound

    cdef int _sweep(self, bint backward) except -1 nogil
    cdef double _visit_node(self, Py_ssize_t node, bint backward) noexcept nogil
    cdef void _take_first(self, Py_ssize_t edge, double* belief) noexcept nogil
    cdef void _take_second(self, Py_ssize_t edge, double* belief) noexcept nogil
    cdef void _give(self, Py_ssize_t edge, bint second, const double* belief,
                    double share) noexcept nogil
    cdef double _visit_edge(self, Py_ssize_t edge, bint backward) noexcept nogil
    cdef double _take_triplet(self, Py_ssize_t triplet, Py_ssize_t part,
                              double* table) noexcept nogil
