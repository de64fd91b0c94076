"""What the kernels of message passing have in common: messages, beliefs, a bound."""

import numpy as np


cdef class Messages:
    """Base class of kernels; subclasses allocate `_messages` and implement `_sweep`.

    Attributes
    ----------
    beliefs : ndarray of shape (n_states.sum(),)
        Scores of the states plus all messages.
    bound : float
        Upper bound on all scores; inf before the first sweep.
    """

    def __cinit__(self, Problem problem):
        self.problem = problem
        # without messages they are the scores themselves
        self._beliefs = problem.arrays.unary.copy()
        self.bound = np.inf
        self.backward = False

    @property
    def beliefs(self):
        return np.asarray(self._beliefs)

    def sweep(self, bint backward=False):
        """Update all messages once, and then the bound.

        Parameters
        ----------
        backward : bool, default=False
            Whether to go from the last to the first.

        Returns
        -------
        bound : float
            Upper bound on all scores; inf if time ran out before the end.
        """
        self.backward = backward
        # one call for all messages: kernels run without the GIL from here on
        cdef Problem problem = self.problem
        with nogil:
            self._sweep(problem, backward)
        return self.bound

    def moved(self):
        """Yield the scores that messages move from factors to variables.

        The scores of all labelings stay the same.

        Yields
        ------
        factor, axis : int
            An edge, or the number of edges plus a larger factor; and the place of a
            variable in its scope.
        message : ndarray
            A number for each state of the variable.
        """
        yield from ()

    def reparametrize(self, rows, scopes, tables):
        """Move scores from tables to the rows of variables, as the messages do.

        Parameters
        ----------
        rows : list of ndarrays
            Scores of the variables, which are changed.
        scopes : list of ndarrays
            Variables of the edges and larger factors.
        tables : list of ndarrays
            Their scores; tables that change are copied first.

        Returns
        -------
        rows, scopes, tables : list
            Rows, scopes and tables that give all labelings the same scores.
        """
        tables, own = list(tables), set()
        for factor, axis, message in self.moved():
            rows[scopes[factor][axis]] += message
            if factor not in own:
                tables[factor] = np.array(tables[factor])
                own.add(factor)
            shape = [1] * tables[factor].ndim
            shape[axis] = -1
            tables[factor] -= message.reshape(shape)
        return rows, scopes, tables

    # Not abstract, as extension types cannot be: a kernel without it does nothing.
    cdef int _sweep(self, Problem problem, bint backward) except -1 nogil:
        """Update all messages, beliefs and the bound, which is inf if time is over."""
        return 0
