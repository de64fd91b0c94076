"""Dual variables that are independent of each other, one number each."""

import numpy as np


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
