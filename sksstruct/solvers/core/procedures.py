"""Training that calls a solver more than once: in rounds, or from a smoother loss."""

import math
import time

import numpy as np
from sklearn.base import clone

from sksstruct.losses import SmoothedHinge
from sksstruct.models.roles import smooth_loss
from sksstruct.solvers.core.base import Solver
from sksstruct.solvers.core.loop import ended_by
from sksstruct.solvers.lbfgs import LBFGS
from sksstruct.utils._clock import until
from sksstruct.utils.progress import Status

# Largest number of rounds. A round completes missing labels, and trains with them.
MAX_ROUNDS = 10
# Largest mu of the entropy-smoothed loss that is minimized first, before training with
# an l2-smoothed loss.
_FIRST_MU = 0.1
# Smallest tolerance of the entropy-smoothed training, and the tolerance of training by
# likelihood before missing labels are first completed.
_FIRST_TOL = 0.05
# Largest number of iterations of a short training before missing labels are first
# completed.
_FIRST_ITER = 50
# Statuses of a result after which a procedure does not call the solver again.
_ENDED = {Status.INTERRUPTED, Status.CALLBACK, Status.EARLY, Status.TIME_LIMIT}


def procedure(solver, model, state=None):
    """Return the given solver, or the procedure that a model needs to call it.

    Parameters
    ----------
    solver : solver object
        Solver of the problems.
    model : bound model
        Model to train.
    state : dict or None
        State of an earlier result that training continues from.

    Returns
    -------
    solver : solver object
        An object with the same method ``solve``.
    """
    if "completion" in model.oracles:
        return CompletionRounds(solver)
    smooth = model.surrogate
    if smooth is not None and not smooth.by_sums and "exp" in model.oracles:
        return solver if state is not None else FromEntropy(solver)
    return solver


class Procedure(Solver):
    """A solver that calls another solver more than once, and counts all its passes.

    Parameters
    ----------
    solver : solver object
        Solver of the problems.
    """

    def __init__(self, solver):
        self.solver = solver
        self.started = time.perf_counter()

    def check_penalty(self, l1):
        """Raise an error if the called solver cannot have the l1 penalty."""
        self.solver.check_penalty(l1)

    def check_alpha(self, alpha):
        """Raise an error if alpha is zero and the called solver cannot have this."""
        self.solver.check_alpha(alpha)

    def check_model(self, model):
        """Raise an error if a model does not offer what the called solver needs.

        All models that the procedure trains offer the same.
        """
        self.solver.check_model(model)

    @property
    def max_iter(self):
        """Largest total number of passes, or None if it is not known."""
        return self.solver.max_iter

    def _call(self, solver, model, alpha, options, passes, state=None):
        """Solve one of the problems, after `passes` passes on earlier problems."""
        callback = options.callback
        if callback is not None:

            def callback(number, weights):
                return options.callback(passes + number, weights)

        seconds_left = options.max_seconds
        if seconds_left is not None:
            seconds_left = max(0.0, seconds_left - (time.perf_counter() - self.started))
        result = solver.solve(
            model,
            alpha,
            l1=options.l1,
            max_seconds=seconds_left,
            random_state=options.random_state,
            n_jobs=options.n_jobs,
            verbose=options.verbose,
            callback=callback,
            dual_state=state,
        )
        result.n_iter += passes
        return result


class FromEntropy(Procedure):
    """Starts training with an l2-smoothed loss near the entropy-smoothed solution.

    At w = 0 all labelings have equal scores, so that the k best labelings are
    arbitrary.
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
        if left < 1 or result.status in _ENDED:
            return self._unfinished(model, alpha, result)
        rest, state = clone(solver).set_params(max_iter=left), result.dual_state
        try:
            return self._call(rest, model, alpha, options, result.n_iter, state)
        except KeyboardInterrupt as interrupt:
            # the interrupt came before the first pass of the second call; during its
            # passes, the call would have returned a result
            result.status = ended_by(interrupt)
            return self._unfinished(model, alpha, result)

    def _unfinished(self, model, alpha, result):
        """Turn the entropy-smoothed result into a result for the requested loss."""
        if result.status is Status.CONVERGED:
            result.status = Status.MAX_ITER
        weights, loss = result.weights, smooth_loss(model, model.surrogate)
        value, gradient = [], np.zeros_like(weights)
        # the objective is computed at zero, too, as the tolerance is relative to it
        with until(math.inf):
            for w in (np.zeros_like(weights), weights):
                value.append(loss.value_and_gradient(w, gradient))
        result.objective = value[1] + alpha / 2 * float(weights @ weights)
        result.exact = float(np.mean(loss.exact))
        result.target = self.solver.tol * value[0]
        # the duality gap was that of the entropy-smoothed loss, and is no bound for the
        # requested loss
        result.dual_gap = np.inf
        return result


def _start_of_rounds(solver, first):
    """Return the solver of the first round, whose weights are only a start."""
    if first.likelihood:
        # the first problem is a likelihood, whatever the requested loss is
        return LBFGS(min(solver.max_iter, _FIRST_ITER), _FIRST_TOL)
    return solver


def completed_once(solver, model, alpha, weights=None, **options):
    """Return a model with completed labels, for a solver that is called only once.

    Parameters
    ----------
    solver : solver object
        Solver of the problem.
    model : bound model
        The model; it is returned if no label is missing.
    alpha : float
        Regularization.
    weights : ndarray of shape (n_weights,), default=None
        Weights for decoding. None: the weights of a short first round.
    **options
        Further arguments of `solve`: `n_jobs` and `random_state`.

    Returns
    -------
    model : bound model
        The model with completed labels.
    """
    if "completion" not in model.oracles:
        return model
    rounds = model.completion
    if weights is None:
        few = clone(solver).set_params(max_iter=min(solver.max_iter, _FIRST_ITER))
        first = rounds.first
        weights = _start_of_rounds(few, first).solve(first, alpha, **options).weights
    labels = rounds.complete(weights, options["n_jobs"], solver.layout(model))
    return rounds.with_labels(labels)


class CompletionRounds(Procedure):
    """Completes missing labels, and trains on them, in turns.

    This is the concave-convex procedure of Yu and Joachims (2009). The problem is not
    convex, so that there is no bound on the optimum.
    """

    max_iter = None

    def _solve(self, model, alpha, options):
        layout = self.solver.layout(model)

        def complete():
            return rounds.complete(result.weights, options.n_jobs, layout)

        rounds = model.completion
        first = rounds.first
        start = _start_of_rounds(self.solver, first)
        result = self._call(start, first, alpha, options, 0)
        labels = None
        try:
            for _ in range(MAX_ROUNDS):
                if result.status in _ENDED:
                    break
                completed = complete()
                if labels is not None and np.array_equal(completed, labels):
                    break
                labels = completed
                result = self._call(
                    self.solver,
                    rounds.with_labels(labels),
                    alpha,
                    options,
                    result.n_iter,
                )
            else:
                changed = (complete() != labels).any()
                if changed and result.status in (Status.CONVERGED, Status.FLAT):
                    result.status = Status.ROUNDS
        except KeyboardInterrupt as interrupt:
            result.status = ended_by(interrupt)
        result.dual_gap = np.inf
        return result
