"""The loss of whole segments."""

from dataclasses import dataclass

from sksstruct.losses._base import TaskLoss
from sksstruct.utils._param_validation import Constrained


@dataclass(eq=False, repr=False)
class WrongSegments(Constrained, TaskLoss):
    """Number of segments of either labeling that the other one does not have.

    The same as ``loss_unit="segment"`` of `sksstruct.SegmentCRF`.

    Examples
    --------
    >>> from sksstruct import SegmentCRF
    >>> from sksstruct.losses import Hinge
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["O", "B"], ["B", "O"]]
    >>> tagger = SegmentCRF(alpha=0.1, loss=Hinge(cost="segments")).fit(X, y)
    >>> tagger.predict([[[1.0], [0.0]]])[0].tolist()
    ['B', 'O']
    """

    needs = "segments, as SegmentCRF and SegmentModel have them"
