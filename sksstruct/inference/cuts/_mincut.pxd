from libc.stdint cimport int32_t

from sksstruct.inference.cuts._maxflow cimport FlowTrees


cdef class CutKernel(FlowTrees):
    # finite cost that replaces -inf: larger than any difference of scores of labelings
    cdef double _big
    # scores of the last problem; the table of an edge is at _pairwise + edge * _step
    cdef object _scores
    cdef const double* _unary
    cdef const double* _pairwise
    cdef Py_ssize_t _step

    cdef void _save(self, double* kept) noexcept nogil
    cdef void _restore(self, const double* kept) noexcept nogil
    cdef Py_ssize_t _fill_all(self, bint forbids) noexcept nogil
    cdef bint _fill_edge(self, Py_ssize_t edge, const double* table) noexcept nogil
    cdef double _difference(self, double one, double zero) noexcept nogil
    cdef void _soften(self, double* table, Py_ssize_t first,
                      Py_ssize_t second) noexcept nogil
    cdef void _absorb(self, double* table, int entry, int partner, int other,
                      Py_ssize_t variable, double capacity) noexcept nogil
    cdef void _store_flow(self) noexcept nogil
    cdef void _read_labels(self, int32_t* labels) noexcept nogil
    cdef double _score(self, const int32_t* labels) noexcept nogil
