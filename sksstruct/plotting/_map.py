"""Score of the best labeling, and upper bound, during MAP inference."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np

from sksstruct.plotting._axes import TEXTS, Axes, Display, MAPResult, palette
from sksstruct.utils._doc import fill_doc

# Rows of bars above the axes: the bottom of the first row, the distance of two rows,
# and the height of a bar, in heights of the axes.
_BOTTOM, _ROW, _BAR = 1.03, 0.07, 0.05


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class MAPDisplay(Display):
    """Score of the best labeling so far and lowest upper bound, over time.

    It is recommended to use `from_result` to create one. The optimum lies between the
    two lines.

    Parameters
    ----------
    trace : dict of ndarrays
        "iteration", "seconds", "score" and "bound"; with `parts`, also "part".
    name : str, default=None
        Name of the solver, for the legend.

    Attributes
    ----------
    score_, bound_ : matplotlib Line2D
        The lines.
    parts_ : dict
        For each part of the solver, its bars: a matplotlib PolyCollection. Empty
        without `parts`.
    %(axes)s

    See Also
    --------
    sksstruct.LPMAPPredictor : Keeps the results of its last prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import FactorGraph, LPMAPPredictor
    >>> from sksstruct.plotting import MAPDisplay
    >>> graph = FactorGraph([[0.0, 0.5], [0.0, 0.0]], [(0, 1)], np.eye(2))
    >>> predictor = LPMAPPredictor("trws")
    >>> predictor.predict([graph])[0].tolist()
    [1, 1]
    >>> MAPDisplay.from_result(predictor.results_[0])  # doctest: +SKIP
    """

    trace: dict[str, np.ndarray]
    _: KW_ONLY
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        x: Literal["seconds", "iteration"] = "seconds",
        name: str | None = None,
        parts: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Draw the score of the best labeling, and the upper bound as a dashed line.

        Parameters
        ----------
        %(ax)s
        x : {"seconds", "iteration"}, default="seconds"
            Quantity on the horizontal axis.
        %(name)s
        parts : bool, default=False
            Whether to show above the axes when each part of the solver ran. The solver
            "auto" has several parts. Needs ``x="seconds"``: many parts run between
            iterations.
        %(kwargs)s

        Returns
        -------
        display : MAPDisplay
            The display itself.
        """
        if x not in ("seconds", "iteration"):
            raise ValueError(f"x must be 'seconds' or 'iteration', got {x!r}")
        if parts and x != "seconds":
            raise ValueError("parts=True needs x='seconds', got x='iteration'")
        ax = self._axes(ax)
        name = self.name if name is None else name
        before = "" if name is None else f"{name}, "
        (self.score_,) = ax.step(
            self.trace[x], self.trace["score"], where="post",
            **{"label": f"{before}score", **kwargs},
        )  # fmt: skip
        options = {"color": self.score_.get_color(), "linestyle": "--"}
        (self.bound_,) = ax.step(
            self.trace[x], self.trace["bound"], where="post",
            **{"label": f"{before}bound", **options, **kwargs},
        )  # fmt: skip
        ax.set(xlabel=x, ylabel="score")
        ax.legend()
        self.parts_ = self._draw_parts(ax, self.trace[x]) if parts else {}
        return self

    def _draw_parts(self, ax, ends):
        """Draw a row of bars for each part of the solver; return the rows by part.

        A bar ends at a row of the trace, and begins at the row before.
        """
        names, bars = self.trace["part"], {}
        begins = np.append(0.0, ends[:-1])
        order = list(dict.fromkeys(names.tolist()))
        for k, (part, color) in enumerate(zip(order, palette(len(order)), strict=True)):
            spans = np.stack([begins, ends - begins], axis=1)[names == part]
            bottom = _BOTTOM + _ROW * k
            bars[part] = ax.broken_barh(
                spans, (bottom, _BAR), color=color,
                transform=ax.get_xaxis_transform(), clip_on=False,
            )  # fmt: skip
            ax.text(
                -0.01, bottom, part, transform=ax.transAxes, ha="right", va="bottom",
                fontsize="small",
            )  # fmt: skip
        return bars

    @classmethod
    def from_result(
        cls,
        result: MAPResult,
        *,
        x: Literal["seconds", "iteration"] = "seconds",
        name: str | None = None,
        ax: Axes | None = None,
        parts: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Draw the scores and upper bounds in the trace of a result.

        Parameters
        ----------
        result : MAPResult
            Result of `sksstruct.inference.map`, or one of the ``results_`` of
            `sksstruct.LPMAPPredictor`.
        x : {"seconds", "iteration"}, default="seconds"
            Quantity on the horizontal axis.
        %(name)s
        %(ax)s
        parts : bool, default=False
            Whether to show above the axes when each part of the solver ran. Needs
            ``x="seconds"``.
        %(kwargs)s

        Returns
        -------
        display : MAPDisplay
            The display, drawn.
        """
        name = result.solver if name is None else name
        return cls(result.trace, name=name).plot(ax=ax, x=x, parts=parts, **kwargs)
