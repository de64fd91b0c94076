"""Dual variables that are independent of each other, one number each."""


class CoordinateDual:
    """The dual of alpha/2 |w|^2 + a mean of losses, each of a margin linear in w.

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

    def loss(self):
        """The dual value, without the penalty -alpha/2 |w|^2."""
        raise NotImplementedError

    def state(self):
        """The dual variables, from which another run can start."""
        raise NotImplementedError
