"""Assignments of rows to columns: the best one, its prices, and max-marginals.

Every row takes one column, no column is taken twice, and columns may stay free. If rows
may stay without a column, extra columns, as many as rows, represent this choice.
`scipy.optimize.linear_sum_assignment` finds best assignments.

Prices and max-marginals are longest paths in a graph on the rows and one node F for the
free columns (Duchi et al., 2006; Algorithm 12 of Pillutla et al., 2018, whose residual
graph carries the scores): an arc r -> s with the gain of row r when it takes the column
of s, and F -> s with gain 0, by which the column of s becomes free. As the assignment
is the best, no cycle in this graph has a positive gain.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from sksstruct.inference._checks import check_scores, check_sums
from sksstruct.inference.assignment._paths import (
    assignment_max_marginals,
    prices_of_columns,
)


class Matching(NamedTuple):
    """A best assignment and the certificate that it is best.

    Parameters
    ----------
    labeling : ndarray of shape (n_rows,), int32
        Column of each row; -1 for a row without a column.
    score : float
        Score of the assignment; ``-inf`` if every assignment is forbidden.
    row_prices : ndarray of shape (n_rows,) or None
        Dual prices u of the rows.
    column_prices : ndarray of shape (n_columns,) or None
        Dual prices v >= 0 of the columns, 0 for columns that stay free. ``u_i + v_j``
        is at least the score of row i in column j, and equal to this score if i is
        assigned to j; the sum of all prices is the score of the assignment. Both prices
        are None if every assignment is forbidden.

    Examples
    --------
    >>> from sksstruct.inference import matching
    >>> best = matching([[3, 2], [3, 0]])
    >>> best.labeling.tolist(), best.score
    ([1, 0], 5.0)
    >>> float(best.row_prices.sum() + best.column_prices.sum())
    5.0
    """

    labeling: np.ndarray
    score: float
    row_prices: np.ndarray | None
    column_prices: np.ndarray | None


def matching(
    scores: ArrayLike, unassigned: float | ArrayLike | None = None
) -> Matching:
    """Find the best assignment of rows to columns.

    Parameters
    ----------
    scores : array-like of shape (n_rows, n_columns)
        Score of each pair; ``-inf`` forbids the pair.
    unassigned : float or array-like of shape (n_rows,), default=None
        Score of a row that stays without a column. None: every row must have a column,
        unless there are more rows than columns; then ``n_rows - n_columns`` rows have
        no column, at score 0.

    Returns
    -------
    result : Matching
        Assignment, score, and dual prices. Among several best assignments, the result
        is that of scipy, always the same for the same scores.

    Raises
    ------
    ValueError
        If the shapes do not fit, or an entry is NaN, ``+inf``, or so large that sums
        could overflow.

    References
    ----------
    D. F. Crouse, "On implementing 2D rectangular assignment algorithms", IEEE
    Transactions on Aerospace and Electronic Systems 52(4), 2016.

    Examples
    --------
    >>> from sksstruct.inference import matching
    >>> result = matching([[3, 2, 0], [3, 0, 0]])
    >>> result.labeling.tolist(), result.score
    ([1, 0], 5.0)
    >>> result.row_prices.tolist(), result.column_prices.tolist()
    ([2.0, 2.0], [1.0, 0.0, 0.0])
    """
    scores, alone = check_assignment(scores, unassigned)
    return matchings(scores[None], None if alone is None else alone[None])[0]


def matchings(scores, alone=None):
    """Find best assignments of many problems of the same shape.

    Parameters
    ----------
    scores : ndarray of shape (n_problems, n_rows, n_columns)
        Checked scores of pairs.
    alone : ndarray of shape (n_problems, n_rows), default=None
        Checked scores of rows without a column; None as in `matching`.

    Returns
    -------
    results : list of Matching
        One for each problem.
    """
    n_columns = scores.shape[2]
    scores = _extend(scores, alone)
    results = [_assign(each) for each in scores]
    feasible = [k for k, columns in enumerate(results) if columns is not None]
    if feasible:
        columns = np.array([results[k] for k in feasible])
        solved = _with_prices(scores[feasible], columns, n_columns)
        for k, result in zip(feasible, solved, strict=True):
            results[k] = result
    return [
        Matching(np.full(scores.shape[1], -1, dtype=np.int32), -np.inf, None, None)
        if result is None
        else result
        for result in results
    ]


def matching_max_marginals(
    scores: ArrayLike, unassigned: ArrayLike | None = None
) -> np.ndarray:
    """Compute the max-marginals of an assignment, in the time of a few assignments.

    Parameters
    ----------
    scores, unassigned : array-like
        See `matching`.

    Returns
    -------
    max_marginals : ndarray of shape (n_rows, n_columns) or (n_rows, n_columns + 1)
        For each row and column the score of the best assignment that has the pair;
        ``-inf`` if all such assignments are forbidden. If rows may stay without a
        column, an additional last column has the scores for rows without a column.

    Raises
    ------
    ValueError
        In the cases of `matching`.

    References
    ----------
    J. Duchi, D. Tarlow, G. Elidan and D. Koller, "Using combinatorial optimization
    within max-product belief propagation", NIPS 2006.

    Examples
    --------
    >>> from sksstruct.inference import matching_max_marginals
    >>> matching_max_marginals([[3, 2], [3, 0]]).tolist()
    [[3.0, 5.0], [5.0, 3.0]]
    """
    scores, alone = check_assignment(scores, unassigned)
    n_columns = scores.shape[1]
    scores = _extend(scores[None], None if alone is None else alone[None])[0]
    columns = _assign(scores)
    if columns is None:
        out = np.full(scores.shape, -np.inf)
    else:
        total = scores[np.arange(len(columns)), columns].sum()
        out = assignment_max_marginals(scores, columns, total)
    # each extra column means that the row has no column: the best extra column counts
    if scores.shape[1] > n_columns:
        last = out[:, n_columns:].max(axis=1)
        out = np.column_stack([out[:, :n_columns], last])
    return out


def check_assignment(scores, unassigned):
    """Check scores; return scores of pairs, and scores of rows alone or None."""
    scores = check_scores("scores", scores, ndim=2)
    n_rows = len(scores)
    if not scores.size:
        raise ValueError(
            f"scores must have at least one row and column, got shape {scores.shape}"
        )
    check_sums("scores", 4 * n_rows, scores)
    if unassigned is None:
        return scores, None
    alone = check_scores("unassigned", unassigned)
    if alone.ndim and alone.shape != (n_rows,):
        raise ValueError(
            f"unassigned must be a number or have shape {(n_rows,)}, got shape "
            f"{alone.shape}"
        )
    check_sums("unassigned", 4 * n_rows, alone)
    return scores, np.broadcast_to(alone, (n_rows,))


def _extend(scores, alone):
    """Return scores with extra columns for rows without a column.

    A row has the same score in all of the extra columns.
    """
    n_problems, n_rows, n_columns = scores.shape
    if alone is None:
        extra = np.zeros((n_problems, n_rows, max(n_rows - n_columns, 0)))
    else:
        extra = np.repeat(alone[:, :, None], n_rows, axis=2)
    # concatenation keeps the memory order of the scores, which may be by columns
    return np.ascontiguousarray(np.concatenate([scores, extra], axis=2))


def _assign(scores):
    """Return the column of each row, or None if every assignment is forbidden."""
    # scores were checked: SciPy raises ValueError only if no assignment is feasible
    try:
        return linear_sum_assignment(scores, maximize=True)[1]
    except ValueError:
        return None


def _with_prices(scores, columns, n_columns):
    """Return a `Matching` with dual prices for each of many best assignments.

    The first `n_columns` columns of `scores` are not extra columns.
    """
    problem = np.arange(len(scores))[:, None]
    current = scores[problem, np.arange(columns.shape[1]), columns]
    prices = prices_of_columns(scores, columns)
    column_prices = np.zeros(scores.shape[::2])
    column_prices[problem, columns] = prices
    # the price of an extra column is added to the price of its row
    is_alone = columns >= n_columns
    row_prices = np.where(is_alone, current, current - prices)
    labelings = np.where(is_alone, -1, columns).astype(np.int32)
    totals = current.sum(axis=1).tolist()
    return [
        Matching(*result)
        for result in zip(
            labelings, totals, row_prices, column_prices[:, :n_columns], strict=True
        )
    ]
