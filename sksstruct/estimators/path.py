"""The regularization path of an estimator: `ssvm_path`, and its result `SSVMPath`.

`follow` yields the segments one after the other: `SSVMPathCV` follows a path per fold.
The certificate of a segment is computed in `sksstruct.solvers.frank_wolfe.path`.
"""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from sksstruct.estimators._advice import advice
from sksstruct.estimators._train import prepare, tolerance
from sksstruct.models.protocols._bound_model import WeightsFull
from sksstruct.solvers import BCFW, SOLVERS
from sksstruct.solvers.core.segments import edges_of_grid, train_on_grid
from sksstruct.solvers.frank_wolfe.path import Path
from sksstruct.utils._param_validation import (
    Array,
    Constrained,
    Fraction,
    Positive,
    validate_parameter_constraints,
)
from sksstruct.utils.parallel import one_blas_thread
from sksstruct.utils.progress import Status
from sksstruct.utils.typing import Examples

# The default grid, as multiples of the estimator's alpha, from the largest. The grid
# ends at 2^-7, as training is slow at alphas far below that of the estimator.
GRID = 2.0 ** np.arange(5, -8, -1)


@dataclass(eq=False, repr=False, kw_only=True)
class PathParameters(Constrained):
    """Parameters that `ssvm_path` and `SSVMPathCV` share."""

    method: Literal["exact", "heuristic", "grid"] = "exact"
    alphas: Array | None = None
    alpha_min: Positive | None = None
    epsilon: Positive = 0.1
    relative: bool = True
    kappa: Fraction | None = None

    def _check_path(self):
        """Raise an error if the values of the parameters contradict each other."""
        alphas, grid = self.alphas, self.method == "grid"
        if not grid and self.relative and self.epsilon >= 1.0:
            raise ValueError(
                "epsilon is a share of the objective, which must be less than 1, got "
                f"{self.epsilon!r}; with relative=False it is in its units"
            )
        if alphas is None:
            return
        if not grid:
            raise ValueError(f"alphas needs method='grid', got method={self.method!r}")
        if self.alpha_min is not None:
            raise ValueError(
                "alpha_min ends the default grid: with alphas it must be None, got "
                f"{self.alpha_min!r}"
            )
        alphas = np.asarray(alphas, dtype=np.float64)
        if alphas.ndim != 1 or not len(alphas):
            raise ValueError(
                f"alphas must be a list of numbers, not empty, got {self.alphas!r:.80}"
            )
        if not (np.isfinite(alphas).all() and (alphas > 0).all()) or (
            len(np.unique(alphas)) < len(alphas)
        ):
            raise ValueError(
                "alphas must be finite, positive and different, got "
                f"{self.alphas!r:.80}"
            )


class SSVMPath:
    """A piecewise constant regularization path, the result of `ssvm_path`.

    Segment j has the weights for ``lower[j] <= alpha <= upper[j]``. The first segment
    extends to infinity. Above ``alphas[0]`` its weights are multiplied by ``alphas[0] /
    alpha``, except with ``method="grid"``. If most weights of a segment are zero, only
    the nonzero weights are stored.

    Parameters
    ----------
    template : estimator
        The estimator of the path, which `estimator` copies.
    attributes : callable
        Function from flat weights to the fitted attributes of `template`.
    method : str
        The method of `ssvm_path`.

    Attributes
    ----------
    alphas : ndarray of shape (n_segments,)
        Breakpoints: the values of alpha at which weights were trained, from the
        largest.
    lower, upper : ndarray of shape (n_segments,)
        Ends of the segments.
    gaps, objectives, targets : ndarray of shape (n_segments,)
        Duality gap and objective at the breakpoints, which are estimates with
        ``method="heuristic"``, and the gap at which training was to stop.
    n_iter, oracle_calls, seconds : ndarray of shape (n_segments,)
        Passes, oracle calls and seconds since the path began.
    converged : ndarray of shape (n_segments,), bool
        Whether training reached the target gap at the breakpoint. If not, the segment
        has no guarantee, and the path ends there, except with ``method="grid"``.
    interrupted : bool
        Whether an interrupt ended the path.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import SSVMClassifier, ssvm_path
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> y = ["low", "low", "high", "high"]
    >>> path = ssvm_path(SSVMClassifier(random_state=0), X, y, epsilon=0.1)
    >>> bool(path.alphas[0] > path.alphas[-1]), bool(path.converged.all())
    (True, True)
    >>> classifier = path.estimator(0.01)
    >>> classifier.predict([[3.0]]).tolist()
    ['high']
    """

    alphas: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    gaps: np.ndarray
    objectives: np.ndarray
    targets: np.ndarray
    n_iter: np.ndarray
    oracle_calls: np.ndarray
    seconds: np.ndarray
    converged: np.ndarray

    def __init__(
        self,
        template: BaseEstimator,
        attributes: Callable[..., Any],
        method: str,
    ) -> None:
        self.method = method
        self._template, self._attributes = template, attributes
        self._name, self._remedies = type(template).__name__, []
        self._weights, self._segments = [], []
        self.interrupted = False

    _columns = (
        ("alphas", "alpha"),
        ("lower", "lower"),
        ("upper", "upper"),
        ("gaps", "gap"),
        ("objectives", "objective"),
        ("targets", "target"),
        ("n_iter", "n_iter"),
        ("oracle_calls", "oracle_calls"),
        ("seconds", "seconds"),
        ("converged", "converged"),
    )

    def _add(self, segment, keep=True):
        weights = segment.weights
        if keep:
            where = np.flatnonzero(weights)
            if 2 * len(where) < len(weights):
                self._weights.append((len(weights), where, weights[where]))
            else:
                self._weights.append((len(weights), None, weights))
        segment.weights = segment.result = None
        self._segments.append(segment)

    def _close(self):
        """Set the public arrays from the collected segments."""
        for name, field in self._columns:
            setattr(self, name, np.array([getattr(p, field) for p in self._segments]))

    def __len__(self):
        return len(self._segments)

    def _passes(self, j):
        """Number of passes of the training at breakpoint j."""
        return int(np.diff(self.n_iter, prepend=0)[j])

    def segment(self, alpha: float) -> int:
        """Number of the segment that contains an alpha.

        Parameters
        ----------
        alpha : float
            Regularization, positive.

        Returns
        -------
        j : int
            Index of the segment, from 0.

        Raises
        ------
        ValueError
            If the path does not reach down to this alpha.
        """
        if not alpha > 0.0:
            raise ValueError(f"alpha must be positive, got {alpha!r}")
        below = np.flatnonzero(self.lower <= alpha)
        if not len(below):
            raise ValueError(
                f"alpha must be at least {self.lower[-1]:.3g}, where the path ends, "
                f"got {alpha:.3g}"
            )
        return int(below[0])

    def weights(self, alpha: float) -> np.ndarray:
        """Flat weights at an alpha.

        Parameters
        ----------
        alpha : float
            Regularization.

        Returns
        -------
        weights : ndarray
            Weights. With ``method="exact"``, they are within epsilon of the optimum if
            the segment `converged`.
        """
        j = self.segment(alpha)
        n, where, values = self._weights[j]
        out = np.zeros(n)
        out[slice(None) if where is None else where] = values
        if j == 0 and alpha > self.alphas[0] and self.method != "grid":
            out *= self.alphas[0] / alpha
        return out

    def estimator(self, alpha: float) -> BaseEstimator:
        """A fitted estimator with the weights of an alpha.

        Parameters
        ----------
        alpha : float
            Regularization.

        Returns
        -------
        estimator : estimator
            A fitted copy of the path's estimator.
        """
        return self._with(self.weights(alpha), alpha)

    def _with(self, weights, alpha):
        estimator = copy.copy(self._template)
        estimator.alpha = float(alpha)
        for name, value in self._attributes(weights).items():
            setattr(estimator, name, value)
        return estimator


def ssvm_path(
    estimator: BaseEstimator,
    X: Examples,
    y: Examples,
    *,
    method: Literal["exact", "heuristic", "grid"] = "exact",
    alphas: ArrayLike | None = None,
    alpha_min: float | None = None,
    epsilon: float = 0.1,
    relative: bool = True,
    kappa: float | None = None,
    sample_weight: ArrayLike | None = None,
    verbose: int = 0,
) -> SSVMPath:
    """Regularization path of a structured support vector machine.

    The path has, for every alpha from infinity down to `alpha_min`, weights whose
    objective is at most a share `epsilon` above the optimum. Only a few values of
    alpha, the breakpoints, are trained, each from the result of the previous one [1]_.

    Parameters
    ----------
    estimator : estimator
        `SSVMClassifier`, `ChainCRF`, `SegmentCRF` or `LinearSSVC`, with the hinge loss
        and `sksstruct.solvers.BCFW` or "auto" as the solver. With ``method="grid"`` any
        loss and solver, and also `MultilabelPairwise`. The `max_iter` of the solver
        limits the passes at each breakpoint.
    X : array-like or list
        Inputs, as the estimator takes them.
    y : array-like or list
        Outputs.
    method : {"exact", "heuristic", "grid"}, default="exact"
        "exact": breakpoints follow from computed duality gaps. "heuristic": breakpoints
        follow from estimates of the gaps, taken from the last visit of each example;
        estimates need no sweep over the data, but give no guarantee. "grid":
        breakpoints are `alphas`. Each is trained as `estimator` trains, to its
        tolerance, and from the previous result if the solver has warm starts. Alphas
        between the breakpoints have no guarantee.
    alphas : array-like of shape (n_alphas,), default=None
        Breakpoints with ``method="grid"``. None: the alpha of the estimator times the
        powers of 2 from 2^5 to 2^-7, without those below `alpha_min`.
    alpha_min : float, default=None
        Smallest alpha to reach. The path ends earlier if its last weights are within
        `epsilon` for every smaller alpha. None: the alpha of the estimator divided by
        2^7.
    epsilon : float, default=0.1
        Allowed suboptimality. Not used with ``method="grid"``.
    relative : bool, default=True
        Whether `epsilon` is a share, less than 1, of the objective at the weights. If
        False, `epsilon` is in units of the objective, as in [1]_. The objective is 1 at
        w = 0 if the losses are at most 1, but the optimum may be much smaller: weights
        that have learned nothing can then satisfy an absolute `epsilon` of 0.1.
    kappa : float, default=None
        Training at a breakpoint stops at a gap of ``kappa * epsilon``. Small values
        give long segments and long training. None: 0.3 with "exact", and 0.7 with
        "heuristic". The paper uses 0.9 [1]_. With "exact", the certificate in the Notes
        makes segments longer, so that smaller values are faster; for a small `epsilon`,
        larger values are faster.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of the loss of each sample.
    verbose : int, default=0
        Print a line for each breakpoint.

    Returns
    -------
    path : SSVMPath
        The segments, with their gaps and costs. `SSVMPath.estimator` returns a fitted
        estimator for any alpha. After an interrupt, the path has the segments that were
        completed.

    Warns
    -----
    ConvergenceWarning
        If training did not reach the target gap at a breakpoint in `max_iter` passes.
        Except with ``method="grid"``, the path ends there.

    See Also
    --------
    SSVMPathCV : Chooses alpha by cross-validation along the path.

    Notes
    -----
    The interval of alpha in which weights are within `epsilon` comes from a certificate
    that is never weaker than Proposition 1 of [1]_: the dual bound is the largest among
    convex combinations of the dual variables with those of the observed outputs, and
    the interval extends to both sides of the alpha of the weights. The number of
    breakpoints grows with ``1 / sqrt(epsilon)``.

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
    >>> path = ssvm_path(SSVMClassifier(random_state=0), X, y, alpha_min=1e-3)
    >>> bool(path.upper[0] == float("inf") and path.lower[-1] <= 1e-3)
    True
    >>> path.estimator(1e-3).score(X, y) > 0.9
    True
    """
    parameters = PathParameters(
        method=method,
        alphas=alphas,
        alpha_min=alpha_min,
        epsilon=epsilon,
        relative=relative,
        kappa=kappa,
    )
    validate_parameter_constraints(
        parameters._parameter_constraints, vars(parameters), "ssvm_path"
    )
    parameters._check_path()
    path: Any = None
    try:
        for path, segment in follow(
            estimator, X, y, parameters, sample_weight, verbose
        ):
            path._add(segment)
    except KeyboardInterrupt:
        if path is None or not len(path):
            raise KeyboardInterrupt(
                "the path was interrupted before its first segment"
            ) from None
        path.interrupted = True
        warnings.warn(
            f"the path was interrupted after {len(path)} segments, which are returned",
            ConvergenceWarning,
            stacklevel=2,
        )
    path._close()
    warn_path(path)
    return path


def start(estimator, X, y, sample_weight, method):
    """A copy of the estimator, and its training problem on the data."""
    if not hasattr(estimator, "_model"):
        text = (
            "the path is for SSVMClassifier, ChainCRF, SegmentCRF, LinearSSVC and "
            f"MultilabelPairwise, got {type(estimator).__name__}"
        )
        if hasattr(estimator, "steps"):
            text += "; pass its last step, with X transformed, or use SSVMPathCV"
        raise TypeError(text)
    template = clone(estimator)
    if template.early_stopping:
        raise ValueError(
            f"a path needs early_stopping=False, got {type(template).__name__} with "
            "early_stopping=True: SSVMPathCV holds out data at every alpha"
        )
    problem = prepare(template, X, y, sample_weight)
    # With alpha="auto", the scaling of constant features follows the scale of X. The
    # path sets alpha to numbers, so this scaling is set to a number, too.
    if template.intercept_scaling == "auto":
        template.intercept_scaling = problem.spec.intercept_scaling_
    elif problem.spec.follows_scale:
        problem = prepare(template.set_params(alpha=problem.alpha), X, y, sample_weight)
    if method == "grid":
        return template, problem
    if template.solver == "auto" and "max" in problem.model.oracles:
        # the path needs the dual variables of BCFW, even if "auto" chose another solver
        # for these data
        tol = tolerance(template, problem.spec)
        options = {"max_iter": template.max_iter, "tol": tol}
        problem.solver = SOLVERS.resolve("auto", **options)
    if problem.model.surrogate is not None:
        raise ValueError(
            f"method={method!r} is for the path of the hinge, loss='hinge'; use "
            "method='grid'"
        )
    if not isinstance(problem.solver, BCFW):
        raise ValueError(
            f"method={method!r} needs solver='auto', 'bcfw' or a BCFW object, got "
            f"{type(problem.solver).__name__}; use method='grid'"
        )
    if "completion" in problem.model.oracles:
        raise ValueError(
            f"method={method!r} needs every label of y to be known; use method='grid'"
        )
    return template, problem


def default_grid(problem):
    """Powers of two times the alpha of the estimator, from the largest."""
    if not problem.alpha > 0:
        raise ValueError(
            "alpha of the estimator must be positive for the default grid, which has "
            f"multiples of it, got {problem.alpha!r}: give alphas or alpha_min"
        )
    return problem.alpha * GRID


def grid_of(parameters, problem):
    """The breakpoints of a grid, from the largest."""
    alphas, least = parameters.alphas, parameters.alpha_min
    if alphas is not None:
        return np.sort(np.asarray(alphas, dtype=np.float64))[::-1]
    alphas = default_grid(problem)
    if least is not None and not alphas[0] >= least:
        raise ValueError(
            f"alpha_min={least:.3g} is above the default grid, which begins at "
            f"{alphas[0]:.3g}"
        )
    return alphas if least is None else alphas[alphas >= least]


def end_of(parameters, problem):
    """The smallest alpha of a path that is not a grid."""
    least = parameters.alpha_min
    return default_grid(problem)[-1] if least is None else least


def exact_path(template, problem, parameters):
    """The path with computed gaps (method "exact") or estimated ones ("heuristic")."""
    exact, kappa = parameters.method == "exact", parameters.kappa
    if kappa is None:
        kappa = 0.3 if exact else 0.7
    return Path(
        problem.model,
        problem.solver,
        epsilon=parameters.epsilon,
        relative=parameters.relative,
        kappa=kappa,
        exact=exact,
        max_seconds=template.max_seconds,
        random_state=template.random_state,
        n_jobs=template.n_jobs,
    )


def grid_segments(template, problem, alphas):
    """Train at each alpha of a grid, and yield the segments of the path."""
    edges = edges_of_grid(alphas)
    segments = train_on_grid(
        problem,
        problem.spec.solver_alpha(alphas),
        random_state=template.random_state,
        n_jobs=template.n_jobs,
        max_seconds=template.max_seconds,
    )
    for k, segment in enumerate(segments):
        # the solver's alphas are for features divided by the intercept scaling
        segment.alpha, segment.lower, segment.upper = alphas[k], edges[k + 1], edges[k]
        yield segment


def exact_segments(template, problem, parameters):
    """Yield the segments of a path with computed or estimated duality gaps."""
    factor = problem.spec.solver_alpha(1.0)
    end, n_found = factor * end_of(parameters, problem), 0
    segments = None
    while True:
        try:
            # BLAS uses one thread, as in the passes of a solver
            with one_blas_thread():
                if segments is None:
                    segments = exact_path(template, problem, parameters).segments(end)
                    # the array of weights has grown: compute the segments so far again,
                    # without yielding them
                    for _ in range(n_found):
                        next(segments)
                segment = next(segments, None)
        except WeightsFull:
            problem.model.grow()
            segments = None
            continue
        if segment is None:
            return
        n_found += 1
        for name in ("alpha", "lower", "upper"):
            setattr(segment, name, getattr(segment, name) / factor)
        yield segment


def exact_result(template, problem, parameters, alpha):
    """Result of a solver at an alpha, by following the path down to it."""
    with one_blas_thread():
        while True:
            try:
                path = exact_path(template, problem, parameters)
                return path.result_at(problem.spec.solver_alpha(alpha))
            except WeightsFull:
                problem.model.grow()


def follow(estimator, X, y, parameters, sample_weight, verbose):
    """Yield pairs of the path, always the same object, and its next segment."""
    method = parameters.method
    template, problem = start(estimator, X, y, sample_weight, method)
    path = SSVMPath(template, problem.attributes, method)
    if method == "grid":
        segments = grid_segments(template, problem, grid_of(parameters, problem))
    else:
        segments = exact_segments(template, problem, parameters)
    for segment in segments:
        if segment.result is not None and segment.result.status == Status.INTERRUPTED:
            raise KeyboardInterrupt
        if not (segment.converged or path._remedies):
            # `warn_path` warns of the first segment that did not converge
            there, data = replace(problem, alpha=segment.alpha), (X, y, sample_weight)
            path._remedies = advice(template, there, segment.result, data)
        if verbose:
            print(
                f"alpha {segment.alpha:10.4g}  for {segment.lower:10.4g} .. "
                f"{segment.upper:10.4g}  objective {segment.objective:.6g}  "
                f"gap {segment.gap:.3g}  passes {segment.n_iter:6d}  "
                f"oracle calls {segment.oracle_calls:10d}  {segment.seconds:8.2f} s",
                flush=True,
            )
        yield path, segment


def warn_path(path, stacklevel=3):
    """Warn if a breakpoint of a path did not converge."""
    if not path.converged.all():
        j = int((~path.converged).argmax())
        remedy = " ".join(path._remedies) or (
            "Scale the features, or increase max_iter of the estimator or its solver, "
            f"{'tol' if path.method == 'grid' else 'epsilon'}, or the smallest alpha."
        )
        warnings.warn(
            f"the path did not converge at alpha = {path.alphas[j]:.3g}"
            f"{'' if path.method == 'grid' else ', where it ends'} ({path._name}): the "
            f"duality gap is {path.gaps[j]:.3g} after {path._passes(j)} passes, the "
            f"tolerance {path.targets[j]:.3g}. {remedy}",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
