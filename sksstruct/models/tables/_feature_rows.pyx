"""Rows of features, dense, CSR or both, in single or double precision; their products.

Weights are rows of ld labels, one for each feature. A product with all labels, or with
some of them, runs over whole vectors. `step` is the distance between the weights of
neighboring features, so that the weights of one label can be a column of any table.

Positions of all sequences are numbered consecutively, and so are rows. An entry of a
row is one of its stored numbers.
"""

import numpy as np
from scipy import sparse

cimport cython
from libc.stdint cimport int32_t, int64_t

from sksstruct.utils._simd cimport (
    sks_dense_axpy_f32,
    sks_dense_axpy_f64,
    sks_dense_dot_f32,
    sks_dense_dot_f64,
    sks_prefetch,
    sks_product_f32,
    sks_product_f64,
    sks_scatter_f32,
    sks_scatter_f64,
    sks_scatter_rows_f32,
    sks_scatter_rows_f64,
    sks_scores_f32,
    sks_scores_f64,
    sks_scores_part_f32,
    sks_scores_part_f64,
    sks_single_scores_f32,
    sks_single_scores_f64,
    sks_spread_dot_f32,
    sks_spread_dot_f64,
    sks_spread_f32,
    sks_spread_f64,
)

from sksstruct.utils._layout import StoredRows
from sksstruct.utils.packed import PackedSequences


def stored_arrays(rows, as_given=False):
    """Return the values, indices and indptr of rows of features.

    Parameters
    ----------
    rows : ndarray, CSR of shape (n_rows, n_features) or StoredRows
        Features; arrays are contiguous.
    as_given : bool, default=False
        Whether indptr may stay int32, which avoids a copy.

    Returns
    -------
    values : ndarray of float
        The values, one after the other.
    indices, indptr : ndarray or None
        For CSR, `indices` is int32 and `indptr` is int64, or int32 if it was and
        `as_given` is true. None for an array.
    """
    if not sparse.issparse(rows) and not isinstance(rows, StoredRows):
        # a spare entry, so that the address is valid without any feature
        return rows.reshape(-1) if rows.size else np.zeros(1, rows.dtype), None, None
    values, indices = rows.data, np.ascontiguousarray(rows.indices, np.int32)
    if not len(values):
        values, indices = np.zeros(1, values.dtype), np.zeros(1, dtype=np.int32)
    # scipy chooses the integer type of indptr by size, and callers without `as_given`
    # are compiled for int64 only
    pointers = np.int32 if as_given and rows.indptr.itemsize == 4 else np.int64
    return values, indices, np.ascontiguousarray(rows.indptr, pointers)


def all_ones(values, size=1 << 16):
    """Return whether all values are one.

    Reads the values in parts: if any value is not one, this usually shows in the first
    part.
    """
    return all((values[first:first + size] == 1).all()
               for first in range(0, len(values), size))


@cython.final
cdef class FeatureRows:
    """Rows of features of packed sequences, and their products.

    Parameters
    ----------
    X : PackedSequences
        Features.
    read_often : bool, default=False
        Whether to check if all values are one: kernels then do not read them.
    scale : float, default=1.0
        Factor of all values.
    columns : ndarray of int32 or None
        Numbers of the columns of dense features, if these are beside sparse ones.

    Attributes
    ----------
    n_features : int
        Number of features.
    """

    def __cinit__(self, X, bint read_often=False, double scale=1.0, columns=None):
        cdef const float[::1] values32
        cdef const double[::1] values64
        cdef const int32_t[::1] indices
        cdef const int64_t[::1] indptr
        cdef const int32_t[::1] indptr32
        stored = X.stored
        self.n_features, self.scale, self.mixed = X.n_features, scale, X.is_mixed
        if self.mixed:
            self.beside = FeatureRows(
                PackedSequences(stored.dense, X.offsets), False, scale, stored.columns)
            stored = stored.sparse
        # `True` keeps int32 row pointers: an int64 copy, with an entry for each
        # position, would take memory even if the given array is on disk
        values, index, pointer = arrays = stored_arrays(stored, True)
        self.owned = (*arrays, columns)
        self.sparse = index is not None
        if columns is not None:
            indices = columns
            self.columns = &indices[0]
        # float32 values are kept: a visit mostly waits for memory, of which they need
        # half
        self.single = values.itemsize == 4
        if self.single:
            values32 = values
            self.values32 = &values32[0]
        else:
            values64 = values
            self.values64 = &values64[0]
        if self.sparse:
            indices = index
            self.indices = &indices[0]
            # Features of texts are mostly indicators, whose values would be half of the
            # memory that a visit reads, or two thirds in double precision.
            self.unit = read_often and all_ones(values)
            if pointer.itemsize == 4:
                indptr32 = pointer
                self.indptr32 = &indptr32[0]
            else:
                indptr = pointer
                self.indptr = &indptr[0]

    cdef const float* floats(self, RowEntries row) noexcept nogil:
        """Return the values of a row in single precision; NULL if all are one."""
        return NULL if self.unit else self.values32 + row.first

    cdef const double* doubles(self, RowEntries row) noexcept nogil:
        """Return the values of a row in double precision; NULL if all are one."""
        return NULL if self.unit else self.values64 + row.first

    cdef Py_ssize_t begin(self, Py_ssize_t position) noexcept nogil:
        """Return the index of a sparse row's first entry among all entries."""
        if self.indptr32 != NULL:
            return self.indptr32[position]
        return self.indptr[position]

    cdef RowEntries row(self, Py_ssize_t position) noexcept nogil:
        """Return the stored entries of a row, without the columns of `beside`."""
        cdef RowEntries row
        if self.sparse:
            row.first = self.begin(position)
            row.count = self.begin(position + 1) - row.first
            row.index = self.indices + row.first
        else:
            row.first = position * self.n_features
            row.count = self.n_features
            row.index = self.columns
        return row

    cdef RowEntries shared(self) noexcept nogil:
        """Return the columns of `beside`, which all rows have, or no entries."""
        cdef RowEntries row
        row.first = row.count = 0
        row.index = NULL
        if self.mixed:
            row.count, row.index = self.beside.n_features, self.beside.columns
        return row

    cdef Py_ssize_t count(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        """Return the number of entries of positions first <= position < last."""
        cdef Py_ssize_t beside = 0
        if self.mixed:
            beside = self.beside.count(first, last)
        if self.sparse:
            return self.begin(last) - self.begin(first) + beside
        return (last - first) * self.n_features

    cdef Py_ssize_t n_bytes(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        """Return the bytes of the entries of positions first <= position < last."""
        cdef Py_ssize_t width = (4 if self.single else 8) + 4 * self.sparse
        cdef Py_ssize_t beside = 0, count = self.count(first, last)
        if self.mixed:
            beside = self.beside.n_bytes(first, last)
            count -= self.beside.count(first, last)
        return width * count + beside

    cdef void prefetch_pointers(self, Py_ssize_t position) noexcept nogil:
        """Prefetch the row pointers of a position and of the next ones."""
        if self.indptr32 != NULL:
            sks_prefetch(self.indptr32 + position, 64)
        elif self.sparse:
            sks_prefetch(self.indptr + position, 64)

    cdef void prefetch(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        """Prefetch the entries of positions first <= position < last."""
        cdef Py_ssize_t count = self.count(first, last)
        # rows of consecutive positions are contiguous in memory
        cdef RowEntries row = self.row(first)
        if self.mixed:
            self.beside.prefetch(first, last)
            count -= self.beside.count(first, last)
        if self.single and not self.unit:
            sks_prefetch(self.values32 + row.first, 4 * count)
        elif not self.unit:
            sks_prefetch(self.values64 + row.first, 8 * count)
        if self.sparse:
            sks_prefetch(row.index, 4 * count)

    # ---- products with the weights of all labels, or of some labels ----

    cdef void scores(self, Py_ssize_t position, const double* weights, Py_ssize_t ld,
                     const double* init, double* out) noexcept nogil:
        """out = init + the row times the weights"""
        cdef RowEntries row = self.row(position)
        if self.single:
            sks_scores_f32(row.count, row.index, self.floats(row), self.scale,
                           weights, ld, init, out)
        else:
            sks_scores_f64(row.count, row.index, self.doubles(row), self.scale,
                           weights, ld, init, out)
        if self.mixed:
            self.beside.scores(position, weights, ld, out, out)

    cdef void scores_of_rows(self, Py_ssize_t first, Py_ssize_t count,
                             const double* weights, Py_ssize_t ld, Py_ssize_t size,
                             const double* init, double* out) noexcept nogil:
        """out = init + the rows times the weights, for `count` positions

        Writes the scores of at least `size` labels, a multiple of four.
        """
        cdef RowEntries row = self.row(first)
        cdef double* last
        cdef Py_ssize_t k, t
        # one product for all dense rows reads each weight once
        if self.sparse:
            for k in range(count):
                self.scores(first + k, weights, ld, init, out + k * ld)
            return
        if self.scale != 1.0:
            # The kernel multiplies by no scale: init is divided by the scale, and the
            # result is multiplied. The quotients are stored in the last row of out,
            # which the kernel overwrites last.
            last = out + (count - 1) * ld
            for k in range(size):
                last[k] = init[k] / self.scale
            init = last
        if self.single:
            sks_product_f32(count, row.count, self.floats(row), weights, ld,
                            size, init, out)
        else:
            sks_product_f64(count, row.count, self.doubles(row), weights, ld,
                            size, init, out)
        if self.scale != 1.0:
            for t in range(count):
                for k in range(size):
                    out[t * ld + k] *= self.scale

    cdef void scores_of_part(self, Py_ssize_t position, const double* weights,
                             Py_ssize_t ld, Py_ssize_t size, const double* init,
                             double* out) noexcept nogil:
        """out = init + the row times the weights of `size` labels, from `weights` on

        `size` must be a multiple of four, the step of the kernels.
        """
        cdef RowEntries row = self.row(position)
        if self.single:
            sks_scores_part_f32(row.count, row.index, self.floats(row), self.scale,
                                weights, ld, size, init, out)
        else:
            sks_scores_part_f64(row.count, row.index, self.doubles(row), self.scale,
                                weights, ld, size, init, out)
        if self.mixed:
            self.beside.scores_of_part(position, weights, ld, size, out, out)

    cdef void single_scores(self, Py_ssize_t position, const float* weights,
                            Py_ssize_t ld, const float* init,
                            float* out) noexcept nogil:
        """out = init + the row times the weights, without `scale`

        Not for rows with `unit`.
        """
        cdef RowEntries row = self.row(position)
        if self.single:
            sks_single_scores_f32(
                row.count, row.index, self.floats(row), weights, ld, init, out)
        else:
            sks_single_scores_f64(
                row.count, row.index, self.doubles(row), weights, ld, init, out)
        if self.mixed:
            self.beside.single_scores(position, weights, ld, out, out)

    cdef void scatter(self, Py_ssize_t position, double step, const double* change,
                      Py_ssize_t ld, double* weights) noexcept nogil:
        """weights += step times the outer product of the row and a change of scores"""
        cdef RowEntries row = self.row(position)
        cdef double scale = step * self.scale
        if self.single:
            sks_scatter_f32(row.count, row.index, self.floats(row), scale,
                            change, ld, weights)
        else:
            sks_scatter_f64(row.count, row.index, self.doubles(row), scale,
                            change, ld, weights)
        if self.mixed:
            self.beside.scatter(position, step, change, ld, weights)

    cdef void scatter_rows(self, Py_ssize_t first, Py_ssize_t count,
                           const int32_t* rows, double step, const double* change,
                           Py_ssize_t ld, double* weights) noexcept nogil:
        """weights += step times the outer products of rows and changes of their scores

        `rows` are counted from position `first`.
        """
        cdef RowEntries row = self.row(first)
        cdef Py_ssize_t k
        # one pass for all dense rows reads and writes each weight once
        if self.sparse:
            for k in range(count):
                self.scatter(first + rows[k], step, change + rows[k] * ld, ld, weights)
        elif self.single:
            sks_scatter_rows_f32(count, rows, row.count, self.floats(row),
                                 step * self.scale, change, ld, weights)
        else:
            sks_scatter_rows_f64(count, rows, row.count, self.doubles(row),
                                 step * self.scale, change, ld, weights)

    # ---- products with the weights of one label, `step` apart ----

    cdef double column_score(self, Py_ssize_t position, const double* weights,
                             Py_ssize_t step) noexcept nogil:
        """Return the inner product of a row and the weights of one label."""
        cdef RowEntries row = self.row(position)
        cdef const float* values32 = self.floats(row)
        cdef const double* values64 = self.doubles(row)
        cdef Py_ssize_t entry
        cdef double total = 0.0, beside = 0.0
        if self.mixed:
            beside = self.beside.column_score(position, weights, step)
        # consecutive weights are multiplied in SIMD vectors
        if step == 1 and row.index == NULL:
            if self.single:
                return self.scale * sks_dense_dot_f32(row.count, values32, weights)
            return self.scale * sks_dense_dot_f64(row.count, values64, weights)
        if self.unit:
            for entry in range(row.count):
                total += weights[row.index[entry] * step]
        elif self.single:
            for entry in range(row.count):
                total += values32[entry] * weights[feature_at(row.index, entry) * step]
        else:
            for entry in range(row.count):
                total += values64[entry] * weights[feature_at(row.index, entry) * step]
        return self.scale * total + beside

    cdef void add_to_column(self, Py_ssize_t position, double change, double* weights,
                            Py_ssize_t step) noexcept nogil:
        """Add a change times the row to the weights of one label."""
        cdef RowEntries row = self.row(position)
        cdef double scale = change * self.scale
        cdef const float* values32 = self.floats(row)
        cdef const double* values64 = self.doubles(row)
        cdef Py_ssize_t entry
        if self.mixed:
            self.beside.add_to_column(position, change, weights, step)
        # consecutive weights are changed in SIMD vectors, as in `column_score`
        if step == 1 and row.index == NULL:
            if self.single:
                sks_dense_axpy_f32(row.count, scale, values32, weights)
            else:
                sks_dense_axpy_f64(row.count, scale, values64, weights)
        elif self.unit:
            for entry in range(row.count):
                weights[row.index[entry] * step] += scale
        elif self.single:
            for entry in range(row.count):
                weights[feature_at(row.index, entry) * step] += scale * values32[entry]
        else:
            for entry in range(row.count):
                weights[feature_at(row.index, entry) * step] += scale * values64[entry]

    # ---- products of two rows ----

    cdef void spread(self, Py_ssize_t position, double* out) noexcept nogil:
        """Write the row, without `scale`, into a dense vector of zeros."""
        cdef RowEntries row = self.row(position)
        if self.single:
            sks_spread_f32(row.count, row.index, self.floats(row), out)
        else:
            sks_spread_f64(row.count, row.index, self.doubles(row), out)
        if self.mixed:
            self.beside.spread(position, out)

    cdef void unspread(self, Py_ssize_t position, double* out) noexcept nogil:
        """Set the entries of a vector to which `spread` wrote the row to zero."""
        cdef RowEntries row = self.row(position)
        cdef Py_ssize_t entry
        # only the row's entries are cleared: there may be many more features
        for entry in range(row.count):
            out[feature_at(row.index, entry)] = 0.0
        if self.mixed:
            self.beside.unspread(position, out)

    cdef double spread_dot(self, Py_ssize_t position,
                           const double* spread) noexcept nogil:
        """Return the inner product of the row and a row that was spread."""
        cdef RowEntries row = self.row(position)
        # neither the spread row nor the values contain the factor `scale` of all values
        cdef double square = self.scale * self.scale, beside = 0.0
        if self.mixed:
            beside = self.beside.spread_dot(position, spread)
        if self.single:
            return beside + square * sks_spread_dot_f32(
                row.count, row.index, self.floats(row), spread)
        return beside + square * sks_spread_dot_f64(
            row.count, row.index, self.doubles(row), spread)
