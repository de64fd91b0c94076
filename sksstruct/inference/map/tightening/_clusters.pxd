from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport Problem


ctypedef Py_ssize_t Pair[2]


cdef class Sweeps:
    cdef Problem problem
    cdef object _owned
    cdef Py_ssize_t n, n_edges
    # variables: number of states, first state, scores that are left
    cdef const Py_ssize_t* states
    cdef const Py_ssize_t* first
    cdef double* beliefs
    # edges: variables, and tables that are left, from start[e] to start[e + 1]
    cdef const Pair* ends
    cdef const Py_ssize_t* start
    cdef double* tables
    # of a variable: edges to earlier ones are side by side, those to later ones listed
    cdef const Py_ssize_t* lower
    cdef const Py_ssize_t* upper
    cdef const int32_t* _upper_edge
    # triplets: three edges each, and the start of each of the three tables
    cdef const Py_ssize_t* _parts
    cdef const Py_ssize_t* _start_message
    cdef double* _messages
    # of an edge: the parts of triplets that it is
    cdef const Py_ssize_t* _in
    cdef const int32_t* _in_place
    cdef double* _row

    cdef double _sweep(self, bint backward) except? -1.0 nogil
    cdef double _visit_node(self, Py_ssize_t node, bint backward) noexcept nogil
    cdef void _take_first(self, Py_ssize_t edge, double* belief) noexcept nogil
    cdef void _take_second(self, Py_ssize_t edge, double* belief) noexcept nogil
    cdef void _give(self, Py_ssize_t edge, bint second, const double* belief,
                    double share) noexcept nogil
    cdef double _visit_edge(self, Py_ssize_t edge, bint backward) noexcept nogil
    cdef double _take_triplet(self, Py_ssize_t triplet, Py_ssize_t part,
                              double* table) noexcept nogil
