"""Set-up of the arrays for the structure of segmentations."""

from types import SimpleNamespace

import numpy as np

from sksstruct.models.segments._segments import SegmentSequences
from sksstruct.utils._layout import padded_length


def segment_sequences(
    sizes,
    y_true,
    max_keys,
    n_labels,
    with_roles,
    allowed,
    reach,
    tail,
    at_boundary,
    repeats,
    counted,
    costs,
    label_costs,
    spans,
    known=None,
):
    """Return the structure of segmentations of sequences.

    Parameters
    ----------
    sizes, y_true, max_keys : objects
        As in `Structure`: an integer for each position; at most four keys for each
        position, and one more.
    n_labels : int
        Number of labels.
    with_roles : bool
        Whether scores of positions depend on their role in the segment.
    allowed : ndarray of shape (max_length, n_labels), bool
        Whether a label may have each length.
    reach : ndarray of shape (n_examples,), intp
        Largest length with a row in each example, at most `max_length`.
    tail : ndarray of shape (n_labels,), bool, or None
        Whether labels may have longer segments, in longer examples, which then have one
        more row; None: no label may.
    at_boundary : ndarray like `allowed`, or None
        Lengths that the first and the last segment may have, which then have their own
        rows; None: as all segments.
    repeats : bool
        Whether segments of the same label may follow each other.
    counted : ndarray of shape (n_labels,), bool, or None
        With a loss by segments, the labels whose segments count; None: the loss is the
        number of wrong positions.
    costs : ndarray of shape (n_examples,) or None
        Cost of an error; None for prediction.
    label_costs : ndarray of shape (n_labels,)
        Factor of the cost of a wrong position, by its observed label.
    spans : tuple of (first_span, span_start, first_of_example), or None
        Candidate spans of consecutive examples: for each example, the first span that
        stops after each position, (T + 1,), int32; the start of each span, int32; and
        the first span of each example, (n_examples + 1,), intp.
    known : list of ndarray of shape (n_positions, n_roles * ld), uint8, or None
        Whether the positions of each example may have a role and a label. None for an
        example, or instead of the list, allows all. In prediction, labelings satisfy
        these constraints; in training, they are the observed part of the example, and
        `y_true` is one labeling that agrees.

    Returns
    -------
    structure : SegmentSequences
        The structure, for a `BoundTable`.
    """
    ld = padded_length(n_labels)
    # the largest allowed length of each label, zero in the padding
    longest = np.zeros(ld, dtype=np.int32)
    lengths = np.arange(1, len(allowed) + 1)[:, None]
    longest[:n_labels] = (allowed * lengths).max(axis=0)

    def scores(allowed):
        """Return scores: zero for allowed entries, -inf for others and for padding."""
        if allowed is None:
            return None
        out = np.full((*allowed.shape[:-1], ld), -np.inf)
        out[..., :n_labels][allowed] = 0.0
        return out

    arrays = SimpleNamespace(
        n_labels=n_labels,
        ld=ld,
        n_roles=4 if with_roles else 1,
        repeats=repeats,
        forbidden=scores(allowed),
        reach=reach,
        tail=scores(tail),
        at_boundary=scores(at_boundary),
        longest=longest,
        counted=None if counted is None else np.ascontiguousarray(counted, np.int8),
        costs=costs,
        label_costs=label_costs,
        spans=spans,
        most_spans=0 if spans is None else int(np.diff(spans[2]).max()),
        lengths=np.unique(np.column_stack([sizes, reach]), axis=0).tolist(),
        meaning=[allowed, with_roles, repeats, *(() if spans is None else spans)],
    )
    if tail is not None:
        arrays.meaning += [reach, tail]
    if at_boundary is not None:
        arrays.meaning.append(at_boundary)
    structure = SegmentSequences(sizes, y_true, max_keys, arrays)
    structure.set_known(known, arrays.n_roles * ld)
    return structure
