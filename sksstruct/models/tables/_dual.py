"""Products of the features of a model of tables, for its dual."""

import numpy as np


def combine_blocks(model, changes):
    """Weights that changes of the tables of each block stand for."""
    w = np.zeros(model.n_weights)
    for number, change in enumerate(changes):
        coef, bias = model.block(w, number)
        coef[...] = model.features[number].T @ change
        # of a block without a bias this is no view of the weights
        bias[...] = change.sum(axis=0)
    return w


def block_scores(model, w, number):
    """The tables of all examples of one block."""
    coef, bias = model.block(w, number)
    return np.asarray(model.features[number] @ coef) + bias
