"""Losses of single labels given all other labels, for sets of labels."""

from sksstruct.losses._base import Loss


class LabelLoss(Loss):
    """Base class of losses of one label, given all other labels.

    These losses are not structured: they need no maximum over labelings. See
    `MultilabelPairwise`.

    Examples
    --------
    >>> from sksstruct.losses import LabelLogistic, LabelLoss
    >>> isinstance(LabelLogistic(), LabelLoss)
    True
    """

    oracle = "coordinates"


class LabelHinge(LabelLoss):
    """Hinge loss of each label, ``max(0, 1 - margin)``.

    Examples
    --------
    >>> from sksstruct import MultilabelPairwise
    >>> from sksstruct.losses import LabelHinge
    >>> classifier = MultilabelPairwise(0.1, loss=LabelHinge())
    >>> classifier.fit([[0.0], [1.0]], [[0, 1], [1, 0]]).predict([[1.0]]).tolist()
    [[1, 0]]
    """

    name = "hinge"
    is_smooth = False


class LabelSquaredHinge(LabelLoss):
    """Squared hinge loss of each label.

    Examples
    --------
    >>> from sksstruct import MultilabelPairwise
    >>> from sksstruct.losses import LabelSquaredHinge
    >>> classifier = MultilabelPairwise(0.1, loss=LabelSquaredHinge())
    >>> classifier.fit([[0.0], [1.0]], [[0, 1], [1, 0]]).predict([[1.0]]).tolist()
    [[1, 0]]
    """

    name = "squared_hinge"


class LabelLogistic(LabelLoss):
    """Logistic loss of each label, which gives probabilities.

    Examples
    --------
    >>> from sksstruct import MultilabelPairwise
    >>> from sksstruct.losses import LabelLogistic
    >>> classifier = MultilabelPairwise(0.1, loss=LabelLogistic())
    >>> classifier.fit([[0.0], [1.0]], [[0, 1], [1, 0]]).predict([[1.0]]).tolist()
    [[1, 0]]
    """

    name = "log"
    is_likelihood = True
