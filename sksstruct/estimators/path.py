"""The regularisation path, and the choice of alpha along it."""

import copy
import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_is_fitted,
)

from sksstruct.estimators._report import warn_path
from sksstruct.estimators.ssvm import SSVMClassifier
from sksstruct.solvers import BCFW
from sksstruct.solvers.path import Path
from sksstruct.utils._param_validation import Interval, StrOptions, validate_params

# The grid of Osokin et al. (2016), App. K.
GRID = 2.0 ** np.arange(15, -16, -1)

_CONSTRAINTS = {
    "method": [StrOptions({"exact", "heuristic", "grid"})],
    "epsilon": [Interval(Real, 0, None, closed="neither")],
    "kappa": [Interval(Real, 0, 1, closed="neither"), None],
    "alpha_min": [Interval(Real, 0, None, closed="neither")],
    "alphas": ["array-like", None],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
}


class SSVMPath:
    """A piecewise constant regularisation path; what `ssvm_path` returns.

    Piece j holds for ``lower[j] <= alpha <= upper[j]``; the first one, which reaches to
    infinity, is multiplied by ``alphas[0] / alpha`` there. Where most weights of a
    piece are zero, only the others are kept.

    Parameters
    ----------
    template : estimator
        Copied to form estimators.
    attributes : callable
        What weights mean to it.
    epsilon : float
        Suboptimality allowed.
    method : str
        How the path was found.

    Attributes
    ----------
    alphas : ndarray of shape (n_pieces,)
        Breakpoints: where the pieces were trained, from the largest.
    lower, upper : ndarray of shape (n_pieces,)
        Ends of the pieces.
    gaps, objectives : ndarray of shape (n_pieces,)
        Duality gap and objective at the breakpoints; estimates with
        ``method="heuristic"``.
    n_iter, oracle_calls, seconds : ndarray of shape (n_pieces,)
        What it took since the path began: passes, oracle calls, time.
    converged : ndarray of shape (n_pieces,), bool
        Whether the breakpoint's gap was reached. A path ends where it was not, and
        nothing is guaranteed for its last piece then.
    interrupted : bool
        Whether the path ends where it does because of an interrupt.
    """

    def __init__(self, template, attributes, epsilon, method):
        self.epsilon, self.method = epsilon, method
        self._template, self._attributes = template, attributes
        self._weights, self._pieces = [], []
        self.interrupted = False

    _columns = (
        ("alphas", "alpha"),
        ("lower", "lower"),
        ("upper", "upper"),
        ("gaps", "gap"),
        ("objectives", "objective"),
        ("n_iter", "n_iter"),
        ("oracle_calls", "oracle_calls"),
        ("seconds", "seconds"),
        ("converged", "converged"),
    )

    def _add(self, piece, keep=True):
        weights = piece.weights
        if keep:
            where = np.flatnonzero(weights)
            if 2 * len(where) < len(weights):
                self._weights.append((len(weights), where, weights[where]))
            else:
                self._weights.append((len(weights), None, weights))
        piece.weights = None
        self._pieces.append(piece)

    def _close(self):
        """Form the columns."""
        for name, field in self._columns:
            setattr(self, name, np.array([getattr(p, field) for p in self._pieces]))

    def __len__(self):
        return len(self._pieces)

    def piece(self, alpha):
        """Number of the piece that holds at an alpha.

        Parameters
        ----------
        alpha : float
            Regularisation, positive.

        Returns
        -------
        j : int
            Its number.

        Raises
        ------
        ValueError
            If the path does not reach down to it.
        """
        if not alpha > 0.0:
            raise ValueError(f"alpha must be positive, got {alpha!r}")
        below = np.flatnonzero(self.lower <= alpha)
        if not len(below):
            raise ValueError(
                f"the path ends at {self.lower[-1]:.3g}, alpha is {alpha:.3g}"
            )
        return int(below[0])

    def weights(self, alpha):
        """Flat weights at an alpha.

        Parameters
        ----------
        alpha : float
            Regularisation.

        Returns
        -------
        weights : ndarray
            Weights; at most `epsilon` above the optimum with ``method="exact"``, where
            the piece `converged`.
        """
        j = self.piece(alpha)
        n, where, values = self._weights[j]
        out = np.zeros(n)
        out[slice(None) if where is None else where] = values
        if j == 0 and alpha > self.alphas[0]:
            out *= self.alphas[0] / alpha
        return out

    def estimator(self, alpha):
        """A fitted estimator with the weights of an alpha.

        Parameters
        ----------
        alpha : float
            Regularisation.

        Returns
        -------
        estimator : estimator
            A copy of the one that the path is of, fitted.
        """
        return self._with(self.weights(alpha), alpha)

    def _with(self, weights, alpha):
        estimator = copy.copy(self._template)
        estimator.alpha = float(alpha)
        for name, value in self._attributes(weights).items():
            setattr(estimator, name, value)
        return estimator


def ssvm_path(
    estimator,
    X,
    y,
    *,
    method="exact",
    epsilon=0.1,
    kappa=None,
    alpha_min=1e-5,
    alphas=None,
    max_iter=1000,
    sample_weight=None,
    verbose=0,
):
    """Regularisation path of a structured support vector machine.

    For every alpha, from infinity down to `alpha_min`, weights whose objective is at
    most `epsilon` above the optimum, by training at a few breakpoints, each from the
    one before [1]_.

    Parameters
    ----------
    estimator : estimator
        `SSVMClassifier`, `ChainCRF` with the hinge loss, or `LinearSSVC`. Its `alpha`
        is not used; its solver must be `sksstruct.solvers.BCFW` or "auto".
    X : array-like or list
        Inputs, as the estimator takes them.
    y : array-like or list
        Outputs.
    method : {"exact", "heuristic", "grid"}, default="exact"
        "exact": breakpoints follow from duality gaps, which are computed. "heuristic":
        from estimates of the gaps that the last visit of each example gave, which costs
        no sweeps and guarantees nothing. "grid": breakpoints are `alphas`, each trained
        to a gap of `epsilon`; between them nothing is guaranteed.
    epsilon : float, default=0.1
        Suboptimality allowed, in units of the objective, which is 1 at w = 0 if the
        losses are at most 1.
    kappa : float, default=None
        Part of `epsilon` that the gap must reach at the breakpoints: small values give
        long pieces and long training. None: 0.9 with "exact", 0.7 with "heuristic", as
        in [1]_, and 1 with "grid".
    alpha_min : float, default=1e-5
        Where to stop. The path ends earlier where its weights are good for every
        smaller alpha.
    alphas : array-like of shape (n_alphas,), default=None
        For "grid". None: 31 powers of 2, from 2^15 to 2^-15, those not below
        `alpha_min`.
    max_iter : int, default=1000
        Largest number of passes at each breakpoint.
    sample_weight : array-like of shape (n_samples,), default=None
        Factors of the losses.
    verbose : int, default=0
        Print a line for each breakpoint.

    Returns
    -------
    path : SSVMPath
        The pieces, with gaps and costs; estimators and weights at any alpha. After an
        interrupt, what was done until then.

    Warns
    -----
    ConvergenceWarning
        If a breakpoint's gap was not reached in `max_iter` passes; the path ends there.

    See Also
    --------
    SSVMPathCV : Chooses alpha by cross-validation along the path.

    Notes
    -----
    Where weights are good is decided by a certificate that is never worse than
    Proposition 1 of [1]_: the dual variables are mixed with the observed outputs to the
    degree that gives the highest dual value, which makes the number of breakpoints
    grow with ``1 / sqrt(epsilon)``, and weights are used on both sides of their alpha.

    References
    ----------
    .. [1] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. Dokania and S. Lacoste-Julien,
       "Minding the gaps for block Frank-Wolfe optimization of structured SVMs",
       ICML 2016, Section 4, Algorithms 6 and 7, Appendix K.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sksstruct import SSVMClassifier, ssvm_path
    >>> X, y = load_iris(return_X_y=True)
    >>> path = ssvm_path(SSVMClassifier(random_state=0), X, y, epsilon=0.05)
    >>> bool(path.upper[0] == float("inf") and path.lower[-1] <= 1e-5)
    True
    >>> path.estimator(1e-3).score(X, y) > 0.9
    True
    """
    parameters = {
        "method": method,
        "epsilon": epsilon,
        "kappa": kappa,
        "alpha_min": alpha_min,
        "alphas": alphas,
        "max_iter": max_iter,
    }
    _check(parameters)
    out = None
    try:
        for out, piece in _follow(estimator, X, y, parameters, sample_weight, verbose):
            out._add(piece)
    except KeyboardInterrupt:
        if out is None or not len(out):
            raise
        out.interrupted = True
        warnings.warn(
            f"the path was interrupted after {len(out)} pieces",
            ConvergenceWarning,
            stacklevel=2,
        )
    out._close()
    warn_path(out, max_iter)
    return out


class _Parameters(BaseEstimator):
    """The parameters of a path, to be checked as those of an estimator are."""

    _parameter_constraints = _CONSTRAINTS

    def __init__(
        self,
        method="exact",
        epsilon=0.1,
        kappa=None,
        alpha_min=1e-5,
        alphas=None,
        max_iter=1000,
    ):
        self.method = method
        self.epsilon = epsilon
        self.kappa = kappa
        self.alpha_min = alpha_min
        self.alphas = alphas
        self.max_iter = max_iter


# the name that messages give
_Parameters.__name__ = "ssvm_path"


def _check(parameters):
    validate_params(_Parameters(**parameters))
    _grid(parameters)


def _start(estimator, X, y, sample_weight):
    """A copy of the estimator that has seen the data, its solver, and the problem."""
    if not hasattr(estimator, "_prepare"):
        raise TypeError(
            "the path is for SSVMClassifier, ChainCRF and LinearSSVC, got "
            f"{type(estimator).__name__}"
        )
    template = clone(estimator)
    solver, problem = template._prepare(X, y, sample_weight)
    if not isinstance(solver, BCFW):
        raise ValueError(
            "the path needs solver='auto', 'bcfw' or a BCFW object, got "
            f"{type(solver).__name__}"
        )
    return template, solver, problem


def _grid(parameters):
    """The grid of alphas, from the largest."""
    alphas = parameters["alphas"]
    if parameters["method"] != "grid":
        if alphas is not None:
            raise ValueError("alphas needs method='grid'")
        return None
    if alphas is None:
        alphas = GRID[GRID >= parameters["alpha_min"]]
        if not len(alphas):
            raise ValueError(
                f"alpha_min is above the default grid, which begins at {GRID[0]:.0f}"
            )
    alphas = np.sort(np.asarray(alphas, dtype=np.float64))[::-1]
    if alphas.ndim != 1 or not len(alphas):
        raise ValueError("alphas must be a list of numbers, not empty")
    if not (
        np.isfinite(alphas).all() and alphas[-1] > 0 and (np.diff(alphas) < 0).all()
    ):
        raise ValueError("alphas must be finite, positive and different")
    return alphas


def _follow(estimator, X, y, parameters, sample_weight, verbose):
    """The path, before a piece is added to it, and the piece; one after the other."""
    template, solver, problem = _start(estimator, X, y, sample_weight)
    method, kappa = parameters["method"], parameters["kappa"]
    if kappa is None:
        kappa = {"exact": 0.9, "heuristic": 0.7, "grid": 1.0}[method]
    path = Path(
        problem.model,
        solver,
        epsilon=parameters["epsilon"],
        kappa=kappa,
        max_iter=parameters["max_iter"],
        exact=method != "heuristic",
        random_state=template.random_state,
        n_jobs=template.n_jobs,
    )
    out = SSVMPath(template, problem.attributes, parameters["epsilon"], method)
    alphas = _grid(parameters)
    if alphas is None:
        pieces = path.pieces(parameters["alpha_min"])
    else:
        pieces = path.grid(alphas)
    for piece in pieces:
        if verbose:
            print(
                f"alpha {piece.alpha:10.4g}  for {piece.lower:10.4g} .. "
                f"{piece.upper:10.4g}  objective {piece.objective:.6g}  "
                f"gap {piece.gap:.3g}  passes {piece.n_iter:6d}  "
                f"oracle calls {piece.oracle_calls:10d}  {piece.seconds:8.2f} s",
                flush=True,
            )
        yield out, piece


def _fold(estimator, X, y, weight, train, test, parameters, scorer, verbose):
    """Path of one fold, without weights, and the held-out score of each piece."""
    some = None if weight is None else weight[train]
    X_test, y_test = _safe_indexing(X, test), _safe_indexing(y, test)
    out, scores = None, []
    pieces = _follow(
        estimator,
        _safe_indexing(X, train),
        _safe_indexing(y, train),
        parameters,
        some,
        verbose,
    )
    for out, piece in pieces:
        fitted = out._with(piece.weights, piece.alpha)
        scores.append(scorer(fitted, X_test, y_test))
        out._add(piece, keep=False)
    out._template = out._attributes = None
    out._close()
    return out, np.array(scores)


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
        return hasattr(self._estimator() if fitted is None else fitted, name)

    return check


class SSVMPathCV(CallbackSupportMixin, MetaEstimatorMixin, BaseEstimator):
    """Structured support vector machine with alpha chosen along regularisation paths.

    Follows the path of each fold, scores its pieces on what was held out, so that the
    mean score is known for every alpha, and trains with the best one on all data.

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
        Part of `epsilon` that gaps must reach at breakpoints; see `ssvm_path`.
    alpha_min : float, default=1e-5
        Where paths stop.
    alphas : array-like of shape (n_alphas,), default=None
        Breakpoints with ``method="grid"``.
    max_iter : int, default=1000
        Largest number of passes at each breakpoint.
    cv : int, cross-validation generator or iterable, default=None
        Folds, as in `sklearn.model_selection.GridSearchCV`.
    scoring : str or callable, default=None
        Held-out score; None: that of the estimator.
    refit : bool, default=True
        Whether to train on all data with the best alpha, to the tolerance of the
        estimator.
    n_jobs : int, default=None
        Folds that are worked on at a time.
    verbose : int, default=0
        Print a line for each breakpoint of each path.

    Attributes
    ----------
    alpha_ : float
        Where the mean score is highest; the largest of several pieces.
    best_score_ : float
        Mean score there.
    edges_ : ndarray of shape (n_pieces + 1,)
        Ends of the pieces of constant mean score, from inf down.
    scores_ : ndarray of shape (n_pieces, n_folds)
        Held-out score of each piece on each fold; above the first breakpoint of a fold
        that of the weights there, which are smaller multiples of these.
    paths_ : list of SSVMPath
        Path of each fold, without its weights.
    best_estimator_ : estimator
        Trained on all data, with `refit`.
    n_features_in_ : int
        Number of features, where the estimator has it.

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

    _parameter_constraints = {
        "estimator": [BaseEstimator, None],
        **_CONSTRAINTS,
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "refit": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator=None,
        *,
        method="exact",
        epsilon=0.1,
        kappa=None,
        alpha_min=1e-5,
        alphas=None,
        max_iter=1000,
        cv=None,
        scoring=None,
        refit=True,
        n_jobs=None,
        verbose=0,
    ):
        self.estimator = estimator
        self.method = method
        self.epsilon = epsilon
        self.kappa = kappa
        self.alpha_min = alpha_min
        self.alphas = alphas
        self.max_iter = max_iter
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs
        self.verbose = verbose

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
    def fit(self, X, y, sample_weight=None, groups=None):
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
            When interrupted: while paths are followed nothing is set; while the best
            estimator is trained, that one as far as it is.

        Warns
        -----
        ConvergenceWarning
            If a gap was not reached in `max_iter` passes.
        """
        validate_params(self)
        parameters = {name: getattr(self, name) for name in _CONSTRAINTS}
        _check(parameters)
        estimator = self._estimator()
        scorer = check_scoring(estimator, scoring=self.scoring)
        # all checks of the data, before they are divided
        _start(estimator, X, y, sample_weight)
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
            self.paths_ = [path for path, _ in found]
            self._choose([scores for _, scores in found])
            for name in (
                "best_estimator_", "n_features_in_", "feature_names_in_", "n_iter_"
            ):  # fmt: skip
                self.__dict__.pop(name, None)
            if self.refit:
                tasks.run("refit", lambda: self._refit(X, y, sample_weight))
        finally:
            tasks.close()
        for path in self.paths_:
            warn_path(path, self.max_iter, stacklevel=4)
        return self

    def _refit(self, X, y, sample_weight):
        best = clone(self._estimator()).set_params(alpha=self.alpha_)
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        try:
            best.fit(X, y, **options)
        finally:
            if hasattr(best, "n_iter_"):  # an interrupted fit is of use too
                self.best_estimator_ = best
                for name in ("n_features_in_", "feature_names_in_", "n_iter_"):
                    if hasattr(best, name):
                        setattr(self, name, getattr(best, name))

    def _choose(self, scores):
        """Mean score of every alpha, and the best alpha."""
        end = max(path.lower[-1] for path in self.paths_)
        edges = np.unique(np.concatenate([path.lower for path in self.paths_]))
        self.edges_ = np.concatenate([[np.inf], edges[edges >= end][::-1]])
        upper, lower = self.edges_[:-1], self.edges_[1:]
        inside = np.sqrt(
            np.maximum(lower, np.minimum(self.alpha_min, upper / 2.0)) * upper
        )
        # where the weights of the first piece are those that were scored
        first = min(path.alphas[0] for path in self.paths_)
        inside[0] = np.sqrt(lower[0] * max(lower[0], first)) if lower[0] else first
        self.scores_ = np.array(
            [
                [s[path.piece(a)] for path, s in zip(self.paths_, scores, strict=True)]
                for a in inside
            ]
        )
        mean = self.scores_.mean(axis=1)
        if not np.isfinite(mean).any():
            raise ValueError("no held-out score is finite")
        best = int(np.where(np.isfinite(mean), mean, -np.inf).argmax())
        self.alpha_ = float(inside[best])
        self.best_score_ = float(self.scores_[best].mean())

    def score_at(self, alpha):
        """Mean held-out score at an alpha.

        Parameters
        ----------
        alpha : float
            Regularisation.

        Returns
        -------
        score : float
            Mean over the folds.

        Raises
        ------
        ValueError
            If the paths do not reach down to it.
        """
        check_is_fitted(self, "edges_")
        below = np.flatnonzero(self.edges_[1:] <= alpha)
        if not alpha > 0 or not len(below):
            raise ValueError(
                f"alpha must be positive and at least {self.edges_[-1]:.3g}, got "
                f"{alpha!r}"
            )
        return float(self.scores_[below[0]].mean())

    # ---- what the best estimator does ----

    @property
    def classes_(self):
        """Classes of the best estimator."""
        return self.best_estimator_.classes_

    def predict(self, X):
        """Predict with the best estimator.

        Parameters
        ----------
        X : array-like or list
            Inputs.

        Returns
        -------
        y : ndarray or list
            Outputs.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X)

    @available_if(_has("decision_function"))
    def decision_function(self, X):
        """Scores by the best estimator.

        Parameters
        ----------
        X : array-like or list
            Inputs.

        Returns
        -------
        scores : ndarray
            As the estimator gives them.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.decision_function(X)

    @available_if(_has("predict_topk"))
    def predict_topk(self, X, k):
        """The k best outputs by the best estimator, and their scores.

        Parameters
        ----------
        X : array-like or list
            Inputs.
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

    def score(self, X, y):
        """Score of the best estimator.

        Parameters
        ----------
        X : array-like or list
            Inputs.
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
