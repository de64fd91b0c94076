"""Enumeration of all labelings: for small problems, and as a reference in tests."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from sksstruct.inference._checks import (
    check_edges,
    check_k,
    check_sums,
    check_tables,
    check_variables,
)


class Exhaustive:
    """Inference by enumeration, on any pairwise graph with few labelings.

    Parameters
    ----------
    unary : list of array-like of shape (n_states,), or ndarray of shape (p, n_states)
        Scores of the states of each of p variables; ``-inf`` forbids a state.
    edges : array-like of shape (n_edges, 2), default=()
        Pairs of variables; any graph.
    pairwise : list of array-like of shape (n_states_u, n_states_v), or one array-like
        Table of scores of each edge (u, v), or one for all edges.
    score : callable, default=None
        ``score(labeling)`` is added to the score of each labeling; ``-inf`` forbids the
        labeling.
    max_labelings : int, default=10**6
        Maximum number of labelings. Problems with more labelings raise an error.

    Attributes
    ----------
    labelings : ndarray of shape (n_labelings, p), int32
        All labelings, in lexicographic order.
    scores : ndarray of shape (n_labelings,)
        Score of each labeling.

    Raises
    ------
    ValueError
        If the shapes do not fit, an entry is NaN or ``+inf``, or there are more than
        `max_labelings` labelings.

    Examples
    --------
    >>> from sksstruct.inference import Exhaustive
    >>> triangle = [(0, 1), (1, 2), (2, 0)]
    >>> table = [[0.0, 1.0], [1.0, 0.0]]
    >>> everything = Exhaustive([[0.0, 0.5]] * 3, triangle, table)
    >>> labeling, score = everything.max_product()
    >>> labeling.tolist(), score
    ([1, 1, 0], 3.0)
    """

    def __init__(
        self,
        unary: Sequence[ArrayLike] | np.ndarray,
        edges: ArrayLike = (),
        pairwise: Sequence[ArrayLike] | ArrayLike | None = None,
        *,
        score: Callable[..., Any] | None = None,
        max_labelings: int = 10**6,
    ) -> None:
        unary = check_variables(unary)
        edges = check_edges(edges, len(unary))
        sizes = [len(row) for row in unary]
        tables, which = check_tables(pairwise, edges, sizes)
        terms = 4 * (len(unary) + len(edges))
        check_sums("unary and pairwise", terms, np.concatenate(unary), *tables)
        count = prod(sizes)
        if count > max_labelings:
            raise ValueError(
                f"there are {count} labelings, more than max_labelings={max_labelings}"
            )
        # the states of labeling i are the digits of the number i in mixed radix, with
        # bases `sizes` (np.indices does not allow enough dimensions)
        number = np.arange(count)
        labelings = np.empty((count, len(sizes)), dtype=np.int32)
        for v in range(len(sizes) - 1, -1, -1):
            number, labelings[:, v] = np.divmod(number, sizes[v])
        self.labelings = labelings
        scores = np.zeros(count)
        for v, row in enumerate(unary):
            scores += row[self.labelings[:, v]]
        for (u, v), table in zip(edges, which, strict=True):
            scores += tables[table][self.labelings[:, u], self.labelings[:, v]]
        if score is not None:
            more = np.array([float(score(labeling)) for labeling in self.labelings])
            if not more.max() < np.inf:
                raise ValueError(
                    "score returned NaN or +inf for labelings"
                    f"[{np.flatnonzero(~(more < np.inf))[0]}]"
                )
            scores += more
        self.scores = scores
        self._sizes, self._edges = sizes, edges

    def max_product(self) -> tuple[np.ndarray, float]:
        """Find the best labeling and its score.

        Returns
        -------
        labeling : ndarray of shape (p,), int32
            Best labeling; among several, the one with the lowest state of the last
            variable, then of the last but one, and so on.
        score : float
            Score of the labeling.
        """
        best = np.flatnonzero(self.scores == self.scores.max())
        first = best[np.lexsort(self.labelings[best].T)[0]]
        return self.labelings[first], float(self.scores[first])

    def topk(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the k best allowed labelings.

        Parameters
        ----------
        k : int
            Number of labelings.

        Returns
        -------
        labelings : ndarray of shape (n, p), int32
            Labelings, the best first. Labelings with equal scores are ordered by the
            state of their last variable, then of the last but one, and so on.
        scores : ndarray of shape (n,)
            Scores of the labelings.
        """
        order = np.lexsort((*self.labelings.T, -self.scores))[: check_k(k)]
        order = order[self.scores[order] > -np.inf]
        return self.labelings[order], self.scores[order]

    def sum_product(self) -> tuple[float, list[np.ndarray], list[np.ndarray]]:
        """Compute the log-partition function and marginals.

        Returns
        -------
        log_partition : float
            Logarithm of the sum of the exponentials of all scores.
        nodes : list of ndarray of shape (n_states,)
            Probability of each state of each variable.
        edges : list of ndarray of shape (n_states_u, n_states_v)
            Probability of each pair of states of each edge.
        """
        if self.scores.max() == -np.inf:
            raise ValueError("every labeling is forbidden: there is no distribution")
        log_partition = float(logsumexp(self.scores))
        weights = np.exp(self.scores - log_partition)
        return log_partition, *self._means(self.labelings, weights)

    def max_marginals(self) -> list[np.ndarray]:
        """Compute the score of the best labeling with each state of each variable.

        Returns
        -------
        max_marginals : list of ndarray of shape (n_states,)
            Scores; ``-inf`` if all labelings with the state are forbidden.
        """
        out = [np.full(size, -np.inf) for size in self._sizes]
        for v, row in enumerate(out):
            np.maximum.at(row, self.labelings[:, v], self.scores)
        return out

    def _means(self, labelings, weights):
        """Return node and edge marginals of labelings with probabilities `weights`."""
        nodes = [
            np.bincount(labelings[:, v], weights=weights, minlength=size)
            for v, size in enumerate(self._sizes)
        ]
        edges = []
        for u, v in self._edges:
            table = np.zeros((self._sizes[u], self._sizes[v]))
            np.add.at(table, (labelings[:, u], labelings[:, v]), weights)
            edges.append(table)
        return nodes, edges
