from libc.stdint cimport int32_t

from sksstruct.inference.cuts._maxflow cimport FlowTrees


cdef class RoofDual(FlowTrees):
    cdef readonly Py_ssize_t n_labels, n_pairs
    cdef const int32_t[:, ::1] _pairs
    # neighbours of label j in pairs: near_first[j] <= a < near_first[j + 1]
    cdef const Py_ssize_t[::1] _near_first
    cdef const int32_t[::1] _near, _near_pair

    cdef bint attracts(self, const double* pair) noexcept nogil
    cdef void relax(self, const double* unary, const double* pair,
                    int32_t* states) noexcept nogil
    cdef void enumerate(self, const double* unary, const double* pair,
                        double* fields, int32_t* states) noexcept nogil
    cdef double value(self, const double* unary, const double* pair,
                      const int32_t* states) noexcept nogil
    cdef void _spread(self, const double* pair, Py_ssize_t j, double sign,
                      double* fields) noexcept nogil


cdef inline int32_t together(int32_t a, int32_t b, double score) noexcept nogil:
    """s of a pair in halves: the most where it attracts, else the least."""
    if score > 0.0:
        return a if a < b else b
    return a + b - 2 if a + b > 2 else 0
