from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
# subclasses read features of their own blocks
from sksstruct.models.tables._blocks cimport (
    Block, FeatureRow, WeightBlocks, feature_row,
)
from sksstruct.models.tables._structure cimport OracleMemory, Potentials, Structure


cdef struct TableScratch:
    Potentials at
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
    # memory for the keys of a labeling
    int32_t* keys


cdef class TableWorkspace(Workspace):
    cdef readonly object theta
    cdef TableScratch _scratch
    cdef OracleMemory own

    cdef int _prepare_changes(self, BoundTable model) except -1


cdef class BoundTable(BoundModel):
    # `_table.pyx` states attributes and methods
    cdef readonly Structure structure
    cdef readonly Py_ssize_t table_size, n_other
    cdef readonly list features, has_bias
    cdef Py_ssize_t n_rows
    cdef WeightBlocks _layout
    # of the layout: the blocks, and of each row of weights the first and their number
    cdef Block* _blocks
    cdef const Py_ssize_t* _row_start
    cdef const Py_ssize_t* _row_length
    cdef object _names

    # what losses use
    cdef Py_ssize_t _best_of_loaded(
        self, Workspace workspace, Py_ssize_t i, Py_ssize_t k,
        const int32_t** labelings, const double** values) except -1 nogil
    # what subclasses use
    cdef void touch_row(self, TableScratch* ws, Py_ssize_t row) noexcept nogil

    cdef double _key_score(self, Py_ssize_t i, Py_ssize_t key, Py_ssize_t end,
                           const double* table, const double* others) noexcept nogil
    cdef double _total(self, Py_ssize_t i, Py_ssize_t n_keys, const int32_t* keys,
                       const double* table, const double* others) noexcept nogil
    cdef int _form(self, TableScratch* ws, Py_ssize_t i) except -1 nogil
    cdef void _form_row(self, TableScratch* ws, Py_ssize_t i,
                        Py_ssize_t key) noexcept nogil
    cdef int _form_other(self, TableScratch* ws, Py_ssize_t i, Py_ssize_t key,
                         double change) except -1 nogil
    cdef void _clear_formed(self, TableScratch* ws) noexcept nogil
