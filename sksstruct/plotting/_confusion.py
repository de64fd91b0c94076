"""Shares of wrong labels along a series, by pairs of true and predicted labels."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.metrics._sequence import check_pairs
from sksstruct.plotting._axes import TEXTS, Axes, Display, palette
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.observed import observed
from sksstruct.utils.typing import Items, Labelings


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class ConfusionByTimeDisplay(Display):
    """Shares of wrong labels along a series, by pairs of true and predicted labels.

    It is recommended to use `from_estimator` or `from_predictions` to create one.

    Parameters
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Positions, or shares of the length of a series, where bins begin and end.
    shares : ndarray of shape (n_pairs, n_bins)
        Share of each pair among the positions of a bin whose label is known; NaN in
        bins without known labels.
    pairs : list of tuple
        True and predicted labels, the most frequent pair first; None at the end stands
        for all other pairs.
    relative : bool
        Whether the edges are shares of the length.

    Attributes
    ----------
    patches_ : list of matplotlib StepPatch
        An area for each pair.
    %(axes)s

    See Also
    --------
    SeriesDisplay : The labels of one series.

    Examples
    --------
    >>> from sksstruct.plotting import ConfusionByTimeDisplay
    >>> y_true, y_pred = [["a", "a", "b", "b"]], [["a", "b", "b", "b"]]
    >>> display = ConfusionByTimeDisplay.from_predictions(y_true, y_pred, bins=2)
    >>> display.pairs, display.shares.tolist()
    ([('a', 'b')], [[0.5, 0.0]])
    """

    edges: np.ndarray
    shares: np.ndarray
    pairs: list[Any]
    relative: bool = False

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the shares, one above the other.

        Parameters
        ----------
        %(ax)s
        **kwargs : dict
            Passed to matplotlib's ``stairs``.

        Returns
        -------
        display : ConfusionByTimeDisplay
            The display itself.
        """
        ax = self._axes(ax)
        below = np.zeros(len(self.edges) - 1)
        self.patches_ = []
        colors = palette(len(self.pairs))
        for pair, row, color in zip(self.pairs, self.shares, colors, strict=True):
            name = "others" if pair is None else f"{pair[0]} as {pair[1]}"
            options = {"fill": True, "color": color, "label": name, **kwargs}
            above = below + np.nan_to_num(row)
            self.patches_.append(
                ax.stairs(above, self.edges, baseline=below, **options)
            )
            below = above
        where = "share of the series" if self.relative else "position"
        ax.set(xlabel=where, ylabel="share of wrong labels")
        if self.pairs:
            ax.legend()
        return self

    @classmethod
    def from_predictions(
        cls,
        y_true: Labelings,
        y_pred: Labelings,
        *,
        bins: int = 30,
        n_pairs: int = 6,
        relative: bool = False,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw where predicted labels are wrong.

        Parameters
        ----------
        y_true : list of array-like of shape (n_positions,)
            True labels of each series; None where a label is not known, and a set where
            one of several is true.
        y_pred : list of array-like of shape (n_positions,)
            Predicted labels.
        bins : int, default=30
            Number of bins.
        n_pairs : int, default=6
            Number of pairs of labels with an area of their own, the most frequent
            pairs; all other pairs share one area.
        relative : bool, default=False
            Whether bins are shares of the length of each series, and not positions.
        %(ax)s
        %(options)s

        Returns
        -------
        display : ConfusionByTimeDisplay
            The display, drawn.
        """
        for name, value in (("bins", bins), ("n_pairs", n_pairs)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        flat_true, flat_pred, lengths = check_pairs(y_true, y_pred)
        true, known = observed(flat_true, flat_pred)
        places = np.concatenate([np.arange(n) for n in lengths]).astype(float)
        if relative:
            places /= np.repeat(lengths, lengths)
        edges = np.linspace(0.0, 1.0 if relative else float(lengths.max()), bins + 1)
        number = np.clip(np.searchsorted(edges, places, "right") - 1, 0, bins - 1)
        wrong = [
            (t, (label, found))
            for t, (label, found) in enumerate(zip(true, flat_pred, strict=True))
            if label != found
        ]
        counts = Counter(pair for _, pair in wrong)
        pairs: list[Any] = [pair for pair, _ in counts.most_common(n_pairs)]
        if len(counts) > n_pairs:
            pairs.append(None)
        row_of = {pair: k for k, pair in enumerate(pairs)}
        shares = np.zeros((len(pairs), bins))
        for t, pair in wrong:
            shares[row_of.get(pair, len(pairs) - 1), number[t]] += 1.0
        totals = np.bincount(number[known], minlength=bins)
        with np.errstate(invalid="ignore"):
            shares = shares / np.where(totals, totals, np.nan)
        return cls(edges, shares, pairs, relative).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: Items,
        y: Labelings,
        *,
        bins: int = 30,
        n_pairs: int = 6,
        relative: bool = False,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Label series, and draw where the labels are wrong.

        Parameters
        ----------
        estimator : ChainCRF, SegmentCRF or Pipeline
            A fitted tagger, or a pipeline that ends with one.
        X : list of sequences
            The series.
        y : list of array-like of shape (n_positions,)
            True labels.
        bins, n_pairs : int
            As for `from_predictions`.
        relative : bool, default=False
            As for `from_predictions`.
        %(ax)s
        %(options)s

        Returns
        -------
        display : ConfusionByTimeDisplay
            The display, drawn.
        """
        check_is_fitted(estimator)
        predicted = list(estimator.predict(X))
        return cls.from_predictions(
            y,
            predicted,
            bins=bins,
            n_pairs=n_pairs,
            relative=relative,
            ax=ax,
            **kwargs,
        )
