"""Known labels as constraints: roles and labels that positions may have.

A segmentation agrees with a tag if the position has the tag's role in a segment of the
tag's label: in BIO, B- is the first position of a segment of any length, and I- a later
position. An unknown position may be in any segment, also in a segment of known ones.
"""

from collections.abc import Hashable

import numpy as np

from sksstruct.models.segments.forms import (
    BEGIN,
    END,
    INSIDE,
    LETTERS,
    SINGLE,
    ordered,
)
from sksstruct.models.tables.completion import Partial
from sksstruct.utils._layout import padded_length
from sksstruct.utils._spans import SpanLabels
from sksstruct.utils.labels import is_list
from sksstruct.utils.validation import LabelEncoder


def allowed_nodes(model, X, known):
    """Return the roles and labels that positions may have, given known labels.

    Parameters
    ----------
    model : SegmentModel
        The fitted model.
    X : SegmentInputs
        The sequences.
    known : list of tuple
        For each sequence its number in error messages, and its known labels in the form
        of an output, or None.

    Returns
    -------
    allowed : list of ndarray of shape (n_positions, n_roles * ld), uint8, or None
        Whether a position may have a role and a label; None without constraints.
    """
    out = []
    for size, (i, given) in zip(X.packed.lengths.tolist(), known, strict=True):
        name = f"known[{i}]"
        if given is None:
            out.append(None)
            continue
        rows = np.ones((size, *_shape(model)), dtype=np.uint8)
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
                    rows[t] = _row_of(model, label, name)
        out.append(rows.reshape(size, -1))
    return out


def partial_labelings(model, outputs):
    """Return the constraints from outputs in which some labels or tags are unknown.

    Parameters
    ----------
    model : SegmentModel
        The fitted model.
    outputs : Outputs
        The outputs.

    Returns
    -------
    labelings : list of Partial
    """
    rows = [_row_of(model, label, "y") for label in outputs.entries]
    size = len(outputs.classes), _shape(model)[0] * _shape(model)[1]
    table = np.zeros(size, dtype=np.uint8)
    numbers = LabelEncoder(outputs.classes).encode(outputs.entries)
    table[numbers] = np.reshape(rows, (len(rows), -1))
    allowed = table[outputs.codes]
    allowed[~outputs.known] = 1
    if outputs.choices is not None:
        listed = np.flatnonzero(np.diff(outputs.choices.indptr))
        allowed[listed] = (outputs.choices[listed] @ table) > 0
    parts = np.split(allowed, outputs.offsets[1:-1])
    return [
        Partial(int(i), part) for i, part in zip(outputs.numbers, parts, strict=True)
    ]


def _shape(model):
    """Return the number of roles, and the padded number of labels, of a position."""
    return 4 if model._has_roles else 1, padded_length(model._n_labels)


def _number_of(model, label, name):
    """Return the number of a label; the outside, if there is one, has number 0."""
    number = -1
    if isinstance(label, Hashable):
        number = int(LabelEncoder(model.classes_).encode([label], default=-1)[0])
    if number < 0:
        raise ValueError(f"{name} has the label {label!r:.80}, not in classes_")
    return number + model.outside_


def _need_roles(model, what):
    """Raise an error for a model without roles, in which nothing marks segment ends."""
    if not model._has_roles:
        raise ValueError(
            f"known {what} need roles=True: nothing else says where segments end"
        )


def _know_segments(model, rows, segments, name):
    """Allow only labelings that contain the given segments."""
    if len(segments):
        _need_roles(model, "segments")
    for start, stop, label in ordered(segments, len(rows), name):
        roles = [BEGIN, *[INSIDE] * (stop - start - 2), END]
        if stop - start == 1:
            roles = [SINGLE]
        # segments do not overlap, so that no earlier constraint is lost
        rows[start:stop] = 0
        rows[np.arange(start, stop), roles, _number_of(model, label, name)] = 1


def _row_of(model, label, name):
    """Return flags of the roles and labels that agree with a tag, or with a label."""
    row, roles = np.zeros(_shape(model), dtype=np.uint8), slice(None)
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
            raise ValueError(
                f"{name} has {label!r:.80}, which is not a tag of the scheme "
                f"{model.scheme_}"
            )
    row[roles, number] = 1
    return row
