"""Forms in which the labels of samples are given: an indicator, or a set for each."""

import warnings
from collections.abc import Set
from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils.multiclass import type_of_target

from sksstruct.utils._layout import object_array


def read_labels(y):
    """Labels as an indicator, and the names of its columns.

    Parameters
    ----------
    y : object
        Sets of labels: a list, tuple, Series or object array of sets, lists or tuples.
        Lists of numbers that are all equally long are an indicator. Or an indicator: a
        DataFrame, whose columns have names, or anything else.

    Returns
    -------
    y : object
        A CSR indicator if y has sets, otherwise the y that was given.
    names : ndarray of shape (n_labels,) or None
        Names of the labels: sorted if y has sets. None: there are none.
    in_sets : bool
        Whether y has sets.
    """
    columns = getattr(y, "columns", None)
    if columns is not None:
        return y, _names_of_columns(list(columns)), False
    rows = _rows_of_labels(y)
    if rows is None:
        return y, None, False
    labels = _sorted(set().union(*rows))
    binarizer = MultiLabelBinarizer(classes=labels, sparse_output=True)
    return binarizer.fit_transform(rows), _as_array(labels), True


def _rows_of_labels(y):
    """The labels of each sample as a set, or None if y is an indicator or 1-D."""
    is_list = isinstance(y, list | tuple)
    if not is_list and (getattr(y, "dtype", "") != "O" or np.ndim(y) != 1):
        return None
    rows = list(y)
    several = [isinstance(row, Set | list | tuple | np.ndarray) for row in rows]
    if not any(several) or (all(several) and _is_numeric(rows)):
        return None
    if not all(several):
        i = several.index(False)
        raise ValueError(
            f"y[{i}] is {rows[i]!r:.80}, but other entries of y are sets of labels: a "
            "sample without labels has an empty set"
        )
    try:
        return [set(row) for row in rows]
    except TypeError as error:
        raise ValueError(
            f"y has sets of labels, which must be hashable: {error}"
        ) from (error)


def _is_numeric(rows):
    """Whether rows form a matrix of numbers."""
    if any(isinstance(row, Set) for row in rows):
        return False
    if any(len(row) != len(rows[0]) for row in rows):
        return False
    # None is an unknown entry of an indicator
    rows = [[0 if each is None else each for each in row] for row in rows]
    return np.asarray(rows).dtype.kind in "biufc"


def _sorted(labels):
    missing = [label for label in labels if label is None or label != label]
    if missing:
        raise ValueError(
            f"y has the label {missing[0]!r:.80}: a sample without labels has an "
            "empty set"
        )
    try:
        return sorted(labels)
    except TypeError as error:
        raise ValueError(
            f"labels of y must be all strings or all numbers: {error}"
        ) from error


def _as_array(names):
    """Names as an array of strings or integers if they are, else of objects."""
    for kind in (str, Integral):
        if names and all(isinstance(name, kind) for name in names):
            return np.array(names)
    return object_array(names)


def _names_of_columns(columns):
    seen = set()
    for name in columns:
        if name in seen:
            raise ValueError(
                f"y has two columns {name!r:.80}: names of labels must differ"
            )
        seen.add(name)
    return _as_array(columns)


def in_columns(Y, names, classes):
    """Put the columns of labels into the order of a classifier.

    Parameters
    ----------
    Y : CSR matrix of shape (n_samples, n_names)
        Label indicator.
    names : ndarray of shape (n_names,)
        Labels of the columns of Y.
    classes : ndarray of shape (n_labels,)
        Labels of the classifier.

    Returns
    -------
    labels : ndarray of shape (n_samples, n_labels)
        Label indicator of the classifier's labels.
    others : ndarray of shape (n_samples,), bool
        Which samples have labels that the classifier does not know.
    """
    place_of = {label: place for place, label in enumerate(classes.tolist())}
    places = np.array([place_of.get(name, -1) for name in names.tolist()], dtype=int)
    known = places >= 0
    new = names[~known].tolist()
    if new:
        warnings.warn(
            f"{len(new)} label(s) of y were not in training, such as {new[0]!r:.80}: "
            "predictions for samples that have them count as wrong",
            UserWarning,
            stacklevel=3,
        )
    Y = Y.toarray()
    labels = np.zeros((len(Y), len(classes)), dtype=np.int64)
    labels[:, places[known]] = Y[:, known]
    return labels, Y[:, ~known].any(axis=1)


def check_columns(names, classes):
    """Raise an error if a DataFrame has other columns than the training data.

    Parameters
    ----------
    names : ndarray of shape (n_columns,) or None
        Names of the columns.
    classes : ndarray of shape (n_labels,)
        Labels of the classifier; numbers if there were no names.
    """
    if names is None or len(names) != len(classes):
        return
    names, classes = names.tolist(), classes.tolist()
    if names != classes and classes != list(range(len(classes))):
        raise ValueError(
            f"the columns of y must be the labels of training in their order, "
            f"{classes!r:.80}, got {names!r:.80}"
        )


def as_sets(labels, names):
    """Rows of an indicator as tuples of names, in a 1-D array of objects."""
    names, (rows, columns) = names.tolist(), np.nonzero(labels)
    bounds = np.searchsorted(rows, np.arange(len(labels) + 1))
    taken = [names[column] for column in columns.tolist()]
    spans = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    return object_array([tuple(taken[first:last]) for first, last in spans])


def indicator_of(y, n_labels):
    """Label indicator of a classifier with several labels, as 0 and 1."""
    if not sparse.issparse(y):
        y = np.asarray(y)
        y = y.astype(np.float64) if y.dtype == object else y
    if y.ndim != 2 or y.shape[1] != n_labels:
        columns = y.shape[1] if y.ndim == 2 else 1
        raise ValueError(
            f"y must have a column for each of {n_labels} labels, got {columns} columns"
        )
    return columns_of(y)[0]


def _hint_of_joined(values, separators):
    """Advice on strings that seem to contain several labels, or an empty string."""
    if not all(isinstance(value, str) for value in values):
        return ""
    for separator in separators:
        parts = [set(filter(None, value.split(separator))) for value in values]
        several = [
            value for value, each in zip(values, parts, strict=True) if each - {value}
        ]
        # parts that occur in several strings are labels
        if several and sum(map(len, parts)) > len(set().union(*parts)):
            return (
                f"If {several[0]!r:.80} is several labels in one, pass a set of labels "
                "for each sample, as "
                f"[set(filter(None, row.split({separator!r}))) for row in y]"
            )
    return ""


def columns_of(y):
    """Labels as an indicator of 0 and 1; the two values of a single label, or None."""
    if sparse.issparse(y) and y.shape[1] > 1 and y.dtype.kind in "biuf":
        y = sparse.csr_array(y)
        y.sum_duplicates()
        # values are checked in the sparse format; explicit zeros are labels that are
        # off
        if np.isin(y.data, (0, 1)).all():
            return y.astype(np.int32).toarray(), None
    if sparse.issparse(y):
        y = y.toarray()
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind.startswith("continuous"):
        raise ValueError(f"Unknown label type: {kind}; a label indicator has 0 and 1")
    if y.ndim == 2 and (y.dtype.kind in "biuf" and np.isin(y, (0, 1)).all()):
        if y.shape[1] == 0:
            raise ValueError("y has no label")
        return y.astype(np.int32), None
    if y.ndim == 2 and y.shape[1] > 1:
        i, j = np.argwhere(~np.isin(y, (0, 1)))[0].tolist()
        raise ValueError(
            "y must be a label indicator of 0 and 1, or -1 where it is not known, with "
            f"a column for each label, and y[{i}, {j}] is {y[i].tolist()[j]!r:.80}. "
            "Lists of labels that are numbers and equally many must be sets"
        )
    values, codes = np.unique(y, return_inverse=True)
    if len(values) > 2:
        hint = _hint_of_joined(values.tolist(), ",;| ")
        raise ValueError(
            "Only binary classification is supported for 1-D y. The type of the target "
            f"is {kind}; a label indicator has a column for each label, as "
            f"MultiLabelBinarizer makes it. {hint}".rstrip(" .")
        )
    # a space does not separate: names of classes may have two words
    hint = _hint_of_joined(values.tolist(), ",;|")
    if hint:
        raise ValueError(f"y has the two strings {values.tolist()!r:.160}. {hint}")
    if len(values) < 2:
        raise ValueError(f"y has 1 class, {values.tolist()[0]!r:.80}: training needs 2")
    return codes.astype(np.int32).reshape(-1, 1), values
