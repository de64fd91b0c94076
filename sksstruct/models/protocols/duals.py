"""Duals as solvers see them: one vector to project, or one number after the other."""

import numpy as np

# Errors of a dual value, relative to the terms that it is the sum of.
ROUNDING = 16.0 * float(np.finfo(np.float64).eps)


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


class CoordinateDual:
    """The dual of a penalty + a mean of losses, each of a margin linear in w.

    Attributes
    ----------
    w : ndarray
        The weights that the dual variables stand for.
    gap : float
        An estimate of the gap, from the last pass; inf if there is none.
    """

    gap = np.inf

    def visit(self, rng):
        """Maximize over one variable after the other, in random order.

        Parameters
        ----------
        rng : RandomState
            Makes the order of the examples.

        Returns
        -------
        n_changed : int
            Number of variables that have changed.
        """
        raise NotImplementedError

    def expand(self):
        """Visit all examples in the next pass.

        Returns
        -------
        changed : bool
            Whether some were left out until now, as they seemed to stay as they are.
        """
        return False

    def end_pass(self):
        """Do what is due after all examples were visited.

        Returns
        -------
        changed : bool
            Whether the problem of the next pass is another one.
        """
        return False

    def value(self):
        """A lower bound of the optimum."""
        raise NotImplementedError

    def primal(self, n_jobs=None):
        """The objective at the weights `w`."""
        raise NotImplementedError

    def state(self):
        """The dual variables, from which another run can start."""
        raise NotImplementedError
