"""The choice of alpha along regularization paths, by cross-validation."""

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags, indexable
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples, check_is_fitted

from sksstruct.estimators._fitted import Selected
from sksstruct.estimators._parameters import TEXTS
from sksstruct.estimators._path_folds import (
    Fold,
    common_segments,
    results_of,
    steps_of,
)
from sksstruct.estimators._tagger_methods import TaggerInside, has_method
from sksstruct.estimators._train import (
    replace_attributes,
    report_result,
    set_attributes,
)
from sksstruct.estimators.path import (
    PathParameters,
    end_of,
    exact_result,
    grid_of,
    start,
    warn_path,
)
from sksstruct.estimators.ssvm import SSVMClassifier
from sksstruct.utils._available import available_if
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import Threads, Verbosity, validate_params
from sksstruct.utils.callbacks import CallbackSupportMixin, with_callbacks
from sksstruct.utils.state import Versioned
from sksstruct.utils.typing import Examples
from sksstruct.utils.validation import check_weight

# On the default grid, the search ends after this number of alphas in a row that score
# below the best one.
_PATIENCE = 3


def _prefix(estimator):
    """Prefix of the names of the last step's parameters, such as "chaincrf__"."""
    return f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""


def _refit(last, X, y, sample_weight, parameters):
    """Train `last`, whose alpha is the best one, to the tolerance of the folds."""
    if parameters.method == "grid":
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        last.fit(X, y, **weights)
        return
    template, problem = start(last, X, y, sample_weight, parameters.method)
    result = exact_result(template, problem, parameters, last.alpha)
    set_attributes(last, problem, result)
    data = X, y, sample_weight
    report_result(last, problem, result, "best estimator", data, stacklevel=6)


def _of_best(best):
    """Attributes of a search that a fitted best estimator determines, as a dict."""
    if best is None or not hasattr(steps_of(best)[1], "n_iter_"):
        return {}
    names = "n_features_in_", "feature_names_in_"
    own = {name: getattr(best, name) for name in names if hasattr(best, name)}
    return {"best_estimator_": best, "n_iter_": steps_of(best)[1].n_iter_, **own}


class _Tasks:
    """Reports folds, alphas and the refit to scikit-learn's callbacks."""

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


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class SSVMPathCV(
    PathParameters,
    Selected,
    TaggerInside,
    CallbackSupportMixin,
    MetaEstimatorMixin,
    Versioned,
    BaseEstimator,
):
    """An estimator with alpha chosen by cross-validation along regularization paths.

    `fit` follows the path of each fold from large alphas to small ones, and scores the
    weights on the held-out samples. Training at each alpha starts from the result of
    the previous alpha, so the search is several times as fast as
    `sklearn.model_selection.GridSearchCV`. Then `fit` trains on all data with the best
    alpha.

    Parameters
    ----------
    estimator : estimator, default=None
        `SSVMClassifier`, `ChainCRF`, `SegmentCRF`, `LinearSSVC` or
        `MultilabelPairwise`, or a pipeline that ends with one, such as `make_tagger`
        returns; None: ``SSVMClassifier()``. The default grid consists of multiples of
        its `alpha`.
    method : {"grid", "exact", "heuristic"}, default="grid"
        Choice of the alphas. "grid": `alphas`, at each of which `estimator` is trained
        with its loss, solver and tolerance. "exact" and "heuristic" are for the hinge:
        the breakpoints of each fold follow from its duality gaps, and every alpha has a
        score; see `ssvm_path`.
    alphas : array-like of shape (n_alphas,), default=None
        Values to try with ``method="grid"``. None: the alpha of the estimator times the
        powers of 2 from 2^5 to 2^-7. The search ends when three values in a row have a
        lower mean score than the best one so far.
    alpha_min : float, default=None
        Smallest alpha to try. None: the alpha of the estimator divided by 2^7.
    epsilon : float, default=0.1
        Allowed suboptimality along paths that are not a grid.
    relative : bool, default=True
        Whether `epsilon` is a share of the objective, or in units of the objective; see
        `ssvm_path`.
    kappa : float, default=None
        Gap at breakpoints, in units of `epsilon`; see `ssvm_path`.
    cv : int, cross-validation generator or iterable, default=None
        Folds, as in `sklearn.model_selection.GridSearchCV`. None: 5 folds.
    scoring : str or callable, default=None
        Held-out score. None: `score` of the estimator.
    refit : bool, default=True
        Whether to train on all data with the best alpha, to the tolerance of the folds:
        the tolerance of the estimator, or that of the path if the method is not "grid".
    n_jobs : int, default=None
        Number of threads, each of which takes a fold. The result does not depend on the
        number.
    verbose : int, default=0
        Print a line for each alpha, or for each fold if the method is not "grid".

    Attributes
    ----------
    alpha_ : float
        The alpha with the highest mean score; of several such values, the largest. If
        the method is not "grid", the middle, on a logarithmic scale, of the segment
        with the highest mean score.
    best_score_ : float
        Mean score of `alpha_`.
    best_index_ : int
        Row of `alpha_` in `cv_results_`.
    best_params_ : dict
        The chosen alpha, by the name that the parameter has in `estimator`. For a
        tagger with ``alpha="auto"``, also the value of `intercept_scaling`.
    cv_results_ : dict of str to ndarray
        Scores, ranks and seconds of all alphas, from the largest, as in
        `sklearn.model_selection.GridSearchCV`. If the method is not "grid", there is a
        row for each segment, with the seconds of the trainings at its breakpoints.
    edges_ : ndarray of shape (n_segments + 1,)
        Ends of the segments of constant mean score, from inf down.
    scores_ : ndarray of shape (n_segments, n_folds)
        Held-out score of each segment on each fold. Above the first breakpoint of a
        fold, where the path has smaller multiples of the first weights, the score is
        that of the first weights.
    paths_ : list of SSVMPath
        Path of each fold, without its weights.
    n_splits_ : int
        Number of folds.
    scorer_ : callable
        The function that scores held-out samples.
    refit_time_ : float
        Seconds of the training on all data, with `refit`.
    best_estimator_ : estimator
        The estimator with the best alpha, trained on all data, with `refit`.
    n_iter_ : int
        Number of passes over all data, with `refit`.
    n_features_in_ : int
        Number of features, if the best estimator has this attribute.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X has feature names.

    See Also
    --------
    ssvm_path : The path of one estimator on all data.
    sksstruct.plotting.PathDisplay : Draws scores, gaps and costs.

    Notes
    -----
    All folds are trained at one alpha before the next alpha, so the training data of
    all folds are in memory at the same time. The transformers of a pipeline are fitted
    once for each fold, and once on all data.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sksstruct import SSVMClassifier, SSVMPathCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = SSVMPathCV(SSVMClassifier(random_state=0), cv=3).fit(X, y)
    >>> search.best_score_ > 0.9
    True
    >>> search.alpha_ in search.cv_results_["param_alpha"]
    True
    """

    estimator: BaseEstimator | None = None
    _: KW_ONLY
    method: Literal["grid", "exact", "heuristic"] = "grid"
    cv: Annotated[object, "cv_object"] = None
    scoring: str | Callable[..., float] | None = None
    refit: bool = True
    n_jobs: Threads | None = None
    verbose: Verbosity = 0

    def _estimator(self):
        return SSVMClassifier() if self.estimator is None else self.estimator

    def _answering(self):
        fitted = getattr(self, "best_estimator_", None)
        return self._estimator() if fitted is None else fitted

    def _answer(self, name, X, *args, **params):
        check_is_fitted(self, "best_estimator_")
        return getattr(self.best_estimator_, name)(X, *args, **params)

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
            Weight of the loss of each sample in training.
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
            If the user interrupts `fit`. Before the paths are complete, no attribute is
            set. During the last training, the attributes are set, and
            `best_estimator_` has the weights of the training so far.

        Warns
        -----
        ConvergenceWarning
            If training at an alpha did not reach the tolerance in `max_iter` passes.
        """
        validate_params(self)
        self._check_path()
        parameters = PathParameters(
            **{each.name: getattr(self, each.name) for each in fields(PathParameters)}
        )
        best = clone(self._estimator())
        scorer = self._checked_scorer(best)
        X, y = indexable(X, y)
        n, weight = _num_samples(X), None
        # check all data here: errors of the folds would have indices within the fold
        first, last = steps_of(best)
        rows = X if first is None else first.fit_transform(X, y)
        if first is not None:
            # a pipeline with `memory` fits clones of its transformers
            best.steps[:-1] = first.steps
        fixed = self._fix_units(last, rows, y, sample_weight, parameters)
        last.set_params(**fixed)
        if sample_weight is not None:
            weight = check_weight(sample_weight, n)
        parts = check_cv(self.cv, y, classifier=is_classifier(best))
        parts = list(parts.split(X, y, groups))
        n_tasks = 1 if parameters.alphas is None else len(parameters.alphas)
        tasks, folds = _Tasks(self, 1 + n_tasks + self.refit, X, y), []
        try:
            data = X, y, weight
            folds = tasks.run(
                "folds",
                lambda: self._in_threads(
                    partial(Fold, best, data, *part, parameters, scorer)
                    for part in parts
                ),
            )
            self._follow(folds, parameters, tasks)
            chosen = {**self._choose(folds, parameters, fixed), "scorer_": scorer}
            last.set_params(alpha=chosen["alpha_"])
            try:
                if self.refit:
                    started = time.perf_counter()
                    tasks.run(
                        "refit",
                        lambda: _refit(last, rows, y, sample_weight, parameters),
                    )
                    chosen["refit_time_"] = time.perf_counter() - started
            except KeyboardInterrupt:
                # the interrupted refit has set the attributes of `best`
                replace_attributes(self, {**chosen, **_of_best(best)})
                raise
            replace_attributes(self, {**chosen, **_of_best(best)})
        finally:
            for fold in folds:
                fold.stopped = True
            tasks.close()
        for path in self.paths_:
            warn_path(path, stacklevel=4)
        return self

    def _checked_scorer(self, estimator):
        """The scorer; names of scikit-learn's scorers are refused for sequences."""
        ragged = not get_tags(steps_of(estimator)[1]).input_tags.two_d_array
        if ragged and isinstance(self.scoring, str):
            raise ValueError(
                f"scoring={self.scoring!r} scores labels of rows, and not lists of "
                "labels: use a scorer of sksstruct.metrics, for instance "
                "flat_f1_macro_scorer, token_accuracy_scorer or chunk_f1_scorer"
            )
        return check_scoring(estimator, scoring=self.scoring)

    def _in_threads(self, calls):
        """Results of the calls, in threads of this process, which share the paths."""
        parallel = Parallel(n_jobs=self.n_jobs, require="sharedmem")
        return parallel(delayed(call)() for call in calls)

    def _fix_units(self, last, X, y, sample_weight, parameters):
        """Set the grid, or the smallest alpha, of all folds by the scale of all data.

        Returns parameters of the estimator that depend on the scale of the features, so
        that every fold and the best estimator have the same value.
        """
        template, problem = start(last, X, y, sample_weight, self.method)
        if self.method == "grid":
            parameters.alphas = grid_of(parameters, problem)
            parameters.alpha_min = None
        else:
            parameters.alpha_min = end_of(parameters, problem)
        name = "intercept_scaling"
        if last.alpha != "auto" or last.intercept_scaling != "auto":
            return {}
        return {name: template.intercept_scaling}

    def _follow(self, folds, parameters, tasks):
        """Follow the paths of all folds, until the end or `_PATIENCE` lower scores."""
        if self.method != "grid":
            tasks.run("paths", lambda: self._in_threads(f.complete for f in folds))
            return
        means = []
        for alpha in parameters.alphas:
            tasks.run("alpha", lambda: self._in_threads(f.advance for f in folds))
            means.append(np.mean([fold.scores[-1] for fold in folds]))
            if self.verbose:
                print(f"alpha {alpha:10.4g}  mean score {means[-1]:.6g}", flush=True)
            worse = np.array(means[-_PATIENCE:]) < np.max(means)
            if self.alphas is None and len(means) > _PATIENCE and worse.all():
                return

    def _choose(self, folds, parameters, fixed):
        """Mean score of every alpha, and the best alpha, as attributes.

        The dict `fixed` has parameters that are the same in every row of `cv_results_`.
        """
        seconds = [np.array(fold.seconds) for fold in folds]
        held_out = [np.array(fold.scores) for fold in folds]
        paths = [fold.close() for fold in folds]
        if self.method == "grid":
            alphas = paths[0].alphas
            edges = np.append(paths[0].upper, paths[0].lower[-1])
        else:
            edges, alphas = common_segments(paths, parameters.alpha_min)
        rows = [[path.segment(a) for path in paths] for a in alphas]
        scores, seconds = (
            np.array([[v[j] for v, j in zip(values, row, strict=True)] for row in rows])
            for values in (held_out, seconds)
        )
        mean = scores.mean(axis=1)
        if not np.isfinite(mean).any():
            raise ValueError(
                "no held-out score is finite: scoring must return a finite number for "
                "at least one alpha on all folds"
            )
        best = int(np.where(np.isfinite(mean), mean, -np.inf).argmax())
        prefix = _prefix(self._estimator())
        fixed = {prefix + name: value for name, value in fixed.items()}
        params = [{prefix + "alpha": alpha, **fixed} for alpha in alphas.tolist()]
        return {
            "paths_": paths,
            "edges_": edges,
            "scores_": scores,
            "cv_results_": results_of(params, scores, seconds),
            "n_splits_": len(paths),
            "best_index_": best,
            "best_params_": params[best],
            "alpha_": float(alphas[best]),
            "best_score_": float(mean[best]),
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

    def predict(self, X: Examples, **params: Any) -> np.ndarray | Any:
        """Predict with the best estimator.

        Parameters
        ----------
        %(inputs)s
        **params : dict
            Constraints, if the estimator takes any, as `ChainCRF.predict` does.

        Returns
        -------
        y : ndarray or list
            Outputs.
        """
        return self._answer("predict", X, **params)

    @available_if(has_method("decision_function"))
    def decision_function(self, X: Examples) -> np.ndarray:
        """Decision function of the best estimator.

        Parameters
        ----------
        %(inputs)s

        Returns
        -------
        scores : ndarray
            Scores as the estimator returns them.
        """
        return self._answer("decision_function", X)

    @available_if(has_method("predict_proba"))
    def predict_proba(  # type: ignore[override]
        self, X: Examples, **params: Any
    ) -> np.ndarray | Any:
        """Probabilities by the best estimator.

        Parameters
        ----------
        %(inputs)s
        **params : dict
            Constraints, if the estimator takes any.

        Returns
        -------
        probabilities : ndarray or list
            Probabilities as the estimator returns them.
        """
        return self._answer("predict_proba", X, **params)

    @available_if(has_method("predict_topk"))
    def predict_topk(  # type: ignore[override]
        self, X: Examples, k: int, **params: Any
    ) -> tuple[np.ndarray | Any, np.ndarray | Any]:
        """The k best outputs by the best estimator, and their scores.

        Parameters
        ----------
        %(inputs)s
        k : int
            Number of outputs.
        **params : dict
            Constraints, if the estimator takes any.

        Returns
        -------
        y : list or ndarray
            Outputs.
        scores : list or ndarray
            Scores.
        """
        return self._answer("predict_topk", X, k, **params)

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
            Score by the scorer of `scoring`; None: by the estimator's method `score`.
        """
        check_is_fitted(self, "best_estimator_")
        scorer = check_scoring(self.best_estimator_, scoring=self.scoring)
        return scorer(self.best_estimator_, X, y)
