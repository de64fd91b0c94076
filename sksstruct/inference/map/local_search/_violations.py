"""Violations first: entries so low that one decides, and turns of a search."""

from itertools import pairwise, product

import numpy as np

from sksstruct.factor_graphs import DenseTable
from sksstruct.inference.map.core._reduce import table_range
from sksstruct.inference.map.local_search.weighted import WeightedSearch

# Entries of tables beyond which nobody looks for limits.
_MOST_ENTRIES = 1e7
# What is missing from the best entry is counted in classes, each twice the one before.
# So many empty classes, at least, are between violations and all other scores.
_EMPTY = 2
# Real scores get rare towards zero, class by class, and leave classes empty: a gap with
# less than this share of the entries below it, and next above it, is no limit.
_THIN = 0.01
# Limits that are tried, those with the most between them.
_MOST_LIMITS = 3
# Steps for which states are taboo: short where constraints decide, long where many
# labelings are allowed that are nearly alike.
_TABOO = 6, 40
# Share of the work of a turn: at first, at least and at most; it doubles where a turn
# improves something, and halves where turns of all kinds do not.
_SHARE, _LEAST_SHARE, _MOST_SHARE = 0.5, 0.125, 2.0
# What is missing is in class frexp(missing)[1] + _SHIFT: from -1073, of the least
# denormal number, to 1024.
_CLASSES, _SHIFT = 2160, 1080
# What misses less than this share of the most misses nothing.
_NOTHING = 1e-9


class ViolationsFirst:
    """Turns of `WeightedSearch`, with one limit after the other, and its parameters.

    Parameters
    ----------
    run : MAPRun
        Has a labeling, and receives better ones.

    Attributes
    ----------
    limits : list of tuples (limit, unit)
        Those of `Levels`; without any there are no turns.
    n_kinds : int
        Number of turns until all parameters have been used.
    """

    def __init__(self, run):
        self.run, levels = run, Levels(run.problem)
        self.limits, self._highest = levels.limits, levels.highest
        self._kinds = list(product(_TABOO, self.limits))
        self.n_kinds = len(self._kinds)
        self._kernels, self._next = [None] * self.n_kinds, 0
        self._share, self._idle = _SHARE, 0

    def take(self, work):
        """Search with the next limit.

        Parameters
        ----------
        work : float
            Entries of tables to look at, about; a share of it is used.
        """
        k, run = self._next, self.run
        self._next = (k + 1) % self.n_kinds
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
        # what has led to nothing begins again, from the best labeling there is
        self._kernels[k] = None
        self._idle += 1
        if self._idle % self.n_kinds == 0:
            self._share = max(0.5 * self._share, _LEAST_SHARE)


class Levels:
    """Limits that tell violated constraints from scores.

    What an entry is missing is the best entry of its factor minus the entry. Where
    nothing is missing as much as some number, or half of it, but something is missing
    more, that is a limit.

    Parameters
    ----------
    problem : MAPProblem
        The graph.

    Attributes
    ----------
    highest : ndarray of shape (n_factors,)
        The best entry of each factor, edges first.
    limits : list of tuples (limit, unit)
        What an entry misses at least to be a violation, and the mean of what all others
        miss, 1 if they miss nothing; those with the most between them first.
    """

    def __init__(self, problem):
        graph, self.limits = problem.graph, []
        weights = graph.edge_weights
        # of each table: its worst and best entry, which a weight may swap
        ends = np.array([table_range(table) for table in graph.tables]).reshape(-1, 2)
        edges, higher = ends[graph.edge_tables], ends[graph.factor_tables]
        if weights is not None:
            edges = edges * np.reshape(weights, (-1, 1))
        self.highest = np.concatenate([edges.max(axis=1), higher.max(axis=1)])
        parts = _missing(problem)
        if not parts:
            return
        count, total = np.zeros(_CLASSES), np.zeros(_CLASSES)
        largest = max(part.max() for part in parts)
        for part in parts:
            part = part[part > _NOTHING * largest]
            place = np.frexp(part)[1] + _SHIFT
            count += np.bincount(place, minlength=_CLASSES)
            total += np.bincount(place, part, minlength=_CLASSES)
        self._choose(np.flatnonzero(count), count, total, problem.penalty)

    def _choose(self, used, count, total, penalty):
        """Find the largest gaps between the classes in use."""
        gaps = [(high - low, low) for low, high in pairwise(used)]
        below, thin = np.cumsum(count), _THIN * count.sum()
        gaps = [
            (width, low)
            for width, low in gaps
            if width > _EMPTY and max(below[low], count[low + width]) >= thin
        ]
        for _, low in sorted(gaps, reverse=True)[:_MOST_LIMITS]:
            unit = total[: low + 1].sum() / count[: low + 1].sum()
            # the upper end of the class
            self.limits.append((float(np.ldexp(1.0, low - _SHIFT)), float(unit)))
        if not self.limits and penalty and len(used) == 1:
            # constraints alone
            self.limits.append((-0.5 * penalty, 1.0))


def _missing(problem):
    """What entries are missing, for variables and tables; nothing where too many."""
    graph = problem.graph
    dense = [table for table in graph.tables if isinstance(table, DenseTable)]
    if graph.edge_weights is not None or (
        sum(table.values.size for table in dense) > _MOST_ENTRIES
    ):
        return []
    best = np.maximum.reduceat(graph.unaries, graph.first_state[:-1])
    parts = [np.repeat(best, graph.n_states) - graph.unaries]
    parts += [(table.values.max() - table.values).reshape(-1) for table in dense]
    if len(dense) < len(graph.tables) and problem.penalty:
        parts.append(np.array([-problem.penalty]))
    return parts
