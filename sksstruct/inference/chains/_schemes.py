"""Pairs of labels that a labeling scheme (BIO, IOB1, IOBES, BILOU) forbids."""

from collections.abc import Iterable

import numpy as np

from sksstruct.utils._spans import BEGIN, END, INSIDE, OUTSIDE, SpanLabels, check_scheme
from sksstruct.utils.typing import Scheme

# _CONTINUE, by scheme: roles of labels that may only follow BEGIN or INSIDE of the same
# kind. _UNFINISHED, by scheme: roles that only a role in _CONTINUE, of the same kind,
# may follow.
_CONTINUE = {"BIO": [INSIDE], "IOB1": [BEGIN]}
_CONTINUE["IOBES"] = _CONTINUE["BILOU"] = [INSIDE, END]
_UNFINISHED = {"IOBES": [BEGIN, INSIDE], "BILOU": [BEGIN, INSIDE]}


def scheme_transitions(labels: Iterable[str], scheme: Scheme = "auto") -> list[tuple]:
    """Pairs of labels that do not follow each other in well-formed labelings.

    For instance, an ``I-X`` of BIO continues a chunk of kind X: it may only follow
    ``B-X`` or ``I-X``, and must not come first.

    Parameters
    ----------
    labels : iterable of str
        Labels of one scheme; see `sksstruct.metrics.iter_chunks`.
    scheme : {"auto", "BIO", "IOB1", "IOBES", "BILOU"}, default="auto"
        Scheme of the labels. "auto": the one to which all labels belong. Labels B- and
        I- are read as BIO.

    Returns
    -------
    forbidden : list of tuple
        Pairs (from, to); None stands for the start or the end of a sequence.

    Raises
    ------
    ValueError
        If a label does not belong to the scheme, or the labels belong to several.

    Examples
    --------
    >>> from sksstruct.inference import scheme_transitions
    >>> scheme_transitions(["O", "B-NP", "I-NP"])
    [(None, 'I-NP'), ('O', 'I-NP')]
    >>> len(scheme_transitions(["O", "B-NP", "I-NP", "E-NP", "S-NP"]))
    16
    """
    spans = SpanLabels(dict.fromkeys(labels))
    scheme = spans.scheme(check_scheme(scheme))
    # rows: the start of a sequence, then all labels; columns: all labels, then the end
    before, after = np.append(OUTSIDE, spans.parts), np.append(spans.parts, OUTSIDE)
    kinds = np.append(-1, spans.kinds), np.append(spans.kinds, -1)
    continues = np.isin(after, _CONTINUE[scheme])
    unfinished = np.isin(before, _UNFINISHED.get(scheme, []))
    linked = np.isin(before, [BEGIN, INSIDE])[:, None] & continues
    linked &= kinds[0][:, None] == kinds[1]
    forbidden = (unfinished[:, None] | continues) & ~linked
    first, last = [None, *spans.labels], [*spans.labels, None]
    return [(first[a], last[b]) for b, a in np.argwhere(forbidden.T).tolist()]
