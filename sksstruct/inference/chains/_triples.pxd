cimport cython
from libc.stdint cimport int32_t


# final: its methods are called for every position
@cython.final
cdef class LabelTriples:
    # `_triples.pyx` states each
    cdef readonly Py_ssize_t n_weights, n_labels, ld, n_rows
    cdef object _owned
    cdef const int32_t* row         # (n_labels, n_labels) of a pair (a, b), or -1
    cdef const int32_t* start       # (n_rows,) where the weights of a row begin
    cdef const int32_t* stop        # (n_rows,) and end
    cdef const int32_t* third       # (n_weights,) label c
    cdef const int32_t* place       # (n_weights,) row * ld + c
    cdef const int32_t* turned      # (n_weights,) c * ld + b
    # of each b: its first row, and all labels a, those of its rows before the others
    cdef const int32_t* first_row   # (n_labels + 1,)
    cdef const int32_t* before      # (n_labels, n_labels)

    cdef Py_ssize_t find(self, const int32_t* y) noexcept nogil
    cdef double score(self, Py_ssize_t size, const int32_t* y,
                      const double* weights) noexcept nogil
    cdef Py_ssize_t gather(self, Py_ssize_t b, const double* pairs, bint summed,
                           double* values) noexcept nogil
