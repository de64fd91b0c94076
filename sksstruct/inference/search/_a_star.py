"""A* search for the k best paths (Hart, Nilsson and Raphael, 1968)."""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from sksstruct.inference._checks import check_k
from sksstruct.inference.search._branch_and_bound import SearchResult


class _Path(NamedTuple):
    """A path: where it ends, what it is worth so far, and the path it continues."""

    state: Any
    score: float
    before: "_Path | None"
    ends: bool

    def states(self):
        found, path = [], self
        while path is not None:
            found.append(path.state)
            path = path.before
        return found[::-1]


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
    steps. Paths are continued in the order of their scores so far plus the bounds of
    what can follow, the highest first [1]_, as in A* parsing [2]_.

    Parameters
    ----------
    start : object
        The state where paths start. States are of any hashable type; what can follow,
        and its score, depends on the state alone.
    successors : callable
        ``successors(state)`` returns pairs ``(next_state, score)``, the steps that can
        follow; a score of ``-inf`` forbids a step.
    is_goal : callable
        ``is_goal(state)`` is true where a path is complete. It ends there.
    bound : callable
        ``bound(state)`` is at least the score of every path from the state to a goal:
        it is admissible. It need not be consistent. ``-inf`` drops the state. It is not
        asked for goals.
    k : int, default=1
        Number of paths.
    max_nodes : int, default=None
        Maximum number of paths to visit.

    Returns
    -------
    result : SearchResult
        The paths as `labelings`, each a list of states from the start to a goal, with
        their scores; fewer than k if no more exist or `max_nodes` was reached. Of paths
        to the same state only the k best are continued. Among equals the newest is
        taken up first. If steps lead back, paths may visit a state several times.

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
        path = agenda.take()
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
    # bounds may be too low by rounding
    found.sort(key=lambda path: -path.score)
    return SearchResult(
        [path.states() for path in found],
        np.array([path.score for path in found]),
        visited,
        len(found) == k or not agenda,
    )


class _Agenda:
    """The paths to continue, the one of the highest bound first."""

    def __init__(self, k, is_goal, bound):
        self.k, self.is_goal, self.bound = k, is_goal, bound
        self._heap, self._numbers = [], count()
        # for each state, scores of the k best paths to it: no more are needed, whatever
        # follows, and paths may come in any order if bounds are not consistent
        self._scores = {}

    def __bool__(self):
        return bool(self._heap)

    def add(self, state, score, before):
        """Add a path to a state, which continues another."""
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
        # of equal bounds the newest comes first; else plateaus would be searched
        # breadth-first
        path = _Path(state, score, before, ends)
        heapq.heappush(self._heap, (-value, -next(self._numbers), path))
        self._drop()

    def take(self):
        """The next path."""
        path = heapq.heappop(self._heap)[2]
        self._drop()
        return path

    def _drop(self):
        """Drop paths at the top to whose ends k better ones have been found."""
        while self._heap:
            path = self._heap[0][2]
            scores = self._scores[path.state]
            if len(scores) < self.k or path.score >= scores[0]:
                return
            heapq.heappop(self._heap)
