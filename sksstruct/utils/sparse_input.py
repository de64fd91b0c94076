"""Checks for all sparse matrices from users, as kernels trust their indices.

SciPy does not check indices and row pointers of a matrix that was made from arrays, or
whose arrays were changed, and its own conversions read memory at wrong indices. Sound
matrices have a pointer for each row, columns within the matrix, and 32-bit column
indices unless they have 2^31 entries or more.
"""

from copy import copy

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from sksstruct.utils._layout import file_zeros, is_mapped


def is_sparse(X):
    """Whether X is a sparse matrix or array.

    `scipy.sparse.issparse` consults a registry first, which takes time in the labeling
    of a single sequence.

    Parameters
    ----------
    X : object
        Any object.

    Returns
    -------
    is_sparse : bool
        Result of `scipy.sparse.issparse`.
    """
    return type(X) is not np.ndarray and X is not None and sparse.issparse(X)


def check_sparse(X, name="X"):
    """Check the row pointers and indices of a sparse matrix.

    Parameters
    ----------
    X : sparse matrix or array
        Matrix in any format.
    name : str, default="X"
        Name of the argument in errors.

    Raises
    ------
    ValueError
        If row pointers decrease or point beyond the entries, or if an index is outside
        of the matrix.
    """
    if X.format in ("csr", "csc", "bsr"):
        _check_compressed(X, name)
    elif X.format == "coo" and X.ndim == 2:
        for axis, indices in enumerate((X.row, X.col)):
            kind = "column" if axis else "row"
            _check_indices(indices, X.shape[axis], kind, name)


def _check_compressed(X, name):
    size, bound = (1, 1) if X.format != "bsr" else X.blocksize
    size, bound = X.shape[0] // size, X.shape[-1] // bound
    if X.format == "csc":
        size, bound = bound, size
    kinds = ("column", "row") if X.format == "csc" else ("row", "column")
    pointers, indices = X.indptr, X.indices
    stored = min(len(indices), len(X.data))
    if len(pointers) != size + 1 or pointers[0] != 0 or pointers[-1] > stored:
        raise ValueError(
            f"{name} is a broken sparse matrix: indptr must have {size + 1} entries "
            f"from 0 to at most {stored}, the number of stored values"
        )
    falls = np.flatnonzero(pointers[1:] < pointers[:-1])
    if len(falls):
        raise ValueError(
            f"{name} is a broken sparse matrix: indptr decreases after "
            f"{kinds[0]} {falls[0]}"
        )
    _check_indices(indices[: pointers[-1]], bound, kinds[1], name)


def _check_indices(indices, bound, kind, name):
    if len(indices) and not 0 <= indices.min() <= indices.max() < bound:
        bad = indices[(indices < 0) | (indices >= bound)][0]
        raise ValueError(f"{name} has the {kind} index {bad}, but {bound} {kind}s")


def sound_csr(X, name="X"):
    """Return a sparse matrix as sound CSR, with 32-bit indices if its size allows them.

    Parameters
    ----------
    X : sparse matrix or array of shape (n_rows, n_columns)
        Matrix in any format; it is not changed.
    name : str, default="X"
        Name of the argument in errors.

    Returns
    -------
    X : csr_array or csr_matrix
        The same object if no change was necessary.

    Raises
    ------
    ValueError
        As in `check_sparse`, or if there are too many columns for 32-bit indices.
    """
    # formats without index arrays are converted to COO, which is checked before its use
    if X.format in ("dok", "lil", "dia"):
        X = X.tocoo()
    check_sparse(X, name)
    X = X.tocsr()
    narrow = np.iinfo(np.int32)
    if X.shape[1] > narrow.max:
        raise ValueError(
            f"{name} must have at most {narrow.max} columns, got {X.shape[1]}"
        )
    if X.indices.dtype == np.int32 or X.indptr[-1] > narrow.max:
        return X
    out = X.copy()
    out.indices, out.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return out


def validate_rows(estimator, X, y="no_validation", **options):
    """Run scikit-learn's `validate_data`, with sparse matrices converted to sound CSR.

    Parameters
    ----------
    estimator : estimator
        Estimator that gets the attributes describing X.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Data.
    y : {array-like, sparse matrix}, default="no_validation"
        Targets.
    **options : dict
        Options of `validate_data`.

    Returns
    -------
    out : ndarray, sparse matrix or tuple of these
        As `validate_data` returns.
    """
    if sparse.issparse(X) and X.ndim == 2:
        X = sound_csr(X)
    elif _is_nested(X):
        raise ValueError(
            f"X[0] has rows, as a sequence has: {type(estimator).__name__} takes a 2-D "
            "array with a row for each sample. ChainCRF takes sequences, make_tagger() "
            "those of dicts or strings, and SSVMClassifier(model) other structures"
        )
    if sparse.issparse(y) and y.ndim == 2:
        y = sound_csr(y, "y")
    return validate_data(estimator, X, y, **options)


def _is_nested(X):
    """Whether the first sample is not a row: a matrix, or a list of lists or dicts."""
    if not isinstance(X, list | tuple | np.ndarray) or not len(X):
        return False
    first = X[0]
    if isinstance(first, list | tuple) and len(first):
        return isinstance(first[0], list | tuple | dict | np.ndarray)
    return np.ndim(first) > 1


def rows_between(X, first, last):
    """Return the rows first <= i < last of an array, a list or a sound CSR matrix.

    Unless X is a list, the result shares the memory of its values.
    """
    if not sparse.issparse(X):
        return X[first:last]
    a, b = X.indptr[first], X.indptr[last]
    pointers = X.indptr[first : last + 1]
    # pointers of a mapped matrix may be too large for memory as well
    zeros = file_zeros if is_mapped(pointers) else np.zeros
    pointers = np.subtract(pointers, a, out=zeros(len(pointers), pointers.dtype))
    out = type(X)((last - first, X.shape[1]), dtype=X.dtype)
    # set the arrays here: the constructor copies arrays that are less than half of
    # their base
    out.data, out.indices, out.indptr = X.data[a:b], X.indices[a:b], pointers
    # a part of rows in canonical format is canonical too, and needs no new check
    if X.has_canonical_format:
        out.has_canonical_format = True
    return out


def canonical_csr(values):
    """Return a matrix as a sound CSR array with sorted, unique indices and floats.

    The result shares memory with an input that already has this form.
    """
    if values.dtype.kind not in "biuf":
        raise TypeError(f"values must be real numbers, got {values.dtype}")
    if values.ndim != 2:
        raise ValueError(f"values must be 2-D, got {values.ndim}-D")
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    sound = sound_csr(values, "values")
    # the constructor copies arrays that are less than half of their base, such as a
    # file
    is_array = isinstance(sound, sparse.csr_array)
    out = copy(sound) if is_array else sparse.csr_array(sound)
    if not out.has_canonical_format:
        if values.format == "csr" and np.may_share_memory(out.data, values.data):
            out = out.copy()
        out.sum_duplicates()
    return out
