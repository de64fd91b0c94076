"""Intersection over union of masks, or of any arrays of labels."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.metrics._lists import check_lists, check_shapes
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._layout import object_array
from sksstruct.utils.observed import PARTLY, check_any_known, observed
from sksstruct.utils.typing import Labelings
from sksstruct.utils.validation import (
    check_labels,
    check_position_weight,
    check_sequence_weight,
)


@fill_doc(PARTLY)
def mask_iou_score(
    y_true: Labelings,
    y_pred: Labelings,
    *,
    labels: ArrayLike | None = None,
    average: Literal["macro"] | None = "macro",
    per: Literal["class", "image"] = "class",
    sample_weight: ArrayLike | None = None,
) -> float | Any:
    """Intersection over union (IoU) of masks.

    The IoU of a class is the number of places with this class in both masks, divided by
    the number of places with this class in at least one mask.

    Parameters
    ----------
    y_true : list of array-like
        True labels of each image: of pixels, of superpixels, of nodes, in arrays of any
        shape.
        %(partly)s
    y_pred : list of array-like
        Predicted labels, in arrays of the same shapes.
    labels : array-like of shape (n_classes,), default=None
        The classes. None: all classes that occur, in ascending order. For the
        foreground of binary masks, pass ``[1]`` or ``[True]``.
    average : {"macro"} or None, default="macro"
        "macro": the mean over the classes. None: one number for each class.
    per : {"class", "image"}, default="class"
        "class": numbers of places are summed over all images first. "image": the mean
        of the IoU of each image, in which small objects count as much as large objects.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each image.

    Returns
    -------
    score : float or ndarray of shape (n_classes,)
        Between 0 and 1. The score of a class that does not occur is NaN, and is ignored
        in means.

    Examples
    --------
    >>> from sksstruct.metrics import mask_iou_score
    >>> y_true, y_pred = [[[0, 1], [1, 1]]], [[[0, 0], [1, 1]]]
    >>> mask_iou_score(y_true, y_pred, average=None).round(3).tolist()
    [0.5, 0.667]
    """
    if average not in ("macro", None):
        raise ValueError(f"average must be 'macro' or None, got {average!r}")
    if per not in ("class", "image"):
        raise ValueError(f"per must be 'class' or 'image', got {per!r}")
    check_lists(y_true, y_pred)
    weight = check_sequence_weight(sample_weight, len(y_true))
    weight = np.ones(len(y_true)) if weight is None else weight
    pairs = []
    for i, (true, predicted) in enumerate(zip(y_true, y_pred, strict=True)):
        pair = np.asarray(true), np.asarray(predicted)
        check_shapes(*pair, i)
        pairs.append([each.ravel() for each in pair])
    pairs = _known(pairs)
    check_position_weight(sample_weight, np.array([len(true) for true, _ in pairs]))
    if labels is None:
        labels = np.unique(np.concatenate([y.ravel() for pair in pairs for y in pair]))
    both, either = np.zeros((2, len(pairs), len(labels)))
    for i, (true, predicted) in enumerate(pairs):
        for k, label in enumerate(labels):
            is_true, is_found = true == label, predicted == label
            both[i, k] = (is_true & is_found).sum()
            either[i, k] = (is_true | is_found).sum()
    if per == "class":
        scores = _ratio(weight @ both, weight @ either)
    else:
        scores = _mean(_ratio(both, either), weight)
    return scores if average is None else float(_mean(scores))


def _known(pairs):
    """Return each image's true and predicted labels where the true label is known."""
    if not any(true.dtype == object or (true != true).any() for true, _ in pairs):
        return pairs
    each_true, each_found = zip(*pairs, strict=True)
    lengths = np.array([len(true) for true in each_true])
    flat = check_labels(each_true, lengths, name="y_true", unknown=True, sets=True)
    found = [label for each in each_found for label in each.tolist()]
    labels, known = observed(flat, found)
    check_any_known(known, "y_true")
    labels, ends = object_array(labels), np.cumsum(lengths)
    return [
        (labels[end - len(each) : end][mask], each[mask])
        for each, end in zip(each_found, ends, strict=True)
        for mask in [known[end - len(each) : end]]
    ]


def _ratio(part, whole):
    """Return the ratio of `part` and `whole`, NaN if `whole` is 0."""
    return np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)


def _mean(values, weight=None):
    """Return the weighted mean over the first axis without NaN; NaN if all are NaN."""
    known = ~np.isnan(values)
    weights = known * (1.0 if weight is None else weight[:, None])
    return _ratio((weights * np.where(known, values, 0.0)).sum(0), weights.sum(0))
