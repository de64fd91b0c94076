"""An equivalent graph without evidence, forced states or -inf."""

from functools import cached_property

import numpy as np

from sksstruct.factor_graphs import DenseTable, FactorGraph, Logic, Potts
from sksstruct.inference.map.core._cliques import Cliques
from sksstruct.inference.map.core._forced import Forced
from sksstruct.inference.map.core._index import offsets

# The ranges of tables of at most _SMALL entries are computed in batches of tables with
# about _BATCH entries.
_SMALL, _BATCH = 1024, 1_000_000


class Reduced:
    """The part of a graph that remains to be solved, and the conversion of results.

    Variables with one possible state are removed. Their scores are added to the offset,
    and the scores of their factors to neighbors. Scores of -inf become finite
    penalties, so low that a labeling with one of them scores less than every labeling
    without: minus the sum of the ranges of all scores, and a margin. Upper bounds
    therefore hold, and the best labeling of the reduced graph is allowed if the given
    graph has an allowed labeling.

    Parameters
    ----------
    graph : FactorGraph
        Any graph.
    margin : float, default=1.0
        Least difference between the score of the best labeling with a penalty and that
        of the worst labeling without.
    joins : bool, default=False
        Whether mutually exclusive states become cliques, whose variables are appended
        to the reduced graph.

    Attributes
    ----------
    graph : FactorGraph
        The reduced graph; the given graph if there was nothing to reduce.
    offset : float
        Number to add to scores of the reduced graph to get scores of the given graph.
    penalty : float
        The number that replaces -inf; 0 if no score is -inf.
    plain : FactorGraph
        The reduced graph with scores of -inf, and without the variables of cliques.
    plain_range : tuple of two floats
        Bounds on the scores of the allowed labelings of `plain`, from `score_range`.
    lowest : float
        If scores of -inf were replaced: a threshold on scores of the reduced graph; the
        allowed labelings of the given graph are above this threshold, all other
        labelings below.
    feasible : bool
        False if a variable has no allowed state, or a table no finite score.
    cliques : Cliques or None
        The cliques, if there are any.
    """

    def __init__(self, graph, margin=1.0, joins=False):
        self.given, self._margin = graph, margin
        self.penalty, self.cliques = 0.0, None
        # the check comes first, as sums of scores in `Forced` could overflow, too
        ranges = table_ranges(graph.tables)
        _check_sums(graph, ranges[0])
        forced = Forced(graph)
        self.states, self.offset = forced.states, forced.offset
        self.feasible = forced.feasible
        if not self.feasible:
            return
        self.free = np.flatnonzero(self.states < 0)
        # number of each edge and factor in the reduced graph, or -1 if removed
        self.places = np.arange(graph.n_edges + graph.n_factors)
        if len(self.free) < graph.n_variables or (graph.evidence >= 0).any():
            graph = forced.rest()
            self.places = forced.places
            ranges = table_ranges(graph.tables)
        self.plain, self._ranges = graph, ranges
        if joins and (cliques := Cliques(graph)).n:
            self.cliques, graph = cliques, cliques.graph
            ranges = table_ranges(graph.tables)
        self.graph = self._penalize(graph, *ranges)

    @cached_property
    def plain_range(self):
        """Bounds on the scores of the allowed labelings of `plain`, a tuple of two."""
        return score_range(self.plain, self._ranges[0])

    def without_cliques(self):
        """Return the reduced graph without the variables of cliques."""
        return self._penalize(self.plain, *self._ranges)

    def _penalize(self, graph, ranges, infinite):
        """Return the graph with penalties in place of -inf; see `table_ranges`."""
        used = np.union1d(graph.edge_tables, graph.factor_tables).astype(np.intp)
        if any(graph.tables[t].values.max() == -np.inf for t in used[infinite[used]]):
            self.feasible = False
            return graph
        logic = any(isinstance(table, Logic) for table in graph.tables)
        if (
            not infinite.any()
            and not logic
            and graph.unaries.min(initial=0.0) > -np.inf
        ):
            return graph
        spread = self._choose_penalty(graph, ranges)
        # a penalty is multiplied by the weight of its edge, which may be below 1
        smallest = np.ones(len(graph.tables))
        weights = _weights(graph)
        np.minimum.at(smallest, graph.edge_tables, np.where(weights > 0, weights, 1.0))
        tables = [
            _penalized(table, high, spread / least) if has_inf else table
            for table, has_inf, high, least in zip(
                graph.tables, infinite, ranges[1], smallest, strict=True
            )
        ]
        scores = np.array(graph.unaries)
        high = np.maximum.reduceat(scores, graph.first_state[:-1]) - spread
        low = scores == -np.inf
        scores[low] = np.repeat(high, graph.n_states)[low]
        return FactorGraph._assemble(
            graph.n_states, scores, graph.edges, graph.edge_tables, tables,
            graph.factor_scopes, graph.factor_tables, 0.0, None,
            edge_weights=graph.edge_weights,
        )  # fmt: skip

    def _choose_penalty(self, graph, ranges):
        """Set the penalty and the threshold `lowest`; return minus the penalty."""
        low, high = score_range(graph, ranges)
        spread = high - low
        # the margin exceeds rounding errors of large scores
        margin = max(self._margin, 1e-9 * spread)
        spread += margin
        self.penalty = -spread
        self.lowest = low + self.offset - 0.5 * margin
        return spread

    def labeling(self, x):
        """Return the labeling of the given graph for a labeling of the reduced graph.

        Parameters
        ----------
        x : ndarray of shape (n_free + n_cliques,)
            States of the free variables, and of the cliques.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), intp
            States of all variables.
        """
        full = np.array(self.states, dtype=np.intp)
        full[self.free] = x[: len(self.free)]
        return full

    def marginals(self, parts):
        """Return the marginals of all variables of the given graph.

        Parameters
        ----------
        parts : list of ndarrays
            Marginals of the free variables, and of the cliques.

        Returns
        -------
        marginals : list of ndarrays of shape (n_states[i],)
            Distributions over the states of all variables.
        """
        graph = self.given
        full = np.zeros(graph.first_state[-1])
        fixed = np.flatnonzero(self.states >= 0)
        full[graph.first_state[fixed] + self.states[fixed]] = 1.0
        if parts:
            free = np.repeat(self.states < 0, graph.n_states)
            full[free] = np.concatenate(parts[: len(self.free)])
        return np.split(full, graph.first_state[1:-1])


def _weights(graph):
    """Return the weights of the edges; all are 1 in a graph without weights."""
    return np.ones(graph.n_edges) if graph.edge_weights is None else graph.edge_weights


def _penalized(table, high, penalty):
    """Return a table with -inf replaced by its highest score minus the penalty."""
    low = high - penalty
    if not low > -np.inf:
        raise ValueError(
            "the weight of an edge is too small for a table with -inf: scale the "
            "weights of edges up"
        )
    return DenseTable._own(np.maximum(table.values, low))


def _check_sums(graph, ranges):
    """Raise an error if sums of scores could overflow."""
    uses = np.zeros(len(graph.tables))
    np.add.at(uses, graph.edge_tables, np.abs(_weights(graph)))
    np.add.at(uses, graph.factor_tables, 1.0)
    scores = graph.unaries
    # overflow, and inf - inf, yield totals that the test below refuses
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.abs(scores[scores > -np.inf]).sum()
        low, high = ranges
        total += (uses * np.maximum(-low, high)).sum()
    if not total < 1e299:
        raise ValueError("graph: the scores are too large for floating-point sums")


def score_range(graph, ranges=None):
    """Return bounds on the scores of allowed labelings, from finite scores.

    Parameters
    ----------
    graph : FactorGraph
        The graph.
    ranges : ndarray of shape (2, n_tables), default=None
        The ranges of the graph's tables, from `table_ranges`.

    Returns
    -------
    low, high : float
        Sums of the lowest and of the highest scores of all variables and factors.
    """
    weights = _weights(graph)
    # how often each table counts: with positive weights, and with negative ones, which
    # swap low and high
    uses = np.zeros((2, len(graph.tables)))
    np.add.at(uses[0], graph.edge_tables, np.maximum(weights, 0.0))
    np.add.at(uses[1], graph.edge_tables, np.minimum(weights, 0.0))
    np.add.at(uses[0], graph.factor_tables, 1.0)
    first, scores = graph.first_state[:-1], graph.unaries
    highest = np.maximum.reduceat(scores, first).sum()
    finite = np.where(scores > -np.inf, scores, np.inf)
    lowest = np.minimum.reduceat(finite, first).sum()
    low, high = table_ranges(graph.tables)[0] if ranges is None else ranges
    plus, minus = uses
    lowest += (plus * low + minus * high).sum()
    highest += (plus * high + minus * low).sum()
    return lowest, highest


def table_ranges(tables):
    """Return the smallest and largest finite scores of tables.

    Parameters
    ----------
    tables : list of Table
        The tables.

    Returns
    -------
    ranges : ndarray of shape (2, n_tables)
        Smallest and largest finite score of each table; zeros where none is finite.
    infinite : ndarray of bool of shape (n_tables,)
        Whether a table has an entry of -inf; false for `Logic`.
    """
    ranges = np.zeros((2, len(tables)))
    infinite = np.zeros(len(tables), dtype=bool)
    batch, size = [], 0
    for t, table in enumerate(tables):
        if isinstance(table, DenseTable) and table.values.size <= _SMALL:
            batch.append(t)
            size += table.values.size
            if size > _BATCH:
                _look_together(tables, batch, ranges, infinite)
                batch, size = [], 0
            continue
        ranges[:, t] = _range_of(table)
        if isinstance(table, DenseTable):
            infinite[t] = table.values.min() == -np.inf
    if batch:
        _look_together(tables, batch, ranges, infinite)
    return ranges, infinite


def _look_together(tables, batch, ranges, infinite):
    """Set the ranges of a batch of tables, and whether they have entries of -inf."""
    parts = [tables[t].values.reshape(-1) for t in batch]
    flat, first = np.concatenate(parts), offsets([len(part) for part in parts])[:-1]
    low, high = np.minimum.reduceat(flat, first), np.maximum.reduceat(flat, first)
    has_inf = low == -np.inf
    if has_inf.any():
        finite = np.where(flat > -np.inf, flat, np.inf)
        low = np.where(has_inf, np.minimum.reduceat(finite, first), low)
        low[high == -np.inf] = high[high == -np.inf] = 0.0
    ranges[:, batch] = low, high
    infinite[batch] = has_inf


def _range(values):
    """Return the smallest and the largest finite score; zeros if none is finite."""
    low = values.min()
    if low == -np.inf:
        values = values[values > -np.inf]
        if not values.size:
            return 0.0, 0.0
        low = values.min()
    return low, values.max()


def _range_of(table):
    """Return the smallest and largest finite score of a table, or zeros."""
    if isinstance(table, Logic):
        return 0.0, 0.0
    if isinstance(table, Potts):
        return min(table.parameters), max(table.parameters)
    if isinstance(table, DenseTable):
        return _range(table.values)
    # the first row of a table of distances contains all of its scores
    return _range(np.asarray(table.scores(0, np.arange(table.shape[1]))))
