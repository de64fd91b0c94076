"""Base classes: the attributes that `train` reads, and fitted attributes.

Annotations of a dataclass are its parameters. Annotations of fitted attributes, which
type checkers need, are therefore in these bases, which are not dataclasses.
"""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sksstruct.estimators.path import SSVMPath
from sksstruct.inference.map import MAPResult, MarginalResult
from sksstruct.models import ScoreFunction, StructuredModel
from sksstruct.models.spec import ModelSpec
from sksstruct.solvers.core.base import Solver
from sksstruct.utils._elsewhere import NamesOthers
from sksstruct.utils._param_validation import Constrained

# Parameters of similar estimators in other libraries, with the advice for errors.
_ELSEWHERE = {
    "C": "use alpha, which is 1 / (n C) for n examples",
    **dict.fromkeys(
        ("c1", "c2"),
        "sksstruct.crfsuite_parameters gives those for c1 and c2",
    ),
    "algorithm": "use loss='log' for lbfgs and l2sgd, and the hinge, which is the "
    "default, for the others",
    "max_iterations": "use max_iter",
    "min_freq": "use SequenceVectorizer(min_count=...)",
    "inference_method": "inference is part of the model; LPMAPPredictor(solver=...) is "
    "for scores that are given",
    "switch_to": "inference is part of the model, and the same in all of training",
    "show_loss_every": "use verbose, or callbacks",
}


class Trained(NamesOthers, Constrained):
    """Estimators that a solver trains; `sksstruct.estimators._train` calls the methods.

    Class attributes stand for parameters that an estimator does not have. A subclass
    defines `_model`, and overrides the hooks `_set_loss`, `_describe`, `_further`.
    """

    _elsewhere = _ELSEWHERE
    l1_ratio: float = 0.0
    early_stopping: bool = False
    warm_start: bool = False
    intercept_scaling: Any = None
    # Loss of the last fit, as the parameter `loss` may have changed since; None before
    # the first fit.
    _loss: Any = None
    # The model and the state of the solver after the last fit, for a warm start.
    _warm: Any = None
    # Names of the attributes that the last fit has set.
    _fitted_names: tuple[str, ...] = ()

    def _model(self) -> ModelSpec:
        """The model with the estimator's parameters, not yet bound to data."""
        raise NotImplementedError

    def _set_loss(self, spec, model):
        """Set the loss of a bound model if the loss is not a parameter of the model."""

    def _describe(self, spec, weights, views):
        """Fitted attributes for flat weights; `views` are their blocks by name."""
        return spec._attributes(weights, views)

    def _further(self, problem, result):
        """Fitted attributes besides weights, objective and duality gap."""
        surrogate = problem.model.surrogate
        if surrogate is not None and not surrogate.by_sums:
            return {"topk_exact_": result.exact}
        return {}

    n_features_in_: int
    feature_names_in_: np.ndarray
    alpha_: float
    n_iter_: int
    objective_: float
    dual_gap_: float
    history_: dict[str, np.ndarray]
    solver_: Solver
    classes_: np.ndarray
    coef_: Any
    intercept_: np.ndarray
    score_parameters_: np.ndarray
    score_function_: ScoreFunction
    topk_exact_: float


class TrainedChain(Trained):
    """Base of taggers that label positions; their arrays of weights may be sparse."""

    # Names of the columns of X; None if X had no names.
    _names_in: Any = None
    # State of partial_fit: iterate, alpha, number of visits, scale of the features.
    _stream: Any = ()
    # A calibrated tagger divides its scores by this temperature; None: not calibrated.
    _temperature: Any = None
    # The expected loss that predictions minimize.
    risk: str = "sequence"

    transitions_: Any
    transition_coef_: Any
    triples_: Any
    start_: np.ndarray
    end_: np.ndarray
    intercept_scaling_: float
    validation_scores_: np.ndarray
    dual_loss_: float
    forbidden_transitions_: list[tuple]
    n_seen_: float


class Calibrated(Constrained):
    """Base of taggers that divide scores by a temperature, to calibrate them."""

    estimator_: Any
    temperature_: float


class TrainedModel(Trained):
    """Base of estimators that train any `StructuredModel`."""

    model_: StructuredModel
    weights_: np.ndarray


class TrainedSegments(TrainedModel):
    """Base of taggers that divide sequences into labeled segments."""

    # State of partial_fit; empty before the first call.
    _stream: Any = ()

    length_coef_: np.ndarray
    boundary_length_coef_: np.ndarray
    transitions_: np.ndarray
    start_: np.ndarray
    end_: np.ndarray
    span_coef_: np.ndarray


class TrainedMultilabel(Trained):
    """Base of multilabel classifiers, which predict sets of labels."""

    # Fields of the `Target` that chooses labels; with None, `predict` returns the set
    # with the highest score.
    _target: Any = None
    # Form of y in training: the two values of a 1-D y, a sparse indicator, or sets.
    _values: np.ndarray | None = None
    _sparse_output: bool = False
    _in_sets: bool = False

    label_pairs_: np.ndarray
    interaction_scaling_: float
    interactions_: np.ndarray


class Selected:
    """Base of estimators that choose alpha by regularization paths of folds."""

    # Names of the attributes that the last fit has set.
    _fitted_names: tuple[str, ...] = ()

    alpha_: float
    best_score_: float
    best_index_: int
    best_params_: dict[str, float]
    cv_results_: dict[str, Any]
    n_splits_: int
    scorer_: Any
    refit_time_: float
    edges_: np.ndarray
    scores_: np.ndarray
    paths_: list[SSVMPath]
    best_estimator_: BaseEstimator
    n_iter_: int
    n_features_in_: int
    feature_names_in_: np.ndarray


class Solved(Constrained):
    """Base of predictors that solve MAP problems with given potentials."""

    scores_: np.ndarray
    bounds_: np.ndarray
    status_: list[str]
    results_: list[MAPResult]
    marginal_results_: list[MarginalResult]
