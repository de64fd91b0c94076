"""Oracles on dependency trees: checks of arrays, and calls of the kernels."""

from math import prod

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.inference._checks import check_k, check_scores, check_sums
from sksstruct.inference.dependencies import (
    _nonprojective,
    _projective,
    _spanning_sums,
)
from sksstruct.utils._layout import aligned_zeros


def _check_arcs(scores, scale=1.0):
    """Check the scores of arcs, of shape (n + 1, n); return a C-contiguous array."""
    scores = check_scores("scores", scores, ndim=2)
    if not scores.size or scores.shape[0] != scores.shape[1] + 1:
        raise ValueError(
            "scores must have shape (n + 1, n), a row for the root and for each of "
            f"n >= 1 words, got {scores.shape}"
        )
    check_sums("scores", 8 * len(scores) * max(scale, 1.0), scores)
    return np.ascontiguousarray(scores)


def dependency_tree(
    scores: ArrayLike, *, projective: bool = True, single_root: bool = True
) -> tuple[np.ndarray, float]:
    """Find the best dependency tree of a sentence.

    Parameters
    ----------
    scores : array-like of shape (n + 1, n)
        Score of each arc from a head to a modifier. Row 0 is the root, row h is word
        h, and column m - 1 is word m, of n >= 1 words. ``-inf`` forbids an arc. The
        score of an arc from a word to itself is ignored.
    projective : bool, default=True
        Whether the words below each word must be contiguous. If False, the tree may be
        any arborescence.
    single_root : bool, default=True
        Whether exactly one word hangs from the root. If False, any number may.

    Returns
    -------
    heads : ndarray of shape (n,), int32
        Head of each word; 0 is the root. All are 0 if there is no tree. The same
        scores always give the same tree: among equal scores, a projective span takes
        the lowest split, and a word or cycle takes the lowest head.
    score : float
        Score of the tree; ``-inf`` if every tree is forbidden.

    Raises
    ------
    ValueError
        If the shape is not (n + 1, n), or an entry is NaN, ``+inf``, or so large that
        sums could overflow.

    References
    ----------
    J. Eisner, "Three new probabilistic models for dependency parsing: an exploration",
    COLING 1996.
    J. Edmonds, "Optimum branchings", Journal of Research of the National Bureau of
    Standards 71B(4), 1967.

    Examples
    --------
    >>> from sksstruct.inference import dependency_tree
    >>> heads, score = dependency_tree([[1, 5, 1], [0, 1, 2], [3, 0, 4], [1, 2, 0]])
    >>> heads.tolist(), score
    ([2, 0, 2], 12.0)
    """
    scores = _check_arcs(scores)
    oracles = _projective if projective else _nonprojective
    heads = np.zeros(scores.shape[1], dtype=np.int32)
    scratch = aligned_zeros(oracles.tree_memory(len(heads)))
    return heads, oracles.find_tree(single_root, scores, scratch, heads)


def dependency_topk(
    scores: ArrayLike, k: int, *, projective: bool = True, single_root: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k best dependency trees of a sentence, in order.

    Parameters
    ----------
    scores : array-like of shape (n + 1, n)
        Scores of arcs, see `dependency_tree`.
    k : int
        Number of trees.
    projective : bool, default=True
        Whether the words below each word must be contiguous.
    single_root : bool, default=True
        Whether exactly one word hangs from the root. If False, any number may.

    Returns
    -------
    heads : ndarray of shape (n_trees, n), int32
        The n_trees <= k best trees, all different; fewer than k if fewer are allowed.
        The order of trees with equal scores depends on the scores only; the first tree
        has the same score as the tree of `dependency_tree`.
    values : ndarray of shape (n_trees,)
        Their scores, which do not increase.

    Raises
    ------
    ValueError
        In the cases of `dependency_tree`, or if k is not a positive integer.

    References
    ----------
    L. Huang and D. Chiang, "Better k-best parsing", IWPT 2005.
    E. L. Lawler, "A procedure for computing the K best solutions to discrete
    optimization problems and its application to the shortest path problem", Management
    Science 18, 1972.

    Examples
    --------
    >>> from sksstruct.inference import dependency_topk
    >>> heads, values = dependency_topk([[2, 1], [0, 1], [3, 0]], 5)
    >>> heads.tolist(), values.tolist()
    ([[2, 0], [0, 1]], [4.0, 3.0])
    """
    k = check_k(k)
    scores = _check_arcs(scores)
    # there are no more trees than combinations of heads, so that memory for more than
    # these is not needed; ranks are 32-bit numbers
    heads_of_words = (scores > -np.inf).sum(axis=0) - (scores[1:].diagonal() > -np.inf)
    n_trees = min(k, prod(heads_of_words.tolist()), 2**31 - 1)
    n = scores.shape[1]
    heads, values = np.zeros((n_trees, n), dtype=np.int32), np.zeros(n_trees)
    # no tree is allowed if some word has no allowed head
    if n_trees == 0:
        return heads, values
    oracles = _projective if projective else _nonprojective
    scratch = aligned_zeros(oracles.topk_memory(n, n_trees))
    count = oracles.find_topk(single_root, scores, scratch, values, heads)
    return heads[:count], values[:count]


def dependency_marginals(
    scores: ArrayLike,
    *,
    projective: bool = True,
    single_root: bool = True,
    scale: float = 1.0,
) -> tuple[float, np.ndarray]:
    """Compute the log-partition function and the probabilities of arcs.

    Parameters
    ----------
    scores : array-like of shape (n + 1, n)
        Scores of arcs, see `dependency_tree`.
    projective : bool, default=True
        Whether the words below each word must be contiguous.
    single_root : bool, default=True
        Whether exactly one word hangs from the root. If False, any number may.
    scale : float, default=1.0
        Positive factor of all scores.

    Returns
    -------
    log_partition : float
        Logarithm of the sum over all trees of the exponential of their scaled score;
        ``-inf`` if every tree is forbidden.
    marginals : ndarray of shape (n + 1, n)
        Probability of each arc. Columns sum to one, or to zero if every tree is
        forbidden.

    Raises
    ------
    ValueError
        In the cases of `dependency_tree`, or if the scale is not positive and finite.

    Notes
    -----
    Sums over projective trees are computed by the inside-outside algorithm on Eisner's
    chart. Sums over all trees are determinants, by Tutte's matrix-tree theorem in the
    form of Koo et al. The elimination has no subtraction, so that the result is
    accurate even if the matrix is ill-conditioned. Both methods use logarithms if
    numbers would underflow.

    References
    ----------
    T. Koo, A. Globerson, X. Carreras and M. Collins, "Structured prediction models via
    the matrix-tree theorem", EMNLP-CoNLL 2007.
    R. McDonald and G. Satta, "On the complexity of non-projective data-driven
    dependency parsing", IWPT 2007.

    Examples
    --------
    >>> from sksstruct.inference import dependency_marginals
    >>> log_partition, marginals = dependency_marginals([[2, 0], [0, 0], [0, 0]])
    >>> marginals.round(2).tolist()
    [[0.88, 0.12], [0.0, 0.88], [0.12, 0.0]]
    """
    if not 0.0 < scale < float("inf"):
        raise ValueError(f"scale must be positive and finite, got {scale!r}")
    scores = _check_arcs(scores, scale)
    oracles = _projective if projective else _spanning_sums
    marginals = np.zeros(scores.shape)
    scratch = aligned_zeros(oracles.sums_memory(scores.shape[1]))
    value = oracles.find_sums(single_root, scores, scale, scratch, marginals)
    return value, marginals
