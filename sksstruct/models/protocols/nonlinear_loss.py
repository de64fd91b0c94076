"""Losses of scores that are not linear in the weights, for the prox-linear method."""


class NonlinearLoss:
    """A mean loss h(g(w)) of scores g(w) that are not linear in the weights.

    Attributes
    ----------
    n_examples : int
        Number of examples.
    example_weights : ndarray of shape (n_examples,)
        The weights p_i.
    nonsmooth : bool
        Whether the loss is the hinge, which the convex model smoothes.
    diameter : float
        D: smoothing by mu adds at most mu D to the mean loss.
    """

    def initial_weights(self, random_state):
        """Flat weights to start from."""
        raise NotImplementedError

    def value(self, w, n_jobs=None):
        """Mean loss."""
        raise NotImplementedError

    def linearize(self, w):
        """Form the convex model, the loss of scores linearised at w."""
        raise NotImplementedError

    def set_smoothing(self, mu):
        """Smooth the model by mu from now on."""
        raise NotImplementedError

    def value_and_gradient(self, w, n_jobs=None):
        """Smoothed mean loss of the model, and its gradient."""
        raise NotImplementedError

    def example_gradient(self, i, w):
        """Gradient of the smoothed loss of the model on example i."""
        raise NotImplementedError
