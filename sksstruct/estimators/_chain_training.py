"""Training data of chains: checked, encoded, and bound to a model and a loss."""

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
from scipy import sparse

from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.chain._smooth import ChainSmoothLoss
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.parallel import run_in_chunks
from sksstruct.utils.validation import (
    LabelEncoder,
    check_labels,
    check_sequence_weight,
    check_sequences,
)


@dataclass
class TrainingData:
    """Sequences of positive weight with encoded labels.

    labels are 0 where `known` (None: everywhere) says that they were not observed;
    weight sums to one; total is the weight or number of sequences before that; numbers
    are those of the sequences in what was given.
    """

    packed: PackedSequences
    labels: np.ndarray
    known: np.ndarray | None
    weight: np.ndarray | None
    classes: np.ndarray
    names: np.ndarray | None
    total: float
    numbers: np.ndarray


def check_training_data(X, y, sample_weight):
    """Check and encode what `fit` was given."""
    packed = check_sequences(X)
    flat = check_labels(y, packed.lengths, unknown=True)
    weight = check_sequence_weight(sample_weight, len(packed))
    known = None
    if None in flat:
        known = np.array([label is not None for label in flat])
    encoder = LabelEncoder.from_labels(label for label in flat if label is not None)
    classes = encoder.classes_
    if len(classes) < 2:
        raise ValueError(
            f"y has a single class, {classes.tolist()[0]!r}: training needs at least 2"
        )
    return TrainingData(
        packed,
        encoder.encode(flat, default=0),
        known,
        weight,
        classes,
        packed.feature_names,
        float(len(packed)),
        np.arange(len(packed)),
    )


def check_factors(solver, data, mask):
    """What solvers need that see factors and no labelings."""
    name = type(solver).__name__
    if data.known is not None:
        raise ValueError(f"{name} needs every label of y to be known")
    if mask is not None:
        raise ValueError(
            f"{name} cannot keep forbidden_transitions in training; forbid them in "
            "predict"
        )


def without_zeros(data):
    """Drop sequences of weight zero; normalise the other weights."""
    if data.weight is None:
        return data
    packed, labels, known, weight = data.packed, data.labels, data.known, data.weight
    keep = np.flatnonzero(weight)
    if len(keep) < len(weight):
        lengths = packed.lengths
        rows = np.repeat(weight > 0, lengths)
        labels = labels[rows]
        known = None if known is None else known[rows]
        packed = PackedSequences.from_lengths(_rows(packed, rows), lengths[keep])
    total = float(weight.sum())
    return replace(
        data,
        packed=packed,
        labels=labels,
        known=known,
        weight=weight[keep] / total,
        total=total,
        numbers=data.numbers[keep],
    )


def _rows(packed, rows):
    values = packed.values[rows]
    return sparse.csr_array(values) if sparse.issparse(values) else values


def label_costs(class_weight, classes, data=None):
    """Loss of missing each label; None for 1 everywhere."""
    if class_weight is None:
        return None
    if isinstance(class_weight, dict):
        names = classes.tolist()
        values = [class_weight.get(name, 1.0) for name in names]
        if not all(isinstance(value, Real) for value in values):
            raise ValueError("class_weight must map labels to numbers")
        costs = np.array(values)
    else:
        weight = data.weight
        if weight is None:
            weight = np.ones(len(data.packed))
        weight = np.repeat(weight, data.packed.lengths)
        if data.known is not None:
            weight = weight * data.known
        counts = np.bincount(data.labels, weights=weight, minlength=len(classes))
        # As in scikit-learn; labels of weight zero cost nothing.
        costs = np.divide(
            counts.sum() / len(classes),
            counts,
            out=np.zeros(len(classes)),
            where=counts > 0,
        )
    costs = costs.astype(np.float64)
    if not np.isfinite(costs).all() or (costs < 0).any() or not costs.any():
        raise ValueError("class_weight must be finite, not negative and not all 0")
    return costs


def bind_loss(model, data, packed, known, loss):
    """The model with a smooth loss: smoothing, strength and number of labelings."""
    smoothing, strength, k = loss
    partial = None if known is None else ~known
    k = min(k, most_labelings(len(data.classes), packed.lengths))
    return ChainSmoothLoss(model, smoothing, strength, k, partial, data.numbers).bind(
        packed
    )


def most_labelings(n_classes, lengths):
    """Labelings of the longest sequence, or a number that is large enough."""
    return n_classes ** min(int(lengths.max()), 64)


def existing_weights(model, data, states, transitions):
    """Flat weights that exist, or None for all.

    Without all possible states or transitions, those of pairs of a feature and a label,
    or of two labels, that were seen together.
    """
    if states and transitions and model.fit_intercept and model.boundary:
        return None
    packed, labels = data.packed, data.labels.astype(np.int64)
    known = np.ones(len(labels), dtype=bool) if data.known is None else data.known
    ld, d, n = model.ld, packed.n_features, len(data.classes)

    def rows(first, last):
        return (np.arange(first, last)[:, None] * ld + np.arange(n)).ravel()

    kept = []
    if states:
        kept.append(rows(0, d))
    else:
        values = sparse.coo_array(packed.values)
        seen = known[values.row] & (values.data != 0)
        columns = values.col[seen].astype(np.int64)
        kept.append(np.unique(columns * ld + labels[values.row[seen]]))
    if model.fit_intercept:
        kept.append(rows(d, d + 1))
    if model.boundary:
        kept.append(rows(d + 1, d + 3))
    if transitions:
        kept.append(rows(d + 3, d + 3 + n))
    else:
        both = known[:-1] & known[1:]
        both[packed.offsets[1:-1] - 1] = False
        pairs = labels[:-1][both] * ld + labels[1:][both]
        kept.append((d + 3) * ld + np.unique(pairs))
    return np.concatenate(kept)


def known_segments(data):
    """Runs of observed labels as sequences of their own, with their weights."""
    offsets, known = data.packed.offsets, data.known
    starts = known.copy()
    starts[1:] &= ~known[:-1]
    starts[offsets[:-1]] = known[offsets[:-1]]
    first = np.flatnonzero(starts)
    rows = np.flatnonzero(known)
    lengths = np.diff(np.append(np.searchsorted(rows, first), len(rows)))
    owner = np.searchsorted(offsets, first, "right") - 1
    weight = None
    if data.weight is not None:
        weight = data.weight[owner] / data.weight[owner].sum()
    return replace(
        data,
        packed=PackedSequences.from_lengths(_rows(data.packed, rows), lengths),
        labels=data.labels[rows],
        known=None,
        weight=weight,
        numbers=data.numbers[owner],
    )


def complete(data, weights, mask, n_jobs):
    """Labels with the unobserved ones replaced by the best at the given weights."""
    n_classes = len(data.classes)
    barred = np.zeros((len(data.labels), n_classes), dtype=np.uint8)
    barred[data.known] = 1
    barred[data.known, data.labels[data.known]] = 0
    model = BoundChain(data.packed, n_classes, mask=mask, barred=barred)
    model.read_from(weights)
    labels = np.empty_like(data.labels)
    scores = np.empty(len(data.packed))
    run_in_chunks(
        lambda a, b: model.predict(model.workspace(False), a, b, labels, scores),
        len(data.packed),
        n_jobs,
    )
    if not (scores > -np.inf).all():
        i = data.numbers[np.flatnonzero(scores == -np.inf)[0]]
        raise ValueError(
            f"y[{i}]: no labeling agrees with its known labels and "
            "forbidden_transitions"
        )
    return labels
