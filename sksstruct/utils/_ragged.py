"""Rows of many sequences, each a matrix of any kind, as one matrix.

Every error names the argument and the sequence at fault.
"""

import math
from collections.abc import Mapping, Set

import numpy as np
from scipy import sparse

from sksstruct.utils._mixed import MixedRows
from sksstruct.utils.labels import is_list, is_missing
from sksstruct.utils.sparse_input import check_sparse

_HINT = (
    "pass a list of arrays of shape (n_positions, n_features), or of scipy CSR "
    "matrices, one for each sequence; SequenceVectorizer makes them from dicts or "
    "strings, and make_tagger puts it in front of a tagger. For one sequence pass [X]"
)


def stack_rows(X, n_features, name):
    """Return the rows of all sequences, their lengths, and column names or None.

    Parameters
    ----------
    X, n_features, name : objects
        As in `sksstruct.utils.packed.check_sequences`.
    """
    items = _items(X, name)
    feature_names = _feature_names(items)
    is_sparse = _in_one_form(items, name)
    if not is_sparse:
        items = [
            item if item is None else _as_dense(item, i, name)
            for i, item in enumerate(items)
        ]
    lengths, width = _shapes(items, n_features, name)
    if is_sparse:
        items = [
            item if item is None else _as_csr(item, f"{name}[{i}]")
            for i, item in enumerate(items)
        ]
    first_given = next((x for x in items if x is not None), np.zeros((0, width)))
    items = [first_given[:0] if item is None else item for item in items]
    dtypes = {item.dtype for item in items}
    dtype = np.float32 if dtypes == {np.dtype(np.float32)} else np.float64
    if is_sparse:
        values = _stack_csr(items, lengths, width, dtype, name)
    else:
        values = np.empty((lengths.sum(), width), dtype=dtype)
        if items:
            np.concatenate(items, out=values, casting="unsafe")
    return values, lengths, feature_names


def _items(X, name):
    """Return the sequences as a list, with None for empty ones such as ``[]``."""
    if sparse.issparse(X) or isinstance(X, str | bytes | Mapping):
        raise TypeError(f"{name} is a single {type(X).__name__}: {_HINT}")
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: fill or drop masked entries")
    if isinstance(X, np.ndarray) and X.dtype != object:
        if X.ndim != 3:
            raise ValueError(f"{name} is a {X.ndim}-D array: {_HINT}")
        _check_numeric(X, name)
    if hasattr(X, "columns"):
        raise TypeError(f"{name} is a single {type(X).__name__}: {_HINT}")
    try:
        items = list(X)
    except TypeError:
        raise TypeError(f"{name} is a {type(X).__name__}: {_HINT}") from None
    return [None if _is_blank(item) else item for item in items]


def _is_blank(item):
    """Whether a sequence has neither positions nor a number of features."""
    if isinstance(item, np.ndarray):
        return item.shape == (0,)
    if sparse.issparse(item) or not is_list(item):
        return False
    return len(item) == 0 and getattr(item, "ndim", 1) == 1


def _in_one_form(items, name):
    """Return whether all sequences are sparse; raise TypeError if only some are."""
    given = [(i, sparse.issparse(x)) for i, x in enumerate(items) if x is not None]
    if len({is_sparse for _, is_sparse in given}) > 1:
        first = given[0]
        other = next(pair for pair in given if pair[1] != first[1])
        raise TypeError(
            f"{name}[{other[0]}] is {'sparse' if other[1] else 'dense'} while "
            f"{name}[{first[0]}] is not: pass all sequences in one form"
        )
    return bool(given) and given[0][1]


def _shapes(items, width, name):
    """Return the number of positions of each sequence, and the number of features."""
    lengths = np.zeros(len(items), dtype=np.intp)
    first = None
    for i, item in enumerate(items):
        if item is None:
            continue
        shape = item.shape
        if len(shape) != 2:
            raise ValueError(
                f"{name}[{i}] is {len(shape)}-D: a sequence must be 2-D, of shape "
                "(n_positions, n_features); for one sequence pass [X]"
            )
        if first is None:
            first, width = i, shape[1]
            if not width:
                raise ValueError(f"{name}[{i}] has 0 features: at least 1 is required")
        if shape[1] != width:
            raise ValueError(
                f"{name}[{i}] has {shape[1]} features, but {name}[{first}] has {width}"
            )
        lengths[i] = shape[0]
    return lengths, width or 0


def _as_dense(item, i, name):
    if isinstance(item, np.ma.MaskedArray):
        raise TypeError(f"{name}[{i}] is a masked array: fill or drop masked entries")
    if isinstance(item, np.ndarray) and item.dtype.kind in "biuf":
        return item
    name = f"{name}[{i}]"
    raw = _raw_features(item)
    if raw is not None:
        raise TypeError(
            f"{name} has a {raw} in place of numbers: make_tagger() makes a tagger "
            "that takes dicts or strings; ChainCRF alone takes what SequenceVectorizer "
            "returns, or arrays of shape (n_positions, n_features)"
        )
    try:
        array = np.asarray(item)
    except ValueError:
        raise ValueError(
            f"{name} is not a matrix, its rows differ in length: {_HINT}"
        ) from None
    if array.dtype.kind not in "biuf" and hasattr(item, "columns"):
        return frame_values(item, name)
    _check_numeric(array, name)
    return array


def frame_values(frame, name):
    """Return the values of a data frame whose columns form no array of numbers."""
    if hasattr(frame, "items"):  # pandas, in which column names may repeat
        pairs = frame.items()
    else:
        names = getattr(frame, "column_names", frame.columns)
        pairs = ((column, frame[column]) for column in names)
    return np.column_stack(
        [_numbers(column, f"{name}[{title!r}]") for title, column in pairs]
    )


def _numbers(column, name):
    """Return a column as numbers, with NaN where a value is missing."""
    values = np.asarray(column)
    # nullable columns, and columns with numbers of several types, are arrays of objects
    if values.dtype == object and not any(isinstance(x, str | bytes) for x in values):
        try:
            numbers = (np.nan if is_missing(x) else x for x in values)
            values = np.fromiter(numbers, np.float64, len(values))
        except (TypeError, ValueError):
            pass  # the next check reports the dtype
    _check_numeric(values, name)
    return values


def _raw_features(item):
    """Return the name of the type of features that need a vectorizer: dict or str.

    Returns None if the first entries are of another type, such as numbers.
    """
    while isinstance(item, list | tuple | Set) and len(item):
        item = next(iter(item))
    if isinstance(item, np.ndarray) and item.dtype.kind in "US":
        return "str"
    return type(item).__name__ if isinstance(item, str | bytes | Mapping) else None


def _check_numeric(array, name):
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {array.dtype}, not a real number: {_HINT}")


def _as_csr(item, name):
    # `_check_all_sparse` checks the structure of all CSR matrices at once
    if item.format == "csr":
        return item
    check_sparse(item, name)
    return item.tocsr()


def _stack_csr(items, lengths, width, dtype, name):
    for i, item in enumerate(items):
        _check_numeric(item, f"{name}[{i}]")
    _check_all_sparse(items, lengths, width, name)
    nnz = np.fromiter((item.indptr[-1] for item in items), np.int64, len(items))
    # stored entries beyond indptr[-1] are legal, but not part of the matrix
    parts = [
        (item.data[:end], item.indices[:end])
        for item, end in zip(items, nnz.tolist(), strict=True)
    ]
    indptr = np.zeros(lengths.sum() + 1, dtype=np.int64)
    np.concatenate([item.indptr[1:] for item in items], out=indptr[1:])
    indptr[1:] += np.repeat(np.cumsum(nnz) - nnz, lengths)
    data = np.empty(nnz.sum(), dtype=dtype)
    np.concatenate([values for values, _ in parts], out=data, casting="unsafe")
    indices = np.empty(nnz.sum(), dtype=np.int32)
    # `_check_all_sparse` has checked that all columns are below the width
    np.concatenate([columns for _, columns in parts], out=indices, casting="same_kind")
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    out = sparse.csr_array((data, indices, indptr), shape=(lengths.sum(), width))
    out.sum_duplicates()
    return out


def _check_all_sparse(items, lengths, width, name):
    """Check the structure of all CSR matrices at once, as most of them are small."""
    if not items:
        return
    if width > np.iinfo(np.int32).max:
        raise ValueError(f"{name} has {width} features, which 32 bits cannot number")
    pointers = [item.indptr for item in items]
    sound = all(
        len(pointer) == length + 1 and pointer[0] == 0
        and pointer[-1] <= min(len(item.indices), len(item.data))
        for item, pointer, length in zip(items, pointers, lengths, strict=True)
    )  # fmt: skip
    if sound:
        ends = np.concatenate([pointer[1:] for pointer in pointers])
        starts = np.concatenate([pointer[:-1] for pointer in pointers])
        columns = np.concatenate([item.indices[: item.indptr[-1]] for item in items])
        sound = (starts <= ends).all() and (
            not len(columns) or 0 <= columns.min() <= columns.max() < width
        )
    # check items one by one, for an error that names the sequence
    for i, item in enumerate([] if sound else items):
        check_sparse(item, f"{name}[{i}]")


def _feature_names(items):
    """Return column names if all items are data frames with the same string columns."""
    frames = [(i, item) for i, item in enumerate(items) if item is not None]
    columns = getattr(frames[0][1], "columns", None) if frames else None
    if columns is None:
        return None
    names = list(columns)
    if not all(isinstance(name, str) for name in names):
        return None
    for i, item in frames:
        if list(getattr(item, "columns", ())) != names:
            raise ValueError(f"X[{i}] has other column names than X[{frames[0][0]}]")
    return names


def check_finite(packed, name, *, allow_nan=False):
    """Raise an error that says where packed sequences are not finite."""
    row = _row_not_finite(packed.stored, allow_nan)
    if row is None:
        return
    i = int(np.searchsorted(packed.offsets, row, "right")) - 1
    what = "infinity" if allow_nan else "NaN or infinity"
    text = f"{name}[{i}] contains {what}, at position {row - packed.offsets[i]}"
    values = packed.values[row : row + 1]
    values = values if isinstance(values, np.ndarray) else values.toarray()
    column = int(np.argmax(_not_finite(values[0], allow_nan)))
    names = packed.feature_names
    raise ValueError(f"{text} of column {column if names is None else names[column]!r}")


def _not_finite(values, allow_nan):
    return np.isinf(values) if allow_nan else ~np.isfinite(values)


def _row_not_finite(rows, allow_nan):
    """Return the index of the first row with a value that is not finite, or None."""
    if isinstance(rows, MixedRows):
        found = [_row_not_finite(part, allow_nan) for part in (rows.sparse, rows.dense)]
        return min((row for row in found if row is not None), default=None)
    is_dense = isinstance(rows, np.ndarray)
    values = rows if is_dense else rows.data
    # a finite sum implies finite terms: entries are checked only if the sum is not
    # finite
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduce(values.reshape(-1), dtype=np.float64)
    if math.isfinite(total):
        return None
    bad = _not_finite(values, allow_nan)
    if not bad.any():
        return None
    if is_dense:
        return np.flatnonzero(bad.any(axis=1))[0]
    return np.searchsorted(rows.indptr, np.flatnonzero(bad)[0], "right") - 1
