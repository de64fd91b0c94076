"""Chunks of label sequences, in any scheme, and labels in another scheme."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from sksstruct.metrics._sequence import check_sequences
from sksstruct.utils._spans import (
    BEGIN,
    END,
    INSIDE,
    OUTSIDE,
    SCHEMES,
    SINGLE,
    SpanLabels,
    SpanSequence,
    all_settled,
    check_scheme,
)
from sksstruct.utils.typing import Scheme

# Descriptions of parameters, for the docstrings of scores of chunks.
TEXTS = {
    "chunk_labels": """
y_true : list of sequences of str
    Labels ``O``, and ``B-x``, ``I-x`` and so on for chunks of type x; see
    `iter_chunks`. None stands for a label that is not known. A chunk of `y_true` or
    `y_pred` is left out if it contains such a position. It is also left out if it is
    next to such a position, and its own labels do not determine that it begins or ends
    there, as a label ``B-x`` at its beginning does. Scores do not depend on the
    predictions at such positions. A set stands for one of its labels: it counts as the
    predicted label if this is in the set, and otherwise as its first label in order.
y_pred : list of sequences of str
    Predicted labels.
""",
    "reading": """
scheme : {"auto", "BIO", "IOB1", "IOBES", "BILOU"}, default="auto"
    Scheme of the labels. "auto": the scheme to which all labels belong, or with
    `strict` the scheme of the labels in y_true.
strict : bool, default=False
    Whether only well-formed chunks count. If False, ill-formed labels are read as in
    the CoNLL evaluation; see `iter_chunks`.
""",
}


class Chunked:
    """Chunks of one or more labelings of the same sequences.

    Parameters
    ----------
    flats : dict of str to list
        Labels of all positions, concatenated, by the name of the labeling in errors.
    lengths : ndarray of shape (n_sequences,), int, or None
        Numbers of positions; None if a labeling is a single sequence.
    scheme : str
        Scheme of the labels, or "auto".
    strict : bool, default=False
        Whether chunks must be well-formed.
    known : ndarray of shape (n_positions,), bool, or None
        True at positions whose label is known; None if all are known. Chunks that
        depend on an unknown label are left out.

    Attributes
    ----------
    labels : SpanLabels
        The distinct labels.
    codes : list of ndarray of shape (n_positions,), intp
        For each labeling the indices of its labels in `labels`.
    chunks : list of tuple of ndarray
        For each labeling the kinds, the first positions, and the positions after the
        last, of its chunks.
    """

    def __init__(self, flats, lengths, scheme, strict=False, known=None):
        n = len(next(iter(flats.values())))
        self._flats, self._lengths = flats, lengths
        self._ends = np.cumsum([n] if lengths is None else lengths)
        scheme = check_scheme(scheme)
        index = {}
        for flat in flats.values():
            for label in dict.fromkeys(flat):
                index.setdefault(label, len(index))
        self.labels = SpanLabels(index, self._where)
        found = self.labels.scheme(scheme)
        first = np.zeros(n + 1, dtype=bool)
        first[0] = first[self._ends] = True
        self.codes = [
            np.fromiter(map(index.__getitem__, flat), np.intp, len(flat))
            for flat in flats.values()
        ]
        sequences = [SpanSequence(self.labels, c, first[:-1]) for c in self.codes]
        known = np.ones(n, dtype=bool) if known is None else known
        if strict and scheme == "auto":
            found = self._of_the_first(found, sequences[0], known)
        self.chunks, read_as = [], found if strict else None
        settled = all_settled(sequences, known, read_as)
        for sequence in sequences:
            starts, ends = sequence.read(read_as)
            is_settled = settled(starts, ends)
            starts, ends = starts[is_settled], ends[is_settled]
            self.chunks.append((sequence.kinds[starts], starts, ends))

    def _where(self, label):
        """Return the beginning of an error message about a label's first occurrence."""
        for name, flat in self._flats.items():
            if label in flat:
                return self._place(name, flat.index(label))[0]

    def _place(self, name, position):
        """Return the beginning of an error message, and a position in its sequence.

        The message is about the sequence of `position`, which counts in the
        concatenated sequences.
        """
        if self._lengths is None:
            return f"{name} has the label", position
        i = int(np.searchsorted(self._ends, position, "right"))
        start = self._ends[i - 1] if i else 0
        return f"{name}[{i}] has the label", int(position - start)

    def _of_the_first(self, scheme, sequence, known):
        """Return the scheme of the first labeling; raise an error if it is ambiguous.

        With `strict`, reading labels in a wrong scheme would silently drop chunks.
        """
        labels, name = self.labels, next(iter(self._flats))
        letters = {labels.letters[k] for k in np.unique(self.codes[0][known])} - {"O"}
        if not letters:
            return scheme
        if scheme in ("IOBES", "BILOU"):
            single, end = SCHEMES[scheme][3], SCHEMES[scheme][2]
            if letters == {single} or ("B" in letters and letters & {single, end}):
                return scheme
            other = labels.with_letter(single + end)
            raise ValueError(
                f"{labels.text(other)}, which is of the scheme {scheme}, but no chunk "
                f"of {name} is whole in that scheme: pass scheme={scheme!r}, or labels "
                "of one scheme, or strict=False"
            )
        # whether a label is well-formed is not known after an unknown label
        sure = known & (sequence.first | np.append(True, known[:-1]))
        places = [np.flatnonzero(bad & sure)[:1] for bad in sequence.misplaced()]
        for scheme, place in zip(("BIO", "IOB1"), places, strict=True):
            if not len(place):
                return scheme
        texts = []
        for place in np.concatenate(places):
            where, t = self._place(name, place)
            texts.append(f"{where} {self._flats[name][place]!r:.80} at position {t}")
        raise ValueError(
            f"the labels of {name} are neither well-formed BIO ({texts[0]}) nor IOB1 "
            f"({texts[1]}): pass scheme='BIO' or scheme='IOB1', or strict=False"
        )


def iter_chunks(
    tags: Iterable[str], *, scheme: Scheme = "auto", strict: bool = False
) -> Iterator[tuple[str, int, int]]:
    """Iterate over the chunks of one sequence of labels.

    The label ``O`` is outside of all chunks. All other labels are a letter, a dash and
    the type x of a chunk; a letter alone has the type "_". The schemes differ in the
    letters:

    * BIO, also named IOB2: ``B-x`` begins a chunk, and ``I-x`` continues it.
    * IOB1: ``I-x`` begins and continues a chunk. ``B-x`` begins a chunk directly after
      another chunk of the same type.
    * IOBES: ``B-x`` begins a chunk of several positions, ``I-x`` continues it, and
      ``E-x`` is its last position. ``S-x`` is a chunk of one position.
    * BILOU: as IOBES, with ``L-x`` for the last position, and ``U-x`` for a chunk of
      one position.

    Parameters
    ----------
    tags : iterable of str
        Labels of one scheme.
    scheme : {"auto", "BIO", "IOB1", "IOBES", "BILOU"}, default="auto"
        Scheme of the labels. "auto": the scheme to which all labels belong.
    strict : bool, default=False
        Treatment of ill-formed labels. False: as in the CoNLL-2000 evaluation, and in
        seqeval by default. A chunk also begins where the type changes, or where an
        inside or last label follows ``O`` or a finished chunk; a chunk also ends before
        the next chunk and before ``O``. These rules do not depend on the scheme. True:
        as in seqeval with ``mode="strict"``. Labels that are not part of a well-formed
        chunk of the scheme are ignored.

    Returns
    -------
    chunks : iterator of tuple of (str, int, int)
        Type, first position, and the position after the last.

    Raises
    ------
    ValueError
        If a label is not of the scheme or of no scheme, if labels are of several
        schemes, or if `strict` is True and the scheme is ambiguous.

    Examples
    --------
    >>> from sksstruct.metrics import iter_chunks
    >>> list(iter_chunks(["B-NP", "I-NP", "O", "I-VP"]))
    [('NP', 0, 2), ('VP', 3, 4)]
    >>> list(iter_chunks(["B-NP", "E-NP", "S-NP", "I-VP"]))
    [('NP', 0, 2), ('NP', 2, 3), ('VP', 3, 4)]
    >>> list(iter_chunks(["B-NP", "E-NP", "S-NP", "I-VP"], strict=True))
    [('NP', 0, 2), ('NP', 2, 3)]
    """
    flat, _ = check_sequences([list(tags)], "tags")
    chunked = Chunked({"tags": flat}, None, scheme, strict)
    kinds, *places = (part.tolist() for part in chunked.chunks[0])
    return zip((chunked.labels.names[kind] for kind in kinds), *places, strict=True)


def convert_labels(
    y: Sequence[Sequence[str]] | np.ndarray,
    to: Literal["BIO", "IOB1", "IOBES", "BILOU"],
    *,
    from_scheme: Scheme = "auto",
) -> list[list[str]]:
    """Convert labels to labels of the same chunks in another scheme.

    Every position that is not ``O`` stays in a chunk of its type. Ill-formed labels are
    read as in the CoNLL evaluation, and the result is well-formed. A conversion to the
    same scheme repairs labels: the BIO labels ``O``, ``I-x`` become ``O``, ``B-x``.

    Parameters
    ----------
    y : list of sequences of str
        Labels; see `iter_chunks`.
    to : {"BIO", "IOB1", "IOBES", "BILOU"}
        Scheme of the result.
    from_scheme : {"auto", "BIO", "IOB1", "IOBES", "BILOU"}, default="auto"
        Scheme of y; a label of another scheme is an error. "auto": the scheme to which
        all labels belong.

    Returns
    -------
    labels : list of list of str
        A list for each sequence.

    Raises
    ------
    ValueError
        If a label is not of the scheme or of no scheme, or if labels are of several
        schemes.

    Examples
    --------
    >>> from sksstruct.metrics import convert_labels
    >>> convert_labels([["B-PER", "I-PER", "O", "B-LOC"]], to="IOBES")
    [['B-PER', 'E-PER', 'O', 'S-LOC']]
    """
    to = check_scheme(to, "to", auto=False)
    scheme = check_scheme(from_scheme, "from_scheme")
    flat, lengths = check_sequences(y, "y")
    chunked = Chunked({"y": flat}, lengths, scheme)
    kinds, starts, ends = chunked.chunks[0]
    labels, codes = chunked.labels, chunked.codes[0]
    parts = np.where(labels.parts[codes] == OUTSIDE, OUTSIDE, INSIDE)
    begins = np.ones(len(starts), dtype=bool)
    if to == "IOB1":
        begins[:1] = False
        begins[1:] = (starts[1:] == ends[:-1]) & (kinds[1:] == kinds[:-1])
        # the first chunk of a sequence follows no chunk
        begins &= ~np.isin(starts, np.cumsum(lengths))
    parts[starts[begins]] = BEGIN
    if to in ("IOBES", "BILOU"):
        parts[ends - 1] = END
        parts[starts[ends == starts + 1]] = SINGLE
    # format each combination of a label and a part once
    pairs, numbers = np.unique(codes * 5 + parts, return_inverse=True)
    written = [
        SCHEMES[to][pair % 5 - 1] + labels.labels[pair // 5][1:] if pair % 5 else "O"
        for pair in pairs.tolist()
    ]
    flat = np.array(written, dtype=object)[numbers].tolist()
    bounds = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    return [flat[a:b] for a, b in pairwise(bounds)]
