"""A long series: measurements, labels above them, and probabilities below."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.metrics._sequence import check_pairs
from sksstruct.plotting._axes import TEXTS, Axes, Display, palette
from sksstruct.plotting._runs import runs, seen
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.packed import check_sequences
from sksstruct.utils.typing import Items, MatrixLike

_TEXTS = {
    **TEXTS,
    "range": """
start, stop : object, default=None
    First position to draw, and the position after the last one; or times, if the
    display has times.
""",
    "times": """
times : array-like of shape (n_positions,), default=None
    Times of the positions, numbers or ``datetime64``, that do not decrease.
""",
}


@fill_doc(_TEXTS)
@dataclass(eq=False, repr=False)
class SeriesDisplay(Display):
    """True and predicted runs of one series above its measurements.

    Runs are bands in the colors of their labels, and positions with a wrong label are
    black. It is recommended to use `from_estimator` or `from_predictions` to create
    one, and `plot` to draw another range of the same series.

    Parameters
    ----------
    predicted : list
        Predicted labels.
    y : list, default=None
        True labels; None where a label is not known, and a set where one of several is
        true.
    x : ndarray of shape (n_positions, n_columns), default=None
        Measurements.
    columns : list of str, default=None
        Names of the columns.
    probabilities : ndarray of shape (n_positions, n_labels), default=None
        Probability of each label.
    classes : list, default=None
        The labels, in the order of the columns of the probabilities.
    times : ndarray of shape (n_positions,), default=None
        Times of the positions.

    Attributes
    ----------
    bands_ : dict of {str: matplotlib BrokenBarHCollection}
        The rows of bands: "predicted", and "true" and "wrong" if there are true labels.
    lines_ : list of matplotlib Line2D
        The measurements.
    axes_ : dict of {str: matplotlib Axes}
        The parts of `ax_`, with "labels", "measurements" and "probabilities".
    %(axes)s

    See Also
    --------
    RunLengthsDisplay : Lengths of the runs of many series.
    ConfusionByTimeDisplay : Where labels of many series are wrong.

    Examples
    --------
    >>> from sksstruct.plotting import SeriesDisplay
    >>> display = SeriesDisplay.from_predictions(["a", "a", "b"], ["a", "b", "b"])
    >>> list(display.bands_)
    ['predicted', 'true', 'wrong']
    >>> display.plot(start=1)  # doctest: +SKIP
    """

    predicted: Items
    _: KW_ONLY
    y: Items | None = None
    x: np.ndarray | None = None
    columns: Items | None = None
    probabilities: np.ndarray | None = None
    classes: Items | None = None
    times: np.ndarray | None = None

    def plot(
        self, ax: Axes | None = None, *, start: Any = None, stop: Any = None
    ) -> Self:
        """Draw the series, or a part of it.

        Parameters
        ----------
        %(ax)s
        %(range)s

        Returns
        -------
        display : SeriesDisplay
            The display itself.
        """
        first, last = self._range(start, stop)
        self._set_axes(ax)
        edges = self._edges()
        classes = self._classes()
        colors = dict(zip(classes, palette(len(classes)), strict=True))
        self._draw_bands(first, last, edges, colors)
        self.lines_ = []
        if self.x is not None:
            self._draw_measurements(first, last, edges)
        if self.probabilities is not None:
            ax = self.axes_["probabilities"]
            shades = [colors[label] for label in classes][: len(self.classes)]
            part = self.probabilities[first:last]
            # `stackplot` needs a value at the last edge, too
            rows = np.vstack([part, part[-1:]]).T
            ax.stackplot(edges[first : last + 1], rows, colors=shades, step="post")
            ax.set(ylim=(0.0, 1.0), ylabel="probability")
        *others, lowest = self.axes_.values()
        for other in others:
            other.tick_params(labelbottom=False)
        lowest.set_xlabel("position" if self.times is None else "time")
        lowest.set_xlim(edges[first], edges[last])
        return self

    def _set_axes(self, ax):
        """Divide axes into a part for each kind of data."""
        ax = self._axes(ax)
        ax.set_axis_off()
        heights = {"labels": 1.0 if self.y is None else 3.0}
        if self.x is not None:
            heights["measurements"] = 8.0
        if self.probabilities is not None:
            heights["probabilities"] = 4.0
        unit, top, self.axes_ = 1.0 / sum(heights.values()), 1.0, {}
        shared = None
        for name, height in heights.items():
            top -= height * unit
            # a gap of 0.3 units to the part above
            bounds = 0.0, top, 1.0, (height - 0.3) * unit
            self.axes_[name] = shared = ax.inset_axes(bounds, sharex=shared)

    def _range(self, start, stop):
        """Return the first position to draw, and the position after the last."""
        n = len(self.predicted)
        places = np.arange(n) if self.times is None else self.times
        # start and stop may be text, or times of other libraries
        kind = np.datetime64 if places.dtype.kind == "M" else float
        first = 0 if start is None else int(np.searchsorted(places, kind(start)))
        last = n if stop is None else int(np.searchsorted(places, kind(stop)))
        if first >= last:
            raise ValueError(
                f"start={start!r} and stop={stop!r} leave none of {n} positions"
            )
        return first, last

    def _edges(self):
        """Return where each position begins on the axis, and where the last ends."""
        if self.times is None:
            return np.arange(len(self.predicted) + 1.0)
        places = self.times
        if places.dtype.kind == "M":
            from matplotlib.dates import date2num

            places = date2num(places)
            self.axes_["labels"].xaxis_date()
        places = np.asarray(places, dtype=float)
        step = np.median(np.diff(places)) if len(places) > 1 else 1.0
        return np.append(places, places[-1] + step)

    def _classes(self):
        """Return all labels that have a color, beginning with those of `classes`."""
        known = [] if self.classes is None else list(self.classes)
        truth = [] if self.y is None else seen(self.y, self.predicted)
        every = {*self.predicted, *truth} - {None}
        # append labels that `classes` does not have, such as labels not seen in fit
        return known + sorted(every.difference(known), key=str)

    def _draw_bands(self, first, last, edges, colors):
        from matplotlib.patches import Patch

        ax = self.axes_["labels"]
        predicted = list(self.predicted[first:last])
        rows = {"predicted": predicted}
        if self.y is not None:
            true = seen(self.y[first:last], predicted)
            rows["true"] = true
            rows["wrong"] = [
                True if a is not None and a != b else None
                for a, b in zip(true, predicted, strict=True)
            ]
        self.bands_ = {}
        for place, (name, labels) in enumerate(rows.items()):
            starts, stops, names = runs(labels)
            begin, end = edges[starts + first], edges[stops + first]
            shades = [colors[label] for label in names] if name != "wrong" else "black"
            self.bands_[name] = ax.broken_barh(
                list(zip(begin, end - begin, strict=True)),
                (place - 0.45, 0.9),
                facecolors=shades,
            )
        ax.set_yticks(range(len(rows)), list(rows))
        ax.set_ylim(-0.5, len(rows) - 0.5)
        ax.legend(
            handles=[Patch(color=c, label=str(k)) for k, c in colors.items()],
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=6,
            frameon=False,
        )

    def _draw_measurements(self, first, last, edges):
        ax, n = self.axes_["measurements"], self.x.shape[1]
        for k, shade in enumerate(np.linspace(0.0, 0.7, n)):
            name = None if self.columns is None else self.columns[k]
            self.lines_ += ax.plot(
                edges[first:last],
                self.x[first:last, k],
                color=str(shade),
                linewidth=0.8,
                label=name,
            )
        ax.set_ylabel("measurements")
        if self.columns is not None and n <= 8:
            ax.legend(loc="upper right")

    @classmethod
    def from_predictions(
        cls,
        y_true: Items | None,
        y_pred: Items,
        *,
        x: MatrixLike | None = None,
        probabilities: ArrayLike | None = None,
        classes: Items | None = None,
        times: ArrayLike | None = None,
        start: Any = None,
        stop: Any = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the labels of one series.

        Parameters
        ----------
        y_true : array-like of shape (n_positions,) or None
            True labels; None where a label is not known, and a set where one of several
            is true.
        y_pred : array-like of shape (n_positions,)
            Predicted labels.
        x : {array-like, data frame} of shape (n_positions, n_columns), default=None
            Measurements.
        probabilities : array-like of shape (n_positions, n_labels), default=None
            Probability of each label.
        classes : list, default=None
            The labels, in the order of the columns of the probabilities; required with
            `probabilities`.
        %(times)s
        %(range)s
        %(ax)s

        Returns
        -------
        display : SeriesDisplay
            The display, drawn.
        """
        truth = y_pred if y_true is None else y_true
        true, predicted, (n,) = check_pairs([truth], [y_pred])
        given, columns = _checked(n, x, probabilities, classes, times)
        display = cls(
            predicted,
            y=None if y_true is None else true,
            columns=columns,
            classes=None if classes is None else np.asarray(classes).tolist(),
            **given,
        )
        return display.plot(ax, start=start, stop=stop)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        x: MatrixLike,
        y: Items | None = None,
        *,
        times: ArrayLike | None = None,
        start: Any = None,
        stop: Any = None,
        ax: Axes | None = None,
    ) -> Self:
        """Label one series, and draw it.

        Probabilities are drawn if the tagger has them.

        Parameters
        ----------
        estimator : ChainCRF, SegmentCRF or Pipeline
            A fitted tagger, or a pipeline that ends with one.
        x : {array-like, data frame} of shape (n_positions, n_columns)
            The series, as `estimator` reads it.
        y : array-like of shape (n_positions,), default=None
            True labels of the series.
        %(times)s
        %(range)s
        %(ax)s

        Returns
        -------
        display : SeriesDisplay
            The display, drawn.
        """
        check_is_fitted(estimator)
        probabilities = None
        if hasattr(estimator, "predict_proba"):
            probabilities = estimator.predict_proba([x])[0]
        return cls.from_predictions(
            y,
            np.asarray(estimator.predict([x])[0]),
            x=x,
            probabilities=probabilities,
            classes=estimator.classes_,
            times=times,
            start=start,
            stop=stop,
            ax=ax,
        )


def _checked(n, x, probabilities, classes, times):
    """Check and convert the arrays of a series of n positions.

    Returns the arrays by the name of the parameter, and the names of columns or None.
    """
    columns = None
    if x is not None:
        packed = check_sequences([x], allow_nan=True, name="x")
        if not isinstance(packed.values, np.ndarray):
            raise TypeError("x is sparse: an array of measurements is required")
        x, columns = packed.values, packed.feature_names
    if probabilities is not None:
        probabilities = np.asarray(probabilities)
        if classes is None or probabilities.shape[1:] != (len(classes),):
            raise ValueError("classes must name the columns of probabilities")
    if times is not None:
        times = np.asarray(times)
        if times.ndim != 1:
            raise ValueError(f"times must be 1-D, got {times.ndim}-D")
        if (times[1:] < times[:-1]).any():
            t = int(np.argmax(times[1:] < times[:-1])) + 1
            raise ValueError(
                f"times must not decrease, and times[{t}] is less than times[{t - 1}]"
            )
    given = {"x": x, "probabilities": probabilities, "times": times}
    for name, values in given.items():
        if values is not None and len(values) != n:
            raise ValueError(
                f"{name} has {len(values)} positions, y_pred has {n} labels"
            )
    return given, None if columns is None else list(columns)
