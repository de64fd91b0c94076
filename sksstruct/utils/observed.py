"""Comparison of predictions with partially observed labels, the same in all scores.

Positions with the label None are left out. A set is matched by any of its labels.
"""

from itertools import compress

import numpy as np

from sksstruct.utils.labels import count_known, first_of
from sksstruct.utils.validation import check_position_weight

# Text for the docstrings of scores.
PARTLY = {
    "partly": """
Positions with None, whose label is not known, are left out. A set stands for one of its
labels: a prediction that is in the set is right; otherwise the first label of the set
in order counts as the true label.
"""
}


def observed(true, predicted, choose=None):
    """Return labels for comparison with predictions, and a mask of known ones.

    Parameters
    ----------
    true : list
        True labels, from `check_labels` with `unknown` and `sets`.
    predicted : list
        Predicted labels of the same positions.
    choose : callable, default=None
        ``choose(labels, predicted)`` returns the label of a set that counts as the true
        label if none of the set was predicted. None: the first in order.

    Returns
    -------
    labels : list
        True labels. None, and each set that contains the predicted label, is replaced
        by the predicted label; any other set by the label that `choose` returns.
    known : ndarray of shape (n_positions,), bool
        Whether the true label is not None.
    """
    known = np.ones(len(true), dtype=bool)
    if not {type(None), frozenset}.intersection(map(type, true)):
        return true, known
    labels = list(true)
    for t, (label, guess) in enumerate(zip(true, predicted, strict=True)):
        if label is None:
            labels[t], known[t] = guess, False
        elif isinstance(label, frozenset):
            if guess in label:
                labels[t] = guess
            else:
                labels[t] = choose(label, guess) if choose else first_of(label)
    return labels, known


def check_any_known(known, name):
    """Raise an error if no label at all is known."""
    if len(known) and not np.any(known):
        raise ValueError(
            f"{name} has no known label: all are None, and there is nothing to score"
        )


def known_pairs(true, predicted, name="y", choose=None):
    """Return labels and predictions at positions with a known label, and the mask.

    Parameters
    ----------
    true, predicted, choose : objects
        As in `observed`.
    name : str, default="y"
        Name of the true labels in errors.

    Raises
    ------
    ValueError
        If there are positions, but no known label.
    """
    true, known = observed(true, predicted, choose)
    check_any_known(known, name)
    if not known.all():
        true, predicted = (list(compress(each, known)) for each in (true, predicted))
    return true, predicted, known


def share_of_right(true, predicted, lengths, sample_weight=None, name="y"):
    """Return the fraction of known labels predicted right, weighted by sequence."""
    true, predicted, known = known_pairs(true, predicted, name)
    weight = check_position_weight(sample_weight, count_known(known, lengths))
    equal = (a == b for a, b in zip(true, predicted, strict=True))
    right = np.fromiter(equal, dtype=bool, count=len(true))
    return float(np.average(right, weights=weight))
