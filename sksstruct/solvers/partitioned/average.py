"""The average of the iterates of rounds, with weights 1, 2, 3, ..."""

import numpy as np

from sksstruct.utils.entries import taken


class Average:
    """Mean of iterates and of the linear terms of their duals.

    With S_k = k (k + 1) / 2 and the iterates v_1, v_2, ..., the mean is

        sum_k k v_k / S_n = v_n - u / S_n,    u = sum_k S_{k-1} (v_k - v_{k-1})

    A change enters u when it enters v, so that nothing else of u is touched. The same
    is true of the linear term.

    Parameters
    ----------
    weights : Weights
        The iterate.
    kind : bool or "suffix"
        As `averaging` of `sksstruct.solvers.BCFW`, rounds being its visits.

    Attributes
    ----------
    u : ndarray or None
        What changes go into while there is an average.
    factor : float
        What they are multiplied by there.
    """

    def __init__(self, weights, kind):
        self.weights, self.kind = weights, kind
        self.restart_at = 2
        self.is_on = kind is True
        self._memory = np.zeros((2, weights.size)) if kind else (None, None)
        self.count = self.factor = self.loss = 0.0
        # whether there is anything in u: writing zeros to so much memory takes time
        self._is_used = False

    @property
    def u(self):
        # the first iterate is the average, whatever led to it
        if not self.is_on or self.factor == 0.0:
            return None
        self._is_used = True
        return self._memory[0]

    def plan(self, number, check_at):
        """Restart a suffix average before a pass, or pause one that is not used."""
        if self.kind != "suffix":
            return
        restart = number == self.restart_at
        if restart:
            self.restart_at = max(self.restart_at + 1, int(self.restart_at * 2**0.5))
        if self.restart_at <= check_at:
            self.is_on = False
        elif restart:
            self.is_on = True
            if self._is_used:
                self._memory[0][:] = 0.0
            self._is_used = False
            self.count = self.factor = self.loss = 0.0

    def add(self, loss):
        """Count the iterate after a round, and the linear term of its dual."""
        if not self.is_on:
            return
        self.count += 1.0
        self.factor += self.count
        self.loss += self.count * loss

    def current(self, loss):
        """Weights before truncation and the linear term of their dual.

        Those of the iterate, whose linear term is given, if there is no average.
        """
        if not self.is_on or self.count == 0.0:
            return self.weights.v, loss
        u, mean = self._memory
        np.divide(u, -self.factor, out=mean)
        mean += self.weights.v
        return mean, self.loss / self.factor

    def state(self):
        """What `resume` needs."""
        names = "restart_at", "is_on", "count", "factor", "loss"
        return {"u": self._memory[0], **taken(self, names)}

    def resume(self, entries):
        """Go on from a state."""
        self.restart_at, self.is_on = entries.whole("restart_at"), entries.flag("is_on")
        if self.is_on and not self.kind:
            raise entries.wrong("is_on", True, "False: there is no average")
        self.count = entries.real("count", 0.0)
        self.factor = entries.real("factor", 0.0)
        self.loss = entries.real("loss")
        if self.kind:
            u = entries.array("u", self._memory[0].shape)
            self._memory[0][:], self._is_used = u, True
