"""Inputs of models of segments: features of positions, and of candidate spans."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from sksstruct.models.graph.inputs import feature_rows
from sksstruct.utils.packed import PackedSequences, check_sequences

_NO_SPANS = np.empty((0, 2), dtype=np.intp)


class SegmentInputs(Sequence):
    """Features of many sequences in one matrix, and their candidate spans in another.

    Parameters
    ----------
    packed : PackedSequences
        Features of the positions.
    spans : ndarray of shape (n_spans, 2)
        Start and stop of the spans, sequence by sequence, and in each sequence ordered
        by stop.
    first_span : ndarray of shape (n_sequences + 1,)
        First span of each sequence, and the number of spans.
    features : csr_array of shape (n_spans, n_span_features) or None
        Features of the spans; None if no sequence has spans.
    """

    def __init__(self, packed, spans, first_span, features):
        self.packed, self.spans = packed, spans
        self.first_span, self.features = first_span, features

    @classmethod
    def read(cls, X, n_features=None, n_span_features=None):
        """Check inputs, as `sksstruct.models.SegmentModel` describes them.

        Parameters
        ----------
        X : list, PackedSequences, ndarray or SegmentInputs
            The inputs; `SegmentInputs` are returned as they are.
        n_features, n_span_features : int or None
            Numbers of features, if they are known.
        """
        if isinstance(X, cls):
            return X
        if isinstance(X, np.ndarray) and X.dtype == object:
            X = list(X)
        given = [None]
        if not isinstance(X, (PackedSequences, np.ndarray)) and isinstance(X, Sequence):
            given = [x if isinstance(x, tuple) else None for x in X]
        if all(x is None for x in given):
            packed = check_sequences(X, n_features=n_features, all_empty=True)
            nothing = np.zeros(len(packed) + 1, dtype=np.intp)
            return cls(packed, _NO_SPANS, nothing, None)
        for i, x in enumerate(given):
            if x is not None and len(x) != 3:
                raise ValueError(
                    f"X[{i}] must be a tuple (features, spans, span_features), or an "
                    f"array; got a tuple of {len(x)}"
                )
        rows = [
            x if parts is None else parts[0] for x, parts in zip(X, given, strict=True)
        ]
        packed = check_sequences(rows, n_features=n_features, all_empty=True)
        checked = [
            _checked_spans(*(parts or (None,) * 3)[1:], n, f"X[{i}]", n_span_features)
            for i, (parts, n) in enumerate(zip(given, packed.lengths, strict=True))
        ]
        features = [each for _, each in checked if each is not None]
        if len(widths := {each.shape[1] for each in features}) > 1:
            raise ValueError(f"X has spans of {sorted(widths)} features")
        spans = [each for each, _ in checked]
        return cls(
            packed,
            np.concatenate(spans),
            np.concatenate([[0], np.cumsum([len(each) for each in spans])]),
            sparse.vstack(features, format="csr") if features else None,
        )

    def __len__(self):
        return len(self.packed)

    def __getitem__(self, key):
        if isinstance(key, slice):
            return self.take(np.arange(*key.indices(len(self))))
        # indexing a range raises the IndexError that ends an iteration
        return self.take([range(len(self))[key]])

    def take(self, numbers):
        """Return the sequences with the given numbers, in the order of the numbers."""
        numbers = np.asarray(numbers, dtype=np.intp)
        if np.array_equal(numbers, np.arange(len(self))):
            return self
        counts = np.diff(self.first_span)[numbers]
        first_span = np.concatenate([[0], np.cumsum(counts)])
        rows = np.arange(first_span[-1]) + np.repeat(
            self.first_span[numbers] - first_span[:-1], counts
        )
        features = None if self.features is None else self.features[rows]
        if len(numbers) and (np.diff(numbers) == 1).all():
            # a slice of consecutive sequences shares the memory of the rows
            packed = self.packed[numbers[0] : numbers[-1] + 1]
        else:
            packed = self.packed.take(numbers)
        return SegmentInputs(packed, self.spans[rows], first_span, features)

    @property
    def n_span_features(self):
        """Number of features of spans; 0 if no sequence has spans."""
        return 0 if self.features is None else self.features.shape[1]

    def bound_spans(self, n_features, observed=None):
        """Return the spans in the form of `segment_sequences`, and their features.

        Parameters
        ----------
        n_features : int
            Number of features; if it is zero, there is one feature of zeros.
        observed : tuple of (starts, stops), default=None
            Segments that must be among the spans; positions count over all sequences.

        Returns
        -------
        features : csr_array
            Features of all spans.
        first_span, span_start, first_of_example : ndarray
            As in `segment_sequences`.
        longest : ndarray of shape (n_sequences,)
            Length of the longest span of each sequence, zero without spans.
        """
        offsets, lengths = self.packed.offsets, self.packed.lengths
        offset = np.repeat(offsets[:-1], np.diff(self.first_span))
        starts, stops = self.spans[:, 0] + offset, self.spans[:, 1] + offset
        features = self.features
        if features is None:
            features = sparse.csr_array((len(starts), max(n_features, 1)))
        if observed is not None:
            # encode each pair (start, stop) as one number
            key, observed_key = (
                a * (offsets[-1] + 1) + b for a, b in ((starts, stops), observed)
            )
            new = ~np.isin(observed_key, key)
            starts = np.concatenate([starts, observed[0][new]])
            stops = np.concatenate([stops, observed[1][new]])
            blank = sparse.csr_array((len(starts) - len(key), features.shape[1]))
            order = np.argsort(stops, kind="stable")
            features = sparse.vstack([features, blank], format="csr")[order]
            starts, stops = starts[order], stops[order]
        # number of spans of all sequences that stop at or before each position
        before = np.cumsum(np.bincount(stops, minlength=offsets[-1] + 1))
        which = np.repeat(np.arange(len(self)), lengths + 1)
        first = before[np.arange(len(which)) - which] - before[offsets[which]]
        example = np.searchsorted(offsets, starts, "right") - 1
        longest = np.zeros(len(self), dtype=np.intp)
        np.maximum.at(longest, example, stops - starts)
        return (
            features,
            first.astype(np.int32),
            (starts - offsets[example]).astype(np.int32),
            before[offsets],
            longest,
        )


def _checked_spans(spans, features, n_positions, name, n_features):
    """Check a sequence's spans and their features; return both, ordered by stop."""
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
    features = feature_rows(features, f"{name}: span_features", n_features)
    if features.shape[0] != len(spans):
        raise ValueError(
            f"{name} has {len(spans)} spans and {features.shape[0]} rows of "
            "span_features"
        )
    order = np.argsort(spans[:, 1], kind="stable")
    return spans[order].astype(np.intp), sparse.csr_array(features)[order]
