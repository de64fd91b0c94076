"""Runs of block-coordinate Frank-Wolfe with the gap computed beside them."""

import numpy as np

from sksstruct.solvers.core.base import Options
from sksstruct.solvers.frank_wolfe.bcfw import BCFW, BCFWState


class Run:
    """One run; the duality gap is computed offline, and its calls are not counted.

    Parameters
    ----------
    model : BoundModel
        The model with its data.
    alpha : float
        Regularization.
    refresh : int or None
        Passes between two sweeps that renew the estimates of the block gaps, which are
        part of the method and counted. None: no such sweeps.
    seed : int
        Order of the visits.
    **options : dict
        Options of `sksstruct.solvers.BCFW`.
    """

    def __init__(self, model, alpha, refresh=10, seed=0, **options):
        solver = BCFW.as_published(averaging=False, **options)
        self.model, self.alpha, self.refresh = model, alpha, refresh
        self.state = BCFWState(solver, model, alpha, Options(seed))
        self.kernel = self.state.kernel
        self.estimates = solver.sampling == "gap" or solver.cache
        self.n_passes = self.sweeps = 0
        self.gaps, self.hinge = np.empty((2, model.n_examples))

    @property
    def calls(self):
        """Effective passes: oracle calls for each example."""
        return self.kernel.oracle_calls / self.model.n_examples + self.sweeps

    def one_pass(self):
        """Make a pass, and renew the estimates if it is time."""
        self.n_passes += 1
        self.state.passes.one_pass(first=self.n_passes == 1)
        if self.estimates and self.refresh and self.n_passes % self.refresh == 0:
            self.state.check_gaps()
            self.sweeps += 1

    def gap(self):
        """Duality gap of the iterate; changes nothing."""
        n = self.model.n_examples
        workspace = self.model.workspace(self.state.weights.w, training=False)
        self.kernel.check(workspace, 0, n, self.hinge, self.gaps)
        return float(self.gaps.sum())

    def dual(self):
        """Dual value of the iterate."""
        w = self.state.weights.w
        return float(self.kernel.loss - self.alpha / 2 * (w @ w))

    def until(self, budget, most=5, points=20):
        """Gap after growing numbers of effective passes, up to a budget.

        Parameters
        ----------
        budget : float
            Effective passes.
        most : int
            Passes as a multiple of it, for runs that hardly call the oracle.
        points : int
            Number of measurements, equally spaced on a logarithmic scale.

        Returns
        -------
        calls, gaps : list
            Effective passes, and the gaps after them.
        """
        marks = list(np.geomspace(1, budget, points))
        calls, gaps = [], []
        while self.n_passes < most * budget:
            self.one_pass()
            if self.calls >= marks[0]:
                calls.append(self.calls)
                gaps.append(self.gap())
                marks = [mark for mark in marks if mark > self.calls]
            if not marks or (gaps and gaps[-1] < 1e-9):
                break
        else:
            calls.append(self.calls)
            gaps.append(self.gap())
        return calls, gaps


def at(calls, gaps, budget):
    """Gap at a number of effective passes, or at the last measurement."""
    return float(np.exp(np.interp(np.log(budget), np.log(calls), np.log(gaps))))


def non_uniformity(values):
    """chi of Theorem 2: 1 where all values are equal, sqrt(n) where one is not zero."""
    values = np.asarray(values, dtype=float)
    return float(len(values) ** 0.5 * np.linalg.norm(values) / values.sum())
