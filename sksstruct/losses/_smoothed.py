"""The smoothed structured hinge loss."""

from dataclasses import dataclass
from typing import Literal

from sklearn.base import clone

from sksstruct.losses._base import Surrogate, TaskLoss
from sksstruct.utils._param_validation import Constrained, Count, Positive


@dataclass(eq=False, repr=False)
class SmoothedHinge(Constrained, Surrogate):
    """Structured hinge loss with a smoothed maximum.

    The maximum over labelings in ``max_y [L_i(y) + <w, phi(x_i, y) - phi(x_i, y_i)>]``
    becomes ``max_u <u, values> - mu * omega(u)`` over distributions u on the
    labelings [1]_.

    Parameters
    ----------
    smoothing : {"entropy", "l2", "auto"}, default="entropy"
        omega: the negative entropy, by sum-product or another sum over all labelings,
        or half the squared norm (minus 1/2), on the `k` best labelings. "auto": the
        entropy, or l2 if the model has no such sums but finds the k best labelings.
    mu : float, default=0.1
        Strength of the smoothing. The loss is at most ``mu / 2`` above the hinge with
        l2, and ``mu`` times the logarithm of the number of labelings with entropy.
    k : int, default=10
        Number of labelings for l2. If no other labeling would get a positive weight,
        the smoothed loss is exact (Proposition 4). The attribute `topk_exact_` of the
        estimator is the fraction of sequences for which this holds.
    cost : str or TaskLoss, default=None
        L_i, the task loss, as in `Hinge`. None: the loss of the model.

    Notes
    -----
    If the k best labelings are not enough, the loss with l2 is not smooth, in
    particular at w = 0, where all labelings have equal scores. Training therefore
    starts from the solution with entropy, and stops when the objective no longer falls.

    References
    ----------
    .. [1] K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to
       train structured prediction models", NeurIPS 2018, Section 2.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.losses import SmoothedHinge
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
    >>> tagger = ChainCRF(alpha=0.1, loss=SmoothedHinge(mu=0.5)).fit(X, y)
    >>> tagger.predict([[[1.0], [1.0]]])[0].tolist()
    ['b', 'b']
    """

    smoothing: Literal["entropy", "l2", "auto"] = "entropy"
    mu: Positive = 0.1
    k: Count = 10
    cost: str | TaskLoss | None = None

    name = "smoothed_hinge"

    @property
    def by_sums(self) -> bool:
        """Whether the maximum becomes a sum over all labelings."""
        return self.smoothing == "entropy"

    @property
    def oracle(self) -> str:
        """The oracle of a model that the smoothed maximum needs."""
        return "exp" if self.by_sums else "topk"

    def for_oracles(self, oracles: tuple[str, ...]) -> "SmoothedHinge":
        own = clone(self)
        if own.smoothing == "auto":
            by_sums = "exp" in oracles or "topk" not in oracles
            own.smoothing = "entropy" if by_sums else "l2"
        return own
