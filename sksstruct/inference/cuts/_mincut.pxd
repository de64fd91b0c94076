from libc.stdint cimport int32_t

from sksstruct.inference.cuts._maxflow cimport FlowNode, FlowTrees


cdef class Snapshot:
    cdef double[::1] _residual, _terminal
    cdef FlowNode[::1] _nodes

    cdef void save(self, FlowTrees trees) noexcept nogil
    cdef void restore(self, FlowTrees trees) noexcept nogil


cdef class CutKernel(FlowTrees):
    # a cost that is never worth paying, in the place of -inf
    cdef double _big
    # scores of the problem solved last, None after an error
    cdef object _lock, _unary, _pairwise

    cdef void _change_each(
        self, const int32_t[::1] labels, const double[:, ::1] unary,
        const double[:, :, ::1] pairwise, Snapshot solved, int32_t[::1] changed,
        double[:, ::1] table) noexcept nogil
    cdef Py_ssize_t _fill(self, const double[:, ::1] scores,
                          const double[:, :, ::1] tables, bint forbids) noexcept nogil
    cdef bint _fill_edge(self, Py_ssize_t edge, const double* table) noexcept nogil
    cdef double _difference(self, double one, double zero) noexcept nogil
    cdef void _soften(self, double* table, Py_ssize_t first,
                      Py_ssize_t second) noexcept nogil
    cdef void _absorb(self, double* table, int entry, int partner, int other,
                      Py_ssize_t variable, double capacity) noexcept nogil
    cdef void _keep(self) noexcept nogil
    cdef void _read_labels(self, int32_t[::1] labels) noexcept nogil
    cdef double _score(self, const int32_t[::1] labels, const double[:, ::1] unary,
                       const double[:, :, ::1] pairwise) noexcept nogil
