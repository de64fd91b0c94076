"""Labels that mark spans of tokens: schemes, and where spans begin and end.

Scores, conversions and constraints share these definitions.
"""

import numpy as np

# Letters of the labels of each scheme: at the beginning of a span, inside, at the end,
# and of spans with a single token.
SCHEMES = {"BIO": "BI", "IOB1": "BI", "IOBES": "BIES", "BILOU": "BILU"}
_SYNONYMS = {"IOB2": "BIO", "BIOES": "IOBES", "BILUO": "BILOU"}
OUTSIDE, BEGIN, INSIDE, END, SINGLE = range(5)
_PARTS = {"B": BEGIN, "I": INSIDE, "E": END, "L": END, "S": SINGLE, "U": SINGLE}


def check_scheme(scheme, name="scheme", *, auto=True):
    """Return the scheme that a string names, or "auto"."""
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
    """Distinct labels, each split into the letter of a scheme and the kind of a span.

    Parameters
    ----------
    labels : iterable of str
        "O", a letter, or a letter, a dash and the kind of a span.
    where : callable, default=None
        Returns the beginning of errors about a label.

    Attributes
    ----------
    labels : list of str
        The labels.
    letters : list of str
        First letters of the labels.
    parts : ndarray of shape (n_labels,), int8
        Role of each label in a span: `OUTSIDE`, `BEGIN`, `INSIDE`, `END` or `SINGLE`.
    kinds : ndarray of shape (n_labels,), intp
        Index in `names` of the kind of each label, -1 outside of spans.
    names : list of str
        The kinds in order; "_" is the kind of labels that are only a letter.

    Raises
    ------
    ValueError
        If a label belongs to no scheme.
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
        """Return letter and kind of a label."""
        if label == "O":
            return label, None
        if isinstance(label, str) and label[:1] in _PARTS and label[1:2] in ("", "-"):
            return label[0], label[2:] or "_"
        raise ValueError(
            f"{self._where(label)} {label!r:.80}, which is of no scheme of spans: "
            "expected 'O', or one of B-, I-, E-, S-, L- and U- with the kind of a span"
        )

    def begins(self):
        """Return whether a span begins between two labels, as (n, n) bool.

        Labels of any scheme are read as in the CoNLL evaluation; see
        `SpanSequence.read`.
        """
        before, after = self.parts[:, None], self.parts
        continues = np.isin(before, [BEGIN, INSIDE]) & np.isin(after, [INSIDE, END])
        continues &= self.kinds[:, None] == self.kinds
        return ~continues & (after != OUTSIDE)

    def with_letter(self, letters):
        """Return the first label that begins with one of the letters, or None."""
        matching = (k for k, letter in enumerate(self.letters) if letter in letters)
        return next((self.labels[k] for k in matching), None)

    def text(self, label):
        """Return the beginning of an error message about a label."""
        return f"{self._where(label)} {label!r:.80}"

    def scheme(self, given="auto"):
        """Return the scheme of the labels: the given scheme, unless it is "auto".

        Labels alone cannot distinguish IOB1 with B- labels from BIO; the result is then
        BIO.

        Raises
        ------
        ValueError
            If a label is not of the scheme, or if labels belong to several schemes.
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
    """Labels at all positions of concatenated sequences, as roles and kinds of spans.

    Parameters
    ----------
    labels : SpanLabels
        The distinct labels.
    codes : ndarray of shape (n_positions,), int
        Number of the label at each position.
    first : ndarray of shape (n_positions,), bool
        Whether a sequence begins at each position.
    """

    def __init__(self, labels, codes, first):
        self.parts, self.kinds = labels.parts[codes], labels.kinds[codes]
        self.first = first
        before = _shifted(self.parts, OUTSIDE)
        before[first] = OUTSIDE
        self._before = before
        # same kind as the position before, and neither position is outside
        self._same = (before != OUTSIDE) & (self.kinds == _shifted(self.kinds, -1))
        self._open = (before == BEGIN) | (before == INSIDE)

    def read(self, scheme=None):
        """Return the first positions of spans, and the positions after their last ones.

        Parameters
        ----------
        scheme : str, default=None
            Omit labels that form no span of this scheme, as seqeval does. None: every
            position that is not outside belongs to a span, as in the CoNLL evaluation
            of labels of any scheme.

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
            # a label after a misplaced B- begins a span
            follows = (self._before == INSIDE) | _shifted(begins, False)
            starts = begins | ((parts == INSIDE) & ~(follows & same))
            starts, ends = self._cut(starts, ~(inside & ~starts))
            # as in seqeval, a B- does not end a span of another kind that is a single
            # B-: the span is omitted
            after = np.append(parts, OUTSIDE)[ends]
            within = ~np.append(self.first, True)[ends]
            keep = (parts[ends - 1] != BEGIN) | (after != BEGIN) | ~within
            keep |= self.kinds[ends - 1] == np.append(self.kinds, -1)[ends]
            return starts[keep], ends[keep]
        inside |= (parts == END) & self._open & same
        starts, ends = self._cut(begins, ~inside)
        complete = parts[ends - 1] >= END
        return starts[complete], ends[complete]

    def _cut(self, starts, breaks):
        """Return spans from each start to the next break; `breaks` has all starts."""
        places = np.flatnonzero(breaks)
        is_start = starts[places]
        ends = np.append(places[1:], len(breaks))
        return places[is_start], ends[is_start]

    def misplaced(self):
        """Return where B- and I- labels violate BIO, and where they violate IOB1."""
        follows = self._open & self._same
        not_bio = (self.parts == INSIDE) & ~follows
        return not_bio, (self.parts == BEGIN) & ~follows


def all_settled(sequences, known, scheme=None):
    """Find spans that do not depend on labels that are not known.

    Parameters
    ----------
    sequences : list of SpanSequence
        Labelings of the same positions.
    known : ndarray of shape (n_positions,), bool
        Whether the label is known at each position.
    scheme : str, default=None
        Scheme in which spans are read; see `SpanSequence.read`.

    Returns
    -------
    settled : callable
        ``settled(starts, ends)`` returns for each span whether all its labels are
        known, and each of its two ends is next to a known label or is the end of a
        span in every labeling.
    """
    starts_here, ends_here = np.ones((2, len(known)), dtype=bool)
    if scheme == "IOB1":
        # in IOB1 the role of a label depends on the label before it: a label counts as
        # known only if the label before it is known, too
        known = known & (sequences[0].first | _shifted(known, True))
        starts_here[:] = ends_here[:] = False
    for each in sequences:
        starts_here &= np.isin(each.parts, (OUTSIDE, BEGIN, SINGLE))
        ends_here &= np.isin(each.parts, (OUTSIDE, END, SINGLE))
    starts_here |= sequences[0].first | _shifted(known, True)
    ends_here |= np.append(sequences[0].first, True)[1:] | np.append(known, True)[1:]
    unknown = np.concatenate([[0], np.cumsum(~known)])

    def settled(starts, ends):
        complete = unknown[starts] == unknown[ends]
        return complete & starts_here[starts] & ends_here[ends - 1]

    return settled


def _shifted(values, fill):
    """Return for each position the value at the position before; `fill` comes first."""
    out = np.empty_like(values)
    out[:1] = fill
    out[1:] = values[:-1]
    return out
