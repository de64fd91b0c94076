"""The costs of a graph as integers, and what is left of them at the root."""

import math

import numpy as np

from sksstruct.inference.map.branch_and_bound.network import Network
from sksstruct.inference.map.core._written import written_out

# The limit of the costs at the root, and a cost that no labeling below it has.
_RESOLUTION, FORBIDDEN = 2.0**50, 2**58
# Costs are put on a finer scale where at most this share of the limit is left at the
# root, and tables have at most so many entries.
_FINER, _MOST_EXACT = 0.25, 4_000_000
# Nor are they where the grain has so many steps for each of them.
_FINE_ENOUGH = 64
# Rounding of whole numbers that messages move: the most that may be lost of a unit, and
# what sums of many sweeps may lose, for each unit of the largest number.
_MOST_LOST, _LOST = 2.0**-10, 2.0**-38
# Share of the gap without messages that they have to close.
_LEAST_USE = 0.05
# Sweeps end where so many in both directions raise the bound by less than this share of
# what is left below the limit.
_PATIENCE, _LEAST_PROGRESS = 8, 0.02


class Terms:
    """The costs of a graph: what is missing from the best scores, as integers.

    Costs are rounded down, and so are the bounds they give.

    Parameters
    ----------
    problem : MAPProblem
        The graph.
    score : float
        Labelings of lower score are of no interest.
    tol : float
        Difference of scores that does not matter.
    messages : Messages or Tightening, default=None
        Message passing, whose reparametrization the costs start from.
    bound : float, default=inf
        Its bound.

    Attributes
    ----------
    top : float
        The score of a labeling without costs.
    scale : float
        Costs for each unit of score.
    grain : int
        Labelings that are better by less need not be found.
    limit : int
        Cost of a labeling with the given score, rounded up.
    unaries, scopes, tables : list
        Costs of the variables and of the factors, whose variables are in increasing
        order.
    """

    def __init__(self, problem, score, tol, messages=None, bound=np.inf):
        self.top, self.merged = 0.0, {}
        rows, scopes, tables = written_out(problem.graph)
        # the score of a labeling that has the best of all terms, as they are given
        highest = sum(float(term.max()) for term in (*rows, *tables))
        lowest = score - highest
        # messages that bound nothing have only spread the costs
        if highest - bound <= _LEAST_USE * (highest - score):
            messages = None
        terms = *rows, *tables
        # the known labeling counts, too, whatever the sums of scores have lost
        size = sum(abs(float(term.max())) for term in terms)
        lowest *= 1.0 + 1e-6
        lowest -= 1e-12 * size
        self.whole = tol < 1.0 and all(_whole(term, lowest) for term in terms)
        # nor those that leave nothing whole of sums of large numbers
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
        unaries = [self._missing(row) for row in rows]
        tables = [self._missing(table) for table in self.merged.values()]
        del self.merged
        self._score, self._tol = score, tol
        self._scale_by(messages is not None)
        self.unaries = [self._integers(term) for term in unaries]
        self.tables = [self._integers(term) for term in tables]
        self._exact = None
        if not self.whole and sum(table.size for table in tables) <= _MOST_EXACT:
            self._exact = unaries, tables

    def _scale_by(self, moved):
        """Set the scale, the limit, and what need not be found."""
        gap = max(self.top - self._score, 1e-12 * max(1.0, abs(self._score)))
        self.scale = _RESOLUTION / gap
        grain = 0.25 * self._tol * self.scale
        if self.whole:
            # powers of two, so that whole numbers stay whole; those moved are rounded
            self.scale = 2.0 ** math.floor(math.log2(self.scale))
            grain = self.scale * (1.0 - 2.0 * _MOST_LOST * moved)
        self.grain = int(min(max(1.0, grain), FORBIDDEN))
        self.limit = math.ceil(gap * self.scale)

    def refine(self, root):
        """Start from the costs at the root, on a finer scale.

        What is certain at the root is no cost any more, so that the same number of
        steps goes over a smaller range.

        Parameters
        ----------
        root : Network
            A network of these costs, without values that cost `limit` or more.

        Returns
        -------
        finer : bool
            False, and nothing is changed, if little would be gained.
        """
        if self._exact is None or root.limit - root.c0 > _FINER * self.limit:
            return False
        # every term is rounded by less than a step, and a grain does not matter
        if self.grain > _FINE_ENOUGH * (len(self.unaries) + len(self.tables)):
            return False
        values, *left = root.export()
        keep = [*([v] for v in range(len(values))), *self.scopes]
        exact, self._exact = [*self._exact[0], *self._exact[1]], None
        costs, now = [*self.unaries, *self.tables], [*left[0], *left[1]]
        for k, scope in enumerate(keep):
            place = np.ix_(*(values[v] for v in scope))
            # the costs as they have been moved, and what was rounded off
            moved = exact[k][place] + (now[k] - costs[k][place]) / self.scale
            gone = (costs[k][place] >= FORBIDDEN) | (now[k] >= root.limit)
            exact[k] = np.full(costs[k].shape, np.inf)
            exact[k][place] = np.where(gone, np.inf, np.maximum(moved, 0.0))
        self.top -= root.c0 / self.scale
        self._scale_by(False)
        costs = [self._integers(term) for term in exact]
        self.unaries, self.tables = costs[: len(values)], costs[len(values) :]
        return True

    def _add(self, scope, table):
        """Add a table to those of the same variables."""
        order = np.argsort(scope, kind="stable")
        key = tuple(int(v) for v in np.asarray(scope)[order])
        table = np.transpose(table, order)
        old = self.merged.get(key)
        self.merged[key] = table if old is None else old + table

    def _missing(self, scores):
        """What is missing from the best of some scores."""
        best = scores.max()
        if best == -np.inf:
            return np.full(scores.shape, np.inf)
        self.top += float(best)
        return best - scores

    def _integers(self, costs):
        """Costs rounded down; those at the limit or above are forbidden."""
        scaled = np.minimum(costs * self.scale, float(FORBIDDEN))
        # above by more than the rounding of sums of scores
        forbidden = scaled > 1.000001 * self.limit
        return np.where(forbidden, FORBIDDEN, np.floor(scaled)).astype(np.int64)


def labeling_cost(unaries, scopes, tables, labeling):
    """Cost of a labeling; at least FORBIDDEN where it is of no interest."""
    total = sum(int(row[x]) for row, x in zip(unaries, labeling, strict=True))
    for scope, table in zip(scopes, tables, strict=True):
        total += int(table[tuple(labeling[v] for v in scope)])
    return total


def _largest(scores):
    """The largest of some numbers, whatever their signs; 0 where one is not finite."""
    low, high = float(scores.min()), float(scores.max())
    return max(high, -low) if low > -np.inf else 0.0


def _whole(scores, lowest):
    """Whether all scores that are not too low are whole numbers."""
    high = scores[scores >= scores.max() + lowest]
    return bool((high == np.round(high)).all())


def consistent_root(terms, limit, late):
    """A network with as much as possible in c0; None if nothing is below the limit.

    Parameters
    ----------
    terms : Terms
        The costs.
    limit : int
        Labelings that cost so much are of no interest.
    late : callable
        Whether to stop early.

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
    """Sweep while it raises the bound by enough; False: nothing is below the limit."""
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
