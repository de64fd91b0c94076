"""Oracles on semi-Markov chains: best, k best and expected segmentations."""

from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.inference._checks import check_k
from sksstruct.inference.segments._semi_markov import (
    SegmentPotentials,
    labeling_segments,
)


def segment_viterbi(
    nodes: ArrayLike,
    lengths: ArrayLike,
    transitions: ArrayLike,
    *,
    first: ArrayLike | None = None,
    last: ArrayLike | None = None,
    spans: ArrayLike | None = None,
    span_scores: ArrayLike | None = None,
    tail: ArrayLike | None = None,
) -> tuple[np.ndarray, float]:
    """Find the best segmentation of a sequence (semi-Markov max-product).

    A segmentation is a list of labeled segments that together contain each position
    once. Its score is the sum of the scores of positions, of the lengths of
    segments, and of pairs of labels of neighboring segments.

    Parameters
    ----------
    nodes : array-like of shape (T, K) or (T, 4, K)
        Score of each of K labels at each of T >= 1 positions. Four rows for each
        position are scores of the first position of a segment, of a position inside, of
        the last position, and of a segment of length one. ``-inf`` forbids.
    lengths : array-like of shape (L, K)
        Score of each label for segments of each length from 1 to L; ``-inf`` forbids a
        length. No segment is longer than L without `tail`.
    transitions : array-like of shape (K, K)
        Score of each pair of labels of neighboring segments, from -> to.
    first, last : array-like of shape (K,), default=None
        Score of the label of the first and of the last segment; None for zeros.
    spans : array-like of shape (n_spans, 2), default=None
        Segments (start, stop) with scores of their own; stop is exclusive. The scores
        of a span that is listed twice are added.
    span_scores : array-like of shape (n_spans, K), default=None
        Score of each label for each of `spans`, added if the span is a segment.
    tail : array-like of shape (K,), default=None
        Score of each label for each position of a segment beyond L, in addition to the
        score of length L; ``-inf`` forbids. None: no segment is longer than L.

    Returns
    -------
    segments : ndarray of shape (n_segments, 3), int32
        A segmentation with the highest score: (start, stop, label) of each segment. If
        there are several, it is the one with the lowest last label, then the shortest
        last segment, then the lowest label before it, and so on.
    score : float
        Score of the segmentation. If every segmentation is forbidden, the score is
        ``-inf`` and the segmentation is arbitrary.

    Raises
    ------
    ValueError
        If the shapes do not match, an entry is NaN or ``+inf``, sums of scores could
        overflow, or a span is not within the sequence.

    See Also
    --------
    viterbi : The same for segments of length one.

    Notes
    -----
    The time is proportional to T (L + K) K, Equation 3 of [1]_, also with `tail`. With
    `tail`, spans longer than L increase L to the length of the longest span, because
    the recursion of tails cannot score single segments.

    References
    ----------
    .. [1] S. Sarawagi and W. W. Cohen, "Semi-Markov conditional random fields for
       information extraction", NIPS 2004.

    Examples
    --------
    >>> from sksstruct.inference import segment_viterbi
    >>> nodes = [[1, 0], [1, 0], [0, 2], [0, 0]]
    >>> lengths = [[-1, 0], [0, 1]]
    >>> segments, score = segment_viterbi(nodes, lengths, [[0, 1], [0, 0]])
    >>> segments.tolist(), score
    ([[0, 2, 0], [2, 4, 1]], 6.0)
    """
    potentials = SegmentPotentials(
        nodes, lengths, transitions, first, last, spans, span_scores, tail
    )
    labeling, score = potentials.best()
    return labeling_segments(labeling), score


def segment_topk(
    nodes: ArrayLike,
    lengths: ArrayLike,
    transitions: ArrayLike,
    k: int,
    *,
    first: ArrayLike | None = None,
    last: ArrayLike | None = None,
    spans: ArrayLike | None = None,
    span_scores: ArrayLike | None = None,
    tail: ArrayLike | None = None,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Find the k best segmentations of a sequence, in order.

    Parameters
    ----------
    nodes, lengths, transitions : array-like
        See `segment_viterbi`.
    k : int
        Number of segmentations.
    first, last, spans, span_scores, tail : array-like, default=None
        See `segment_viterbi`.

    Returns
    -------
    segmentations : list of ndarray of shape (n_segments, 3), int32
        The n <= k best segmentations, all different; fewer than k if fewer are
        allowed. Equal scores are in the order of the tie rule of `segment_viterbi`,
        whose segmentation is the first.
    scores : ndarray of shape (n,)
        Scores of the segmentations, which do not increase.

    Raises
    ------
    ValueError
        As `segment_viterbi` raises, and if k is not a positive integer.

    References
    ----------
    K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
    structured prediction models", NeurIPS 2018, Algorithm 2.

    Examples
    --------
    >>> from sksstruct.inference import segment_topk
    >>> segmentations, scores = segment_topk([[1], [2]], [[0], [1]], [[-3]], 5)
    >>> [segments.tolist() for segments in segmentations], scores.tolist()
    ([[[0, 2, 0]], [[0, 1, 0], [1, 2, 0]]], [4.0, 0.0])
    """
    potentials = SegmentPotentials(
        nodes, lengths, transitions, first, last, spans, span_scores, tail
    )
    # The count of all segmentations bounds memory: each position continues a segment or
    # begins a segment with one of n labels. Ranks are 32-bit numbers.
    n = potentials.n_labels
    count = min(check_k(k), n * (n + 1) ** (potentials.size - 1), 2**31 - 1)
    labelings, scores = potentials.best_k(count)
    return [labeling_segments(labeling) for labeling in labelings], scores


class SegmentMarginals(NamedTuple):
    """Log-partition, expected counts and probabilities of segments.

    Expected counts have the shapes of the scores: each count is the expected number of
    times that the score of a segmentation has the entry as a term.

    Parameters
    ----------
    log_partition : float
        Logarithm of the sum of the exponentials of the scores of all segmentations.
    nodes : ndarray of shape (T, K) or (T, 4, K)
        Probability of each label, and each role, at each position.
    lengths : ndarray of shape (L, K)
        Expected number of segments of each length and label.
    transitions : ndarray of shape (K, K)
        Expected number of neighboring segments of each pair of labels.
    first, last : ndarray of shape (K,) or None
        Probability of the label of the first and of the last segment; None if `first`
        or `last` is None.
    spans : ndarray of shape (n_spans, K)
        Probability that each span is a segment with each label.
    segments : ndarray of shape (n_segments,)
        Probability of each of the requested segments.
    tail : ndarray of shape (K,) or None
        Expected number of positions of segments beyond L; None if `tail` is None.

    Examples
    --------
    >>> from sksstruct.inference import segment_sum_product
    >>> result = segment_sum_product([[0], [0]], [[0], [0]], [[0]])
    >>> round(result.log_partition, 3), result.lengths.round(2).tolist()
    (0.693, [[1.0], [0.5]])
    """

    log_partition: float
    nodes: np.ndarray
    lengths: np.ndarray
    transitions: np.ndarray
    first: np.ndarray | None
    last: np.ndarray | None
    spans: np.ndarray
    segments: np.ndarray
    tail: np.ndarray | None


def segment_sum_product(
    nodes: ArrayLike,
    lengths: ArrayLike,
    transitions: ArrayLike,
    *,
    first: ArrayLike | None = None,
    last: ArrayLike | None = None,
    spans: ArrayLike | None = None,
    span_scores: ArrayLike | None = None,
    tail: ArrayLike | None = None,
    mu: float = 1.0,
    segments: ArrayLike | None = None,
) -> SegmentMarginals:
    """Compute the log-partition and expected counts of segmentations (sum-product).

    Parameters
    ----------
    nodes, lengths, transitions, first, last, spans, span_scores, tail : array-like
        See `segment_viterbi`.
    mu : float, default=1.0
        Divisor of all scores, positive.
    segments : array-like of shape (n_segments, 3), default=None
        Segments (start, stop, label) whose probabilities are returned.

    Returns
    -------
    result : SegmentMarginals
        Log-partition, expected counts and probabilities.

    Raises
    ------
    ValueError
        As `segment_viterbi` raises, and if `mu` is not valid, a segment is not within
        the sequence, or every segmentation is forbidden.

    See Also
    --------
    forward_backward : The same for segments of length one.

    References
    ----------
    S. Sarawagi and W. W. Cohen, "Semi-Markov conditional random fields for information
    extraction", NIPS 2004, Section 3.2.

    Examples
    --------
    >>> from sksstruct.inference import segment_sum_product
    >>> nodes, lengths = [[1, 0], [1, 0], [0, 2]], [[0, 0], [1, 0]]
    >>> result = segment_sum_product(
    ...     nodes, lengths, [[0, 1], [0, 0]], segments=[(0, 2, 0)]
    ... )
    >>> result.nodes.round(2).tolist(), result.segments.round(2).tolist()
    ([[0.89, 0.11], [0.83, 0.17], [0.08, 0.92]], [0.53])
    """
    if isinstance(mu, bool) or not isinstance(mu, Real) or not 0 < mu < np.inf:
        raise ValueError(f"mu must be a positive number, got {mu!r}")
    potentials = SegmentPotentials(
        nodes, lengths, transitions, first, last, spans, span_scores, tail
    )
    wanted = _check_segments(segments, potentials.size, potentials.n_labels)
    log_partition, means, probabilities = potentials.sums(1.0 / mu, wanted)
    if log_partition == -np.inf:
        raise ValueError("every segmentation is forbidden: there is no distribution")
    tables, tail = means[:6], means[6]
    return SegmentMarginals(log_partition, *tables, probabilities, tail)


def _check_segments(segments, size, n_labels):
    """Return rows (start, stop, label) as intp; raise ValueError if any is invalid."""
    rows = np.asarray([] if segments is None else segments)
    if not rows.size:
        rows = np.zeros((0, 3), dtype=np.intp)
    if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype.kind not in "iu":
        raise ValueError(
            "segments must be integers of shape (n_segments, 3), got "
            f"{rows.dtype} of shape {rows.shape}"
        )
    start, stop, label = rows.T
    bad = (start < 0) | (stop <= start) | (stop > size) | (label < 0)
    bad |= label >= n_labels
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"segments[{i}] is {tuple(rows[i].tolist())}: it must be (start, stop, "
            f"label) with 0 <= start < stop <= {size} and a label below {n_labels}"
        )
    return np.ascontiguousarray(rows, dtype=np.intp)
