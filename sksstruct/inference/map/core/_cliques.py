"""Replace mutually exclusive states by a variable for each clique.

A clique is a set of states of different binary variables, at most one of which can be
taken: bids for the same item, say. The local polytope of the pairwise constraints is
loose: it contains the point with one half for each state. A new variable tells which of
the states is taken, if any; edges link the new variable to the variables of the states.
The local polytope with these edges is as tight as the clique inequality of set packing
(Padberg, 1973). Conditions "exactly one" and "at most one" of many variables (`Logic`),
whose tables would be too large for a search, are cliques, too. Variables with more than
two states, as in colorings, form no cliques: solvers took longer with such cliques.
"""

from itertools import combinations

import numpy as np

from sksstruct.factor_graphs import DenseTable, FactorGraph

# Smallest clique that is replaced: with fewer states, the new variable would have as
# many edges as there are pairs of states to replace.
_LEAST = 4
# Limits of the search for cliques: numbers of pairs and of visited states.
_MOST_PAIRS, _MOST_WORK = 100_000, 1_000_000
# Entries of tables that are looked at together.
_BATCH = 1_000_000
# Conditions of at least _MANY variables become cliques, with at most _MOST_ENTRIES
# entries of edge tables: assignments with pairwise scores are proved optimal sooner
# with cliques than with tables of 2^10 entries.
_MANY, _MOST_ENTRIES = 8, 1_000_000


class Cliques:
    """Cliques of a graph, and the graph with variables in place of their constraints.

    Parameters
    ----------
    graph : FactorGraph
        Any graph, without evidence.

    Attributes
    ----------
    graph : FactorGraph
        The variables of the given graph, followed by the variables of the cliques. The
        given graph if there are no cliques.
    n : int
        Number of cliques.
    """

    def __init__(self, graph):
        self.graph, self.n = graph, 0
        factors, cliques = _conditions(graph)
        edges, of_pairs = _joined_pairs(graph)
        # the last state of a clique's variable means that no state of the clique is
        # taken
        table_of = graph.factor_tables[factors]
        needs_one = [graph.tables[t].condition == "xor" for t in table_of]
        self._needs_one = np.array(needs_one + [False] * len(of_pairs), dtype=bool)
        cliques += of_pairs
        if not cliques:
            return
        self.n = len(cliques)
        self._sizes = np.array(list(map(len, cliques)))
        # for each member of each clique: clique, place in the clique, variable and
        # state
        self._clique = np.repeat(np.arange(self.n), self._sizes)
        self._index = np.concatenate([np.arange(size) for size in self._sizes])
        literals = np.concatenate(cliques)
        self._variable = np.searchsorted(graph.first_state, literals, side="right") - 1
        self._state = literals - graph.first_state[self._variable]
        self.graph = self._with_variables(
            graph,
            np.delete(np.arange(graph.n_edges), edges),
            np.delete(np.arange(graph.n_factors), factors),
        )

    def extend(self, labeling):
        """Append the states of the cliques' variables to a labeling of the given graph.

        Parameters
        ----------
        labeling : ndarray of shape (n_variables,)
            States.

        Returns
        -------
        labeling : ndarray of shape (n_variables + n,)
            States. A clique of which several states are taken is given one of them.
        """
        clique_states = np.array(self._sizes)
        is_taken = labeling[self._variable] == self._state
        clique_states[self._clique[is_taken]] = self._index[is_taken]
        return np.concatenate([labeling, clique_states])

    def _with_variables(self, graph, edges, factors):
        """Return the graph with clique variables, and the given edges and factors."""
        keys = np.stack([self._state, self._index, self._sizes[self._clique]], axis=1)
        keys, of_ends = np.unique(keys, axis=0, return_inverse=True)
        links = [_link(*key) for key in keys.tolist()]
        ends = np.stack([self._variable, graph.n_variables + self._clique], axis=1)
        weights = graph.edge_weights
        if weights is not None:
            weights = np.concatenate([weights[edges], np.ones(len(ends))])
        new_tables = len(graph.tables) + of_ends.ravel()
        scores = np.zeros((self._sizes + 1).sum())
        scores[np.cumsum(self._sizes + 1)[self._needs_one] - 1] = -np.inf
        return FactorGraph._assemble(
            np.concatenate([graph.n_states, self._sizes + 1]),
            np.concatenate([graph.unaries, scores]),
            np.concatenate([graph.edges[edges], ends]),
            np.concatenate([graph.edge_tables[edges], new_tables]),
            [*graph.tables, *links], [graph.factor_scopes[k] for k in factors],
            graph.factor_tables[factors], 0.0, None, edge_weights=weights,
        )  # fmt: skip


def _conditions(graph):
    """Return factors that are conditions of many variables, and their cliques."""
    factors, cliques, entries = [], [], 0
    for k, (scope, t) in enumerate(
        zip(graph.factor_scopes, graph.factor_tables, strict=True)
    ):
        table, n = graph.tables[t], len(scope)
        if n < _MANY or table.condition not in ("xor", "atmostone"):
            continue
        entries += 2 * n * (n + 1)
        if entries > _MOST_ENTRIES:
            break
        factors.append(k)
        cliques.append((graph.first_state[scope] + ~table.negated).tolist())
    return factors, cliques


def _joined_pairs(graph):
    """Return edges that cliques replace, and the cliques of states."""
    nothing = np.zeros(0, dtype=np.intp), []
    edges, pairs = exclusions(graph)
    if not len(pairs):
        return nothing
    cliques, is_gone = cover(pairs, _LEAST)
    # return no cliques if they would add at least as many edges as they remove
    if is_gone.sum() <= sum(map(len, cliques)):
        return nothing
    return edges[is_gone], cliques


def exclusions(graph, largest=4, most=0.5, limit=_MOST_PAIRS):
    """Return edges with small tables that only exclude a few pairs, and these pairs.

    Parameters
    ----------
    graph : FactorGraph
        Any graph.
    largest : int, default=4
        Largest number of entries of a table.
    most : float, default=0.5
        Largest number of pairs that a table excludes, as a multiple of the larger
        number of states.
    limit : int, default=_MOST_PAIRS
        Largest number of pairs in all.

    Returns
    -------
    edges : ndarray of shape (n_pairs,)
        Edges, in increasing order; an edge occurs once for each pair. Empty if there
        are more pairs than `limit`.
    pairs : ndarray of shape (n_pairs, 2)
        Pairs of states, numbered as in the unary scores, the smaller one first.
    """
    edges, pairs = np.zeros(0, dtype=np.intp), np.zeros((0, 2), dtype=np.intp)
    # the excluded entries of each table: number, first one, and list
    count = np.zeros(len(graph.tables), dtype=np.intp)
    begin, entries, n_entries = np.zeros_like(count), [], 0
    for tables in _batches(graph, largest):
        shape = graph.tables[tables[0]].shape
        values = np.array([graph.tables[t].values for t in tables])
        forbidden = values == -np.inf
        values[forbidden] = 0.0
        n_pairs = forbidden.sum(axis=(1, 2))
        chosen = (n_pairs > 0) & (n_pairs <= most * max(shape))
        chosen &= ~values.any(axis=(1, 2))
        chosen_tables, n_pairs = np.array(tables)[chosen], n_pairs[chosen]
        count[chosen_tables] = n_pairs
        begin[chosen_tables] = n_entries + np.cumsum(n_pairs) - n_pairs
        entries.append(np.argwhere(forbidden[chosen])[:, 1:])
        n_entries += len(entries[-1])
    size = count[graph.edge_tables]
    total = int(size.sum())
    if not 0 < total <= limit:
        return edges, pairs
    edges = np.repeat(np.arange(graph.n_edges), size)
    within = np.arange(total) - np.repeat(np.cumsum(size) - size, size)
    entry = np.concatenate(entries)[begin[graph.edge_tables[edges]] + within]
    pairs = graph.first_state[graph.edges[edges]] + entry
    return edges, np.sort(pairs, axis=1)


def _batches(graph, largest):
    """Yield lists of small tables of edges with entries of -inf, of equal shape."""
    by_shape = {}
    for t in np.unique(graph.edge_tables).tolist():
        table = graph.tables[t]
        if not isinstance(table, DenseTable) or table.values.size > largest:
            continue
        if table.values.min() > -np.inf:
            continue
        batch = by_shape.setdefault(table.shape, [])
        batch.append(t)
        if len(batch) * table.values.size >= _BATCH:
            yield by_shape.pop(table.shape)
    yield from by_shape.values()


def cover(pairs, least):
    """Return cliques of states, and whether the cliques contain each of the pairs.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Pairs of states that exclude each other, the smaller one first.
    least : int
        Smallest size of a clique.

    Returns
    -------
    cliques : list of lists of int
        Sets of states that exclude each other.
    is_covered : ndarray of bool of shape (n_pairs,)
        Whether both states of a pair are in one clique.
    """
    cliques = _find_cliques(pairs, least)
    joined = {pair for c in cliques for pair in combinations(sorted(c), 2)}
    is_covered = [pair in joined for pair in map(tuple, pairs.tolist())]
    return cliques, np.array(is_covered, dtype=bool)


def _find_cliques(pairs, least):
    """Return greedily built cliques of at least `least` states.

    A search that takes too long returns the cliques found so far.
    """
    near = {}
    for a, b in pairs.tolist():
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    uncovered = {a: set(others) for a, others in near.items()}
    cliques, work = [], 0
    for a, b in pairs.tolist():
        if work > _MOST_WORK:
            break
        if b not in uncovered[a]:
            continue
        work += min(len(near[a]), len(near[b]))
        clique, candidates = [a, b], near[a] & near[b]
        # number of members with which each candidate shares no clique yet
        gain = {c: (c in uncovered[a]) + (c in uncovered[b]) for c in candidates}
        while candidates:
            work += len(candidates)
            # of equal candidates the smallest, so that runs are repeatable
            best = max(sorted(candidates), key=gain.__getitem__)
            clique.append(best)
            candidates &= near[best]
            for c in candidates & uncovered[best]:
                gain[c] += 1
        if len(clique) < least:
            continue
        cliques.append(clique)
        for c in clique:
            uncovered[c].difference_update(clique)
    return cliques


def _link(state, place, size):
    """Return the table that allows `state` exactly if the clique's state is `place`."""
    values = np.zeros((2, size + 1))
    values[state] = values[:, place] = -np.inf
    values[state, place] = 0.0
    return DenseTable._own(values)
