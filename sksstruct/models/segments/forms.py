"""Forms of segmentations: labels of positions, tags, and lists of segments.

Segments of many sequences are arrays: first and last positions, counted over all
sequences, and numbers of labels.
"""

from collections.abc import Set, Sized
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from sksstruct.utils import _spans
from sksstruct.utils._spans import SpanLabels, SpanSequence
from sksstruct.utils.labels import PackedLabels, shown
from sksstruct.utils.validation import check_labels, encode_choices

# Roles of a position in its segment, in the order of the rows of scores and of the tags
# below: the first position, inside, the last, or the only one.
BEGIN, INSIDE, END, SINGLE = range(4)
# The label of positions outside of listed segments.
OUTSIDE = object()
LETTERS = {"BIO": "BIIB", "IOBES": "BIES", "BILOU": "BILU"}


@dataclass
class Segments:
    """Segments of many sequences in order; other positions are outside.

    Parameters
    ----------
    starts, stops : ndarray of intp
        Positions, counted over all sequences.
    numbers : ndarray of int
        Number of the label of each segment.
    labels : list
        The labels.
    """

    starts: np.ndarray
    stops: np.ndarray
    numbers: np.ndarray
    labels: list


class Outputs:
    """Outputs of many sequences, in any form, read and checked once.

    Parameters
    ----------
    lengths, numbers : ndarray of shape (n_sequences,)
        Numbers of positions, and numbers of the sequences in error messages.
    listed : Segments or None
        The segments, if outputs are lists of segments.
    classes, codes, known, choices : objects
        Otherwise the labels or tags, the result of `encode_choices`.
    """

    def __init__(self, lengths, numbers, listed, encoded=(None,) * 4):
        self.lengths, self.numbers, self.listed = lengths, numbers, listed
        self.classes, self.codes, self.known, self.choices = encoded
        self.offsets = np.concatenate([[0], np.cumsum(lengths)])

    @classmethod
    def read(cls, y, lengths, name="y"):
        """Check outputs of sequences of the given lengths."""
        numbers = np.arange(len(lengths))
        if not isinstance(y, PackedLabels):
            # a list ignores the index of a pandas Series: y[i] is the output of X[i]
            y = list(y)
            for i, each in enumerate(y):
                if isinstance(each, (str, bytes)) or not isinstance(each, Sized):
                    raise ValueError(
                        f"{name}[{i}] must be a list of labels, tags or segments, got "
                        f"{shown(each)!r:.80}"
                    )
            rows = [each for each in y if len(each)]
            if not rows or _is_segment(next(iter(rows[0]))):
                return cls(lengths, numbers, _listed(y, lengths, name))
        return cls(lengths, numbers, None, encode_choices(y, lengths))

    def __len__(self):
        return len(self.lengths)

    def take(self, numbers):
        """Return the outputs of the sequences with the given numbers, which ascend."""
        if len(numbers) == len(self):
            return self
        lengths = self.lengths[numbers]
        kept = np.zeros(len(self), dtype=bool)
        kept[numbers] = True
        positions = np.flatnonzero(np.repeat(kept, self.lengths))
        listed, names = self.listed, self.numbers[numbers]
        if listed is not None:
            where = kept[np.searchsorted(self.offsets, listed.starts, "right") - 1]
            starts = np.searchsorted(positions, listed.starts[where])
            stops = starts + (listed.stops - listed.starts)[where]
            rest = Segments(starts, stops, listed.numbers[where], listed.labels)
            return Outputs(lengths, names, rest)
        known = None if self.known is None else self.known[positions]
        if known is not None and known.all():
            known = None
        choices = self.choices
        choices = None if known is None or choices is None else choices[positions]
        encoded = self.classes, self.codes[positions], known, choices
        return Outputs(lengths, names, None, encoded)

    @property
    def entries(self):
        """Distinct labels or tags, including members of sets; None for segments."""
        if self.listed is not None:
            return None
        codes = self.codes if self.known is None else self.codes[self.known]
        if self.choices is not None:
            codes = np.concatenate([codes, self.choices.indices])
        return self.classes[np.unique(codes)].tolist()

    def labels_of_sets(self, form):
        """Return the labels that occur in sets, and perhaps in no known segment."""
        if self.choices is None:
            return []
        entries = self.classes[np.unique(self.choices.indices)].tolist()
        return entries if form == "labels" else SpanLabels(entries).names

    def counts(self, form, weight):
        """Return the weight of the known positions of each label and of the outside.

        The key of the outside is None.

        Parameters
        ----------
        form : str
            The result of `form_of`.
        weight : ndarray of shape (n_sequences,)
            Weights of the sequences.
        """
        if self.listed is not None:
            starts, sizes = self.listed.starts, self.listed.stops - self.listed.starts
            which = np.searchsorted(self.offsets, starts, "right") - 1
            names, numbers = self.listed.labels, self.listed.numbers
            found = np.bincount(numbers, weight[which] * sizes, len(names)).tolist()
            outside = float(weight @ self.lengths) - sum(found)
            return {**dict(zip(names, found, strict=True)), None: outside}
        known = slice(None) if self.known is None else self.known
        each = np.repeat(weight, self.lengths)[known]
        found = np.bincount(self.codes[known], each, len(self.classes)).tolist()
        counts = {}
        for label, count in zip(self.classes.tolist(), found, strict=True):
            if form == "tags":
                label = None if label == "O" else SpanLabels([label]).names[0]
            counts[label] = counts.get(label, 0.0) + count
        return counts

    @property
    def partial(self):
        """Whether each sequence has a position that is not known."""
        if self.known is None:
            return np.zeros(len(self), dtype=bool)
        unknown = np.concatenate([[0], np.cumsum(~self.known)])
        return np.diff(unknown[self.offsets]) > 0

    def _joined(self, codes):
        """Return codes of positions: unknown ones continue the segment before them.

        Lengths are learned from the resulting segments, which are as long as possible.
        A set of labels, which may lack the label before it, has the code -1, and so
        have unknown positions after a set. Unknown positions at the start of a sequence
        belong to its first segment.
        """
        codes = np.where(self.known, codes, -1)
        fixed = self.known.copy()
        if self.choices is not None:
            # a set starts a new run, as it may lack the label before it
            fixed |= np.diff(self.choices.indptr) > 0
        for first, last in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            places = first + np.flatnonzero(fixed[first:last])
            if len(places):
                # the first run includes unknown positions before it
                runs = np.diff(places, append=last)
                runs[0] += places[0] - first
                codes[first:last] = np.repeat(codes[places], runs)
        return codes

    def segments(self, form):
        """Return the segments of outputs of a form; other forms raise an error."""
        if (self.listed is None) == (form == "segments") and self.offsets[-1]:
            other = "(start, stop, label)" if form == "segments" else form
            raise ValueError(f"y must be lists of {other}, as in fit")
        if self.listed is not None:
            return self.listed
        classes, codes = self.classes.tolist(), self.codes
        first = np.zeros(len(codes), dtype=bool)
        first[self.offsets[:-1][self.lengths > 0]] = True
        if form == "labels":
            codes = codes if self.known is None else self._joined(codes)
            starts = np.flatnonzero(first | (codes != np.roll(codes, 1)))
            stops = np.append(starts[1:], len(codes))
            is_known = codes[starts] >= 0
            return Segments(
                starts[is_known], stops[is_known], codes[starts[is_known]], classes
            )
        spans = SpanLabels(classes, lambda label: "y has the label")
        if self.known is not None:
            codes = _forced(spans, codes, self.known, first)
            kinds = [f"{letter}-{name}" for letter in "BI" for name in spans.names]
            spans = SpanLabels([*classes, "O", *kinds])
        starts, stops = SpanSequence(spans, codes, first).read()
        return Segments(starts, stops, spans.kinds[codes[starts]], spans.names)


def _is_segment(entry):
    """Return whether an entry is (start, stop, label), and not a tuple as a label."""
    if not isinstance(entry, (tuple, list, np.ndarray)) or len(entry) != 3:
        return False
    return all(isinstance(place, Integral) for place in entry[:2])


def form_of(entries):
    """Return the form of outputs with given entries: "segments", "tags" or "labels"."""
    if entries is None:
        return "segments"
    if not any(isinstance(label, str) and label[1:2] == "-" for label in entries):
        return "labels"
    try:
        SpanLabels(entries)
    except ValueError:
        return "labels"
    return "tags"


def scheme_of(entries):
    """Return the scheme of tags: "BIO", "IOBES" or "BILOU"."""
    scheme = SpanLabels(sorted(entries)).scheme()
    if scheme not in LETTERS:
        raise ValueError(
            f"y has tags of the scheme {scheme}: bring them to one of "
            f"{', '.join(LETTERS)} with sksstruct.metrics.convert_labels"
        )
    return scheme


def _forced(spans, codes, known, first):
    """Return codes of tags, in which unknown tags are outside unless a neighboring tag
    forces a kind.

    An unknown tag before a continued segment may begin the segment, and an unknown tag
    after an unfinished segment is inside it. The codes of `spans` are followed by one
    code of the outside, and codes of B- and then of I- with each kind.
    """
    n, n_kinds = len(spans.labels), len(spans.names)
    parts, kinds = spans.parts[codes], spans.kinds[codes]
    out = np.where(known, codes, n)
    goes_on = known & ((parts == _spans.INSIDE) | (parts == _spans.END)) & ~first
    before = np.flatnonzero(goes_on) - 1
    before = before[~known[before]]
    out[before] = n + 1 + kinds[before + 1]
    if {"E", "L"} & set(spans.letters):
        stays_open = known & ((parts == _spans.BEGIN) | (parts == _spans.INSIDE))
        stays_open &= ~np.append(first[1:], True)
        after = np.flatnonzero(stays_open) + 1
        after = after[~known[after]]
        out[after] = n + 1 + n_kinds + kinds[after - 1]
    return out


def read_segments(y, form, lengths, name="y"):
    """Return the `Segments` of outputs of a form; unknown positions are an error."""
    outputs = Outputs.read(y, lengths, name)
    if outputs.partial.any():
        i = int(np.argmax(outputs.partial))
        raise ValueError(f"{name}[{i}] has a missing label: every label must be known")
    return outputs.segments(form)


def _listed(y, lengths, name):
    """Check lists of segments; return the segments in one object."""
    rows, labels, offsets = [], {}, np.cumsum(lengths) - lengths
    for i, each in enumerate(y):
        for start, stop, label in ordered(each, lengths[i], f"{name}[{i}]"):
            _check_label(label, f"{name}[{i}]")
            number = labels.setdefault(label, len(labels))
            rows.append((start + offsets[i], stop + offsets[i], number))
    rows = np.array(rows, dtype=np.intp).reshape(-1, 3)
    return Segments(*rows.T, list(labels))


def _check_label(label, name):
    """Raise an error if the label of a segment is missing, or not hashable."""
    try:
        hash(label)
    except TypeError:
        raise TypeError(
            f"{name} has a label that is not hashable: {shown(label)!r:.80}"
        ) from None
    if isinstance(label, Set):
        raise TypeError(f"{name} has a segment with a set of labels: {label!r:.80}")
    # pandas' NA compares neither equal nor unequal
    if label is None or type(label).__name__ == "NAType" or label != label:
        raise ValueError(
            f"{name} has a segment with a missing label: {shown(label)!r:.80}"
        )


def ordered(y, n_positions, name):
    """Check the segments of one sequence, and return them sorted by position."""
    if isinstance(y, (str, bytes)) or not isinstance(y, Sized):
        raise ValueError(
            f"{name} must be a list of (start, stop, label), got {shown(y)!r:.80}"
        )
    found = []
    for entry in y:
        entry = entry.tolist() if isinstance(entry, np.ndarray) else entry
        if not _is_segment(entry):
            raise ValueError(
                f"{name} must be a list of (start, stop, label), got "
                f"{shown(entry)!r:.80}"
            )
        found.append((int(entry[0]), int(entry[1]), entry[2]))
    found.sort(key=lambda segment: segment[:2])
    last = 0
    for start, stop, _ in found:
        if start < last or stop <= start:
            raise ValueError(
                f"{name}: the segment from {start} to {stop} is empty, or overlaps "
                "another one"
            )
        last = stop
    if last > n_positions:
        raise ValueError(
            f"{name}: a segment stops at {last}, the sequence has {n_positions} "
            "positions"
        )
    return found


def labels_of_positions(y, form, lengths, partly=False):
    """Return labels or tags of all positions as a list.

    Positions outside of listed segments have the label `OUTSIDE`.

    With `partly`, labels and tags may be None or frozensets, as in `check_labels`.
    """
    if form != "segments":
        return check_labels(y, lengths, unknown=partly, sets=partly)
    if len(y) != len(lengths):
        raise ValueError(f"X has {len(lengths)} sequences, y has {len(y)}")
    out, segments = [OUTSIDE] * int(np.sum(lengths)), read_segments(y, form, lengths)
    positions, segment = positions_of(segments.starts, segments.stops)
    numbers = segments.numbers[segment].tolist()
    for t, number in zip(positions.tolist(), numbers, strict=True):
        out[t] = segments.labels[number]
    return out


def positions_of(starts, stops):
    """Return all positions of segments, and the segment's number at each position."""
    lengths = stops - starts
    segment = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(len(segment)) + (starts - before)[segment], segment


def as_tags(segments, scheme, n_positions):
    """Return the tags of all positions as an array.

    Parameters
    ----------
    segments : Segments
        The segments; all other positions are outside.
    scheme : str
        The scheme of the tags.
    n_positions : int
        Number of positions of all sequences.
    """
    # the label "_" stands for tags of a letter alone
    endings = ["" if label == "_" else f"-{label}" for label in segments.labels]
    tags = ["O", *(letter + e for e in endings for letter in LETTERS[scheme])]
    positions, segment = positions_of(segments.starts, segments.stops)
    begins = positions == segments.starts[segment]
    ends = positions == segments.stops[segment] - 1
    role = np.where(begins, np.where(ends, SINGLE, BEGIN), np.where(ends, END, INSIDE))
    codes = np.zeros(n_positions, dtype=np.intp)
    codes[positions] = 1 + 4 * segments.numbers[segment] + role
    return np.array(tags)[codes]
