"""The k best labelings from max-marginals: checks of the oracles and `bmmf`.

`_bmmf.pyx` has the search.
"""

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.inference._checks import check_k, check_variables
from sksstruct.inference.search._best_first import found_by
from sksstruct.inference.search._bmmf import Problem


class Oracles:
    """Oracles given by the caller, with checks of their results.

    Parameters
    ----------
    oracle : callable
        ``oracle(scores)`` returns max-marginals.
    rows : list of ndarray
        Scores of the states of each variable.
    solver : callable or None
        ``solver(scores)`` returns a best labeling and its score.
    """

    def __init__(self, oracle, rows, solver):
        self.oracle, self.rows, self.solver = oracle, rows, solver
        sizes = [len(row) for row in rows]
        # the oracle gets scores in the form of the caller's unary
        self.as_array = len(set(sizes)) == 1
        self.first = np.concatenate([[0], np.cumsum(sizes)])
        # scores under the constraints of the next query, written by the search
        self.constrained = np.concatenate(rows)

    def shown(self):
        """Return the constrained scores in the form of the caller's `unary`."""
        flat = self.constrained.copy()
        if self.as_array:
            return flat.reshape(len(self.rows), -1)
        return np.split(flat, self.first[1:-1])

    def marginals(self):
        """Return the max-marginals of the constrained scores, checked and flat."""
        given = self.shown()
        table = self.oracle(given)
        # the oracle is a function of the caller: check the shape of its result
        if self.as_array and isinstance(table, np.ndarray):
            fits = table.shape == given.shape
        else:
            fits = len(table) == len(self.rows) and all(
                np.shape(row) == np.shape(other)
                for row, other in zip(table, self.rows, strict=True)
            )
        if not fits:
            raise ValueError(
                "max_marginals must return one number for each state of each variable, "
                "in the form of unary"
            )
        if self.as_array:
            table = np.array(table, dtype=np.float64).ravel()
        else:
            table = np.concatenate([np.asarray(row, dtype=np.float64) for row in table])
        if np.isnan(table).any():
            k = np.argmax(np.isnan(table))
            v = np.searchsorted(self.first, k, side="right") - 1
            raise ValueError(
                "max_marginals must return numbers, -inf for forbidden states, and "
                f"returned NaN for state {k - self.first[v]} of variable {v}"
            )
        # with a max-marginal above -inf for a forbidden state, the search would find a
        # labeling in two parts
        if (table[self.constrained == -np.inf] > -np.inf).any():
            raise ValueError(
                "max_marginals gave a score to a state that its argument forbids: the "
                "max-marginal of a state with score -inf must be -inf"
            )
        return table

    def best(self):
        """Return a best labeling of the constrained scores, checked, and its score.

        The labeling is None if the score is -inf.
        """
        labeling, score = self.solver(self.shown())
        if not score < np.inf:
            raise ValueError(
                f"max_product returned the score {score}: it must be below +inf"
            )
        if score == -np.inf:
            return None, score
        if len(labeling) != len(self.rows):
            raise ValueError(
                f"max_product returned {len(labeling)} states for {len(self.rows)} "
                "variables"
            )
        out = np.empty(len(self.rows), dtype=np.int32)
        for variable, row in enumerate(self.rows):
            state, begin = index(labeling[variable]), self.first[variable]
            # a labeling with a forbidden state belongs to another part of the search,
            # and would be found twice
            if not 0 <= state < len(row) or self.constrained[begin + state] == -np.inf:
                raise ValueError(
                    f"max_product gave variable {variable} the state {state}, which "
                    "its argument does not have or forbids"
                )
            out[variable] = state
        return out, score


def bmmf(
    max_marginals: Callable[..., Any],
    unary: np.ndarray | Sequence[ArrayLike],
    k: int,
    *,
    max_product: Callable[..., Any] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k best labelings of any problem with an oracle for max-marginals.

    Parameters
    ----------
    max_marginals : callable
        ``max_marginals(unary)`` takes scores in the form of `unary`. It returns, in the
        same form, the score of the best labeling with each state of each variable.
        Entries of ``-inf`` in the argument forbid states.
    unary : ndarray of shape (p, n_states) or list of array-like of shape (n_states,)
        Scores of the states of each of p variables.
    k : int
        Number of labelings.
    max_product : callable, default=None
        ``max_product(unary)`` returns the best labeling and its score, or ``-inf`` if
        every labeling is forbidden. Then `max_marginals` is called less often, and
        labelings with equal scores take no more time than others.

    Returns
    -------
    labelings : ndarray of shape (n, p), int32
        The n <= k best labelings, all different; fewer than k if fewer are allowed.
        The order of labelings with equal scores depends only on the oracles.
    scores : ndarray of shape (n,)
        Scores of the labelings, which do not increase.

    Raises
    ------
    ValueError
        If the scores or k are not valid, or the max-marginals are not in the form of
        the scores.

    Notes
    -----
    If no two labelings are about equally good, there are at most 2 k calls of
    `max_marginals`. Each variable without a clearly best state adds one call. With
    `max_product` there are at most 2 k calls of `max_marginals` in any case, and at
    most k calls of `max_product`. If max-marginals are only upper bounds, each state
    that turns out to be forbidden adds one call of `max_product`.

    References
    ----------
    C. Yanover and Y. Weiss, "Finding the M most probable configurations using loopy
    belief propagation", NIPS 2004.
    K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
    structured prediction models", NeurIPS 2018, Algorithm 10.

    Examples
    --------
    >>> from sksstruct.inference import bmmf, matching_max_marginals
    >>> labelings, scores = bmmf(matching_max_marginals, [[3, 2, 0], [3, 0, 0]], 3)
    >>> labelings.tolist(), scores.tolist()
    ([[1, 0], [0, 1], [2, 0]], [5.0, 3.0, 3.0])
    """
    k = check_k(k)
    oracles = Oracles(max_marginals, check_variables(unary), max_product)
    scores, first = oracles.constrained.copy(), oracles.first
    sizes = np.where(scores > -np.inf, np.abs(scores), 0.0)
    size = np.maximum.reduceat(sizes, first[:-1]).sum()
    arrays = np.empty(len(scores), dtype=np.uint8), np.empty(len(scores))
    problem = Problem(oracles, first, scores, size, arrays)
    labelings = found_by(problem, min(k, 2**31 - 1))
    return labelings, np.array([problem.value(rank) for rank in range(len(labelings))])
