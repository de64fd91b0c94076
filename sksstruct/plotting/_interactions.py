"""Scores of pairs of labels as a heat map."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.plotting._axes import TEXTS, Axes, Colormap, Figure, axes_for
from sksstruct.plotting._heatmap import heat_map, last_step
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.typing import Strings


@fill_doc(TEXTS)
class InteractionsDisplay:
    """Interactions of labels as a heat map.

    It is recommended to use `from_estimator` to create one.

    Parameters
    ----------
    interactions : ndarray of shape (n_labels, n_labels)
        Score of each pair of labels.
    names : list of str, default=None
        Names of the labels.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The heat map, blue where labels exclude each other.
    ax_ : matplotlib Axes
        Axes with the heat map.
    figure_ : matplotlib Figure
        Figure with the axes.

    See Also
    --------
    sksstruct.MultilabelPairwise : Learns the interactions.

    Examples
    --------
    >>> from sksstruct import MultilabelPairwise
    >>> from sksstruct.plotting import InteractionsDisplay
    >>> X, y = [[0.0], [1.0]], [[1, 0], [0, 1]]
    >>> classifier = MultilabelPairwise(random_state=0).fit(X, y)
    >>> display = InteractionsDisplay.from_estimator(classifier, names=["low", "high"])
    >>> [label.get_text() for label in display.ax_.get_xticklabels()]
    ['low', 'high']
    """

    ax_: Axes
    figure_: Figure

    def __init__(
        self, interactions: np.ndarray, *, names: Strings | None = None
    ) -> None:
        self.interactions = interactions
        self.names = names

    def plot(
        self,
        ax: Axes | None = None,
        *,
        cmap: str | Colormap = "RdBu_r",
        colorbar: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the heat map.

        Parameters
        ----------
        %(ax)s
        cmap : str or matplotlib Colormap, default="RdBu_r"
            Color map. Its center stands for zero.
        colorbar : bool, default=True
            Whether to draw a color bar.
        **kwargs : dict
            Passed to matplotlib's ``imshow``.

        Returns
        -------
        display : InteractionsDisplay
            The display itself.
        """
        ax = axes_for(self, ax)
        # a label does not interact with itself
        values = np.array(self.interactions, dtype=np.float64)
        np.fill_diagonal(values, np.nan)
        names = self.names, self.names
        self.image_ = heat_map(
            ax, values, names, cmap=cmap, colorbar=colorbar, label="score of both",
            **kwargs,
        )  # fmt: skip
        ax.set(xlabel="label", ylabel="label")
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        names: Strings | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the interactions of a fitted classifier.

        Parameters
        ----------
        estimator : MultilabelPairwise or Pipeline
            A fitted classifier, or a pipeline that ends with one.
        names : list of str, default=None
            Names of the labels, in the order of the columns of y.
        %(ax)s
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : InteractionsDisplay
            The display, drawn.
        """
        estimator = last_step(estimator)
        check_is_fitted(estimator, "interactions_")
        n_labels = len(estimator.interactions_)
        if names is not None and len(names) != n_labels:
            raise ValueError(f"names has {len(names)} entries, {n_labels} are needed")
        display = cls(estimator.interactions_, names=names)
        return display.plot(ax=ax, **kwargs)
