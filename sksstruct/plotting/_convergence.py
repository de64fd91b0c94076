"""How an objective decreased, or a gap closed, during a fit."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.plotting._axes import TEXTS, Axes, Display
from sksstruct.utils._doc import fill_doc

_LABELS = {
    "seconds": "seconds",
    "oracle_calls": "oracle calls",
    "pass": "passes",
    "gap": "duality gap",
    "primal": "primal objective",
    "dual": "dual objective",
    "suboptimality": "objective above the optimum",
}
_X, _Y = ("seconds", "oracle_calls", "pass"), ("gap", "primal", "dual", "suboptimality")


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class ConvergenceDisplay(Display):
    """Convergence of a training run.

    It is recommended to use `from_estimator` to create one.

    Parameters
    ----------
    history : dict of ndarray
        Columns of a trace, as in the ``history_`` of estimators.
    x : {"seconds", "oracle_calls", "pass"}, default="seconds"
        Horizontal axis.
    y : {"gap", "primal", "dual", "suboptimality"}, default="gap"
        Vertical axis; "suboptimality" is the objective minus `optimum`.
    optimum : float, default=None
        Optimum of the objective, or a lower bound.
    name : str, default=None
        Label of the line.

    Attributes
    ----------
    line_ : matplotlib Artist
        The line.
    %(axes)s

    See Also
    --------
    ConvergenceDisplay.from_estimator : From a fitted estimator.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.plotting import ConvergenceDisplay
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
    >>> tagger = ChainCRF(alpha=0.1, random_state=0).fit(X, y)
    >>> display = ConvergenceDisplay(tagger.history_, x="oracle_calls")
    >>> display.plot().ax_.get_xlabel()
    'oracle calls'
    """

    history: dict[str, np.ndarray]
    _: KW_ONLY
    x: Literal["seconds", "oracle_calls", "pass"] = "seconds"
    y: Literal["gap", "primal", "dual", "suboptimality"] = "gap"
    optimum: float | None = None
    name: str | None = None

    def plot(
        self, ax: Axes | None = None, *, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the quantity `y` against `x` as a line.

        Parameters
        ----------
        %(ax)s
        name : str, default=None
            Label of the line. None: the display's label.
        %(kwargs)s

        Returns
        -------
        display : ConvergenceDisplay
            The display itself.
        """
        for value, names, argument in ((self.x, _X, "x"), (self.y, _Y, "y")):
            if value not in names:
                raise ValueError(f"{argument} must be one of {names}, got {value!r}")
        if (self.y == "suboptimality") != (self.optimum is not None):
            raise ValueError("y='suboptimality' needs optimum=, and no other y uses it")
        ax = self._axes(ax)
        values = np.asarray(
            self.history["primal" if self.y == "suboptimality" else self.y], float
        )
        if self.y == "suboptimality":
            values = values - self.optimum
        # Unknown values are NaN, and a logarithmic scale has no zero.
        shown = np.isfinite(values)
        if self.y in ("gap", "suboptimality"):
            shown &= values > 0
            ax.set_yscale("log")
        kwargs = self._line_options(name, kwargs)
        # "ds" is matplotlib's short name of drawstyle
        if "ds" not in kwargs:
            kwargs.setdefault("drawstyle", "steps-post")
        (self.line_,) = ax.plot(
            np.asarray(self.history[self.x])[shown], values[shown], **kwargs
        )
        ax.set(xlabel=_LABELS[self.x], ylabel=_LABELS[self.y])
        if kwargs["label"] is not None:
            ax.legend()
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        x: Literal["seconds", "oracle_calls", "pass"] = "seconds",
        y: Literal["gap", "primal", "dual", "suboptimality"] = "gap",
        optimum: float | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw how the training of a fitted estimator converged.

        Parameters
        ----------
        estimator : estimator instance
            Fitted estimator with a ``history_``, a `Pipeline` that ends in one, or a
            search that has refitted one.
        x : {"seconds", "oracle_calls", "pass"}, default="seconds"
            Horizontal axis.
        y : {"gap", "primal", "dual", "suboptimality"}, default="gap"
            Vertical axis.
        optimum : float, default=None
            The optimum of the objective, or a lower bound, for "suboptimality".
        name : str, default=None
            Label of the line; by default the name of the solver.
        ax : matplotlib Axes, default=None
            Axes to draw on, so that several runs can be compared. None: new axes.
        %(kwargs)s

        Returns
        -------
        display : ConvergenceDisplay
            The display, drawn.

        Examples
        --------
        >>> from sksstruct import ChainCRF
        >>> from sksstruct.plotting import ConvergenceDisplay
        >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
        >>> tagger = ChainCRF(alpha=0.1, solver="bmrm").fit(X, y)
        >>> ConvergenceDisplay.from_estimator(tagger)  # doctest: +SKIP
        """
        estimator = getattr(estimator, "best_estimator_", estimator)
        if hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        check_is_fitted(estimator, "history_")
        if name is None:
            name = type(estimator.solver_).__name__
        display = cls(estimator.history_, x=x, y=y, optimum=optimum, name=name)
        return display.plot(ax=ax, **kwargs)
