"""Oracles on chains: Viterbi, the K best labelings, forward-backward.

The functions check arguments, pad rows and call the kernels `_viterbi`, `_topk`,
`_sumproduct` and, for sparse transitions, `_sparse_viterbi`.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sksstruct.inference._checks import (
    check_chain,
    check_k,
    check_positions,
    check_scores,
    check_sums,
)
from sksstruct.inference.chains._sparse_viterbi import SparseTransitions
from sksstruct.inference.chains._sumproduct import sum_labelings
from sksstruct.inference.chains._topk import find_topk
from sksstruct.inference.chains._viterbi import find_each, find_labeling
from sksstruct.utils._layout import aligned_zeros, pad_rows
from sksstruct.utils.sparse_input import sound_csr
from sksstruct.utils.typing import MatrixLike


def _pad(unary, pairwise):
    """Return padded scores and tables, and the distance between tables in memory.

    The distance is zero if one table serves all pairs of neighbors.
    """
    n = unary.shape[1]
    # A single position has no pairs, and pairwise may be empty; the kernels need the
    # address of one table.
    tables = pairwise.reshape(-1, n) if pairwise.size else np.zeros((n, n))
    theta = pad_rows(unary)
    return theta, pad_rows(tables), n * theta.shape[1] if pairwise.ndim == 3 else 0


def viterbi(unary: ArrayLike, pairwise: MatrixLike) -> tuple[np.ndarray, float]:
    """Find the best labeling of a chain (max-product).

    Parameters
    ----------
    unary : array-like of shape (T, K)
        Score of each of K labels at each of T >= 1 positions; ``-inf`` forbids a
        label.
    pairwise : array-like of shape (K, K) or (T - 1, K, K), or sparse (K, K)
        Score of each pair of neighboring labels, from -> to: one table for all
        positions, or one for each pair of neighbors. ``-inf`` forbids a pair. Pairs
        that a sparse table does not store have the score zero, and take no time.

    Returns
    -------
    labeling : ndarray of shape (T,), int32
        A labeling with the highest score. Of several such labelings, it is the one with
        the lowest last label; the second to last label breaks remaining ties, and so
        on.
    score : float
        Score of the labeling. If every labeling is forbidden, the score is ``-inf`` and
        the labeling is arbitrary.

    Raises
    ------
    ValueError
        If the shapes do not match, an entry is NaN or ``+inf``, sums of scores could
        overflow, or an index of a sparse table is out of range.

    References
    ----------
    A. J. Viterbi, "Error bounds for convolutional codes and an asymptotically optimum
    decoding algorithm", IEEE Transactions on Information Theory 13(2), 1967.

    Examples
    --------
    >>> from sksstruct.inference import viterbi
    >>> labeling, score = viterbi([[1, 0], [0, 0.5]], [[1, 0], [0, 1]])
    >>> labeling.tolist(), score
    ([0, 0], 2.0)
    """
    # `_viterbi_sparse` checks a sparse table without making an array of size K x K
    if sparse.issparse(pairwise):
        return _viterbi_sparse(unary, pairwise)
    unary, pairwise = check_chain(unary, pairwise)
    labeling = np.empty(len(unary), dtype=np.int32)
    delta, tables, step = _pad(unary, pairwise)
    return labeling, find_labeling(unary.shape[1], delta, tables, step, labeling)


def _viterbi_sparse(unary, transitions):
    """Run `viterbi` with sparse transitions: pairs not stored have the score zero."""
    unary = check_positions(unary)
    size, n_labels = unary.shape
    if transitions.shape != (n_labels, n_labels):
        raise ValueError(
            f"pairwise must have shape {(n_labels, n_labels)} for unary of shape "
            f"{unary.shape}, got {transitions.shape}"
        )
    transitions = sound_csr(transitions, "pairwise")
    stored = check_scores("pairwise.data", transitions.data[: transitions.nnz])
    # duplicate entries of a sparse table are added up
    check_sums("unary and pairwise", 4 * size * (len(stored) + 1), unary, stored)
    return SparseTransitions.of_table(transitions).viterbi(unary)


def viterbi_group(unary, starts, tables, table_begins, table_steps):
    """Find the best labelings of many chains with K labels each, without checks.

    Parameters
    ----------
    unary : ndarray of shape (n_positions, K)
        Scores of all chains, one after the other.
    starts : ndarray of shape (n_chains + 1,), intp
        First position of each chain, and the number of all positions.
    tables : ndarray of shape (n_tables, K, K)
        Tables of all chains; at least one.
    table_begins : ndarray of shape (n_chains,), intp
        First table of each chain.
    table_steps : ndarray of shape (n_chains,), intp
        1 if each pair of neighbors has its own table, 0 if all share one.

    Returns
    -------
    labeling : ndarray of shape (n_positions,), int32
        Labeling of each chain, as found by `viterbi`.
    scores : ndarray of shape (n_chains,)
        Scores of the labelings.
    """
    n_states = unary.shape[1]
    labeling, scores = np.empty(len(unary), dtype=np.int32), np.empty(len(table_begins))
    delta, rows = pad_rows(unary), pad_rows(tables.reshape(-1, n_states))
    arrays = starts, rows, table_begins, table_steps, labeling, scores
    find_each(n_states, delta, *arrays)
    return labeling, scores


def _limit_to_allowed(k, unary, pairwise):
    """Limit k to the number of labelings; a large k, to that of allowed labelings."""
    size, n = unary.shape
    k = min(k, n ** min(size, 64), 2**31 - 1)
    # for a small k, unused rows of the output take less time than counting labelings
    if k * size < 10**6:
        return k
    # Sum-product of zeros and ones counts labelings, exactly below 2^53. Counts are cut
    # off at 1e15, which is larger than any k.
    tables = (pairwise > -np.inf).astype(float)
    ways = (unary[0] > -np.inf).astype(float)
    for t in range(1, size):
        table = tables[t - 1] if tables.ndim == 3 else tables
        ways = np.minimum(ways @ table, 1e15) * (unary[t] > -np.inf)
    return max(int(min(k, ways.sum())), 1)


def viterbi_topk(
    unary: ArrayLike, pairwise: ArrayLike, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k best labelings of a chain, in order.

    Parameters
    ----------
    unary : array-like of shape (T, K)
        Score of each of K labels at each of T >= 1 positions; ``-inf`` forbids a
        label.
    pairwise : array-like of shape (K, K) or (T - 1, K, K)
        Score of each pair of neighboring labels, from -> to: one table for all
        positions, or one for each pair of neighbors. ``-inf`` forbids a pair.
    k : int
        Number of labelings.

    Returns
    -------
    labelings : ndarray of shape (n, T), int32
        The n <= k best labelings, all different; fewer than k if fewer are allowed.
        Labelings with equal scores are ordered by their last label, then by the second
        to last, and so on. The first labeling is that of `viterbi`.
    scores : ndarray of shape (n,)
        Scores of the labelings, which do not increase.

    Raises
    ------
    ValueError
        If the shapes do not match, an entry is NaN or ``+inf``, or k is not a positive
        integer.

    References
    ----------
    K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
    structured prediction models", NeurIPS 2018, Algorithm 2.
    V. M. Jimenez and A. Marzal, "Computing the K shortest paths: a new algorithm and an
    experimental comparison", WAE 1999.

    Examples
    --------
    >>> from sksstruct.inference import viterbi_topk
    >>> labelings, scores = viterbi_topk([[1, 0], [0, 0.5]], [[1, 0], [0, 1]], 3)
    >>> labelings.tolist(), scores.tolist()
    ([[0, 0], [0, 1], [1, 1]], [2.0, 1.5, 1.5])
    """
    unary, pairwise = check_chain(unary, pairwise)
    size, n = unary.shape
    most = _limit_to_allowed(check_k(k), unary, pairwise)
    theta, tables, step = _pad(unary, pairwise)
    labelings, scores = np.empty((most, size), dtype=np.int32), np.empty(most)
    delta = np.empty(theta.shape)
    count = find_topk(n, theta, delta, tables, step, scores, labelings)
    return labelings[:count].copy(), scores[:count].copy()


def forward_backward(
    unary: ArrayLike, pairwise: ArrayLike
) -> tuple[float, np.ndarray, np.ndarray]:
    """Compute the log-partition function and marginals of a chain (sum-product).

    Parameters
    ----------
    unary : array-like of shape (T, K)
        Score of each of K labels at each of T >= 1 positions; ``-inf`` forbids a
        label.
    pairwise : array-like of shape (K, K) or (T - 1, K, K)
        Score of each pair of neighboring labels, from -> to: one table for all
        positions, or one for each pair of neighbors. ``-inf`` forbids a pair.

    Returns
    -------
    log_partition : float
        Logarithm of the sum of the exponentials of the scores of all labelings.
    nodes : ndarray of shape (T, K)
        Probability of each label at each position.
    edges : ndarray of shape (T - 1, K, K)
        Probability of each pair of neighboring labels, from -> to.

    Raises
    ------
    ValueError
        If the shapes do not match, an entry is NaN or ``+inf``, or every labeling is
        forbidden.

    Notes
    -----
    This is Algorithm 9 of [1]_ on a chain. Scores may have any size: their maximum is
    subtracted before they are exponentiated. A chain whose messages would underflow is
    computed in log space.

    References
    ----------
    .. [1] K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to
       train structured prediction models", NeurIPS 2018.

    Examples
    --------
    >>> from sksstruct.inference import forward_backward
    >>> unary, pairwise = [[1, 0], [0, 0]], [[1, 0], [0, 1]]
    >>> log_partition, nodes, edges = forward_backward(unary, pairwise)
    >>> nodes.round(2).tolist()
    [[0.73, 0.27], [0.61, 0.39]]
    """
    unary, pairwise = check_chain(unary, pairwise)
    size, n = unary.shape
    theta, tables, step = _pad(unary, pairwise)
    ld = theta.shape[1]
    cells = n * ld
    n_tables = max(size - 1, 1) if step else 1
    exponentials = aligned_zeros(2 * n_tables * cells)
    # `rows` is the memory for u, alpha and the node marginals, (size, ld) each, for
    # three scratch rows, and for one scale per position
    rows = aligned_zeros(3 * (size + 1) * ld + size)
    edges = aligned_zeros((size - 1) * cells)
    log_partition = sum_labelings(
        n, theta, tables, bool(step), exponentials, rows, edges
    )
    if math.isinf(log_partition):
        raise ValueError(
            "every labeling is forbidden: unary and pairwise leave no distribution"
        )
    nodes = rows[2 * size * ld : 3 * size * ld].reshape(size, ld)[:, :n]
    means = edges.reshape(size - 1, n, ld)[:, :, :n]
    return log_partition, np.ascontiguousarray(nodes), np.ascontiguousarray(means)
