"""Forms of segmentations: labels of positions, tags, and lists of segments."""

from collections.abc import Sized

import numpy as np

from sksstruct.utils._spans import SpanLabels, SpanSequence
from sksstruct.utils.validation import LabelEncoder

# Tags of a position of a segment: begins it, is inside, ends it, or is all of it.
_LETTERS = {"BIO": "BIIB", "IOBES": "BIES", "BILOU": "BILU"}


def form_of(y):
    """The form of training outputs: "segments", "tags" or "labels"."""
    for i, each in enumerate(y):
        if isinstance(each, (str, bytes)) or not isinstance(each, Sized):
            raise ValueError(
                f"y[{i}] must be a list of labels, tags or segments, got {each!r:.80}"
            )
    entries = [each[0] for each in y if len(each)]
    if not entries or isinstance(entries[0], (tuple, list, np.ndarray)):
        return "segments"
    labels = {label for each in y for label in np.asarray(each, dtype=object).tolist()}
    if not any(isinstance(label, str) and label[1:2] == "-" for label in labels):
        return "labels"
    try:
        SpanLabels(labels)
    except ValueError:
        return "labels"
    return "tags"


def scheme_of(y):
    """The scheme of tags."""
    scheme = SpanLabels(dict.fromkeys(tag for each in y for tag in each)).scheme()
    if scheme not in _LETTERS:
        raise ValueError(
            f"y has tags of the scheme {scheme}: bring them to one of "
            f"{', '.join(_LETTERS)} with sksstruct.metrics.convert_labels"
        )
    return scheme


def read_segments(y, form, n_positions, name):
    """Segments of one output.

    Parameters
    ----------
    y : object
        The output.
    form : {"segments", "tags", "labels"}
        Its form.
    n_positions : int or None
        Length of the sequence; None: not known.
    name : str
        What errors call it.

    Returns
    -------
    segments : list of (start, stop, label)
        In order, and without what is outside.
    """
    if form == "segments":
        return _listed(y, n_positions, name)
    labels = y.tolist() if isinstance(y, np.ndarray) else list(y)
    if n_positions is not None and len(labels) != n_positions:
        raise ValueError(
            f"{name} has {len(labels)} labels, the sequence has {n_positions} positions"
        )
    if form == "labels":
        return _runs(labels)
    index = {label: k for k, label in enumerate(dict.fromkeys(labels))}
    spans = SpanLabels(index, lambda label: f"{name} has the label")
    codes = np.array([index[label] for label in labels], dtype=np.intp)
    first = np.zeros(len(codes), dtype=bool)
    first[:1] = True
    starts, stops = SpanSequence(spans, codes, first).read()
    kinds = [spans.names[kind] for kind in spans.kinds[codes[starts]]]
    return list(zip(starts.tolist(), stops.tolist(), kinds, strict=True))


def _listed(y, n_positions, name):
    """Checked segments of a list, in order."""
    found = []
    for entry in y:
        if not isinstance(entry, (tuple, list)) or len(entry) != 3:
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
    if n_positions is not None and last > n_positions:
        raise ValueError(
            f"{name}: a segment stops at {last}, the sequence has {n_positions} "
            "positions"
        )
    return found


def _runs(labels):
    """Longest stretches of equal labels."""
    found, start = [], 0
    for t in range(1, len(labels) + 1):
        if t == len(labels) or labels[t] != labels[start]:
            found.append((start, t, labels[start]))
            start = t
    return found


def shown(segments, form, scheme, n_positions):
    """An output in the form of those of training.

    Parameters
    ----------
    segments : list of (start, stop, label)
        In order, and without what is outside.
    form : str
        The form.
    scheme : str or None
        The scheme of tags.
    n_positions : int
        Length of the sequence.

    Returns
    -------
    y : list or ndarray
        Segments as a list; tags and labels as an array.
    """
    if form == "segments":
        return segments
    out = ["O"] * n_positions
    for start, stop, label in segments:
        if form == "labels":
            out[start:stop] = [label] * (stop - start)
            continue
        # of the form "_" for letters alone
        suffix = "" if label == "_" else f"-{label}"
        begin, inside, end, single = _LETTERS[scheme]
        letters = single
        if stop - start > 1:
            letters = begin + inside * (stop - start - 2) + end
        out[start:stop] = [letter + suffix for letter in letters]
    encoder = LabelEncoder.from_labels(out)
    return encoder.classes_[encoder.encode(out)]
