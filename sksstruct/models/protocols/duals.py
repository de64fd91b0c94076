"""Protocols of duals: one vector with a projection, or single variables to visit."""

import numpy as np

# Bound on the rounding error of a dual value, relative to the terms of its sum.
ROUNDING = 16.0 * float(np.finfo(np.float64).eps)


class DualSpace:
    """The dual variables of a model as one vector x.

    D(x) = <b, x> - |alpha w(x)|^2 / (2 alpha) over a convex set, where alpha w(x) is
    affine in x, and grad D(x) = slopes(w(x)) is affine in w (Saha et al., 2009,
    equations (21) and (22)).

    Attributes
    ----------
    center : ndarray
        The point x with w(x) = 0.
    cost : int
        Cost of a product of features and weights, relative to an oracle call.
    """

    def combine(self, x):
        """Return the vector alpha w(x)."""
        raise NotImplementedError

    def slopes(self, w):
        """Return the gradient of D at weights w."""
        raise NotImplementedError

    def loss(self, x):
        """Return the linear term <b, x> of D(x)."""
        raise NotImplementedError

    def project(self, x):
        """Return the point of the convex set that is closest to x."""
        raise NotImplementedError

    def risk(self, w, slopes):
        """Return the mean structured hinge at weights w, whose slopes are given."""
        raise NotImplementedError

    def restrict(self, x, slopes, margin):
        """Return the dual without the variables that are likely to stay at a bound.

        Fixes variables at a bound whose slope points out of the set by more than a
        margin. Returns the space of the variables that are not fixed, with x as its
        center, and the indices of these variables; None if variables depend on each
        other.
        """
        return None


class CoordinateDual:
    """The dual of a penalty plus a mean of losses of margins that are linear in w.

    Attributes
    ----------
    w : ndarray
        The weights that belong to the dual variables.
    gap : float
        An estimate of the duality gap, from the last pass; inf before the first pass.
    """

    gap = np.inf

    def visit(self, rng):
        """Maximize the dual over one variable at a time, in random order.

        Parameters
        ----------
        rng : RandomState
            Source of the order of the examples.

        Returns
        -------
        n_changed : int
            Number of variables that changed.
        """
        raise NotImplementedError

    def expand(self):
        """Include all examples in the next pass.

        Returns
        -------
        changed : bool
            Whether some examples had been left out, as they seemed optimal.
        """
        return False

    def end_pass(self):
        """Finish a pass over all examples.

        Returns
        -------
        changed : bool
            Whether the problem changes for the next pass.
        """
        return False

    def value(self):
        """Return the dual value, a lower bound of the optimal objective."""
        raise NotImplementedError

    def primal(self, n_jobs=None):
        """Return the objective at the weights `w`."""
        raise NotImplementedError

    def state(self):
        """Return the dual variables, from which another run can start."""
        raise NotImplementedError
