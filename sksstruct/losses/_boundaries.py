"""A loss for chains with costs of wrong boundaries of segments."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sksstruct.losses._base import NeighborLoss
from sksstruct.utils._param_validation import Constrained, NonNegative
from sksstruct.utils._spans import OUTSIDE, SpanLabels


@dataclass(eq=False, repr=False)
class Boundaries(Constrained, NeighborLoss):
    """Number of wrong positions plus the costs of wrong boundaries of segments.

    Between two neighboring positions, a segment may end, and another may begin. Each of
    these two events costs `boundary` if the prediction has it wrong, in addition to the
    Hamming loss. If all labels are of a scheme of spans (BIO, IOBES and so on), the
    labels determine where segments begin and end. Otherwise a segment is a run of equal
    labels.

    Parameters
    ----------
    boundary : float, default=0.5
        Cost of a wrong boundary. A wrong position costs 1.
    class_weight : dict or "balanced", default=None
        Cost of missing each label, as in `Hamming`.

    Notes
    -----
    The first and the last position of a sequence have no neighbor on one side. Their
    labels cost as in the Hamming loss. If one of two neighboring labels was not
    observed, the boundary between them has no cost.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.losses import Boundaries, Hinge
    >>> X, y = [[[0.0], [1.0], [1.0]]], [["O", "B-X", "I-X"]]
    >>> tagger = ChainCRF(alpha=0.1, loss=Hinge(cost=Boundaries(2.0))).fit(X, y)
    >>> tagger.predict(X)[0].tolist()
    ['O', 'B-X', 'I-X']
    """

    boundary: NonNegative = 0.5
    class_weight: dict | Literal["balanced"] | None = None

    def pair_costs(self, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ends, begins = boundaries_of(classes)
        # the four combinations of an end and a beginning
        groups = 2 * ends + begins
        wrong = [(ends != (k >= 2)).astype(int) + (begins != k % 2) for k in range(4)]
        return groups, self.boundary * np.array(wrong, dtype=np.float64)


def boundaries_of(classes):
    """Return whether a segment ends or begins between each pair of neighboring labels.

    Returns
    -------
    ends, begins : ndarray of shape (n_classes, n_classes), bool
        Rows are labels on the left, columns labels on the right.
    """
    try:
        labels = SpanLabels(classes.tolist())
    except ValueError:
        # labels of no scheme: segments are runs of equal labels
        changes = ~np.eye(len(classes), dtype=bool)
        return changes, changes
    begins, inside = labels.begins(), labels.parts != OUTSIDE
    # a segment continues into a label that is inside and does not begin a segment
    goes_on = inside & ~begins
    return inside[:, None] & ~goes_on, begins
