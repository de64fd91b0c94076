cimport cython
from libc.stdint cimport int32_t


# final: the methods are called at every position, and without a virtual table
@cython.final
cdef class LabelTriples:
    # layout: see `_triples.pyx`
    cdef readonly Py_ssize_t n_weights, n_labels, ld, n_rows
    cdef object _owned
    cdef const int32_t* row         # (n_labels, n_labels) row of a pair (a, b), or -1
    cdef const int32_t* start       # (n_rows,) index of the first weight of a row
    cdef const int32_t* stop        # (n_rows,) end of the weights of a row
    # for the weight of each triple (a, b, c): label c; the index row * ld + c of the
    # weight in the rows; and the index c * ld + b in a transposed table of pairs (b, c)
    cdef const int32_t* third       # (n_weights,)
    cdef const int32_t* place       # (n_weights,)
    cdef const int32_t* turned      # (n_weights,)
    # for each label b: its first row; and all labels a, beginning with those whose pair
    # (a, b) has a row of its own
    cdef const int32_t* first_row   # (n_labels + 1,)
    cdef const int32_t* before      # (n_labels, n_labels)

    cdef Py_ssize_t find(self, const int32_t* y) noexcept nogil
    cdef double score(self, Py_ssize_t size, const int32_t* y,
                      const double* weights) noexcept nogil
    cdef Py_ssize_t gather(self, Py_ssize_t b, const double* pairs, bint summed,
                           double* values) noexcept nogil
