"""What the flat weights of a chain are called in a fitted tagger."""

import numpy as np

from sksstruct.models.chain._chain import chain_blocks
from sksstruct.utils._layout import aligned_zeros, padded_length


def chain_attributes(constant, score, weights):
    """All fitted attributes for flat weights, the constant ones included."""
    n_classes = len(constant["classes_"])
    if score is None:
        named = weight_attributes(weights, n_classes, constant["n_features_in_"])
    else:
        named = scored_attributes(weights, n_classes, score)
    return {**constant, **named}


def scored_attributes(weights, n_classes, score):
    """Attributes of a chain whose features are the scores of the labels."""
    tail = weights[len(weights) - (2 + n_classes) * n_classes :].reshape(-1, n_classes)
    ld = padded_length(n_classes)
    identity = aligned_zeros(n_classes * ld).reshape(n_classes, ld)
    identity[np.arange(n_classes), np.arange(n_classes)] = 1.0
    return {
        "score_function_": score,
        "score_parameters_": weights[: len(weights) - tail.size].copy(),
        "coef_": identity[:, :n_classes].T,
        "intercept_": np.zeros(n_classes),
        "start_": tail[0].copy(),
        "end_": tail[1].copy(),
        "transitions_": tail[2:].copy(),
    }


def weight_attributes(weights, n_classes, n_features):
    """Attributes of a chain whose scores are linear."""
    blocks = chain_blocks(weights, n_classes, n_features)
    # coef_ stays a view of the padded rows, which prediction reads as they are.
    return {
        "coef_": blocks["coef"],
        "intercept_": blocks["intercept"].copy(),
        "transitions_": blocks["transitions"].copy(),
        "start_": blocks["start"].copy(),
        "end_": blocks["end"].copy(),
    }
