"""Forms of segmentations: labels of positions, tags, and lists of segments.

Segments of many sequences are read together: where they start and stop among the
positions of all sequences, and numbers of their labels.
"""

from collections.abc import Sized
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from sksstruct.utils._spans import SpanLabels, SpanSequence
from sksstruct.utils.labels import PackedLabels
from sksstruct.utils.validation import check_labels, encode_labels

# Roles of a position in its segment, in the order of the rows of scores, and the tags
# that they have: it begins the segment, is inside, ends it, or is all of it.
BEGIN, INSIDE, END, SINGLE = range(4)
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


def entries_of(y):
    """Distinct labels or tags of all positions; None if y has lists of segments."""
    if isinstance(y, PackedLabels):
        return set(y.classes.tolist())
    for i, each in enumerate(y):
        if isinstance(each, (str, bytes)) or not isinstance(each, Sized):
            raise ValueError(
                f"y[{i}] must be a list of labels, tags or segments, got {each!r:.80}"
            )
    rows = [each for each in y if len(each)]
    # not by an index: a pandas Series may have others
    if not rows or _is_segment(next(iter(rows[0]))):
        return None
    rows = (each.tolist() if isinstance(each, np.ndarray) else each for each in rows)
    try:
        return set().union(*rows)
    except TypeError:
        # which says where there is a label that is not hashable
        return set(check_labels(y, [len(each) for each in y]))


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


def read_segments(y, form, lengths, name="y"):
    """Segments of outputs.

    Parameters
    ----------
    y : list
        The outputs.
    form : {"segments", "tags", "labels"}
        Their form.
    lengths : ndarray of shape (n_sequences,)
        Numbers of positions.
    name : str, default="y"
        What errors call them.

    Returns
    -------
    segments : Segments
    """
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if form == "segments":
        return _listed(y, lengths, offsets, name)
    classes, codes, known = encode_labels(y, lengths)
    if known is not None:
        i = np.searchsorted(offsets, np.flatnonzero(~known)[0], "right") - 1
        raise ValueError(f"{name}[{i}] has a missing label: every label must be known")
    first = np.zeros(len(codes), dtype=bool)
    first[offsets[:-1][lengths > 0]] = True
    if form == "labels":
        starts = np.flatnonzero(first | (codes != np.roll(codes, 1)))
        stops = np.append(starts[1:], len(codes))
        return Segments(starts, stops, codes[starts], classes.tolist())
    spans = SpanLabels(classes.tolist(), lambda label: f"{name} has the label")
    starts, stops = SpanSequence(spans, codes, first).read()
    return Segments(starts, stops, spans.kinds[codes[starts]], spans.names)


def _listed(y, lengths, offsets, name):
    """Segments of checked lists."""
    rows, labels = [], {}
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
        raise TypeError(f"{name} has a label that is not hashable: {label!r}") from None
    # pandas' NA is neither equal nor unequal to anything
    if label is None or type(label).__name__ == "NAType" or label != label:
        raise ValueError(f"{name} has a segment with a missing label: {label!r}")


def ordered(y, n_positions, name):
    """Checked segments of a list, in order."""
    if isinstance(y, (str, bytes)) or not isinstance(y, Sized):
        raise ValueError(f"{name} must be a list of (start, stop, label), got {y!r}")
    found = []
    for entry in y:
        entry = entry.tolist() if isinstance(entry, np.ndarray) else entry
        if not _is_segment(entry):
            raise ValueError(
                f"{name} must be a list of (start, stop, label), got {entry!r}"
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


def labels_of_positions(y, form, lengths):
    """Labels or tags of all positions in a list; None outside of listed segments."""
    if form != "segments":
        return check_labels(y, lengths)
    if len(y) != len(lengths):
        raise ValueError(f"X has {len(lengths)} sequences, y has {len(y)}")
    out, segments = [None] * int(np.sum(lengths)), read_segments(y, form, lengths)
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
