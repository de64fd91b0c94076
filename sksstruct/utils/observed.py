"""What labels that were observed in part say of predictions: one rule for all scores.

A position whose label is None is left out. A set is met by any of its labels.
"""

from itertools import compress

import numpy as np

from sksstruct.utils.labels import count_known, first_of
from sksstruct.utils.validation import check_position_weight

# What the docstrings of scores say of true labels.
PARTLY = {
    "partly": """
None stands for a label that is not known: it is left out. A set stands for one of its
labels. It is right if one of them is predicted; otherwise the first of them in order
counts as the true label.
"""
}


def observed(true, predicted, choose=None):
    """Labels to compare predictions with, and where they are known.

    Parameters
    ----------
    true : list
        True labels, as of `check_labels` with `unknown` and `sets`.
    predicted : list
        Predicted labels of the same positions.
    choose : callable, default=None
        ``choose(labels, predicted)`` returns the one of a set's labels that counts as
        the true one if none of them was predicted. None: the first in order.

    Returns
    -------
    labels : list
        The predicted label where the true one is None, or a set that has it.
    known : ndarray of shape (n_positions,), bool
        Where the true label is not None.
    """
    known = np.ones(len(true), dtype=bool)
    if not {type(None), frozenset}.intersection(map(type, true)):
        return true, known
    labels = list(true)
    for t, (label, found) in enumerate(zip(true, predicted, strict=True)):
        if label is None:
            labels[t], known[t] = found, False
        elif isinstance(label, frozenset):
            if found in label:
                labels[t] = found
            else:
                labels[t] = choose(label, found) if choose else first_of(label)
    return labels, known


def check_any_known(known, name):
    """Raise an error if no label at all is known."""
    if len(known) and not np.any(known):
        raise ValueError(
            f"{name} has no known label: all are None, and there is nothing to score"
        )


def known_pairs(true, predicted, name="y", choose=None):
    """Labels and predictions where labels are known, and where they are.

    Parameters
    ----------
    true, predicted, choose : objects
        As of `observed`.
    name : str, default="y"
        What errors call the true labels.

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
    """Share of the known labels that were predicted, by the weights of sequences."""
    true, predicted, known = known_pairs(true, predicted, name)
    weight = check_position_weight(sample_weight, count_known(known, lengths))
    equal = (a == b for a, b in zip(true, predicted, strict=True))
    right = np.fromiter(equal, dtype=bool, count=len(true))
    return float(np.average(right, weights=weight))
