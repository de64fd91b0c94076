cimport cython
from libc.stdint cimport int32_t, int64_t

from sksstruct.inference.chains._pair_index cimport PairIndex
from sksstruct.utils._heap cimport Heap

cdef enum:
    ROWS = 0
    COLUMNS = 1
    ALL = 2


cdef struct Side:
    # The n labels of the rows (or columns, see `kind`) that have messages, and the
    # message to each of these labels.
    int kind
    Py_ssize_t n
    const int32_t* labels
    const double* messages


cdef struct Query:
    # The messages to row labels and to column labels in one search.
    Side rows, columns
    # largest message to any column: at least 0, since columns that are not among
    # `columns` have the message 0
    double largest_column


cdef struct Best:
    # Best entry so far. `value` starts at the lower bound that the caller gives;
    # `found` is set once an entry exceeds this bound.
    double value
    int32_t row, column
    bint found


cdef struct Walk:
    # Traversal of the entries of a heap in descending order.
    Heap* heap
    int kind
    Heap frontier           # unvisited entries whose parents in `heap` were visited


# final: short methods are called directly, without a virtual table
@cython.final
cdef class IndicatorTable:
    cdef readonly Py_ssize_t n_rows, n_columns, n_stored
    cdef public int64_t visited          # number of entries that searches have read
    cdef double* _value
    cdef const int32_t* _ends  # row and column of each entry, in memory of `_pairs`
    # index of each entry in its three heaps: of its row, its column and the table
    cdef int32_t* _place
    cdef PairIndex _pairs                # hash table from (row, column) to entry
    cdef Py_ssize_t _capacity
    cdef Heap* _heaps  # heaps of entries: one per row, one per column, one of the table
    cdef int32_t* _frontier  # items of `Walk.frontier`; only one walk runs at a time
    # (n_columns,) message to each column, or 0; in `scan`, plus the scores of one row
    cdef double* _sums

    cdef Py_ssize_t find(self, Py_ssize_t row, Py_ssize_t column) noexcept nogil
    cdef Py_ssize_t insert(self, Py_ssize_t row, Py_ssize_t column) except -1 nogil
    cdef int change(self, Py_ssize_t entry, double amount) except -1 nogil
    cdef int best(
        self, Py_ssize_t n, const int32_t* rows, const double* row_messages,
        Py_ssize_t m, const int32_t* columns, const double* column_messages,
        double floor, int32_t* row, int32_t* column, double* value) except -1 nogil
    cdef int scan(
        self, Py_ssize_t n, const int32_t* rows, const double* row_messages,
        Py_ssize_t m, const int32_t* columns, const double* column_messages,
        double floor, int32_t* row, int32_t* column, double* value) except -1 nogil

    cdef void _push(self, int kind, Py_ssize_t index, int32_t entry) noexcept nogil
    cdef void _restore(self, int kind, Py_ssize_t index,
                       Py_ssize_t entry) noexcept nogil
    cdef int _reserve_entry(self) except -1 nogil
    cdef int _reserve_heap(self, int kind, Py_ssize_t index) except -1 nogil

    cdef Walk _walk(self, int kind, Py_ssize_t index) noexcept nogil
    cdef Py_ssize_t _next(self, Walk* walk, double floor) noexcept nogil
    cdef Py_ssize_t _first(self, const Query* query, int kind, Py_ssize_t index,
                           double floor) noexcept nogil
    cdef bint _zero_in(self, int kind, Py_ssize_t index, const Side* others,
                       int32_t* found) noexcept nogil
    cdef void _in_row(self, const Query* query, int32_t row, double message,
                      Best* best) noexcept nogil
    cdef void _in_column(self, const Query* query, int32_t column, double message,
                         Best* best) noexcept nogil
    cdef void _in_rest(self, const Query* query, Best* best) noexcept nogil
    cdef bint _zero_in_rest(self, const Query* query, Best* best) noexcept nogil
    cdef void _set_base(self, const Side* columns) noexcept nogil
    cdef void _scan_row(self, Py_ssize_t row, double message, Best* best) noexcept nogil
