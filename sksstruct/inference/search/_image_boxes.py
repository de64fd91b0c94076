"""The best boxes in an image: checks, integral images and results.

`_boxes.pyx` has the search.
"""

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.inference._checks import check_k, check_scores, check_sums
from sksstruct.inference.search._boxes import Search
from sksstruct.inference.search._branch_and_bound import SearchResult


def check_observed(observed):
    """Return an observed box (top, left, bottom, right); raise if it is not a box."""
    observed = check_scores("observed", observed)
    if (
        observed.shape != (4,)
        or not np.isfinite(observed).all()
        or (observed[2:] <= observed[:2]).any()
    ):
        raise ValueError(
            "observed must be a box (top, left, bottom, right) with bottom and right "
            f"beyond top and left, got {observed.tolist()}"
        )
    return observed


def overlaps(boxes, observed):
    """Return the intersection over union of each of many boxes with one box."""
    sides = np.minimum(boxes[:, 2:], observed[2:]) - np.maximum(
        boxes[:, :2], observed[:2]
    )
    both = np.maximum(sides, 0.0).prod(axis=1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    return both / (areas + (observed[2:] - observed[:2]).prod() - both)


def integrals(weights):
    """Return integral images of positive weights, negative weights, forbidden pixels.

    Forbidden pixels have the weight -inf.
    """
    height, width = weights.shape
    forbidden = weights == -np.inf
    # forbidden pixels have an image of their own: differences of -inf would be NaN
    finite = np.where(forbidden, 0.0, weights)
    # row and column 0 are zero, so that boxes at the edges are no special case
    images = np.zeros((3, height + 1, width + 1))
    np.maximum(finite, 0.0, out=images[0, 1:, 1:])
    np.minimum(finite, 0.0, out=images[1, 1:, 1:])
    images[2, 1:, 1:] = forbidden
    return images.cumsum(axis=1).cumsum(axis=2)


def best_boxes(
    weights: ArrayLike,
    k: int = 1,
    *,
    observed: ArrayLike | None = None,
    loss_weight: float = 1.0,
    max_nodes: int | None = None,
) -> SearchResult:
    """Find the k boxes of an image with the highest sums of weights.

    Branch and bound [1]_ finds exactly the k best boxes, in order.

    Parameters
    ----------
    weights : array-like of shape (height, width)
        Weight of each pixel; ``-inf`` for pixels that no box may contain. Large
        negative numbers instead of ``-inf`` would lose precision.
    k : int, default=1
        Number of boxes.
    observed : array-like of shape (4,), default=None
        A box (top, left, bottom, right). If given, the loss is added to the score,
        times `loss_weight`. The loss is 1 minus the overlap (intersection over union)
        with this box. This is the oracle of training with a structured hinge [2]_.
    loss_weight : float, default=1.0
        Factor of this loss; not negative.
    max_nodes : int, default=None
        Number of sets of boxes after which the search stops.

    Returns
    -------
    result : SearchResult
        `labelings` of shape (n, 4) has rows (top, left, bottom, right): the box is
        ``weights[top:bottom, left:right]``. No box is empty. The order of boxes with
        equal scores depends only on the weights.

    Raises
    ------
    ValueError
        If the weights are not a matrix, a weight is NaN or ``+inf``, sums of weights
        could overflow, `observed` is not a box, or k is not a positive integer.

    References
    ----------
    .. [1] C. H. Lampert, M. B. Blaschko and T. Hofmann, "Beyond sliding windows: object
       localization by efficient subwindow search", CVPR 2008.
    .. [2] M. B. Blaschko and C. H. Lampert, "Learning to localize objects with
       structured output regression", ECCV 2008.

    Examples
    --------
    >>> from sksstruct.inference import best_boxes
    >>> result = best_boxes([[-1, -1, -1], [-1, 2, 3], [-1, 1, -2]])
    >>> result.labelings.tolist(), result.scores.tolist()
    ([[1, 1, 2, 3]], [5.0])
    """
    weights = check_scores("weights", weights, ndim=2)
    if not weights.size:
        raise ValueError(f"weights must not be empty, got shape {weights.shape}")
    check_sums("weights", weights.size, weights)
    height, width = weights.shape
    boxes_in_all = height * (height + 1) * width * (width + 1) // 4
    # k may exceed the number of boxes: a search that finds all boxes is complete
    most = min(check_k(k), boxes_in_all)
    # -1 means no limit
    limit = -1 if max_nodes is None else min(check_k(max_nodes, "max_nodes"), 2**62)
    if not 0.0 <= loss_weight < np.inf:
        raise ValueError(
            f"loss_weight must be finite and not negative, got {loss_weight!r}"
        )
    # without a loss the box is not used
    box = (0.0, 0.0, 1.0, 1.0) if observed is None else check_observed(observed)
    search = Search(integrals(weights), box, 0.0 if observed is None else loss_weight)
    # the search tests halves of sets for forbidden pixels, but not the set of all boxes
    if weights.size == 1 and weights[0, 0] == -np.inf:
        most = 0
    n_found, n_visited, is_empty = search.run(most, limit)
    boxes = np.empty((n_found, 4), dtype=np.int32)
    search.read(boxes)
    # weights are summed again, as differences of integral images have larger rounding
    # errors than sums
    scores = np.array(
        [
            weights[top:bottom, left:right].sum()
            for top, left, bottom, right in boxes.tolist()
        ]
    )
    if observed is not None:
        scores += loss_weight * (1.0 - overlaps(boxes, box))
    return SearchResult(boxes, scores, n_visited, n_found == most or is_empty)
