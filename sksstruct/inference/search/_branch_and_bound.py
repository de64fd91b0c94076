"""Best-first branch and bound (Algorithm 13 of Pillutla et al., 2018).

The functions of the caller define sets of labelings, their bounds and their splits; the
priority queue of sets is here. `_boxes.pyx` is the same search, compiled, for boxes.
"""

import heapq
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from sksstruct.inference._checks import check_k


class SearchResult(NamedTuple):
    """Result of a search.

    Parameters
    ----------
    labelings : list or ndarray
        The labelings found, the best first.
    scores : ndarray of shape (n,)
        Scores of the labelings, which do not increase.
    n_visited : int
        Number of visited sets of labelings, or of paths, including results.
    complete : bool
        Whether the labelings are known to be the best.

    Examples
    --------
    >>> from sksstruct.inference import branch_and_bound
    >>> words = {"": 3.0, "a": 1.0, "b": 3.0, "ba": 2.0, "bb": 3.0}
    >>> def split(prefix):
    ...     return [word for word in words if word[:-1] == prefix and word]
    >>> result = branch_and_bound("", words.get, split)
    >>> result.labelings, result.scores.tolist(), result.complete
    (['bb'], [3.0], True)
    """

    labelings: Sequence[Any] | np.ndarray
    scores: np.ndarray
    n_visited: int
    complete: bool


def branch_and_bound(
    root: Any,
    bound: Callable[..., Any],
    split: Callable[..., Any],
    k: int = 1,
    *,
    max_nodes: int | None = None,
) -> SearchResult:
    """Find the k best labelings by best-first branch and bound.

    Sets of labelings are split in descending order of their bounds, until the set with
    the highest bound has a single labeling [1]_.

    Parameters
    ----------
    root : object
        The set of all labelings, in any form that `bound` and `split` understand.
    bound : callable
        ``bound(labelings)`` is at least the score of every labeling in the set, and
        equal to the score for a set of one labeling; ``-inf`` drops the set.
    split : callable
        ``split(labelings)`` divides a set into smaller, disjoint sets; an empty list
        or None means that the set has a single labeling.
    k : int, default=1
        Number of labelings.
    max_nodes : int, default=None
        Maximum number of sets to visit.

    Returns
    -------
    result : SearchResult
        The labelings, as sets of one labeling, with their scores; fewer than k if no
        more exist or `max_nodes` was reached. Among sets of equal bound the newest is
        split first.

    Raises
    ------
    ValueError
        If k is not a positive integer or a bound is NaN.

    References
    ----------
    .. [1] K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to
       train structured prediction models", NeurIPS 2018, Algorithm 13.

    Examples
    --------
    >>> from sksstruct.inference import branch_and_bound
    >>> def bound(interval):
    ...     low, high = interval
    ...     return max(-(x - 6) ** 2 for x in (low, high, min(max(6, low), high)))
    >>> def split(interval):
    ...     low, high = interval
    ...     middle = (low + high) // 2
    ...     return [(low, middle), (middle + 1, high)] if low < high else []
    >>> result = branch_and_bound((0, 15), bound, split, k=2)
    >>> result.labelings, result.scores.tolist()
    ([(6, 6), (7, 7)], [0.0, -1.0])
    """
    k = check_k(k)
    if max_nodes is not None:
        max_nodes = check_k(max_nodes, "max_nodes")
    numbers = count()

    def entry(labelings, limit):
        value = float(bound(labelings))
        if value != value:
            raise ValueError(f"bound({labelings!r:.80}) is NaN")
        # The bound of the set from which this set was split, `limit`, is an upper bound
        # here, too. Of equal bounds the newest set comes first: with the oldest first,
        # all sets of equal bound would be split before a single labeling is found.
        return (-min(value, limit), -next(numbers), labelings)

    heap = [entry(root, np.inf)]
    singles, scores, visited = [], [], 0
    while heap and len(singles) < k and visited != max_nodes:
        value, _, labelings = heapq.heappop(heap)
        # -inf is the highest bound of all sets in the heap: every remaining labeling is
        # forbidden
        if value == np.inf:
            break
        visited += 1
        parts = split(labelings)
        if parts:
            for part in parts:
                heapq.heappush(heap, entry(part, -value))
        else:
            singles.append(labelings)
            scores.append(-value)
    complete = len(singles) == k or not heap or heap[0][0] == np.inf
    return SearchResult(singles, np.array(scores), visited, complete)
