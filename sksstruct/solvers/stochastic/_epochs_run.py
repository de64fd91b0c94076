"""Base of the runs of SVRG and Casimir: smoothing of the hinge, and certificates.

A gradient g of the smoothed hinge and the expected loss E define a cutting plane, a
lower bound of the hinge, and the dual value E - |g|^2 / (2 alpha).
"""

import numpy as np

from sksstruct.solvers.bundle.bmrm import LineDual
from sksstruct.solvers.core.base import SolverRun
from sksstruct.solvers.core.box import Box
from sksstruct.solvers.core.certificate import GradientCertificate
from sksstruct.solvers.core.loop import LEAST_SCALE, Loop
from sksstruct.solvers.core.risk import Risk
from sksstruct.solvers.stochastic._epochs import Epochs, check_convex

# A fixed smoothing may change the objective by this fraction of the tolerance. The
# optimization error may take up the remaining fraction.
_SHARE = 0.5
# Lower bound of the fraction by which smoothing may change the objective.
_LEAST_BIAS = 1e-8


class EpochsRun(SolverRun):
    """Epochs on a smooth loss, or on a smoothing of the hinge, and their certificates.

    Parameters
    ----------
    solver : GradientSolver
        Its parameters are read.
    model : BoundModel or other bound model
        Model with its data.
    alpha : float
        Regularization.
    options : Options
        How the problem is to be solved.
    """

    def __init__(self, solver, model, alpha, options):
        self.loss = solver.smooth_loss(model)
        check_convex(self.loss)
        model = self.loss.model
        super().__init__(solver, model, alpha, options)
        self.box, self.hinge = Box.of(model), self.loss.nonsmooth
        self.epochs = Epochs(
            self.loss, self.rng, self.n_jobs, average=self.hinge, box=self.box
        )
        self.w = self.epochs.w
        start = options.start(model.n_weights)
        if start is not None:
            self.epochs.start_from(start)
        self.loop = Loop(solver, alpha, options)
        self.certificate = GradientCertificate(alpha, self.box)
        # the objective at the weights that were evaluated last
        self.value = np.inf
        if self.hinge:
            self.risk = Risk(model, self.n_jobs)
            self.epochs.calls += model.n_examples
            self.loop.scale = self.risk.value(np.zeros_like(self.w))
            if self.loop.scale < LEAST_SCALE:
                # zero weights are optimal if no output has a loss, e.g. with one output
                # per example
                self.loop.scale = self.loop.dual = 0.0
            # the mean parameters from which a gradient is computed are dual variables
            self.duals = LineDual(alpha, True, self.box)

    def last_smoothing(self):
        """Return the smoothing with which a gap of `tol` can be reached (Prop. 29)."""
        return self.smoothing(max(_SHARE * self.solver.tol, _LEAST_BIAS))

    def smoothing(self, part):
        """Return the smoothing that changes the objective at w = 0 by a fraction."""
        # if the objective is zero, the smoothing does not matter
        scale = self.loop.scale
        return part * scale / self.loss.diameter if scale else 1.0

    def certify(self, value):
        """Update the certificate from a gradient at the weights, where f is `value`.

        Returns the smoothed objective. If the loss has not computed the hinge with the
        gradient (`unseen`), the caller has to call `look`.
        """
        w, alpha, loop, loss = self.w, self.alpha, self.loop, self.loss
        value += alpha / 2 * float(w @ w)
        if not self.hinge:
            self.value, loop.calls = value, self.epochs.calls
            exact = float(np.mean(loss.exact))
            gradient = self.epochs.gradient
            dual, residual = self.certificate.at(value, w, gradient, exact)
            loop.report(value, w, dual, exact, residual=residual)
            return value
        if alpha > 0:
            self.duals.add(self.epochs.gradient, loss.expected_loss)
            loop.dual = max(loop.dual, self.duals.value)
        if not np.isnan(loss.hinge):
            self._report(loss.hinge)
        return value

    @property
    def unseen(self):
        """Whether the hinge was not computed with the last gradient."""
        return self.hinge and np.isnan(self.loss.hinge)

    def look(self):
        """Report the hinge objective of the weights, after a sweep over the data."""
        self.epochs.calls += self.model.n_examples
        self._report(self.risk.value(self.w))

    def _report(self, hinge):
        w, loop = self.w, self.loop
        self.value = hinge + self.alpha / 2 * float(w @ w)
        loop.calls = self.epochs.calls
        residual = np.inf
        if self.alpha == 0:
            # the residual of the smoothed objective
            gradient = self.epochs.gradient
            residual = self.certificate.at(loop.scale, w, gradient)[1]
        loop.report(self.value, w, loop.dual, residual=residual)
