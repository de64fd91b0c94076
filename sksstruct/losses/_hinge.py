"""The structured hinge."""

from dataclasses import dataclass

from sksstruct.losses._base import Surrogate, TaskLoss
from sksstruct.utils._param_validation import Constrained


@dataclass(eq=False, repr=False)
class Hinge(Constrained, Surrogate):
    """Structured hinge loss, ``max_y [L_i(y) + <w, phi(x_i, y) - phi(x_i, y_i)>]``.

    Parameters
    ----------
    cost : str or TaskLoss, default=None
        L_i, the task loss: an object of `sksstruct.losses`, or the name of one with its
        defaults, "boundaries", "hamming" or "segments". None: the loss of the model,
        which is the only one for some models.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.losses import Hinge
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
    >>> tagger = ChainCRF(alpha=0.1, loss=Hinge(cost="boundaries")).fit(X, y)
    >>> tagger.predict([[[0.0], [1.0]]])[0].tolist()
    ['a', 'b']
    """

    cost: str | TaskLoss | None = None

    name = "hinge"
    is_smooth = False

    def for_oracles(self, oracles: tuple[str, ...]) -> None:
        return None
