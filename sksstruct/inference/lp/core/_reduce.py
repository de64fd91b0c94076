"""An equivalent graph without evidence, forced states or -inf."""

import numpy as np

from sksstruct.factor_graphs import DenseTable, FactorGraph, Logic, Potts


class Reduced:
    """The part of a graph that is left to solve, and the way back.

    Variables that can have one state only are removed; their scores are added to their
    neighbors. Scores of -inf become finite, and so low that a labeling with one of them
    is below every other: minus the sum of the ranges of all scores, and a margin. So
    upper bounds hold, and labelings are right wherever the graph has an allowed one.

    Parameters
    ----------
    graph : FactorGraph
        Any graph.

    Attributes
    ----------
    graph : FactorGraph
        The reduced graph; the given one where there was nothing to do.
    offset : float
        Number to add to scores of the reduced graph to get scores of the given one.
    penalty : float
        The number that replaces -inf; 0 where there was no -inf.
    lowest : float
        Where there was -inf: a threshold that, by the scores of the reduced graph,
        separates the allowed labelings of the given graph, above it, from all others.
    feasible : bool
        False where some variable has no state left.
    """

    def __init__(self, graph):
        self.given = graph
        self.offset = graph.offset
        self.penalty = 0.0
        self.feasible = True
        self.states = _forced(graph)
        if (self.states == -2).any():
            self.feasible = False
            return
        reduced = graph
        while True:
            self.free = np.flatnonzero(self.states < 0)
            if len(self.free) < graph.n_variables:
                self.offset = graph.offset
                reduced = self._restrict(graph)
            # slices may leave a neighbor with one state, or with none
            more = _forced(reduced)
            if self.offset == -np.inf or (more == -2).any():
                self.feasible = False
                return
            if (more < 0).all():
                break
            self.states[self.free[more >= 0]] = more[more >= 0]
        self.graph = self._penalise(reduced)

    def _restrict(self, graph):
        """The graph of the variables that are free."""
        fixed = self.states >= 0
        place = np.full(graph.n_variables, -1)
        place[self.free] = np.arange(len(self.free))
        unaries = [np.array(graph.unary(v)) for v in self.free]
        for v in np.flatnonzero(fixed):
            self.offset += graph.unary(v)[self.states[v]]
        keep = ~fixed[graph.edges].any(axis=1)
        self._absorb_edges(graph, np.flatnonzero(~keep), unaries, place)
        factors = self._restrict_factors(graph, unaries, place)
        weights = graph.edge_weights
        observed = self.free[graph.evidence[self.free] >= 0]
        return FactorGraph(
            unaries,
            place[graph.edges[keep]],
            graph.tables,
            edge_tables=graph.edge_tables[keep],
            edge_weights=None if weights is None else weights[keep],
            factors=factors,
            evidence={int(place[v]): int(graph.evidence[v]) for v in observed},
        )

    def _absorb_edges(self, graph, edges, unaries, place):
        """Add scores of edges with a fixed end to the other end, or to the offset."""
        weights = graph.edge_weights
        for e in edges:
            scope = graph.edges[e]
            scores = self._slice(graph.tables[graph.edge_tables[e]], scope)
            scores = scores * (1.0 if weights is None else weights[e])
            left = scope[self.states[scope] < 0]
            if len(left):
                unaries[place[left[0]]] += scores
            else:
                self.offset += float(scores)

    def _restrict_factors(self, graph, unaries, place):
        """The larger factors of free variables; others become unaries, or offset."""
        factors = []
        for scope, t in zip(graph.factor_scopes, graph.factor_tables, strict=True):
            table, left = graph.tables[t], scope[self.states[scope] < 0]
            if len(left) < len(scope):
                table = self._slice(table, scope)
            if len(left) == 0:
                self.offset += float(table)
            elif len(left) == 1:
                unaries[place[left[0]]] += table
            else:
                factors.append((place[left], table))
        return factors

    def _slice(self, table, scope):
        """Scores of the free variables of a scope."""
        if isinstance(table, DenseTable):
            return table.values[
                tuple(
                    slice(None) if self.states[v] < 0 else int(self.states[v])
                    for v in scope
                )
            ]
        states = [
            np.arange(n) if self.states[v] < 0 else int(self.states[v])
            for v, n in zip(scope, table.shape, strict=True)
        ]
        return table.scores(*states)

    def _penalise(self, graph):
        """The graph with finite scores."""
        infinite = [_has_inf(table) for table in graph.tables]
        logic = any(isinstance(table, Logic) for table in graph.tables)
        if not any(infinite) and not logic and graph.unaries.min(initial=0.0) > -np.inf:
            return graph
        spread = self._choose_penalty(graph)
        # a penalty is multiplied by the weight of its edge, which may be below 1
        smallest = np.ones(len(graph.tables))
        weights = _weights(graph)
        np.minimum.at(smallest, graph.edge_tables, np.where(weights > 0, weights, 1.0))
        tables = [
            _penalised(table, spread, least) if has_inf else table
            for table, has_inf, least in zip(
                graph.tables, infinite, smallest, strict=True
            )
        ]
        unaries = []
        for v in range(graph.n_variables):
            row = np.array(graph.unary(v))
            if graph.evidence[v] >= 0:
                row[np.arange(len(row)) != graph.evidence[v]] = -np.inf
            unaries.append(np.where(row > -np.inf, row, row.max() - spread))
        scopes = zip(graph.factor_scopes, graph.factor_tables, strict=True)
        return FactorGraph(
            unaries,
            graph.edges,
            tables,
            edge_tables=graph.edge_tables,
            edge_weights=graph.edge_weights,
            factors=[(scope, tables[t]) for scope, t in scopes],
        )

    def _choose_penalty(self, graph):
        """Set the penalty and the lowest score; return minus the penalty."""
        low, high = _bounds(graph)
        with np.errstate(over="ignore"):
            spread = high - low
        # beyond rounding, where scores are large
        margin = max(1.0, 1e-9 * spread)
        spread += margin
        if not spread < 1e300:
            raise ValueError("the scores are too large for floating-point sums")
        self.penalty = -spread
        self.lowest = low + self.offset - 0.5 * margin
        return spread

    def labeling(self, x):
        """A labeling of the given graph for one of the reduced graph.

        Parameters
        ----------
        x : ndarray of shape (n_free,)
            States of the free variables.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), intp
            States of all variables.
        """
        full = np.array(self.states, dtype=np.intp)
        full[self.free] = x
        return full

    def marginals(self, parts):
        """Marginals of all variables.

        Parameters
        ----------
        parts : list of ndarrays
            Marginals of the free variables.

        Returns
        -------
        marginals : list of ndarrays of shape (n_states[i],)
            Distributions over the states of all variables.
        """
        full = []
        for v, n in enumerate(self.given.n_states):
            full.append(np.zeros(n))
            if self.states[v] >= 0:
                full[v][self.states[v]] = 1.0
        for v, part in zip(self.free, parts, strict=True):
            full[v] = np.array(part)
        return full


def _forced(graph):
    """States of variables with one allowed state, -1 with several, -2 with none."""
    states = np.array(graph.evidence)
    first, unaries = graph.first_state, graph.unaries
    if graph.n_states.min(initial=2) == 1 or unaries.min(initial=0.0) == -np.inf:
        for v in range(graph.n_variables):
            allowed = unaries[first[v] : first[v + 1]] > -np.inf
            if states[v] >= 0:
                states[v] = states[v] if allowed[states[v]] else -2
            elif allowed.sum() <= 1:
                states[v] = int(np.argmax(allowed)) if allowed.any() else -2
    # conditions are not cut down: their variables stay even if their states are known
    for scope, t in zip(graph.factor_scopes, graph.factor_tables, strict=True):
        if isinstance(graph.tables[t], Logic):
            states[scope] = np.minimum(states[scope], -1)
    return states


def _weights(graph):
    """Weights of the edges, 1 where there are none."""
    return np.ones(graph.n_edges) if graph.edge_weights is None else graph.edge_weights


def _has_inf(table):
    return isinstance(table, DenseTable) and table.values.min() == -np.inf


def _penalised(table, spread, smallest_weight):
    """A table with finite numbers in the place of -inf."""
    values = table.dense()
    # below every finite score of the table, as well
    high = values.max()
    if high == -np.inf:
        high = 0.0
    low = high - spread / smallest_weight
    if not low > -np.inf:
        raise ValueError("a weight is too small for a table with -inf")
    return DenseTable(np.where(values > -np.inf, values, low))


def _bounds(graph):
    """Lower and upper bound of the scores of allowed labelings, from finite scores."""
    weights = _weights(graph)
    # how often each table counts, and with negative weights, which swap low and high
    uses = np.zeros((2, len(graph.tables)))
    np.add.at(uses[0], graph.edge_tables, np.maximum(weights, 0.0))
    np.add.at(uses[1], graph.edge_tables, np.minimum(weights, 0.0))
    np.add.at(uses[0], graph.factor_tables, 1.0)
    rows = [graph.unary(v) for v in range(graph.n_variables)]
    ranges = np.array([_range(row) for row in rows]).reshape(-1, 2)
    lowest, highest = ranges.sum(axis=0)
    for table, (plus, minus) in zip(graph.tables, uses.T, strict=True):
        low, high = _table_range(table)
        lowest += plus * low + minus * high
        highest += plus * high + minus * low
    return lowest, highest


def _range(values):
    """Smallest and largest of the scores that are finite; zeros where none is."""
    finite = values[values > -np.inf]
    return (finite.min(), finite.max()) if finite.size else (0.0, 0.0)


def _table_range(table):
    """Smallest and largest finite score of a table."""
    if isinstance(table, Logic):
        return 0.0, 0.0
    if isinstance(table, Potts):
        return min(table.parameters), max(table.parameters)
    if isinstance(table, DenseTable):
        return _range(table.values)
    # the first row of a table of distances has all of its scores
    return _range(np.asarray(table.scores(0, np.arange(table.shape[1]))))
