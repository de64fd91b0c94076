"""Integer costs of a graph, and the consistent network of the root."""

import math

import numpy as np

from sksstruct.inference.map.branch_and_bound.network import Network
from sksstruct.inference.map.core._written import written_out

# Integer cost of the gap between score and upper bound, and cost of a forbidden tuple.
_RESOLUTION, FORBIDDEN = 2.0**50, 2**58
# Costs get a finer scale if the distance of the root's c0 to its limit is at most this
# share of `Terms.limit`, and all tables together have at most this number of entries.
_FINER, _MOST_EXACT = 0.25, 4_000_000
# `refine` keeps the scale if the grain exceeds this number times the number of terms.
_FINE_ENOUGH = 64
# If all scores are whole numbers, they are reparametrized only if the estimated
# rounding error is at most `_MOST_LOST`; sums over many sweeps are estimated to lose
# `_LOST` times the largest score.
_MOST_LOST, _LOST = 2.0**-10, 2.0**-38
# Messages are used if their bound is below the sum of the terms' best scores by more
# than this share of the gap.
_LEAST_USE = 0.05
# Sweeps end if `_PATIENCE` pairs of a forward and a backward sweep raise c0 by at most
# the share `_LEAST_PROGRESS` of the distance from c0 to the limit.
_PATIENCE, _LEAST_PROGRESS = 8, 0.02


class Terms:
    """Integer costs: distances of the scores to the best score of each term.

    A term is the row of scores of a variable, or the table of a factor.

    Costs are rounded down, so that their sums stay lower bounds.

    Parameters
    ----------
    problem : MAPProblem
        The graph.
    score : float
        Labelings of lower score are not searched for.
    tol : float
        Difference of scores within which a labeling is optimal.
    messages : Messages or Tightening, default=None
        Message passing whose reparametrization gives the first costs.
    bound : float, default=inf
        Upper bound of the message passing.

    Attributes
    ----------
    top : float
        Score of a labeling that costs 0: an upper bound.
    scale : float
        Cost of one unit of score.
    grain : int
        Labelings that are better by less than this need not be found.
    limit : int
        Cost of a labeling with the given score, rounded up.
    unaries, scopes, tables : list
        Costs of the variables and of the factors, whose variables are in increasing
        order.
    """

    def __init__(self, problem, score, tol, messages=None, bound=np.inf):
        self.top, self.merged = 0.0, {}
        rows, scopes, tables = written_out(problem.graph)
        # upper bound before any reparametrization: the sum of the terms' best scores
        highest = sum(float(term.max()) for term in (*rows, *tables))
        lowest = score - highest
        # messages that lower the upper bound by too small a share of the gap are unused
        if highest - bound <= _LEAST_USE * (highest - score):
            messages = None
        terms = *rows, *tables
        # In a labeling that scores more than `score`, no entry is below the best one of
        # its term by more than -`lowest`. The margin allows for rounding errors of the
        # sums.
        size = sum(abs(float(term.max())) for term in terms)
        lowest *= 1.0 + 1e-6
        lowest -= 1e-12 * size
        self.whole = tol < 1.0 and all(_whole(term, lowest) for term in terms)
        # rounding errors of sums of large numbers would make whole scores fractional
        if messages is not None and self.whole:
            lost = 2.0 * len(terms) * (highest - score) / _RESOLUTION
            lost += _LOST * max(-problem.penalty, *map(_largest, terms))
            messages = messages if lost <= _MOST_LOST else None
        del terms
        if messages is not None:
            rows, scopes, tables = messages.reparametrize(rows, scopes, tables)
        for scope, table in zip(scopes, tables, strict=True):
            self._add(scope, table)
        del tables
        self.scopes = list(self.merged)
        unaries = [self._costs_below_best(row) for row in rows]
        tables = [self._costs_below_best(table) for table in self.merged.values()]
        del self.merged
        self._score, self._tol = score, tol
        self._scale_by(messages is not None)
        self.unaries = [self._integers(term) for term in unaries]
        self.tables = [self._integers(term) for term in tables]
        self._exact = None
        if not self.whole and sum(table.size for table in tables) <= _MOST_EXACT:
            self._exact = unaries, tables

    def _scale_by(self, moved):
        """Set scale, limit and grain; `moved`: the scores have been reparametrized."""
        gap = max(self.top - self._score, 1e-12 * max(1.0, abs(self._score)))
        self.scale = _RESOLUTION / gap
        grain = 0.25 * self._tol * self.scale
        if self.whole:
            # Multiplied by a power of two, whole scores stay whole. A reparametrization
            # rounds scores: then the grain is slightly less than one unit of score.
            self.scale = 2.0 ** math.floor(math.log2(self.scale))
            grain = self.scale * (1.0 - 2.0 * _MOST_LOST * moved)
        self.grain = int(min(max(1.0, grain), FORBIDDEN))
        self.limit = math.ceil(gap * self.scale)

    def refine(self, root):
        """Replace the costs by the costs at the root, on a finer scale.

        `c0` of the root is subtracted, so that the integers span a smaller range of
        scores.

        Parameters
        ----------
        root : Network
            A network of these costs, without values that cost `limit` or more.

        Returns
        -------
        finer : bool
            False if the costs are unchanged: a finer scale would gain little, or
            `Terms` has not stored the exact costs.
        """
        if self._exact is None or root.limit - root.c0 > _FINER * self.limit:
            return False
        # rounding lowers each term by less than one, and all terms by far less than a
        # grain
        if self.grain > _FINE_ENOUGH * (len(self.unaries) + len(self.tables)):
            return False
        values, *exported = root.export()
        all_scopes = [*([v] for v in range(len(values))), *self.scopes]
        exact, self._exact = [*self._exact[0], *self._exact[1]], None
        costs, root_costs = [*self.unaries, *self.tables], [*exported[0], *exported[1]]
        for k, scope in enumerate(all_scopes):
            place = np.ix_(*(values[v] for v in scope))
            # the exact costs, changed by the same amounts as the integer costs
            moved = exact[k][place] + (root_costs[k] - costs[k][place]) / self.scale
            excluded = (costs[k][place] >= FORBIDDEN) | (root_costs[k] >= root.limit)
            exact[k] = np.full(costs[k].shape, np.inf)
            exact[k][place] = np.where(excluded, np.inf, np.maximum(moved, 0.0))
        self.top -= root.c0 / self.scale
        self._scale_by(False)
        costs = [self._integers(term) for term in exact]
        self.unaries, self.tables = costs[: len(values)], costs[len(values) :]
        return True

    def _add(self, scope, table):
        """Add a table to the merged table of the same variables."""
        order = np.argsort(scope, kind="stable")
        key = tuple(int(v) for v in np.asarray(scope)[order])
        table = np.transpose(table, order)
        old = self.merged.get(key)
        self.merged[key] = table if old is None else old + table

    def _costs_below_best(self, scores):
        """Return the distances of scores to the best one, which is added to `top`."""
        best = scores.max()
        if best == -np.inf:
            return np.full(scores.shape, np.inf)
        self.top += float(best)
        return best - scores

    def _integers(self, costs):
        """Round costs down to integers; costs above the limit become FORBIDDEN."""
        scaled = np.minimum(costs * self.scale, float(FORBIDDEN))
        # the margin allows for rounding errors in sums of scores
        forbidden = scaled > 1.000001 * self.limit
        return np.where(forbidden, FORBIDDEN, np.floor(scaled)).astype(np.int64)


def labeling_cost(unaries, scopes, tables, labeling):
    """Return the cost of a labeling; at least FORBIDDEN if a tuple is forbidden."""
    total = sum(int(row[x]) for row, x in zip(unaries, labeling, strict=True))
    for scope, table in zip(scopes, tables, strict=True):
        total += int(table[tuple(labeling[v] for v in scope)])
    return total


def _largest(scores):
    """Return the largest absolute value of some scores; 0 if a score is -inf."""
    low, high = float(scores.min()), float(scores.max())
    return max(high, -low) if low > -np.inf else 0.0


def _whole(scores, lowest):
    """Whether all scores of at least the best one plus `lowest` are whole numbers."""
    high = scores[scores >= scores.max() + lowest]
    return bool((high == np.round(high)).all())


def consistent_root(terms, limit, late):
    """Return a consistent network with c0 raised by sweeps; None: c0 reaches the limit.

    Parameters
    ----------
    terms : Terms
        The costs.
    limit : int
        Labelings that cost this much or more are not searched for.
    late : callable
        Whether the time of the run is over.

    Returns
    -------
    network : Network or None
        The network.
    """
    network = Network(terms.unaries, terms.scopes, terms.tables, limit)
    network.wake_all()
    if not network.make_consistent() or not sweep_until_stalled(network, late):
        return None
    return network


def sweep_until_stalled(network, late):
    """Sweep while c0 rises enough; return False if c0 reaches the limit."""
    k, before = 0, network.c0
    while not late():
        if not (network.sweep() and network.sweep(True)):
            return False
        k += 1
        if k % _PATIENCE == 0:
            if network.c0 - before <= _LEAST_PROGRESS * (network.limit - network.c0):
                break
            before = network.c0
    network.wake_all()
    return network.make_consistent()
