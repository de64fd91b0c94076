"""Training that calls a solver more than once: in rounds, or from a smoother loss."""

import numpy as np
from sklearn.base import clone

from sksstruct.losses import SmoothedHinge
from sksstruct.solvers.core.base import Solver
from sksstruct.solvers.lbfgs import LBFGS
from sksstruct.utils.progress import Status

# Rounds of completing labels that were not observed, and training.
MAX_ROUNDS = 10
# Strength of the entropy, at most, and tolerance of what an l2-smoothed loss starts
# from.
_FIRST_MU, _FIRST_TOL = 0.1, 0.05


def procedure(solver, model, state=None):
    """How a solver is used on a model: itself, or one of the procedures below.

    Parameters
    ----------
    solver : solver object
        What solves the problems.
    model : bound model
        What it is trained on.
    state : dict or None
        What training goes on from.

    Returns
    -------
    solver : solver object
        With the same method ``solve``.
    """
    if "completion" in model.oracles:
        return CompletionRounds(solver)
    smooth = model.surrogate
    if smooth is not None and smooth.smoothing == "l2" and "exp" in model.oracles:
        return solver if state is not None else FromEntropy(solver)
    return solver


class Procedure(Solver):
    """A solver that is called more than once, the passes being counted together.

    Parameters
    ----------
    solver : solver object
        What solves the problems.
    """

    _parameter_constraints = {}

    def __init__(self, solver):
        self.solver = solver

    def check_model(self, model):
        """The solver's own check does for all problems that are alike to it."""
        self.solver.check_model(model)

    @property
    def max_iter(self):
        """Passes in all, where that is known."""
        return getattr(self.solver, "max_iter", None)

    def _call(self, solver, model, alpha, options, passes, state=None):
        """Solve one of the problems after so many passes on others."""
        callback = options.callback
        if callback is not None:

            def callback(number, weights):
                return options.callback(passes + number, weights)

        result = solver.solve(
            model,
            alpha,
            random_state=options.random_state,
            n_jobs=options.n_jobs,
            verbose=options.verbose,
            callback=callback,
            dual_state=state,
        )
        result.n_iter += passes
        return result


class FromEntropy(Procedure):
    """Solves a problem with an l2-smoothed loss from about the solution with entropy.

    All labelings are equal at w = 0, where the k best say nothing.
    """

    def _solve(self, model, alpha, options):
        solver, loss = self.solver, model.surrogate
        start = LBFGS(solver.max_iter, max(solver.tol, _FIRST_TOL))
        model.surrogate = SmoothedHinge("entropy", min(loss.mu, _FIRST_MU), 1)
        try:
            result = self._call(start, model, alpha, options, 0)
        finally:
            model.surrogate = loss
        left = solver.max_iter - result.n_iter
        if left < 1 or result.status in (Status.INTERRUPTED, Status.CALLBACK):
            # of another loss: nothing is known of this one
            result.dual_gap, result.exact = np.inf, 0.0
            return result
        rest = clone(solver).set_params(max_iter=left)
        return self._call(rest, model, alpha, options, result.n_iter, result.dual_state)


class CompletionRounds(Procedure):
    """Completes labels that were not observed, and trains on them, in turns.

    The concave-convex procedure of Yu and Joachims (2009); nothing is known of the
    optimum, as the problem is not convex.
    """

    max_iter = None

    def _solve(self, model, alpha, options):
        def complete():
            return model.complete(result.weights, options.n_jobs)

        result = self._call(self.solver, model.segments, alpha, options, 0)
        labels = None
        try:
            for _ in range(MAX_ROUNDS):
                if result.status in (Status.INTERRUPTED, Status.CALLBACK):
                    break
                completed = complete()
                if labels is not None and np.array_equal(completed, labels):
                    break
                labels = completed
                result = self._call(
                    self.solver,
                    model.with_labels(labels),
                    alpha,
                    options,
                    result.n_iter,
                )
            else:
                changed = (complete() != labels).any()
                if result.status is Status.CONVERGED and changed:
                    result.status = Status.ROUNDS
        except KeyboardInterrupt:
            result.status = Status.INTERRUPTED
        result.dual_gap = np.inf
        return result
