"""Localization of objects: overlap, accuracy and average precision of boxes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.metrics._lists import check_each, check_lists
from sksstruct.utils.observed import check_any_known, observed
from sksstruct.utils.typing import Labelings
from sksstruct.utils.validation import check_position_weight, check_sequence_weight


def box_overlaps(boxes: ArrayLike, others: ArrayLike) -> np.ndarray:
    """Intersection over union of every pair of a box and another box.

    Parameters
    ----------
    boxes : array-like of shape (n_boxes, 4)
        Top, left, bottom and right; bottom and right are exclusive.
    others : array-like of shape (n_others, 4)
        The other boxes.

    Returns
    -------
    overlaps : ndarray of shape (n_boxes, n_others)
        Intersections over unions, between 0 and 1.

    Examples
    --------
    >>> from sksstruct.metrics import box_overlaps
    >>> box_overlaps([(0, 0, 2, 2)], [(0, 0, 2, 1), (1, 1, 3, 3)]).round(3).tolist()
    [[0.5, 0.143]]
    """
    boxes, others = _checked(boxes, "boxes"), _checked(others, "others")
    return _overlaps(boxes[:, None], others[None])


def box_overlap_score(
    y_true: Sequence[Any] | np.ndarray,
    y_pred: Sequence[Any] | np.ndarray,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean overlap (intersection over union) of predicted boxes with true boxes.

    Parameters
    ----------
    y_true, y_pred : list of boxes, or of tuples (box, label)
        A box for each image: top, left, bottom and right, where bottom and right are
        exclusive, as in `sksstruct.models.CandidatesModel`. Labels are ignored.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each image.

    Returns
    -------
    score : float
        Between 0 and 1.

    Examples
    --------
    >>> from sksstruct.metrics import box_overlap_score
    >>> box_overlap_score([(0, 0, 2, 2), (0, 0, 2, 2)], [(0, 0, 2, 1), (0, 0, 2, 2)])
    0.75
    """
    overlaps, _, weight = _compare(y_true, y_pred, sample_weight)
    return float(np.average(overlaps, weights=weight))


def box_accuracy_score(
    y_true: Sequence[Any] | np.ndarray,
    y_pred: Sequence[Any] | np.ndarray,
    *,
    threshold: float = 0.5,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Fraction of images whose object was localized.

    Parameters
    ----------
    y_true, y_pred : list of boxes, or of tuples (box, label)
        Boxes as for `box_overlap_score`. If both have labels, a prediction is right
        only with the right label. An image whose true label is None, not known, is left
        out; if the true label is a set, any label of the set is right.
    threshold : float, default=0.5
        A box is right if its overlap with the true box exceeds this number.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each image.

    Returns
    -------
    score : float
        Between 0 and 1.

    Examples
    --------
    >>> from sksstruct.metrics import box_accuracy_score
    >>> box_accuracy_score([(0, 0, 2, 2), (0, 0, 2, 2)], [(0, 0, 2, 1), (0, 0, 2, 2)])
    0.5
    """
    overlaps, (true, found), weight = _compare(y_true, y_pred, sample_weight)
    known = np.ones(len(overlaps), dtype=bool)
    if true is not None and found is not None:
        true = check_each(true, "y_true", partly=True)
        found = check_each(found, "y_pred")
        true, known = observed(true, found)
        check_any_known(known, "y_true")
        overlaps[[a != b for a, b in zip(true, found, strict=True)]] = -np.inf
    weight = check_position_weight(weight, known.astype(int))
    return float(np.average(overlaps[known] > threshold, weights=weight))


def box_average_precision_score(
    y_true: Labelings, y_pred: Labelings, y_score: Labelings, *, threshold: float = 0.5
) -> float:
    """Average precision (AP) of detections at a threshold of overlap.

    Detections of all images are considered by descending score. A detection is right if
    the true box that it overlaps most was not found by an earlier detection, and if
    this overlap exceeds the threshold. The score is the area under the curve of
    precision over recall, where the precision at a recall is the largest at this or any
    larger recall (PASCAL VOC, from 2010 on).

    Parameters
    ----------
    y_true : list of array-like of shape (n_objects, 4)
        The true boxes of each image, possibly none.
    y_pred : list of array-like of shape (n_detections, 4)
        The detected boxes of each image, possibly none.
    y_score : list of array-like of shape (n_detections,)
        Scores of the detected boxes.
    threshold : float, default=0.5
        Number that the overlap of a right detection exceeds.

    Returns
    -------
    score : float
        Between 0 and 1; NaN if there is no true box.

    References
    ----------
    M. Everingham et al., "The PASCAL visual object classes challenge: a retrospective",
    IJCV 111, 2015.

    Examples
    --------
    >>> from sksstruct.metrics import box_average_precision_score
    >>> y_true = [[(0, 0, 2, 2)], [(0, 0, 2, 2)]]
    >>> y_pred = [[(0, 0, 2, 2), (5, 5, 6, 6)], [(0, 1, 2, 2), (0, 0, 2, 2)]]
    >>> y_score = [[3.0, 2.0], [1.0, 0.0]]
    >>> box_average_precision_score(y_true, y_pred, y_score)
    0.75
    """
    check_lists(y_true, y_pred)
    if len(y_score) != len(y_pred):
        raise ValueError(
            f"y_score must have scores for each of the {len(y_pred)} images of y_pred, "
            f"got {len(y_score)}"
        )
    true = [_checked(boxes, f"y_true[{i}]") for i, boxes in enumerate(y_true)]
    found = [_checked(boxes, f"y_pred[{i}]") for i, boxes in enumerate(y_pred)]
    scores = [np.asarray(scores, dtype=np.float64).ravel() for scores in y_score]
    for i, (boxes, score) in enumerate(zip(found, scores, strict=True)):
        if len(score) != len(boxes):
            raise ValueError(
                f"y_score[{i}] must have a score for each of the {len(boxes)} boxes of "
                f"y_pred[{i}], got {len(score)}"
            )
        if np.isnan(score).any():
            raise ValueError(
                f"y_score[{i}] must not have NaN, and does at box "
                f"{int(np.argmax(np.isnan(score)))}"
            )
    n_true = sum(map(len, true))
    if not n_true:
        return float("nan")
    image = np.repeat(np.arange(len(found)), list(map(len, found)))
    # a stable sort leaves ties in the order of the images
    order = np.argsort(-np.concatenate(scores), kind="stable")
    boxes, image = np.concatenate(found)[order], image[order]
    right = np.zeros(len(order), dtype=bool)
    matched = [np.zeros(len(each), dtype=bool) for each in true]
    for k, (box, i) in enumerate(zip(boxes, image, strict=True)):
        if not len(true[i]):
            continue
        overlaps = _overlaps(box, true[i])
        best = int(overlaps.argmax())
        right[k] = overlaps[best] > threshold and not matched[i][best]
        matched[i][best] |= right[k]
    hits = np.cumsum(right)
    precision = hits / np.arange(1, len(hits) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    return float(precision[right].sum() / n_true)


def _checked(boxes, name):
    boxes = np.asarray(boxes, dtype=np.float64)
    boxes = boxes.reshape(-1, 4) if boxes.size == 0 else boxes
    if boxes.ndim != 2 or boxes.shape[1] != 4 or not np.isfinite(boxes).all():
        raise ValueError(
            f"{name} must be finite boxes of shape (n_boxes, 4), got shape "
            f"{boxes.shape}"
        )
    if (boxes[:, 2:] < boxes[:, :2]).any():
        k = int(np.flatnonzero((boxes[:, 2:] < boxes[:, :2]).any(axis=1))[0])
        raise ValueError(
            f"{name} has the box {boxes[k].tolist()}, which ends before it begins: "
            "boxes are (top, left, bottom, right)"
        )
    return boxes


def _overlaps(boxes, others):
    """Return the intersection over union of boxes; 0 for an empty union.

    The arrays of boxes, of shape (..., 4), are broadcast.
    """
    top, bottom = boxes[..., :2], boxes[..., 2:]
    other_top, other_bottom = others[..., :2], others[..., 2:]
    sides = np.minimum(bottom, other_bottom) - np.maximum(top, other_top)
    both = np.maximum(sides, 0.0).prod(axis=-1)
    either = (bottom - top).prod(axis=-1) + (other_bottom - other_top).prod(axis=-1)
    either = either - both
    return np.divide(both, either, out=np.zeros_like(both), where=either > 0)


def _compare(y_true, y_pred, sample_weight):
    """Return overlaps of true and predicted boxes, the labels of both, and weights.

    Labels are None if the outputs have no labels.
    """
    check_lists(y_true, y_pred)
    weight = check_sequence_weight(sample_weight, len(y_true))
    (true, labels), (found, others) = (
        _split(y, name) for y, name in ((y_true, "y_true"), (y_pred, "y_pred"))
    )
    return _overlaps(true, found), (labels, others), weight


def _split(y, name):
    """Split outputs into an array of boxes, and labels or None."""
    labels = None
    if all(isinstance(each, tuple) and len(each) == 2 for each in y):
        y, labels = zip(*y, strict=True)
    for i, box in enumerate(y):
        if np.shape(box) != (4,):
            raise ValueError(
                f"{name}[{i}] must be a box (top, left, bottom, right), or all must be "
                "tuples (box, label)"
            )
    return _checked(np.array(list(y)), name), labels
