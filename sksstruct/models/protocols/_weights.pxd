cdef class Weights:
    # Flat weights w, the weights v before truncation, and the average u; see
    # `_weights.pyx`.
    cdef readonly Py_ssize_t size
    cdef readonly object w, v, u, lower, upper
    cdef readonly double threshold
    # |w|^2, updated by `truncate`, if w and v are separate arrays and there is no box
    cdef double squares
    cdef object _flags
    # addresses of w and v
    cdef double* _w
    cdef double* _v
    # address of u; NULL while no average is collected
    cdef double* _u
    # lower and upper bound of each weight; NULL without a box
    cdef const double* _lower
    cdef const double* _upper
    # for each weight, 0 if the weight stays zero, else 1; NULL if all weights exist, or
    # with a box
    cdef const unsigned char* _kept
    # whether w differs from v
    cdef bint _truncates
    # whether models must call `touch`: w is truncated, or rows are marked
    cdef bint _asks
    # for each row of `_width` weights, 1 if the row changed; NULL before `mark_rows`
    cdef readonly object marks
    cdef unsigned char* _marks
    cdef size_t _width

    cdef void touch(self, Py_ssize_t first, Py_ssize_t count) noexcept nogil
    cdef void truncate(self, Py_ssize_t first, Py_ssize_t count) noexcept nogil


cdef class LazyWeights(Weights):
    # w = scale (v + (total - last) direction); `last` is the value of `total` at the
    # last update of the weight's row.
    cdef public double scale, total
    cdef Py_ssize_t _row_size, _n_rows
    cdef readonly object direction
    # the arrays that hold the memory of `_last` and of `_exists`
    cdef object _up_to, _owned
    cdef const double* _direction
    # for each row, the value of `total` at the last update of the row
    cdef double* _last
    # for each weight, 0 if the weight stays zero, else 1; NULL if all weights exist
    cdef const unsigned char* _exists

    cdef void catch_up(self, Py_ssize_t row) noexcept nogil
