"""The Hamming loss."""

from dataclasses import dataclass
from typing import Literal

from sksstruct.losses._base import PositionLoss
from sksstruct.utils._param_validation import Constrained


@dataclass(eq=False, repr=False)
class Hamming(Constrained, PositionLoss):
    """Number of wrong positions, which is the task loss of most structures.

    Parameters
    ----------
    class_weight : dict or "balanced", default=None
        Cost of missing each label, as in scikit-learn; 1 for labels without an entry.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.losses import Hamming, Hinge
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
    >>> loss = Hinge(cost=Hamming(class_weight={"b": 2.0}))
    >>> ChainCRF(alpha=0.1, loss=loss).fit(X, y).predict([[[1.0], [1.0]]])[0].tolist()
    ['b', 'b']
    """

    class_weight: dict | Literal["balanced"] | None = None
