"""A report on chunks, kind by kind."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sksstruct.metrics._sequence import _pairs, iter_chunks


def chunk_classification_report(
    y_true: Sequence[Sequence[str]] | np.ndarray,
    y_pred: Sequence[Sequence[str]] | np.ndarray,
    *,
    digits: int = 2,
    output_dict: bool = False,
) -> str | Any:
    """Precision, recall and F1 of each kind of chunk, and of all together.

    The counterpart of `sklearn.metrics.classification_report` for chunks. A chunk is
    correct if its type and both of its ends are correct.

    Parameters
    ----------
    y_true, y_pred : list of sequences of str
        IOB tags; see `iter_chunks`.
    digits : int, default=2
        Digits after the point.
    output_dict : bool, default=False
        Whether to return a dict instead of a table.

    Returns
    -------
    report : str or dict
        A row for each type, and one named "all". As a dict of dicts with the entries
        ``precision``, ``recall``, ``f1-score`` and ``support``, the number of true
        chunks. A ratio whose denominator is zero is 0.

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
    _pairs(y_true, y_pred)
    true, found, right = Counter(), Counter(), Counter()
    for tags_true, tags_pred in zip(y_true, y_pred, strict=True):
        chunks_true, chunks_pred = (
            set(iter_chunks(tags_true)),
            set(iter_chunks(tags_pred)),
        )
        for counter, chunks in (
            (true, chunks_true),
            (found, chunks_pred),
            (right, chunks_true & chunks_pred),
        ):
            counter.update(kind for kind, _, _ in chunks)
    report = {
        kind: _row(true[kind], found[kind], right[kind])
        for kind in sorted(true | found)
    }
    report["all"] = _row(true.total(), found.total(), right.total())
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
