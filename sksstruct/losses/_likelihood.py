"""The negative log-likelihood."""

from dataclasses import dataclass

from sksstruct.losses._base import Surrogate
from sksstruct.losses._smoothed import SmoothedHinge
from sksstruct.utils._param_validation import Constrained


@dataclass(eq=False, repr=False)
class LogLikelihood(Constrained, Surrogate):
    """Negative conditional log-likelihood, which gives probabilities.

    The likelihood has no task loss: all wrong labelings count alike.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.losses import LogLikelihood
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
    >>> tagger = ChainCRF(alpha=0.1, loss=LogLikelihood()).fit(X, y)
    >>> tagger.predict_proba([[[1.0], [0.0]]])[0].shape
    (2, 2)
    """

    name = "log"
    is_likelihood = True
    oracle = "exp"

    def for_oracles(self, oracles: tuple[str, ...]) -> SmoothedHinge:
        # the negative log-likelihood is the hinge without a task loss, smoothed by the
        # entropy with mu = 1
        return SmoothedHinge("entropy", 1.0, 1)
