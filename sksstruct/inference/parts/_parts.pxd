from libc.stdint cimport int32_t

from sksstruct.inference.trees._tree cimport Tree


cdef struct Deformation:
    # scores linear d - quadratic d^2 of d = receiver - sender - offset
    double quadratic
    double linear
    double offset


cdef class PartsTree(Tree):
    cdef readonly Py_ssize_t height, width
    cdef Py_ssize_t _cells
    cdef const double[:, :, ::1] _unary
    # of each edge and type, a number for rows and one for columns
    cdef const double[:, :, ::1] _offsets, _quadratic, _linear
    # 0: edges have no types, which counts as one above
    cdef readonly Py_ssize_t n_types
    cdef bint _has_ends
    cdef const double[:, ::1] _bias
    # each grid as a row
    cdef const double[:, :, :, ::1] _end_scores
    # scratch of `_deform`: what is sent, the message of a type, and the best of all
    cdef double[:, ::1] _grids
    # scratch of `_transform`: a grid between the two transforms, a column of it and
    # what that becomes, and the hull
    cdef double[:, ::1] _between
    cdef double[::1] _column, _sent, _hull_start
    cdef int32_t[::1] _argument, _hull_sender

    cdef Deformation _deformation(self, Py_ssize_t child, Py_ssize_t t, bint up,
                                  Py_ssize_t axis) noexcept nogil
    cdef void _deform(self, Py_ssize_t child, bint up, const double* values,
                      double* out, int32_t* where) noexcept nogil
    cdef void _transform(self, Py_ssize_t child, Py_ssize_t t, bint up,
                         const double* values, double* out,
                         int32_t* where) noexcept nogil
    cdef double _place(self, const double[:, ::1] belief, const int32_t[:, ::1] where,
                       int32_t[:, ::1] found, int32_t[::1] types) noexcept nogil
    cdef void _send_up(self, double[:, ::1] up, double[:, ::1] message,
                       double[::1] best) noexcept nogil
    cdef void _add_other_trees(self, Py_ssize_t root, const double[::1] best,
                               double[:, ::1] belief) noexcept nogil
    cdef void _send_down(self, Py_ssize_t parent, const double[:, ::1] message,
                         double[:, ::1] belief, double[:, ::1] sums) noexcept nogil
