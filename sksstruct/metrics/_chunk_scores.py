"""Scores and reports of chunks; a right chunk has the right type and both ends."""

import warnings
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from sksstruct.metrics._chunks import TEXTS as _OF_CHUNKS
from sksstruct.metrics._chunks import Chunked
from sksstruct.metrics._sequence import check_pairs
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.observed import check_any_known, observed
from sksstruct.utils.typing import Scheme

Average: TypeAlias = Literal["micro", "macro", "weighted"] | None
AVERAGES = ("micro", "macro", "weighted", None)
_COLUMNS = ("precision", "recall", "f1-score")
TEXTS = _OF_CHUNKS | {
    "average": """
average : {"micro", "macro", "weighted"} or None, default="micro"
    "micro": one score of the chunks of all types together, as in the CoNLL evaluation.
    "macro": the mean over the types of chunks in y_true or y_pred. "weighted": the mean
    over these types, weighted by the number of true chunks. None: an array with the
    score of each of these types, in alphabetical order.
""",
}


def chunk_pairs(y_true, y_pred, scheme, strict):
    """Return the names of types, and arrays of the true and the predicted chunks.

    A chunk is a column of an array: the index of its type, the first position, and the
    position after the last, where the positions of all sequences are concatenated.
    """
    flat_true, flat_pred, lengths = check_pairs(y_true, y_pred)
    labels, known = observed(flat_true, flat_pred)
    check_any_known(known, "y_true")
    flats = {"y_true": labels, "y_pred": flat_pred}
    chunked = Chunked(flats, lengths, scheme, strict, known)
    return chunked.labels.names, *map(np.array, chunked.chunks)


def _counts(y_true, y_pred, scheme, strict):
    """Return the types' names, and numbers of true, predicted and right chunks."""
    names, true, found = chunk_pairs(y_true, y_pred, scheme, strict)
    # type and end of the true chunk that begins at each position
    size = max([0, *true[2, -1:], *found[2, -1:]])
    beginning = np.full((2, size), -1)
    beginning[:, true[1]] = true[[0, 2]]
    right = (beginning[:, found[1]] == found[[0, 2]]).all(axis=0)
    counts = [
        np.bincount(each, minlength=len(names))
        for each in (true[0], found[0], found[0, right])
    ]
    return names, np.array(counts)


def _averaged(y_true, y_pred, scheme, strict, average, columns):
    """Return precision, recall or F1, averaged over the types of chunks.

    `columns` has the indices of the scores to return. A warning names scores whose
    denominator is zero.
    """
    if average not in AVERAGES:
        *first, last = map(repr, AVERAGES)
        raise ValueError(
            f"average must be {', '.join(first)} or {last}, got {average!r:.80}"
        )
    names, counts = _counts(y_true, y_pred, scheme, strict)
    totals = counts.sum(axis=1)
    if average == "micro" or not totals[:2].all():
        _warn_of_none(totals.tolist())
    occurs = counts[:2].any(axis=0)
    counts = counts[:, occurs] if average != "micro" else totals[:, None]
    if average != "micro" and totals[:2].all():
        _warn_of_types(np.array(names)[occurs], counts, columns)
    rows = [_row(*column) for column in counts.T.tolist()]
    scores = np.array([[row[name] for name in _COLUMNS] for row in rows])
    scores = scores.reshape(len(rows), len(_COLUMNS))[:, columns].T
    if average is None:
        return tuple(scores)
    weight = counts[0] if average == "weighted" else np.ones(len(rows))
    total = weight.sum()
    return tuple((scores @ weight / total if total else np.zeros(len(scores))).tolist())


def _warn_of_none(totals):
    true, found, _ = totals
    if not true or not found:
        warnings.warn(
            f"there are no chunks in {'y_true' if not true else 'y_pred'}: precision, "
            "recall or F1 is set to 0",
            UndefinedMetricWarning,
            stacklevel=4,
        )


def _warn_of_types(names, counts, columns):
    for column, count, which in ((0, counts[1], "y_pred"), (1, counts[0], "y_true")):
        if column in columns and not count.all():
            listed = ", ".join(map(repr, names[count == 0].tolist()))
            warnings.warn(
                f"{which} has no chunks of the types {listed:.200}: their "
                f"{_COLUMNS[column]} is set to 0",
                UndefinedMetricWarning,
                stacklevel=4,
            )


@fill_doc(TEXTS)
def chunk_precision_recall_fscore(
    y_true: Sequence[Sequence[str]] | np.ndarray,
    y_pred: Sequence[Sequence[str]] | np.ndarray,
    *,
    scheme: Scheme = "auto",
    strict: bool = False,
    average: Average = "micro",
) -> tuple[float, float, float] | Any:
    """Precision, recall and F1 of chunks, whose type and both ends must be right.

    Parameters
    ----------
    %(chunk_labels)s
    %(reading)s
    %(average)s

    Returns
    -------
    precision, recall, f1 : float or ndarray of shape (n_types,)
        Scores between 0 and 1; 0, with a warning, if the denominator is zero.

    Examples
    --------
    >>> from sksstruct.metrics import chunk_precision_recall_fscore
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> y_pred = [["B-PER", "O", "O", "B-LOC"]]
    >>> chunk_precision_recall_fscore(y_true, y_pred)
    (0.5, 0.5, 0.5)
    >>> precision, recall, f1 = chunk_precision_recall_fscore(
    ...     y_true, y_pred, average=None
    ... )
    >>> dict(zip(["LOC", "PER"], f1.tolist()))
    {'LOC': 1.0, 'PER': 0.0}
    """
    return _averaged(y_true, y_pred, scheme, strict, average, [0, 1, 2])


@fill_doc(TEXTS)
def chunk_precision_score(
    y_true: Sequence[Sequence[str]] | np.ndarray,
    y_pred: Sequence[Sequence[str]] | np.ndarray,
    *,
    scheme: Scheme = "auto",
    strict: bool = False,
    average: Average = "micro",
) -> float | Any:
    """Fraction of predicted chunks that are right; see `chunk_precision_recall_fscore`.

    Parameters
    ----------
    %(chunk_labels)s
    %(reading)s
    %(average)s

    Returns
    -------
    precision : float or ndarray of shape (n_types,)
        Between 0 and 1.

    Examples
    --------
    >>> from sksstruct.metrics import chunk_precision_score
    >>> chunk_precision_score([["B-NP", "I-NP", "O"]], [["B-NP", "I-NP", "B-NP"]])
    0.5
    """
    (precision,) = _averaged(y_true, y_pred, scheme, strict, average, [0])
    return precision


@fill_doc(TEXTS)
def chunk_recall_score(
    y_true: Sequence[Sequence[str]] | np.ndarray,
    y_pred: Sequence[Sequence[str]] | np.ndarray,
    *,
    scheme: Scheme = "auto",
    strict: bool = False,
    average: Average = "micro",
) -> float | Any:
    """Fraction of true chunks that were predicted; see `chunk_precision_recall_fscore`.

    Parameters
    ----------
    %(chunk_labels)s
    %(reading)s
    %(average)s

    Returns
    -------
    recall : float or ndarray of shape (n_types,)
        Between 0 and 1.

    Examples
    --------
    >>> from sksstruct.metrics import chunk_recall_score
    >>> chunk_recall_score([["B-NP", "I-NP", "B-NP"]], [["B-NP", "I-NP", "O"]])
    0.5
    """
    (recall,) = _averaged(y_true, y_pred, scheme, strict, average, [1])
    return recall


@fill_doc(TEXTS)
def chunk_f1_score(
    y_true: Sequence[Sequence[str]] | np.ndarray,
    y_pred: Sequence[Sequence[str]] | np.ndarray,
    *,
    scheme: Scheme = "auto",
    strict: bool = False,
    average: Average = "micro",
) -> float | Any:
    """F1 of chunks; see `chunk_precision_recall_fscore`.

    `sksstruct.metrics.chunk_f1_scorer` is the scorer with the defaults, and
    `sksstruct.metrics.chunk_f1_macro_scorer` the scorer with ``average="macro"``. Make
    other scorers by scikit-learn, for instance ``make_scorer(chunk_f1_score,
    strict=True)``.

    Parameters
    ----------
    %(chunk_labels)s
    %(reading)s
    %(average)s

    Returns
    -------
    f1 : float or ndarray of shape (n_types,)
        Between 0 and 1.

    Examples
    --------
    >>> from sksstruct.metrics import chunk_f1_score
    >>> chunk_f1_score([["B-NP", "I-NP", "B-NP"]], [["B-NP", "I-NP", "O"]])
    0.6666666666666666
    >>> chunk_f1_score([["B-NP", "E-NP", "S-NP"]], [["B-NP", "E-NP", "O"]])
    0.6666666666666666
    """
    (f1,) = _averaged(y_true, y_pred, scheme, strict, average, [2])
    return f1


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
    """Precision, recall and F1 of each type of chunk, and of all types together.

    The report is the counterpart of `sklearn.metrics.classification_report` for chunks.
    A chunk is correct if its type and both of its ends are correct.

    Parameters
    ----------
    %(chunk_labels)s
    %(reading)s
    digits : int, default=2
        Number of digits after the decimal point.
    output_dict : bool, default=False
        Whether to return a dict instead of a table.

    Returns
    -------
    report : str or dict
        A table with a row for each type, and a row "all", or "(all)" if a type has the
        name "all". With `output_dict`, a dict with a dict for each row, with the
        entries ``precision``, ``recall``, ``f1-score`` and ``support``, the number of
        true chunks. A ratio whose denominator is zero is 0.

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
