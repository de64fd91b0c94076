"""Runs of equal labels, and a histogram of their lengths."""

from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.metrics._sequence import check_pairs
from sksstruct.plotting._axes import TEXTS, Axes, Display
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.observed import observed
from sksstruct.utils.typing import Items, Labelings


def runs(labels, firsts=(0,)):
    """Return the starts, stops and labels of runs of equal labels that are not None.

    `firsts` are the first positions of series: a run ends at the end of its series.
    """
    n = len(labels)
    begins = np.ones(n, dtype=bool)
    begins[1:] = [a != b for a, b in pairwise(labels)]
    firsts = np.asarray(firsts)
    begins[firsts[firsts < n]] = True
    starts = np.flatnonzero(begins)
    stops = np.append(starts[1:], n) if n else starts
    kept = [labels[start] is not None for start in starts]
    starts, stops = starts[kept], stops[kept]
    return starts, stops, [labels[start] for start in starts]


def seen(true, predicted):
    """Return true labels: one label for a set, and None where no label is known.

    As in `observed`, a set stands for the predicted label if the set contains it.
    """
    labels, known = observed(true, predicted)
    return [
        label if there else None for label, there in zip(labels, known, strict=True)
    ]


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class RunLengthsDisplay(Display):
    """Histogram of the lengths of runs of equal labels, predicted and true.

    If predictions have many short runs, features of more positions or a
    `sksstruct.SegmentCRF` may help. It is recommended to use `from_estimator` or
    `from_predictions` to create one.

    Parameters
    ----------
    predicted, true : ndarray of int
        Lengths of the runs.
    label : object, default=None
        Label of the runs; None: runs of all labels.

    Attributes
    ----------
    bars_ : list of matplotlib BarContainer
        The bars of true runs, and those of predicted runs.
    %(axes)s

    See Also
    --------
    SeriesDisplay : The runs of one series.

    Examples
    --------
    >>> from sksstruct.plotting import RunLengthsDisplay
    >>> y_true, y_pred = [["a", "a", "b", "b"]], [["a", "b", "a", "b"]]
    >>> display = RunLengthsDisplay.from_predictions(y_true, y_pred)
    >>> display.true.tolist(), display.predicted.tolist()
    ([2, 2], [1, 1, 1, 1])
    """

    predicted: np.ndarray
    true: np.ndarray
    _: KW_ONLY
    label: Any = None

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the histogram.

        Parameters
        ----------
        %(ax)s
        **kwargs : dict
            Passed to matplotlib's ``hist``, such as ``bins``.

        Returns
        -------
        display : RunLengthsDisplay
            The display itself.
        """
        ax = self._axes(ax)
        options = {
            "bins": np.histogram_bin_edges(np.append(self.true, self.predicted), 20),
            "label": ["true", "predicted"],
            "color": ["0.6", "tab:blue"],
            **kwargs,
        }
        *_, bars = ax.hist([self.true, self.predicted], **options)
        self.bars_ = list(bars)
        of = "" if self.label is None else f" of {self.label}"
        ax.set(xlabel=f"length of a run{of}", ylabel="runs")
        ax.legend()
        return self

    @classmethod
    def from_predictions(
        cls,
        y_true: Labelings,
        y_pred: Labelings,
        *,
        label: Any = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the lengths of true and of predicted runs.

        Parameters
        ----------
        y_true : list of array-like of shape (n_positions,)
            True labels of each series; None where a label is not known, and a set where
            one of several is true.
        y_pred : list of array-like of shape (n_positions,)
            Predicted labels.
        label : object, default=None
            Label of the runs to draw; None: runs of all labels.
        %(ax)s
        %(options)s

        Returns
        -------
        display : RunLengthsDisplay
            The display, drawn.
        """
        true, predicted, lengths = check_pairs(y_true, y_pred)
        firsts = np.cumsum(lengths) - lengths
        found = []
        for labels in (predicted, seen(true, predicted)):
            starts, stops, names = runs(labels, firsts)
            kept = [label is None or name == label for name in names]
            found.append((stops - starts)[kept])
        if not sum(map(len, found)):
            raise ValueError(f"no run has the label {label!r:.80}")
        return cls(*found, label=label).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: Items,
        y: Labelings,
        *,
        label: Any = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Label series, and draw the lengths of true and of predicted runs.

        Parameters
        ----------
        estimator : ChainCRF, SegmentCRF or Pipeline
            A fitted tagger, or a pipeline that ends with one.
        X : list of sequences
            The series.
        y : list of array-like of shape (n_positions,)
            True labels.
        label : object, default=None
            Label of the runs to draw; None: runs of all labels.
        %(ax)s
        %(options)s

        Returns
        -------
        display : RunLengthsDisplay
            The display, drawn.
        """
        check_is_fitted(estimator)
        predicted = list(estimator.predict(X))
        return cls.from_predictions(y, predicted, label=label, ax=ax, **kwargs)
