"""Partial matches of chunks, counted as in the MUC evaluations."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sksstruct.metrics._chunk_scores import chunk_pairs
from sksstruct.metrics._chunks import TEXTS
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.typing import Scheme

# Ways of comparing a predicted chunk with a true chunk.
_MATCHES = ("strict", "exact", "partial", "type")
_OUTCOMES = ("correct", "incorrect", "partial", "missed", "spurious")


@fill_doc(TEXTS)
def chunk_match_scores(
    y_true: Sequence[Sequence[str]] | np.ndarray,
    y_pred: Sequence[Sequence[str]] | np.ndarray,
    *,
    scheme: Scheme = "auto",
    strict: bool = False,
    by_type: bool = False,
) -> dict[str, Any]:
    """Scores of chunks that overlap, counted as in the MUC evaluations.

    A predicted chunk may overlap a true chunk without being equal: the scores compare
    the two chunks in four ways. From left to right, each predicted chunk is paired with
    a true chunk that it overlaps and that has no pair yet. A pair is counted as
    follows:

    ===========  =================  ==================  ================
    ..           same ends and      same ends, another  ends that differ
                 type               type
    ===========  =================  ==================  ================
    "strict"     correct            incorrect           incorrect
    "exact"      correct            correct             incorrect
    "partial"    correct            correct             partial
    "type"       correct            incorrect           correct if the
                                                        type is right
    ===========  =================  ==================  ================

    A true chunk without a pair is missed, and a predicted chunk without a pair is
    spurious. With "type", a predicted chunk is paired with the overlapping true chunk
    of its type whose ends are the nearest. If there is none, and with "strict", "exact"
    and "partial", the predicted chunk is paired with the first overlapping true chunk.
    A partial match counts half::

        precision = (correct + partial / 2) / (number of predicted chunks)
        recall = (correct + partial / 2) / (number of true chunks)

    Parameters
    ----------
    %(chunk_labels)s
    %(reading)s
        The result has an entry "strict" in both cases.
    by_type : bool, default=False
        Whether to score the chunks of each type separately. Chunks of different types
        are then never paired.

    Returns
    -------
    scores : dict of str to dict
        For "strict", "exact", "partial" and "type" a dict with the numbers ``correct``,
        ``incorrect``, ``partial``, ``missed`` and ``spurious``, and with ``precision``,
        ``recall`` and ``f1-score``, which are 0 if the denominator is zero. With
        `by_type`, a dict of such dicts for each type of chunk that occurs.

    See Also
    --------
    chunk_classification_report : Scores of chunks with the right type and both ends.

    References
    ----------
    N. Chinchor and B. Sundheim, "MUC-5 evaluation metrics", Fifth Message Understanding
    Conference, 1993.

    I. Segura-Bedmar, P. Martinez and M. Herrero-Zazo, "SemEval-2013 Task 9: Extraction
    of drug-drug interactions from biomedical texts", SemEval, 2013.

    Examples
    --------
    >>> from sksstruct.metrics import chunk_match_scores
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC", "O"]]
    >>> y_pred = [["B-PER", "O", "O", "B-ORG", "O"]]
    >>> scores = chunk_match_scores(y_true, y_pred)
    >>> {name: row["f1-score"] for name, row in scores.items()}
    {'strict': 0.0, 'exact': 0.5, 'partial': 0.75, 'type': 0.5}
    """
    names, true, found = chunk_pairs(y_true, y_pred, scheme, strict)
    if not by_type:
        return _scores(true, found)
    return {
        name: _scores(*(spans[:, spans[0] == kind] for spans in (true, found)))
        for kind, name in enumerate(names)
        if kind in true[0] or kind in found[0]
    }


def _scores(true, found):
    """Return the scores of predicted chunks in each way of comparing chunks.

    A chunk is a column of its kind, its first position, and its end.
    """
    overlaps = _overlapping(true, found)
    true, found = true.T.tolist(), found.T.tolist()
    return {match: _row(_compared(true, found, overlaps, match)) for match in _MATCHES}


def _overlapping(true, found):
    """Return the range of the true chunks that overlap each predicted chunk.

    The chunks of a labeling are in order and do not overlap each other.
    """
    first = np.searchsorted(true[2], found[1], side="right")
    last = np.searchsorted(true[1], found[2], side="left")
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _compared(true, found, overlaps, match):
    """Pair chunks; return the number of pairs, or single chunks, of each outcome."""
    counts, paired = dict.fromkeys(_OUTCOMES, 0), set()
    for chunk, (first, last) in zip(found, overlaps, strict=True):
        free = [k for k in range(first, last) if k not in paired]
        if not free:
            counts["spurious"] += 1
            continue
        pair = _nearest(chunk, true, free) if match == "type" else free[0]
        paired.add(pair)
        counts[_outcome(chunk, true[pair], match)] += 1
    counts["missed"] = len(true) - len(paired)
    return counts


def _nearest(chunk, true, free):
    """Return the free true chunk of a chunk's type with the nearest ends.

    If no free true chunk has this type, the first free chunk is returned.
    """
    same = [k for k in free if true[k][0] == chunk[0]]

    def distance(k):
        return abs(true[k][1] - chunk[1]) + abs(true[k][2] - chunk[2])

    return min(same, key=distance, default=free[0])


def _outcome(chunk, other, match):
    same_type, same_ends = chunk[0] == other[0], chunk[1:] == other[1:]
    if match == "partial":
        return "correct" if same_ends else "partial"
    right = {"strict": same_type and same_ends, "exact": same_ends, "type": same_type}
    return "correct" if right[match] else "incorrect"


def _row(counts):
    """Return the counts of the outcomes, with precision, recall and F1."""
    pairs = counts["correct"] + counts["incorrect"] + counts["partial"]
    right = counts["correct"] + counts["partial"] / 2
    found, true = pairs + counts["spurious"], pairs + counts["missed"]
    return counts | {
        "precision": right / found if found else 0.0,
        "recall": right / true if true else 0.0,
        "f1-score": 2 * right / (found + true) if found + true else 0.0,
    }
