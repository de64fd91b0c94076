"""Sequences of segments, which have labels, lengths and features of their own."""

import itertools
import warnings
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from sksstruct.models._compiled import CompiledModel
from sksstruct.models.graph.inputs import feature_rows, stack
from sksstruct.models.normalization import divisor
from sksstruct.models.segments._segments import SegmentSequences
from sksstruct.models.segments.forms import form_of, read_segments, scheme_of, shown
from sksstruct.models.spec import row_squares
from sksstruct.models.tables._table import BoundTable
from sksstruct.utils._layout import padded_length
from sksstruct.utils._param_validation import Count
from sksstruct.utils.typing import Examples
from sksstruct.utils.validation import LabelEncoder

_NO_SPANS = np.empty((0, 2), dtype=np.intp)


@dataclass(eq=False, repr=False)
class SegmentModel(CompiledModel):
    """Segmentations of sequences: a semi-Markov conditional random field.

    An output is a sequence of segments (start, stop, label) that follow each other. The
    score adds the weights of features of the positions, of the length of each segment
    with its label, of consecutive labels, of the first and the last label, and of the
    features of candidate spans that are segments [1]_.

    An input is an array or CSR matrix of shape (n_positions, n_features), or a tuple
    ``(features, spans, span_features)`` with candidate spans (start, stop) of shape
    (n_spans, 2) and their features, of shape (n_spans, n_span_features). Spans that are
    no candidates have no features.

    An output is one of the following; `predict` returns what `fit` was given.

    * Tags of the scheme BIO, IOBES or BILOU. Positions that are ``"O"`` are outside.
    * A list of tuples (start, stop, label). All other positions are outside.
    * Labels of positions. A segment is a longest stretch of equal labels.

    What is outside is a segment of one position, with a label of its own.

    Parameters
    ----------
    max_length : int or "auto", default="auto"
        Largest length of a segment. "auto": for each label, the largest in the training
        data; no longer segment is predicted, nor a longer run if outputs are labels of
        positions. With a number, observed segments that are longer are cut into pieces,
        with a warning, and runs may be longer than one segment.
    min_length : int, default=1
        Smallest length of a segment. An observed segment that is shorter is an error.
    length_features : int, default=8
        Lengths up to this one have a weight each, for each label. Longer ones share
        weights: each range of lengths is twice as long as the one before.
    roles : bool or "auto", default="auto"
        Whether features have weights that depend on where in a segment a position is:
        first, inside, last, or alone. "auto": if there is an outside.
    loss_unit : {"position", "segment"}, default="position"
        What an error is. "position": a position with a wrong label, or with `roles` a
        wrong place in its segment. "segment": a segment that is not observed, and an
        observed one that is missed.
    loss_normalization : {"mean", "example"} or None, default="mean"
        Divisor of the loss of an example. "mean": the mean number of positions in the
        training data. "example": the number of the example. None: no division.
    fit_intercept : bool, default=True
        Whether labels have a bias at each position.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, without the outside.
    outside_ : bool
        Whether there is an outside.
    longest_ : ndarray of shape (n_labels,)
        Largest length of each label; the outside is the first label.

    Notes
    -----
    A fitted `sksstruct.SSVMClassifier` has ``coef_`` of shape (n_roles, n_labels,
    n_features) and ``intercept_`` (n_roles, n_labels), with roles in the order first,
    inside, last, alone; ``length_coef_`` (n_length_features, n_labels),
    ``transitions_`` (n_labels, n_labels) from one label to the next, ``start_`` and
    ``end_`` (n_labels,), and ``span_coef_`` (n_labels, n_span_features). The outside is
    the first of the labels.

    The decoder takes time proportional to the number of positions, the largest length
    plus the number of labels, and the number of labels.

    References
    ----------
    .. [1] S. Sarawagi and W. Cohen, "Semi-Markov conditional random fields for
       information extraction", NIPS 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import SSVMClassifier
    >>> from sksstruct.models import SegmentModel
    >>> X = [np.array([[0.0], [1.0], [0.9], [0.0]]), np.array([[0.0], [0.0], [0.8]])]
    >>> y = [[(1, 3, "high")], [(2, 3, "high")]]
    >>> model = SegmentModel(loss_unit="segment")
    >>> classifier = SSVMClassifier(model, alpha=0.01, random_state=0).fit(X, y)
    >>> classifier.predict([np.array([[0.9], [1.0], [0.0]])])
    [[(0, 2, 'high')]]
    """

    _: KW_ONLY
    max_length: Count | Literal["auto"] = "auto"
    min_length: Count = 1
    length_features: Count = 8
    roles: bool | Literal["auto"] = "auto"
    loss_unit: Literal["position", "segment"] = "position"
    loss_normalization: Literal["mean", "example"] | None = "mean"
    fit_intercept: bool = True

    # lengths and forms of outputs are learned from all data
    _from_parts = None
    mean_size_ = None
    n_span_features_ = None
    # a factor of the default of alpha, which depends on the loss
    auto_alpha = 0.02

    # ---- inputs ----

    def _input(self, x, name):
        spans = features = None
        if isinstance(x, tuple):
            if len(x) != 3:
                raise ValueError(
                    f"{name} must be a tuple (features, spans, span_features), or an "
                    f"array; got a tuple of {len(x)}"
                )
            x, spans, features = x
        x = feature_rows(x, name, self.n_features_)
        if not x.shape[0]:
            raise ValueError(f"{name} has no positions")
        # checks of spans take longer than all the rest
        if spans is None and features is None:
            return x, _NO_SPANS, None
        return x, *self._spans(spans, features, x.shape[0], name)

    def _spans(self, spans, features, n_positions, name):
        """Checked candidate spans in the order of where they stop, and features."""
        spans = np.asarray(_NO_SPANS if spans is None else spans)
        if not spans.size:
            spans = _NO_SPANS
        if spans.ndim != 2 or spans.shape[1] != 2 or spans.dtype.kind not in "iu":
            raise ValueError(
                f"{name}: spans must be integers of shape (n_spans, 2), got shape "
                f"{spans.shape}"
            )
        wrong = (spans[:, 0] < 0) | (spans[:, 0] >= spans[:, 1])
        wrong |= spans[:, 1] > n_positions
        if wrong.any():
            raise ValueError(
                f"{name}: the span {tuple(spans[wrong][0].tolist())} is empty or not "
                f"within {n_positions} positions"
            )
        if len(np.unique(spans, axis=0)) < len(spans):
            raise ValueError(f"{name} has a span twice")
        if features is None:
            if len(spans):
                raise ValueError(f"{name}: spans have no features")
            return spans, None
        features = feature_rows(
            features, f"{name}: span_features", self.n_span_features_
        )
        if features.shape[0] != len(spans):
            raise ValueError(
                f"{name} has {len(spans)} spans and {features.shape[0]} rows of "
                "span_features"
            )
        order = np.argsort(spans[:, 1], kind="stable")
        return spans[order].astype(np.intp), sparse.csr_array(features)[order]

    def _features(self, x):
        return x[0]

    def _rows(self, X):
        return stack([x[0] for x in X])

    def _offsets(self, X):
        return np.concatenate([[0], np.cumsum([x[0].shape[0] for x in X])])

    # ---- what the data teach ----

    def _learn(self, X, y, weight):
        self._learn_size((x[0].shape[1] for x in X), "sequences")
        widths = {x[2].shape[1] for x in X if x[2] is not None}
        if len(widths) > 1:
            raise ValueError(f"X has spans of {sorted(widths)} features")
        self.n_span_features_ = widths.pop() if widths else 0
        self.form_ = form_of(y)
        self.scheme_ = scheme_of(y) if self.form_ == "tags" else None
        self.outside_ = self.form_ != "labels"
        segments = [
            read_segments(each, self.form_, x[0].shape[0], f"y[{i}]")
            for i, (x, each) in enumerate(zip(X, y, strict=True))
        ]
        labels = [label for each in segments for _, _, label in each]
        if not labels:
            raise ValueError("y has no segment: training needs one")
        self.classes_ = LabelEncoder.from_labels(labels).classes_
        self._learn_lengths(segments)
        sizes = [x[0].shape[0] for x in X]
        self.mean_size_ = float(np.average(sizes, weights=weight))
        squares = np.array([row_squares(x[0]).sum() for x in X])
        self.mean_square_ = float(weight @ squares / (weight @ sizes))
        return self._outputs(X, y)

    def _learn_lengths(self, segments):
        """Learn the largest length of each label, and say which ones are cut."""
        longest = np.ones(len(self.classes_), dtype=np.intp)
        index = LabelEncoder(self.classes_)
        for i, each in enumerate(segments):
            numbers = index.encode([label for _, _, label in each])
            for (start, stop, label), number in zip(each, numbers, strict=True):
                longest[number] = max(longest[number], stop - start)
                if stop - start < self.min_length:
                    raise ValueError(
                        f"y[{i}] has a segment of {label!r} from {start} to {stop}, "
                        f"which is shorter than min_length={self.min_length}"
                    )
        if self.max_length != "auto":
            if self.max_length < self.min_length:
                raise ValueError("max_length must not be less than min_length")
            n_cut = sum(
                stop - start > self.max_length
                for each in segments
                for start, stop, _ in each
            )
            if n_cut:
                warnings.warn(
                    f"{n_cut} segments of y are longer than max_length="
                    f"{self.max_length}, the longest {longest.max()}; they were cut "
                    "into pieces",
                    UserWarning,
                    stacklevel=10,  # past fit and its decorator
                )
            longest[:] = self.max_length
        self.longest_ = np.concatenate([[1] * self.outside_, longest]).astype(np.intp)

    @property
    def _n_labels(self):
        return len(self.longest_)

    @property
    def _has_roles(self):
        return self.outside_ if self.roles == "auto" else self.roles

    @property
    def _repeats(self):
        # a stretch of equal labels is one segment, unless it is longer than they may be
        return self.form_ != "labels" or self.max_length != "auto"

    @property
    def intercept_scaling_(self) -> float:
        # biases, lengths and transitions count as features of one
        return 1.0

    # ---- outputs ----

    def _output(self, x, y, name):
        n_positions = x[0].shape[0]
        segments = read_segments(y, self.form_, n_positions, name)
        index, end = LabelEncoder(self.classes_), 0
        # the outside is the first label
        out = np.zeros(n_positions, dtype=np.int32)
        for start, stop, label in segments:
            number = int(index.encode([label], default=-1)[0])
            if number < 0:
                raise ValueError(f"{name} has the label {label!r}, not in classes_")
            number += self.outside_
            out[start:stop] = -1 - number
            for first, last in self._pieces(start, stop, self.longest_[number]):
                if last - first < self.min_length:
                    raise ValueError(
                        f"{name}: the segment from {start} to {stop} has no pieces of "
                        f"{self.min_length} to {self.longest_[number]} positions"
                    )
                out[first] = number
            end = stop
        if not self.outside_ and end != n_positions:
            raise ValueError(f"{name} has no label after position {end}")
        return out

    def _pieces(self, start, stop, longest):
        """Segments of at most so many positions, as even as possible."""
        n_pieces = -(-(stop - start) // longest)
        places = start + (stop - start) * np.arange(n_pieces + 1) // n_pieces
        return itertools.pairwise(places.tolist())

    def _labeling(self, x, y):
        return y

    def _segments_of(self, labeling):
        """Segments (start, stop, number of the label) of integers, outside included."""
        starts = np.flatnonzero(labeling >= 0)
        stops = np.append(starts[1:], len(labeling))
        return np.column_stack([starts, stops, labeling[starts]])

    def _named(self, labeling):
        """Segments (start, stop, label), without the outside."""
        rows = self._segments_of(labeling)
        rows = rows[rows[:, 2] >= self.outside_].tolist()
        labels = self.classes_.tolist()
        return [(a, b, labels[number - self.outside_]) for a, b, number in rows]

    def _shown(self, x, labeling):
        return shown(self._named(labeling), self.form_, self.scheme_, len(labeling))

    # ---- what is compiled ----

    def _allowed(self):
        """Lengths that each label may have, (max_length, n_labels)."""
        lengths = np.arange(1, self.longest_.max() + 1)[:, None]
        allowed = (lengths >= self.min_length) & (lengths <= self.longest_)
        if self.outside_:
            allowed[:, 0] = lengths[:, 0] == 1
        return allowed

    def _length_rows(self, n_examples):
        """Features of lengths, once for each example: 1 for the range they are in."""
        lengths = np.arange(1, self.longest_.max() + 1)
        limit = self.length_features
        over = np.maximum(lengths / limit, 1.0)
        place = np.where(
            lengths <= limit, lengths - 1, limit - 1 + np.ceil(np.log2(over))
        ).astype(np.int32)
        shape = len(lengths) * n_examples, int(place.max()) + 1
        ones, starts = np.ones(shape[0]), np.arange(shape[0] + 1)
        return sparse.csr_array((ones, np.tile(place, n_examples), starts), shape)

    def _bound(self, X, y_true, example_weights, rows=None):
        n, n_labels = len(X), self._n_labels
        ld, offsets = padded_length(n_labels), self._offsets(X)
        counted = costs = None
        if self.loss_unit == "segment":
            counted = np.arange(n_labels) >= self.outside_
        spans = self._all_spans(X, y_true, counted is not None)
        has_bias = self.fit_intercept and rows is None
        each = np.arange(n + 1)
        blocks = [
            (
                self._rows(X) if rows is None else rows,
                offsets,
                self._row_length,
                has_bias,
            ),
            (self._length_rows(n), each * self.longest_.max(), ld, False),
            (np.ones((n, 1)), each, (n_labels + 2) * ld, False),
        ]
        if spans is not None:
            blocks.append((spans[0], spans[-1], ld, False))
        labels = None
        if y_true is not None:
            labels = np.concatenate(y_true)
            sizes = np.diff(offsets)
            costs = 1.0 / divisor(self.loss_normalization, sizes, self.mean_size_)
            costs = np.broadcast_to(costs, n).astype(np.float64)
        structure = SegmentSequences(
            np.diff(offsets),
            labels,
            4 * int(np.diff(offsets).max()) + 1,
            n_labels,
            self._has_roles,
            self._allowed(),
            self._repeats,
            counted,
            costs,
            None if spans is None else spans[1:],
        )
        return BoundTable(blocks, structure, example_weights, self._names_of)

    @property
    def _row_length(self):
        return (4 if self._has_roles else 1) * padded_length(self._n_labels)

    def _all_spans(self, X, y_true, with_observed):
        """Features of all candidate spans, and where they are; None without any.

        A loss by segments needs the observed segments among them.
        """
        n_features = self.n_span_features_
        if not n_features and not with_observed:
            return None
        found, rows, first = [], [], []
        for i, x in enumerate(X):
            spans, features = x[1], x[2]
            if features is None:
                features = sparse.csr_array((0, n_features))
            if with_observed and y_true is not None:
                mine = self._segments_of(y_true[i])[:, :2]
                known = set(map(tuple, spans.tolist()))
                new = [tuple(each) not in known for each in mine.tolist()]
                mine = mine[np.array(new, dtype=bool)]
                spans = np.concatenate([spans, mine])
                blank = sparse.csr_array((len(mine), features.shape[1]))
                features = sparse.vstack([features, blank], format="csr")
                order = np.argsort(spans[:, 1], kind="stable")
                spans, features = spans[order], features[order]
            counts = np.bincount(spans[:, 1], minlength=x[0].shape[0] + 1)
            found.append(spans[:, 0])
            first.append(np.cumsum(counts))
            if n_features and features.shape[0]:
                rows.append(features)
        starts = np.concatenate(found).astype(np.int32)
        if rows:
            rows = sparse.vstack(rows, format="csr")
        else:
            # a feature that is zero, where a block must have one
            rows = sparse.csr_array((len(starts), max(n_features, 1)))
        of_example = np.concatenate([[0], np.cumsum([len(each) for each in found])])
        return rows, np.concatenate(first).astype(np.int32), starts, of_example

    def _names_of(self, blocks, others):
        """Names of the weights, without the padding of labels."""
        n, ld = self._n_labels, padded_length(self._n_labels)

        def cut(array):
            return array.reshape(*array.shape[:-1], -1, ld)[..., :n]

        (coef, bias), (lengths, _), (pairs, _) = blocks[:3]
        pairs = cut(pairs)[0]
        named = {
            "coef": cut(coef).transpose(1, 2, 0),
            "intercept": cut(bias),
            "length_coef": lengths[:, :n],
            "transitions": pairs[:n],
            "start": pairs[n],
            "end": pairs[n + 1],
        }
        if self.n_span_features_:
            named["span_coef"] = blocks[3][0][:, :n].T
        return named

    def _marginals_of(self, structure, i, means):
        """Probability of each label at each position; the outside comes first."""
        n_roles, ld = structure.n_roles, structure.ld
        nodes = means[: structure.sizes[i] * n_roles * ld].reshape(-1, n_roles, ld)
        return nodes.sum(axis=1)[:, : structure.n_labels]

    def predict_segments(
        self, X: Examples, w: np.ndarray
    ) -> list[list[tuple[int, int, Any, float]]]:
        """Best segments of each input, with their probabilities.

        Parameters
        ----------
        X : list
            Inputs.
        w : ndarray of shape (n_weights,)
            Weights, such as ``weights_`` of a classifier that was fitted with
            ``loss="log"``; with other losses the probabilities mean little.

        Returns
        -------
        segments : list of list of tuple
            Tuples (start, stop, label, probability) for each input, where the
            probability is that of all outputs that have this segment.
        """
        X = self._check_input(X, None)
        model, w = self._ready(X, w)
        workspace, labels = model.workspace(w, training=False), self.classes_.tolist()
        out = []
        for i in range(len(X)):
            labeling, _ = model.labeling(workspace, i)
            rows = self._segments_of(labeling)
            rows = rows[rows[:, 2] >= self.outside_].astype(np.int32)
            shares = model.structure.probabilities(i, workspace.theta, rows).tolist()
            numbers = rows.tolist()
            out.append(
                [
                    (a, b, labels[number - self.outside_], share)
                    for (a, b, number), share in zip(numbers, shares, strict=True)
                ]
            )
        return out

    # ---- the methods of any model ----

    def loss(self, y: Any, y_hat: Any) -> float:
        pair = [read_segments(each, self.form_, None, "y") for each in (y, y_hat)]
        n = len(y) if self.form_ != "segments" else None
        return self._loss_of(*pair, n)

    def _loss_at(self, x, y, y_hat):
        pair = [read_segments(each, self.form_, None, "y") for each in (y, y_hat)]
        return self._loss_of(*pair, self._input(x, "x")[0].shape[0])

    def _loss_of(self, true, found, n_positions):
        size = n_positions
        if size is None:
            size = max((stop for _, stop, _ in [*true, *found]), default=1)
        if self.loss_unit == "segment":
            wrong = len(set(true) ^ set(found))
        else:
            places = [self._places(each, size) for each in (true, found)]
            wrong = sum(a != b for a, b in zip(*places, strict=True))
        return wrong / divisor(self.loss_normalization, size, self.mean_size_)

    def _places(self, segments, n_positions):
        """What a position has to be right: its label, and with roles its place."""
        out = [None] * n_positions
        for start, stop, label in segments:
            for t in range(start, stop):
                place = (t == start, t == stop - 1) if self._has_roles else None
                out[t] = label, place
        return out

    def labelings(self, x: Any) -> Iterable:
        x = self._input(x, "x")
        for labeling in _segmentations(x[0].shape[0], self._allowed()):
            labeling = np.array(labeling, dtype=np.int32)
            labels = self._segments_of(labeling)[:, 2]
            if self._repeats or (labels[1:] != labels[:-1]).all():
                yield self._shown(x, labeling)

    def _smallest(self):
        return np.zeros((1, self.n_features_)), _NO_SPANS, None


def _segmentations(n_positions, allowed):
    """All labelings of so many positions, as integers."""
    if not n_positions:
        yield []
        return
    for length in range(1, min(n_positions, len(allowed)) + 1):
        for rest in _segmentations(n_positions - length, allowed):
            for label in np.flatnonzero(allowed[length - 1]).tolist():
                yield [label, *[-1 - label] * (length - 1), *rest]
