"""Why a tagger prefers one label: contributions to the difference of two scores."""

from html import escape
from typing import Any

import numpy as np
from scipy import sparse

# Names and types of the columns of `Explanation.table`.
_COLUMNS = [
    ("position", np.intp),
    ("feature", object),
    ("value", np.float64),
    ("label", object),
    ("weight", np.float64),
    ("other_label", object),
    ("other_weight", np.float64),
    ("contribution", np.float64),
]
# Largest number of rows of `Explanation.table` that are displayed.
_SHOWN = 20


class Explanation:
    """Why a label was chosen: the result of `sksstruct.ChainCRF.explain`.

    An explanation compares the best labeling with the best labeling that has another
    label at the position. The two labelings may also differ at other positions.

    Attributes
    ----------
    position : int
        The position t that is explained.
    labels, other_labels : ndarray of shape (n_positions,)
        The two labelings.
    score, other_score : float
        The scores of the two labelings.
    table : structured ndarray of shape (n_rows,)
        Terms in which the two scores differ, the largest contributions first. Columns:
        ``position``; ``feature``, a name, a number if features have no names, or
        "(intercept)", "(start)", "(end)", "(transition)" and "(triple)"; ``value`` of
        the feature; ``label`` and ``weight`` in the best labeling; ``other_label`` and
        ``other_weight`` in the other labeling; and ``contribution``, the value times
        the difference of the weights. The contributions sum to ``score - other_score``.
        The labels of a transition or triple, whose position is that of its last label,
        are tuples.
    """

    def __init__(self, position, labelings, scores, rows):
        self.position = position
        self.labels, self.other_labels = labelings
        self.score, self.other_score = scores
        table = np.array(rows, dtype=_COLUMNS)
        order = np.argsort(-np.abs(table["contribution"]), kind="stable")
        self.table = table[order]

    def to_pandas(self) -> Any:
        """The table as a data frame; needs pandas.

        Returns
        -------
        frame : pandas.DataFrame
            A row for each contribution.
        """
        import pandas as pd

        return pd.DataFrame({name: self.table[name] for name in self.table.dtype.names})

    def _lines(self):
        """Title and cells of the displayed table, as text."""
        t = self.position
        title = (
            f"position {t}: {self.labels[t]}, not {self.other_labels[t]}, by "
            f"{self.score - self.other_score:.3g}"
        )
        rows = [["contribution", "position", "feature", "value", "label", "other"]]
        for p, feature, value, *labels, gain in self.table[:_SHOWN].tolist():
            cells = [f"{gain:+.3f}", str(p), str(feature), f"{value:g}"]
            for label, weight in (labels[:2], labels[2:]):
                if isinstance(label, tuple):
                    label = " -> ".join(map(str, label))
                cells.append(f"{label} ({weight:+.3f})")
            rows.append(cells)
        rest = self.table["contribution"][_SHOWN:]
        if len(rest):
            rows.append([f"{rest.sum():+.3f}", "", f"({len(rest)} more)", "", "", ""])
        return title, rows

    def __repr__(self):
        title, rows = self._lines()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True))
            for row in rows
        ]
        return "\n".join([title, *(line.rstrip() for line in lines)])

    def _repr_html_(self):
        title, (header, *rows) = self._lines()
        body = [f"<table><caption>{escape(title)}</caption>"]
        for tag, row in [("th", header), *(("td", row) for row in rows)]:
            cells = "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
            body.append(f"<tr>{cells}</tr>")
        return "".join([*body, "</table>"])


def differences(tagger, packed, labelings):
    """Rows of `Explanation.table`: the terms in which the scores of labelings differ.

    Parameters
    ----------
    tagger : ChainCRF
        A fitted tagger.
    packed : PackedSequences
        Features of one sequence.
    labelings : ndarray of shape (2, n_positions), int
        Two labelings, as class indices.

    Returns
    -------
    rows : list of tuple
        A row for each term of the score whose weight differs between the labelings.
    """
    rows = []
    differ = labelings[0] != labelings[1]
    # terms of a position also change with the labels of the `order` positions before
    changed, order = differ.copy(), 2 if "triples_" in vars(tagger) else 1
    for back in range(1, min(order, len(differ) - 1) + 1):
        changed[back:] |= differ[:-back]
    for p in np.flatnonzero(changed).tolist():
        parts = (_parts(tagger, packed, codes, p) for codes in labelings)
        for (feature, value, label, first), (_, _, other_label, second) in zip(
            *parts, strict=True
        ):
            gain = value * (first - second)
            if gain != 0.0:
                row = p, feature, value, label, first, other_label, second, gain
                rows.append(row)
    return rows


def _parts(tagger, packed, codes, p):
    """Terms of the score at position `p`: (feature, value, label, weight)."""
    row = sparse.csr_array(packed.values[[p]])
    columns, values = row.indices, row.data.astype(np.float64).tolist()
    features, names = columns.tolist(), tagger._names_in
    if names is not None:
        features = [names[j] for j in features]
    classes, here = tagger.classes_.tolist(), codes[p]
    label, coef = classes[here], tagger.coef_[[here]][:, columns]
    coef = coef.toarray() if sparse.issparse(coef) else coef
    for feature, value, weight in zip(features, values, coef[0].tolist(), strict=True):
        yield feature, value, label, weight
    yield "(intercept)", 1.0, label, float(tagger.intercept_[here])
    if p == 0:
        yield "(start)", 1.0, label, float(tagger.start_[here])
    else:
        before = codes[p - 1]
        pair = classes[before], label
        yield "(transition)", 1.0, pair, float(tagger.transitions_[before, here])
        pair_coef = vars(tagger).get("transition_coef_")
        if pair_coef is not None:
            cell = pair_coef[columns][:, [before * len(classes) + here]].toarray()
            for feature, value, weight in zip(
                features, values, cell[:, 0].tolist(), strict=True
            ):
                yield feature, value, pair, weight
    if p > 1 and "triples_" in vars(tagger):
        triple = [classes[code] for code in codes[p - 2 : p + 1]]
        cell = codes[p - 1] * len(classes) + here
        yield "(triple)", 1.0, tuple(triple), float(tagger.triples_[codes[p - 2], cell])
    if p == len(codes) - 1:
        yield "(end)", 1.0, label, float(tagger.end_[here])
