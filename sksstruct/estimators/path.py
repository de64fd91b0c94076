"""The regularization path of an estimator."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from sksstruct.estimators._train import prepare, tolerance
from sksstruct.solvers import BCFW, GDMM, SOLVERS
from sksstruct.solvers.dual_decomposition.path import FactorGrid
from sksstruct.solvers.frank_wolfe.path import Path
from sksstruct.utils._param_validation import Interval, StrOptions, validate_params
from sksstruct.utils.typing import Examples

# The grid of Osokin et al. (2016), App. K.
GRID = 2.0 ** np.arange(15, -16, -1)

CONSTRAINTS = {
    "method": [StrOptions({"exact", "heuristic", "grid"})],
    "epsilon": [Interval(Real, 0, None, closed="neither")],
    "kappa": [Interval(Real, 0, 1, closed="neither"), None],
    "alpha_min": [Interval(Real, 0, None, closed="neither")],
    "alphas": ["array-like", None],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
}


class SSVMPath:
    """A piecewise constant regularization path; what `ssvm_path` returns.

    Segment j holds for ``lower[j] <= alpha <= upper[j]``. The first segment extends to
    infinity. Above ``alphas[0]`` its weights are multiplied by ``alphas[0] / alpha``.
    If most weights of a segment are zero, only the nonzero weights are stored.

    Parameters
    ----------
    template : estimator
        Copied to form estimators.
    attributes : callable
        Turns flat weights into the template's fitted attributes.
    epsilon : float
        Suboptimality allowed.
    method : str
        How the path was found.

    Attributes
    ----------
    alphas : ndarray of shape (n_segments,)
        Breakpoints: where the segments were trained, from the largest.
    lower, upper : ndarray of shape (n_segments,)
        Ends of the segments.
    gaps, objectives : ndarray of shape (n_segments,)
        Duality gap and objective at the breakpoints; estimates with
        ``method="heuristic"``.
    n_iter, oracle_calls, seconds : ndarray of shape (n_segments,)
        Passes, oracle calls and time since the path began.
    converged : ndarray of shape (n_segments,), bool
        Whether training reached the gap at the breakpoint. If not, the path ends there,
        and there is no guarantee for that segment.
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
    n_iter: np.ndarray
    oracle_calls: np.ndarray
    seconds: np.ndarray
    converged: np.ndarray

    def __init__(
        self,
        template: BaseEstimator,
        attributes: Callable[..., Any],
        epsilon: float,
        method: str,
    ) -> None:
        self.epsilon, self.method = epsilon, method
        self._template, self._attributes = template, attributes
        self._weights, self._segments = [], []
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

    def _add(self, segment, keep=True):
        weights = segment.weights
        if keep:
            where = np.flatnonzero(weights)
            if 2 * len(where) < len(weights):
                self._weights.append((len(weights), where, weights[where]))
            else:
                self._weights.append((len(weights), None, weights))
        segment.weights = None
        self._segments.append(segment)

    def _close(self):
        """Form the columns."""
        for name, field in self._columns:
            setattr(self, name, np.array([getattr(p, field) for p in self._segments]))

    def __len__(self):
        return len(self._segments)

    def segment(self, alpha: float) -> int:
        """Number of the segment that holds at an alpha.

        Parameters
        ----------
        alpha : float
            Regularization, positive.

        Returns
        -------
        j : int
            The segment's number.

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
                f"the path ends at {self.lower[-1]:.3g}, alpha is {alpha:.3g}"
            )
        return int(below[0])

    def piece(self, alpha: float) -> int:
        """Former name of `segment`.

        .. deprecated:: 0.1
            Use `segment`.

        Parameters
        ----------
        alpha : float
            Regularization, positive.

        Returns
        -------
        j : int
            Number of the segment.
        """
        warnings.warn(
            "SSVMPath: piece was renamed to segment, and will be removed in 0.3",
            FutureWarning,
            stacklevel=2,
        )
        return self.segment(alpha)

    def weights(self, alpha: float) -> np.ndarray:
        """Flat weights at an alpha.

        Parameters
        ----------
        alpha : float
            Regularization.

        Returns
        -------
        weights : ndarray
            Weights; at most `epsilon` above the optimum with ``method="exact"``, where
            the segment `converged`.
        """
        j = self.segment(alpha)
        n, where, values = self._weights[j]
        out = np.zeros(n)
        out[slice(None) if where is None else where] = values
        if j == 0 and alpha > self.alphas[0]:
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
    epsilon: float = 0.1,
    kappa: float | None = None,
    alpha_min: float = 1e-5,
    alphas: ArrayLike | None = None,
    max_iter: int = 1000,
    sample_weight: ArrayLike | None = None,
    verbose: int = 0,
) -> SSVMPath:
    """Regularization path of a structured support vector machine.

    Finds, for every alpha from infinity down to `alpha_min`, weights whose objective is
    at most `epsilon` above the optimum. It trains at a few breakpoints only, each
    starting from the one before [1]_.

    Parameters
    ----------
    estimator : estimator
        `SSVMClassifier`, `ChainCRF` with the hinge loss, or `LinearSSVC`. Its `alpha`
        is not used; its solver must be `sksstruct.solvers.BCFW` or "auto", or, with
        ``method="grid"``, `sksstruct.solvers.GDMM`.
    X : array-like or list
        Inputs, as the estimator takes them.
    y : array-like or list
        Outputs.
    method : {"exact", "heuristic", "grid"}, default="exact"
        "exact": breakpoints follow from computed duality gaps. "heuristic": they follow
        from estimates of the gaps, taken from the last visit of each example. This
        needs no sweeps, but gives no guarantee. "grid": breakpoints are `alphas`, each
        trained to a gap of `epsilon`. There is no guarantee between them.
    epsilon : float, default=0.1
        Suboptimality allowed, in units of the objective, which is 1 at w = 0 if the
        losses are at most 1.
    kappa : float, default=None
        Training at a breakpoint stops at a gap of ``kappa * epsilon``. Small values
        give long segments and long training. None: 0.3 with "exact", 0.7 with
        "heuristic", and 1 with "grid". The paper uses 0.9 [1]_. With "exact", the
        certificate in the Notes makes long segments worthwhile. Larger values are
        faster for a small `epsilon`.
    alpha_min : float, default=1e-5
        Smallest alpha to reach. The path ends earlier if its weights are good for every
        smaller alpha.
    alphas : array-like of shape (n_alphas,), default=None
        Breakpoints with ``method="grid"``. None: the 31 powers of 2 from 2^15 to 2^-15,
        without those below `alpha_min`.
    max_iter : int, default=1000
        Maximum number of passes at each breakpoint.
    sample_weight : array-like of shape (n_samples,), default=None
        Factors of the losses.
    verbose : int, default=0
        Print a line for each breakpoint.

    Returns
    -------
    path : SSVMPath
        The segments, with their gaps and costs. It returns weights and estimators for
        any alpha. After an interrupt, it contains the part that was completed.

    Warns
    -----
    ConvergenceWarning
        If a breakpoint's gap was not reached in `max_iter` passes; the path ends there.

    See Also
    --------
    SSVMPathCV : Chooses alpha by cross-validation along the path.

    Notes
    -----
    The range of alpha for which weights are good comes from a certificate that is never
    worse than Proposition 1 of [1]_: the dual variables are mixed with the observed
    outputs to the degree that gives the highest dual value, and weights are used on
    both sides of their alpha. The number of breakpoints grows with
    ``1 / sqrt(epsilon)``.

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
    check_parameters(parameters)
    out: Any = None
    try:
        for out, segment in follow(estimator, X, y, parameters, sample_weight, verbose):
            out._add(segment)
    except KeyboardInterrupt:
        if out is None or not len(out):
            raise KeyboardInterrupt(
                "the path was interrupted before its first segment"
            ) from None
        out.interrupted = True
        warnings.warn(
            f"the path was interrupted after {len(out)} segments",
            ConvergenceWarning,
            stacklevel=2,
        )
    out._close()
    warn_path(out, max_iter)
    return out


@dataclass(eq=False, repr=False)
class _Parameters(BaseEstimator):
    """The parameters of a path, checked like those of an estimator."""

    method: str = "exact"
    epsilon: float = 0.1
    kappa: float | None = None
    alpha_min: float = 1e-5
    alphas: ArrayLike | None = None
    max_iter: int = 1000

    _parameter_constraints = CONSTRAINTS


# the name that messages give
_Parameters.__name__ = "ssvm_path"


def check_parameters(parameters):
    validate_params(_Parameters(**parameters))
    _grid(parameters)


def start(estimator, X, y, sample_weight, method="exact"):
    """A copy of the estimator, and its training problem on the data."""
    if not hasattr(estimator, "_model"):
        raise TypeError(
            "the path is for SSVMClassifier, ChainCRF and LinearSSVC, got "
            f"{type(estimator).__name__}"
        )
    # the alphas of a path are in units of X
    template = clone(estimator).set_params(alpha=1.0)
    problem = prepare(template, X, y, sample_weight)
    if template.solver == "auto" and "max" in problem.model.oracles:
        # the path moves along the duals of this one, whatever is fastest at one alpha
        options = {"max_iter": template.max_iter, "tol": tolerance(template)}
        problem.solver = SOLVERS.resolve("auto", **options)
    if problem.model.surrogate is not None:
        raise ValueError("the path is that of the hinge: it needs loss='hinge'")
    is_grid = method == "grid" and isinstance(problem.solver, GDMM)
    if not is_grid and not isinstance(problem.solver, BCFW):
        raise ValueError(
            "the path needs solver='auto', 'bcfw' or a BCFW object, or, with "
            "method='grid', 'gdmm' or a GDMM object, got "
            f"{type(problem.solver).__name__}"
        )
    if "completion" in problem.model.oracles:
        raise ValueError("the path needs every label of y to be known")
    return template, problem


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


def follow(estimator, X, y, parameters, sample_weight, verbose):
    """Yield the path so far and its next segment, for one segment after the other."""
    method, kappa = parameters["method"], parameters["kappa"]
    template, problem = start(estimator, X, y, sample_weight, method)
    if kappa is None:
        kappa = {"exact": 0.3, "heuristic": 0.7, "grid": 1.0}[method]
    epsilon = parameters["epsilon"]
    options = {
        "max_iter": parameters["max_iter"],
        "random_state": template.random_state,
        "n_jobs": template.n_jobs,
    }
    if isinstance(problem.solver, GDMM):
        gap = kappa * epsilon
        path = FactorGrid(problem.model, problem.solver, gap=gap, **options)
    else:
        options |= {"epsilon": epsilon, "kappa": kappa, "exact": method != "heuristic"}
        path = Path(problem.model, problem.solver, **options)
    out = SSVMPath(template, problem.attributes, epsilon, method)
    alphas = _grid(parameters)
    if alphas is None:
        segments = path.segments(parameters["alpha_min"])
    else:
        segments = path.grid(alphas)
    for segment in segments:
        if verbose:
            print(
                f"alpha {segment.alpha:10.4g}  for {segment.lower:10.4g} .. "
                f"{segment.upper:10.4g}  objective {segment.objective:.6g}  "
                f"gap {segment.gap:.3g}  passes {segment.n_iter:6d}  "
                f"oracle calls {segment.oracle_calls:10d}  {segment.seconds:8.2f} s",
                flush=True,
            )
        yield out, segment


def warn_path(path, max_iter, stacklevel=3):
    """Warn if a breakpoint of a path did not converge."""
    if not path.converged.all():
        j = int((~path.converged).argmax())
        warnings.warn(
            f"the path did not converge at alpha = {path.alphas[j]:.3g}"
            f"{'' if path.method == 'grid' else ', where it ends'}: the duality gap is "
            f"{path.gaps[j]:.3g} after {max_iter} passes, epsilon {path.epsilon:.3g}. "
            "Increase max_iter, epsilon or alpha_min.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
