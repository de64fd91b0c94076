"""The dual of a model as one vector, for methods that project."""

import numpy as np


def decoded_risk(model, w):
    """Mean structured hinge at weights w, by the max oracle."""
    hinge = np.empty(model.n_examples)
    workspace = model.workspace(np.ascontiguousarray(w), training=False)
    model.hinge(workspace, 0, model.n_examples, hinge)
    return float(model.example_weights @ hinge)


class DualSpace:
    """The dual variables of a model as one vector x.

    D(x) = <b, x> - |alpha w(x)|^2 / (2 alpha) over a convex set, where alpha w(x) is
    affine in x, and grad D(x) = slopes(w(x)) is affine in w (Saha et al., 2009,
    equations (21) and (22)).

    Attributes
    ----------
    center : ndarray
        The point that stands for w = 0.
    cost : int
        Number of oracle calls that one product of features and weights counts as.
    """

    def combine(self, x):
        """The vector alpha w(x)."""
        raise NotImplementedError

    def slopes(self, w):
        """Gradient of D where the weights are w."""
        raise NotImplementedError

    def loss(self, x):
        """The linear term <b, x>."""
        raise NotImplementedError

    def project(self, x):
        """The point of the set closest to x."""
        raise NotImplementedError

    def risk(self, w, slopes):
        """Mean structured hinge at weights w, whose slopes are given."""
        raise NotImplementedError

    def restrict(self, x, slopes, margin):
        """The dual without the variables that are likely to stay at a bound.

        Fixes variables at a bound whose slope points out of the set by more than a
        margin. Returns the space of the other variables, with x as its center, and
        their indices; None if variables are not independent of each other.
        """
        return None
