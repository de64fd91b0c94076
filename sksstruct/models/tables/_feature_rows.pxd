cimport cython
from libc.stdint cimport int32_t, int64_t


cdef struct RowEntries:
    # where the entries of a row are: `first` is the place of its first value, index is
    # NULL where the row is dense
    Py_ssize_t count, first
    const int32_t* index


cdef inline Py_ssize_t feature_at(const int32_t* index,
                                  Py_ssize_t entry) noexcept nogil:
    """Return the feature of an entry of a row."""
    return index[entry] if index else entry


# What has dense columns beside sparse ones is two objects: methods do the same to
# `beside`. final: methods call `row`, which is short, for every position
@cython.final
cdef class FeatureRows:
    cdef readonly Py_ssize_t n_features
    # forms of what is stored; unit: all values are one, and none has to be read
    cdef bint sparse, single, unit, mixed
    # what all values are multiplied by, in every product
    cdef double scale
    # one of the two, as the features are given
    cdef const float* values32
    cdef const double* values64
    # NULL where they are dense
    cdef const int32_t* indices
    # one of the two, as they are given
    cdef const int64_t* indptr
    cdef const int32_t* indptr32
    # the dense columns of rows that have both, or None; their numbers, else NULL
    cdef FeatureRows beside
    cdef const int32_t* columns
    # the arrays, which stay alive
    cdef readonly object owned

    # the values of a row; NULL where all are one
    cdef const float* floats(self, RowEntries row) noexcept nogil
    cdef const double* doubles(self, RowEntries row) noexcept nogil
    cdef Py_ssize_t begin(self, Py_ssize_t position) noexcept nogil
    # the entries of a row, without those of dense columns beside sparse ones, and the
    # columns of these, which all rows have
    cdef RowEntries row(self, Py_ssize_t position) noexcept nogil
    cdef RowEntries shared(self) noexcept nogil
    cdef Py_ssize_t count(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef Py_ssize_t n_bytes(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef void prefetch_pointers(self, Py_ssize_t position) noexcept nogil
    cdef void prefetch(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    # against the weights of all labels, or of a part of them
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
    # against the weights of one label
    cdef double column_score(self, Py_ssize_t position, const double* weights,
                             Py_ssize_t step) noexcept nogil
    cdef void add_to_column(self, Py_ssize_t position, double change, double* weights,
                            Py_ssize_t step) noexcept nogil
    # against each other
    cdef void spread(self, Py_ssize_t position, double* out) noexcept nogil
    cdef void unspread(self, Py_ssize_t position, double* out) noexcept nogil
    cdef double spread_dot(self, Py_ssize_t position,
                           const double* spread) noexcept nogil
