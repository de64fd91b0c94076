"""A training problem that an estimator has formed, ready for a solver."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sksstruct.estimators._callbacks import PassCallbacks


@dataclass
class Problem:
    """What is minimised, and what its weights mean.

    Parameters
    ----------
    model : BoundModel
        The model with its data.
    attributes : callable
        ``attributes(weights)`` returns the fitted attributes for flat weights.
    """

    model: Any
    attributes: Callable[[Any], dict]


def input_attributes(estimator):
    """What scikit-learn's validation noted of X, as a dict."""
    names = "n_features_in_", "feature_names_in_"
    return {
        name: getattr(estimator, name) for name in names if hasattr(estimator, name)
    }


def run_solver(estimator, solver, problem, X, y, state=None):
    """Solve, and tell the estimator's callbacks of every pass."""
    callbacks = PassCallbacks(
        estimator, getattr(solver, "max_iter", None), problem.attributes, X, y
    )
    try:
        result = solver.solve(
            problem.model,
            estimator.alpha,
            random_state=estimator.random_state,
            n_jobs=estimator.n_jobs,
            verbose=estimator.verbose,
            callback=callbacks,
            dual_state=state,
        )
    except BaseException:
        callbacks.close()
        raise
    # nothing stays of an earlier fit, whose model may have had other attributes
    attributes = problem.attributes(result.weights)
    for name in [k for k in vars(estimator) if k.endswith("_") and k[0] != "_"]:
        delattr(estimator, name)
    for name, value in attributes.items():
        setattr(estimator, name, value)
    estimator.n_iter_ = result.n_iter
    estimator.objective_ = result.objective
    estimator.dual_gap_ = result.dual_gap
    estimator.history_ = result.history
    estimator.solver_ = solver
    callbacks.close()
    return result
