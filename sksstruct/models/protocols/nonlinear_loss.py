"""Losses of scores that are not linear in the weights."""

from sksstruct.models.protocols.trainable import Trainable


class NonlinearLoss(Trainable):
    """A mean loss h(g(w)) of scores g(w) that are not linear in the weights.

    The loss is a sum over parts of the examples, each with its share: a step on a part
    is to a solver what a visit of an example is elsewhere.

    Attributes
    ----------
    n_examples, n_parts : int
        Numbers of examples and of parts.
    shares : ndarray of shape (n_parts,)
        Total weight of the examples of each part; they sum to one.
    nonsmooth : bool
        Whether the loss is the hinge, which the convex model smoothes.
    diameter : float
        D: smoothing by mu adds at most mu D to the mean loss.
    """

    def initial_weights(self, random_state):
        """Flat weights to start from."""
        raise NotImplementedError

    def box(self):
        """Lower and upper bounds of the flat weights that oracles need, or None."""
        raise NotImplementedError

    def value(self, w, n_jobs=None):
        """Mean loss."""
        raise NotImplementedError

    def linearize(self, w):
        """Form the convex model, the loss of scores linearized at w."""
        raise NotImplementedError

    def set_smoothing(self, mu):
        """Smooth a hinge by mu from now on."""
        raise NotImplementedError

    def value_and_gradient(self, w, n_jobs=None):
        """Smoothed mean loss of the model, and its gradient: the anchor of parts."""
        raise NotImplementedError

    def part_gradient(self, number, w, anchored=True, n_jobs=None):
        """Gradient of the model's mean loss on a part, minus that at the anchor."""
        raise NotImplementedError

    def true_gradient(self, number, w, n_jobs=None):
        """Smoothed mean loss itself on a part, not the model's, and its gradient."""
        raise NotImplementedError
