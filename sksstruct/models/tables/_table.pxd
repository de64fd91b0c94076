from libc.stdint cimport int32_t, int64_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace


cdef struct Block:
    Py_ssize_t n_features, n_columns, ld
    Py_ssize_t first_weight, first_row   # of the flat weights; of all rows of weights
    bint has_bias
    const double* values
    const int32_t* indices               # NULL for dense rows
    const int64_t* indptr
    const Py_ssize_t* offsets            # rows of example i: offsets[i]:offsets[i + 1]


cdef struct FeatureRow:
    # One row of features: index is NULL where it is dense.
    Py_ssize_t count
    const int32_t* index
    const double* values


cdef inline FeatureRow feature_row(Block* block, Py_ssize_t row) noexcept nogil:
    """A row of the features of a block."""
    cdef FeatureRow out
    cdef Py_ssize_t first = row * block.n_features
    out.count, out.index = block.n_features, NULL
    if block.indices != NULL:
        first = block.indptr[row]
        out.count = block.indptr[row + 1] - first
        out.index = block.indices + first
    out.values = block.values + first
    return out


cdef struct TableScratch:
    double* theta       # table of scores, the loss added
    double constant
    double* d           # change of mean parameters
    int32_t* touched    # its keys
    char* marked
    Py_ssize_t n_touched
    double* g           # A_i^T d, and the rows of it that are not zero
    int32_t* rows
    char* row_marked
    Py_ssize_t n_rows
    bint formed         # whether g stands for d, which is zero then
    double* products    # table of inner products with one labeling
    double* beliefs     # memory for messages
    int32_t* keys


cdef class TableWorkspace(Workspace):
    cdef object _arrays
    cdef readonly object theta
    cdef TableScratch _scratch


cdef class BoundTable(BoundModel):
    cdef readonly Py_ssize_t table_size   # of the largest example
    cdef readonly Py_ssize_t belief_size
    cdef Py_ssize_t n_blocks, n_rows
    cdef Block* _blocks
    cdef const double* _zeros
    cdef Py_ssize_t[::1] _row_start, _row_length   # of each row of weights
    cdef object _owned, _structure
    cdef const int32_t[::1] _y_true
    cdef bint _labeled

    cdef Py_ssize_t table_start(self, Py_ssize_t b, Py_ssize_t i) noexcept nogil
    cdef void fill(self, Py_ssize_t i, const double* weights,
                   double* table) noexcept nogil
    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil
    cdef double other_score(self, Py_ssize_t i, Py_ssize_t key,
                            const double* weights) noexcept nogil
    cdef int add_other(self, TableScratch* ws, Py_ssize_t i, Py_ssize_t key,
                       double change) except -1 nogil
    cdef double total(self, Py_ssize_t i, Py_ssize_t n, const int32_t* keys,
                      const double* table, const double* weights) noexcept nogil
    cdef void add_key(self, TableScratch* ws, int32_t key, double change) noexcept nogil
    cdef void touch_row(self, TableScratch* ws, Py_ssize_t row) noexcept nogil
    cdef int form(self, TableScratch* ws, Py_ssize_t i) except -1 nogil
    cdef void form_row(self, TableScratch* ws, Py_ssize_t i,
                       Py_ssize_t key) noexcept nogil
    cdef void clear_formed(self, TableScratch* ws) noexcept nogil
