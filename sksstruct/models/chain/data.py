"""Training data of chains: checked, encoded, and without sequences of weight zero."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from sksstruct.models.scale import ColumnMoments
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.validation import (
    check_sequence_weight,
    check_sequences,
    encode_choices,
)

# Number of positions in a batch: arrays of all positions may not fit in memory.
_BATCH = 2**20


@dataclass
class TrainingData:
    """Sequences of positive weight with encoded labels.

    Parameters
    ----------
    packed : PackedSequences
        Features.
    labels : ndarray of shape (n_positions,), int32
        Numbers of the labels; 0 where the label was not observed.
    known : ndarray of shape (n_positions,), bool, or None
        Whether each label was observed; None: all were.
    weight : ndarray of shape (n_sequences,) or None
        Weights that sum to one.
    classes : ndarray of shape (n_classes,)
        The labels.
    total : float
        Total weight, or number, of the sequences before normalization.
    numbers : ndarray of shape (n_sequences,), int
        Index of each sequence in the user's data.
    choices : csr_array of shape (n_positions, n_classes) or None
        For some positions a set of labels, one of which is right; these positions
        count as unobserved.
    """

    packed: PackedSequences
    labels: np.ndarray
    known: np.ndarray | None
    weight: np.ndarray | None
    classes: np.ndarray
    total: float
    numbers: np.ndarray
    choices: sparse.csr_array | None = None

    @classmethod
    def read(cls, X, y, sample_weight):
        """Check and encode the arguments of `fit`."""
        packed = check_sequences(X)
        classes, labels, known, choices = encode_choices(y, packed.lengths)
        weight = check_sequence_weight(sample_weight, len(packed))
        check_classes(classes)
        return cls.of_labels(packed, labels, known, weight, classes, choices)

    @classmethod
    def read_part(cls, X, y, sample_weight, unknown=False):
        """Check and encode a part of the data, without normalizing its weights."""
        packed = check_sequences(X, all_empty=True)
        classes, labels, known, choices = encode_choices(y, packed.lengths)
        if known is not None and not unknown:
            i = np.searchsorted(packed.offsets, np.flatnonzero(~known)[0], "right") - 1
            raise ValueError(
                f"y[{i}] has a missing label: completing labels needs all data; with "
                "parts leave the sequence out, or use loss='log' and solver='lbfgs'"
            )
        weight = check_sequence_weight(sample_weight, len(packed), all_zero=True)
        if weight is None:
            weight = np.ones(len(packed))
        return cls.of_labels(
            packed, labels, known, weight, classes, choices, all_zero=True
        )

    @classmethod
    def of_labels(
        cls, packed, labels, known, weight, classes, choices=None, *, all_zero=False
    ):
        """Return data with encoded labels, without empty sequences."""
        packed, numbers = packed.without_empty()
        if weight is not None:
            weight = weight[numbers]
            if not weight.any() and not all_zero:
                raise ValueError(
                    "sample_weight is zero for every sequence that has positions"
                )
        n = len(packed)
        return cls(packed, labels, known, weight, classes, float(n), numbers, choices)

    def with_classes(self, numbers, classes):
        """Return the data with new label numbers, as `classes` may have more labels."""
        choices = self.choices
        if choices is not None:
            parts = choices.data, numbers[choices.indices], choices.indptr
            choices = sparse.csr_array(parts, (choices.shape[0], len(classes)))
            choices.sort_indices()
        labels = numbers[self.labels]
        return replace(self, labels=labels, classes=classes, choices=choices)

    def between(self, first, last):
        """Return the sequences first <= i < last, with their weights in all data."""
        rows = slice(*self.packed.offsets[[first, last]])
        if self.weight is None:
            weight = np.full(last - first, 1.0 / len(self.packed))
        else:
            weight = self.weight[first:last]
        return replace(
            self,
            packed=self.packed[first:last],
            labels=self.labels[rows],
            known=None if self.known is None else self.known[rows],
            choices=None if self.choices is None else self.choices[rows],
            weight=weight,
            numbers=self.numbers[first:last],
        )

    def known_lengths(self):
        """Return the number of observed labels of each sequence."""
        if self.known is None:
            return self.packed.lengths
        return np.add.reduceat(self.known, self.packed.offsets[:-1], dtype=int)

    def mean_length(self):
        """Return the mean number of observed labels of a sequence, by weight."""
        return float(np.average(self.known_lengths(), weights=self.weight))

    def moments(self):
        """Return moments of the features, weighted by sequence."""
        weight = self.weight
        if weight is not None:
            weight = np.repeat(weight, self.packed.lengths)
        moments = ColumnMoments.of(self.packed.values, weight)
        if self.packed.is_mapped:
            # features in files are not centered, as centering would copy them to memory
            moments.filled[:] = 0.0
        return moments

    def label_weights(self):
        """Return the weight of the positions of each label."""
        weight = self.weight
        if weight is None:
            weight = np.ones(len(self.packed))
        weight = np.repeat(weight, self.packed.lengths)
        if self.known is not None:
            weight = weight * self.known
        return np.bincount(self.labels, weights=weight, minlength=len(self.classes))

    def n_pairs_seen(self):
        """Return the number of distinct pairs of neighboring labels.

        Unknown labels count as label 0.
        """
        n = len(self.classes)
        seen = np.zeros(n * n, dtype=bool)
        # the last label of a sequence and the first label of the next one are no pair
        ends = self.packed.offsets[1:-1] - 1
        for first in range(0, len(self.labels) - 1, _BATCH):
            labels = self.labels[first : first + _BATCH + 1].astype(np.int64)
            here = ends[slice(*np.searchsorted(ends, [first, first + len(labels) - 1]))]
            seen[np.delete(labels[:-1] * n + labels[1:], here - first)] = True
        return int(np.count_nonzero(seen))

    def without_zeros(self):
        """Return the data without sequences of weight zero; the weights sum to one."""
        if self.weight is None:
            return self
        packed, labels, known = self.packed, self.labels, self.known
        choices = self.choices
        keep = np.flatnonzero(self.weight)
        if len(keep) < len(self.weight):
            lengths = packed.lengths
            rows = np.repeat(self.weight > 0, lengths)
            labels = labels[rows]
            known = None if known is None else known[rows]
            choices = None if choices is None else choices[rows]
            packed = PackedSequences.from_lengths(rows_of(packed, rows), lengths[keep])
        total = float(self.weight.sum())
        return replace(
            self,
            packed=packed,
            labels=labels,
            known=known,
            choices=choices,
            weight=self.weight[keep] / total,
            total=total,
            numbers=self.numbers[keep],
        )


def check_classes(classes):
    """Raise an error for labels of a single class."""
    if len(classes) == 1:
        raise ValueError(
            f"y has a single class, {classes.tolist()[0]!r:.80}: training needs at "
            "least 2"
        )


def rows_of(packed, rows):
    """Return the features of some positions."""
    values = packed.values[rows]
    return sparse.csr_array(values) if sparse.issparse(values) else values


def existing_weights(model, data, states, transitions):
    """Return indices of the flat weights that exist, or None for all.

    Without all possible states or transitions, a pair of a feature and a label, or of
    two labels, has a weight only if the data contain it. An explicit zero of a sparse
    array counts as a feature, as in CRFsuite.
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
        values = packed.values
        if packed.is_mixed:
            values, dense = values.sparse, values.dense
            for k in range(n):
                found = (dense[known & (labels == k)] != 0).any(axis=0)
                kept.append(packed.values.columns[found].astype(np.int64) * ld + k)
        values = sparse.coo_array(values)
        seen = known[values.row]
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
    return np.concatenate([*kept, seen_weights(model)])


def seen_weights(model):
    """Return indices of the weights of features on pairs of labels, and of triples.

    All of these weights exist: their supports contain seen or requested weights only.
    """
    return model.first_pair + np.arange(model.n_pair_weights + model.n_triples)
