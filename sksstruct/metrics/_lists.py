"""Checks that metrics of lists of arrays share."""

from collections.abc import Sized

import numpy as np

from sksstruct.utils.labels import check_labels


def check_lists(y_true, y_pred):
    """Raise an error unless both have the same number of outputs, one at least."""
    for name, y in (("y_true", y_true), ("y_pred", y_pred)):
        if not isinstance(y, Sized) or isinstance(y, str):
            raise TypeError(f"{name} must be a list of outputs")
    if len(y_true) == 0:
        raise ValueError("y_true is empty: at least one output is required")
    if len(y_pred) != len(y_true):
        raise ValueError(
            f"y_pred has {len(y_pred)} outputs, but y_true has {len(y_true)}"
        )


def check_shapes(true, predicted, i):
    """Raise an error unless the outputs number i have one shape."""
    if np.shape(true) != np.shape(predicted):
        raise ValueError(
            f"y_pred[{i}] has shape {np.shape(predicted)}, but y_true[{i}] has "
            f"{np.shape(true)}"
        )


def check_each(labels, name, partly=False):
    """Checked labels of samples that have one each; partly None or sets."""
    rows, ones = [[label] for label in labels], np.ones(len(labels), dtype=np.intp)
    return check_labels(rows, ones, name=name, unknown=partly, sets=partly)
