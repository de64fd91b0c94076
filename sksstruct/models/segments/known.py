"""What is known of segmentations to be predicted: roles and labels of positions."""

from itertools import pairwise

import numpy as np

from sksstruct.models.segments.forms import (
    BEGIN,
    END,
    INSIDE,
    LETTERS,
    SINGLE,
    ordered,
)
from sksstruct.utils._layout import padded_length
from sksstruct.utils._spans import SpanLabels
from sksstruct.utils.labels import is_list
from sksstruct.utils.validation import LabelEncoder


def allowed_nodes(model, X, known):
    """What positions may be, if it agrees with what is known.

    Parameters
    ----------
    model : SegmentModel
        The fitted model.
    X : SegmentInputs
        The sequences.
    known : list of tuple
        For each sequence its number in errors, and what is known of it, in the form of
        its output, or None.

    Returns
    -------
    allowed : ndarray of shape (n_positions, n_roles * ld), uint8
        Whether a position may have a role and a label.
    """
    n_roles, ld = (4 if model._has_roles else 1), padded_length(model._n_labels)
    out = np.ones((X.packed.offsets[-1], n_roles, ld), dtype=np.uint8)
    bounds = pairwise(X.packed.offsets.tolist())
    for (first, last), (i, given) in zip(bounds, known, strict=True):
        rows, name = out[first:last], f"known[{i}]"
        if given is None:
            continue
        if not is_list(given):
            raise ValueError(
                f"{name} must be a list in the form of y, or None, got {given!r:.80}"
            )
        if model.form_ == "segments":
            _know_segments(model, rows, given, name)
        elif len(given) != len(rows):
            raise ValueError(
                f"{name} has {len(given)} entries, X[{i}] has {len(rows)} positions"
            )
        else:
            for t, label in enumerate(given):
                if label is not None:
                    _know_label(model, rows[t], label, name)
    return out.reshape(len(out), n_roles * ld)


def _number_of(model, label, name):
    """Number of a label, the outside being the first."""
    number = int(LabelEncoder(model.classes_).encode([label], default=-1)[0])
    if number < 0:
        raise ValueError(f"{name} has the label {label!r}, not in classes_")
    return number + model.outside_


def _need_roles(model, what):
    """Raise an error if nothing says where a segment begins and ends."""
    if not model._has_roles:
        raise ValueError(
            f"known {what} need roles=True: nothing else says where segments end"
        )


def _know_segments(model, rows, segments, name):
    """Allow only labelings that have these segments."""
    if len(segments):
        _need_roles(model, "segments")
    for start, stop, label in ordered(segments, len(rows), name):
        roles = [BEGIN, *[INSIDE] * (stop - start - 2), END]
        if stop - start == 1:
            roles = [SINGLE]
        # segments do not overlap: nothing else was said of these positions
        rows[start:stop] = 0
        rows[np.arange(start, stop), roles, _number_of(model, label, name)] = 1


def _know_label(model, row, label, name):
    """Allow only this tag, or label, at a position."""
    roles = slice(None)
    if model.form_ == "labels":
        number = _number_of(model, label, name)
    elif label == "O":
        number = 0
    else:
        _need_roles(model, "tags")
        tags = SpanLabels([label], lambda label: f"{name} has the label")
        number, letters = _number_of(model, tags.names[0], name), LETTERS[model.scheme_]
        roles = [k for k in range(4) if letters[k] == tags.letters[0]]
        if not roles:
            raise ValueError(f"{name} has {label!r}, no tag of {model.scheme_}")
    row[:] = 0
    row[roles, number] = 1
