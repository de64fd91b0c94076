from libc.stdint cimport int32_t

from sksstruct.inference.search._best_first cimport BestFirst


cdef class AssignmentSearch(BestFirst):
    # Sizes of the problem. The states of a row are the columns and, if `alone`, a last
    # state, which means that the row has no column.
    cdef Py_ssize_t n_rows, n_columns, n_states
    cdef bint alone
    # (n_rows, n_states): score of each state of each row, written by the caller
    cdef double* scores
    # n_rows times the largest absolute score: scale of rounding errors
    cdef double _size
    # For each part: dual prices of rows and of columns, and for each row a lower bound
    # on the loss of score if the row changes its state; whether the part allows each
    # state of each row, and whether each row is fixed.
    cdef double* _prices
    cdef unsigned char* _flags
    # For the current part: row of each column, -1 if free or -2 if its row is fixed;
    # length of the shortest path to each node, up to `_limit`; predecessor of each node
    # on its shortest path; and list of the reached nodes.
    cdef int32_t* _owner
    cdef double* _length
    cdef int32_t* _before
    cdef int32_t* _reached
    cdef Py_ssize_t _n_reached
    cdef double _limit
    # scores for `assign`, with an extra column for each row if rows may have no column
    cdef double* _extended
    cdef Py_ssize_t* _columns
    cdef Py_ssize_t _score_capacity, _price_capacity, _flag_capacity, _node_capacity
    cdef Py_ssize_t _before_capacity, _reached_capacity, _owner_capacity
    cdef Py_ssize_t _extended_capacity, _column_capacity

    cdef int prepare(self, Py_ssize_t n_rows, Py_ssize_t n_columns,
                     bint alone) except -1 nogil
    cdef double* _row_prices(self, Py_ssize_t part) noexcept nogil
    cdef double* _bounds(self, Py_ssize_t part) noexcept nogil
    cdef unsigned char* _allowed(self, Py_ssize_t part) noexcept nogil
    cdef void _swap_all(self, Py_ssize_t part, Py_ssize_t count,
                        double* least) noexcept nogil
    cdef void _load_part(self, Py_ssize_t part) noexcept nogil
    cdef inline void _relax(self, Py_ssize_t node, double length,
                            Py_ssize_t before) noexcept nogil
    cdef void _leave_row(self, Py_ssize_t part, Py_ssize_t row,
                         double reached) noexcept nogil
    cdef void _leave_free(self, Py_ssize_t part, double reached) noexcept nogil
    cdef double _shortest_cycle(self, Py_ssize_t part, Py_ssize_t start,
                                double limit) noexcept nogil
    cdef Py_ssize_t _change(self, Py_ssize_t start, int32_t* labeling) noexcept nogil
    cdef void _reprice(self, Py_ssize_t part, Py_ssize_t other, Py_ssize_t start,
                       double length) noexcept nogil
