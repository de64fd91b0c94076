"""Set-up of the structure of segmentations."""

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
    """Segmentations of sequences.

    Parameters
    ----------
    sizes, y_true, max_keys : objects
        As of `Structure`: a number for each position, and at most four keys for each
        and two more.
    n_labels : int
        Number of labels.
    with_roles : bool
        Whether scores of positions depend on their role in the segment.
    allowed : ndarray of shape (max_length, n_labels), bool
        Lengths that a label may have.
    reach : ndarray of shape (n_examples,), intp
        The largest length of each example that has a row, at most `max_length`.
    tail : ndarray of shape (n_labels,), bool, or None
        Labels that may have longer segments in longer examples, which have one more row
        then; None: there are none.
    at_boundary : ndarray like `allowed`, or None
        Lengths that the first and the last segment may have, which have rows of their
        own; None: these are as others.
    repeats : bool
        Whether segments of the same label may follow each other.
    counted : ndarray of shape (n_labels,), bool, or None
        With a loss by segments, the labels whose segments count; None: the loss is the
        number of wrong positions.
    costs : ndarray of shape (n_examples,) or None
        What an error costs; None for prediction.
    label_costs : ndarray of shape (n_labels,)
        What a wrong position costs by its observed label, times that.
    spans : tuple of (first_span, span_start, first_of_example), or None
        Candidate spans: for each example, one after the other, where those that stop
        after a position begin, (T + 1,), int32; the start of each span, int32; and
        where those of each example begin, (n_examples + 1,), intp.
    known : list of ndarray of shape (n_positions, n_roles * ld), uint8, or None
        Roles and labels that the positions of each example may have; None in the list,
        or for it: all. In prediction no other labeling is found; in training it is what
        was observed of the example, and `y_true` one labeling that agrees.

    Returns
    -------
    structure : SegmentSequences
        The structure, for a `BoundTable`.
    """
    ld = padded_length(n_labels)
    # the last length that is allowed; none in the padding
    longest = np.zeros(ld, dtype=np.int32)
    lengths = np.arange(1, len(allowed) + 1)[:, None]
    longest[:n_labels] = (allowed * lengths).max(axis=0)

    def scores(allowed):
        """Zeros, and -inf for what is forbidden, as is the padding."""
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
