"""Scores of label sequences, flat and per sequence, and chunks in the CoNLL sense."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import classification_report, f1_score

from sksstruct.utils.typing import Labelings
from sksstruct.utils.validation import (
    check_labels,
    check_position_weight,
    check_sequence_weight,
)


def _are_sequences(y):
    return hasattr(y, "__len__") and all(hasattr(row, "__len__") for row in y)


def _pairs(y_true, y_pred):
    """Checked labels of all positions in a row, and the lengths of the sequences."""
    for name, y in (("y_true", y_true), ("y_pred", y_pred)):
        if not _are_sequences(y):
            raise TypeError(f"{name} must be a list of label sequences")
    if len(y_true) == 0:
        raise ValueError("y_true is empty: at least one sequence is required")
    lengths = np.array([len(row) for row in y_true])
    if not lengths.sum():
        raise ValueError("y_true has no labels at all")
    if len(y_pred) != len(lengths):
        raise ValueError(
            f"y_pred has {len(y_pred)} sequences, but y_true has {len(lengths)}"
        )
    for i, row in enumerate(y_pred):
        if len(row) != lengths[i]:
            raise ValueError(
                f"y_pred[{i}] has {len(row)} labels, but y_true[{i}] has {lengths[i]}"
            )
    return (
        check_labels(y_true, lengths, name="y_true"),
        check_labels(y_pred, lengths, name="y_pred"),
        lengths,
    )


def _correct(y_true, y_pred):
    """Whether each position is labeled correctly, and the lengths of the sequences."""
    flat_true, flat_pred, lengths = _pairs(y_true, y_pred)
    pairs = zip(flat_true, flat_pred, strict=True)
    equal = (true == predicted for true, predicted in pairs)
    return np.fromiter(equal, dtype=bool, count=len(flat_true)), lengths


def token_accuracy_score(
    y_true: Labelings, y_pred: Labelings, *, sample_weight: ArrayLike | None = None
) -> float:
    """Fraction of positions labeled correctly.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,)
        True and predicted labels.
    sample_weight : array-like of shape (n_sequences,), default=None
        Weight of each sequence's positions.

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
    correct, lengths = _correct(y_true, y_pred)
    weight = check_position_weight(sample_weight, lengths)
    return float(np.average(correct, weights=weight))


def sequence_accuracy_score(
    y_true: Labelings, y_pred: Labelings, *, sample_weight: ArrayLike | None = None
) -> float:
    """Fraction of sequences with all positions labeled correctly.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,)
        True and predicted labels.
    sample_weight : array-like of shape (n_sequences,), default=None
        Weight of each sequence.

    Returns
    -------
    score : float
        Between 0 and 1.

    Examples
    --------
    >>> from sksstruct.metrics import sequence_accuracy_score
    >>> sequence_accuracy_score([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    0.5
    """
    correct, lengths = _correct(y_true, y_pred)
    weight = check_sequence_weight(sample_weight, len(lengths))
    ends = np.cumsum(lengths)
    whole = [
        correct[end - length : end].all()
        for end, length in zip(ends, lengths, strict=True)
    ]
    return float(np.average(whole, weights=weight))


def flat_f1_score(y_true: Labelings, y_pred: Labelings, **kwargs: Any) -> float | Any:
    """F1 of the labels of all positions, by `sklearn.metrics.f1_score`.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,)
        True and predicted labels.
    **kwargs
        Passed to scikit-learn, for instance ``average="macro"`` or ``labels=[...]``.

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
    flat_true, flat_pred, _ = _pairs(y_true, y_pred)
    return f1_score(flat_true, flat_pred, **kwargs)


def flat_classification_report(
    y_true: Labelings, y_pred: Labelings, **kwargs: Any
) -> str | Any:
    """Report on all positions, by `sklearn.metrics.classification_report`.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,)
        True and predicted labels.
    **kwargs
        Passed to scikit-learn.

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
    flat_true, flat_pred, _ = _pairs(y_true, y_pred)
    return classification_report(flat_true, flat_pred, **kwargs)


def iter_chunks(tags: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    """Chunks of one sequence of IOB tags, as the CoNLL-2000 evaluation reads them.

    ``B-x`` begins a chunk of type x. ``I-x`` continues a chunk of type x, or begins one
    after anything else. Every other tag ends a chunk.

    Parameters
    ----------
    tags : iterable of str
        Tags such as ``B-NP``, ``I-NP``, ``O``.

    Yields
    ------
    chunk : tuple of (str, int, int)
        Type, first position, and the position after the last.

    Examples
    --------
    >>> from sksstruct.metrics import iter_chunks
    >>> list(iter_chunks(["B-NP", "I-NP", "O", "I-VP"]))
    [('NP', 0, 2), ('VP', 3, 4)]
    """
    start, kind = 0, None
    for t, tag in enumerate(chain(tags, ["O"])):
        prefix, dash, name = str(tag).partition("-")
        inside = bool(dash) and prefix in ("B", "I")
        if kind is not None and not (inside and prefix == "I" and name == kind):
            yield kind, start, t
            kind = None
        if inside and kind is None:
            start, kind = t, name


def chunk_precision_recall_fscore(
    y_true: Sequence[Sequence[str]] | np.ndarray,
    y_pred: Sequence[Sequence[str]] | np.ndarray,
) -> tuple[float, float, float]:
    """Precision, recall and F1 of chunks, whose type and both ends must be right.

    Parameters
    ----------
    y_true, y_pred : list of sequences of str
        IOB tags; see `iter_chunks`.

    Returns
    -------
    precision, recall, f1 : float
        Scores between 0 and 1; 0, with a warning, if the denominator is zero.

    Examples
    --------
    >>> from sksstruct.metrics import chunk_precision_recall_fscore
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> y_pred = [["B-PER", "O", "O", "B-LOC"]]
    >>> chunk_precision_recall_fscore(y_true, y_pred)
    (0.5, 0.5, 0.5)
    """
    _pairs(y_true, y_pred)
    found = true = right = 0
    for tags_true, tags_pred in zip(y_true, y_pred, strict=True):
        chunks_true = set(iter_chunks(tags_true))
        chunks_pred = set(iter_chunks(tags_pred))
        true += len(chunks_true)
        found += len(chunks_pred)
        right += len(chunks_true & chunks_pred)
    if not true or not found:
        warnings.warn(
            f"there are no chunks in {'y_true' if not true else 'y_pred'}: precision, "
            "recall or F1 is set to 0",
            UndefinedMetricWarning,
            stacklevel=2,
        )
    precision = right / found if found else 0.0
    recall = right / true if true else 0.0
    f1 = 2 * right / (true + found) if true + found else 0.0
    return precision, recall, f1


def chunk_f1_score(
    y_true: Sequence[Sequence[str]] | np.ndarray,
    y_pred: Sequence[Sequence[str]] | np.ndarray,
) -> float:
    """F1 of chunks in the CoNLL sense; see `chunk_precision_recall_fscore`.

    Parameters
    ----------
    y_true, y_pred : list of sequences of str
        IOB tags.

    Returns
    -------
    f1 : float
        Between 0 and 1.

    Examples
    --------
    >>> from sksstruct.metrics import chunk_f1_score
    >>> chunk_f1_score([["B-NP", "I-NP", "B-NP"]], [["B-NP", "I-NP", "O"]])
    0.6666666666666666
    """
    return chunk_precision_recall_fscore(y_true, y_pred)[2]
