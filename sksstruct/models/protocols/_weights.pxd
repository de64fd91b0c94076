cdef class Weights:
    # A flat vector w, and vectors that solvers keep beside it; see `_weights.pyx`.
    cdef readonly Py_ssize_t size
    cdef readonly object w, v, u, lower, upper
    cdef readonly double threshold
    # |w|^2 if w is not v and there is no box, updated by `truncate`
    cdef double squares
    cdef object _flags
    # addresses of w and v
    cdef double* _w
    cdef double* _v
    # NULL while no average is collected
    cdef double* _u
    # NULL without a box
    cdef const double* _lower
    cdef const double* _upper
    # 0 for weights that stay zero; NULL if all weights exist, or with a box
    cdef const unsigned char* _kept
    # whether w differs from v
    cdef bint _truncates
    # whether models must call `touch`: w is truncated, or rows are marked
    cdef bint _asks
    # 1 for rows of `_width` weights that changed; NULL before `mark_rows`
    cdef readonly object marks
    cdef unsigned char* _marks
    cdef size_t _width

    cdef void touch(self, Py_ssize_t first, Py_ssize_t count) noexcept nogil
    cdef void truncate(self, Py_ssize_t first, Py_ssize_t count) noexcept nogil


cdef class LazyWeights(Weights):
    # w = scale (v + (total - last) direction), row by row.
    cdef public double scale, total
    cdef Py_ssize_t _row_size, _n_rows
    cdef readonly object direction
    # the array of `_last`, and the array of `_exists`
    cdef object _up_to, _owned
    cdef const double* _direction
    # value of `total` at the last update of each row
    cdef double* _last
    # NULL if all weights exist
    cdef const unsigned char* _exists

    cdef void catch_up(self, Py_ssize_t row) noexcept nogil
