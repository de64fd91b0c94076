"""Limited-memory quasi-Newton method for smooth losses.

Minimises P(w) = alpha/2 |w|^2 + sum_i p_i f_i(w). With the expected mean parameters at
w as dual variables, whose weights are w' = -grad f(w) / alpha, the duality gap is
alpha/2 |w - w'|^2 = |grad P(w)|^2 / (2 alpha).
"""

import time
from numbers import Integral

import numpy as np
from scipy.optimize import minimize

from sksstruct.models.protocols._base import SmoothLoss
from sksstruct.solvers.core.base import Solver, starts_from_weights
from sksstruct.solvers.core.loop import SCALING
from sksstruct.solvers.core.result import SolverResult, Trace
from sksstruct.utils._param_validation import Interval

# Without a certificate: iterations looked back on, and the part of tol that the
# objective must have fallen by.
_PERIOD, _FALL = 10, 0.1


class LBFGS(Solver):
    """L-BFGS on smooth losses, `scipy.optimize.minimize` over compiled sweeps.

    Minimises ``alpha/2 |w|^2 + sum_i p_i f_i(w)`` for the negative log-likelihood or a
    smoothed hinge loss. The expected mean parameters of every example are a point of
    the dual, and the duality gap between it and w is ``|gradient|^2 / (2 alpha)``: the
    certificate costs nothing.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of iterations. An iteration is one sweep of the oracles over all
        examples, sometimes two.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective; where there is none, when
        the objective has fallen by less than ``tol / 10`` of itself in ten iterations.
    memory : int, default=10
        Pairs of vectors that the approximation of the Hessian is made of.

    Notes
    -----
    Where labels were not observed the loss is not convex and has no dual; training
    then stops when ``|gradient|^2 / (2 alpha)`` is small. Where the K best labelings
    are not enough for an l2-smoothed loss, the dual is one, but the objective is only a
    lower estimate. The gap is ``inf`` in both cases.

    References
    ----------
    D. C. Liu and J. Nocedal, "On the limited memory BFGS method for large scale
    optimization", Mathematical Programming 45, 1989.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.solvers import LBFGS
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
    >>> tagger = ChainCRF(alpha=0.1, loss="log", solver=LBFGS(tol=1e-6)).fit(X, y)
    >>> tagger.predict([[[1.0], [1.0]]])[0].tolist()
    ['b', 'b']
    """

    required_oracles = ("exp", "topk")
    losses = ("smooth",)
    _parameter_constraints = {
        **Solver._parameter_constraints,
        "memory": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, max_iter=1000, tol=3e-3, *, memory=10):
        self.max_iter = max_iter
        self.tol = tol
        self.memory = memory

    def accepts(self, dual_state, model):
        return starts_from_weights(dual_state, model)

    def _solve(self, model, alpha, options):
        if not isinstance(model, SmoothLoss):
            raise TypeError(
                "LBFGS needs a loss with a gradient: loss='log' or 'smoothed_hinge'"
            )
        return _Run(self, model, alpha, options).run(options.callback)


class _Stop(Exception):
    """Leaves scipy's loop."""


class _Run:
    """One call of `LBFGS.solve`."""

    def __init__(self, solver, loss, alpha, options):
        self.started = time.perf_counter()
        self.solver = solver
        self.loss = loss
        self.model = loss.model
        self.alpha = alpha
        self.n_jobs = options.n_jobs
        self.verbose = options.verbose
        self.model.start()
        if options.dual_state is not None:
            start, kept = options.dual_state["weights"], loss.support
            if kept is None:
                kept = slice(None)
            self.model.w[kept] = start[kept]
        self.gradient = np.zeros_like(self.model.w)
        self.best = self.first = None
        self.best_dual = -np.inf
        self.calls = 0
        self.primals = []
        self.n_iter = 0
        self.trace = Trace()

    def run(self, callback):
        solver, support = self.solver, self.loss.support
        status = "stalled"
        x = self.model.w.copy() if support is None else self.model.w[support]
        try:
            self.first = self._evaluate(x)
            if self._report():
                status = "converged"
            else:
                minimize(
                    self._evaluate,
                    x,
                    jac=True,
                    method="L-BFGS-B",
                    callback=lambda _: self._after(callback),
                    options={
                        "maxiter": solver.max_iter,
                        "maxfun": 100 * solver.max_iter,
                        "maxcor": solver.memory,
                        "ftol": 0.0,
                        "gtol": 0.0,
                    },
                )
        except _Stop as stop:
            status = stop.args[0]
        except KeyboardInterrupt:
            if self.best is None:
                raise
            status = "interrupted"
        primal = self.best[0]
        weights = self.weights()
        return SolverResult(
            weights=weights,
            objective=primal,
            dual_gap=self._gap(),
            dual_loss=self.best_dual + self.alpha / 2 * (weights @ weights),
            n_iter=self.n_iter,
            status=status,
            history=self.trace.as_dict(),
            target=solver.tol * abs(primal),
            dual_state={"weights": weights},
            exact=float(np.mean(self.best[2])),
        )

    def _gap(self):
        """Certified distance of the lowest objective to the optimum."""
        primal, _, exact, _ = self.best
        if not (self.loss.convex and np.all(exact)):
            return np.inf
        return max(primal - self.best_dual, 0.0)

    def _evaluate(self, x):
        """Objective and its gradient, of the weights that exist."""
        if self.first is not None:  # scipy asks again for the start
            first, self.first = self.first, None
            return first
        w, support = self.model.w, self.loss.support
        if support is None:
            w[:] = x
        else:
            w[support] = x
        loss = self.loss.value_and_gradient(self.gradient, self.n_jobs)
        gradient = self.gradient if support is None else self.gradient[support]
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = gradient + self.alpha * x
            primal = loss + self.alpha / 2 * (x @ x)
            residual = (gradient @ gradient) / (2 * self.alpha)
        if not (np.isfinite(primal) and np.isfinite(residual)):
            raise ValueError(
                f"training broke down: the objective is not finite. {SCALING}"
            )
        self.calls += 1
        if self.loss.convex:
            self.best_dual = max(self.best_dual, primal - residual)
        if self.best is None or primal < self.best[0]:
            self.best = primal, x.copy(), np.array(self.loss.exact), residual
        return primal, gradient

    def weights(self):
        """Flat weights of the lowest objective so far."""
        if self.loss.support is None:
            return self.best[1].copy()
        weights = np.zeros_like(self.model.w)
        weights[self.loss.support] = self.best[1]
        return weights

    def _report(self):
        """Add a row to the trace; is the tolerance reached?"""
        primal, _, exact, residual = self.best
        gap = self._gap()
        seconds = time.perf_counter() - self.started
        calls = self.calls * self.model.n_examples
        self.trace.add(self.n_iter, calls, seconds, primal, self.best_dual, gap)
        if self.verbose:
            print(
                f"iteration {self.n_iter}: objective {primal:.6g}, gap {gap:.3g}, "
                f"{seconds:.1f} s"
            )
        self.primals.append(primal)
        if min(gap, residual) <= self.solver.tol * abs(primal):
            return True
        # A gradient of the K best labelings only may never get small.
        return (
            not np.all(exact)
            and len(self.primals) > _PERIOD
            and self.primals[-1 - _PERIOD] - primal
            <= _FALL * self.solver.tol * abs(primal)
        )

    def _after(self, callback):
        self.n_iter += 1
        done = self._report()
        stop = callback is not None and callback(self.n_iter, self.weights)
        if done:
            raise _Stop("converged")
        if stop:
            raise _Stop("callback")
        if self.n_iter == self.solver.max_iter:
            raise _Stop("max_iter")
