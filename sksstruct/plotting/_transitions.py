"""Scores of transitions between labels as a heat map."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.plotting._axes import TEXTS, Axes, Colormap, Figure, axes_for
from sksstruct.plotting._heatmap import heat_map, last_step
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.typing import Strings


@fill_doc(TEXTS)
class TransitionsDisplay:
    """Heat map of transition scores, from the label of a row to that of a column.

    It is recommended to use `from_estimator` to create one.

    Parameters
    ----------
    transitions : ndarray of shape (n_labels, n_labels)
        Score of each transition; -inf where it is forbidden.
    names : list of str
        Names of the labels.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The heat map; forbidden transitions are white.
    ax_ : matplotlib Axes
        Axes with the heat map.
    figure_ : matplotlib Figure
        Figure with the axes.

    See Also
    --------
    WeightsDisplay : The largest weights of features, by label.
    sksstruct.ChainCRF : Learns the transitions.

    Examples
    --------
    >>> from sksstruct import make_tagger
    >>> from sksstruct.plotting import TransitionsDisplay
    >>> tagger = make_tagger(random_state=0)
    >>> tagger = tagger.fit([[{"word": "Ada"}, {"word": "ran"}]], [["PER", "O"]])
    >>> display = TransitionsDisplay.from_estimator(tagger)
    >>> display.ax_.get_ylabel(), display.ax_.get_xlabel()
    ('from', 'to')
    """

    ax_: Axes
    figure_: Figure

    def __init__(self, transitions: np.ndarray, names: Strings) -> None:
        self.transitions = transitions
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
        display : TransitionsDisplay
            The display itself.
        """
        ax = axes_for(self, ax)
        names = self.names, self.names
        self.image_ = heat_map(
            ax, self.transitions, names, cmap=cmap, colorbar=colorbar, label="score",
            **kwargs,
        )  # fmt: skip
        ax.set(xlabel="to", ylabel="from")
        return self

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Draw the transitions of a fitted tagger.

        Parameters
        ----------
        estimator : ChainCRF or Pipeline
            A fitted tagger, or a pipeline that ends with one.
        %(ax)s
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : TransitionsDisplay
            The display, drawn.
        """
        estimator = last_step(estimator)
        check_is_fitted(estimator, "transitions_")
        transitions = estimator.transitions_
        if hasattr(transitions, "toarray"):
            transitions = transitions.toarray()
        names = [str(label) for label in estimator.classes_]
        return cls(transitions, names).plot(ax=ax, **kwargs)
