"""Fractions of correct joints (PCK) and correct limbs (PCP) of poses."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.metrics._lists import check_lists, check_shapes
from sksstruct.utils.validation import check_sequence_weight


def pck_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    threshold: float,
    sizes: ArrayLike | None = None,
    average: Literal["micro"] | None = "micro",
    sample_weight: ArrayLike | None = None,
) -> float | Any:
    """Correct key points (PCK): the fraction of parts near their true places.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples, n_parts, 2)
        True and predicted places, as in `sksstruct.models.PartsModel`.
    threshold : float
        Largest distance of a right part from its true place, in units of `sizes`.
    sizes : array-like of shape (n_samples,), default=None
        Size of each sample, such as that of a torso or a head. None: 1, so that
        `threshold` is in pixels.
    average : {"micro"} or None, default="micro"
        "micro": one number for all parts. None: a number for each part.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample.

    Returns
    -------
    score : float or ndarray of shape (n_parts,)
        Between 0 and 1.

    See Also
    --------
    pcp_score : The fraction of limbs that are right.

    References
    ----------
    Y. Yang and D. Ramanan, "Articulated human detection with flexible mixtures of
    parts", PAMI 35, 2013.

    Examples
    --------
    >>> from sksstruct.metrics import pck_score
    >>> pck_score([[(0, 0), (4, 0)]], [[(1, 0), (0, 0)]], threshold=2.0)
    0.5
    """
    true, found = _places(y_true, y_pred)
    sizes = np.ones(len(true)) if sizes is None else _sizes(sizes, len(true))
    near = np.linalg.norm(true - found, axis=2) <= threshold * sizes[:, None]
    return _average(near, average, sample_weight)


def pcp_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    limbs: ArrayLike,
    *,
    threshold: float = 0.5,
    average: Literal["micro"] | None = "micro",
    sample_weight: ArrayLike | None = None,
) -> float | Any:
    """Correct parts (PCP): the fraction of limbs with both ends near their places.

    An end is near if its distance from its true place is at most `threshold` times the
    true length of the limb. This is the strict form of the measure.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples, n_parts, 2)
        True and predicted places, as in `sksstruct.models.PartsModel`.
    limbs : array-like of shape (n_limbs, 2)
        The two ends of each limb, as indices of parts.
    threshold : float, default=0.5
        Largest distance of a right end, in units of the true length of the limb.
    average : {"micro"} or None, default="micro"
        "micro": one number for all limbs. None: a number for each limb.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample.

    Returns
    -------
    score : float or ndarray of shape (n_limbs,)
        Between 0 and 1.

    See Also
    --------
    pck_score : The fraction of parts that are right.

    References
    ----------
    V. Ferrari, M. Marin-Jimenez and A. Zisserman, "Progressive search space reduction
    for human pose estimation", CVPR 2008.

    Examples
    --------
    >>> from sksstruct.metrics import pcp_score
    >>> y_true, y_pred = [[(0, 0), (4, 0), (4, 4)]], [[(1, 0), (4, 1), (0, 0)]]
    >>> pcp_score(y_true, y_pred, [(0, 1), (1, 2)])
    0.5
    """
    true, found = _places(y_true, y_pred)
    limbs = np.asarray(limbs)
    n_parts = true.shape[1]
    if limbs.ndim != 2 or limbs.shape[1] != 2 or limbs.dtype.kind not in "iu":
        raise ValueError(
            f"limbs must be pairs of parts, integers of shape (n_limbs, 2), got shape "
            f"{limbs.shape}"
        )
    if len(limbs) == 0 or limbs.min() < 0 or limbs.max() >= n_parts:
        raise ValueError(
            f"limbs must have at least one limb, of parts from 0 to {n_parts - 1}, got "
            f"{limbs.tolist()!r:.80}"
        )
    length = np.linalg.norm(true[:, limbs[:, 0]] - true[:, limbs[:, 1]], axis=2)
    near = np.linalg.norm(true - found, axis=2)[:, limbs] <= (
        threshold * length[:, :, None]
    )
    return _average(near.all(axis=2), average, sample_weight)


def _places(y_true, y_pred):
    check_lists(y_true, y_pred)
    for i, (true, found) in enumerate(zip(y_true, y_pred, strict=True)):
        check_shapes(true, found, i)
        if np.shape(true) != np.shape(y_true[0]):
            raise ValueError(
                f"y_true[{i}] must have the shape of y_true[0], {np.shape(y_true[0])}, "
                f"got {np.shape(true)}"
            )
    places = [
        np.asarray([np.asarray(x) for x in y], dtype=np.float64)
        for y in (y_true, y_pred)
    ]
    shape = places[0].shape
    if len(shape) != 3 or shape[2] != 2 or not shape[1]:
        raise ValueError(
            f"y_true must be places of shape (n_samples, n_parts, 2), got shape {shape}"
        )
    for name, each in zip(("y_true", "y_pred"), places, strict=True):
        if not np.isfinite(each).all():
            i = int(np.argmin(np.isfinite(each).all(axis=(1, 2))))
            raise ValueError(f"{name}[{i}] must be finite, and has NaN or infinity")
    return places


def _sizes(sizes, n_samples):
    sizes = np.asarray(sizes, dtype=np.float64)
    if sizes.shape != (n_samples,) or not (sizes > 0).all():
        raise ValueError(
            f"sizes must be {n_samples} positive numbers, got shape {sizes.shape}"
        )
    return sizes


def _average(right, average, sample_weight):
    if average not in ("micro", None):
        raise ValueError(f"average must be 'micro' or None, got {average!r}")
    weight = check_sequence_weight(sample_weight, len(right))
    scores = np.average(right, axis=0, weights=weight)
    return scores if average is None else float(scores.mean())
