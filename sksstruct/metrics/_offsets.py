"""Labels of tokens from spans of characters, and spans from labels."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence, Sized
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.metrics._chunks import TEXTS as _OF_CHUNKS
from sksstruct.metrics._chunks import Chunked
from sksstruct.metrics._sequence import check_sequences
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._offsets import TEXTS, TokenOffsets, check_span
from sksstruct.utils._spans import SCHEMES, check_scheme
from sksstruct.utils.typing import Scheme

_CUTS = "error", "expand", "contract", "unknown"


@fill_doc(TEXTS)
def spans_to_labels(
    spans: Sequence[Sequence[tuple[int, int, str]]],
    offsets: Sequence[ArrayLike],
    *,
    scheme: Literal["BIO", "IOB1", "IOBES", "BILOU"] = "BIO",
    cut: Literal["error", "expand", "contract", "unknown"] = "error",
) -> list[list[Any]]:
    """Labels of tokens from spans of characters, such as those of annotated texts.

    Any tokenizer that returns the offsets of its tokens in the text is suitable.

    Parameters
    ----------
    spans : list of list of tuple
        For each text its spans (start, stop, kind): the first character, the character
        after the last, and the kind, optionally followed by a probability. The order of
        spans does not matter.
    %(offsets)s
    scheme : {"BIO", "IOB1", "IOBES", "BILOU"}, default="BIO"
        Scheme of the labels; see `iter_chunks`.
    cut : {"error", "expand", "contract", "unknown"}, default="error"
        Treatment of a span that begins or ends within a token, or has no token.
        "error": raise an error. "expand": label all tokens that share a character with
        the span. "contract": label the tokens that are entirely in the span. With
        "expand" and "contract", a span without such tokens is left out. "unknown": the
        tokens that share a character with the span get the label None, which stands for
        an unknown label in `sksstruct.ChainCRF` and in the scores of this module.

    Returns
    -------
    labels : list of list of str
        A label for each token of each text.

    Raises
    ------
    ValueError
        If spans of a text overlap, or would label the same token; with ``cut="error"``,
        if a span cuts a token or has no token; or if spans or offsets are not as
        described.

    See Also
    --------
    labels_to_spans : The inverse function.

    Examples
    --------
    >>> from sksstruct.metrics import spans_to_labels
    >>> text = "Ada Lovelace lived in London."
    >>> offsets = [(0, 3), (4, 12), (13, 18), (19, 21), (22, 28), (28, 29)]
    >>> spans_to_labels([[(0, 12, "PER"), (22, 28, "LOC")]], [offsets])
    [['B-PER', 'I-PER', 'O', 'O', 'B-LOC', 'O']]
    """
    scheme = check_scheme(scheme, "scheme", auto=False)
    if cut not in _CUTS:
        *first, last = map(repr, _CUTS)
        raise ValueError(f"cut must be {', '.join(first)} or {last}, got {cut!r:.80}")
    if not isinstance(spans, Sized) or not all(isinstance(row, Sized) for row in spans):
        raise TypeError(
            "spans must be a list with a list of spans for each text, got "
            f"{spans!r:.80}"
        )
    tokens = TokenOffsets(offsets).tokens
    if len(spans) != len(tokens):
        raise ValueError(
            f"spans must have a list for each of the {len(tokens)} texts of offsets, "
            f"got {len(spans)}"
        )
    return [
        _Text(row, each, i).labels(scheme, cut)
        for i, (row, each) in enumerate(zip(spans, tokens, strict=True))
    ]


class _Text:
    """A text: its sorted spans, and its tokens that have characters.

    Parameters
    ----------
    spans : sequence of tuple
        Spans of characters.
    tokens : list of list of int
        Start and stop of every token.
    i : int
        Index of the text, for errors.
    """

    def __init__(self, spans, tokens, i):
        self._i, self._n = i, len(tokens)
        self._spans = sorted(
            check_span(span, f"spans[{i}][{k}]") for k, span in enumerate(spans)
        )
        for one, other in zip(self._spans, self._spans[1:], strict=False):
            if other[0] < one[1]:
                raise ValueError(
                    f"spans[{i}]: the spans {one} and {other} overlap, and a token has "
                    "one label: leave out one of both"
                )
        self._places = [t for t, (a, b) in enumerate(tokens) if a < b]
        self._starts = [tokens[t][0] for t in self._places]
        self._stops = [tokens[t][1] for t in self._places]

    def labels(self, scheme, cut):
        """Return the labels of all tokens, by the scheme and the parameter `cut`."""
        labels, owner = ["O"] * self._n, {}
        for span in self._spans:
            first, end, is_cut = self._range(span, cut)
            if first >= end:
                continue
            places = range(self._places[first], self._places[end - 1] + 1)
            if is_cut and cut == "unknown":
                for t in places:
                    labels[t] = None
                continue
            for t in places:
                if t in owner:
                    raise ValueError(
                        f"spans[{self._i}]: the spans {owner[t]} and {span} are both "
                        f"to label the token at position {t}"
                    )
                owner[t] = span
            before = owner.get(places[0] - 1)
            follows = before is not None and before[2] == span[2]
            for t, letter in zip(
                places, _letters(len(places), scheme, follows), strict=True
            ):
                labels[t] = f"{letter}-{span[2]}"
        return labels

    def _range(self, span, cut):
        """Return the range of a span's tokens in `_places`, and whether the span fits.

        A span does not fit if it cuts a token or has no token; then the last value is
        true.
        """
        start, stop, _ = span
        first, end = bisect_right(self._stops, start), bisect_left(self._starts, stop)
        outer = range(first, end)
        is_cut = not outer or (
            self._starts[first] < start or self._stops[end - 1] > stop
        )
        if is_cut and cut == "error":
            what = "has no token"
            if outer:
                t = first if self._starts[first] < start else end - 1
                what = (
                    f"cuts the token ({self._starts[t]}, {self._stops[t]}) at position "
                    f"{self._places[t]}"
                )
            raise ValueError(
                f"spans[{self._i}]: the span {span} {what}: pass cut='expand', "
                "'contract' or 'unknown', or correct the span"
            )
        if cut == "contract":
            first = bisect_left(self._starts, start)
            end = bisect_right(self._stops, stop)
        return first, end, is_cut


def _letters(n, scheme, follows):
    """Return the letters of the labels of a span of n tokens.

    `follows` is whether the token before the span is in a span of the same kind.
    """
    letters = SCHEMES[scheme]
    if scheme == "IOB1":
        return ("B" if follows else "I") + "I" * (n - 1)
    if scheme == "BIO":
        return "B" + "I" * (n - 1)
    begin, inside, last, single = letters
    return single if n == 1 else begin + inside * (n - 2) + last


@fill_doc({**_OF_CHUNKS, **TEXTS})
def labels_to_spans(
    y: Sequence[Sequence[str]] | np.ndarray,
    offsets: Sequence[ArrayLike],
    *,
    scheme: Scheme = "auto",
    strict: bool = False,
) -> list[list[tuple[int, int, str]]]:
    """Spans of characters from the labels of tokens.

    Parameters
    ----------
    y : list of sequences of str
        A label for each token of each text; see `iter_chunks`.
    %(offsets)s
    %(reading)s

    Returns
    -------
    spans : list of list of tuple of (int, int, str)
        For each text its spans: the first character, the character after the last, and
        the kind. A chunk whose tokens all have no characters is left out.

    Raises
    ------
    ValueError
        If a label is of no scheme, or if a text has another number of tokens than
        labels.

    See Also
    --------
    spans_to_labels : Labels from spans.
    sksstruct.ChainCRF.predict_entities : With `offsets`, spans with probabilities.

    Examples
    --------
    >>> from sksstruct.metrics import labels_to_spans
    >>> offsets = [(0, 3), (4, 12), (13, 18), (19, 21), (22, 28), (28, 29)]
    >>> labels = ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]
    >>> labels_to_spans([labels], [offsets])
    [[(0, 12, 'PER'), (22, 28, 'LOC')]]
    """
    flat, lengths = check_sequences(y, "y")
    texts = TokenOffsets(offsets, lengths.tolist())
    chunked = Chunked({"y": flat}, lengths, scheme, strict)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    kinds, starts, ends = chunked.chunks[0]
    owners = np.searchsorted(bounds, starts, "right") - 1
    spans: list[list[tuple[int, int, str]]] = [[] for _ in lengths]
    columns = owners, starts - bounds[owners], ends - bounds[owners], kinds
    for i, first, end, kind in zip(*(each.tolist() for each in columns), strict=True):
        characters = texts.characters(i, first, end)
        if characters is not None:
            spans[i].append((*characters, chunked.labels.names[kind]))
    return spans
