"""Error rate of word alignments."""

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.metrics._lists import check_lists, check_shapes
from sksstruct.utils.typing import Labelings
from sksstruct.utils.validation import check_sequence_weight


def alignment_error_rate(
    y_true: Labelings, y_pred: Labelings, *, sample_weight: ArrayLike | None = None
) -> float:
    """Alignment error rate (AER), with sure and possible links.

    With the predicted links A, the sure links S, and the links P that are sure or
    possible, over all pairs of sentences (Och and Ney, 2003)::

        AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

    Parameters
    ----------
    y_true : list of array-like of shape (n_rows, n_columns)
        1 for a sure link, -1 for a possible link, 0 for no link, as in
        `sksstruct.datasets.load_hansards`.
    y_pred : list of array-like of shape (n_rows,) or (n_rows, n_columns)
        Matchings, as `sksstruct.models.MatchingModel` returns them: the column of each
        row, or -1. Or arrays that are nonzero at links.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of the links of each sample.

    Returns
    -------
    rate : float
        Between 0 and 1; lower is better. 0 if there are no links.

    References
    ----------
    F. J. Och and H. Ney, "A systematic comparison of various statistical alignment
    models", Computational Linguistics 29, 2003.

    Examples
    --------
    >>> from sksstruct.metrics import alignment_error_rate
    >>> alignment_error_rate([[[1, 0], [-1, 1]]], [[0, 0]])
    0.25
    """
    check_lists(y_true, y_pred)
    weight = check_sequence_weight(sample_weight, len(y_true))
    right, total = np.zeros((2, len(y_true)))
    for i, (links, predicted) in enumerate(zip(y_true, y_pred, strict=True)):
        links = np.asarray(links)
        if links.ndim != 2 or not np.isin(links, (-1, 0, 1)).all():
            raise ValueError(
                f"y_true[{i}] must be an array of shape (n_rows, n_columns) with 1 for "
                "sure links, -1 for possible links and 0 elsewhere"
            )
        predicted = _as_links(np.asarray(predicted), links.shape, f"y_pred[{i}]")
        check_shapes(links, predicted, i)
        # a predicted sure link counts twice, as P includes S
        right[i] = (links[predicted] == 1).sum() + (links[predicted] != 0).sum()
        total[i] = predicted.sum() + (links == 1).sum()
    if weight is not None:
        right, total = weight * right, weight * total
    return float(1.0 - right.sum() / total.sum()) if total.any() else 0.0


def _as_links(predicted, shape, name):
    """Convert a matching, or an array that is nonzero at links, to a bool array."""
    if predicted.ndim != 1 or len(predicted) != shape[0]:
        return predicted != 0
    links = np.zeros(shape, dtype=bool)
    rows = np.flatnonzero(predicted != -1)
    columns = predicted[rows]
    if columns.size and (
        columns.dtype.kind not in "iu" or columns.min() < 0 or columns.max() >= shape[1]
    ):
        raise ValueError(
            f"{name} must be columns, integers from 0 to {shape[1] - 1}, or -1"
        )
    links[rows, columns.astype(np.intp)] = True
    return links
