"""The k best labelings by a solver for the best one (Lawler, 1972).

The labelings are divided into parts by the states that each variable may have, and the
best labeling of each part is known. The best of all parts is taken out, and the rest of
its part is divided again, by the first variable whose state differs from it.
"""

import heapq
from itertools import count

import numpy as np

from sksstruct.inference.search._branch_and_bound import SearchResult

# Scores that are this close, relative to their size, count as equal.
_CLOSE = 1e-6


def topk_by_partition(solve, sizes, k):
    """The k best labelings, as far as a solver finds the best one.

    Parameters
    ----------
    solve : callable
        ``solve(allowed)`` returns a labeling, its score and an upper bound of the
        scores of all labelings, where variables may have the states that are allowed:
        a list with a boolean array for each variable. A score of ``-inf`` says that
        there is none.
    sizes : sequence of int
        Number of states of each variable.
    k : int
        Number of labelings.

    Returns
    -------
    result : SearchResult
        Different labelings, their scores in descending order, and how many problems
        were solved. `complete` says whether the bounds prove that no others are better.

    References
    ----------
    E. L. Lawler, "A procedure for computing the K best solutions to discrete
    optimization problems and its application to the shortest path problem",
    Management Science 18(7), 1972.
    """
    numbers, heap, n_solved = count(), [], 0
    # the highest of the upper bounds of what was given up
    lost = -np.inf

    def add(allowed, first):
        nonlocal n_solved, lost
        labeling, score, bound = solve(allowed)
        n_solved += 1
        if score > -np.inf:
            # of equal scores the part that was made first
            heapq.heappush(
                heap, (-score, next(numbers), labeling, bound, allowed, first)
            )
        else:
            lost = max(lost, bound)

    add([np.ones(size, dtype=bool) for size in sizes], 0)
    labelings, scores, complete = [], [], True
    while heap and len(labelings) < k:
        value, _, labeling, bound, allowed, first = heapq.heappop(heap)
        labelings.append(labeling)
        # A solver that is not exact may have left something better in any part.
        scores.append(-value)
        others = [part[3] for part in heap]
        limit = -value + _CLOSE * max(1.0, abs(value))
        complete = complete and max(bound, lost, *others, -np.inf) <= limit
        if len(labelings) < k:
            for part, variable in _divide(allowed, labeling, first):
                add(part, variable)
    if len(labelings) < k:
        complete = complete and lost == -np.inf
    order = np.argsort(-np.array(scores), kind="stable")
    return SearchResult(
        [labelings[rank] for rank in order], np.array(scores)[order], n_solved, complete
    )


def _divide(allowed, labeling, first):
    """Divide a part without its best labeling; the variables before `first` are fixed.

    Yields what is allowed in each part, and its number of fixed variables.
    """
    allowed = list(allowed)
    for variable in range(first, len(allowed)):
        other = allowed[variable].copy()
        other[labeling[variable]] = False
        if other.any():
            yield [*allowed[:variable], other, *allowed[variable + 1 :]], variable
        allowed[variable] = np.zeros_like(other)
        allowed[variable][labeling[variable]] = True
