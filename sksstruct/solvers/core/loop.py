"""What the passes of every solver have in common: clock, trace, stopping rule."""

import time

import numpy as np

from sksstruct.solvers.core.result import SolverResult, Trace

# Without a certificate: reports that are compared with as many before, and the part of
# tol that the objective must have fallen by.
_PERIOD, _FALL = 10, 0.1
SCALING = (
    "The features, or 1 / alpha, are too large for floating-point arithmetic: scale "
    "the features, for instance to unit variance."
)


INEXACT = (
    "no objective is below a dual value, unless an oracle does not find the maximum. "
    "Is the model right? sksstruct.models.check_model tells"
)


def check_order(primal, dual, scale):
    """The dual is a lower bound of the primal, up to rounding."""
    if dual - primal > 1e-6 * max(scale, abs(primal)):
        raise ValueError(
            f"the objective is {primal:.6g} and the dual value {dual:.6g}: {INEXACT}"
        )


class Loop:
    """Passes of one run, with the lowest objective and the highest dual value so far.

    Parameters
    ----------
    solver : solver object
        Its `max_iter` and `tol` are read.
    alpha : float
        Regularisation.
    options : Options
        Its `verbose` and `callback` are read.
    scale : float or None
        What `tol` is relative to; None for the objective reached.
    extra : tuple of str, default=()
        More columns of the trace.
    """

    def __init__(self, solver, alpha, options, scale=None, extra=()):
        self.started = time.perf_counter()
        self.solver = solver
        self.alpha = alpha
        self.verbose = options.verbose
        self.callback = options.callback
        self.scale = scale
        self.trace = Trace(extra)
        self.primal, self.weights, self.dual = np.inf, None, -np.inf
        self.exact = 1.0
        self.calls = 0
        self.n_pass = 0
        self.values = []
        self.reported = 0

    @property
    def gap(self):
        """Certified distance of the lowest objective to the optimum."""
        if self.dual == -np.inf or self.exact < 1.0:
            return np.inf
        # Rounding may put the dual a hair above the primal at the optimum.
        return max(self.primal - self.dual, 0.0)

    @property
    def target(self):
        """The gap asked for."""
        scale = abs(self.primal) if self.scale is None else self.scale
        return self.solver.tol * scale

    def report(self, primal, weights, dual=-np.inf, exact=1.0, extra=()):
        """Take note of weights (copied) and of a dual value; a row of the trace."""
        if not np.isfinite(primal):
            raise ValueError(
                f"training broke down: the objective is {primal:.3g}. {SCALING}"
            )
        self.dual = max(self.dual, dual)
        check_order(primal, self.dual, 1.0 if self.scale is None else self.scale)
        if primal < self.primal:
            self.primal, self.weights = float(primal), np.array(weights)
            self.exact = exact
        self.values.append(float(primal))
        self.reported = self.n_pass
        seconds = time.perf_counter() - self.started
        self.trace.add(
            self.n_pass, self.calls, seconds, self.primal, self.dual, self.gap, *extra
        )
        if self.verbose:
            print(
                f"pass {self.n_pass:5d}  oracle calls {self.calls:10d}  "
                f"{seconds:8.2f} s  primal {self.primal:.6g}  dual {self.dual:.6g}  "
                f"gap {self.gap:.3g} (target {self.target:.3g})",
                flush=True,
            )

    @property
    def converged(self):
        """Whether the gap is small enough, or the objective no longer falls."""
        if self.gap <= self.target:
            return True
        # Of what was reported, and not of the best: an iterate that comes down from
        # above where it began is under way.
        return (
            self.gap == np.inf
            and len(self.values) > 2 * _PERIOD
            and self.primal < self.values[0]
            and min(self.values[-2 * _PERIOD : -_PERIOD]) - min(self.values[-_PERIOD:])
            <= _FALL * self.target
        )

    def run(self, one_pass, look=None, dual_state=None):
        """Call ``one_pass()`` until it is enough, or it returns True: no progress.

        It may return a status instead, which says why there is none.

        `report` must have been called before, once. ``look()`` is called in the end
        where the last passes were not reported. ``dual_state()`` forms what a run can
        start from again; the weights where it is None.
        """
        status = "max_iter"
        try:
            while True:
                if self.converged:
                    status = "converged"
                    break
                if self.n_pass == self.solver.max_iter:
                    break
                self.n_pass += 1
                stalled = one_pass()
                if self.callback is not None and self.callback(
                    self.n_pass, lambda: self.weights.copy()
                ):
                    status = "callback"
                    break
                if stalled and not self.converged:
                    status = stalled if isinstance(stalled, str) else "stalled"
                    break
        except KeyboardInterrupt:
            status = "interrupted"
        try:
            if look is not None and self.reported < self.n_pass:
                look()
        except KeyboardInterrupt:
            status = "interrupted"
        weights = self.weights
        return SolverResult(
            weights=weights,
            objective=self.primal,
            dual_gap=self.gap,
            dual_loss=self.dual + self.alpha / 2 * float(weights @ weights),
            n_iter=self.n_pass,
            status=status,
            history=self.trace.as_dict(),
            target=self.target,
            dual_state={"weights": weights} if dual_state is None else dual_state(),
            exact=self.exact,
        )
