"""Scores of label sequences: of all positions together, and of whole sequences."""

import warnings
from collections.abc import Sized
from textwrap import indent
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import (
    accuracy_score,
    classification_report,
    f1_score,
    fbeta_score,
    precision_score,
    recall_score,
)

from sksstruct.utils._doc import fill_doc
from sksstruct.utils.labels import count_known
from sksstruct.utils.observed import (
    PARTLY,
    check_any_known,
    known_pairs,
    observed,
    share_of_right,
)
from sksstruct.utils.typing import Labelings
from sksstruct.utils.validation import (
    check_labels,
    check_position_weight,
    check_sequence_weight,
)

# Descriptions of parameters, for the docstrings of scores of sequences.
TEXTS = PARTLY | {
    "flat": f"""
y_true : list of array-like of shape (n_positions,)
    True labels.
{indent(PARTLY["partly"].strip(), "    ")}
y_pred : list of array-like of shape (n_positions,)
    Predicted labels.
""",
    "averages": """
**kwargs
    Passed to scikit-learn, for instance ``average="macro"`` or ``labels=[...]``.
    `sample_weight` has a weight for each position, or for each sequence.
""",
}


def check_sequences(y, name, partly=False):
    """Check labels; return them concatenated, and the lengths of the sequences."""
    if not isinstance(y, Sized) or not all(isinstance(row, Sized) for row in y):
        raise TypeError(f"{name} must be a list of label sequences, got {y!r:.80}")
    lengths = np.array([len(row) for row in y], dtype=np.intp)
    return check_labels(y, lengths, name=name, unknown=partly, sets=partly), lengths


def check_pairs(y_true, y_pred):
    """Check two labelings; return both concatenated, and the lengths of the sequences.

    True labels may be None or frozensets.
    """
    flat_true, lengths = check_sequences(y_true, "y_true", partly=True)
    if not len(lengths):
        raise ValueError("y_true is empty: at least one sequence is required")
    if not flat_true:
        raise ValueError(
            "y_true has empty sequences only: at least one label is needed"
        )
    flat_pred, others = check_sequences(y_pred, "y_pred")
    if len(others) != len(lengths):
        raise ValueError(
            f"y_pred must have as many sequences as y_true, {len(lengths)}, got "
            f"{len(others)}"
        )
    if (others != lengths).any():
        i = int(np.flatnonzero(others != lengths)[0])
        raise ValueError(
            f"y_pred[{i}] must have as many labels as y_true[{i}], {lengths[i]}, got "
            f"{others[i]}"
        )
    return flat_true, flat_pred, lengths


@fill_doc(TEXTS)
def token_accuracy_score(
    y_true: Labelings, y_pred: Labelings, *, sample_weight: ArrayLike | None = None
) -> float:
    """Fraction of positions labeled correctly.

    Parameters
    ----------
    %(flat)s
    sample_weight : array-like of shape (n_sequences,), default=None
        Weight of the positions of each sequence.

    Returns
    -------
    score : float
        Between 0 and 1.

    Examples
    --------
    >>> from sksstruct.metrics import token_accuracy_score
    >>> token_accuracy_score([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    0.6666666666666666
    """
    pairs = check_pairs(y_true, y_pred)
    return share_of_right(*pairs, sample_weight, "y_true")


@fill_doc(TEXTS)
def sequence_accuracy_score(
    y_true: Labelings, y_pred: Labelings, *, sample_weight: ArrayLike | None = None
) -> float:
    """Fraction of sequences with all positions labeled correctly.

    A sequence that has positions, but no known label, is left out.

    Parameters
    ----------
    %(flat)s
    sample_weight : array-like of shape (n_sequences,), default=None
        Weight of each sequence.

    Returns
    -------
    score : float
        Between 0 and 1. Without any sequence 0, with an ``UndefinedMetricWarning``.

    Raises
    ------
    ValueError
        If there are sequences, but none has a label.

    Examples
    --------
    >>> from sksstruct.metrics import sequence_accuracy_score
    >>> sequence_accuracy_score([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    0.5
    """
    if isinstance(y_true, Sized) and not len(y_true) and not len(y_pred):
        warnings.warn(
            "y_true has no sequences: their accuracy is not defined, and set to 0",
            UndefinedMetricWarning,
            stacklevel=2,
        )
        return 0.0
    flat_true, flat_pred, lengths = check_pairs(y_true, y_pred)
    labels, known = observed(flat_true, flat_pred)
    check_any_known(known, "y_true")
    weight = check_sequence_weight(sample_weight, len(lengths))
    weight = np.ones(len(lengths)) if weight is None else weight
    weight = weight * ((count_known(known, lengths) > 0) | (lengths == 0))
    if not weight.any():
        raise ValueError("no sequence of positive weight has a known label in y_true")
    # `observed` has replaced unknown labels by the predictions, which count as right
    wrong = [a != b for a, b in zip(labels, flat_pred, strict=True)]
    whole = count_known(wrong, lengths) == 0
    return float(np.average(whole, weights=weight))


def _flat(y_true, y_pred, kwargs):
    """Return known labels, their predictions, and arguments with position weights."""
    flat_true, flat_pred, lengths = check_pairs(y_true, y_pred)
    labels, predicted, known = known_pairs(flat_true, flat_pred, "y_true")
    weight = kwargs.get("sample_weight")
    if weight is not None:
        if np.shape(weight) == known.shape:
            weight = np.asarray(weight)[known]
        else:
            weight = check_position_weight(weight, count_known(known, lengths))
        kwargs = {**kwargs, "sample_weight": weight}
    return labels, predicted, kwargs


@fill_doc(TEXTS)
def flat_accuracy_score(
    y_true: Labelings, y_pred: Labelings, **kwargs: Any
) -> float | Any:
    """Fraction of positions labeled correctly, by `sklearn.metrics.accuracy_score`.

    Parameters
    ----------
    %(flat)s
    **kwargs
        Passed to scikit-learn, for instance ``normalize=False``. `sample_weight` has a
        weight for each position, or for each sequence.

    Returns
    -------
    score : float
        Fraction between 0 and 1, as `token_accuracy_score` returns it; with
        ``normalize=False``, the number of positions labeled correctly.

    Examples
    --------
    >>> from sksstruct.metrics import flat_accuracy_score
    >>> flat_accuracy_score([["a", "b"], ["a"]], [["a", "a"], ["a"]], normalize=False)
    2.0
    """
    flat_true, flat_pred, kwargs = _flat(y_true, y_pred, kwargs)
    return accuracy_score(flat_true, flat_pred, **kwargs)


@fill_doc(TEXTS)
def flat_precision_score(
    y_true: Labelings, y_pred: Labelings, **kwargs: Any
) -> float | Any:
    """Precision of the labels of all positions, by `sklearn.metrics.precision_score`.

    Parameters
    ----------
    %(flat)s
    %(averages)s

    Returns
    -------
    score : float or ndarray
        Precision of each label, or their average.

    Examples
    --------
    >>> from sksstruct.metrics import flat_precision_score
    >>> flat_precision_score([["a", "b"], ["a"]], [["a", "b"], ["b"]], average="macro")
    0.75
    """
    flat_true, flat_pred, kwargs = _flat(y_true, y_pred, kwargs)
    return precision_score(flat_true, flat_pred, **kwargs)


@fill_doc(TEXTS)
def flat_recall_score(
    y_true: Labelings, y_pred: Labelings, **kwargs: Any
) -> float | Any:
    """Recall of the labels of all positions, by `sklearn.metrics.recall_score`.

    Parameters
    ----------
    %(flat)s
    %(averages)s

    Returns
    -------
    score : float or ndarray
        Recall of each label, or their average.

    Examples
    --------
    >>> from sksstruct.metrics import flat_recall_score
    >>> flat_recall_score([["a", "b"], ["a"]], [["a", "b"], ["b"]], average="macro")
    0.75
    """
    flat_true, flat_pred, kwargs = _flat(y_true, y_pred, kwargs)
    return recall_score(flat_true, flat_pred, **kwargs)


@fill_doc(TEXTS)
def flat_fbeta_score(
    y_true: Labelings, y_pred: Labelings, beta: float, **kwargs: Any
) -> float | Any:
    """F-beta of the labels of all positions, by `sklearn.metrics.fbeta_score`.

    Parameters
    ----------
    %(flat)s
    beta : float
        Weight of recall beside precision: above 1, recall matters more.
    %(averages)s

    Returns
    -------
    score : float or ndarray
        F-beta of each label, or their average.

    Examples
    --------
    >>> from sksstruct.metrics import flat_fbeta_score
    >>> y_true, y_pred = [["a", "b"], ["a"]], [["a", "b"], ["b"]]
    >>> round(flat_fbeta_score(y_true, y_pred, beta=2, average="macro"), 4)
    0.6944
    """
    flat_true, flat_pred, kwargs = _flat(y_true, y_pred, kwargs)
    return fbeta_score(flat_true, flat_pred, beta=beta, **kwargs)


@fill_doc(TEXTS)
def flat_f1_score(y_true: Labelings, y_pred: Labelings, **kwargs: Any) -> float | Any:
    """F1 of the labels of all positions, by `sklearn.metrics.f1_score`.

    Parameters
    ----------
    %(flat)s
    %(averages)s

    Returns
    -------
    score : float or ndarray
        F1 of each label, or their average.

    Examples
    --------
    >>> from sksstruct.metrics import flat_f1_score
    >>> flat_f1_score([["a", "b"], ["a"]], [["a", "b"], ["b"]], average="macro")
    0.6666666666666666
    """
    flat_true, flat_pred, kwargs = _flat(y_true, y_pred, kwargs)
    return f1_score(flat_true, flat_pred, **kwargs)


@fill_doc(TEXTS)
def flat_classification_report(
    y_true: Labelings, y_pred: Labelings, **kwargs: Any
) -> str | Any:
    """Report on all positions, by `sklearn.metrics.classification_report`.

    Parameters
    ----------
    %(flat)s
    **kwargs
        Passed to scikit-learn. `sample_weight` has a weight for each position, or for
        each sequence.

    Returns
    -------
    report : str or dict
        Precision, recall and F1 of each label.

    Examples
    --------
    >>> from sksstruct.metrics import flat_classification_report
    >>> print(flat_classification_report([["a", "b"], ["a"]], [["a", "a"], ["a"]],
    ...                                  zero_division=0))
                  precision    recall  f1-score   support
    <BLANKLINE>
               a       0.67      1.00      0.80         2
               b       0.00      0.00      0.00         1
    <BLANKLINE>
        accuracy                           0.67         3
       macro avg       0.33      0.50      0.40         3
    weighted avg       0.44      0.67      0.53         3
    <BLANKLINE>
    """
    flat_true, flat_pred, kwargs = _flat(y_true, y_pred, kwargs)
    return classification_report(flat_true, flat_pred, **kwargs)
