"""Rows of features with sparse and dense columns: CSR and an array side by side."""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from sksstruct.utils._layout import is_mapped
from sksstruct.utils.sparse_input import rows_between
from sksstruct.utils.typing import SparseLike

# Dense rows with less than this fraction of nonzeros are stored as CSR: kernels then
# skip the zeros, and the rows take less memory.
SPARSE_BELOW = 0.3


class MixedRows:
    """Rows whose sparse columns are stored as CSR, and dense columns as an array.

    Parameters
    ----------
    sparse : csr_array of shape (n_rows, n_features)
        Canonical CSR, without entries in the dense columns.
    dense : ndarray of shape (n_rows, n_dense), float32 or float64
        The dense columns.
    columns : array-like of shape (n_dense,), int
        Numbers of the dense columns, ascending.

    Attributes
    ----------
    shape : tuple of int
        Number of rows, and of all columns.
    """

    def __init__(self, sparse, dense, columns):
        self.sparse, self.dense = sparse, dense
        self.columns = np.ascontiguousarray(columns, dtype=np.int32)
        self.shape = sparse.shape

    @classmethod
    def checked(cls, sparse, dense, columns):
        """Return rows from a file, after checking that their parts belong together."""
        columns = np.asarray(columns)
        n_rows, n_features = sparse.shape
        if dense.ndim != 2 or dense.shape != (n_rows, len(columns)):
            raise ValueError(
                f"the dense part has shape {dense.shape}, expected "
                f"{(n_rows, len(columns))}"
            )
        within = not len(columns) or 0 <= columns[0] <= columns[-1] < n_features
        if not within or (np.diff(columns) <= 0).any():
            raise ValueError(
                f"the dense columns must ascend and be among {n_features} features"
            )
        is_dense = np.zeros(n_features, dtype=bool)
        is_dense[columns] = True
        if is_dense[sparse.indices[: sparse.indptr[-1]]].any():
            raise ValueError("the sparse part has entries in dense columns")
        return cls(sparse, dense, columns)

    @property
    def dtype(self):
        """Common type of the values in sparse and in dense columns."""
        return np.result_type(self.sparse.dtype, self.dense.dtype)

    @property
    def size(self):
        """Number of stored values."""
        return self.sparse.data.size + self.dense.size

    def __getitem__(self, rows):
        if isinstance(rows, slice) and rows.step in (None, 1):
            part = rows_between(self.sparse, *rows.indices(self.shape[0])[:2])
        else:
            part = sparse.csr_array(self.sparse[rows])
        return MixedRows(part, self.dense[rows], self.columns)

    def select(self, columns):
        """Return some columns, given in ascending order, as CSR."""
        _, own, places = np.intersect1d(self.columns, columns, return_indices=True)
        return MixedRows(self.sparse[:, columns], self.dense[:, own], places).tocsr()

    def tocsr(self):
        """Return all columns as CSR, which takes more memory."""
        n_rows, n_dense = self.dense.shape
        entries = self.dense.ravel(), np.tile(self.columns, n_rows)
        indptr = np.arange(n_rows + 1) * n_dense
        return self.sparse + sparse.csr_array((*entries, indptr), self.shape)

    def toarray(self):
        """Return all columns as an array."""
        out = self.sparse.toarray().astype(self.dtype, copy=False)
        out[:, self.columns] = self.dense
        return out

    def __matmul__(self, other):
        return self.sparse @ other + self.dense @ other[self.columns]

    @property
    def T(self):
        """The transpose, for products with arrays."""

        def product(other):
            out = self.sparse.T @ other
            out[self.columns] += self.dense.T @ other
            return out

        shape = self.shape[::-1]
        return LinearOperator(shape, matvec=product, matmat=product, dtype=np.float64)


def join_columns(parts):
    """Return rows with the columns of all parts, in order; dense columns stay dense.

    Parameters
    ----------
    parts : list of {ndarray, csr_array, MixedRows}
        Matrices with the same number of rows; CSR is canonical.

    Returns
    -------
    rows : ndarray, csr_array or MixedRows
        Shares the memory of the only sparse part, if it comes first, and of the only
        dense part.
    """
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.hstack(parts)
    n_features, sparse_parts, places, dense, columns = 0, [], [], [], []
    for part in parts:
        numbers = np.arange(n_features, n_features + part.shape[1], dtype=np.int32)
        n_features += part.shape[1]
        if not isinstance(part, np.ndarray):
            sparse_parts.append(getattr(part, "sparse", part))
            places.append(numbers)
        if not sparse.issparse(part):
            dense.append(getattr(part, "dense", part))
            columns.append(numbers[getattr(part, "columns", slice(None))])
    rows = _placed(sparse_parts, np.concatenate(places), n_features)
    if not dense:
        return rows
    dense = dense[0] if len(dense) == 1 else np.hstack(dense)
    return MixedRows(rows, dense, np.concatenate(columns))


def _placed(parts, places, n_features):
    """Join CSR matrices side by side; column k of the result moves to places[k]."""
    rows = parts[0] if len(parts) == 1 else sparse.hstack(parts, format="csr")
    out = sparse.csr_array((rows.shape[0], n_features), dtype=rows.dtype)
    # the arrays are assigned, as the constructor may copy them
    out.data, out.indices, out.indptr = rows.data, rows.indices, rows.indptr
    if len(places) and places[-1] != len(places) - 1:
        out.indices = places[rows.indices]
    out.has_canonical_format = True
    return out


def compact_rows(rows: np.ndarray | SparseLike) -> Any:
    """Return rows of features as CSR if they are dense and mostly zero.

    Parameters
    ----------
    rows : ndarray or sparse array of shape (n_rows, n_features)
        The features.

    Returns
    -------
    rows : ndarray or sparse array
        The same features; the given object unless it was made sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct.utils.packed import compact_rows
    >>> rows = np.zeros((100, 50))
    >>> rows[:, 0] = 1.0
    >>> compact_rows(rows).format
    'csr'
    """
    # mapped rows may be larger than memory
    if not isinstance(rows, np.ndarray) or rows.size == 0 or is_mapped(rows):
        return rows
    if np.count_nonzero(rows) >= SPARSE_BELOW * rows.size:
        return rows
    return sparse.csr_array(rows)
