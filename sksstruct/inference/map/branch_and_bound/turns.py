"""Turns of branch and bound beside another solver, by the progress of its bound."""

import numpy as np

# Ratio of the time of branch and bound to the time of the other solver: least, first,
# and largest ratio, and the least ratio while the other solver makes no progress.
_LEAST, _FIRST, _MOST, _LEAST_ALONE = 0.25, 0.5, 2.0, 1.0
# The ratio doubles if branch and bound, at the rate of its last turn, would close the
# gap with at most this multiple of its work so far, or finds a better labeling.
_GOOD = 5.0
# The ratio halves if more than this multiple of the work would be needed.
_POOR = 25.0
# Table entries of binary variables that are read in the time of one entry of others.
_BINARY = 0.25


class Turns:
    """Turns of branch and bound, whose length depends on the progress of its bound.

    Parameters
    ----------
    run : MAPRun
        The run.
    exact : ExactSearch
        Branch and bound.

    Attributes
    ----------
    share : float
        Ratio of the time of branch and bound to the time of the other solver.
    """

    def __init__(self, run, exact):
        self.run, self.exact, self.share = run, exact, _FIRST
        self._speed = _BINARY if run.problem.max_states == 2 else 1.0
        self._due, self._score = 0.0, -np.inf

    def restart(self):
        """Start from the first ratio again, beside another solver."""
        self.share, self._due = _FIRST, 0.0

    def take(self, entries, alone=False):
        """Advance branch and bound, after work of the other solver.

        Parameters
        ----------
        entries : float
            Table entries that branch and bound would read in the time of the other
            solver's work.
        alone : bool, default=False
            Whether the other solver makes no progress.

        Returns
        -------
        stop : bool
            Whether the run has ended, or branch and bound has.
        """
        run, exact = self.run, self.exact
        self._due += self._speed * self.share * entries
        if self._due < 1.0 or exact.closed:
            return run.status is not None or exact.closed
        if run.score > self._score:
            exact.prefer(exact.run.labeling)
        # progress is measured by the bound of branch and bound itself, not by the run's
        score, gap, before = run.score, exact.bound - run.score, exact.work
        exact.advance(int(self._due))
        done, self._score = exact.work - before, run.score
        self._due -= done
        left = exact.bound - run.score
        # the turn's fraction of all work so far, to compare turns of different lengths
        turn = done / max(exact.work, 1)
        if run.score > score or _GOOD * (gap - left) > turn * gap:
            self.share = min(2.0 * self.share, _MOST)
        # the share is not halved before an allowed labeling exists to start from
        elif _POOR * (gap - left) < turn * gap and run.score >= run.lowest:
            self.share *= 0.5
        self.share = max(self.share, _LEAST_ALONE if alone else _LEAST)
        return run.status is not None or exact.closed
