"""What every solver is: parameters, the oracles it needs, and one call."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from sklearn.base import BaseEstimator

from sksstruct.utils._param_validation import Interval, validate_params


@dataclass
class Options:
    """How a problem is to be solved, apart from the solver's own parameters."""

    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    callback: Any = None
    dual_state: dict | None = None


class Solver(BaseEstimator):
    """Base of all solvers: subclasses implement ``_solve(model, alpha, options)``.

    Class attributes
    ----------------
    needs : tuple of str
        Oracles of which one is needed: "max", "exp", "topk", "projection" or "factors".
    losses : tuple of str
        Kinds of losses: "hinge", "smooth" (with a gradient).
    """

    required_oracles = ("max",)
    losses = ("hinge",)
    _parameter_constraints = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }
    # Whether the hinge is minimised through a smooth loss bound by the estimator.
    smooths = False
    # Whether the score is a nonlinear function of the weights.
    nonlinear = False
    # Whether weights can be confined to a box.
    bounded = False

    def check(self):
        """Raise an error if a parameter, or a combination, is not valid."""
        validate_params(self)

    def accepts(self, dual_state, model):
        """Tell whether `solve` can start from the state of an earlier result.

        Parameters
        ----------
        dual_state : dict
            Of a `SolverResult`.
        model : BoundModel or SmoothLoss
            Model with its data.

        Returns
        -------
        fits : bool
            Whether `solve` would take it.
        """
        return False

    def solve(
        self,
        model,
        alpha,
        *,
        random_state=None,
        n_jobs=None,
        verbose=0,
        callback=None,
        dual_state=None,
    ):
        """Minimise ``alpha/2 |w|^2`` plus the mean loss of a bound model.

        Parameters
        ----------
        model : BoundModel or SmoothLoss
            Model with its data, and its loss where that has a gradient; its weights
            are overwritten.
        alpha : float
            Regularisation.
        random_state : int, RandomState instance or None, default=None
            Order of the visits, where examples are visited one by one.
        n_jobs : int, default=None
            Threads for sweeps over all examples. Does not change the result.
        verbose : int, default=0
            Print a line whenever the objective is computed.
        callback : callable, default=None
            ``callback(n_passes, weights)`` after each pass, with a function that
            forms the weights that would be returned now; a true value stops the run.
        dual_state : dict, default=None
            What an earlier result left to start from.

        Returns
        -------
        result : SolverResult
            Weights, certificate and trace.
        """
        self.check()
        options = Options(random_state, n_jobs, verbose, callback, dual_state)
        return self._solve(model, alpha, options)

    def _solve(self, model, alpha, options):
        raise NotImplementedError


def starts_from_weights(dual_state, loss):
    """Whether a state holds weights of the model of a smooth loss."""
    return (
        "weights" in dual_state and len(dual_state["weights"]) == loss.model.n_weights
    )
