cdef class Weights:
    # A flat vector w and what solvers keep beside it; `_weights.pyx` states each.
    cdef readonly Py_ssize_t size
    cdef readonly object w, v, u, lower, upper
    cdef double* _w
    cdef double* _v
    cdef double* _u                # NULL while no average is collected
    cdef const double* _lower      # NULL without a box
    cdef const double* _upper

    cdef void truncate(self, Py_ssize_t first, Py_ssize_t count) noexcept nogil


cdef class LazyWeights(Weights):
    # w = scale (v + (total - last) direction), row by row.
    cdef public double scale, total
    cdef Py_ssize_t _row_size, _n_rows
    cdef object _owned, _up_to
    cdef const double* _direction
    cdef double* _last             # the total that each row is up to date with
    cdef const unsigned char* _exists   # NULL where all weights exist

    cdef void catch_up(self, Py_ssize_t row) noexcept nogil
