"""Forms of segmentations: labels of positions, tags, and lists of segments.

Segments of many sequences are read together: where they start and stop among the
positions of all sequences, and numbers of their labels.
"""

from collections.abc import Set, Sized
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from sksstruct.utils import _spans
from sksstruct.utils._spans import SpanLabels, SpanSequence
from sksstruct.utils.labels import PackedLabels, shown
from sksstruct.utils.validation import check_labels, encode_choices

# Roles of a position in its segment, in the order of the rows of scores, and the tags
# that they have: it begins the segment, is inside, ends it, or is all of it.
BEGIN, INSIDE, END, SINGLE = range(4)
# What positions outside of listed segments have for a label.
OUTSIDE = object()
LETTERS = {"BIO": "BIIB", "IOBES": "BIES", "BILOU": "BILU"}


@dataclass
class Segments:
    """Segments of many sequences, one after the other, without what is outside.

    Parameters
    ----------
    starts, stops : ndarray of intp
        Positions among those of all sequences.
    numbers : ndarray of int
        Number of the label of each.
    labels : list
        The labels.
    """

    starts: np.ndarray
    stops: np.ndarray
    numbers: np.ndarray
    labels: list


class Outputs:
    """Outputs of many sequences, whatever their form is, read and checked once.

    Parameters
    ----------
    lengths, numbers : ndarray of shape (n_sequences,)
        Numbers of positions, and what the sequences are called in errors.
    listed : Segments or None
        The segments, if they are listed.
    classes, codes, known, choices : objects
        Otherwise the labels or tags, as of `encode_choices`.
    """

    def __init__(self, lengths, numbers, listed, encoded=(None,) * 4):
        self.lengths, self.numbers, self.listed = lengths, numbers, listed
        self.classes, self.codes, self.known, self.choices = encoded
        self.offsets = np.concatenate([[0], np.cumsum(lengths)])

    @classmethod
    def read(cls, y, lengths, name="y"):
        """Check outputs of sequences of these lengths."""
        numbers = np.arange(len(lengths))
        if not isinstance(y, PackedLabels):
            # by place, and not by the index of a pandas Series
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
        """The outputs of some sequences, whose numbers ascend."""
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
        """Distinct labels or tags, those of sets included; None if segments."""
        if self.listed is not None:
            return None
        codes = self.codes if self.known is None else self.codes[self.known]
        if self.choices is not None:
            codes = np.concatenate([codes, self.choices.indices])
        return self.classes[np.unique(codes)].tolist()

    def labels_of_sets(self, form):
        """Labels that sets name, which no segment may have."""
        if self.choices is None:
            return []
        entries = self.classes[np.unique(self.choices.indices)].tolist()
        return entries if form == "labels" else SpanLabels(entries).names

    def counts(self, form, weight):
        """Weight of the positions of each label, and of None, the outside, where known.

        Parameters
        ----------
        form : str
            As of `form_of`.
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
        """Whether some of a sequence is not known, for each."""
        if self.known is None:
            return np.zeros(len(self), dtype=bool)
        unknown = np.concatenate([[0], np.cumsum(~self.known)])
        return np.diff(unknown[self.offsets]) > 0

    def _joined(self, codes):
        """Labels of positions; those that are not known go on from the one before.

        Lengths are learned from segments, and none may be too short. A set, which may
        not have the label, is -1, as is what follows it.
        """
        codes = np.where(self.known, codes, -1)
        fixed = self.known.copy()
        if self.choices is not None:
            # a set that may have the label, or not
            fixed |= np.diff(self.choices.indptr) > 0
        for first, last in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            places = first + np.flatnonzero(fixed[first:last])
            if len(places):
                # before the first label, too
                runs = np.diff(places, append=last)
                runs[0] += places[0] - first
                codes[first:last] = np.repeat(codes[places], runs)
        return codes

    def segments(self, form):
        """Segments of outputs of a form; what is not known is in none of them."""
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
            some = codes[starts] >= 0
            return Segments(starts[some], stops[some], codes[starts[some]], classes)
        spans = SpanLabels(classes, lambda label: "y has the label")
        if self.known is not None:
            codes = _forced(spans, codes, self.known, first)
            kinds = [f"{letter}-{name}" for letter in "BI" for name in spans.names]
            spans = SpanLabels([*classes, "O", *kinds])
        starts, stops = SpanSequence(spans, codes, first).read()
        return Segments(starts, stops, spans.kinds[codes[starts]], spans.names)


def _is_segment(entry):
    """Whether an entry is (start, stop, label); labels may be tuples, too."""
    if not isinstance(entry, (tuple, list, np.ndarray)) or len(entry) != 3:
        return False
    return all(isinstance(place, Integral) for place in entry[:2])


def form_of(entries):
    """The form of outputs with these entries: "segments", "tags" or "labels"."""
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
    """The scheme of tags."""
    scheme = SpanLabels(sorted(entries)).scheme()
    if scheme not in LETTERS:
        raise ValueError(
            f"y has tags of the scheme {scheme}: bring them to one of "
            f"{', '.join(LETTERS)} with sksstruct.metrics.convert_labels"
        )
    return scheme


def _forced(spans, codes, known, first):
    """Codes where some tags are not known: outside, unless a neighbor tells more.

    What a segment that goes on must have before it may begin it, and what one that is
    not over must have after it is inside. After the codes of `spans` comes that of the
    outside, and then those of B- and of I- with each kind.
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
    """`Segments` of outputs of a form, all of which is known."""
    outputs = Outputs.read(y, lengths, name)
    if outputs.partial.any():
        i = int(np.argmax(outputs.partial))
        raise ValueError(f"{name}[{i}] has a missing label: every label must be known")
    return outputs.segments(form)


def _listed(y, lengths, name):
    """Segments of checked lists."""
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
    # pandas' NA is neither equal nor unequal to anything
    if label is None or type(label).__name__ == "NAType" or label != label:
        raise ValueError(
            f"{name} has a segment with a missing label: {shown(label)!r:.80}"
        )


def ordered(y, n_positions, name):
    """Checked segments of a list, in order."""
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
    """Labels or tags of all positions in a list; `OUTSIDE` of listed segments.

    With `partly`, labels and tags may be None or frozensets, as of `check_labels`.
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
    """All positions of segments, and the number of the segment of each."""
    lengths = stops - starts
    segment = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(len(segment)) + (starts - before)[segment], segment


def as_tags(segments, scheme, n_positions):
    """Tags of all positions, as an array.

    Parameters
    ----------
    segments : Segments
        What is not outside.
    scheme : str
        The scheme of the tags.
    n_positions : int
        Number of positions of all sequences.
    """
    # of the form "_" for letters alone
    endings = ["" if label == "_" else f"-{label}" for label in segments.labels]
    tags = ["O", *(letter + e for e in endings for letter in LETTERS[scheme])]
    positions, segment = positions_of(segments.starts, segments.stops)
    begins = positions == segments.starts[segment]
    ends = positions == segments.stops[segment] - 1
    role = np.where(begins, np.where(ends, SINGLE, BEGIN), np.where(ends, END, INSIDE))
    codes = np.zeros(n_positions, dtype=np.intp)
    codes[positions] = 1 + 4 * segments.numbers[segment] + role
    return np.array(tags)[codes]
