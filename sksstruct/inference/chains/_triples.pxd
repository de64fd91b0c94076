cimport cython
from libc.stdint cimport int32_t


# final: its methods are called for every position
@cython.final
cdef class LabelTriples:
    # `_triples.pyx` states each
    cdef readonly Py_ssize_t n_weights, n_labels, ld, n_rows, n_cells
    cdef object _owned
    cdef const int32_t* row         # (n_labels, n_labels) of a pair (a, b), or -1
    cdef const int32_t* start       # (n_rows + 1,) where the weights of a row begin
    cdef const int32_t* third       # (n_weights,) label c
    cdef const int32_t* turned      # (n_weights,) c * ld + b
    cdef const int32_t* place       # (n_weights,) row * ld + c
    # pairs (b, c) by b: where those of each b begin, and their c; and the place of each
    # weight, cell * ld + a
    cdef const int32_t* first_cell  # (n_labels + 1,)
    cdef const int32_t* cell_third  # (n_cells,)
    cdef const int32_t* cell_place  # (n_weights,)
    # (n_labels, ld), c * ld + b: the least that the best triple adds, which is -inf
    # where every (a, b, c) has a weight
    cdef const double* floor

    cdef Py_ssize_t find_in(self, Py_ssize_t row, Py_ssize_t c) noexcept nogil
    cdef Py_ssize_t find(self, const int32_t* y) noexcept nogil
    cdef double score(self, Py_ssize_t size, const int32_t* y,
                      const double* weights) noexcept nogil
