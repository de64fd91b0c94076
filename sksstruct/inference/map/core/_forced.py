"""Variables with one possible state, and the graph of all other variables."""

import numpy as np

from sksstruct.factor_graphs import DenseTable, FactorGraph, Logic
from sksstruct.inference.map.core._index import places_by


class Forced:
    """Fix the variables with one allowed state, and remove them from their factors.

    A variable has one state if it is observed, has no other state, or all other states
    score -inf. Its score is added to the offset. The scores of a factor whose variables
    are fixed except for one are added to the unary scores of this variable, which may
    then lose all states but one.
    Each factor is visited once for each of its variables.

    Parameters
    ----------
    graph : FactorGraph
        Any graph.

    Attributes
    ----------
    states : ndarray of shape (n_variables,)
        States of the fixed variables; -1 for all other variables.
    offset : float
        Score of the variables and factors that have no free variable.
    feasible : bool
        False if a variable has no allowed state.
    places : ndarray of shape (n_edges + n_factors,)
        After `rest`: number of each edge and factor in the graph that `rest` returns,
        or -1 if removed.
    """

    def __init__(self, graph):
        self._graph, self.offset = graph, graph.offset
        self._scores = _mask(graph)
        self.states = np.full(graph.n_variables, -1, dtype=np.int32)
        self._edge_left = np.ones(graph.n_edges, dtype=bool)
        self._factor_left = np.ones(graph.n_factors, dtype=bool)
        self._reduced = set()
        self.feasible = self._propagate()

    def _propagate(self):
        """Fix variables until none is forced; False: no labeling is allowed."""
        graph, first = self._graph, self._graph.first_state
        if not graph.n_variables:
            return self.offset > -np.inf
        count = np.add.reduceat(self._scores > -np.inf, first[:-1], dtype=np.intp)
        if count.min() == 0:
            return False
        # `Logic` factors are not reduced: their variables stay even if only one state
        # is allowed
        stays = np.zeros(graph.n_variables, dtype=bool)
        for t, _, scopes in graph.factors_by_table():
            if isinstance(graph.tables[t], Logic):
                stays[scopes] = True
        forced = np.flatnonzero((count == 1) & ~stays)
        if len(forced):
            self._index()
        while len(forced):
            for v in forced.tolist():
                part = self._scores[first[v] : first[v + 1]]
                self.states[v] = x = int(np.argmax(part))
                self.offset += float(part[x])
            touched = self._absorb_edges(forced) | self._absorb_factors(forced)
            forced = []
            for v in sorted(touched):
                part = self._scores[first[v] : first[v + 1]]
                count = np.count_nonzero(part > -np.inf)
                if count == 0:
                    return False
                if count == 1 and not stays[v]:
                    forced.append(v)
            forced = np.array(forced, dtype=np.intp)
        return self.offset > -np.inf

    def _index(self):
        """List the edges and factors of each variable."""
        graph = self._graph
        n, scopes = graph.n_variables, graph.factor_scopes
        self._edge_first, places = places_by(graph.edges.ravel(), n)
        self._edge_order = places // 2
        scope = np.concatenate([*scopes, np.zeros(0, dtype=np.intp)])
        self._factor_first, places = places_by(scope, n)
        owner = np.repeat(np.arange(graph.n_factors), [len(s) for s in scopes])
        self._factor_order = owner[places]

    def _absorb_edges(self, fixed):
        """Add scores of fixed variables' edges to the other ends, or to the offset.

        Returns the variables whose unary scores have changed.
        """
        graph, first, touched = self._graph, self._graph.first_state, set()
        edges = _incident(self._edge_order, self._edge_first, fixed)
        edges = edges[self._edge_left[edges]]
        self._edge_left[edges] = False
        weights = graph.edge_weights
        numbers = np.ones(len(edges)) if weights is None else weights[edges]
        for (u, v), t, weight in zip(
            graph.edges[edges].tolist(), graph.edge_tables[edges], numbers, strict=True
        ):
            scores = _slice(graph.tables[t], (self.states[u], self.states[v]))
            if weights is not None:
                scores = scores * weight
            if self.states[u] >= 0 and self.states[v] >= 0:
                self.offset += float(scores)
                continue
            left = v if self.states[u] >= 0 else u
            self._scores[first[left] : first[left + 1]] += scores
            touched.add(left)
        return touched

    def _absorb_factors(self, fixed):
        """Move factors with at most one free variable to unary scores or the offset.

        Factors with several free variables are recorded in `_reduced`. Returns the
        variables whose unary scores have changed.
        """
        graph, first, touched = self._graph, self._graph.first_state, set()
        factors = _incident(self._factor_order, self._factor_first, fixed)
        for f in factors[self._factor_left[factors]].tolist():
            scope = graph.factor_scopes[f]
            states = self.states[scope]
            left = scope[states < 0]
            if len(left) > 1:
                self._reduced.add(f)
                continue
            self._factor_left[f] = False
            scores = _slice(graph.tables[graph.factor_tables[f]], states)
            if len(left):
                v = int(left[0])
                self._scores[first[v] : first[v + 1]] += scores
                touched.add(v)
            else:
                self.offset += float(scores)
        return touched

    def rest(self):
        """Return the graph of the free variables, without evidence and offset.

        Returns
        -------
        graph : FactorGraph
            The graph; it may have scores of -inf.
        """
        graph = self._graph
        free = self.states < 0
        place = np.cumsum(free) - 1
        edges = np.flatnonzero(self._edge_left)
        pairs, scopes, larger, tables = self._rest_of_factors(place)
        self._number(edges, len(pairs))
        # tables without edges are left out
        used, kept = np.unique(graph.edge_tables[edges], return_inverse=True)
        shift = len(used)
        tables = [graph.tables[t] for t in used] + tables
        ends = place[graph.edges[edges]]
        if pairs:
            ends = np.concatenate([ends, [scope for scope, _ in pairs]])
            kept = np.concatenate([kept, [t + shift for _, t in pairs]])
        weights = graph.edge_weights
        if weights is not None:
            weights = np.concatenate([weights[edges], np.ones(len(pairs))])
        scores = self._scores[np.repeat(free, graph.n_states)]
        if not scores.max(initial=0.0) < np.inf:
            owners = np.repeat(np.flatnonzero(free), graph.n_states[free])
            raise ValueError(
                f"the unary scores of variable {owners[np.argmax(~(scores < np.inf))]} "
                "and the scores of its factors with observed or forced variables have "
                "a sum that is too large for float64: scale them"
            )
        return FactorGraph._assemble(
            graph.n_states[free], scores, ends, kept, tables, scopes,
            [t + shift for t in larger], 0.0, None, edge_weights=weights,
        )  # fmt: skip

    def _number(self, edges, n_pairs):
        """Number the remaining edges and factors of the given graph in `places`.

        Edges are first, then factors with two free variables, then all other factors.
        """
        graph, n_edges = self._graph, self._graph.n_edges
        self.places = np.full(n_edges + graph.n_factors, -1)
        self.places[edges] = np.arange(len(edges))
        pair, larger = len(edges), len(edges) + n_pairs
        for f in np.flatnonzero(self._factor_left):
            is_pair = np.count_nonzero(self.states[graph.factor_scopes[f]] < 0) == 2
            self.places[n_edges + f] = pair if is_pair else larger
            pair, larger = pair + is_pair, larger + (not is_pair)

    def _rest_of_factors(self, place):
        """Return the remaining factors: pairs, scopes and table numbers, and tables.

        A pair is a scope of two variables and a table number; scopes and table numbers
        are those of larger factors.
        """
        graph, index, tables = self._graph, {}, []
        pairs, scopes, larger = [], [], []
        for f in np.flatnonzero(self._factor_left).tolist():
            scope, t = graph.factor_scopes[f], int(graph.factor_tables[f])
            key, states = t, None
            if f in self._reduced:
                states = self.states[scope]
                # factors that share a table and fixed states share the reduced table
                key, scope = (t, *states.tolist()), scope[states < 0]
            if key not in index:
                index[key] = len(tables)
                table = graph.tables[t]
                if states is not None:
                    values = np.ascontiguousarray(_slice(table, states))
                    table = DenseTable._own(values)
                tables.append(table)
            if len(scope) == 2:
                pairs.append((place[scope], index[key]))
            else:
                scopes.append(place[scope])
                larger.append(index[key])
        return pairs, scopes, larger, tables


def _mask(graph):
    """Return the unary scores, with -inf for other states of observed variables."""
    scores = np.array(graph.unaries)
    observed = np.flatnonzero(graph.evidence >= 0)
    if len(observed):
        keep = np.repeat(graph.evidence < 0, graph.n_states)
        keep[graph.first_state[observed] + graph.evidence[observed]] = True
        scores[~keep] = -np.inf
    return scores


def _incident(order, first, variables):
    """Return the edges or factors of some variables, in ascending order."""
    lists = [order[first[v] : first[v + 1]] for v in variables]
    return np.unique(np.concatenate(lists))


def _slice(table, states):
    """Return a table's scores with some variables fixed; free ones have state -1."""
    if isinstance(table, DenseTable):
        return table.values[tuple(slice(None) if x < 0 else x for x in states)]
    return table.scores(
        *(
            np.arange(n) if x < 0 else x
            for x, n in zip(states, table.shape, strict=True)
        )
    )
