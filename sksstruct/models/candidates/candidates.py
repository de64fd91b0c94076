"""The best of many candidates, perhaps with a label: boxes in images, rankings."""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np

from sksstruct.inference.search._image_boxes import overlaps
from sksstruct.models._compiled import CompiledModel, check_features
from sksstruct.models.candidates._candidates import Candidates
from sksstruct.models.tables._table import BoundTable
from sksstruct.utils.labels import shown
from sksstruct.utils.validation import LabelEncoder, check_labels


@dataclass(eq=False, repr=False)
class CandidatesModel(CompiledModel):
    """The best of the candidates that are part of each input.

    An input is an array of shape (n_candidates, n_features), or a tuple ``(features,
    boxes)`` with boxes of shape (n_candidates, 4): top, left, bottom and right, of
    which the last two are exclusive. An output is the index of a candidate, or its box
    if there are boxes. If candidates have labels, it is a tuple of the index or box and
    the label. The oracles score all candidates.

    Parameters
    ----------
    overlap : {"none", "iou"}, default="none"
        Definition of the overlap. The loss is 1 minus the overlap with the observed
        candidate if the label is right, and 1 otherwise [1]_. "none": a candidate
        overlaps only with itself. "iou": the overlap of boxes is intersection over
        union. The observed box need not be a candidate. Training then uses the
        candidate with the largest overlap.
    fit_intercept : bool, default=True
        Whether labels have a bias, if there are several.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,) or None
        The labels; None if outputs have no labels.

    Notes
    -----
    A fitted `sksstruct.SSVMClassifier` has ``coef_`` (n_classes, n_features) and
    ``intercept_`` (n_classes,); without labels they have one row.

    References
    ----------
    .. [1] M. Blaschko and C. Lampert, "Learning to localize objects with structured
       output regression", ECCV 2008.

    Examples
    --------
    >>> from sksstruct import SSVMClassifier
    >>> X = [[[0.0], [1.0]], [[0.9], [0.1], [0.2]]]
    >>> classifier = SSVMClassifier("candidates", alpha=0.1, random_state=0)
    >>> classifier.fit(X, [1, 0]).predict(X)
    [1, 0]
    """

    overlap: Literal["none", "iou"] = "none"
    _: KW_ONLY
    fit_intercept: bool = True

    # a part may lack some labels
    _from_parts = {"classes_": "labels"}

    def _input(self, x, name):
        boxes = None
        if self.overlap == "iou":
            if not isinstance(x, (tuple, list)) or len(x) != 2:
                raise ValueError(
                    f"{name} must be a tuple (features, boxes), got {type(x).__name__}"
                    + (f" of {len(x)}" if isinstance(x, (tuple, list)) else "")
                )
            x, boxes = x
            boxes = check_features(boxes, f"{name}: boxes", 2, 4)
        axes = "(n_candidates, n_features)"
        x = check_features(x, name, 2, self.n_features_, axes)
        if not len(x):
            raise ValueError(f"{name} has no candidates")
        if boxes is not None:
            if len(boxes) != len(x):
                raise ValueError(
                    f"{name} has {len(x)} candidates and {len(boxes)} boxes"
                )
            if len(np.unique(boxes, axis=0)) < len(boxes):
                raise ValueError(f"{name} has the same box twice")
            if (boxes[:, 2:] <= boxes[:, :2]).any():
                c = int(np.flatnonzero((boxes[:, 2:] <= boxes[:, :2]).any(axis=1))[0])
                raise ValueError(
                    f"{name}: box {c} is {boxes[c].tolist()}: bottom and right must be "
                    "beyond top and left"
                )
        return x, boxes

    def _learn(self, X, y, weight):
        self._learn_size((x[0].shape[1] for x in X), "candidates")
        labels = [_split(each)[1] for each in y]
        missing = [label is _NONE for label in labels]
        if any(missing) != all(missing):
            i = missing.index(True)
            raise ValueError(
                f"y[{i}] has no label, others have: give every output a label, or none"
            )
        self.classes_ = None
        if not any(missing):
            self.classes_ = LabelEncoder.from_labels(
                check_labels([labels], [len(labels)])
            ).classes_
        return self._outputs(X, y)

    def _features(self, x):
        return x[0]

    @property
    def _n_columns(self):
        return 1 if self.classes_ is None else len(self.classes_)

    def _output(self, x, y, name):
        """Index of the candidate, and number of the label."""
        value, label = _split(y)
        number = 0
        if self.classes_ is not None:
            number = LabelEncoder(self.classes_).encode([_plain(label)], default=-1)[0]
            if number < 0:
                raise ValueError(
                    f"{name} has the label {shown(label)!r:.80}, not in classes_"
                )
        elif label is not _NONE:
            raise ValueError(
                f"{name} has a label, {shown(label)!r:.80}: none were expected"
            )
        if self.overlap == "iou":
            box = _box(value, name)
            index = int(overlaps(x[1], box).argmax())
        else:
            index = np.asarray(value)
            if index.ndim or index.dtype.kind not in "iu" or not 0 <= index < len(x[0]):
                raise ValueError(
                    f"{name} must name one of {len(x[0])} candidates, got "
                    f"{shown(value)!r:.80}"
                )
        return np.array([index, number], dtype=np.int32)

    def _labeling(self, x, y):
        return y

    def _shown(self, x, labeling):
        index, number = labeling.tolist()
        value = index if self.overlap == "none" else tuple(x[1][index].tolist())
        return value if self.classes_ is None else (value, self.classes_[number])

    def _bound(self, X, y_true, example_weights, rows=None):
        overlaps = labels = None
        if y_true is not None:
            labels = np.concatenate(y_true)
            overlaps = np.concatenate(
                [self._target(x, y[0]) for x, y in zip(X, y_true, strict=True)]
            )
        offsets = self._offsets(X)
        has_bias = self.fit_intercept and self._n_columns > 1 and rows is None
        rows = self._rows(X) if rows is None else rows
        structure = Candidates(
            np.full(len(X), 2), labels, 1, offsets, self._n_columns, overlaps
        )
        block = rows, offsets, self._n_columns, has_bias
        return BoundTable([block], structure, example_weights)

    def _target(self, x, index):
        """Overlap of all candidates with one candidate."""
        out = np.zeros(len(x[0]))
        if self.overlap == "iou":
            out = overlaps(x[1], x[1][index])
        out[index] = 1.0
        return out

    def _marginals_of(self, structure, i, means):
        """Probability of each candidate, and of each of its labels if there are any."""
        rows = means.reshape(-1, structure.ld)[:, : structure.n_labels]
        return rows[:, 0].copy() if self.classes_ is None else rows.copy()

    # ---- methods of all models ----

    def loss(self, y: Any, y_hat: Any) -> float:
        (value, label), (predicted, predicted_label) = _split(y), _split(y_hat)
        if label is not predicted_label and label != predicted_label:
            return 1.0
        if self.overlap == "none":
            return float(value != predicted)
        box = _box(predicted, "y_hat")
        return 1.0 - float(overlaps(box[None], _box(value, "y"))[0])

    def labelings(self, x: Any) -> Iterable:
        n = len(self._input(x, "x")[0])
        pairs = np.indices((n, self._n_columns)).reshape(2, -1).T
        return (self._shown(x, pair) for pair in pairs)

    def _smallest(self):
        return np.zeros((1, self.n_features_)), np.array([[0.0, 0.0, 1.0, 1.0]])


_NONE = object()


def _split(y):
    """An output without its label, and the label."""
    return tuple(y) if isinstance(y, (tuple, list)) and len(y) == 2 else (y, _NONE)


def _plain(label):
    return label.item() if isinstance(label, np.generic) else label


def _box(values, name):
    box = check_features(values, f"{name}: box", 1)
    if box.shape != (4,) or (box[2:] <= box[:2]).any():
        raise ValueError(
            f"{name} must be a box (top, left, bottom, right), got {box.tolist()}"
        )
    return box
