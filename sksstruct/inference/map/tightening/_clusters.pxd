from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport Problem


ctypedef Py_ssize_t Pair[2]


cdef class Sweeps:
    cdef Problem problem
    cdef object _owned
    cdef Py_ssize_t n, n_edges
    # of each variable: number of states, and offset of its states in `beliefs`, which
    # has the current score of each state
    cdef const Py_ssize_t* states
    cdef const Py_ssize_t* first
    cdef double* beliefs
    # of each edge e: its two variables; its current table is in `tables`, from start[e]
    # to start[e + 1] - 1
    cdef const Pair* ends
    cdef const Py_ssize_t* start
    cdef double* tables
    # of each variable v: edges to earlier variables are lower[v] to lower[v + 1] - 1;
    # edges to later variables are in `_upper_edge`, from upper[v] to upper[v + 1] - 1
    cdef const Py_ssize_t* lower
    cdef const Py_ssize_t* upper
    cdef const int32_t* _upper_edge
    # of each part 3 t + s, s = 0, 1, 2, of triplet t: its edge, and the offset of the
    # triplet's table of this edge in `_messages`
    cdef const Py_ssize_t* _parts
    cdef const Py_ssize_t* _start_message
    cdef double* _messages
    # of each edge e: `_in_place`, from _in_first[e] to _in_first[e + 1] - 1, has the
    # numbers 3 t + s of the triplets t of which the edge is part s
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
