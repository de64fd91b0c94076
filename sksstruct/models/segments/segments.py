"""Sequences of segments, which have labels, lengths and features."""

from collections.abc import Sized
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np

from sksstruct.losses import PositionLoss, WrongSegments
from sksstruct.models._compiled import CompiledModel
from sksstruct.models.chain.data import check_classes
from sksstruct.models.normalization import divisor
from sksstruct.models.segments.forms import (
    Outputs,
    form_of,
    scheme_of,
)
from sksstruct.models.segments.inputs import SegmentInputs
from sksstruct.models.segments.known import allowed_nodes
from sksstruct.models.segments.lengths import NO_LIMIT, SegmentLengths
from sksstruct.models.segments.outputs import SegmentOutputs, in_places
from sksstruct.models.segments.sequences import segment_sequences
from sksstruct.models.spec import HINGE_ALPHA, LIKELIHOOD_C2
from sksstruct.models.tables._table import BoundTable
from sksstruct.utils._layout import object_array, padded_length
from sksstruct.utils._param_validation import Count
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.typing import Examples
from sksstruct.utils.validation import LabelEncoder, check_weight


@dataclass(eq=False, repr=False)
class SegmentModel(SegmentLengths, SegmentOutputs, CompiledModel):
    """Segmentations of sequences: a semi-Markov conditional random field.

    An output is a sequence of segments (start, stop, label) that follow each other. The
    score adds the weights of features of the positions, of the length of each segment
    with its label, of consecutive labels, of the first and the last label, and of the
    features of candidate spans that are segments [1]_.

    An input is an array or CSR matrix of shape (n_positions, n_features), or a tuple
    ``(features, spans, span_features)`` with candidate spans (start, stop) of shape
    (n_spans, 2) and their features, of shape (n_spans, n_span_features). A segment that
    is not a candidate has no span features.

    An output is one of the following; `predict` returns what `fit` was given.

    * Tags of the scheme BIO, IOBES or BILOU. Positions that are ``"O"`` are outside.
    * A list of tuples (start, stop, label). All other positions are outside.
    * Labels of positions. Each run of equal labels is a segment.

    Each position outside is a segment of one position, with a label of its own. In
    training, a tag or label may be None, if it is not known, or a set of candidates
    that contains the true one; see `sksstruct.SegmentCRF` for the losses of such
    outputs.

    Parameters
    ----------
    max_length : int, dict, "auto" or None, default="auto"
        Largest length of a segment. "auto": for each label, the largest in the training
        data; no predicted segment is longer, and no run of equal labels if outputs are
        labels of positions. Where tags are missing, only the known part of a segment
        counts. With a number, observed segments that are longer are cut into pieces,
        with a warning, and runs may be longer than one segment. None: there is no
        limit, and a run of equal labels is one segment of any length. A dict has
        numbers, or None, for some of the labels; all other labels are treated as with
        "auto".
    min_length : int or dict, default=1
        Smallest length of a segment. A dict has the smallest lengths of some labels;
        all other labels have 1. An observed segment that is shorter is an error.
    length_features : int or "auto", default="auto"
        Each label has a weight for each length up to this one. Longer lengths share
        weights in ranges, each of which is twice as long as the range before. If a
        label has no limit (`max_length` is None), a segment longer than
        `length_features` has the weight of that length, plus another weight for each
        further position.
        "auto": 8 if there is an outside, and otherwise 64, as runs of labels are
        longer.
    boundary_lengths : {"same", "own", "none"}, default="same"
        Weights of the lengths of the first and the last segment of a sequence. "same":
        the weights of all segments. "own": another set of weights, which first and last
        segments share, for sequences that begin or end within a segment. "none": no
        weights. With "own" and "none", the first and the last segment may be shorter
        than `min_length`.
    roles : bool or "auto", default="auto"
        Whether weights of features depend on the place of a position in its segment:
        first, inside, last, or alone. "auto": if there is an outside.
    loss_unit : {"position", "segment"}, default="position"
        Unit of the loss. "position": a position with a wrong label, or with `roles` a
        wrong place in its segment. "segment": a predicted segment that was not
        observed, and an observed segment that was not predicted.
    class_weight : dict or "balanced", default=None
        Cost of a wrong position, by its true label; 1 for labels that are not in the
        dict. "O" stands for the outside. "balanced" gives every label the same
        total cost in the training data. Only with ``loss_unit="position"``, and not
        with ``loss="log"``, which has no cost of errors.
    loss_normalization : {"mean", "example"} or None, default="mean"
        Divisor of the loss of an example. "mean": the mean number of positions in the
        training data. "example": the number of positions in the example. None: no
        division.
    fit_intercept : bool, default=True
        Whether labels have a bias at each position.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, without the outside.
    outside_ : bool
        Whether there is an outside.
    longest_, shortest_ : ndarray of shape (n_labels,)
        Largest and smallest length of each label; the outside is the first label.
        Without a limit the largest is the largest 32-bit integer.
    costs_ : ndarray of shape (n_labels,)
        Cost of missing each label at a position; the outside is the first label.

    Notes
    -----
    A fitted `sksstruct.SSVMClassifier` has ``coef_`` of shape (n_roles, n_labels,
    n_features) and ``intercept_`` (n_roles, n_labels), with roles in the order first,
    inside, last, alone; ``length_coef_`` (n_length_features, n_labels), the same for
    ``boundary_length_coef_`` if ``boundary_lengths="own"``,
    ``transitions_`` (n_labels, n_labels) from one label to the next, ``start_`` and
    ``end_`` (n_labels,), and ``span_coef_`` (n_labels, n_span_features). The outside is
    the first of the labels.

    The decoder takes time proportional to n (L + K) K for n positions, K labels and
    segments of at most L positions. Without a limit, L is the largest length with a
    weight of its own. Longer candidate spans, and with ``loss_unit="segment"`` longer
    observed segments, raise L in their sequences, as they have scores of their own.

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
    max_length: Count | dict | Literal["auto"] | None = "auto"
    min_length: Count | dict = 1
    length_features: Count | Literal["auto"] = "auto"
    boundary_lengths: Literal["same", "own", "none"] = "same"
    roles: bool | Literal["auto"] = "auto"
    loss_unit: Literal["position", "segment"] = "position"
    class_weight: dict | Literal["balanced"] | None = None
    loss_normalization: Literal["mean", "example"] | None = "mean"
    fit_intercept: bool = True

    _task_losses = (PositionLoss, WrongSegments)
    _loss_parameters = ("class_weight",)
    _class_weight_note = "has its own: pass SegmentModel(class_weight=...)"
    # rules that combine the attributes of all parts, before `_settle` reads them
    _from_parts = {
        "n_span_features_": "max",
        "entries_": "labels",
        "lengths_": "max",
        "mean_size_": "mean",
        "mean_inside_": "mean",
        "counts_": "sum",
    }
    mean_size_ = mean_inside_ = None
    n_span_features_ = None

    def check(self) -> None:
        super().check()
        if self.class_weight is not None and self.loss_unit != "position":
            raise ValueError(
                "class_weight is the cost of a wrong position: it needs "
                "loss_unit='position'"
            )

    # ---- examples ----

    def _read(self, X, y, sample_weight, seen):
        X, y, sample_weight = self._without_empty(X, y, sample_weight)
        examples = super()._read(X, y, sample_weight, seen)
        self._total = float(check_weight(sample_weight, len(X)).sum())
        return examples

    def _part(self, X, y, sample_weight):
        return super()._part(*self._without_empty(X, y, sample_weight))

    def _without_empty(self, X, y, sample_weight):
        """Return the examples with positions: empty ones have no effect on training."""
        X, y = self._pairs(X, y)
        numbers = np.flatnonzero(X.packed.lengths)
        if not len(numbers):
            raise ValueError("X has no positions: every sequence is empty")
        if len(numbers) < len(X):
            sample_weight = check_weight(sample_weight, len(X))[numbers]
            X, y = X.take(numbers), self._chosen(y, numbers)
        return X, y, sample_weight

    def _check_input(self, X, estimator):
        return SegmentInputs.read(X, self.n_features_, self.n_span_features_)

    def _input(self, x, name):
        return x if isinstance(x, SegmentInputs) else self._check_input([x], None)

    def _pairs(self, X, y):
        X = self._check_input(X, None)
        if isinstance(y, (str, bytes, dict)) or not isinstance(y, Sized):
            raise TypeError(
                f"y must be a list with an entry for each sequence, got {y!r:.80}"
            )
        if len(X) != len(y):
            raise ValueError(
                f"y must have an output for each of the {len(X)} sequences of X, got "
                f"{len(y)}"
            )
        if not isinstance(y, Outputs):
            y = Outputs.read(y, X.packed.lengths)
        return X, y

    def _chosen(self, X, numbers):
        if isinstance(X, (SegmentInputs, Outputs)):
            return X.take(numbers)
        return X if len(numbers) == len(X) else [X[i] for i in numbers]

    def _rows(self, X):
        return X.packed.compact().values

    def _rows_of_score(self, X):
        # score functions take an array or CSR
        values = X.packed.in_one_form().compact().values
        return values.astype(np.float64, copy=False)

    def _offsets(self, X):
        return X.packed.offsets

    def _with_rows(self, X, rows):
        packed = PackedSequences(rows, X.packed.offsets)
        return SegmentInputs(packed, X.spans, X.first_span, X.features)

    # ---- learning from data ----

    def _learn_from(self, X, y, weight):
        self._forget()
        self._learn_attributes(X, y, weight)
        self._settle()
        self._warn_of_cuts(y, 9)  # the warning points to the caller of fit
        return self._at_scale(X), self._outputs(X, y)

    def _learn_from_part(self, X, y, weight):
        self._forget()
        self._learn_attributes(X, y, weight)

    def _learn_from_batch(self, X, y, weight, classes):
        """Learn from the first of many mini-batches, and from the given classes."""
        if classes is None:
            raise ValueError(
                "classes must be given on the first partial_fit: a list of all labels"
            )
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all labels at once; pass a dict"
            )
        limits = self.max_length
        if limits == "auto" or (
            isinstance(limits, dict) and not set(classes) <= set(limits)
        ):
            raise ValueError(
                "max_length must be a number or None, or a dict with all classes: "
                "one mini-batch does not tell how long segments are"
            )
        self._forget()
        self._learn_attributes(X, y, weight)
        if self.entries_ is not None and self.entries_.tolist() == ["O"]:
            if "O" not in set(classes):
                raise ValueError(
                    "y has no tag but 'O': the first mini-batch needs a segment, which "
                    "says what scheme the tags have"
                )
        self.lengths_ = dict.fromkeys(classes, 1)
        self._settle()

    def _learn_attributes(self, X, y, weight):
        """Learn attributes of this part, which `_settle` combines over all parts."""
        self.n_features_, self.n_span_features_ = X.packed.n_features, X.n_span_features
        entries = y.entries
        self.entries_ = None
        if entries is not None:
            self.entries_ = LabelEncoder.from_labels(entries).classes_
        # in a part of the data, all positions may be outside of segments
        form = "tags" if entries == ["O"] else form_of(entries)
        segments = y.segments(form)
        longest = np.zeros(len(segments.labels), dtype=np.intp)
        np.maximum.at(longest, segments.numbers, segments.stops - segments.starts)
        self.lengths_ = dict(zip(segments.labels, longest.tolist(), strict=True))
        for label in y.labels_of_sets(form):
            self.lengths_[label] = max(self.lengths_.get(label, 0), 1)
        self.mean_size_ = float(np.average(X.packed.lengths, weights=weight))
        which = np.searchsorted(X.packed.offsets, segments.starts, "right") - 1
        inside = (weight[which] * (segments.stops - segments.starts)).sum()
        self.mean_inside_ = float(inside / np.sum(weight))
        self.counts_ = y.counts(form, weight)
        self._learn_moments(X, weight)

    def _settle(self):
        self.form_ = form_of(None if self.entries_ is None else self.entries_.tolist())
        self.scheme_ = (
            scheme_of(self.entries_.tolist()) if self.form_ == "tags" else None
        )
        self.outside_ = self.form_ != "labels"
        lengths = {k: n for k, n in self.lengths_.items() if n}
        if not lengths:
            raise ValueError("y has no segment: training needs one")
        self.classes_ = LabelEncoder.from_labels(lengths).classes_
        if not self.outside_:
            check_classes(self.classes_)
        # without known segments the share of other labels is unknown
        if self.outside_ and self.mean_inside_:
            self.share_of_others_ = self.mean_inside_ / self.mean_size_
        labels = self.classes_.tolist()
        self.longest_ = self._limits("max_length", [lengths[k] for k in labels])
        self.shortest_ = self._limits("min_length", [1] * len(labels))
        if (self.shortest_ > self.longest_).any():
            k = int(np.argmax(self.shortest_ > self.longest_))
            raise ValueError(
                f"segments of {labels[k - self.outside_]!r:.80} have at most "
                f"{self.longest_[k]} positions, and min_length is {self.shortest_[k]}: "
                "max_length must not be less"
            )
        counts = vars(self).pop("counts_")
        names = [None] * self.outside_ + labels
        counts = np.array([counts.get(name, 0.0) for name in names])
        names = object_array(["O"] * self.outside_ + labels)
        costs = None
        if not self._counts_segments:
            costs = self._label_costs(names, counts)
        self.costs_ = np.ones(len(names)) if costs is None else costs
        super()._settle()

    @property
    def _n_labels(self):
        return len(self.longest_)

    @property
    def _counts_segments(self):
        """Whether the loss counts whole segments, rather than positions."""
        if self._task_loss is None:
            return self.loss_unit == "segment"
        return isinstance(self._task_loss, WrongSegments)

    @property
    def _has_roles(self):
        return self.outside_ if self.roles == "auto" else self.roles

    @property
    def _repeats(self):
        # a run of equal labels is one segment, unless segments may be shorter than runs
        return self.form_ != "labels" or self.max_length not in ("auto", None)

    @property
    def auto_alpha(self) -> float:  # type: ignore[override]
        # with the likelihood, alpha is as in `ChainModel`
        if self.is_likelihood:
            return 2.0 * LIKELIHOOD_C2 / self._total
        # The hinge alpha of chains, which is larger for few long series, has cost up to
        # three points of accuracy: weights of lengths belong to few segments, not to
        # all positions.
        return HINGE_ALPHA

    # ---- the bound model ----

    _disagreement = (
        "no segmentation agrees with its known labels and with the lengths that labels "
        "may have, min_length and max_length"
    )

    def _bound(self, X, y_true, example_weights, rows=None, known=None):
        # methods of all models pass one input in a list
        X = X[0] if isinstance(X, list) else X
        n, n_labels, sizes = len(X), self._n_labels, X.packed.lengths
        ld, offsets, each = padded_length(n_labels), X.packed.offsets, np.arange(n + 1)
        labels = counted = costs = None
        if self._counts_segments:
            counted = np.arange(n_labels) >= self.outside_
        if y_true is not None:
            labels = np.concatenate(y_true)
            costs = 1.0 / divisor(self.loss_normalization, sizes, self.mean_size_)
            costs = np.broadcast_to(costs, n).astype(np.float64)
        spans = None
        if self.n_span_features_ or counted is not None:
            # a loss by segments needs the observed segments among the spans
            with_observed = counted is not None and labels is not None
            observed = self._segments_of(labels)[:2] if with_observed else None
            spans = X.bound_spans(self.n_span_features_, observed)
        n_columns = (4 if self._has_roles else 1) * ld
        reach = self._reach(sizes, spans).astype(np.intp)
        tail = self.longest_ == NO_LIMIT if self._is_unlimited else None
        n_lengths = reach if tail is None else reach + (sizes > reach)
        length_rows, n_lengths = self._rows_of_lengths(n_lengths, reach)
        first_length = np.concatenate([[0], np.cumsum(n_lengths)])
        blocks = [
            (self._rows(X), offsets, n_columns, self.fit_intercept),
            (length_rows, first_length, ld, False),
        ]
        if spans is not None:
            blocks.append((spans[0], spans[3], ld, False))
        # transitions, first and last labels: a block that all sequences share
        blocks.append((np.ones((n, 1)), each, (n_labels + 2) * ld, False))
        structure = segment_sequences(
            sizes,
            labels,
            4 * int(sizes.max()) + 1,
            n_labels,
            self._has_roles,
            self._allowed(reach.max()),
            reach,
            tail,
            self._at_boundary(reach.max()),
            self._repeats,
            counted,
            costs,
            self.costs_,
            None if spans is None else spans[1:4],
            known,
        )
        return BoundTable(blocks, structure, example_weights, self._names_of)

    def _names_of(self, blocks, others):
        """Return the named blocks of weights, without padding."""
        n, ld = self._n_labels, padded_length(self._n_labels)

        def cut(array):
            return array.reshape(*array.shape[:-1], -1, ld)[..., :n]

        (coef, bias), (lengths, _), *spans, (pairs, _) = blocks
        pairs = cut(pairs)[0]
        n_lengths = len(lengths) // (2 if self.boundary_lengths == "own" else 1)
        named = {
            "coef": cut(coef).transpose(1, 2, 0),
            "intercept": cut(bias),
            "length_coef": lengths[:n_lengths, :n],
            "transitions": pairs[:n],
            "start": pairs[n],
            "end": pairs[n + 1],
        }
        if self.boundary_lengths == "own":
            named["boundary_length_coef"] = lengths[n_lengths:, :n]
        if self.n_span_features_:
            named["span_coef"] = spans[0][0][:, :n].T
        return named

    def _marginals_of(self, structure, i, means):
        """Return the probability of each label at each position of example i.

        The outside, if there is one, is the first label.
        """
        n_roles, ld = structure.n_roles, structure.ld
        nodes = means[: structure.sizes[i] * n_roles * ld].reshape(-1, n_roles, ld)
        return nodes.sum(axis=1)[:, : structure.n_labels]

    # ---- predictions ----

    def _ready(self, X, weights, y=None, known=None):
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        if known is not None:
            known = allowed_nodes(self, X, known)
        return self._bound(X, y, None, known=known), weights

    def _with_positions(self, X, known=None):
        """Return the sequences with positions, their numbers and their known labels."""
        X = X[0] if isinstance(X, list) else X
        numbers = np.flatnonzero(X.packed.lengths)
        if known is not None:
            if isinstance(known, (str, bytes, dict)) or not isinstance(known, Sized):
                raise TypeError(
                    f"known must be a list with an entry for each sequence, got "
                    f"{known!r:.80}"
                )
            if len(known) != len(X):
                raise ValueError(f"X has {len(X)} sequences, known has {len(known)}")
            known = list(known)
            for i in np.flatnonzero(X.packed.lengths == 0):
                if known[i] is not None and len(known[i]):
                    raise ValueError(
                        f"X[{i}] has no positions, and known[{i}] has some"
                    )
            known = [(int(i), known[i]) for i in numbers]
        return X.take(numbers), numbers, known

    def _predict(self, X, weights, n_jobs=None, known=None):
        nonempty, numbers, known = self._with_positions(X, known)
        outputs, scores = [], np.empty(0)
        if len(numbers):
            outputs, scores = super()._predict(nonempty, weights, n_jobs, known=known)
        out = np.zeros(len(nonempty) if isinstance(X, list) else len(X))
        out[numbers] = scores
        return in_places(numbers, outputs, [self._blank()] * len(out)), out

    def _topk(self, x, weights, k):
        x = self._input(x, "x")
        if x.packed.offsets[-1]:
            return super()._topk(x, weights, k)
        return [self._blank()], np.zeros(1)

    def _predict_marginals(self, X, weights, n_jobs=None):
        nonempty, numbers, _ = self._with_positions(X)
        marginals = []
        if len(numbers):
            marginals = super()._predict_marginals(nonempty, weights, n_jobs)
        for i, each in zip(numbers, marginals, strict=True):
            if not each.any():
                raise ValueError(
                    f"X[{i}] of {len(each)} positions has no segmentation with the "
                    "lengths that labels may have"
                )
        return in_places(numbers, marginals, [np.empty((0, self._n_labels))] * len(X))

    def predict_segments(
        self, X: Examples, w: np.ndarray, known: list | None = None
    ) -> list[list[tuple[int, int, Any, float]]]:
        """Return the best segments of each input, with their probabilities.

        Parameters
        ----------
        X : list
            Inputs.
        w : ndarray of shape (n_weights,)
            Weights, such as ``weights_`` of a classifier that was fitted with
            ``loss="log"``; with other losses the probabilities mean little.
        known : list or None, default=None
            Known labels of the outputs, as in `sksstruct.SegmentCRF.predict`.
            Probabilities are conditional on them.

        Returns
        -------
        segments : list of list of tuple
            Tuples (start, stop, label, probability) for each input, with the total
            probability of all outputs that have this segment.
        """
        X = self._check_input(X, None)
        nonempty, numbers, known = self._with_positions(X, known)
        if not len(numbers):
            return [[] for _ in range(len(X))]
        model, w = self._ready(nonempty, w, known=known)
        workspace, labels = model.workspace(w, training=False), self.classes_.tolist()
        out: list = [[] for _ in range(len(X))]
        for i, number in enumerate(numbers):
            labeling, _ = model.labeling(workspace, i)
            rows = np.column_stack(self._segments_of(labeling))
            rows = rows[rows[:, 2] >= self.outside_].astype(np.int32)
            shares = np.empty(len(rows))
            model.structure.probabilities(i, workspace.theta, rows, shares)
            out[number] = [
                (a, b, labels[k - self.outside_], share)
                for (a, b, k), share in zip(rows.tolist(), shares.tolist(), strict=True)
            ]
        return out

    # ---- methods of all models ----

    def _smallest(self):
        return SegmentInputs.read([np.zeros((1, self.n_features_))])
