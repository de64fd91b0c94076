cimport cython
from libc.stdint cimport int32_t, int64_t


cdef struct RowEntries:
    # The stored entries of a row of features: their number, the index of the first
    # value among all values, and the feature of each entry. `index` is NULL if entry k
    # is feature k, as in dense rows.
    Py_ssize_t count, first
    const int32_t* index


cdef inline Py_ssize_t feature_at(const int32_t* index,
                                  Py_ssize_t entry) noexcept nogil:
    """Return the feature of an entry of a row."""
    return index[entry] if index else entry


# Dense columns beside sparse ones are stored in a second object, `beside`; products are
# sums over both. A final class has no virtual calls.
@cython.final
cdef class FeatureRows:
    cdef readonly Py_ssize_t n_features
    # In this order: whether rows are CSR, whether values are float32, whether all
    # values are one, so that none is read, and whether dense columns are beside sparse
    # ones.
    cdef bint sparse, single, unit, mixed
    # factor of all values, in every product
    cdef double scale
    # the stored values of all rows, in `values32` if the features are float32, else in
    # `values64`
    cdef const float* values32
    cdef const double* values64
    # feature of each stored entry of CSR rows; NULL for dense rows
    cdef const int32_t* indices
    # row pointers, 64-bit or 32-bit as given; the other address is NULL
    cdef const int64_t* indptr
    cdef const int32_t* indptr32
    # rows of the dense columns beside sparse ones, or None
    cdef FeatureRows beside
    # the feature of each column if this object is the `beside` of another one, else
    # NULL
    cdef const int32_t* columns
    # arrays that the pointers point into
    cdef readonly object owned

    # values of a row; NULL if all are one
    cdef const float* floats(self, RowEntries row) noexcept nogil
    cdef const double* doubles(self, RowEntries row) noexcept nogil
    cdef Py_ssize_t begin(self, Py_ssize_t position) noexcept nogil
    # `row` returns the entries of a row without the columns of `beside`; `shared`
    # returns these columns, which all rows have
    cdef RowEntries row(self, Py_ssize_t position) noexcept nogil
    cdef RowEntries shared(self) noexcept nogil
    cdef Py_ssize_t count(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef Py_ssize_t n_bytes(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef void prefetch_pointers(self, Py_ssize_t position) noexcept nogil
    cdef void prefetch(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    # ---- products with the weights of all labels, or of some labels ----
    cdef void scores(self, Py_ssize_t position, const double* weights, Py_ssize_t ld,
                     const double* init, double* out) noexcept nogil
    cdef void scores_of_rows(self, Py_ssize_t first, Py_ssize_t count,
                             const double* weights, Py_ssize_t ld, Py_ssize_t size,
                             const double* init, double* out) noexcept nogil
    cdef void scores_of_part(self, Py_ssize_t position, const double* weights,
                             Py_ssize_t ld, Py_ssize_t size, const double* init,
                             double* out) noexcept nogil
    cdef void single_scores(self, Py_ssize_t position, const float* weights,
                            Py_ssize_t ld, const float* init,
                            float* out) noexcept nogil
    cdef void scatter(self, Py_ssize_t position, double step, const double* change,
                      Py_ssize_t ld, double* weights) noexcept nogil
    cdef void scatter_rows(self, Py_ssize_t first, Py_ssize_t count,
                           const int32_t* rows, double step, const double* change,
                           Py_ssize_t ld, double* weights) noexcept nogil
    # ---- products with the weights of one label ----
    cdef double column_score(self, Py_ssize_t position, const double* weights,
                             Py_ssize_t step) noexcept nogil
    cdef void add_to_column(self, Py_ssize_t position, double change, double* weights,
                            Py_ssize_t step) noexcept nogil
    # ---- products of two rows ----
    cdef void spread(self, Py_ssize_t position, double* out) noexcept nogil
    cdef void unspread(self, Py_ssize_t position, double* out) noexcept nogil
    cdef double spread_dot(self, Py_ssize_t position,
                           const double* spread) noexcept nogil
