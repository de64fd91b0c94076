"""Dual coordinate ascent on smooth losses: Python side of `_dual_ascent.pyx`."""

import numpy as np

from sksstruct.solvers.stochastic import _dual_ascent
from sksstruct.utils.entries import Entries

# The share s of `_dual_ascent.pyx` with which the second visit of an example starts.
_FIRST_SHARE = 0.5


def steepness(dual, order):
    """Return the ratio of squared norms to gains at w = 0.

    The ratio is sum_i p_i^2 |A_i^T d_i|^2 / sum_i p_i (L_i + mu H), where d_i is the
    change from the observed labeling to the distribution with the potentials at w = 0.
    Divided by alpha, the ratio is 1 if the changes d_i have the best length.
    """
    zero = np.zeros(dual.model.n_weights)
    return _dual_ascent.steepness(dual, order, dual.model.workspace(zero))


class DualAscentKernel(_dual_ascent.DualAscentVisits):
    """Compiled passes of dual coordinate ascent, and the state of the visits.

    Parameters
    ----------
    dual : EntropyDual
        The dual variables.
    weights : Weights
        The weights that the dual variables define.
    alpha : float
        Regularization, plus the strength of a proximal term, if there is one.

    Attributes
    ----------
    gaps : ndarray of shape (n_examples,)
        Estimates of the block gaps.
    oracle_calls : int
        Number of calls of the exp oracle.
    gain : float
        Increase of the dual value since `gain` was last reset.
    """

    def __init__(self, dual, weights, alpha):
        n_examples = dual.model.n_examples
        self._shares = np.full(n_examples, _FIRST_SHARE)
        self._parts = np.ones(n_examples)
        gaps = np.zeros(n_examples)
        super().__init__(dual, weights, alpha, self._shares, self._parts, gaps)

    def set_gaps(self, gaps):
        """Replace the estimates by exact block gaps."""
        self.gaps[:] = gaps
        self.gap_total = gaps.sum()

    def snapshot(self):
        """Return all state of visits besides weights and dual variables."""
        return {
            "shares": self._shares.copy(),
            "parts": self._parts.copy(),
            "gaps": self.gaps.copy(),
            "gap_total": self.gap_total,
            "advantage": self.advantage,
            "last_part": self.last_part,
        }

    def resume(self, state):
        """Continue from a snapshot, with bitwise equal results."""
        entries, shape = Entries(state, "dual ascent"), self.gaps.shape
        self._shares[:] = entries.array("shares", shape, float, 0.0, 1.0)
        self._parts[:] = entries.array("parts", shape, float, 0.0, 1.0)
        self.gaps[:] = entries.array("gaps", shape, float, 0.0)
        self.gap_total = entries.real("gap_total", 0.0, infinite=True)
        self.advantage = entries.real("advantage")
        self.last_part = entries.real("last_part", 0.0, 1.0)
