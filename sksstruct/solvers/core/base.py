"""The base of all solvers: parameters, required oracles, and the method `solve`."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.random import RandomState
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from sksstruct.losses import SmoothedHinge
from sksstruct.models.protocols._bound_model import BoundModel, WeightsFull
from sksstruct.models.roles import smooth_loss
from sksstruct.solvers.core.box import Box
from sksstruct.solvers.core.result import SolverResult
from sksstruct.utils._clock import OutOfTime, until
from sksstruct.utils._param_validation import (
    Constrained,
    Count,
    NonNegative,
    validate_params,
)
from sksstruct.utils.entries import Entries
from sksstruct.utils.parallel import one_blas_thread, timed_sweeps
from sksstruct.utils.progress import Progress, Status

COLUMNS = ("pass", "oracle_calls", "seconds", "primal", "dual", "gap")
# columns of the history that hold integers
COUNTS = ("pass", "oracle_calls", "elements")

SCALING = (
    "The features, or 1 / alpha, are too large for floating-point arithmetic: scale "
    "the features, for instance to unit variance."
)


# Texts for `sksstruct.utils._doc.fill_doc`, with placeholders for the tagger's
# parameters.
_PASSES = """
max_iter : int, default=1000
    Maximum number of passes, each of one oracle call per example.
tol : float, default=3e-3
    Stop at a duality gap of ``tol`` times the objective at w = 0.
"""
_EXAMPLE = """
Examples
--------
>>> from sksstruct import ChainCRF{imports}
>>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
>>> tagger = ChainCRF(alpha=0.1, {parameters}).fit(X, y)
>>> tagger.predict([[[0.0], [1.0], [0.0]]])[0].tolist()
['a', 'b', 'a']
"""


def example(parameters, imports=""):
    """Return texts for the docstring of a solver, with a tagger that the solver trains.

    Parameters
    ----------
    parameters : str
        Parameters of the tagger, as code.
    imports : str, default=""
        Imports that the parameters need, as code.

    Returns
    -------
    texts : dict of str to str
        For `sksstruct.utils._doc.fill_doc`: ``example``, and ``passes``, parameters
        of solvers whose passes visit all examples.
    """
    if imports:
        imports = f"\n>>> {imports}"
    text = _EXAMPLE.format(parameters=parameters, imports=imports)
    return {"example": text, "passes": _PASSES}


# Smallest time limit of the work before the first pass, in seconds.
_LEAST_SECONDS = 0.5


@dataclass
class Options:
    """Options of a problem to solve, apart from the solver's own parameters."""

    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    callback: Any = None
    dual_state: dict | None = None
    l1: float = 0.0
    max_seconds: float | None = None
    # start of the run, from which the time limit counts; memory allocation is included
    started: float = field(default_factory=time.perf_counter)

    @property
    def deadline(self):
        """Time at which the run must end."""
        return math.inf if self.max_seconds is None else self.started + self.max_seconds

    @property
    def latest_start(self):
        """Time at which a run that has made no pass ends: `deadline` or a bit later."""
        return max(self.deadline, self.started + _LEAST_SECONDS)

    def start(self, n_weights):
        """Return the weights of an earlier result to start from, or None."""
        if self.dual_state is None:
            return None
        return Entries(self.dual_state, "an earlier fit").array("weights", (n_weights,))


class SolverRun:
    """Base of the runs of solvers: one call of `Solver.solve`.

    Parameters
    ----------
    solver : Solver
        Its parameters are read.
    model : BoundModel or other bound model
        Model with its data.
    alpha : float
        Regularization.
    options : Options
        How the problem is to be solved.
    """

    def __init__(self, solver, model, alpha, options):
        self.solver, self.model, self.alpha = solver, model, alpha
        self.n_jobs = options.n_jobs
        # draws the order in which examples are visited
        self.rng = check_random_state(options.random_state)


class Solver(Constrained, BaseEstimator):
    """Base of all solvers: subclasses implement ``_solve(model, alpha, options)``.

    A solver calls the oracles of a bound model. The class attributes state the oracles
    that it needs, and `check_model` compares these with the oracles that the model
    offers.

    Class attributes
    ----------------
    required_oracles : tuple of str
        Oracles of which the model must have one: "max", "topk", "exp", "projection",
        "factors", "label_sets", "coordinates", "slopes", "curvature" or "nonlinear".
    losses : tuple of str
        Losses that the solver minimizes: "hinge", or "smooth", which have a gradient.
    penalties : tuple of str
        Penalties that the solver supports: "l2", the squared norm, or "elasticnet",
        which also has the sum of the absolute weights.
    bounded : bool
        Whether weights can be confined to a box.
    unregularized : bool
        Whether alpha may be zero. There is no dual then: the certificate is the
        norm of the gradient, relative to the norm at the start.
    in_parts : bool
        Whether the solver binds parts of the data, by `BoundModel.part`.
    in_streams : bool
        Whether the solver has a method ``solve_stream`` for mini-batches, as `BCFW`
        has.
    """

    required_oracles: ClassVar[tuple[str, ...]] = ("max",)
    # advice, besides a larger max_iter, for users whose fit reached max_iter
    remedy = ""
    losses: ClassVar[tuple[str, ...]] = ("hinge",)
    penalties: ClassVar[tuple[str, ...]] = ("l2",)
    bounded = unregularized = in_parts = in_streams = False
    # procedures that count no passes of their own have None
    max_iter: Count = None  # type: ignore[assignment]
    tol: NonNegative

    def check(self) -> None:
        """Raise an error if a parameter, or a combination of parameters, is invalid."""
        validate_params(self)

    def asks_for(self, model: BoundModel) -> tuple[str, ...]:
        """Return the oracles of which the given model must have at least one."""
        return self.required_oracles

    def losses_of(self, model: BoundModel) -> tuple[str, ...]:
        """Return the losses that the solver minimizes for the given model."""
        return self.losses

    def check_model(self, model: BoundModel) -> None:
        """Raise an error if a model does not offer what the solver needs.

        Parameters
        ----------
        model : BoundModel or other bound model
            Model with its data.

        Raises
        ------
        ValueError
            If an oracle is missing, if weights have to be confined to a box and the
            solver cannot do this, or if the solver does not minimize the model's loss.
        """
        name, asked, offered = (
            type(self).__name__,
            self.asks_for(model),
            model.oracles,
        )
        if not set(asked) & set(offered):
            error = ValueError(_missing(name, asked, offered))
            if model.oracle_note is not None:
                error.add_note(model.oracle_note)
            raise error
        if model.oracle_bounds is not None and not self.bounded:
            raise ValueError(
                f"{name} does not support bounds on weights, which the oracles of this "
                "model need; use BCFW, or solver='auto'"
            )
        smooth, losses = model.surrogate is not None, self.losses_of(model)
        if smooth and "smooth" not in losses:
            raise ValueError(
                f"{name} minimizes the structured hinge, loss='hinge', through its "
                f"{' or '.join(asked)} oracle; a loss with a gradient needs "
                "solver='sdca', 'lbfgs', 'svrg', 'sgd' or 'casimir'"
            )
        if not smooth and "hinge" not in losses:
            raise ValueError(
                f"{name} needs a gradient, which loss='hinge' does not have; use "
                "loss='log' or 'smoothed_hinge', or another solver"
            )

    def check_penalty(self, l1: float) -> None:
        """Raise an error if there is an l1 penalty and the solver cannot have one.

        Parameters
        ----------
        l1 : float
            Strength of the penalty ``l1 |w|_1``.
        """
        if l1 and "elasticnet" not in self.penalties:
            raise ValueError(
                f"{type(self).__name__} minimizes with the penalty alpha/2 |w|^2 "
                "alone; l1_ratio > 0 needs loss='log' or an entropy-smoothed hinge, "
                "and solver='sdca', with every label of y, or 'lbfgs'"
            )

    def check_alpha(self, alpha: float) -> None:
        """Raise an error if there is no regularization and the solver needs it.

        Parameters
        ----------
        alpha : float
            Regularization.
        """
        if not alpha > 0 and not self.unregularized:
            raise ValueError(
                f"{type(self).__name__} needs alpha > 0: without regularization there "
                "is no dual problem; solvers that do without, where they suit the "
                "model and its loss, are 'casimir', 'lbfgs', 'svrg', 'sgd' and "
                "'prox_linear'"
            )

    @classmethod
    def suits(
        cls, model: BoundModel, l1: float = 0.0, alpha: float | None = None
    ) -> bool:
        """Whether "auto" may select the solver for a model that has its oracle."""
        return True

    def adapt(self, model: BoundModel) -> None:
        """Adapt a solver chosen by name to a model's oracles."""

    def layout(self, model: BoundModel) -> Any:
        """Return an object whose `views` cuts flat weights into named blocks.

        Parameters
        ----------
        model : BoundModel
            Model with its data.

        Returns
        -------
        layout : object or None
            None if the specification of the model defines the blocks without the data.
        """
        return model if model.views_need_data else None

    def accepts(self, dual_state: dict, model: BoundModel) -> bool:
        """Whether `solve` can start from the state of an earlier result.

        Parameters
        ----------
        dual_state : dict
            The state in a `SolverResult`.
        model : BoundModel
            Model with its data.

        Returns
        -------
        fits : bool
            Whether `solve` would accept the state.
        """
        return False

    def solve(
        self,
        model: BoundModel,
        alpha: float,
        *,
        random_state: int | RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[..., Any] | None = None,
        dual_state: dict | None = None,
        l1: float = 0.0,
        max_seconds: float | None = None,
    ) -> SolverResult:
        """Minimize ``alpha/2 |w|^2`` plus the mean loss of a bound model.

        Parameters
        ----------
        model : BoundModel
            Model with its data; its `surrogate` is the loss that is minimized.
        alpha : float
            Regularization.
        random_state : int, RandomState instance or None, default=None
            Order of the visits, if examples are visited one by one.
        n_jobs : int, default=None
            Threads for sweeps over all examples. The result is the same for any number.
        verbose : int, default=0
            Print a line whenever the objective is computed.
        callback : callable, default=None
            ``callback(n_passes, weights)`` after each pass, with a function that
            forms the weights that would be returned now. A true value stops the run; a
            `Status` becomes the status of the result.
        dual_state : dict, default=None
            State of an earlier result to start from.
        l1 : float, default=0.0
            Strength of a further penalty ``l1 |w|_1``.
        max_seconds : float, default=None
            Time limit. Passes are interrupted early enough for the last certificate. If
            the time left is too short, the gap is that of an earlier pass, or inf.

        Returns
        -------
        result : SolverResult
            Weights, certificate and trace.
        """
        self.check()
        self.check_model(model)
        self.check_penalty(l1)
        self.check_alpha(alpha)
        options = Options(
            random_state, n_jobs, verbose, callback, dual_state, l1, max_seconds
        )
        with one_blas_thread(), until(options.latest_start), timed_sweeps():
            while True:
                try:
                    return self._solve(model, alpha, options)
                except WeightsFull:
                    # The model's table of weights is full. This is rare, as its
                    # capacity is much larger than the usual number of weights.
                    model.grow()
                except OutOfTime:
                    return self._not_begun(model, options)

    def _solve(self, model, alpha, options):
        raise NotImplementedError

    def _not_begun(self, model, options):
        """Return the result of a run that had no time for a first pass."""
        layout = self.layout(model)
        size = (model if layout is None else layout).n_weights
        weights = np.zeros(size)
        if options.dual_state is not None and "weights" in options.dual_state:
            weights[:] = options.start(size)
        box = Box.of(model)
        if box is not None:
            box.clip(weights)
        name = type(self).__name__
        return SolverResult(
            weights=weights,
            objective=np.inf,
            dual_gap=np.inf,
            dual_loss=-np.inf,
            n_iter=0,
            status=Status.TIME_LIMIT,
            history=Progress(name, COLUMNS, COUNTS).trace.as_dict(),
            target=0.0,
            dual_state={"weights": weights},
        )


def _missing(name, asked, offered):
    """Return a message about an oracle that a solver needs and a model lacks."""
    if "nonlinear" in asked:
        return f"{name} is for nonlinear scores: it needs a score function"
    if "nonlinear" in offered:
        return (
            f"{name} needs scores that are linear in the weights; a score function "
            "needs solver='prox_linear' or 'sgd'"
        )
    text = (
        f"{name} needs the oracle {' or '.join(asked)}; this problem has "
        f"{', '.join(offered)}"
    )
    if asked == ("exp",) and "topk" in offered:
        text += ": it needs smoothing='l2'"
    return text


class GradientSolver(Solver):
    """Base of the solvers that follow gradients of a `SmoothLoss`.

    Subclasses that minimize the hinge through a smoothed hinge have the parameters
    `smoothing`, "entropy" or "l2", and `k`.
    """

    required_oracles: ClassVar[tuple[str, ...]] = ("exp", "topk")
    losses: ClassVar[tuple[str, ...]] = ("smooth",)

    def smoothing_of(self, model: BoundModel) -> tuple[SmoothedHinge | None, bool]:
        """Return the loss whose gradient is used, and whether it replaces the hinge."""
        if model.surrogate is not None or "hinge" not in self.losses:
            return model.surrogate, False
        return SmoothedHinge(self.smoothing, 1.0, self.k), True

    def smooth_loss(self, model: BoundModel) -> Any:
        """Return the loss whose gradient is used, as a `SmoothLoss`."""
        smoothing, nonsmooth = self.smoothing_of(model)
        return smooth_loss(model, smoothing, nonsmooth=nonsmooth)

    def asks_for(self, model: BoundModel) -> tuple[str, ...]:
        smoothing = self.smoothing_of(model)[0]
        if smoothing is None:
            return self.required_oracles
        return (smoothing.oracle,)

    def adapt(self, model: BoundModel) -> None:
        # entropy smoothing is used if the model has no top-K oracle, or if K labelings
        # are not enough
        if "hinge" not in self.losses or "exp" not in model.oracles:
            return
        if "topk" not in model.oracles or model.prefers_sums:
            self.set_params(smoothing="entropy")

    def accepts(self, dual_state: dict, model: BoundModel) -> bool:
        weights = dual_state.get("weights")
        return weights is not None and len(weights) == model.n_weights
