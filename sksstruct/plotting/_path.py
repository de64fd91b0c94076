"""A regularization path: held-out score, gap, or cost against alpha."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.plotting._axes import TEXTS, Axes, Display, SSVMPath
from sksstruct.utils._doc import fill_doc

Quantity = Literal["score", "gap", "objective", "oracle_calls", "n_iter", "seconds"]
_LABELS = {
    "score": "held-out score",
    "gap": "duality gap",
    "objective": "objective",
    "oracle_calls": "oracle calls",
    "n_iter": "passes",
    "seconds": "seconds",
}


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class PathDisplay(Display):
    """Scores, gaps or costs along regularization paths.

    It is recommended to use `from_estimator` or `from_path` to create one.

    Parameters
    ----------
    paths : list of SSVMPath
        A single path, or the path of each fold.
    scores : tuple of ndarray, default=None
        Ends of the segments, of shape (n_segments + 1,), and scores, (n_segments,
        n_folds); needed to draw "score". For a grid, the values of alpha, of shape
        (n_segments,), in place of the ends.
    best : float, default=None
        A value of alpha to mark.
    y : {"score", "gap", "objective", "oracle_calls", "n_iter", "seconds"}, \
default="score"
        Quantity to draw against alpha. The cost at an alpha is the cost of the path
        from infinity down to this alpha.
    name : str, default=None
        Label of the line.

    Attributes
    ----------
    lines_ : list of matplotlib Artist
        The lines.
    %(axes)s

    See Also
    --------
    sksstruct.SSVMPathCV : Chooses alpha along paths.

    Examples
    --------
    >>> from sksstruct import SSVMClassifier, ssvm_path
    >>> from sksstruct.plotting import PathDisplay
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], ["low", "low", "high", "high"]
    >>> path = ssvm_path(SSVMClassifier(random_state=0), X, y, epsilon=0.1)
    >>> display = PathDisplay.from_path(path, y="gap")
    >>> display.ax_.get_xlabel(), display.ax_.get_xscale()
    ('alpha', 'log')
    """

    paths: Sequence[SSVMPath]
    _: KW_ONLY
    scores: tuple[np.ndarray, ...] | None = None
    best: float | None = None
    y: Quantity = "score"
    name: str | None = None

    def plot(
        self, ax: Axes | None = None, *, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the quantity `y` of the paths against alpha.

        Parameters
        ----------
        %(ax)s
        name : str, default=None
            Label of the lines. None: the display's label.
        %(kwargs)s

        Returns
        -------
        display : PathDisplay
            The display itself.
        """
        if self.y not in _LABELS:
            raise ValueError(f"y must be one of {tuple(_LABELS)}, got {self.y!r}")
        if self.y == "score" and self.scores is None:
            raise ValueError("y='score' needs scores, as SSVMPathCV has them")
        ax = self._axes(ax)
        kwargs = self._line_options(name, kwargs)
        ax.set_xscale("log")
        if self.y == "score":
            self._plot_scores(ax, kwargs)
        else:
            self._plot_paths(ax, kwargs)
        if self.best is not None:
            self._mark_best(ax)
        ax.set(xlabel="alpha", ylabel=_LABELS[self.y])
        if ax.get_legend_handles_labels()[1]:
            ax.legend()
        return self

    def _mark_best(self, ax):
        """Mark the chosen alpha by a vertical line and on the curve of scores."""
        label = f"alpha = {self.best:.3g}"
        options = {"color": "0.5", "linestyle": "--", "linewidth": 0.8}
        if self.y != "score":
            ax.axvline(self.best, label=label, **options)
            return
        ends, scores = self.scores
        if len(ends) == len(scores):
            k = int(np.argmin(np.abs(np.log(ends) - np.log(self.best))))
        else:
            # the ends of segments are in descending order, from inf
            k = int(np.searchsorted(-np.asarray(ends), -self.best, side="right")) - 1
            k = min(max(k, 0), len(scores) - 1)
        ax.axvline(self.best, **options)
        ax.plot([self.best], [scores[k].mean()], "o", color="0.3", label=label)

    def _plot_scores(self, ax, options):
        """Draw the mean score over the folds, with a band of the standard deviation."""
        ends, scores = self.scores
        mean, spread = scores.mean(axis=1), scores.std(axis=1)
        if len(ends) == len(scores):
            x, options = ends, {"marker": ".", **options}
        else:
            x, mean = _steps(ends, mean, self.best)
            spread = np.repeat(spread, 2)
        self.lines_ = ax.plot(x, mean, **options)
        color = self.lines_[0].get_color()
        ax.fill_between(
            x, mean - spread, mean + spread, alpha=0.2, color=color, label="+- one sd"
        )

    def _plot_paths(self, ax, options):
        """Draw a line for each path; only the line of the first path has a label."""
        column = {"gap": "gaps", "objective": "objectives"}.get(self.y, self.y)
        options = {"marker": ".", **options}
        self.lines_ = []
        if self.y == "gap":
            ax.set_yscale("log")
            first = self.paths[0]
            ax.plot(first.alphas, first.targets, "--", color="0.5", linewidth=0.8)
        for path in self.paths:
            values = getattr(path, column).astype(float)
            # a logarithmic scale has no zero
            if self.y == "gap":
                values = np.where(values > 0, values, np.nan)
            self.lines_ += ax.plot(path.alphas, values, **options)
            options["label"] = None

    @classmethod
    def from_path(
        cls,
        path: SSVMPath,
        *,
        y: Literal["gap", "objective", "oracle_calls", "n_iter", "seconds"] = "gap",
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a quantity of one path against alpha.

        Parameters
        ----------
        path : SSVMPath
            As `sksstruct.ssvm_path` returns it.
        y : {"gap", "objective", "oracle_calls", "n_iter", "seconds"}, default="gap"
            Quantity to draw against alpha.
        %(name)s
        %(ax)s
        %(kwargs)s

        Returns
        -------
        display : PathDisplay
            The display, drawn.
        """
        return cls([path], y=y, name=name).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        y: Quantity = "score",
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the paths of a fitted search.

        Parameters
        ----------
        estimator : SSVMPathCV
            A fitted search.
        y : {"score", "gap", "objective", "oracle_calls", "n_iter", "seconds"}, \
default="score"
            Quantity to draw: "score" is the mean score with its standard deviation
            over the folds; for other quantities, each fold has a line.
        %(name)s
        %(ax)s
        %(kwargs)s

        Returns
        -------
        display : PathDisplay
            The display, drawn.
        """
        if not hasattr(estimator, "alpha_min"):
            raise TypeError(
                f"estimator must be an SSVMPathCV, got {type(estimator).__name__}"
            )
        check_is_fitted(estimator, "edges_")
        # a grid has models at its values of alpha only
        ends = estimator.edges_
        if estimator.paths_[0].method == "grid":
            ends = estimator.paths_[0].alphas
        display = cls(
            estimator.paths_,
            scores=(ends, estimator.scores_),
            best=estimator.alpha_,
            y=y,
            name=name,
        )
        return display.plot(ax=ax, **kwargs)


def _steps(edges, values, best=None):
    """Return the points of a function that is constant between edges.

    The edges are in descending order, from inf.

    The first and the last segment have no end on a logarithmic scale: they are drawn a
    factor of ten further than the next edge, or further than the marked alpha.
    """
    upper, lower = np.array(edges[:-1]), np.array(edges[1:])
    upper[0] = 10.0 * lower[0] if lower[0] > 0 else 1.0
    if best is not None:
        upper[0] = max(upper[0], 2.0 * best)
    if lower[-1] == 0.0:
        lower[-1] = upper[-1] / 10.0
        if best is not None:
            lower[-1] = min(lower[-1], best / 2.0)
    return np.column_stack([upper, lower]).ravel(), np.repeat(values, 2)
