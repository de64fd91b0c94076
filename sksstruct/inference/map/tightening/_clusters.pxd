from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport Problem


ctypedef Py_ssize_t Pair[2]


cdef class Sweeps:
    cdef Problem problem
    cdef object _owned
    cdef Py_ssize_t n, n_edges
    # by variable: number of states, offset of the states; by state: present score
    cdef const Py_ssize_t* states
    cdef const Py_ssize_t* first
    cdef double* beliefs
    # by edge: variables; present tables, at start[e] to start[e + 1]
    cdef const Pair* ends
    cdef const Py_ssize_t* start
    cdef double* tables
    # by variable: edges to earlier variables are lower[v] to lower[v + 1] - 1; edges to
    # later variables are in `_upper_edge`, from upper[v] to upper[v + 1] - 1
    cdef const Py_ssize_t* lower
    cdef const Py_ssize_t* upper
    cdef const int32_t* _upper_edge
    # by triplet: three edges, and the offsets of three tables
    cdef const Py_ssize_t* _parts
    cdef const Py_ssize_t* _start_message
    cdef double* _messages
    # by edge: list of 3 t + s, where the edge is part s of triplet t
    cdef const Py_ssize_t* _in_first
    cdef const int32_t* _in_place
    cdef double* _row

    cdef double _sweep(self, bint backward) except? -1.0 nogil
    cdef double _visit_node(self, Py_ssize_t node, bint backward) noexcept nogil
    cdef void _take_row_maxima(self, Py_ssize_t edge, double* belief) noexcept nogil
    cdef void _take_column_maxima(self, Py_ssize_t edge, double* belief) noexcept nogil
    cdef void _give_share(self, Py_ssize_t edge, bint second, const double* belief,
                          double share) noexcept nogil
    cdef double _visit_edge(self, Py_ssize_t edge, bint backward) noexcept nogil
    cdef double _take_triplet_maxima(self, Py_ssize_t triplet, Py_ssize_t part,
                                     double* table) noexcept nogil
