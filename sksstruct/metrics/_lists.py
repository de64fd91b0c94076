"""Checks of lists of outputs, which several metrics share."""

from collections.abc import Sized

import numpy as np

from sksstruct.utils.labels import check_labels


def check_lists(y_true, y_pred):
    """Raise an error unless both lists have the same, positive number of outputs."""
    for name, y in (("y_true", y_true), ("y_pred", y_pred)):
        if not isinstance(y, Sized) or isinstance(y, str):
            raise TypeError(f"{name} must be a list of outputs, got {y!r:.80}")
    if len(y_true) == 0:
        raise ValueError("y_true is empty: at least one output is required")
    if len(y_pred) != len(y_true):
        raise ValueError(
            f"y_pred must have as many outputs as y_true, {len(y_true)}, got "
            f"{len(y_pred)}"
        )


def check_shapes(true, predicted, i):
    """Raise an error unless the true and the predicted output i have the same shape."""
    if np.shape(true) != np.shape(predicted):
        raise ValueError(
            f"y_pred[{i}] must have the shape of y_true[{i}], {np.shape(true)}, got "
            f"{np.shape(predicted)}"
        )


def check_each(labels, name, partly=False):
    """Check a label for each sample; with `partly`, labels may be None or sets."""
    rows, ones = [[label] for label in labels], np.ones(len(labels), dtype=np.intp)
    return check_labels(rows, ones, name=name, unknown=partly, sets=partly)
