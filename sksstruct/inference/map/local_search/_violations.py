"""Limits between violated constraints and low scores; searches with these limits."""

from itertools import pairwise, product

import numpy as np

from sksstruct.factor_graphs import DenseTable
from sksstruct.inference.map.core._index import offsets
from sksstruct.inference.map.core._reduce import table_ranges
from sksstruct.inference.map.local_search.weighted import WeightedSearch

# With more table entries in total, no limits are set.
_MOST_ENTRIES = 1e7
# Shortfalls (best entry minus entry) are counted in classes, each class twice as large
# as the class before. A limit needs two successive nonempty classes whose numbers
# differ by more than this.
_EMPTY = 2
# Few real scores are near zero, so that classes there are empty: a gap is a limit only
# if this share of the shortfalls is below the gap, or in the class right above the gap.
_THIN = 0.01
# Largest number of limits, one for each of the widest gaps.
_MOST_LIMITS = 3
# Taboo tenures: short for tight constraints, long for many similar allowed labelings.
_TABOO = 6, 40
# Share of the given work that a turn uses: first, least and largest share. The share
# doubles after an improvement, and halves if turns with all combinations of limit and
# tenure bring no improvement.
_FIRST_SHARE, _LEAST_SHARE, _MOST_SHARE = 0.5, 0.125, 2.0
# A shortfall is in class frexp(shortfall)[1] + _SHIFT; exponents range from -1073
# (least denormal number) to 1024.
_CLASSES, _SHIFT = 2160, 1080
# A shortfall below this share of the largest one counts as zero.
_NEGLIGIBLE = 1e-9


class ViolationsFirst:
    """Turns of `WeightedSearch`, each with another limit and taboo tenure.

    Parameters
    ----------
    run : MAPRun
        Holds the incumbent, and receives better labelings.

    Attributes
    ----------
    limits : list of tuples (limit, unit)
        The limits of `Levels`; if the list is empty, `take` must not be called.
    n_kinds : int
        Number of combinations of limit and tenure.
    """

    def __init__(self, run):
        self.run, levels = run, Levels(run.problem)
        self.limits, self._highest = levels.limits, levels.highest
        self._kinds = list(product(_TABOO, self.limits))
        self.n_kinds = len(self._kinds)
        self._kernels, self._next_kind = [None] * self.n_kinds, 0
        self._share, self._idle = _FIRST_SHARE, 0

    def take(self, work):
        """Search with the next combination of limit and tenure.

        Parameters
        ----------
        work : float
            Table entries; the search reads a share of this number.
        """
        k, run = self._next_kind, self.run
        self._next_kind = (k + 1) % self.n_kinds
        if self._kernels[k] is None:
            taboo, (limit, unit) = self._kinds[k]
            self._kernels[k] = WeightedSearch(
                run.problem, run.labeling, run.seed(), self._highest, limit, unit, taboo
            )
        before = run.score
        try:
            self._kernels[k].run(self._share * work)
        finally:
            run.offer(self._kernels[k].labeling)
        if run.score > before:
            self._share, self._idle = min(2.0 * self._share, _MOST_SHARE), 0
            return
        # without an improvement, the next turn with this limit and tenure begins at the
        # incumbent
        self._kernels[k] = None
        self._idle += 1
        if self._idle % self.n_kinds == 0:
            self._share = max(0.5 * self._share, _LEAST_SHARE)


class Levels:
    """Limits that separate violated constraints from scores.

    The shortfall of an entry is the best entry of its factor minus the entry. A wide
    gap between the shortfalls is a limit: entries with shortfalls above the gap are
    violations.

    Parameters
    ----------
    problem : MAPProblem
        The graph.

    Attributes
    ----------
    highest : ndarray of shape (n_factors,)
        The best entry of each factor, edges first.
    limits : list of tuples (limit, unit)
        Least shortfall of a violation, and mean shortfall of all other entries (1 if it
        is zero); limits with the widest gap first.
    """

    def __init__(self, problem):
        graph, self.limits = problem.graph, []
        weights = graph.edge_weights
        # least and largest entry of each table, which a negative weight swaps
        ends = table_ranges(graph.tables)[0].T
        edges, higher = ends[graph.edge_tables], ends[graph.factor_tables]
        if weights is not None:
            edges = edges * np.reshape(weights, (-1, 1))
        self.highest = np.concatenate([edges.max(axis=1), higher.max(axis=1)])
        parts = _shortfalls(problem)
        if not parts:
            return
        count, total = np.zeros(_CLASSES), np.zeros(_CLASSES)
        largest = max(part.max() for part in parts)
        for part in parts:
            part = part[part > _NEGLIGIBLE * largest]
            place = np.frexp(part)[1] + _SHIFT
            count += np.bincount(place, minlength=_CLASSES)
            total += np.bincount(place, part, minlength=_CLASSES)
        self._choose(np.flatnonzero(count), count, total, problem.penalty)

    def _choose(self, used, count, total, penalty):
        """Set the limits to the widest gaps between the nonempty classes."""
        gaps = [(high - low, low) for low, high in pairwise(used)]
        below, thin = np.cumsum(count), _THIN * count.sum()
        gaps = [
            (width, low)
            for width, low in gaps
            if width > _EMPTY and max(below[low], count[low + width]) >= thin
        ]
        for _, low in sorted(gaps, reverse=True)[:_MOST_LIMITS]:
            unit = total[: low + 1].sum() / count[: low + 1].sum()
            # the limit is the upper end of the class below the gap
            self.limits.append((float(np.ldexp(1.0, low - _SHIFT)), float(unit)))
        if not self.limits and penalty and len(used) == 1:
            # a single class: all shortfalls are those of violated constraints
            self.limits.append((-0.5 * penalty, 1.0))


def _shortfalls(problem):
    """Return the shortfalls of all unary scores and table entries.

    The list is empty if edges have weights, or if there are too many entries.
    """
    graph = problem.graph
    dense = [table for table in graph.tables if isinstance(table, DenseTable)]
    if graph.edge_weights is not None or (
        sum(table.values.size for table in dense) > _MOST_ENTRIES
    ):
        return []
    best = np.maximum.reduceat(graph.unaries, graph.first_state[:-1])
    parts = [np.repeat(best, graph.n_states) - graph.unaries]
    if dense:
        flat = np.concatenate([table.values.reshape(-1) for table in dense])
        sizes = [table.values.size for table in dense]
        top = np.maximum.reduceat(flat, offsets(sizes)[:-1])
        parts.append(np.repeat(top, sizes) - flat)
    if len(dense) < len(graph.tables) and problem.penalty:
        parts.append(np.array([-problem.penalty]))
    return parts
