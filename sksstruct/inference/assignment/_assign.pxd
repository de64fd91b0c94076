from sksstruct.inference.search._bmmf cimport BestFirst


cdef Py_ssize_t assignment_memory(Py_ssize_t n_columns) noexcept nogil

cdef bint assign(Py_ssize_t n_rows, Py_ssize_t n_columns, const double* scores,
                 double* memory, Py_ssize_t* columns) noexcept nogil

cdef class AssignmentSearch(BestFirst):
    # The problem: with `alone`, the last state of a row is that it has no column.
    cdef Py_ssize_t n_rows, n_columns
    cdef bint alone
    # memory for scores with a column of its own for each row that stays without one,
    # for the columns of rows, for `assign` and for longest paths
    cdef Py_ssize_t _width
    cdef object _arrays
    cdef double* _extended
    cdef double* _memory
    cdef double* _paths
    cdef Py_ssize_t* _columns
    cdef unsigned char* _taken

    cdef bint _solve(self, const double* scores) noexcept nogil
    cdef double _total(self) noexcept nogil
