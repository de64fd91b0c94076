"""Labels that mark spans of tokens: their schemes, and where spans begin and end.

The one definition for scores, conversions and constraints.
"""

import numpy as np

# Letters that labels begin with, where they begin a span, are inside, end it, and where
# they are a span of one token.
SCHEMES = {"BIO": "BI", "IOB1": "BI", "IOBES": "BIES", "BILOU": "BILU"}
_SYNONYMS = {"IOB2": "BIO", "BIOES": "IOBES", "BILUO": "BILOU"}
OUTSIDE, BEGIN, INSIDE, END, SINGLE = range(5)
_PARTS = {"B": BEGIN, "I": INSIDE, "E": END, "L": END, "S": SINGLE, "U": SINGLE}


def check_scheme(scheme, name="scheme", *, auto=True):
    """The scheme that a string names, or "auto"."""
    given = scheme.upper() if isinstance(scheme, str) else scheme
    if auto and given == "AUTO":
        return "auto"
    if not isinstance(given, str) or _SYNONYMS.get(given, given) not in SCHEMES:
        known = [*(["auto"] if auto else []), *SCHEMES]
        raise ValueError(
            f"{name} must be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}, got "
            f"{scheme!r:.80}"
        )
    return _SYNONYMS.get(given, given)


class SpanLabels:
    """Distinct labels, taken apart.

    Parameters
    ----------
    labels : iterable of str
        "O", or a letter alone, or a letter, a dash and the kind of a span.
    where : callable, default=None
        ``where(label)`` begins the errors about a label.

    Attributes
    ----------
    labels : list of str
        The labels.
    letters : list of str
        What they begin with.
    parts : ndarray of shape (n_labels,), int8
        What they are in a span: `OUTSIDE`, `BEGIN`, `INSIDE`, `END` or `SINGLE`.
    kinds : ndarray of shape (n_labels,), intp
        Numbers of the kinds, -1 outside of spans.
    names : list of str
        The kinds in order; "_" for letters alone.

    Raises
    ------
    ValueError
        If a label is of no scheme.
    """

    def __init__(self, labels, where=None):
        self.labels = list(labels)
        self._where = where or (lambda label: "there is the label")
        named = [self._split(label) for label in self.labels]
        self.letters = [letter for letter, _ in named]
        self.parts = np.array(
            [_PARTS.get(letter, OUTSIDE) for letter in self.letters], dtype=np.int8
        )
        self.names = sorted({name for _, name in named if name is not None})
        numbers = {None: -1} | {name: k for k, name in enumerate(self.names)}
        self.kinds = np.array([numbers[name] for _, name in named], dtype=np.intp)

    def _split(self, label):
        """Letter and kind of a label."""
        if label == "O":
            return label, None
        if isinstance(label, str) and label[:1] in _PARTS and label[1:2] in ("", "-"):
            return label[0], label[2:] or "_"
        raise ValueError(
            f"{self._where(label)} {label!r:.80}, which is of no scheme of spans: "
            "expected 'O', or one of B-, I-, E-, S-, L- and U- with the kind of a span"
        )

    def begins(self):
        """Whether a span begins with the second label after the first, (n, n) bool.

        As the CoNLL evaluation reads labels of any scheme; see `SpanSequence.read`.
        """
        before, after = self.parts[:, None], self.parts
        goes_on = np.isin(before, [BEGIN, INSIDE]) & np.isin(after, [INSIDE, END])
        goes_on &= self.kinds[:, None] == self.kinds
        return ~goes_on & (after != OUTSIDE)

    def with_letter(self, letters):
        """The first label that begins with one of the letters, or None."""
        found = (k for k, letter in enumerate(self.letters) if letter in letters)
        return next((self.labels[k] for k in found), None)

    def text(self, label):
        """A label, and what `where` says of it."""
        return f"{self._where(label)} {label!r:.80}"

    def scheme(self, given="auto"):
        """The scheme of the labels, which is the given one unless that is "auto".

        Labels alone do not tell IOB1 with B- from BIO; then it is BIO.

        Raises
        ------
        ValueError
            If a label is not of the scheme, or if labels are of several.
        """
        if given == "auto":
            iobes, bilou = self.with_letter("ES"), self.with_letter("LU")
            if iobes is not None and bilou is not None:
                raise ValueError(
                    f"{self.text(iobes)}, which is of the scheme IOBES, but "
                    f"{self.text(bilou)}, which is of BILOU: bring them to one scheme "
                    "with sksstruct.metrics.convert_labels"
                )
            if iobes is not None or bilou is not None:
                return "IOBES" if bilou is None else "BILOU"
            only_inside = "I" in self.letters and "B" not in self.letters
            return "IOB1" if only_inside else "BIO"
        other = self.with_letter(set(_PARTS).difference(SCHEMES[given]))
        if other is not None:
            fitting = [s for s, letters in SCHEMES.items() if other[0] in letters]
            raise ValueError(
                f"{self.text(other)}, which is not of the scheme {given} but of "
                f"{' or '.join(fitting)}"
            )
        return given


class SpanSequence:
    """Labels of all positions in a row, as parts and kinds of spans.

    Parameters
    ----------
    labels : SpanLabels
        The distinct labels.
    codes : ndarray of shape (n_positions,), int
        Their number at each position.
    first : ndarray of shape (n_positions,), bool
        Where sequences begin.
    """

    def __init__(self, labels, codes, first):
        self.parts, self.kinds = labels.parts[codes], labels.kinds[codes]
        self.first = first
        before = _shifted(self.parts, OUTSIDE)
        before[first] = OUTSIDE
        self._before = before
        # of the same kind as the position before, neither of which is outside
        self._same = (before != OUTSIDE) & (self.kinds == _shifted(self.kinds, -1))
        self._open = (before == BEGIN) | (before == INSIDE)

    def read(self, scheme=None):
        """First positions of spans, and the positions after their last.

        Parameters
        ----------
        scheme : str, default=None
            Leave out what is not a span of this scheme, as seqeval does. None: every
            position that is not outside is in a span, as the CoNLL evaluation reads
            labels of any scheme.

        Returns
        -------
        starts, ends : ndarray of shape (n_spans,), intp
            The positions.
        """
        parts, same = self.parts, self._same
        begins = (parts == BEGIN) | (parts == SINGLE)
        if scheme is None:
            starts = begins | ~(self._open & same)
            starts &= parts != OUTSIDE
            return self._cut(starts, starts | (parts == OUTSIDE))
        inside = (parts == INSIDE) & self._open & same
        if scheme == "BIO":
            return self._cut(begins, ~inside)
        if scheme == "IOB1":
            begins &= self._open & same
            # what a misplaced B- is followed by begins a span
            follows = (self._before == INSIDE) | _shifted(begins, False)
            starts = begins | ((parts == INSIDE) & ~(follows & same))
            starts, ends = self._cut(starts, ~(inside & ~starts))
            # as in seqeval: a B- of another kind ends no span that is a B- alone
            after = np.append(parts, OUTSIDE)[ends]
            within = ~np.append(self.first, True)[ends]
            kept = (parts[ends - 1] != BEGIN) | (after != BEGIN) | ~within
            kept |= self.kinds[ends - 1] == np.append(self.kinds, -1)[ends]
            return starts[kept], ends[kept]
        inside |= (parts == END) & self._open & same
        starts, ends = self._cut(begins, ~inside)
        whole = parts[ends - 1] >= END
        return starts[whole], ends[whole]

    def _cut(self, starts, breaks):
        """Spans from each start to the next break; starts are breaks."""
        places = np.flatnonzero(breaks)
        is_start = starts[places]
        ends = np.append(places[1:], len(breaks))
        return places[is_start], ends[is_start]

    def misplaced(self):
        """Where labels B- and I- are not as in BIO, and where not as in IOB1."""
        follows = self._open & self._same
        not_bio = (self.parts == INSIDE) & ~follows
        return not_bio, (self.parts == BEGIN) & ~follows


def all_settled(sequences, known, scheme=None):
    """Which spans of several labelings do not depend on labels that are not known.

    Parameters
    ----------
    sequences : list of SpanSequence
        Labelings of the same positions.
    known : ndarray of shape (n_positions,), bool
        Where their labels are known.
    scheme : str, default=None
        How spans are read; see `SpanSequence.read`.

    Returns
    -------
    settled : callable
        ``settled(starts, ends)`` says of spans whether they are known as a whole, and
        where each labeling, or a known label next to them, tells that one of its spans
        may begin or end there.
    """
    starts_here, ends_here = np.ones((2, len(known)), dtype=bool)
    if scheme == "IOB1":
        # a label depends on the one before, which depends on the one before it
        known = known & (sequences[0].first | _shifted(known, True))
        starts_here[:] = ends_here[:] = False
    for each in sequences:
        starts_here &= np.isin(each.parts, (OUTSIDE, BEGIN, SINGLE))
        ends_here &= np.isin(each.parts, (OUTSIDE, END, SINGLE))
    starts_here |= sequences[0].first | _shifted(known, True)
    ends_here |= np.append(sequences[0].first, True)[1:] | np.append(known, True)[1:]
    unknown = np.concatenate([[0], np.cumsum(~known)])

    def settled(starts, ends):
        whole = unknown[starts] == unknown[ends]
        return whole & starts_here[starts] & ends_here[ends - 1]

    return settled


def _shifted(values, fill):
    """The values of the positions before."""
    out = np.empty_like(values)
    out[:1] = fill
    out[1:] = values[:-1]
    return out
