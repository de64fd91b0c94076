"""The loss of whole segments."""

from dataclasses import dataclass

from sksstruct.losses._base import TaskLoss
from sksstruct.utils._param_validation import Constrained


@dataclass(eq=False, repr=False)
class WrongSegments(Constrained, TaskLoss):
    """Number of predicted segments not observed, and observed ones not predicted.

    `sksstruct.SegmentCRF` has the same loss with ``loss_unit="segment"``.

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
