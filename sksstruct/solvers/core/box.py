"""Bounds of weights: lower <= w <= upper."""

import numpy as np


class Box:
    """Lower and upper bounds of weights, most of which may be infinite.

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
        """Return the box that a model's oracles need, or None."""
        box = model.box()
        return None if box is None else cls(*box)

    def clip(self, w):
        """Clip weights to the bounds, in place."""
        k = self.index
        w[k] = np.clip(w[k], self.lower[k], self.upper[k])
        return w

    def least(self, gradient, alpha):
        """Return min and argmin over the box of <gradient, w> + alpha/2 |w|^2."""
        w = self.clip(gradient / -alpha)
        return float(gradient @ w) + alpha / 2 * float(w @ w), w


def least(gradient, alpha, box=None):
    """Return the minimum of <gradient, w> + alpha/2 |w|^2, over a box if there is one.

    The dual value is the sum of this minimum and the linear term of the dual.
    """
    if box is None:
        return -float(gradient @ gradient) / (2 * alpha)
    return box.least(gradient, alpha)[0]
