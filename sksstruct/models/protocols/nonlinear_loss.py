"""Losses of scores that are not linear in the weights."""

from sksstruct.models.protocols.trainable import Trainable


class NonlinearLoss(Trainable):
    """A mean loss h(g(w)) of scores g(w) that are not linear in the weights.

    The loss is a sum over parts of the examples, each with a share of the weight. A
    step
    on a part takes the place of a visit of an example in other models.

    Attributes
    ----------
    n_examples, n_parts : int
        Numbers of examples and of parts.
    shares : ndarray of shape (n_parts,)
        Total weight of the examples of each part; shares sum to one.
    nonsmooth : bool
        Whether the loss is the hinge, which the convex model smoothes.
    diameter : float
        D: smoothing by mu adds at most mu D to the mean loss.
    """

    def initial_weights(self, random_state):
        """Return flat weights to start from."""
        raise NotImplementedError

    def box(self):
        """Return bounds (lower, upper) of the flat weights for the oracles, or None."""
        raise NotImplementedError

    def value(self, w, n_jobs=None):
        """Return the mean loss."""
        raise NotImplementedError

    def linearize(self, w):
        """Form the convex model, the loss of scores linearized at w."""
        raise NotImplementedError

    def set_smoothing(self, mu):
        """Smooth the hinge by mu from now on."""
        raise NotImplementedError

    def value_and_gradient(self, w, n_jobs=None):
        """Return the smoothed mean loss of the model and its gradient, the anchor of
        parts."""
        raise NotImplementedError

    def part_gradient(self, number, w, anchored=True, n_jobs=None):
        """Return the model's gradient on a part, minus the gradient at the anchor."""
        raise NotImplementedError

    def true_gradient(self, number, w, n_jobs=None):
        """Return the smoothed mean loss on a part, of the true scores, and its
        gradient."""
        raise NotImplementedError
