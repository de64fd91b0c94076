"""Scores of pairs of labels as a heat map."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.plotting._axes import TEXTS, Axes
from sksstruct.plotting._heatmap import HeatMap, last_step
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.typing import Strings


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class InteractionsDisplay(HeatMap):
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
    %(axes)s

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

    interactions: np.ndarray
    _: KW_ONLY
    names: Strings | None = None

    _captions = ("label", "label", "score of both")

    def _scores(self):
        # a label does not interact with itself
        values = np.array(self.interactions, dtype=np.float64)
        np.fill_diagonal(values, np.nan)
        return values

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
            Names of the labels, in the order of ``classes_``. None: the names in the
            training data, if y had sets of labels or was a DataFrame.
        %(ax)s
        %(options)s

        Returns
        -------
        display : InteractionsDisplay
            The display, drawn.
        """
        estimator = last_step(estimator)
        check_is_fitted(estimator, "interactions_")
        n_labels = len(estimator.interactions_)
        if names is not None and len(names) != n_labels:
            raise ValueError(
                f"names must have a name for each of the {n_labels} labels, got "
                f"{len(names)}"
            )
        classes = estimator.classes_.tolist()
        # Without names, the axes show the numbers of the columns of y. For a 1-D y, the
        # classes are the two values of the only label, and not names of labels.
        if names is None and len(classes) == n_labels and classes != [*range(n_labels)]:
            names = [str(label) for label in classes]
        display = cls(estimator.interactions_, names=names)
        return display.plot(ax=ax, **kwargs)
