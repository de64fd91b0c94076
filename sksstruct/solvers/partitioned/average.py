"""The average of the iterates of rounds, with weights 1, 2, 3, ..."""

import numpy as np


class Average:
    """Mean of iterates and of the linear terms of their duals.

    Parameters
    ----------
    weights : Weights
        The iterate.
    kind : bool or "suffix"
        As `averaging` of `sksstruct.solvers.BCFW`, rounds being its passes.
    """

    def __init__(self, weights, kind):
        self.weights, self.kind = weights, kind
        self.restart_at = 2
        self.is_on = kind is True
        self.sum = np.zeros(weights.size) if kind else None
        self.mean = np.empty(weights.size) if kind else None
        self.count = self.total = self.loss = 0.0

    def plan(self, number, check_at):
        """Restart a suffix average before a round, or pause one that is not used."""
        if self.kind != "suffix":
            return
        restart = number == self.restart_at
        if restart:
            self.restart_at = max(self.restart_at + 1, int(self.restart_at * 2**0.5))
        if self.restart_at <= check_at:
            self.is_on = False
        elif restart:
            self.is_on = True
            self.sum[:] = 0.0
            self.count = self.total = self.loss = 0.0

    def add(self, loss):
        """Add the iterate after a round, and the linear term of its dual."""
        if not self.is_on:
            return
        self.count += 1.0
        self.total += self.count
        np.multiply(self.weights.v, self.count, out=self.mean)
        self.sum += self.mean
        self.loss += self.count * loss

    def current(self, loss):
        """Weights before truncation and the linear term of their dual.

        Those of the iterate, whose linear term is given, where there is no average.
        """
        if not self.is_on or self.count == 0.0:
            return self.weights.v, loss
        np.divide(self.sum, self.total, out=self.mean)
        return self.mean, self.loss / self.total

    def state(self):
        """What `resume` needs."""
        numbers = self.restart_at, self.is_on, self.count, self.total, self.loss
        return {"sum": self.sum, "numbers": numbers}

    def resume(self, state):
        """Go on from a state."""
        self.restart_at, self.is_on, self.count, self.total, self.loss = state[
            "numbers"
        ]
        if self.sum is not None:
            self.sum[:] = state["sum"]
