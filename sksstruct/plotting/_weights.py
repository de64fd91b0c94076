"""The features with the largest and the smallest weights for a label."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.plotting._axes import TEXTS, Axes, Display
from sksstruct.plotting._heatmap import feature_names, last_step
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.typing import Strings


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class WeightsDisplay(Display):
    """The largest and the smallest weights of features for one label, as bars.

    It is recommended to use `from_estimator` to create one.

    Parameters
    ----------
    weights : ndarray of shape (n_bars,)
        The weights, ascending.
    names : list of str
        Names of the features of the weights.
    label : object, default=None
        Label that the weights belong to.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        The bars, the largest weight on top.
    %(axes)s

    See Also
    --------
    TransitionsDisplay : Scores of transitions between labels.

    Examples
    --------
    >>> from sksstruct import make_tagger
    >>> from sksstruct.plotting import WeightsDisplay
    >>> tagger = make_tagger(random_state=0)
    >>> tagger = tagger.fit([[{"word": "Ada"}, {"word": "ran"}]], [["PER", "O"]])
    >>> display = WeightsDisplay.from_estimator(tagger, "PER")
    >>> sorted(display.names)
    ['word=Ada', 'word=ran']
    """

    weights: np.ndarray
    names: Strings
    _: KW_ONLY
    label: Any = None

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the weights as horizontal bars.

        Parameters
        ----------
        %(ax)s
        **kwargs : dict
            Passed to matplotlib's ``barh``.

        Returns
        -------
        display : WeightsDisplay
            The display itself.
        """
        ax = self._axes(ax)
        places = np.arange(len(self.weights))
        colors = np.where(np.asarray(self.weights) < 0, "tab:blue", "tab:red")
        options = {"color": colors, **kwargs}
        self.bars_ = ax.barh(places, self.weights, **options)
        ax.set_yticks(places, self.names)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set(xlabel="weight", title="" if self.label is None else str(self.label))
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        label: Any,
        *,
        n: int = 10,
        names: ArrayLike | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the weights of a fitted tagger or classifier for one label.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A fitted estimator with ``coef_`` and ``classes_``, or a pipeline that ends
            with one. If two classes have one row of weights, the row is that of the
            second class, and the negative row is that of the first class.
        label : object
            One of the ``classes_`` of the estimator.
        n : int, default=10
            Number of the largest weights, and number of the smallest weights. Weights
            of zero are not shown.
        names : array-like of str of shape (n_features,), default=None
            Names of the features. None: the names that the steps before give, or those
            of the training data.
        %(ax)s
        %(options)s

        Returns
        -------
        display : WeightsDisplay
            The display, drawn.
        """
        if n < 1:
            raise ValueError(f"n={n} must be at least 1")
        last = last_step(estimator)
        check_is_fitted(last, ("coef_", "classes_"))
        weights = _row(last, label)
        order = np.argsort(weights, kind="stable")
        chosen = np.unique(np.r_[order[:n], order[-n:]])
        chosen = chosen[np.argsort(weights[chosen], kind="stable")]
        chosen = chosen[weights[chosen] != 0.0]
        names = feature_names(estimator, len(weights), names)
        return cls(
            weights[chosen], [names[k] for k in chosen], label=label
        ).plot(ax=ax, **kwargs)  # fmt: skip


def _row(estimator, label):
    """Return the weights of all features for a label."""
    coef, classes = estimator.coef_, np.asarray(estimator.classes_).tolist()
    coef = coef.toarray() if sparse.issparse(coef) else np.asarray(coef)
    if label not in classes:
        raise ValueError(f"label={label!r} is none of the classes {classes}")
    place = classes.index(label)
    if len(coef) == len(classes):
        return coef[place]
    if len(coef) == 1 and len(classes) == 2:
        return coef[0] if place else -coef[0]
    raise ValueError(
        f"{type(estimator).__name__} has {len(coef)} rows of weights for "
        f"{len(classes)} classes: there is no row for each label"
    )
