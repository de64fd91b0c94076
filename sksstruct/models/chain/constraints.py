"""Constraints on labels, turned into masks of potentials."""

import copy
from collections.abc import Iterable, Sized

import numpy as np
from scipy import sparse

from sksstruct.inference import scheme_transitions
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils._spans import SpanLabels, SpanSequence, check_scheme
from sksstruct.utils.labels import LabelEncoder, encode_choices, shown


def check_forbidden(forbidden, index, *, strict=False):
    """Return pairs of labels that must not follow each other, as a list.

    Parameters
    ----------
    forbidden : list of tuple, str or None
        Pairs of labels; None in a pair stands for the start or the end. A string is
        the name of a scheme of spans, or "auto".
    index : dict
        Code of each label.
    strict : bool, default=False
        Whether a label that is not in the index is an error; otherwise its pairs are
        dropped.
    """
    name = "forbidden_transitions"
    if forbidden is None:
        return []
    if isinstance(forbidden, str):
        scheme = check_scheme(forbidden, f"{name} as a string")
        try:
            return scheme_transitions(index, scheme)
        except ValueError as error:
            raise ValueError(f"{name}={forbidden!r:.80}: {error}") from None
    if not isinstance(forbidden, list | tuple | set | frozenset):
        raise TypeError(
            f"{name} must be a list of pairs of labels or the name of a scheme such as "
            f"'bio', got {forbidden!r:.80}"
        )
    pairs = []
    for pair in forbidden:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"{name} must hold pairs (from, to), got {shown(pair)!r:.80}"
            )
        if pair[0] is None and pair[1] is None:
            raise ValueError(f"{name} has a pair without a label: {shown(pair)!r:.80}")
        try:
            unseen = [
                label for label in pair if label is not None and label not in index
            ]
        except TypeError:
            raise TypeError(
                f"{name} has a label that is not hashable: {shown(pair)!r:.80}"
            ) from None
        if unseen and strict:
            raise ValueError(
                f"{name} has the label {shown(unseen[0])!r:.80}, which was not seen in "
                "fit"
            )
        if not unseen:
            pairs.append(tuple(pair))
    return pairs


def scheme_of_labels(forbidden, data):
    """Return `forbidden`, or "IOB1" if it is "auto" and labels fit IOB1 but not BIO."""
    if not isinstance(forbidden, str) or forbidden.lower() != "auto":
        return forbidden
    try:
        labels = SpanLabels(data.classes.tolist())
        if labels.scheme() != "BIO":
            return forbidden
    except ValueError:  # `check_forbidden` raises an error that names the argument
        return forbidden
    first = np.zeros(len(data.labels), dtype=bool)
    first[data.packed.offsets[:-1]] = True
    not_bio, not_iob1 = SpanSequence(labels, data.labels, first).misplaced()
    if data.known is not None:
        # a label after an unknown label may fit either scheme
        sure = data.known & (first | np.append(True, data.known[:-1]))
        not_bio, not_iob1 = not_bio & sure, not_iob1 & sure
    return "IOB1" if not_bio.any() and not not_iob1.any() else forbidden


def transition_mask(pairs, index, ld):
    """Return scores, 0 or -inf, of first and last labels and transitions, or None."""
    if not pairs:
        return None
    mask = aligned_zeros((2 + len(index)) * ld).reshape(-1, ld)
    for before, after in _forbid_ends(mask, pairs, index):
        mask[2 + before, after] = -np.inf
    return mask


def parts_of_mask(mask):
    """Return the forbidden pairs of a mask, and its rows of first and last labels.

    Parameters
    ----------
    mask : ndarray of shape (2 + n_classes, ld) or None
        Scores of 0 or -inf, from `transition_mask`.

    Returns
    -------
    pairs : tuple of ndarray, int32, or None
        First and second labels of the pairs.
    ends : ndarray of shape (2, ld) or None
        Rows of first and last labels; None if every label may be first or last.
    """
    if mask is None:
        return None, None
    pairs = tuple(part.astype(np.int32) for part in np.nonzero(mask[2:] < 0.0))
    ends = np.ascontiguousarray(mask[:2])
    return pairs, ends if ends.any() else None


class SparseMask:
    """Forbidden labels and pairs, if a table of all pairs would be too large.

    Parameters
    ----------
    pairs : list of tuple
        Pairs of labels that must not follow each other.
    index : dict
        Code of each label.
    ld : int
        Length of rows of scores.

    Attributes
    ----------
    ends : ndarray of shape (2, ld) or None
        Scores 0 or -inf of first and last labels.
    pairs : tuple of ndarray, int32
        First and second labels of the pairs of two labels, each pair once.
    """

    def __init__(self, pairs, index, ld):
        ends = aligned_zeros(2 * ld).reshape(-1, ld)
        places = sorted(set(_forbid_ends(ends, pairs, index)))
        self.ends = ends if ends.any() else None
        self.pairs = tuple(np.array(places, dtype=np.int32).reshape(-1, 2).T.copy())
        self._n_labels = len(index)

    def without_ends(self):
        """Return the mask of sequences that may start and end with any label."""
        mask = copy.copy(self)
        mask.ends = None
        return mask

    def forbids_end(self, side, labels):
        """Return whether each label is forbidden as the first (side 0) or last (side
        1).
        """
        if self.ends is None:
            return np.zeros(len(labels), dtype=bool)
        return self.ends[side, labels] < 0

    def forbids(self, first, second):
        """Return whether each pair of labels is forbidden."""
        first, rows = (np.asarray(a, dtype=np.int64) for a in (first, self.pairs[0]))
        forbidden = rows * self._n_labels + self.pairs[1]
        return np.isin(first * self._n_labels + second, forbidden)


def sparse_mask(pairs, index, ld, transitions):
    """Return the mask for sparse transitions, in two parts.

    Returns rows of scores of first and last labels, or None, and the transitions with
    -inf for forbidden pairs.
    """
    if not pairs:
        return None, transitions
    ends = aligned_zeros(2 * ld).reshape(-1, ld)
    places = _forbid_ends(ends, pairs, index)
    rows, columns = zip(*places, strict=True) if places else ((), ())
    entries = (np.full(len(rows), -np.inf), (rows, columns))
    return ends, transitions + sparse.coo_array(entries, transitions.shape).tocsr()


def _forbid_ends(mask, pairs, index):
    """Forbid first and last labels in a mask; return the pairs of two labels' codes."""
    inner = []
    for before, after in pairs:
        if before is None:
            mask[0, index[after]] = -np.inf
        elif after is None:
            mask[1, index[before]] = -np.inf
        else:
            inner.append((index[before], index[after]))
    return inner


def check_permitted(mask, labels, known, offsets, classes, numbers, given=None):
    """Raise an error if observed labels violate the mask.

    The message has the number of the sequence, and the scheme that was `given`, if any.
    """
    first, last = offsets[:-1], offsets[1:] - 1
    if isinstance(mask, SparseMask):
        forbids_end, forbids = mask.forbids_end, mask.forbids
    else:

        def forbids_end(side, labels):
            return mask[side, labels] < 0

        def forbids(first, second):
            return mask[2 + first, second] < 0

    both = known[:-1] & known[1:]
    both[offsets[1:-1] - 1] = False
    for place, bad, text in (
        (first, known[first] & forbids_end(0, labels[first]), "starts with"),
        (last, known[last] & forbids_end(1, labels[last]), "ends with"),
        (
            np.arange(len(both)),
            both & forbids(labels[:-1], labels[1:]),
            "has the forbidden transition from",
        ),
    ):
        if bad.any():
            t = place[np.flatnonzero(bad)[0]]
            i = int(np.searchsorted(offsets, t, "right")) - 1
            names = classes.tolist()
            what = repr(names[labels[t]])
            if "transition" in text:
                what += f" to {names[labels[t + 1]]!r:.80}"
            rules, hint = "forbidden_transitions", ""
            if isinstance(given, str):
                rules += f"={shown(given)!r:.80}"
                hint = (
                    ". Name the scheme of the labels if it is another; "
                    "sksstruct.metrics.convert_labels repairs ill-formed ones"
                )
            raise ValueError(
                f"y[{numbers[i]}] {text} {what} at position {t - offsets[i]}, which "
                f"{rules} rules out{hint}"
            )


def forbidden_labels(known, excluded, index, offsets):
    """Return whether each label is forbidden at each position, (n_positions, K) uint8.

    Returns None if there are no constraints.
    """
    if known is None and excluded is None:
        return None
    forbidden = np.zeros((offsets[-1], len(index)), dtype=np.uint8)
    for name, rows in (("known", known), ("excluded", excluded)):
        if rows is None:
            continue
        if isinstance(rows, str) or not isinstance(rows, Sized):
            raise TypeError(f"{name} must be a list with an entry for each sequence")
        if len(rows) != len(offsets) - 1:
            raise ValueError(
                f"{name} has {len(rows)} entries, but X has {len(offsets) - 1} "
                "sequences"
            )
        for i, row in enumerate(rows):
            if row is None:
                continue
            if isinstance(row, str) or not isinstance(row, Sized):
                raise TypeError(
                    f"{name}[{i}] must be None or a list with an entry for each "
                    f"position, got {shown(row)!r:.80}"
                )
            if len(row) != offsets[i + 1] - offsets[i]:
                raise ValueError(
                    f"{name}[{i}] has {len(row)} entries, but X[{i}] has "
                    f"{offsets[i + 1] - offsets[i]} positions"
                )
            for t, entry in enumerate(row):
                if entry is None:
                    continue
                if name == "known":
                    code = _code(entry, index, f"known[{i}]")
                    forbidden[offsets[i] + t] |= np.arange(len(index)) != code
                else:
                    if isinstance(entry, str) or not isinstance(entry, Iterable):
                        raise TypeError(
                            f"excluded[{i}][{t}] must be None or a collection of "
                            f"labels, got {shown(entry)!r:.80}"
                        )
                    for label in entry:
                        code = _code(label, index, f"excluded[{i}]")
                        forbidden[offsets[i] + t, code] = 1
    return forbidden


def forbidden_others(y, classes, lengths):
    """Return the labels that contradict y, as `forbidden_labels` does.

    A label contradicts y if y has another label, or a set without it. A label of y
    that is not in `classes` forbids all classes.
    """
    distinct, codes, known, choices = encode_choices(y, lengths, blank=True)
    numbers = LabelEncoder(classes).encode(distinct.tolist(), default=-1)
    known = np.ones(len(codes), dtype=bool) if known is None else known
    # the number -1 of labels that are not in `classes` selects the last column
    forbidden = np.zeros((len(codes), len(classes) + 1), dtype=np.uint8)
    forbidden[known] = 1
    forbidden[known, numbers[codes[known]]] = 0
    if choices is not None:
        rows, columns = choices.nonzero()
        forbidden[rows] = 1
        forbidden[rows, numbers[columns]] = 0
    return np.ascontiguousarray(forbidden[:, :-1])


def _code(label, index, where):
    if isinstance(label, np.generic):
        label = label.item()
    try:
        return index[label]
    except (KeyError, TypeError):
        raise ValueError(
            f"{where} has the label {shown(label)!r:.80}, which was not seen in fit"
        ) from None


def without_missing(model, flat, views):
    """Set the bounds of weights that do not exist to zero.

    Parameters
    ----------
    model : BoundChain
        The model, whose attributes say which blocks exist.
    flat : list of ndarray of shape (n_weights,)
        Lower and upper bounds; entries of missing blocks and of the padding become 0.
    views : list of dict of ndarray
        Views of these bounds by block.

    Returns
    -------
    flat : list of ndarray
        The same arrays.
    """
    for array, view in zip(flat, views, strict=True):
        array[: model.first_pair].reshape(-1, model.ld)[:, model.n_labels :] = 0.0
        if not model.fit_intercept:
            view["intercept"][...] = 0.0
        if not model.boundary:
            view["start"][...] = view["end"][...] = 0.0
    return flat
