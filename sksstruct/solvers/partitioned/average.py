"""The average of the iterates of rounds, with weights 1, 2, 3, ..."""

import numpy as np

from sksstruct.utils.entries import taken


class Average:
    """Mean of the iterates, and of the linear terms of their dual values.

    With S_k = k (k + 1) / 2 and the iterates v_1, v_2, ..., the mean is

        sum_k k v_k / S_n = v_n - u / S_n,    u = sum_k S_{k-1} (v_k - v_{k-1})

    A change is added to u when it is added to v, so that no other entry of u is
    touched. The linear term is averaged alike.

    Parameters
    ----------
    weights : Weights
        The iterate.
    kind : bool or "suffix"
        As `averaging` of `sksstruct.solvers.BCFW`, with an iterate for each round.

    Attributes
    ----------
    u : ndarray or None
        Vector to which changes of v are added, times `factor`; None without an average.
    factor : float
        Factor of the next change.
    """

    def __init__(self, weights, kind):
        self.weights, self.kind = weights, kind
        self.restart_at = 2
        self.is_on = kind is True
        self._memory = np.zeros((2, weights.size)) if kind else (None, None)
        self.count = self.factor = self.loss = 0.0
        # whether u may be nonzero, and has to be cleared before a restart
        self._has_content = False

    @property
    def u(self):
        # changes before the first iterate do not enter the average
        if not self.is_on or self.factor == 0.0:
            return None
        self._has_content = True
        return self._memory[0]

    def plan(self, number, check_at):
        """Restart a suffix average, or pause one that would restart before a check.

        `number` is the number of the next pass, and `check_at` that of the pass after
        which the gap is computed.
        """
        if self.kind != "suffix":
            return
        restart = number == self.restart_at
        if restart:
            self.restart_at = max(self.restart_at + 1, int(self.restart_at * 2**0.5))
        if self.restart_at <= check_at:
            self.is_on = False
        elif restart:
            self.is_on = True
            if self._has_content:
                self._memory[0][:] = 0.0
            self._has_content = False
            self.count = self.factor = self.loss = 0.0

    def add(self, loss):
        """Add the iterate after a round to the average.

        `loss` is the linear term of the iterate's dual value.
        """
        if not self.is_on:
            return
        self.count += 1.0
        self.factor += self.count
        self.loss += self.count * loss

    def current(self, loss):
        """Return the average before truncation, and the linear term of its dual value.

        Without an average, the iterate is returned, whose linear term is given.
        """
        if not self.is_on or self.count == 0.0:
            return self.weights.v, loss
        u, mean = self._memory
        np.divide(u, -self.factor, out=mean)
        mean += self.weights.v
        return mean, self.loss / self.factor

    def state(self):
        """Return the state that `resume` needs."""
        names = "restart_at", "is_on", "count", "factor", "loss"
        return {"u": self._memory[0], **taken(self, names)}

    def resume(self, entries):
        """Continue from the entries of a state."""
        self.restart_at, self.is_on = entries.whole("restart_at"), entries.flag("is_on")
        if self.is_on and not self.kind:
            raise entries.wrong("is_on", True, "False: there is no average")
        self.count = entries.real("count", 0.0)
        self.factor = entries.real("factor", 0.0)
        self.loss = entries.real("loss")
        if self.kind:
            u = entries.array("u", self._memory[0].shape)
            self._memory[0][:], self._has_content = u, True
