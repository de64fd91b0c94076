"""Checks of input: weights here, features and labels where they are packed.

Every error names the argument and the sequence at fault.
"""

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from sksstruct.utils.labels import (
    LabelEncoder,
    check_labels,
    costs_by_name,
    encode_labels,
    is_list,
)
from sksstruct.utils.packed import check_sequences

__all__ = [
    "LabelEncoder",
    "check_example_weight",
    "check_labels",
    "check_position_weight",
    "check_sequence_weight",
    "check_sequences",
    "costs_by_name",
    "encode_labels",
]


def _refuse_nested_weight(sample_weight, what, instead):
    """Raise an error for weights of parts of examples, in an array or in lists."""
    if not is_list(sample_weight) or not len(sample_weight):
        return
    if getattr(sample_weight, "ndim", 1) > 1 or is_list(next(iter(sample_weight))):
        raise ValueError(
            f"sample_weight must have one number for each {what}, not several: "
            f"{instead}"
        )


def check_sequence_weight(sample_weight, n_sequences, *, all_zero=False):
    """Weights of sequences as floats, or None; all may be zero with `all_zero`.

    Raises
    ------
    ValueError
        If the length does not fit, a weight is negative, NaN or infinite, or all are 0.
    """
    if sample_weight is None:
        return None
    _refuse_nested_weight(
        sample_weight,
        "sequence",
        "in training, class_weight weights positions by their labels, and positions "
        "with the label None have no loss",
    )
    weight = np.asarray(sample_weight)
    if weight.ndim == 1 and len(weight) != n_sequences:
        raise ValueError(
            f"sample_weight has {len(weight)} entries, but X has {n_sequences} "
            "sequences: it takes one weight for each sequence"
        )
    weight = _check_sample_weight(
        sample_weight,
        np.empty((n_sequences, 1)),
        dtype=np.float64,
        allow_all_zero_weights=True,
    )
    if (weight < 0).any():
        i = int(np.flatnonzero(weight < 0)[0])
        raise ValueError(
            f"sample_weight[{i}] is negative: {weight[i]}. Negative values in data "
            "passed to `sample_weight`"
        )
    if not weight.any() and not all_zero:
        raise ValueError("sample_weight is zero for every sequence")
    if not np.isfinite(weight.sum()):
        raise ValueError("sample_weight is too large: its sum is infinite")
    return weight


def check_position_weight(sample_weight, lengths):
    """Weights of all positions in a row, from weights of sequences, or None.

    Raises
    ------
    ValueError
        If `check_sequence_weight` does, or no position has a weight.
    """
    weight = check_sequence_weight(sample_weight, len(lengths))
    if not np.any(lengths if weight is None else weight * lengths):
        raise ValueError("no sequence of positive weight has positions to score")
    return None if weight is None else np.repeat(weight, lengths)


def check_example_weight(sample_weight, n_examples, factors=None):
    """Examples of positive weight, and their weights, which sum to one.

    Parameters
    ----------
    sample_weight : array-like of shape (n_examples,) or None
        Factor of each example's loss.
    n_examples : int
        Number of examples.
    factors : callable, default=None
        ``factors(weight)`` returns further factors, those of scikit-learn's
        ``class_weight``, which do not count in the sum.

    Returns
    -------
    keep : ndarray of int
        Numbers of the examples.
    weight : ndarray
        Their weights.

    Raises
    ------
    ValueError
        If a weight is not valid, or none is positive.
    """
    _refuse_nested_weight(
        sample_weight, "example", "nodes of a Graph have node_weights"
    )
    weight = _check_sample_weight(
        sample_weight, np.zeros((n_examples, 1)), ensure_non_negative=True
    )
    total = float(weight.sum())
    if factors is not None:
        factor = factors(weight)
        if not (np.isfinite(factor).all() and (factor >= 0.0).all()):
            raise ValueError("class_weight must be finite and not negative")
        weight = weight * factor
    if not np.isfinite(total):
        raise ValueError("sample_weight is too large: its sum overflows")
    keep = np.flatnonzero(weight > 0.0)
    if not len(keep):
        raise ValueError("class_weight and sample_weight leave no sample")
    return keep, weight[keep] / total
