"""Label sets whose labels are learned given the observed values of the others."""

import numpy as np

from sksstruct.models.multilabel._conditional import ConditionalRows
from sksstruct.models.protocols.coordinate_dual import CoordinateDual
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils.parallel import run_in_chunks


class ConditionalModel:
    """The composite likelihood, or margins, of label sets: "coordinates".

    Each label has the loss of its own score, in which the other labels have their
    observed values; `_conditional.pyx` has the formulas. Without pairs that is one
    binary classifier for each label.

    Parameters
    ----------
    X, Y, pairs, costs, example_weights, scaling, loss : objects
        As `_conditional.ConditionalRows` takes them.

    Attributes
    ----------
    n_examples, n_weights : int
        Numbers of examples and of weights.
    example_weights : ndarray of shape (n_examples,)
        The p_i.
    rows : ConditionalRows
        The data.
    """

    oracles = ("coordinates",)
    # there are weights of labels that are the padding of rows
    views_need_data = True
    oracle_note = oracle_bounds = surrogate = None
    likelihood = False

    def __init__(self, X, Y, pairs, costs, example_weights, scaling, loss):
        self.rows = ConditionalRows(X, Y, pairs, costs, example_weights, scaling, loss)
        self.example_weights = example_weights
        self.n_examples = self.rows.n_examples
        self.n_weights = self.rows.n_features * self.rows.ld + self.rows.n_pairs

    def views(self, w):
        """Named views of flat weights."""
        rows = self.rows
        size = rows.n_features * rows.ld
        coef = w[:size].reshape(rows.n_features, rows.ld)[:, : rows.n_labels].T
        return {"coef": coef, "pair_coef": w[size:]}

    def loss(self, w, n_jobs=None):
        """The mean loss at weights w."""
        losses = np.empty(self.n_examples)

        def run(first, last):
            self.rows.losses(first, last, w, losses)

        run_in_chunks(run, self.n_examples, n_jobs)
        return float(self.example_weights @ losses)

    def coordinate_dual(self, alpha, state=None):
        """Dual variables, one for each label of each example: "coordinates"."""
        return ConditionalDual(self, alpha, state)

    def fits_coordinate_dual(self, state):
        """Whether dual variables of another problem are some of this one."""
        return state.shape == (self.n_examples, self.rows.n_labels)


class ConditionalDual(CoordinateDual):
    """The dual variables b, and the weights that they stand for.

    Parameters
    ----------
    model : ConditionalModel
        The model with its data.
    alpha : float
        Regularisation.
    state : ndarray or None
        Dual variables to start from.
    """

    def __init__(self, model, alpha, state=None):
        self.model, self.alpha = model, alpha
        self.w = aligned_zeros(model.n_weights)
        shape = model.n_examples, model.rows.n_labels
        self.duals = np.zeros(shape)
        if state is not None:
            self.duals[...] = state
            model.rows.restore(alpha, self.duals, self.w)

    def visit(self, order):
        return self.model.rows.visit(order, self.alpha, self.duals, self.w)

    def loss(self):
        losses = np.empty(self.model.n_examples)
        self.model.rows.dual_losses(self.duals, losses)
        return float(self.model.example_weights @ losses)

    def state(self):
        return self.duals
