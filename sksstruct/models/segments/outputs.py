"""Outputs of segments: as integers, as users see them, and their losses."""

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from sksstruct.models.normalization import divisor
from sksstruct.models.segments.forms import (
    Segments,
    as_tags,
    labels_of_positions,
    positions_of,
    read_segments,
)
from sksstruct.models.segments.known import partial_labelings
from sksstruct.models.structured import as_list
from sksstruct.utils.observed import check_any_known, observed
from sksstruct.utils.validation import LabelEncoder, check_weight


class SegmentOutputs:
    """Methods of `SegmentModel` that convert its outputs and compute their losses."""

    # ---- outputs as integers ----

    def _outputs(self, X, y):
        out, partial = [None] * len(y), y.partial
        incomplete, whole = np.flatnonzero(partial), np.flatnonzero(~partial)
        if len(whole):
            rest = y.take(whole)
            segments = rest.segments(self.form_)
            found = self._labelings(segments, rest.lengths, "y", rest.numbers)
            out = in_places(whole, found, out)
        if len(incomplete):
            out = in_places(
                incomplete, partial_labelings(self, y.take(incomplete)), out
            )
        return out

    def _output(self, x, y, name):
        lengths = x.packed.lengths
        segments = read_segments([y], self.form_, lengths, name)
        return self._labelings(segments, lengths, name, np.zeros(1, dtype=int))[0]

    def _numbers_of(self, segments, name):
        """Return the label numbers of segments; the outside, if any, has number 0."""
        index = LabelEncoder(self.classes_)
        numbers = index.encode(segments.labels, default=-1)
        if (numbers[segments.numbers] < 0).any():
            label = segments.labels[segments.numbers[numbers[segments.numbers] < 0][0]]
            raise ValueError(f"{name} has the label {label!r:.80}, not in classes_")
        return numbers[segments.numbers] + self.outside_

    def _labelings(self, segments, lengths, name, sequences):
        """Return the labelings of segments as the integers of `SegmentSequences`."""
        numbers = self._numbers_of(segments, name)
        out = np.zeros(int(np.sum(lengths)), dtype=np.int32)
        positions, segment = positions_of(segments.starts, segments.stops)
        out[positions] = -1 - numbers[segment]
        out[segments.starts] = numbers
        sizes, offsets = segments.stops - segments.starts, np.cumsum(lengths)
        limits = self.shortest_[numbers], self.longest_[numbers]
        bounds = set()
        if self.boundary_lengths != "same":
            bounds = {0, *offsets.tolist()}
        for k in np.flatnonzero((sizes < limits[0]) | (sizes > limits[1])):
            start, stop = int(segments.starts[k]), int(segments.stops[k])
            for first, last in _pieces(start, stop, limits[1][k]):
                if last - first < limits[0][k] and not bounds & {first, last}:
                    i = int(np.searchsorted(offsets, start, "right"))
                    start, stop = (
                        t + int(lengths[i] - offsets[i]) for t in (start, stop)
                    )
                    raise ValueError(
                        f"{name}[{sequences[i]}] has a segment of "
                        f"{segments.labels[segments.numbers[k]]!r:.80} from {start} to "
                        f"{stop}, which has no pieces of {limits[0][k]} to "
                        f"{limits[1][k]} positions, min_length and max_length"
                    )
                out[first] = numbers[k]
        return np.split(out, offsets[:-1])

    def _labeling(self, x, y):
        return y

    def _segments_of(self, labelings):
        """Return starts, stops and label numbers of the segments of labelings.

        The labelings are the integers of consecutive sequences; positions outside are
        segments, too.
        """
        starts = np.flatnonzero(labelings >= 0)
        stops = np.append(starts[1:], len(labelings))
        return starts, stops, labelings[starts]

    def _shown_all(self, X, labelings, offsets):
        starts, stops, numbers = self._segments_of(labelings)
        if self.form_ == "labels":
            return np.split(
                self.classes_[np.repeat(numbers, stops - starts)], offsets[1:-1]
            )
        inside = numbers >= self.outside_
        starts, stops = starts[inside], stops[inside]
        numbers = numbers[inside] - self.outside_
        labels = self.classes_.tolist()
        if self.form_ == "tags":
            found = Segments(starts, stops, numbers, labels)
            tags = as_tags(found, self.scheme_, len(labelings))
            return np.split(tags, offsets[1:-1])
        which = np.searchsorted(offsets, starts, "right") - 1
        rows = np.column_stack([starts - offsets[which], stops - offsets[which]])
        flat = [
            (a, b, labels[k])
            for (a, b), k in zip(rows.tolist(), numbers.tolist(), strict=True)
        ]
        ends = np.searchsorted(which, np.arange(len(offsets))).tolist()
        return [flat[a:b] for a, b in itertools.pairwise(ends)]

    def _shown(self, x, labeling):
        return self._shown_all(x, labeling, np.array([0, len(labeling)]))[0]

    def _blank(self):
        """Return the output of a sequence without positions."""
        return self._shown(None, np.empty(0, dtype=np.int32))

    # ---- losses ----

    def loss(self, y: Any, y_hat: Any) -> float:
        n = [len(each) for each in (y, y_hat)]
        if self.form_ == "segments":
            n = [max((stop for _, stop, _ in each), default=1) for each in (y, y_hat)]
        return self._loss_of(y, y_hat, max(n))

    def _loss_at(self, x, y, y_hat):
        return self._loss_of(y, y_hat, self._input(x, "x").packed.offsets[-1])

    def _loss_of(self, y, y_hat, size):
        """Return the loss of the output y_hat for a sequence of `size` positions.

        Unknown labels of y have no loss, whatever was predicted.
        """
        known = np.ones(size, dtype=bool)
        if self.form_ != "segments":
            flat = (
                labels_of_positions([each], self.form_, [size], partly)
                for each, partly in ((y, True), (y_hat, False))
            )
            y, known = observed(*flat)
        read = (
            read_segments([each], self.form_, np.array([size])) for each in (y, y_hat)
        )
        true, found = (
            [
                (a, b, each.labels[k])
                for a, b, k in zip(
                    each.starts.tolist(),
                    each.stops.tolist(),
                    each.numbers.tolist(),
                    strict=True,
                )
            ]
            for each in read
        )
        if self._counts_segments:
            wrong = len(set(true) ^ set(found))
        else:
            places = [self._places(each, size) for each in (true, found)]
            wrong = np.array([a != b for a, b in zip(*places, strict=True)]) & known
            wrong = (wrong * self._costs_of(places[0])).sum()
        n_known = max(int(known.sum()), 1)
        return float(wrong / divisor(self.loss_normalization, n_known, self.mean_size_))

    def _score(self, X, y, predicted, sample_weight=None):
        y = as_list("y", y)
        if self.form_ != "segments":
            # sequences without a known label have no loss
            said = [not len(row) or any(k is not None for k in row) for row in y]
            check_any_known(said, "y")
            sample_weight = check_weight(sample_weight, len(y)) * said
        return super()._score(X, y, predicted, sample_weight)

    def _places(self, segments, n_positions):
        """Return for each position its label, and with roles its role in the segment.

        The role is (whether the position is first, whether it is last).
        """
        out = [None] * n_positions
        for start, stop, label in segments:
            for t in range(start, stop):
                place = (t == start, t == stop - 1) if self._has_roles else None
                out[t] = label, place
        return out

    def _costs_of(self, places):
        """Return the cost of an error at each position, for the result of `_places`."""
        names = [None] * self.outside_ + self.classes_.tolist()
        costs = dict(zip(names, self.costs_.tolist(), strict=True))
        return [costs.get(place and place[0], 1.0) for place in places]

    def labelings(self, x: Any) -> Iterable:
        x = self._input(x, "x")
        size = x.packed.offsets[-1]
        allowed = self._allowed(size), self._at_boundary(size)
        for labeling in _segmentations(size, *allowed):
            labeling = np.array(labeling, dtype=np.int32)
            labels = self._segments_of(labeling)[2]
            if self._repeats or (labels[1:] != labels[:-1]).all():
                yield self._shown(x, labeling)


def in_places(numbers, values, blank):
    """Return a copy of the list `blank`, with values[k] at the index numbers[k]."""
    out = list(blank)
    for i, value in zip(numbers, values, strict=True):
        out[i] = value
    return out


def _pieces(start, stop, longest):
    """Return the bounds of pieces of a segment, each of at most `longest` positions.

    The lengths of the pieces differ by at most one.
    """
    n_pieces = -(-(stop - start) // longest)
    places = start + (stop - start) * np.arange(n_pieces + 1) // n_pieces
    return itertools.pairwise(places.tolist())


def _segmentations(n_positions, allowed, at_boundary, first=True):
    """Yield all labelings of `n_positions` positions, as lists of integers.

    `at_boundary` has the allowed lengths of the first and the last segment; None:
    the lengths in `allowed`.
    """
    if not n_positions:
        yield []
        return
    for length in range(1, min(n_positions, len(allowed)) + 1):
        row = allowed[length - 1]
        if at_boundary is not None and (first or length == n_positions):
            row = at_boundary[length - 1]
        for rest in _segmentations(n_positions - length, allowed, at_boundary, False):
            for label in np.flatnonzero(row).tolist():
                yield [label, *[-1 - label] * (length - 1), *rest]
