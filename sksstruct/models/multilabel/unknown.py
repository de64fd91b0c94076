"""Label indicators with entries that are not known, and the losses that remain.

The loss of label j of sample i is that of y_ij given the observed values of the labels
that j interacts with. It is a conditional likelihood, or its margin, only if all of
these values are known. The loss is therefore left out if y_ij or the value of one of
these neighbors is not known. No value is filled in, so that training stays convex and
its certificate holds. If whether an entry is known depends on the features alone, each
loss that remains has the same expected gradient as without unknown entries: zero at the
weights of the distribution that the labels come from, with the logistic loss.
"""

import numpy as np
from scipy import sparse

from sksstruct.utils.labels import is_missing

# Value of an unknown entry in the indicators of this package.
UNKNOWN = -1


def split_unknown(y):
    """An indicator with zeros for unknown entries, and where these are.

    Parameters
    ----------
    y : object
        Label indicator: array-like, sparse matrix or DataFrame. Unknown entries are -1,
        nan, None or pandas.NA.

    Returns
    -------
    y : object
        The indicator that was given if it has no unknown entry, or fewer than two
        columns; otherwise an array or a CSR array with zeros in these entries.
    unknown : ndarray of shape (n_samples, n_labels), bool, or None
        Which entries are not known; None if all are.
    """
    if sparse.issparse(y):
        return _split_sparse(y)
    given = y.to_numpy() if hasattr(y, "to_numpy") else y
    try:
        given = np.asarray(given)
    except ValueError:  # rows of different lengths
        return y, None
    if given.ndim != 2 or given.shape[1] < 2 or not given.size:
        return y, None
    unknown = _unknown_entries(given)
    if unknown is None:
        return y, None
    given = np.where(unknown, 0, given)
    if given.dtype == object:
        try:
            given = given.astype(np.float64)
        except (TypeError, ValueError):
            return y, None
    return given, unknown


def _split_sparse(y):
    if y.shape[1] < 2 or y.dtype.kind not in "if":
        return y, None
    data = y.data if hasattr(y, "data") and y.format != "lil" else y.tocsr().data
    if not len(data) or data.min() >= 0:
        return y, None
    y = sparse.csr_array(y, copy=True)
    y.sum_duplicates()
    unknown = _unknown_entries(y.data)
    if unknown is None:
        return y, None
    where = sparse.csr_array((unknown, y.indices, y.indptr), y.shape).toarray()
    y.data[unknown] = 0
    y.eliminate_zeros()
    return y, where


def _unknown_entries(values):
    """Mask of the unknown entries of an array, or None if all are known."""
    if values.dtype == object:
        flat = [is_missing(each) or _is_minus_one(each) for each in values.flat]
        unknown = np.array(flat, dtype=bool).reshape(values.shape)
    # the minimum is nan if one entry is nan
    elif values.dtype.kind not in "if" or values.min() >= 0:
        return None
    else:
        unknown = (values == UNKNOWN) | np.isnan(values)
    return unknown if unknown.any() else None


def _is_minus_one(value):
    return not isinstance(value, str) and bool(value == UNKNOWN)


def refuse_signs(y, unknown):
    """Raise an error if y has the values 1 and -1 of labels that are on and off."""
    values = y.data if sparse.issparse(y) else y
    if sparse.issparse(y):
        has_off = y.nnz + int(unknown.sum()) < y.shape[0] * y.shape[1]
    else:
        has_off = bool(((values == 0) & ~unknown).any())
    if not has_off and (values == 1).any():
        raise ValueError(
            "y has no entry 0: training needs labels that are known to be off. "
            "Unknown entries are -1 or nan; if -1 stands for labels that are off, pass "
            "y == 1"
        )


def losses_left(Y, pairs):
    """Mask of the labels whose losses remain, an array of the shape of Y.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_labels)
        Label indicator; `UNKNOWN` where a label is not known.
    pairs : ndarray of shape (n_pairs, 2)
        Pairs of labels that interact.
    """
    unknown = Y == UNKNOWN
    if not len(pairs):
        return ~unknown
    n_labels = Y.shape[1]
    first, second = np.asarray(pairs).T
    ends = np.concatenate([first, second]), np.concatenate([second, first])
    ones = np.ones(2 * len(pairs), dtype=np.int32)
    neighbors = sparse.csr_array((ones, ends), (n_labels, n_labels))
    counts = sparse.csr_array(unknown, dtype=np.int32) @ neighbors
    return ~unknown & (counts.toarray() == 0)


def first_without_loss(Y, pairs):
    """The first label of which no loss remains, or None."""
    remains = losses_left(Y, pairs).any(axis=0)
    return None if remains.all() else int(np.argmin(remains))
