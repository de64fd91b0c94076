"""Bounds of weights: lower <= w <= upper."""

import numpy as np


class Box:
    """Lower and upper bounds, of which most may be infinite.

    Parameters
    ----------
    lower, upper : ndarray of shape (n_weights,)
        The bounds.

    Attributes
    ----------
    index : ndarray of int
        Weights with a finite bound.
    """

    def __init__(self, lower, upper):
        self.lower, self.upper = lower, upper
        self.index = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))

    @classmethod
    def of(cls, model):
        """The box that a model's oracles need, or None."""
        box = model.box()
        return None if box is None else cls(*box)

    def clip(self, w):
        """Truncate weights, in place."""
        k = self.index
        w[k] = np.clip(w[k], self.lower[k], self.upper[k])
        return w

    def least(self, gradient, alpha):
        """Minimum over the box of <gradient, w> + alpha/2 |w|^2, and where it is."""
        w = self.clip(gradient / -alpha)
        return float(gradient @ w) + alpha / 2 * float(w @ w), w


def least(gradient, alpha, box=None):
    """Minimum of <gradient, w> + alpha/2 |w|^2, over a box if there is one.

    A dual value is this plus the linear term of the dual.
    """
    if box is None:
        return -float(gradient @ gradient) / (2 * alpha)
    return box.least(gradient, alpha)[0]
