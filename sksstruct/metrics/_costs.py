"""Mean cost of predicted classes, by a matrix of costs."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import make_scorer
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from sksstruct.metrics._lists import check_each
from sksstruct.utils.labels import first_of
from sksstruct.utils.observed import known_pairs
from sksstruct.utils.validation import check_position_weight


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
    y_true : array-like of shape (n_samples,)
        True classes. None stands for a class that is not known: the sample is left out.
        A set stands for the class in it with the least cost of the prediction.
    y_pred : array-like of shape (n_samples,)
        Predicted classes.
    costs : array-like of shape (n_classes, n_classes)
        Entry (i, j) is the cost of predicting class j where class i is true, as in
        `sksstruct.models.MulticlassModel`.
    labels : array-like of shape (n_classes,), default=None
        The classes, in the order of `costs`. None: all classes that occur, in ascending
        order, which must be as many as `costs` has rows.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample.

    Returns
    -------
    cost : float
        Mean cost; lower is better.

    See Also
    --------
    make_cost_scorer : Makes a scorer of this metric.

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
    true = check_each(y_true, "y_true", partly=True)
    predicted = check_each(y_pred, "y_pred")
    classes = {x for x in true if x is not None and not isinstance(x, frozenset)}
    classes.update(predicted, *(x for x in true if isinstance(x, frozenset)))
    labels = sorted(classes) if labels is None else column_or_1d(labels).tolist()
    index = {label: k for k, label in enumerate(labels)}
    if len(labels) != len(costs) or len(index) != len(labels):
        raise ValueError(
            f"costs are of {len(costs)} classes, labels are {labels!r}: give `labels`, "
            "each class once in the order of costs"
        )
    unknown = classes.difference(index)
    if unknown:
        raise ValueError(
            f"y_true or y_pred has the class {first_of(unknown)!r:.80}, which is not "
            f"one of labels, {labels!r:.80}"
        )

    def cost(label, predicted):
        return costs[index[label], index[predicted]]

    def cheapest(candidates, predicted):
        return min(candidates, key=lambda label: cost(label, predicted))

    true, predicted, known = known_pairs(true, predicted, "y_true", cheapest)
    weight = check_position_weight(sample_weight, known.astype(int))
    return float(np.average(list(map(cost, true, predicted)), weights=weight))


def make_cost_scorer(
    costs: ArrayLike, *, labels: ArrayLike | None = None
) -> Callable[..., Any]:
    """Make a scorer of the mean cost, for the parameter ``scoring`` of searches.

    Parameters
    ----------
    costs : array-like of shape (n_classes, n_classes)
        Entry (i, j) is the cost of predicting class j where class i is true.
    labels : array-like of shape (n_classes,), default=None
        The classes, in the order of `costs`. They are required if a fold may lack a
        class.

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
