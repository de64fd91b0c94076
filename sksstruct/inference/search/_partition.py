"""The k best labelings by a solver for the best labeling (Lawler, 1972).

The set of labelings is divided into parts by the states that each variable may have;
the best labeling of each part is known. The best labeling of all parts is removed, and
the other labelings of its part are divided by the first variable whose state differs
from the removed labeling.
"""

import heapq
from itertools import count

import numpy as np

from sksstruct.inference.search._branch_and_bound import SearchResult

# Relative difference below which scores count as equal.
_CLOSE = 1e-6


def topk_by_partition(solve, sizes, k):
    """Find the k best labelings with a solver for the best labeling.

    Parameters
    ----------
    solve : callable
        ``solve(allowed)`` returns a labeling, its score and an upper bound on the
        scores of all labelings in a part. `allowed` is a list with a boolean array for
        each variable, true for states that the part allows. A score of ``-inf`` means
        that the solver found no labeling.
    sizes : sequence of int
        Number of states of each variable.
    k : int
        Number of labelings.

    Returns
    -------
    result : SearchResult
        Different labelings, their scores in descending order, and the number of solved
        problems. `complete`: whether the bounds prove that no other labeling is better.

    References
    ----------
    E. L. Lawler, "A procedure for computing the K best solutions to discrete
    optimization problems and its application to the shortest path problem",
    Management Science 18(7), 1972.
    """
    numbers, heap, n_solved = count(), [], 0
    # highest upper bound of the parts in which the solver found no labeling
    lost_bound = -np.inf

    def add(allowed, first):
        nonlocal n_solved, lost_bound
        labeling, score, bound = solve(allowed)
        n_solved += 1
        if score > -np.inf:
            # of equal scores, the part that was made first comes first
            heapq.heappush(
                heap, (-score, next(numbers), labeling, bound, allowed, first)
            )
        else:
            lost_bound = max(lost_bound, bound)

    add([np.ones(size, dtype=bool) for size in sizes], 0)
    labelings, scores, complete = [], [], True
    while heap and len(labelings) < k:
        value, _, labeling, bound, allowed, first = heapq.heappop(heap)
        labelings.append(labeling)
        # the score may be higher than the previous one: an inexact solver may have
        # missed a better labeling of a part that was divided since
        scores.append(-value)
        other_bounds = [part[3] for part in heap]
        limit = -value + _CLOSE * max(1.0, abs(value))
        complete = complete and max(bound, lost_bound, *other_bounds, -np.inf) <= limit
        if len(labelings) < k:
            for part, variable in _divide(allowed, labeling, first):
                add(part, variable)
    if len(labelings) < k:
        complete = complete and lost_bound == -np.inf
    order = np.argsort(-np.array(scores), kind="stable")
    return SearchResult(
        [labelings[rank] for rank in order], np.array(scores)[order], n_solved, complete
    )


def _divide(allowed, labeling, first):
    """Divide the labelings of a part, except its best labeling, into smaller parts.

    In the part, all variables before `first` are fixed. Yields the allowed states of
    each smaller part, and the number of its first variables that are fixed.
    """
    allowed = list(allowed)
    for variable in range(first, len(allowed)):
        other = allowed[variable].copy()
        other[labeling[variable]] = False
        if other.any():
            yield [*allowed[:variable], other, *allowed[variable + 1 :]], variable
        allowed[variable] = np.zeros_like(other)
        allowed[variable][labeling[variable]] = True
