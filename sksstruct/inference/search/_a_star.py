"""A* search for the k best paths (Hart, Nilsson and Raphael, 1968).

The functions of the caller define states, steps and bounds; `_Agenda` is the priority
queue of partial paths.
"""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from sksstruct.inference._checks import check_k
from sksstruct.inference.search._branch_and_bound import SearchResult


class _Path(NamedTuple):
    """A path: last state, score, path without this state, and whether the path ends."""

    state: Any
    score: float
    before: "_Path | None"
    ends: bool

    def states(self):
        states, path = [], self
        while path is not None:
            states.append(path.state)
            path = path.before
        return states[::-1]


def best_first(
    start: Any,
    successors: Callable[..., Any],
    is_goal: Callable[..., Any],
    bound: Callable[..., Any],
    k: int = 1,
    *,
    max_nodes: int | None = None,
) -> SearchResult:
    """Find the k best paths to a goal by A* search.

    A labeling is built step by step, and its score is the sum of the scores of the
    steps. Partial paths are extended in descending order of their score plus the bound
    of their last state [1]_, as in A* parsing [2]_.

    Parameters
    ----------
    start : object
        The state where paths start. States are of any hashable type; the steps that can
        follow, and their scores, depend on the state alone.
    successors : callable
        ``successors(state)`` returns pairs ``(next_state, score)``, the steps that can
        follow; a score of ``-inf`` forbids a step.
    is_goal : callable
        ``is_goal(state)`` is true if a path to the state is complete, and ends there.
    bound : callable
        ``bound(state)`` is at least the score of every path from the state to a goal:
        the bound is admissible, not necessarily consistent. ``-inf`` drops the state.
        Goals are not passed to `bound`.
    k : int, default=1
        Number of paths.
    max_nodes : int, default=None
        Maximum number of paths to visit.

    Returns
    -------
    result : SearchResult
        The paths as `labelings`, each a list of states from the start to a goal, with
        their scores; fewer than k if no more exist or `max_nodes` was reached. Of paths
        to the same state only the k best are extended. Of paths with the same score
        plus bound the newest is extended first. On graphs with cycles, paths may visit
        a state several times.

    Raises
    ------
    ValueError
        If k is not a positive integer, a bound or a score of a step is NaN, or the
        score of a step is infinite.

    References
    ----------
    .. [1] P. E. Hart, N. J. Nilsson and B. Raphael, "A formal basis for the heuristic
       determination of minimum cost paths", IEEE Transactions on Systems Science and
       Cybernetics, 1968.
    .. [2] M. Lewis and M. Steedman, "A* CCG parsing with a supertag-factored model",
       EMNLP 2014.

    Examples
    --------
    Words of three letters, of which no two neighbors are the same:

    >>> from sksstruct.inference import best_first
    >>> scores = {"a": 2.0, "b": 1.0, "c": -1.0}
    >>> def successors(word):
    ...     return [(word + c, s) for c, s in scores.items() if word[-1:] != c]
    >>> def bound(word):
    ...     return 2.0 * (3 - len(word))
    >>> result = best_first("", successors, lambda word: len(word) == 3, bound, k=2)
    >>> [path[-1] for path in result.labelings], result.scores.tolist()
    (['aba', 'bab'], [5.0, 4.0])
    """
    k = check_k(k)
    if max_nodes is not None:
        max_nodes = check_k(max_nodes, "max_nodes")
    agenda = _Agenda(k, is_goal, bound)
    agenda.add(start, 0.0, None)
    found, visited = [], 0
    while agenda and len(found) < k and visited != max_nodes:
        path = agenda.pop()
        visited += 1
        if path.ends:
            found.append(path)
            continue
        for state, step in successors(path.state):
            step = float(step)
            if not step < np.inf:
                raise ValueError(
                    f"the score of the step to {state!r:.80} is {step}: scores are "
                    "less than infinity"
                )
            if step > -np.inf:
                agenda.add(state, path.score + step, path)
    # bounds that are too low by rounding can leave paths out of order
    found.sort(key=lambda path: -path.score)
    return SearchResult(
        [path.states() for path in found],
        np.array([path.score for path in found]),
        visited,
        len(found) == k or not agenda,
    )


class _Agenda:
    """Priority queue of the paths to extend, by score plus bound of the last state."""

    def __init__(self, k, is_goal, bound):
        self.k, self.is_goal, self.bound = k, is_goal, bound
        self._heap, self._numbers = [], count()
        # Scores of the k best paths to each state so far, as a heap. Worse paths to the
        # state cannot be among the k best paths, whatever follows. Better paths to the
        # state may come later if bounds are not consistent.
        self._scores = {}

    def __bool__(self):
        return bool(self._heap)

    def add(self, state, score, before):
        """Add to the queue the path that extends `before` by a step to a state."""
        scores = self._scores.setdefault(state, [])
        if len(scores) == self.k and score <= scores[0]:
            return
        ends, value = bool(self.is_goal(state)), score
        if not ends:
            rest = float(self.bound(state))
            if rest != rest:
                raise ValueError(f"bound({state!r:.80}) is NaN")
            value += rest
        if value == -np.inf:
            return
        push = heapq.heappush if len(scores) < self.k else heapq.heapreplace
        push(scores, score)
        # of equal priority the newest path comes first: with the oldest first, all
        # paths of equal priority would be extended before one of them is complete
        path = _Path(state, score, before, ends)
        heapq.heappush(self._heap, (-value, -next(self._numbers), path))
        self._drop()

    def pop(self):
        """Remove and return the path of the highest priority."""
        path = heapq.heappop(self._heap)[2]
        self._drop()
        return path

    def _drop(self):
        """Drop paths at the top of the heap if k better paths reach the last state."""
        while self._heap:
            path = self._heap[0][2]
            scores = self._scores[path.state]
            if len(scores) < self.k or path.score >= scores[0]:
                return
            heapq.heappop(self._heap)
