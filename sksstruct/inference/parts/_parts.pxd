from libc.stdint cimport int32_t

from sksstruct.inference.trees._tree cimport Tree


cdef struct Deformation:
    # Parameters of the score linear d - quadratic d^2 of a message, where d is the
    # receiver's row or column minus the sender's minus the offset.
    double quadratic
    double linear
    double offset


cdef class PartsTree(Tree):
    cdef readonly Py_ssize_t height, width
    # scores of parts at positions; offsets, quadratic and linear scores of edges
    cdef readonly object unary, springs
    cdef Py_ssize_t _cells
    cdef object _owned
    # (n_edges, n_types, 2): for each edge and type, a number for rows and for columns
    cdef const double* _offsets
    cdef const double* _quadratic
    cdef const double* _linear
    # number of types of an edge; 0 if edges have no types, and then the three arrays
    # above have one type
    cdef readonly Py_ssize_t n_types
    cdef const double* _bias
    # (n_edges, n_types, 2, height, width): score of a type at the position of either
    # end of an edge; NULL if there are no such scores
    cdef const double* _end_scores
    # scratch of `_deform`: scores to send, message of a type, and maximum over types
    cdef double* _grids
    # scratch of `_transform`: a grid between the two transforms, a column of the grid
    # and its transform, and the hull
    cdef double* _between
    cdef double* _column
    cdef double* _sent
    cdef double* _hull_start
    cdef int32_t* _argument
    cdef int32_t* _hull_sender

    cdef Deformation _deformation(self, Py_ssize_t child, Py_ssize_t t, bint up,
                                  Py_ssize_t axis) noexcept nogil
    cdef const double* _ends_of(self, Py_ssize_t edge, Py_ssize_t t,
                                Py_ssize_t end) noexcept nogil
    cdef void _deform(self, Py_ssize_t child, bint up, const double* values,
                      double* out, int32_t* where) noexcept nogil
    cdef void _transform(self, Py_ssize_t child, Py_ssize_t t, bint up,
                         const double* values, double* out,
                         int32_t* where) noexcept nogil
    cdef double _place(self, const double* belief, const int32_t* where,
                       Py_ssize_t size, int32_t* found, int32_t* types) noexcept nogil
    cdef void _send_up(self, double* up, double* message,
                       double* best) noexcept nogil
    cdef void _add_other_trees(self, Py_ssize_t root, const double* best,
                               double* belief) noexcept nogil
    cdef void _send_down(self, Py_ssize_t parent, const double* message,
                         double* belief, double* sums) noexcept nogil
