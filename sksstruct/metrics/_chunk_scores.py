"""Scores and reports of chunks, whose type and both ends must be right."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from sksstruct.metrics._chunks import TEXTS, Chunked
from sksstruct.metrics._sequence import check_pairs
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.observed import check_any_known, observed
from sksstruct.utils.typing import Scheme


def _counts(y_true, y_pred, scheme, strict):
    """Types of chunks, and numbers of true, predicted and right ones of each type."""
    flat_true, flat_pred, lengths = check_pairs(y_true, y_pred)
    labels, known = observed(flat_true, flat_pred)
    check_any_known(known, "y_true")
    flats = {"y_true": labels, "y_pred": flat_pred}
    chunked = Chunked(flats, lengths, scheme, strict, known)
    (kinds, starts, ends), (kinds_pred, starts_pred, ends_pred) = chunked.chunks
    # type and end of the true chunk that begins at a position
    found = np.full((2, len(flat_true)), -1)
    found[:, starts] = kinds, ends
    right = (found[:, starts_pred] == (kinds_pred, ends_pred)).all(axis=0)
    names = chunked.labels.names
    counts = [
        np.bincount(each, minlength=len(names))
        for each in (kinds, kinds_pred, kinds_pred[right])
    ]
    return names, np.array(counts)


@fill_doc(TEXTS)
def chunk_precision_recall_fscore(
    y_true: Sequence[Sequence[str]] | np.ndarray,
    y_pred: Sequence[Sequence[str]] | np.ndarray,
    *,
    scheme: Scheme = "auto",
    strict: bool = False,
) -> tuple[float, float, float]:
    """Precision, recall and F1 of chunks, whose type and both ends must be right.

    Parameters
    ----------
    %(chunk_labels)s
    %(reading)s

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
    _, counts = _counts(y_true, y_pred, scheme, strict)
    true, found, right = counts.sum(axis=1).tolist()
    if not true or not found:
        warnings.warn(
            f"there are no chunks in {'y_true' if not true else 'y_pred'}: precision, "
            "recall or F1 is set to 0",
            UndefinedMetricWarning,
            stacklevel=2,
        )
    row = _row(true, found, right)
    return row["precision"], row["recall"], row["f1-score"]


@fill_doc(TEXTS)
def chunk_f1_score(
    y_true: Sequence[Sequence[str]] | np.ndarray,
    y_pred: Sequence[Sequence[str]] | np.ndarray,
    *,
    scheme: Scheme = "auto",
    strict: bool = False,
) -> float:
    """F1 of chunks; see `chunk_precision_recall_fscore`.

    `sksstruct.metrics.chunk_f1_scorer` is the scorer with the defaults. Others are made
    by scikit-learn, for instance ``make_scorer(chunk_f1_score, strict=True)``.

    Parameters
    ----------
    %(chunk_labels)s
    %(reading)s

    Returns
    -------
    f1 : float
        Between 0 and 1.

    Examples
    --------
    >>> from sksstruct.metrics import chunk_f1_score
    >>> chunk_f1_score([["B-NP", "I-NP", "B-NP"]], [["B-NP", "I-NP", "O"]])
    0.6666666666666666
    >>> chunk_f1_score([["B-NP", "E-NP", "S-NP"]], [["B-NP", "E-NP", "O"]])
    0.6666666666666666
    """
    return chunk_precision_recall_fscore(y_true, y_pred, scheme=scheme, strict=strict)[
        2
    ]


@fill_doc(TEXTS)
def chunk_classification_report(
    y_true: Sequence[Sequence[str]] | np.ndarray,
    y_pred: Sequence[Sequence[str]] | np.ndarray,
    *,
    scheme: Scheme = "auto",
    strict: bool = False,
    digits: int = 2,
    output_dict: bool = False,
) -> str | Any:
    """Precision, recall and F1 of each kind of chunk, and of all together.

    The counterpart of `sklearn.metrics.classification_report` for chunks. A chunk is
    correct if its type and both of its ends are correct.

    Parameters
    ----------
    %(chunk_labels)s
    %(reading)s
    digits : int, default=2
        Digits after the point.
    output_dict : bool, default=False
        Whether to return a dict instead of a table.

    Returns
    -------
    report : str or dict
        A row for each type, and one named "all", or "(all)" beside a type "all". As a
        dict of dicts with the entries ``precision``, ``recall``, ``f1-score`` and
        ``support``, the number of true chunks. A ratio whose denominator is zero is 0.

    Examples
    --------
    >>> from sksstruct.metrics import chunk_classification_report
    >>> y_true = [["B-NP", "I-NP", "B-VP"], ["B-NP"]]
    >>> y_pred = [["B-NP", "I-NP", "B-VP"], ["O"]]
    >>> print(chunk_classification_report(y_true, y_pred))
        precision    recall  f1-score   support
    NP       1.00      0.50      0.67         2
    VP       1.00      1.00      1.00         1
    all      1.00      0.67      0.80         3
    """
    names, counts = _counts(y_true, y_pred, scheme, strict)
    report = {
        name: _row(*row)
        for name, row in zip(names, counts.T.tolist(), strict=True)
        if row[0] or row[1]
    }
    summary = "all"
    while summary in report:
        summary = f"({summary})"
    report[summary] = _row(*counts.sum(axis=1).tolist())
    return report if output_dict else _table(report, digits)


def _row(true, found, right):
    return {
        "precision": right / found if found else 0.0,
        "recall": right / true if true else 0.0,
        "f1-score": 2 * right / (true + found) if true + found else 0.0,
        "support": true,
    }


def _table(report, digits):
    width = max(map(len, report))
    header = ("precision", "recall", "f1-score", "support")
    lines = [" " * width + "".join(f"{name:>10}" for name in header)]
    for kind, row in report.items():
        cells = [f"{row[name]:10.{digits}f}" for name in header[:3]]
        lines.append(f"{kind:<{width}}" + "".join(cells) + f"{row['support']:10d}")
    return "\n".join(lines)
