cdef class Weights:
    # A flat vector w and what solvers keep beside it; `_weights.pyx` states each.
    cdef readonly Py_ssize_t size
    cdef readonly object w, v, u, lower, upper
    cdef readonly double threshold
    # the squared norm of w where it is not v and there is no box, as it changes
    cdef double squares
    cdef object _flags
    # their addresses
    cdef double* _w
    cdef double* _v
    # NULL while no average is collected
    cdef double* _u
    # NULL without a box
    cdef const double* _lower
    cdef const double* _upper
    # 0 for weights that stay zero; NULL where all exist, or with a box
    cdef const unsigned char* _kept
    # whether w is another vector than v
    cdef bint _truncates
    # whether models must call `touch`, for one reason or another
    cdef bint _asks
    # 1 for rows of `_width` weights that changed; NULL where nobody wants to know
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
    # the array behind `_last`, and what must stay alive while steps are taken
    cdef object _up_to, _owned
    cdef const double* _direction
    # the total that each row is up to date with
    cdef double* _last
    # NULL where all weights exist
    cdef const unsigned char* _exists

    cdef void catch_up(self, Py_ssize_t row) noexcept nogil
