"""What a surrogate and a task loss are: the two parts of what training minimizes.

A task loss says what a wrong labeling costs, a surrogate turns scores and that cost
into an objective. Neither knows weights, features or solvers.
"""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from sksstruct.utils._param_validation import validate_params
from sksstruct.utils.labels import label_costs


class TaskLoss(BaseEstimator):
    """Base class of task losses: what a predicted labeling costs.

    Subclass `PositionLoss` or `NeighborLoss` to define your own. The loss of a labeling
    is divided as `loss_normalization` of the estimator or model says.

    See Also
    --------
    Hinge : Takes a task loss as its `cost`.

    Examples
    --------
    >>> from sksstruct.losses import Boundaries, Hamming, TaskLoss, WrongSegments
    >>> [issubclass(loss, TaskLoss) for loss in (Boundaries, Hamming, WrongSegments)]
    [True, True, True]
    """

    #: What a structure must have so that it can take the loss, for error messages.
    needs: ClassVar[str] = "a structure that knows this loss"
    class_weight: Any = None
    # What parameters may be, as of `validate_params`.
    _parameter_constraints: ClassVar[dict] = {}

    def check(self) -> None:
        """Raise an error if a parameter is not valid."""
        if self._parameter_constraints:
            validate_params(self)

    def label_costs(self, classes: np.ndarray, counts: np.ndarray) -> np.ndarray | None:
        """Cost of a wrong label at a position, for each observed label.

        Parameters
        ----------
        classes : ndarray of shape (n_classes,)
            The labels.
        counts : ndarray of shape (n_classes,)
            How often each was observed, by weight.

        Returns
        -------
        costs : ndarray of shape (n_classes,) or None
            Not negative; None if all are 1. The default is `class_weight`, as in
            scikit-learn.
        """
        return label_costs(self.class_weight, classes, counts)


class PositionLoss(TaskLoss):
    """Base class of losses that add up over single positions.

    A subclass overrides `label_costs`.

    See Also
    --------
    Hamming : The one that is not a base class.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.losses import Hinge, PositionLoss
    >>> class Rare(PositionLoss):
    ...     def label_costs(self, classes, counts):
    ...         return 1.0 / np.sqrt(np.maximum(counts, 1.0))
    >>> X, y = [[[0.0], [1.0], [1.0]]], [["a", "b", "b"]]
    >>> ChainCRF(alpha=0.1, loss=Hinge(cost=Rare())).fit(X, y).predict(X)[0].tolist()
    ['a', 'b', 'b']
    """

    needs = "one label for each position or node"


class NeighborLoss(TaskLoss):
    """Base class of losses with costs of pairs of neighboring labels.

    They add to the costs of single positions, `label_costs`. A subclass defines
    `pair_costs`. Chains take these losses: each position has a table of its own then,
    and the loss-augmented maximum stays exact.

    See Also
    --------
    Boundaries : Costs of where segments begin and end.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.losses import Hinge, NeighborLoss
    >>> class Changes(NeighborLoss):
    ...     # a change of the label where there is none, or the other way around
    ...     def pair_costs(self, classes):
    ...         equal = np.eye(len(classes))
    ...         return equal.astype(int), np.stack([equal, 1.0 - equal])
    >>> X, y = [[[0.0], [1.0], [1.0]]], [["a", "b", "b"]]
    >>> ChainCRF(alpha=0.1, loss=Hinge(cost=Changes())).fit(X, y).predict(X)[0].tolist()
    ['a', 'b', 'b']
    """

    needs = "neighboring positions, as chains have them"

    def pair_costs(self, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Costs of pairs of neighboring labels, given the observed pair.

        Parameters
        ----------
        classes : ndarray of shape (n_classes,)
            The labels.

        Returns
        -------
        groups : ndarray of shape (n_classes, n_classes), int
            The group of each observed pair, from left to right.
        tables : ndarray of shape (n_groups, n_classes, n_classes)
            For each group what every pair costs: finite, not negative, and 0 for the
            observed pairs of the group.
        """
        raise NotImplementedError(f"{type(self).__name__} must define pair_costs")


class Loss(BaseEstimator):
    """What the parameter `loss` of an estimator may be."""

    #: Name for files and messages, which stands for the default parameters.
    name: ClassVar[str]
    #: Whether scores become probabilities. There is no task loss then.
    is_likelihood: ClassVar[bool] = False
    #: Whether the objective has a gradient.
    is_smooth: ClassVar[bool] = True
    #: The oracle of a model that it needs.
    oracle: Any = "max"
    cost: Any = None
    # What parameters may be, as of `validate_params`.
    _parameter_constraints: ClassVar[dict] = {}

    def check(self) -> None:
        """Raise an error if a parameter is not valid."""
        if self._parameter_constraints:
            validate_params(self)


class Surrogate(Loss):
    """Base class of surrogates: how scores and a task loss become an objective.

    See Also
    --------
    Hinge, LogLikelihood, SmoothedHinge : The surrogates.

    Examples
    --------
    >>> from sksstruct.losses import Hinge, LogLikelihood
    >>> [loss.is_likelihood for loss in (Hinge(), LogLikelihood())]
    [False, True]
    """

    def for_oracles(self, oracles: tuple[str, ...]) -> Any:
        """What solvers minimize, given the oracles of a model.

        Parameters
        ----------
        oracles : tuple of str
            Names of the oracles, as of `BoundModel.oracles`.

        Returns
        -------
        loss : SmoothedHinge or None
            None for the hinge, which has no gradient.
        """
        raise NotImplementedError(f"{type(self).__name__} must define for_oracles")
