from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
# subclasses read features of their own blocks
from sksstruct.models.tables._blocks cimport (
    Block, FeatureRow, WeightBlocks, feature_row,
)


cdef struct TableScratch:
    # theta with the loss added, but for a constant part of it
    double* theta
    double constant
    # d, and the keys for which it may not be zero: each is listed once
    double* d
    int32_t* changed_keys
    char* key_changed
    Py_ssize_t n_changed_keys
    # g = A_i^T d, and the rows of weights in which it may not be zero
    double* g
    int32_t* changed_rows
    char* row_changed
    Py_ssize_t n_changed_rows
    # whether g has taken over d
    bint formed
    # inner products of the entries of the tables with g
    double* products
    # memory for messages, and for the keys of a labeling
    double* beliefs
    int32_t* keys


cdef class TableWorkspace(Workspace):
    cdef object _arrays
    cdef readonly object theta
    # memory of the top-K oracle, which makes it at its first call
    cdef object search
    cdef TableScratch _scratch

    cdef int _prepare_changes(self, BoundTable model) except -1


cdef class BoundTable(BoundModel):
    # `_table.pyx` states what subclasses override
    cdef readonly Py_ssize_t table_size, belief_size, n_other
    cdef readonly list features
    cdef Py_ssize_t n_rows
    cdef WeightBlocks _layout
    # of the layout: the blocks, and of each row of weights the first and their number
    cdef Block* _blocks
    cdef const Py_ssize_t* _row_start
    cdef const Py_ssize_t* _row_length
    cdef object _structure
    cdef const int32_t[::1] _y_true
    cdef bint _labeled

    # what subclasses override
    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil
    cdef Py_ssize_t other_keys(self, Py_ssize_t i) noexcept nogil
    cdef double other_score(self, Py_ssize_t i, Py_ssize_t key,
                            const double* weights) noexcept nogil
    cdef int add_other(self, TableScratch* ws, Py_ssize_t i, Py_ssize_t key,
                       double change) except -1 nogil
    cdef int add_means(self, TableScratch* ws, Py_ssize_t i,
                       const double* change) except -1 nogil
    # what they use
    cdef void touch_row(self, TableScratch* ws, Py_ssize_t row) noexcept nogil

    cdef double _key_score(self, Py_ssize_t i, Py_ssize_t key, Py_ssize_t end,
                           const double* table, const double* weights) noexcept nogil
    cdef double _total(self, Py_ssize_t i, Py_ssize_t n_keys, const int32_t* keys,
                       const double* table, const double* weights) noexcept nogil
    cdef int _form(self, TableScratch* ws, Py_ssize_t i) except -1 nogil
    cdef void _form_row(self, TableScratch* ws, Py_ssize_t i,
                        Py_ssize_t key) noexcept nogil
    cdef void _clear_formed(self, TableScratch* ws) noexcept nogil
