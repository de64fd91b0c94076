"""Products of the transpose of features with rows of numbers.

F has a row of features for each position, D a row of ld numbers for each position, and
F' D a row for each feature. Sparse features are copied by columns. Each row of the
product is summed by one thread, in the order of the positions, so that it has the same
bits for any number of threads.
"""

import numpy as np
from scipy import sparse

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from sksstruct.utils._simd cimport (
    sks_scores_f32, sks_scores_f64, sks_spread_dot_f32, sks_spread_dot_f64,
)

from sksstruct.models.tables._feature_rows import stored_arrays
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils._mixed import MixedRows
from sksstruct.utils.parallel import run_in_chunks

# Number of rows of features that are converted to double precision at a time.
BATCH = 1024


def transposed(rows):
    """Return an object for the transpose of dense, sparse or mixed rows of features."""
    if isinstance(rows, MixedRows):
        return MixedColumns(rows)
    return FeatureColumns(rows) if sparse.issparse(rows) else DenseColumns(rows)


class DenseColumns:
    """The transpose of dense features.

    Parameters
    ----------
    rows : ndarray of shape (n_positions, n_features), float32 or float64
        The features.
    """

    def __init__(self, rows):
        self._rows = rows

    def product(self, differences, out, n_jobs=None):
        """Write F' D; see `FeatureColumns.product`."""
        rows = self._rows
        if rows.dtype == np.float64:
            np.matmul(rows.T, differences, out=out)
            return
        # in batches, as a copy of all features in double precision may be large
        out[:] = 0.0
        for first in range(0, len(rows), BATCH):
            part = slice(first, first + BATCH)
            out += rows[part].T.astype(float) @ differences[part]


class MixedColumns:
    """The transpose of sparse and dense features.

    Parameters
    ----------
    rows : MixedRows
        The features.
    """

    def __init__(self, rows):
        self._sparse = FeatureColumns(rows.sparse)
        self._dense, self._columns = DenseColumns(rows.dense), rows.columns

    def product(self, differences, out, n_jobs=None):
        """Write F' D; see `FeatureColumns.product`."""
        dense = np.empty((len(self._columns), out.shape[1]))
        self._sparse.product(differences, out, n_jobs)
        self._dense.product(differences, dense)
        out[self._columns] = dense


cdef class FeatureColumns:
    """A copy of sparse features by columns.

    Parameters
    ----------
    rows : CSR of shape (n_positions, n_features), float32 or float64
        The features.
    """

    cdef const int64_t[::1] indptr
    cdef const int32_t[::1] indices
    # the values: in `single` if the features are float32, otherwise in `values`
    cdef const float[::1] single
    cdef const double[::1] values
    cdef bint is_single
    cdef Py_ssize_t n_features

    def __init__(self, rows):
        columns = rows.tocsc()
        columns.sort_indices()
        self.n_features = columns.shape[1]
        values, self.indices, self.indptr = stored_arrays(columns)
        self.is_single = values.dtype == np.float32
        if self.is_single:
            self.single = values
        else:
            self.values = values

    def product(self, differences, out, n_jobs=None):
        """Write F' D: for each feature, the sum of its values times the rows of D.

        Parameters
        ----------
        differences : ndarray of shape (n_positions, ld)
            The matrix D; ld is one, or a multiple of the vector length.
        out : ndarray of shape (n_features, ld)
            Overwritten.
        n_jobs : int, default=None
            Number of threads.
        """
        # chunks of an empty range are not allowed
        if not self.n_features:
            return
        run_in_chunks(
            lambda first, last: self._write(first, last, differences, out),
            self.n_features, n_jobs, self.indices.shape[0] * out.shape[1])

    def _write(self, Py_ssize_t first, Py_ssize_t last,
               const double[:, ::1] differences, double[:, ::1] out):
        """Write the rows of F' D for features first <= feature < last."""
        cdef Py_ssize_t feature, begin, count, ld = out.shape[1]
        # the kernels add a bias to the products, which is zero here
        cdef double[::1] zeros = aligned_zeros(ld)
        with nogil:
            for feature in range(first, last):
                begin = self.indptr[feature]
                count = self.indptr[feature + 1] - begin
                # a feature that never occurs may have no first entry with an address
                if count == 0:
                    memset(&out[feature, 0], 0, ld * sizeof(double))
                elif ld == 1 and self.is_single:
                    out[feature, 0] = sks_spread_dot_f32(
                        count, &self.indices[begin], &self.single[begin],
                        &differences[0, 0])
                elif ld == 1:
                    out[feature, 0] = sks_spread_dot_f64(
                        count, &self.indices[begin], &self.values[begin],
                        &differences[0, 0])
                elif self.is_single:
                    sks_scores_f32(count, &self.indices[begin], &self.single[begin],
                                   1.0, &differences[0, 0], ld, &zeros[0],
                                   &out[feature, 0])
                else:
                    sks_scores_f64(count, &self.indices[begin], &self.values[begin],
                                   1.0, &differences[0, 0], ld, &zeros[0],
                                   &out[feature, 0])
