cimport cython
from libc.stdint cimport int32_t


# final: its methods are called directly, which the short ones notice
@cython.final
cdef class SparseTransitions:
    cdef readonly Py_ssize_t n_states
    cdef public object csr
    # columns: scores of a label's predecessors, descending; rows: labels, ascending
    cdef const Py_ssize_t[::1] _first, _row_first
    cdef const int32_t[::1] _from, _to
    cdef const double[::1] _score, _row_score

    cdef double score(self, Py_ssize_t before, Py_ssize_t label,
                      bint* stored) noexcept nogil
    cdef double decode(self, Py_ssize_t size, Py_ssize_t ld, double* delta,
                       double* best, int32_t* order, int32_t* labeling) noexcept nogil
    cdef bint _is_stored(self, Py_ssize_t before, Py_ssize_t label) noexcept nogil
    cdef void _step(self, const double* previous, double* best,
                    int32_t* order) noexcept nogil
    cdef void _set_unstored(self, const double* previous, double* best,
                            int32_t* order) noexcept nogil
    cdef int32_t _way_in(self, const double* previous, Py_ssize_t label,
                         double best) noexcept nogil
