"""Oracles on trees and forests whose variables may differ in their states."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from sksstruct.inference._checks import check_k
from sksstruct.inference.trees._forest import Forest
from sksstruct.inference.trees._topk import best_labelings


def max_product(
    unary: Sequence[ArrayLike] | np.ndarray,
    edges: ArrayLike,
    pairwise: Sequence[ArrayLike] | ArrayLike,
) -> tuple[np.ndarray, float]:
    """Find the best labeling of a tree or forest (max-product).

    Parameters
    ----------
    unary : list of array-like of shape (n_states,), or ndarray of shape (p, n_states)
        Scores of the states of each of p variables; ``-inf`` forbids a state.
    edges : array-like of shape (n_edges, 2)
        Pairs of variables, without a cycle.
    pairwise : list of array-like of shape (n_states_u, n_states_v), or one array-like
        Table of scores of each edge (u, v), or one for all edges. Edges whose tables
        are the same object share its memory.

    Returns
    -------
    labeling : ndarray of shape (p,), int32
        A labeling with the highest score. If there are several, the last variable of
        each tree takes the lowest of its best states. Every other variable then takes
        its lowest best state, given the state of its neighbor on the path to the last
        variable.
    score : float
        Score of the labeling; ``-inf`` if every labeling is forbidden.

    Raises
    ------
    ValueError
        If the shapes do not fit, an entry is NaN or ``+inf``, or an edge closes a
        cycle.

    See Also
    --------
    viterbi : The same on a chain.

    References
    ----------
    K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
    structured prediction models", NeurIPS 2018, Algorithm 7.

    Examples
    --------
    >>> from sksstruct.inference import max_product
    >>> unary = [[0, 1], [0, 0, 2], [1, 0]]
    >>> tables = [[[0, 0, 0], [3, 0, 0]], [[0, 0], [1, 0], [0, 0]]]
    >>> labeling, score = max_product(unary, [(0, 1), (1, 2)], tables)
    >>> labeling.tolist(), score
    ([1, 0, 0], 5.0)
    """
    return Forest(unary, edges, pairwise).max_product()


def max_product_topk(
    unary: Sequence[ArrayLike] | np.ndarray,
    edges: ArrayLike,
    pairwise: Sequence[ArrayLike] | ArrayLike,
    k: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k best labelings of a tree or forest, in order.

    Parameters
    ----------
    unary, edges, pairwise : list
        See `max_product`.
    k : int
        Number of labelings.

    Returns
    -------
    labelings : ndarray of shape (n, p), int32
        The n <= k best labelings, all different; fewer than k if fewer are allowed.
        The order of labelings with equal scores depends on the potentials only; the
        first labeling is as good as that of `max_product`.
    scores : ndarray of shape (n,)
        Scores of the labelings, which do not increase.

    Raises
    ------
    ValueError
        As `max_product` raises, and if k is not a positive integer.

    See Also
    --------
    viterbi_topk : The same on a chain, faster.

    References
    ----------
    K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
    structured prediction models", NeurIPS 2018, Algorithm 8.

    Examples
    --------
    >>> from sksstruct.inference import max_product_topk
    >>> unary, table = [[0, 1], [0, 3]], [[5, 0], [0, 0]]
    >>> labelings, scores = max_product_topk(unary, [(0, 1)], table, 2)
    >>> labelings.tolist(), scores.tolist()
    ([[0, 0], [1, 1]], [5.0, 4.0])
    """
    k = check_k(k)
    # ranks are 32-bit numbers
    return best_labelings(Forest(unary, edges, pairwise), min(k, 2**31 - 1))


def sum_product(
    unary: Sequence[ArrayLike] | np.ndarray,
    edges: ArrayLike,
    pairwise: Sequence[ArrayLike] | ArrayLike,
) -> tuple[float, list[np.ndarray], list[np.ndarray]]:
    """Compute the log-partition function and marginals of a forest (sum-product).

    Parameters
    ----------
    unary, edges, pairwise : list
        See `max_product`.

    Returns
    -------
    log_partition : float
        Logarithm of the sum of the exponentials of the scores of all labelings.
    nodes : list of ndarray of shape (n_states,)
        Probability of each state of each variable.
    edges : list of ndarray of shape (n_states_u, n_states_v)
        Probability of each pair of states, for each edge (u, v).

    Raises
    ------
    ValueError
        As `max_product` raises, and if every labeling is forbidden.

    See Also
    --------
    forward_backward : The same on a chain, faster.

    References
    ----------
    K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
    structured prediction models", NeurIPS 2018, Algorithm 9.

    Examples
    --------
    >>> from sksstruct.inference import sum_product
    >>> unary, table = [[0, 0], [0, 1]], [[1, 0], [0, 1]]
    >>> log_partition, nodes, edges = sum_product(unary, [(0, 1)], table)
    >>> nodes[1].round(2).tolist()
    [0.27, 0.73]
    """
    forest = Forest(unary, edges, pairwise, both=True)
    beliefs, pairs, log_partition = forest.two_passes(True)
    if log_partition == -np.inf:
        raise ValueError(
            "every labeling is forbidden: unary and pairwise leave no distribution"
        )
    # Beliefs are log-marginals up to a constant. Each belief is normalized by the sum
    # of its exponentials, as a rounding error of the log-partition would be
    # exponentiated.
    nodes = [softmax(row) for row in forest.split(beliefs)]
    return log_partition, nodes, [softmax(table) for table in pairs]


def max_marginals(
    unary: Sequence[ArrayLike] | np.ndarray,
    edges: ArrayLike,
    pairwise: Sequence[ArrayLike] | ArrayLike,
) -> list[np.ndarray]:
    """Compute the max-marginals of a tree or forest, in two passes.

    Parameters
    ----------
    unary, edges, pairwise : list
        See `max_product`.

    Returns
    -------
    max_marginals : list of ndarray of shape (n_states,)
        For each state of each variable the score of the best labeling that has it;
        ``-inf`` if all labelings that have the state are forbidden.

    Raises
    ------
    ValueError
        As `max_product` raises.

    Examples
    --------
    >>> from sksstruct.inference import max_marginals
    >>> unary, table = [[0, 1], [0, 3]], [[5, 0], [0, 0]]
    >>> [row.tolist() for row in max_marginals(unary, [(0, 1)], table)]
    [[5.0, 4.0], [5.0, 4.0]]
    """
    forest = Forest(unary, edges, pairwise, both=True)
    return [row.copy() for row in forest.split(forest.two_passes(False)[0])]
