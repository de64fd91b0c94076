"""Dual variables that are independent of each other, one number each."""


class CoordinateDual:
    """The dual of a penalty + a mean of losses, each of a margin linear in w.

    Attributes
    ----------
    w : ndarray
        The weights that the dual variables stand for.
    """

    def visit(self, order):
        """Maximise over one variable of the given examples after the other.

        Parameters
        ----------
        order : ndarray of intp
            Numbers of the examples.

        Returns
        -------
        n_changed : int
            Number of variables that have changed.
        """
        raise NotImplementedError

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
