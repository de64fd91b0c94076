"""Scores of transitions between labels as a heat map."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.plotting._axes import TEXTS, Axes
from sksstruct.plotting._heatmap import HeatMap, last_step
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.typing import Strings


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class TransitionsDisplay(HeatMap):
    """Heat map of transition scores, from the label of the row to that of the column.

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
    %(axes)s

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

    transitions: np.ndarray
    names: Strings

    _captions = ("to", "from", "score")

    def _scores(self):
        return self.transitions

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
        %(options)s

        Returns
        -------
        display : TransitionsDisplay
            The display, drawn.
        """
        estimator = last_step(estimator)
        check_is_fitted(estimator, "transitions_")
        transitions = estimator.transitions_
        if sparse.issparse(transitions):
            transitions = transitions.toarray()
        names = [str(label) for label in estimator.classes_]
        return cls(transitions, names).plot(ax=ax, **kwargs)
