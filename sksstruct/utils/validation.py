"""Checks of input: weights here, features and labels in the modules that pack them.

Every error names the argument and the sequence at fault.
"""

from numbers import Real

import numpy as np
from sklearn.utils.validation import check_array

from sksstruct.utils.labels import (
    LabelEncoder,
    check_known,
    check_labels,
    encode_choices,
    is_list,
    label_costs,
)
from sksstruct.utils.packed import check_sequences

__all__ = [
    "LabelEncoder",
    "check_example_weight",
    "check_heads",
    "check_known",
    "check_labels",
    "check_position_weight",
    "check_sequence_weight",
    "check_sequences",
    "check_weight",
    "encode_choices",
    "label_costs",
]


def _refuse_nested_weight(sample_weight, what, instead):
    """Raise an error for weights of parts of examples, 2-D or nested."""
    if not is_list(sample_weight) or not len(sample_weight):
        return
    if getattr(sample_weight, "ndim", 1) > 1 or is_list(next(iter(sample_weight))):
        raise ValueError(
            f"sample_weight must have one number for each {what}, not several: "
            f"{instead}"
        )


def check_weight(sample_weight, n_examples, what="example"):
    """Return finite, nonnegative weights of examples; None means equal weights.

    Raises
    ------
    ValueError
        If there is not one number for each example, or a weight is not valid.
    """
    if sample_weight is None or isinstance(sample_weight, Real):
        weight = np.full(n_examples, 1.0 if sample_weight is None else sample_weight)
        weight = weight.astype(np.float64)
    else:
        weight = check_array(
            sample_weight,
            dtype=np.float64,
            order="C",
            ensure_2d=False,
            ensure_min_samples=0,
            input_name="sample_weight",
        )
    if weight.shape != (n_examples,):
        is_vector = weight.ndim == 1
        entries = f"{len(weight)} entries" if is_vector else f"shape {weight.shape}"
        raise ValueError(
            f"sample_weight has {entries}, but X has {n_examples} {what}s: it takes "
            f"one weight for each {what}"
        )
    if not (weight >= 0).all():
        i = int(np.flatnonzero(~(weight >= 0))[0])
        if np.isnan(weight[i]):
            raise ValueError(f"sample_weight[{i}] is NaN: weights are numbers")
        raise ValueError(
            f"sample_weight[{i}] is negative: {weight[i]}. Negative values in data "
            "passed to `sample_weight`"
        )
    return weight


def check_sequence_weight(sample_weight, n_sequences, *, all_zero=False):
    """Return weights of sequences as floats, or None; `all_zero`: all of them may be 0.

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
    weight = check_weight(sample_weight, n_sequences, "sequence")
    if not weight.any() and not all_zero:
        raise ValueError("sample_weight is zero for every sequence")
    if not np.isfinite(weight.sum()):
        raise ValueError("sample_weight is too large: its sum is infinite")
    return weight


def check_position_weight(sample_weight, lengths):
    """Return the weights of all positions from weights of sequences, or None.

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
    """Return the examples of positive weight, and their normalized weights.

    Parameters
    ----------
    sample_weight : array-like of shape (n_examples,) or None
        Factor of each example's loss.
    n_examples : int
        Number of examples.
    factors : callable, default=None
        ``factors(weight)`` returns further factors, such as those of scikit-learn's
        ``class_weight``, which do not change the sum by which weights are divided.

    Returns
    -------
    keep : ndarray of int
        Numbers of the examples.
    weight : ndarray
        Weights of these examples, which sum to one without `factors`.

    Raises
    ------
    ValueError
        If a weight is not valid, or none is positive.
    """
    _refuse_nested_weight(
        sample_weight, "example", "nodes of a Graph have node_weights"
    )
    weight = check_weight(sample_weight, n_examples)
    total = float(weight.sum())
    if not total:
        raise ValueError("sample_weight must contain at least one non-zero number")
    if factors is not None:
        factor = factors(weight)
        if not (np.isfinite(factor).all() and (factor >= 0.0).all()):
            k = int(np.argmax(~(np.isfinite(factor) & (factor >= 0.0))))
            raise ValueError(
                "class_weight must be finite and not negative, got the factor "
                f"{factor[k]} for example {k}"
            )
        weight = weight * factor
    if not np.isfinite(total):
        raise ValueError("sample_weight is too large: its sum overflows")
    keep = np.flatnonzero(weight > 0.0)
    if not len(keep):
        raise ValueError("class_weight and sample_weight leave no sample")
    return keep, weight[keep] / total


def check_heads(heads, n_words, name):
    """Return the heads of a sentence's words as integers; they need not form a tree."""
    heads = np.asarray(heads)
    if heads.shape == (n_words,) == (0,):
        return heads.astype(np.intp)
    if heads.dtype.kind in "iu" and heads.shape == (n_words,):
        return heads
    text = (
        f"{name} must be integers of shape ({n_words},), the head of each of {n_words} "
        f"words, got {heads.dtype} of shape {heads.shape}"
    )
    if heads.dtype.kind in "USO":
        text += "; convert what was read from a file by int"
    raise ValueError(text)
