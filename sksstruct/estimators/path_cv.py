"""The choice of alpha along regularization paths, by cross-validation."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.callback import CallbackSupportMixin
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_is_fitted,
)

from sksstruct.estimators._fitted import Selected
from sksstruct.estimators._parameters import TEXTS
from sksstruct.estimators._train import replace_attributes
from sksstruct.estimators.path import (
    CONSTRAINTS,
    check_parameters,
    follow,
    start,
    warn_path,
)
from sksstruct.estimators.ssvm import SSVMClassifier
from sksstruct.utils._available import available_if
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import validate_params
from sksstruct.utils.state import Versioned
from sksstruct.utils.typing import Examples, with_callbacks


def _fold(estimator, X, y, weight, train, test, parameters, scorer, verbose):
    """Path of one fold, without weights, and the held-out score of each segment."""
    some = None if weight is None else weight[train]
    X_test, y_test = _safe_indexing(X, test), _safe_indexing(y, test)
    out, scores = None, []
    segments = follow(
        estimator,
        _safe_indexing(X, train),
        _safe_indexing(y, train),
        parameters,
        some,
        verbose,
    )
    for out, segment in segments:
        fitted = out._with(segment.weights, segment.alpha)
        scores.append(scorer(fitted, X_test, y_test))
        out._add(segment, keep=False)
    out._template = out._attributes = None
    out._close()
    return out, np.array(scores)


def _refit(best, X, y, sample_weight):
    options = {} if sample_weight is None else {"sample_weight": sample_weight}
    best.fit(X, y, **options)


def _of_best(best):
    """Attributes of a search from those of its best estimator, if that is fitted."""
    if not hasattr(best, "n_iter_"):
        return {}
    names = "n_features_in_", "feature_names_in_", "n_iter_"
    own = {name: getattr(best, name) for name in names if hasattr(best, name)}
    return {"best_estimator_": best, **own}


class _Tasks:
    """scikit-learn's callback protocol around the folds and the refit."""

    def __init__(self, estimator, n_tasks, X, y):
        self._estimator, self._data = estimator, {"X": X, "y": y}
        self._context = estimator._init_callback_context(max_subtasks=n_tasks)
        self._context.call_on_fit_task_begin(estimator=estimator, **self._data)

    def run(self, name, function):
        task = self._context.subcontext(task_name=name)
        task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        try:
            return function()
        finally:
            task.call_on_fit_task_end(estimator=self._estimator)

    def close(self):
        self._context.call_on_fit_task_end(
            estimator=self._estimator, reconstruction_attributes=dict, **self._data
        )


def _has(name):
    def check(self):
        fitted = getattr(self, "best_estimator_", None)
        getattr(self._estimator() if fitted is None else fitted, name)

    return check


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class SSVMPathCV(
    Selected, CallbackSupportMixin, MetaEstimatorMixin, Versioned, BaseEstimator
):
    """Structured support vector machine with alpha chosen along regularization paths.

    Computes the path of each fold, and scores its segments on the held-out samples.
    This gives the mean score for every alpha. Then trains on all data with the best
    alpha.

    Parameters
    ----------
    estimator : estimator, default=None
        `SSVMClassifier`, `ChainCRF` with the hinge loss, or `LinearSSVC`; None:
        ``SSVMClassifier()``. Its `alpha` is not used.
    method : {"exact", "heuristic", "grid"}, default="exact"
        How paths are found; see `ssvm_path`.
    epsilon : float, default=0.1
        Suboptimality allowed along the path.
    kappa : float, default=None
        Gap at breakpoints, in units of `epsilon`; see `ssvm_path`.
    alpha_min : float, default=1e-5
        Smallest alpha to reach.
    alphas : array-like of shape (n_alphas,), default=None
        Breakpoints with ``method="grid"``.
    max_iter : int, default=1000
        Maximum number of passes at each breakpoint.
    cv : int, cross-validation generator or iterable, default=None
        Folds, as in `sklearn.model_selection.GridSearchCV`.
    scoring : str or callable, default=None
        Held-out score; None: that of the estimator.
    refit : bool, default=True
        Whether to train on all data with the best alpha, to the tolerance of the
        estimator.
    n_jobs : int, default=None
        Number of folds that are processed in parallel.
    verbose : int, default=0
        Print a line for each breakpoint of each path.

    Attributes
    ----------
    alpha_ : float
        The middle, on a logarithmic scale, of the segment with the highest mean score;
        of several such segments, the first.
    best_score_ : float
        Mean score of that segment.
    edges_ : ndarray of shape (n_segments + 1,)
        Ends of the segments of constant mean score, from inf down.
    scores_ : ndarray of shape (n_segments, n_folds)
        Held-out score of each segment on each fold. Above a fold's first breakpoint it
        is the score of the weights at that breakpoint; the path has smaller multiples
        of them there.
    paths_ : list of SSVMPath
        Path of each fold, without its weights.
    best_estimator_ : estimator
        Trained on all data, with `refit`.
    n_iter_ : int
        Passes of the training on all data.
    n_features_in_ : int
        Number of features, if the estimator has it.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X has feature names.

    See Also
    --------
    ssvm_path : One path.
    sksstruct.plotting.PathDisplay : Draws scores, gaps and costs.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sksstruct import SSVMClassifier, SSVMPathCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = SSVMPathCV(SSVMClassifier(random_state=0), cv=3).fit(X, y)
    >>> search.best_score_ > 0.9
    True
    """

    estimator: BaseEstimator | None = None
    _: KW_ONLY
    method: Literal["exact", "heuristic", "grid"] = "exact"
    epsilon: float = 0.1
    kappa: float | None = None
    alpha_min: float = 1e-5
    alphas: ArrayLike | None = None
    max_iter: int = 1000
    cv: object = None
    scoring: str | Callable[..., float] | None = None
    refit: bool = True
    n_jobs: int | None = None
    verbose: int = 0

    _parameter_constraints = {
        "estimator": [BaseEstimator, None],
        **CONSTRAINTS,
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "refit": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def _estimator(self):
        return SSVMClassifier() if self.estimator is None else self.estimator

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self._estimator())
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.input_tags = inner.input_tags
        tags.target_tags = inner.target_tags
        return tags

    @with_callbacks
    def fit(
        self,
        X: Examples,
        y: Examples,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Follow the paths of all folds, and train with the best alpha.

        Parameters
        ----------
        X : array-like or list
            Inputs, as the estimator takes them.
        y : array-like or list
            Outputs.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of the losses in training.
        groups : array-like of shape (n_samples,), default=None
            Groups for `cv` to divide by.

        Returns
        -------
        self : SSVMPathCV
            The fitted search.

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are not valid, or no score is finite.
        KeyboardInterrupt
            When interrupted. If the paths are not complete, no attribute is set. If the
            best estimator is not complete, `best_estimator_` is trained as far as it
            got.

        Warns
        -----
        ConvergenceWarning
            If a gap was not reached in `max_iter` passes.
        """
        validate_params(self)
        parameters = {name: getattr(self, name) for name in CONSTRAINTS}
        check_parameters(parameters)
        estimator = self._estimator()
        scorer = check_scoring(estimator, scoring=self.scoring)
        # all checks of the data, before they are divided
        start(estimator, X, y, sample_weight, self.method)
        X, y = indexable(X, y)
        n, weight = _num_samples(X), None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, np.zeros((n, 1)))
        folds = check_cv(self.cv, y, classifier=is_classifier(estimator))
        folds = list(folds.split(np.zeros(n), y, groups))
        tasks = _Tasks(self, len(folds) + self.refit, X, y)
        try:
            results = Parallel(n_jobs=self.n_jobs, return_as="generator")(
                delayed(_fold)(
                    estimator, X, y, weight, *fold, parameters, scorer, self.verbose
                )
                for fold in folds
            )
            found = [tasks.run("fold", lambda: next(results)) for _ in folds]
            paths = [path for path, _ in found]
            chosen = self._choose(paths, [scores for _, scores in found])
            best = None
            try:
                if self.refit:
                    best = clone(estimator).set_params(alpha=chosen["alpha_"])
                    tasks.run("refit", lambda: _refit(best, X, y, sample_weight))
            except KeyboardInterrupt:
                # an interrupted fit is of use too
                replace_attributes(self, {**chosen, **_of_best(best)})
                raise
            replace_attributes(self, {**chosen, **_of_best(best)})
        finally:
            tasks.close()
        for path in self.paths_:
            warn_path(path, self.max_iter, stacklevel=4)
        return self

    def _choose(self, paths, scores):
        """Mean score of every alpha, and the best alpha, as attributes."""
        end = max(path.lower[-1] for path in paths)
        edges = np.unique(np.concatenate([path.lower for path in paths]))
        edges = np.concatenate([[np.inf], edges[edges >= end][::-1]])
        upper, lower = edges[:-1], edges[1:]
        inside = np.sqrt(
            np.maximum(lower, np.minimum(self.alpha_min, upper / 2.0)) * upper
        )
        # where the weights of the first segment are those that were scored
        first = min(path.alphas[0] for path in paths)
        inside[0] = np.sqrt(lower[0] * max(lower[0], first)) if lower[0] else first
        scores = np.array(
            [
                [s[path.segment(a)] for path, s in zip(paths, scores, strict=True)]
                for a in inside
            ]
        )
        mean = scores.mean(axis=1)
        if not np.isfinite(mean).any():
            raise ValueError("no held-out score is finite")
        best = int(np.where(np.isfinite(mean), mean, -np.inf).argmax())
        return {
            "paths_": paths,
            "edges_": edges,
            "scores_": scores,
            "alpha_": float(inside[best]),
            "best_score_": float(scores[best].mean()),
        }

    def score_at(self, alpha: float) -> float:
        """Mean held-out score at an alpha.

        Parameters
        ----------
        alpha : float
            Regularization.

        Returns
        -------
        score : float
            Mean over the folds.

        Raises
        ------
        ValueError
            If the paths do not reach down to this alpha.
        """
        check_is_fitted(self, "edges_")
        below = np.flatnonzero(self.edges_[1:] <= alpha)
        if not alpha > 0 or not len(below):
            raise ValueError(
                f"alpha must be positive and at least {self.edges_[-1]:.3g}, got "
                f"{alpha!r}"
            )
        return float(self.scores_[below[0]].mean())

    # ---- methods of the best estimator ----

    @property
    def classes_(self) -> np.ndarray:
        """Classes of the best estimator."""
        return self.best_estimator_.classes_

    def predict(self, X: Examples) -> np.ndarray | Any:
        """Predict with the best estimator.

        Parameters
        ----------
        %(inputs)s

        Returns
        -------
        y : ndarray or list
            Outputs.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Examples) -> np.ndarray:
        """Scores by the best estimator.

        Parameters
        ----------
        %(inputs)s

        Returns
        -------
        scores : ndarray
            Scores as the estimator returns them.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.decision_function(X)

    @available_if(_has("predict_topk"))
    def predict_topk(
        self, X: Examples, k: int
    ) -> tuple[np.ndarray | Any, np.ndarray | Any]:
        """The k best outputs by the best estimator, and their scores.

        Parameters
        ----------
        %(inputs)s
        k : int
            Number of outputs.

        Returns
        -------
        y : list or ndarray
            Outputs.
        scores : list or ndarray
            Scores.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_topk(X, k)

    def score(self, X: Examples, y: Examples) -> float:
        """Score of the best estimator.

        Parameters
        ----------
        %(inputs)s
        y : array-like or list
            Outputs.

        Returns
        -------
        score : float
            By `scoring`, or the estimator's own score.
        """
        check_is_fitted(self, "best_estimator_")
        scorer = check_scoring(self.best_estimator_, scoring=self.scoring)
        return scorer(self.best_estimator_, X, y)
