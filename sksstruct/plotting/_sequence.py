"""A tagged sequence: predicted labels, true labels and probabilities."""

from collections.abc import Set
from dataclasses import KW_ONLY, dataclass
from html import escape
from itertools import chain
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.plotting._axes import TEXTS, Axes, Colormap, Display
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.typing import Items, Strings

_STYLES = {
    "table": "border-collapse:collapse;display:inline-table;margin:4px 0",
    "token": "padding:2px 6px;text-align:center;font-weight:bold",
    "right": "padding:2px 6px;text-align:center",
    "wrong": "padding:2px 6px;text-align:center;font-weight:bold;"
    # a color that can be read on dark pages, too
    "color:#b00020;background:#fde8ea",
    "head": "padding:2px 6px;text-align:right;opacity:0.7",
}


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class SequenceDisplay(Display):
    """Predicted and true labels of one sequence, and probabilities.

    It is recommended to use `from_estimator` to create one. Notebooks show the display
    as a table, in which wrong labels are red.

    Parameters
    ----------
    tokens : list of str
        Text above the labels, such as the words of a sentence.
    predicted : list
        Predicted labels.
    y : list, default=None
        True labels; None where a label is not known, and a set where one of several is
        true.
    probabilities : ndarray of shape (n_tokens, n_labels), default=None
        Probability of each label.
    classes : list, default=None
        The labels, in the order of the columns of the probabilities.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The probabilities as a heat map, which is white without probabilities.
    %(axes)s

    See Also
    --------
    sksstruct.metrics.chunk_classification_report : Counts errors of whole entities.

    Examples
    --------
    >>> from sksstruct import make_tagger
    >>> from sksstruct.plotting import SequenceDisplay
    >>> words = ["Ada", "ran"]
    >>> X, y = [[{"word": word} for word in words]], [["PER", "O"]]
    >>> tagger = make_tagger(random_state=0).fit(X, y)
    >>> display = SequenceDisplay.from_estimator(tagger, X[0], y[0], tokens=words)
    >>> display.predicted
    ['PER', 'O']
    >>> display.plot()  # doctest: +SKIP
    """

    tokens: Strings
    predicted: Items
    _: KW_ONLY
    y: Items | None = None
    probabilities: np.ndarray | None = None
    classes: Items | None = None

    def plot(
        self, ax: Axes | None = None, *, cmap: str | Colormap = "Greys", **kwargs: Any
    ) -> Self:
        """Draw a row for each label: predictions, true labels and probabilities.

        Predicted labels are dots, and true labels are circles. Dots of wrong labels are
        red.

        Parameters
        ----------
        %(ax)s
        cmap : str or matplotlib Colormap, default="Greys"
            Colors of probabilities from 0 to 1.
        %(imshow)s

        Returns
        -------
        display : SequenceDisplay
            The display itself.
        """
        ax = self._axes(ax)
        classes = self._classes()
        table = np.zeros((len(self.tokens), len(classes)))
        if self.probabilities is not None:
            table[:, : len(self.probabilities[0])] = self.probabilities
        options = {"cmap": cmap, "vmin": 0.0, "vmax": 1.0, "aspect": "auto", **kwargs}
        self.image_ = ax.imshow(table.T, **options)
        places = np.arange(len(self.tokens))
        rows = [classes.index(label) for label in self.predicted]
        right = np.ones(len(rows), dtype=bool)
        if self.y is not None:
            right = self._right()
            truth = [
                (t, classes.index(label))
                for t, labels in enumerate(map(_several, self.y))
                for label in labels
            ]
            ax.scatter(*np.reshape(truth, (-1, 2)).T, s=90, facecolors="none",
                       edgecolors="tab:blue", label="true")  # fmt: skip
        colors = np.where(right, "tab:blue", "tab:red")
        ax.scatter(places, rows, s=25, c=colors, label="predicted")
        ax.set_xticks(places, self.tokens, rotation=90)
        ax.set_yticks(np.arange(len(classes)), [str(label) for label in classes])
        return self

    def _right(self):
        """Return whether each prediction is right, or its true label is unknown."""
        truth = [None] * len(self.predicted) if self.y is None else self.y
        return [
            label in _several(true) or true is None
            for label, true in zip(self.predicted, truth, strict=True)
        ]

    def _classes(self):
        """Return all labels that are shown, beginning with those of `classes`."""
        known = [] if self.classes is None else list(self.classes)
        truth = self.y if self.y is not None else ()
        every = {*self.predicted, *chain.from_iterable(map(_several, truth))}
        # append labels that `classes` does not have, such as labels not seen in fit
        return known + sorted(every.difference(known), key=str)

    def _repr_html_(self):
        rows = [_row("", self.tokens, ["token"] * len(self.tokens))]
        kinds = ["right" if right else "wrong" for right in self._right()]
        rows.append(_row("predicted", self.predicted, kinds))
        if self.y is not None:
            truth = [" or ".join(sorted(map(str, _several(true)))) for true in self.y]
            rows.append(_row("true", truth, ["right"] * len(self.y)))
        if self.probabilities is not None:
            classes = self._classes()
            chosen = [
                f"{row[classes.index(label)]:.2f}"
                for row, label in zip(self.probabilities, self.predicted, strict=True)
            ]
            rows.append(_row("probability", chosen, ["right"] * len(chosen)))
        return f'<table style="{_STYLES["table"]}">{"".join(rows)}</table>'

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        x: Items,
        y: Items | None = None,
        *,
        tokens: Strings | None = None,
    ) -> Self:
        """Tag one sequence, and return the display of its labels.

        The display contains probabilities if the tagger was trained with
        ``loss="log"``.

        Parameters
        ----------
        estimator : ChainCRF or Pipeline
            A fitted tagger, or a pipeline that ends with one.
        x : sequence
            One sequence, as an entry of X for `estimator`.
        y : list, default=None
            True labels of the sequence.
        tokens : list of str, default=None
            Text above the labels. None: the entries of x if they are text, otherwise
            the numbers of the positions.

        Returns
        -------
        display : SequenceDisplay
            The display; it is not drawn.
        """
        check_is_fitted(estimator)
        predicted = np.asarray(estimator.predict([x])[0]).tolist()
        if tokens is None:
            is_text = not hasattr(x, "shape") and all(isinstance(t, str) for t in x)
            tokens = list(x) if is_text else [str(t) for t in range(len(predicted))]
        for name, values in (("tokens", tokens), ("y", y)):
            if values is not None and len(values) != len(predicted):
                raise ValueError(
                    f"{name} has {len(values)} entries, "
                    f"x has {len(predicted)} positions"
                )
        probabilities = None
        if hasattr(estimator, "predict_proba"):
            probabilities = estimator.predict_proba([x])[0]
        y = None if y is None else np.asarray(y).tolist()
        return cls(
            list(tokens), predicted, y=y, probabilities=probabilities,
            classes=np.asarray(estimator.classes_).tolist(),
        )  # fmt: skip


def _several(true):
    """Return a list of the labels that may be true, empty if no label is known."""
    if isinstance(true, Set):
        return list(true)
    return [] if true is None else [true]


def _row(name, values, kinds):
    """Return a row of the HTML table, with the name in the first cell."""
    cells = "".join(
        f'<td style="{_STYLES[kind]}">{escape(str(value))}</td>'
        for value, kind in zip(values, kinds, strict=True)
    )
    return f'<tr><td style="{_STYLES["head"]}">{name}</td>{cells}</tr>'
