"""Common parts of the passes of all solvers: certificate, stopping rule, result."""

import math
import time

import numpy as np

from sksstruct.solvers.core.base import COLUMNS, COUNTS, SCALING
from sksstruct.solvers.core.result import SolverResult
from sksstruct.utils._clock import OutOfTime, until
from sksstruct.utils.parallel import seconds_of_sweep
from sksstruct.utils.progress import Progress, Status

# Number of reported objectives in a period. Without a certificate, the lowest
# objectives of the last two periods are compared.
PERIOD = 10
# A run without a certificate ends if the lowest objective of a period is below that of
# the period before by at most this fraction of the target gap.
FALL = 0.1

# check_every="auto": number of the pass of the next check, divided by the number of the
# present pass.
_GROWTH = 1.25

# Smallest time limit of a pass, in seconds.
_LEAST_SECONDS = 0.1
# Fraction of a time limit by which the last certificate may exceed the limit.
_EXCESS = 0.1
# Number of sweeps over the examples that the time reserved for a certificate allows.
_SWEEPS = 1.5
# Largest fraction of a time limit that is reserved for the certificate.
_MOST_RESERVED = 0.5
# Largest fraction of a time limit that optional work before the passes may take.
_MOST_FOR_START = 0.4

# Objectives below this are zero up to rounding errors of losses.
LEAST_SCALE = 1e-12

INEXACT = (
    "the objective can be below a dual value only if an oracle does not find the "
    "maximum. Check the model with sksstruct.models.check_model"
)


def check_order(primal, dual, scale):
    """Raise an error if the dual exceeds the primal by more than rounding errors."""
    # objective and dual are zero if constraints allow only the observed labelings
    if dual - primal > max(1e-6 * max(scale, abs(primal)), LEAST_SCALE):
        raise ValueError(
            f"the objective is {primal:.6g} and the dual value {dual:.6g}: {INEXACT}"
        )


class Loop(Progress):
    """Passes of a run, with a certificate for the weights that the run would return.

    Parameters
    ----------
    solver : solver object
        Its `max_iter` and `tol` are read.
    alpha : float
        Regularization.
    options : Options
        Its `verbose` and `callback` are read.
    scale : float or None
        Value that `tol` is relative to; None for the final objective.
    extra : tuple of str, default=()
        More columns of the trace; ``elements`` holds integers.
    keep_best : bool, default=True
        Whether to return the weights of the lowest objective, certified by the highest
        dual value; otherwise the weights of the last report.
    """

    def __init__(self, solver, alpha, options, scale=None, extra=(), *, keep_best=True):
        super().__init__(
            type(solver).__name__,
            (*COLUMNS, *extra),
            COUNTS,
            options.verbose,
        )
        self.solver, self.alpha, self.scale = solver, alpha, scale
        self.callback, self.keep_best = options.callback, keep_best
        self.limit = math.inf if options.max_seconds is None else options.max_seconds
        self.deadline = options.deadline
        # seconds that passes leave for the last certificate
        self.reserved = 0.0
        self.primal, self.weights, self.dual = np.inf, None, -np.inf
        self.dual_loss = None
        self.exact = 1.0
        # number that is zero at a stationary point, in units of the objective; used if
        # there is no dual value
        self.residual = np.inf
        self.calls = 0
        self.values = []
        self.reported = None

    @property
    def gap(self):
        """Certified upper bound of the objective minus the optimum."""
        if self.dual == -np.inf or self.exact < 1.0:
            return np.inf
        # rounding errors may put the dual slightly above the primal at the optimum
        return max(self.primal - self.dual, 0.0)

    @property
    def target(self):
        """The gap at which the run stops."""
        scale = abs(self.primal) if self.scale is None else self.scale
        return self.solver.tol * max(scale, LEAST_SCALE)

    def report(
        self,
        primal,
        weights,
        dual=-np.inf,
        exact=1.0,
        extra=(),
        *,
        residual=np.inf,
        dual_loss=None,
    ):
        """Record weights (copied) and a dual value; add a row to the trace.

        Parameters
        ----------
        primal : float
            Objective at the weights.
        weights : ndarray or None
            Flat weights. None: the caller stores the best weights, and sets them at
            the end.
        dual : float, default=-inf
            A lower bound of the optimum.
        exact : float, default=1.0
            Share of the examples whose loss is exact.
        extra : tuple, default=()
            Entries of the further columns.
        residual : float, default=inf
            A number that is small at a stationary point, in units of the objective.
        dual_loss : float, default=None
            Linear term of the dual. None: computed from the dual and the weights.
        """
        if not np.isfinite(primal):
            raise ValueError(
                f"training broke down: the objective is {primal:.3g}. {SCALING}"
            )
        self.dual = max(self.dual, dual) if self.keep_best else dual
        if exact == 1.0:  # else the objective is a lower estimate
            check_order(primal, self.dual, 1.0 if self.scale is None else self.scale)
        if primal < self.primal or not self.keep_best:
            self.primal = float(primal)
            self._keep(weights)
            self.exact, self.residual = exact, residual
            self.dual_loss = dual_loss
        self.values.append(float(primal))
        self.reported = self.n_iter
        self.record(
            (
                self.n_iter,
                self.calls,
                self.seconds(),
                self.primal,
                self.dual,
                self.gap,
                *extra,
            )
        )

    def _keep(self, weights):
        """Copy the weights to return, unless the caller stores them."""
        if weights is None:
            return
        if self.weights is not None and len(self.weights) == len(weights):
            # the old copy is overwritten, as large vectors take much memory
            self.weights[...] = weights
        else:
            # the model may have added weights of pairs since the last report
            self.weights = np.array(weights)

    @property
    def converged(self):
        """Whether the gap is small enough, or the objective no longer falls."""
        if self.primal == np.inf:
            return False
        if min(self.gap, self.residual) <= self.target:
            return True
        return self.gap == np.inf and self.has_settled()

    def has_settled(self):
        """Whether an objective without a certificate no longer falls.

        Reported objectives are compared, not the lowest objectives so far: objectives
        above the initial one that still fall are progress.
        """
        if len(self.values) <= 2 * PERIOD or not self.primal < self.values[0]:
            return False
        before = min(self.values[-2 * PERIOD : -PERIOD])
        return before - min(self.values[-PERIOD:]) <= FALL * self.target

    def end(self, weights, stalled=None):
        """Call the callback after a pass; return why the run ends now, or None.

        Parameters
        ----------
        weights : callable
            Forms the weights that would be returned now.
        stalled : bool or Status, default=None
            Whether the pass made no progress, or the status of a run that ends so.
        """
        stop = self.callback is not None and self.callback(self.n_iter, weights)
        # the callback has priority, so that a procedure does not continue after its
        # stop
        if stop:
            return stop if isinstance(stop, Status) else Status.CALLBACK
        return self.reason(stalled)

    def reason(self, stalled=None):
        """Return why the run ends after a pass, whatever the callback says, or None."""
        if self.converged:
            return Status.CONVERGED
        if time.perf_counter() >= self.deadline - self.reserved:
            return Status.TIME_LIMIT
        if stalled:
            return Status(stalled) if isinstance(stalled, str) else Status.STALLED
        if self.n_iter >= self.solver.max_iter:
            return Status.MAX_ITER
        return None

    def in_time(self):
        """Return a context for a pass, or work before it, that the time limit ends."""
        least = time.perf_counter() + _LEAST_SECONDS
        return until(max(self.deadline - self.reserved, least))

    def has_time(self):
        """Whether there is time for the last certificate, judged by earlier sweeps."""
        if self.status is not Status.TIME_LIMIT or self.limit < _LEAST_SECONDS:
            return True
        latest = self.deadline + _EXCESS * self.limit
        return time.perf_counter() + (seconds_of_sweep() or self.limit) <= latest

    def at_start(self):
        """Return a context that interrupts work before the passes if it takes too long.

        The context is for optional work, which may take a fraction of the time limit.
        """
        least = time.perf_counter() + _LEAST_SECONDS
        rest = (1.0 - _MOST_FOR_START) * self.limit
        soon = math.inf if self.limit == math.inf else self.deadline - rest
        return until(max(soon, least))

    def run(self, one_pass, look=None, dual_state=None, weights=None):
        """Call ``one_pass()`` until the run converges or makes no more progress.

        Parameters
        ----------
        one_pass : callable
            One pass; returns a true value or a `Status` if there is no progress.
        look : callable, default=None
            Computes and reports the objective after the last pass, if this pass has not
            reported it.
        dual_state : callable, default=None
            Forms the state that another run can start from. None: the weights.
        weights : callable, default=None
            Forms the weights that would be returned now. None: the weights reported.
            Needed where the first report may be missing.

        Returns
        -------
        result : SolverResult
            Weights, certificate and trace.
        """
        try:
            if self.status is None and self.reported is not None and self.converged:
                self.status = Status.CONVERGED
            while self.status is None:
                if look is not None and self.limit < math.inf:
                    self.reserved = min(
                        _SWEEPS * seconds_of_sweep(), _MOST_RESERVED * self.limit
                    )
                now = self._reported_weights if weights is None else weights
                self.status = self.end(now, self._pass(one_pass))
        except KeyboardInterrupt as interrupt:
            self.status = ended_by(interrupt)
        self.finish(look, weights)
        return self.result(dual_state)

    def _pass(self, one_pass):
        """Make a pass; count it unless it is interrupted before its end or a report."""
        self.n_iter += 1
        try:
            with self.in_time():
                return one_pass()
        except KeyboardInterrupt:
            if self.reported != self.n_iter:
                self.n_iter -= 1
                # the last report does not include the changes of the interrupted pass
                self.reported = None
            raise

    def finish(self, look, weights):
        """Report passes not reported yet; an interrupt meanwhile sets the status."""
        try:
            if look is not None and self.reported != self.n_iter and self.has_time():
                self.reserved = -_EXCESS * self.limit
                with self.in_time():
                    look()
                if self.status is Status.MAX_ITER and self.converged:
                    self.status = Status.CONVERGED
        except KeyboardInterrupt as interrupt:
            self.status = ended_by(interrupt)
        if self.trace.last(1) and self.trace.last(1)[0][0] > 0:
            return
        if self.weights is None or (self.reported != self.n_iter and weights):
            # no pass was reported: return the present weights instead of the reported
            # start
            self.primal, self.weights = np.inf, weights()

    def result(self, dual_state=None):
        """Return the result of the run."""
        weights, dual_loss = self.weights, self.dual_loss
        if dual_loss is None:
            dual_loss = self.dual + self.alpha / 2 * float(weights @ weights)
        return SolverResult(
            weights=weights,
            objective=self.primal,
            dual_gap=self.gap,
            dual_loss=dual_loss,
            n_iter=self.n_iter,
            status=self.status,
            history=self.trace.as_dict(),
            target=self.target,
            dual_state={"weights": weights} if dual_state is None else dual_state(),
            exact=self.exact,
        )

    def _reported_weights(self):
        return self.weights.copy()


def ended_by(interrupt):
    """Return the status of a run that an interrupt has ended."""
    late = isinstance(interrupt, OutOfTime)
    return Status.TIME_LIMIT if late else Status.INTERRUPTED


def later_check(loop, every):
    """Return the pass after which the gap is computed next, if gaps take long.

    For solvers whose gap takes about as long to compute as a pass.

    Parameters
    ----------
    loop : Loop
        The passes so far.
    every : int or "auto"
        Passes between two computations; "auto": a fraction of all passes so far.

    Returns
    -------
    number : float
        The gap is computed after the first pass of at least this number.
    """
    if every != "auto":
        return loop.n_iter + every
    return max(loop.n_iter + 1, _GROWTH * loop.n_iter)


def next_check(loop, every):
    """Return the pass after which the gap is computed again.

    Parameters
    ----------
    loop : Loop
        The passes so far.
    every : int or "auto"
        Passes between two computations; "auto": when the gap is expected to reach the
        tolerance, extrapolated from its last two values, and at most ten passes
        later.

    Returns
    -------
    number : int
        Number of the pass.
    """
    if every != "auto":
        return (loop.n_iter // every + 1) * every
    rows = loop.trace.last(2)
    wait = min(loop.n_iter, 10)
    if len(rows) == 2 and loop.target > 0:
        (first, old), (last, new) = ((row[0], row[5]) for row in rows)
        rate = np.log(old / new) / (last - first) if new > 0 else 0.0
        if rate > 0:  # extrapolates a constant rate of decrease
            wait = min(wait, np.ceil(np.log(new / loop.target) / rate))
    return loop.n_iter + max(int(wait), 1)
