"""Rows of features, dense or CSR, in single or double precision, and their products.

Weights are rows of ld labels, one for each feature; a product with all labels, or with
a part of them, runs over whole vectors.
"""

import numpy as np

cimport cython
from libc.stdint cimport int32_t, int64_t

from sksstruct.utils._simd cimport (
    sks_dense_axpy_f32, sks_dense_axpy_f64, sks_dense_dot_f32, sks_dense_dot_f64,
    sks_prefetch, sks_scatter_f32, sks_scatter_f64, sks_scores_f32, sks_scores_f64,
    sks_scores_part_f32, sks_scores_part_f64, sks_spread_dot_f32, sks_spread_dot_f64,
    sks_spread_f32, sks_spread_f64,
)


@cython.final
cdef class FeatureRows:
    """Features of packed sequences; keeps the arrays alive.

    Parameters
    ----------
    X : PackedSequences
        Features.
    """

    def __cinit__(self, X):
        cdef const float[::1] values32
        cdef const double[::1] values64
        cdef const int32_t[::1] indices
        cdef const int64_t[::1] indptr
        values = X.values.data if X.is_sparse else X.values.reshape(-1)
        # A spare entry, so that there is an address even without any feature.
        if not len(values):
            values = np.zeros(1, dtype=values.dtype)
        self.n_features = X.n_features
        self.sparse = X.is_sparse
        self.single = values.dtype == np.float32
        if self.single:
            values32 = values
            self.values32 = &values32[0]
        else:
            values64 = values
            self.values64 = &values64[0]
        self._owned = [values, X]
        if X.is_sparse:
            index = X.values.indices if X.values.nnz else np.zeros(1, dtype=np.int32)
            index = np.ascontiguousarray(index, dtype=np.int32)
            pointer = np.ascontiguousarray(X.values.indptr, dtype=np.int64)
            indices, indptr = index, pointer
            self.indices, self.indptr = &indices[0], &indptr[0]
            self._owned += [index, pointer]

    cdef Py_ssize_t row(self, Py_ssize_t pos, Py_ssize_t* first,
                        const int32_t** index) noexcept nogil:
        """Where the features of a position are; returns their number."""
        if self.sparse:
            first[0] = self.indptr[pos]
            index[0] = self.indices + first[0]
            return self.indptr[pos + 1] - first[0]
        first[0] = pos * self.n_features
        index[0] = NULL
        return self.n_features

    cdef void scores(self, Py_ssize_t pos, const double* weights, Py_ssize_t ld,
                     const double* init, double* out) noexcept nogil:
        """out = init + the row times the weights"""
        cdef Py_ssize_t first
        cdef const int32_t* index
        cdef Py_ssize_t n = self.row(pos, &first, &index)
        if self.single:
            sks_scores_f32(n, index, self.values32 + first, weights, ld, init, out)
        else:
            sks_scores_f64(n, index, self.values64 + first, weights, ld, init, out)

    cdef void scatter(self, Py_ssize_t pos, double scale, const double* change,
                      Py_ssize_t ld, double* weights) noexcept nogil:
        """weights += scale times the outer product of the row and a change of scores"""
        cdef Py_ssize_t first
        cdef const int32_t* index
        cdef Py_ssize_t n = self.row(pos, &first, &index)
        if self.single:
            sks_scatter_f32(n, index, self.values32 + first, scale, change, ld, weights)
        else:
            sks_scatter_f64(n, index, self.values64 + first, scale, change, ld, weights)

    cdef Py_ssize_t spread(self, Py_ssize_t pos, double* out) noexcept nogil:
        """Write the row into a dense vector of zeros; returns its number of entries."""
        cdef Py_ssize_t first
        cdef const int32_t* index
        cdef Py_ssize_t n = self.row(pos, &first, &index)
        if self.single:
            sks_spread_f32(n, index, self.values32 + first, out)
        else:
            sks_spread_f64(n, index, self.values64 + first, out)
        return n

    cdef double spread_dot(self, Py_ssize_t pos,
                           const double* spread) noexcept nogil:
        """Inner product of the row and a dense vector."""
        cdef Py_ssize_t first
        cdef const int32_t* index
        cdef Py_ssize_t n = self.row(pos, &first, &index)
        if self.single:
            return sks_spread_dot_f32(n, index, self.values32 + first, spread)
        return sks_spread_dot_f64(n, index, self.values64 + first, spread)

    cdef Py_ssize_t entries(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        """Number of stored entries of the rows first <= pos < last."""
        if self.sparse:
            return self.indptr[last] - self.indptr[first]
        return (last - first) * self.n_features

    cdef void prefetch(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        """Ask for the memory of the rows first <= pos < last."""
        cdef Py_ssize_t n = self.entries(first, last)
        first = self.indptr[first] if self.sparse else first * self.n_features
        if self.single:
            sks_prefetch(self.values32 + first, 4 * n)
        else:
            sks_prefetch(self.values64 + first, 8 * n)
        if self.sparse:
            sks_prefetch(self.indices + first, 4 * n)

    cdef void scores_of_part(self, Py_ssize_t pos, const double* weights,
                             Py_ssize_t ld, Py_ssize_t size, const double* init,
                             double* out) noexcept nogil:
        """The same for size labels, a multiple of four, the first at weights."""
        cdef Py_ssize_t first
        cdef const int32_t* index
        cdef Py_ssize_t n = self.row(pos, &first, &index)
        if self.single:
            sks_scores_part_f32(n, index, self.values32 + first, weights, ld, size,
                                init, out)
        else:
            sks_scores_part_f64(n, index, self.values64 + first, weights, ld, size,
                                init, out)

    cdef double column_score(self, Py_ssize_t pos, const double* weights,
                             Py_ssize_t step) noexcept nogil:
        """The row times the weights of one label, step apart."""
        cdef Py_ssize_t first, p
        cdef const int32_t* index
        cdef Py_ssize_t n = self.row(pos, &first, &index)
        cdef double total = 0.0
        if step == 1 and index == NULL:
            if self.single:
                return sks_dense_dot_f32(n, self.values32 + first, weights)
            return sks_dense_dot_f64(n, self.values64 + first, weights)
        if self.single:
            for p in range(n):
                total += self.values32[first + p] * weights[(index[p] if index else p)
                                                            * step]
        else:
            for p in range(n):
                total += self.values64[first + p] * weights[(index[p] if index else p)
                                                            * step]
        return total

    cdef void add_to_column(self, Py_ssize_t pos, double scale, double* weights,
                            Py_ssize_t step) noexcept nogil:
        """Add scale times the row to the weights of one label, step apart."""
        cdef Py_ssize_t first, p
        cdef const int32_t* index
        cdef Py_ssize_t n = self.row(pos, &first, &index)
        if step == 1 and index == NULL:
            if self.single:
                sks_dense_axpy_f32(n, scale, self.values32 + first, weights)
            else:
                sks_dense_axpy_f64(n, scale, self.values64 + first, weights)
        elif self.single:
            for p in range(n):
                weights[(index[p] if index else p) * step] += (
                    scale * self.values32[first + p])
        else:
            for p in range(n):
                weights[(index[p] if index else p) * step] += (
                    scale * self.values64[first + p])
