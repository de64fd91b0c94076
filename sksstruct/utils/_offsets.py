"""Places of tokens in a text: pairs (start, stop) of characters from tokenizers."""

from collections.abc import Sized
from numbers import Integral

import numpy as np

# Text for the docstrings of functions with offsets.
TEXTS = {
    "offsets": """
offsets : list of array-like of shape (n_tokens, 2)
    For each token of a text, in order: the index of its first character, and of the
    character after its last one. Tokens with the same start and stop, such as the marks
    that tokenizers add, have no characters. Tokens may share characters, as pieces of
    one character do.
""",
}


class TokenOffsets:
    """Checked places of the tokens of several texts, in characters.

    Parameters
    ----------
    offsets : list of array-like of shape (n_tokens, 2)
        A pair for each token of each text.
    lengths : sequence of int, default=None
        Numbers of tokens that are expected.
    of_what : str, default="labels"
        What the lengths count, for errors.

    Attributes
    ----------
    tokens : list of list of list of int
        The pairs of each text.

    Raises
    ------
    TypeError, ValueError
        If the offsets are not a list of pairs of integers, do not match the lengths, or
        are not in order.
    """

    def __init__(self, offsets, lengths=None, of_what="labels"):
        if not isinstance(offsets, Sized) or isinstance(offsets, str):
            raise TypeError(
                "offsets must be a list with the offsets of the tokens of each text, "
                f"got {offsets!r:.80}"
            )
        if lengths is not None and len(offsets) != len(lengths):
            raise ValueError(
                f"offsets has {len(offsets)} texts, but there are {len(lengths)} "
                f"sequences of {of_what}"
            )
        self.tokens = [_checked(row, f"offsets[{i}]") for i, row in enumerate(offsets)]
        for i, row in enumerate(self.tokens if lengths is not None else ()):
            if len(row) != lengths[i]:
                raise ValueError(
                    f"offsets[{i}] has {len(row)} tokens, but there are {lengths[i]} "
                    f"{of_what}"
                )

    def characters(self, i, first, end):
        """Return (start, stop) in characters for tokens first to end - 1 of text i.

        Returns None if none of these tokens has characters.
        """
        inside = [pair for pair in self.tokens[i][first:end] if pair[0] < pair[1]]
        return (inside[0][0], inside[-1][1]) if inside else None


def _checked(row, name):
    """Return the checked pairs (start, stop) of the tokens of a text as a list."""
    expected = f"{name} must be pairs (start, stop) of integers, one for each token"
    try:
        pairs = np.asarray(row)
    except ValueError:
        raise ValueError(f"{expected}, got {row!r:.80}") from None
    if not pairs.size:
        return []
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(f"{expected}, got {row!r:.80}")
    wrong = (pairs[:, 0] < 0) | (pairs[:, 1] < pairs[:, 0])
    nonempty = np.flatnonzero(pairs[:, 0] < pairs[:, 1])
    if not wrong.any():
        falls = (np.diff(pairs[nonempty], axis=0) < 0).any(axis=1)
        wrong[nonempty[1:][falls]] = True
    if wrong.any():
        t = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"{name} has {tuple(pairs[t].tolist())} at position {t}: tokens begin at 0 "
            "or later, end where they begin or later, and are in the order of the text"
        )
    return pairs.tolist()


def check_span(span, name):
    """Return (start, stop, kind) of a checked span, which may have a fourth entry."""
    if isinstance(span, Sized) and not isinstance(span, str) and len(span) in (3, 4):
        start, stop, kind = list(span)[:3]
        numbers = isinstance(start, Integral) and isinstance(stop, Integral)
        if numbers and 0 <= start < stop and isinstance(kind, str) and kind:
            return int(start), int(stop), kind
    raise ValueError(
        f"{name} must be (start, stop, kind) with 0 <= start < stop and the name of a "
        f"kind, perhaps with a probability, got {span!r:.80}"
    )
