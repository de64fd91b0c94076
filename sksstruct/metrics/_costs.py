"""Costs of confusing one class with another."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import make_scorer
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from sksstruct.utils.validation import check_sequence_weight


def mean_cost(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    costs: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean cost of the predicted classes.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        True and predicted classes.
    costs : array-like of shape (n_classes, n_classes)
        Entry (i, j) is the cost of predicting class j where class i is true, as in
        `sksstruct.models.MulticlassModel`.
    labels : array-like of shape (n_classes,), default=None
        The classes, in the order of `costs`. None: all that occur, in order, which must
        be as many as there are costs.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample.

    Returns
    -------
    cost : float
        Mean cost; lower is better.

    See Also
    --------
    make_cost_scorer : The same as a scorer.

    Examples
    --------
    >>> from sksstruct.metrics import mean_cost
    >>> costs = [[0, 1, 5], [1, 0, 1], [5, 1, 0]]
    >>> mean_cost(["a", "b", "c"], ["c", "b", "b"], costs)
    2.0
    """
    y_true, y_pred = column_or_1d(y_true), column_or_1d(y_pred)
    check_consistent_length(y_true, y_pred)
    if not len(y_true):
        raise ValueError("y_true is empty: at least one sample is required")
    costs = check_array(costs, dtype=np.float64, input_name="costs")
    if costs.shape[0] != costs.shape[1]:
        raise ValueError(f"costs must be square, got shape {costs.shape}")
    found = np.unique(np.concatenate([y_true, y_pred]))
    labels = found if labels is None else column_or_1d(labels)
    if len(labels) != len(costs) or len(np.unique(labels)) != len(labels):
        raise ValueError(
            f"costs are of {len(costs)} classes, labels are {labels.tolist()!r}: give "
            "`labels`, each class once in the order of costs"
        )
    unknown = np.setdiff1d(found, labels)
    if len(unknown):
        raise ValueError(f"{unknown.tolist()[0]!r} is not one of labels")
    order = np.argsort(labels)
    rows, columns = (
        order[np.searchsorted(labels, y, sorter=order)] for y in (y_true, y_pred)
    )
    weight = check_sequence_weight(sample_weight, len(y_true))
    return float(np.average(costs[rows, columns], weights=weight))


def make_cost_scorer(
    costs: ArrayLike, *, labels: ArrayLike | None = None
) -> Callable[..., Any]:
    """Make a scorer of the mean cost, for the ``scoring`` of model selection.

    Parameters
    ----------
    costs : array-like of shape (n_classes, n_classes)
        Entry (i, j) is the cost of predicting class j where class i is true.
    labels : array-like of shape (n_classes,), default=None
        The classes, in the order of `costs`. They are needed if a fold may lack one.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y)`` is minus the mean cost; higher is better.

    See Also
    --------
    mean_cost : The metric.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from sksstruct import SSVMClassifier
    >>> from sksstruct.metrics import make_cost_scorer
    >>> from sksstruct.models import MulticlassModel
    >>> costs = [[0, 1, 5], [1, 0, 1], [5, 1, 0]]
    >>> X, y = [[0.0], [1.0], [2.0]] * 4, [0, 1, 2] * 4
    >>> classifier = SSVMClassifier(MulticlassModel(costs), alpha=0.01, random_state=0)
    >>> scorer = make_cost_scorer(costs, labels=[0, 1, 2])
    >>> bool((cross_val_score(classifier, X, y, scoring=scorer, cv=2) <= 0).all())
    True
    """
    return make_scorer(mean_cost, greater_is_better=False, costs=costs, labels=labels)
