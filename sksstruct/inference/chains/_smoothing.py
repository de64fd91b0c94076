"""Smoothed maxima over labelings (Pillutla et al., 2018, Sections 2 and 4, App. A)."""

from collections.abc import Sequence
from numbers import Real
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.inference._checks import (
    check_chain,
    check_k,
    check_scores,
    check_variables,
    is_table,
)
from sksstruct.inference.chains._oracles import forward_backward, viterbi_topk
from sksstruct.inference.trees._trees import max_product_topk, sum_product
from sksstruct.projections import project_simplex


class SmoothedMax(NamedTuple):
    """Value and gradient of a smoothed maximum.

    Parameters
    ----------
    value : float
        The smoothed maximum.
    nodes : ndarray of shape (T, K) or list of ndarray
        Gradient with respect to the unary scores: expected indicators of labels.
    edges : ndarray of shape (T - 1, K, K) or list of ndarray
        Gradient with respect to the pairwise scores: expected indicators of pairs.
    exact : bool
        Whether all labelings with a positive probability are among the k best; always
        True with the entropy.

    Examples
    --------
    >>> from sksstruct.inference import smoothed_max_product
    >>> result = smoothed_max_product([[1.0, 0.0]], [[0.0] * 2] * 2, 1.0)
    >>> round(result.value, 3), result.nodes.round(3).tolist()
    (1.313, [[0.731, 0.269]])
    """

    value: float
    nodes: np.ndarray | list[np.ndarray]
    edges: np.ndarray | list[np.ndarray]
    exact: bool


def smoothed_max_product(
    unary: ArrayLike | Sequence[ArrayLike],
    pairwise: ArrayLike | Sequence[ArrayLike],
    mu: float,
    *,
    edges: ArrayLike | None = None,
    smoothing: Literal["entropy", "l2"] = "entropy",
    k: int = 10,
) -> SmoothedMax:
    """Compute a smoothed maximum over the labelings of a chain, tree or forest.

    Computes ``max_u <u, scores> - mu * omega(u)`` over distributions u on the labelings
    [1]_. With the entropy, omega is the negative entropy, the value is `mu` times the
    log-partition function of the scores divided by `mu`, and the gradient consists of
    marginals (Algorithm 3). With l2, omega is ``(|u|^2 - 1) / 2``, and only the k best
    labelings have a positive probability (Algorithm 6).

    Parameters
    ----------
    unary : array-like of shape (T, K), or list of array-like of shape (n_states,)
        Scores of labels at positions of a chain; or of states of variables, with
        `edges`.
    pairwise : array-like of shape (K, K) or (T - 1, K, K), or list of array-like
        Scores of pairs, as for `viterbi`; with `edges`, as for `max_product`.
    mu : float
        Weight of omega, positive: how smooth the maximum is.
    edges : array-like of shape (n_edges, 2), default=None
        Edges of a tree or forest; None for a chain.
    smoothing : {"entropy", "l2"}, default="entropy"
        Function omega: negative entropy, or half the squared norm.
    k : int, default=10
        Number of best labelings that may have a positive probability, for l2.

    Returns
    -------
    result : SmoothedMax
        Value and gradient, and whether they are those of the maximum over all
        labelings. With l2 they are if ``mu`` is at most the sum of
        ``score_i - score_{k+1}`` over the k best labelings (Proposition 4).

    Raises
    ------
    ValueError
        If an argument is not valid, or every labeling is forbidden.

    References
    ----------
    .. [1] K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to
       train structured prediction models", NeurIPS 2018, Section 2 and Appendix A.

    Examples
    --------
    >>> from sksstruct.inference import smoothed_max_product
    >>> unary, table = [[1, 0], [0, 0.5]], [[1, 0], [0, 1]]
    >>> result = smoothed_max_product(unary, table, 1.0, smoothing="l2", k=2)
    >>> result.value, result.nodes.tolist(), result.exact
    (2.0625, [[1.0, 0.0], [0.75, 0.25]], False)
    """
    if isinstance(mu, bool) or not isinstance(mu, Real):
        raise ValueError(f"mu must be a number, got {mu!r}")
    if not 0 < mu < np.inf:
        raise ValueError(f"mu must be positive and finite, got {mu!r}")
    if smoothing == "entropy":
        return _by_entropy(unary, pairwise, mu, edges)
    if smoothing != "l2":
        raise ValueError(f"smoothing must be 'entropy' or 'l2', got {smoothing!r}")
    return _by_projection(unary, pairwise, mu, edges, check_k(k))


def _by_entropy(unary, pairwise, mu, edges):
    """Smoothed maximum with the entropy: sum-product of scores divided by mu."""
    if edges is None:
        unary, pairwise = check_chain(unary, pairwise)
        log_partition, nodes, pairs = forward_backward(unary / mu, pairwise / mu)
    else:
        # checked before the division, so that messages quote the caller's scores
        check_variables(unary)
        log_partition, nodes, pairs = sum_product(
            _divided(unary, mu), edges, _divided(pairwise, mu)
        )
    return SmoothedMax(mu * log_partition, nodes, pairs, True)


def _by_projection(unary, pairwise, mu, edges, k):
    """Smoothed maximum with l2 over the k best labelings."""
    # the score of labeling k + 1 shows whether labelings beyond the k best would have a
    # positive probability
    if edges is None:
        unary, pairwise = check_chain(unary, pairwise)
        labelings, scores = viterbi_topk(unary, pairwise, k + 1)
        sizes = [unary.shape[1]] * len(unary)
        pairs = [(t, t + 1) for t in range(len(unary) - 1)]
    else:
        labelings, scores = max_product_topk(unary, edges, pairwise, k + 1)
        sizes = [len(row) for row in unary]
        pairs = edges
    if not len(scores):
        raise ValueError(
            "every labeling is forbidden: unary and pairwise leave nothing to smooth"
        )
    exact = len(scores) <= k or bool(mu <= (scores[:k] - scores[k]).sum())
    labelings, scores = labelings[:k], scores[:k]
    # subtracting the largest score does not change the projection, and keeps more
    # digits
    u = project_simplex((scores - scores[0]) / mu)
    value = scores[0] + u @ (scores - scores[0]) + mu / 2 * (1 - u @ u)
    nodes, tables = _means(labelings, u, sizes, pairs)
    if edges is None:
        tables = np.array(tables).reshape(len(sizes) - 1, sizes[0], sizes[0])
        nodes = np.array(nodes)
    return SmoothedMax(float(value), nodes, tables, exact)


def _means(labelings, weights, sizes, pairs):
    """Expected indicators of states and of pairs of states of weighted labelings."""
    nodes = [
        np.bincount(labelings[:, variable], weights, size)
        for variable, size in enumerate(sizes)
    ]
    tables = []
    for left, right in pairs:
        table = np.zeros((sizes[left], sizes[right]))
        # labelings may share a pair: `table[...] +=` would add only one of their
        # weights
        np.add.at(table, (labelings[:, left], labelings[:, right]), weights)
        tables.append(table)
    return nodes, tables


def _divided(tables, mu):
    """Divide scores by mu; variables that share a table share its quotient."""
    if tables is None:
        return None
    if is_table(tables) or (isinstance(tables, np.ndarray) and tables.dtype != object):
        return check_scores("scores", tables) / mu
    # keyed by identity, as `check_tables` recognizes shared tables by identity
    quotients = {}
    for table in tables:
        if id(table) not in quotients:
            quotients[id(table)] = check_scores("scores", table) / mu
    return [quotients[id(table)] for table in tables]
