"""Losses of scores that are not linear in the weights."""

from sksstruct.models.protocols.trainable import Trainable


class NonlinearLoss(Trainable):
    """A mean loss h(g(w)) of scores g(w) that are not linear in the weights.

    The loss is a sum over parts of the examples, each with a share of the weight.
    Solvers visit parts as they visit examples of other models. The convex model of the
    loss is the loss of scores linearized at some weights.

    Attributes
    ----------
    n_examples, n_parts : int
        Numbers of examples and of parts.
    shares : ndarray of shape (n_parts,)
        Total weight of the examples of each part; shares sum to one.
    nonsmooth : bool
        Whether the loss is the hinge, which is smoothed in the convex model.
    diameter : float
        D: smoothing by mu adds at most mu D to the mean loss.
    """

    def initial_weights(self, random_state):
        """Return flat weights to start from."""
        raise NotImplementedError

    def box(self):
        """Return bounds (lower, upper) of flat weights that oracles need, or None."""
        raise NotImplementedError

    def value(self, w, n_jobs=None):
        """Return the mean loss at weights w."""
        raise NotImplementedError

    def linearize(self, w):
        """Form the convex model: the loss of the scores linearized at w."""
        raise NotImplementedError

    def set_smoothing(self, mu):
        """Smooth the hinge by mu from now on."""
        raise NotImplementedError

    def value_and_gradient(self, w, n_jobs=None):
        """Return the smoothed mean loss of the convex model, and its gradient.

        The gradients of the parts become the anchor of `part_gradient`.
        """
        raise NotImplementedError

    def part_gradient(self, number, w, anchored=True, n_jobs=None):
        """Return the convex model's gradient on a part.

        If `anchored`, the part's gradient at the anchor is subtracted.
        """
        raise NotImplementedError

    def true_gradient(self, number, w, n_jobs=None):
        """Return the smoothed loss of the true scores on a part, and its gradient."""
        raise NotImplementedError
