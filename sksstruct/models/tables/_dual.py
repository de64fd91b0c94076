"""The dual of a model of tables: what the spaces of its structures share."""

import numpy as np

from sksstruct.models.protocols.dual_space import DualSpace


class TableDual(DualSpace):
    """Products of the features of a model of tables.

    Parameters
    ----------
    model : BoundTable
        Model with its data.
    """

    def __init__(self, model):
        self.model, self.cost = model, model.n_examples

    def _combine(self, changes):
        """Weights that changes of the tables of each block stand for."""
        w = np.zeros(self.model.n_weights)
        for number, change in enumerate(changes):
            coef, bias = self.model.block(w, number)
            coef[...] = self.model.features[number].T @ change
            # of a block without a bias this is no view of the weights
            bias[...] = change.sum(axis=0)
        return w

    def _scores(self, w, number):
        """The tables of all examples of one block."""
        coef, bias = self.model.block(w, number)
        return np.asarray(self.model.features[number] @ coef) + bias
