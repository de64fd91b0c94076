"""Base classes of losses: task losses and surrogates, the two parts of an objective.

A task loss is the cost of a wrong labeling; a surrogate turns scores and this cost into
an objective. Neither depends on weights, features or solvers.
"""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from sksstruct.utils._param_validation import validate_params
from sksstruct.utils.labels import label_costs


class TaskLoss(BaseEstimator):
    """Base class of task losses: costs of predicted labelings.

    Subclass `PositionLoss` or `NeighborLoss` to define your own. The loss of a labeling
    is divided according to `loss_normalization` of the estimator or model.

    See Also
    --------
    Hinge : Takes a task loss as its `cost`.

    Examples
    --------
    >>> from sksstruct.losses import Boundaries, Hamming, TaskLoss, WrongSegments
    >>> [issubclass(loss, TaskLoss) for loss in (Boundaries, Hamming, WrongSegments)]
    [True, True, True]
    """

    #: What a structure must have for the loss, as a text for error messages.
    needs: ClassVar[str] = "a structure that knows this loss"
    class_weight: Any = None
    # Constraints on parameters, for `validate_params`.
    _parameter_constraints: ClassVar[dict] = {}

    def check(self) -> None:
        """Raise an error if a parameter is not valid."""
        if self._parameter_constraints:
            validate_params(self)

    def label_costs(self, classes: np.ndarray, counts: np.ndarray) -> np.ndarray | None:
        """Return the cost of a wrong label at a position, for each observed label.

        Parameters
        ----------
        classes : ndarray of shape (n_classes,)
            The labels.
        counts : ndarray of shape (n_classes,)
            Weight of the positions of each label.

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
    Hamming : The Hamming loss, with costs by label.

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

    These costs add to the costs of single positions, `label_costs`. A subclass defines
    `pair_costs`. Chains take these losses: each position then has its own table of
    transitions, and the loss-augmented maximum stays exact.

    See Also
    --------
    Boundaries : Costs of wrong ends and beginnings of segments.

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
        """Return the costs of pairs of neighboring labels, given the observed pair.

        Parameters
        ----------
        classes : ndarray of shape (n_classes,)
            The labels.

        Returns
        -------
        groups : ndarray of shape (n_classes, n_classes), int
            The group of each observed pair, from left to right.
        tables : ndarray of shape (n_groups, n_classes, n_classes)
            For each group the costs of all pairs: finite, not negative, and 0 for the
            observed pairs of the group.
        """
        raise NotImplementedError(f"{type(self).__name__} must define pair_costs")


class Loss(BaseEstimator):
    """Base class of values of the parameter `loss` of an estimator."""

    #: Name that stands for the loss with default parameters, in files and messages.
    name: ClassVar[str]
    #: Whether the loss is a likelihood, which has probabilities and no task loss.
    is_likelihood: ClassVar[bool] = False
    #: Whether the objective has a gradient.
    is_smooth: ClassVar[bool] = True
    #: The oracle of a model that the loss needs.
    oracle: Any = "max"
    cost: Any = None
    # Constraints on parameters, for `validate_params`.
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
        """Return the loss that solvers minimize, given the oracles of a model.

        Parameters
        ----------
        oracles : tuple of str
            Names of the oracles, as in `BoundModel.oracles`.

        Returns
        -------
        loss : SmoothedHinge or None
            None for the hinge, which has no gradient.
        """
        raise NotImplementedError(f"{type(self).__name__} must define for_oracles")
