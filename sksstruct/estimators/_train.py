"""Training of every estimator: from parameters and data to fitted attributes.

An estimator's `_model` returns a `ModelSpec`. `prepare` lets the model read the data,
binds it to them, and resolves the solver, which checks that the model has the oracles
that it needs. `train` solves this problem, sets the fitted attributes, and warns if the
solver did not converge.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from sksstruct.estimators._advice import advice
from sksstruct.estimators._callbacks import PassCallbacks
from sksstruct.estimators._carried import FROM_ATTRIBUTES, weights_by_name
from sksstruct.estimators._validation import Validation
from sksstruct.losses import resolve_loss
from sksstruct.models.spec import ModelSpec
from sksstruct.solvers import SOLVERS
from sksstruct.solvers.core.procedures import procedure
from sksstruct.utils._param_validation import validate_params
from sksstruct.utils.progress import Status

# Tolerance of the hinge with tol=None: a smaller tolerance takes longer and hardly
# changes predictions.
HINGE_TOL = 3e-3
# Tolerance of losses with a gradient with tol=None.
SMOOTH_TOL = 1e-2
# If the share of positions with another label than the commonest one is less than this,
# the tolerance is reduced in proportion.
RARE = 0.03
# A run that ended by max_seconds warns if the duality gap is at least this share of the
# objective.
_FAR = 0.25


@dataclass
class Problem:
    """A training problem, ready to be solved.

    Parameters
    ----------
    spec : ModelSpec
        The model, which has read the data.
    model : BoundModel
        The model bound to the data.
    solver : solver object
        The solver of the problem.
    attributes : callable
        ``attributes(weights)`` returns the fitted attributes for flat weights.
    alpha : float
        Regularization in units of the parameter `alpha`; with alpha="auto", the chosen
        value.
    l1_ratio : float
        Share of the l1 penalty in alpha.
    """

    spec: ModelSpec
    model: Any
    solver: Any
    attributes: Callable[[Any], dict]
    alpha: float
    l1_ratio: float

    @property
    def solver_alpha(self):
        """The regularization in units of the solver.

        The model is bound to features that were divided by the intercept scaling.
        """
        return self.spec.solver_alpha(self.alpha)


def tolerance(estimator, spec=None):
    """The tolerance of a solver that an estimator names; with tol=None by its loss.

    The tolerance of the hinge is smaller if `spec` has read labels most of which are
    equal, such as "O" in entity recognition: predicting this label everywhere has a
    small objective already.
    """
    if estimator.tol is not None:
        return estimator.tol
    if resolve_loss(estimator.loss).is_smooth:
        return SMOOTH_TOL
    share = 1.0 if spec is None else spec.share_of_others_
    return HINGE_TOL * min(share / RARE, 1.0)


def named_solver(estimator, spec=None):
    """The solver that an estimator names or has, before there is a bound model."""
    return SOLVERS.resolve(
        estimator.solver, max_iter=estimator.max_iter, tol=tolerance(estimator, spec)
    )


def checked_model(estimator):
    """The model of an estimator, after the parameters of both were checked."""
    validate_params(estimator)
    if estimator.alpha != "auto" and not np.isfinite(estimator.alpha):
        raise ValueError(f"alpha must be finite, got {estimator.alpha!r}")
    check_random_state(estimator.random_state)
    # check the solver's parameters; `prepare` checks the solver against the bound model
    named_solver(estimator)
    spec = estimator._model()
    spec.check()
    return spec


def prepare(estimator, X, y, sample_weight=None):
    """Check parameters and data, and bind the model; the estimator is not changed."""
    spec = checked_model(estimator)
    # validation sets attributes on a copy: a fit that fails changes nothing
    validated = object.__new__(type(estimator))
    validated.__dict__.update(vars(estimator))
    for name in input_attributes(validated):
        delattr(validated, name)
    examples = spec._read(X, y, sample_weight, validated)
    model = spec._bind(examples)
    estimator._set_loss(spec, model)
    alpha = spec.default_alpha if estimator.alpha == "auto" else estimator.alpha
    l1 = alpha * estimator.l1_ratio
    solver = SOLVERS.resolve(
        estimator.solver,
        max_iter=estimator.max_iter,
        tol=tolerance(estimator, spec),
        model=model,
        l1=l1,
        # the share of alpha for the squared norm
        alpha=spec.solver_alpha(alpha) * (1.0 - estimator.l1_ratio),
    )
    if solver.in_parts:
        model.binder = partial(spec._bind_part, examples)
    # check the penalty and not l1_ratio: with alpha=0 there is no l1 penalty
    solver.check_penalty(l1)
    describe = partial(estimator._describe, spec)
    attributes = partial(
        _attributes, describe, input_attributes(validated), solver.layout(model)
    )
    return Problem(spec, model, solver, attributes, alpha, estimator.l1_ratio)


def input_attributes(estimator):
    """Attributes that scikit-learn's validation set from X, as a dict."""
    # `vars` and not getattr: feature_names_in_ of a tagger is a property
    own = vars(estimator)
    return {k: own[k] for k in ("n_features_in_", "feature_names_in_") if k in own}


def _attributes(describe, constant, layout, weights):
    """All fitted attributes for flat weights."""
    views = None if layout is None else layout.views(weights)
    return {**constant, **describe(weights, views)}


def train(estimator, X, y, sample_weight, noun):
    """Train an estimator and set its fitted attributes.

    Parameters
    ----------
    estimator : Trained
        The estimator.
    X, y, sample_weight : objects
        Arguments of `fit`.
    noun : str
        Kind of estimator in messages, such as "tagger".

    Returns
    -------
    estimator : estimator
        The same object.
    """
    validation = None
    if estimator.early_stopping:
        validation = Validation(estimator, X, y, sample_weight)
        X, y, sample_weight = validation.rest
    problem = prepare(estimator, X, y, sample_weight)
    state = _warm_state(estimator, problem)
    if state is None:
        state = problem.spec._first_state(problem.model, problem.solver)
    solver = procedure(problem.solver, problem.model, state)
    callbacks = PassCallbacks(
        estimator, solver.max_iter, problem.attributes, X, y, validation=validation
    )
    try:
        result = solver.solve(
            problem.model,
            problem.solver_alpha * (1.0 - problem.l1_ratio),
            l1=problem.solver_alpha * problem.l1_ratio,
            random_state=estimator.random_state,
            n_jobs=estimator.n_jobs,
            verbose=estimator.verbose,
            callback=callbacks,
            dual_state=state,
            max_seconds=estimator.max_seconds,
        )
    except BaseException:
        callbacks.close()
        raise
    set_attributes(estimator, problem, result, validation)
    callbacks.close()
    report_result(estimator, problem, result, noun, (X, y, sample_weight))
    return estimator


def set_attributes(estimator, problem, result, validation=None):
    """Set all fitted attributes, and delete all attributes of an earlier fit."""
    attributes = {
        **problem.attributes(result.weights),
        "alpha_": problem.alpha,
        "n_iter_": result.n_iter,
        "objective_": result.objective,
        "dual_gap_": result.dual_gap,
        "history_": result.history,
        "solver_": problem.solver,
    }
    if estimator.warm_start:
        attributes["_warm"] = problem.spec, result.dual_state
    if validation is not None:
        attributes["validation_scores_"] = np.array(validation.scores)
    attributes.update(estimator._further(problem, result))
    replace_attributes(estimator, attributes)


def replace_attributes(estimator, attributes):
    """Set fitted attributes, and delete all other attributes of an earlier fit.

    Attributes that a subclass has set by itself stay.
    """
    for name in estimator._fitted_names:
        estimator.__dict__.pop(name, None)
    for name, value in attributes.items():
        setattr(estimator, name, value)
    estimator._fitted_names = tuple(attributes)


def _warm_state(estimator, problem):
    """State of the last fit if `warm_start` is set and the solver accepts the state."""
    warm = estimator._warm
    if warm is None or not estimator.warm_start:
        return None
    # with missing labels, each round of completion starts from zero
    if "completion" in problem.model.oracles:
        return None
    if warm == FROM_ATTRIBUTES:
        is_smooth = problem.model.surrogate is not None
        warm = problem.spec, weights_by_name(estimator, problem) if is_smooth else {}
    if not isinstance(warm, tuple) or len(warm) != 2 or not isinstance(warm[1], dict):
        raise ValueError(
            f"the {type(estimator).__name__} was loaded with a damaged state of its "
            "last fit: set warm_start=False"
        )
    spec, state = warm
    if problem.spec._can_continue(spec, state) and problem.solver.accepts(
        state, problem.model
    ):
        return state
    warnings.warn(
        "warm_start: the last fit was on examples of other sizes or labels, with fewer "
        "forbidden transitions, or by another kind of solver, or "
        f"{type(problem.solver).__name__} cannot continue from an earlier fit of this "
        "model; training starts from zero",
        UserWarning,
        stacklevel=5,  # stack level of the caller of fit, past the decorator of fit
    )
    return None


def report_result(estimator, problem, result, noun, data=None, stacklevel=5):
    """Raise or warn if a run was interrupted or did not converge.

    Parameters
    ----------
    estimator : estimator
        The estimator that was trained.
    problem : Problem
        Its training problem.
    result : SolverResult
        Result of the solver.
    noun : str
        Kind of estimator in messages, such as "tagger".
    data : tuple, default=None
        X, y and sample weights; None if they are in parts.
    stacklevel : int, default=5
        Stack level of `warnings.warn`: the caller of `fit`, past `train`, `fit` and its
        decorator.
    """
    status = Status(result.status)
    if status is Status.INTERRUPTED:
        raise KeyboardInterrupt(
            f"training was interrupted after {result.n_iter} passes; the {noun} can "
            "be used"
        )
    gap, objective = result.dual_gap, result.objective
    who = f"{type(estimator).__name__}, {type(problem.solver).__name__}"
    if status.remedy is not None:
        distance = f"the duality gap is {gap:.3g}, the tolerance {result.target:.3g}"
        if not problem.alpha > 0:
            distance = "the gradient is not small, and alpha=0 leaves no duality gap"
        what = f"did not converge in {result.n_iter} passes ({who}): {distance}"
    elif status is Status.TIME_LIMIT and _FAR * objective <= gap < np.inf:
        what = (
            f"was ended by max_seconds after {result.n_iter} passes ({who}): the "
            f"duality gap is {gap:.3g}, and the objective {objective:.3g}, so the "
            f"{noun} may be far from trained"
        )
    else:
        return
    remedies = _remedies(estimator, problem, result, data)
    warnings.warn(
        f"training {what}. {' '.join(remedies)}",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


def _remedies(estimator, problem, result, data):
    """Sentences of advice for a run that did not converge."""
    status = Status(result.status)
    if status not in (Status.MAX_ITER, Status.STALLED, Status.TIME_LIMIT):
        return [status.remedy]
    hints = advice(estimator, problem, result, data)
    if status is Status.STALLED:
        return [status.remedy, *hints[:1]]
    if hints:
        return hints
    if status is Status.TIME_LIMIT:
        return ["Increase max_seconds."]
    general = "Scaled features or a larger alpha take fewer passes."
    return [hint for hint in (status.remedy, general, problem.solver.remedy) if hint]
