"""Constraints that states exclude each other, of pairs or of many, as variables.

Of a clique at most one state can be taken, each of another binary variable: of bids
that want the same thing, say. The local polytope of the pairs is loose: it gives one
half to all of them. A new variable says which of the states is taken, if any, and a
pair for each of them says so too: with these the local polytope is as tight as the
constraint of the clique, the clique inequality of set packing (Padberg, 1973).
Conditions "exactly one" and "at most one" of many variables, whose tables would be too
large for a search, are cliques that somebody has found already. Variables with more
states, as of colorings, took longer with cliques, and are left as they are.
"""

from itertools import combinations

import numpy as np

from sksstruct.factor_graphs import DenseTable, FactorGraph

# A clique of so many states has more pairs than the new variable takes.
_LEAST = 4
# The search for cliques must not take long: pairs, and states that it looks at.
_MOST_PAIRS, _MOST_WORK = 100_000, 1_000_000
# Conditions become variables from so many states on, up to so many entries of pairs:
# assignments with scores of pairs are proved sooner than with tables of 2^10 entries.
_MANY, _MOST_ENTRIES = 8, 1_000_000


class Cliques:
    """Cliques, and the graph with variables for them in the place of constraints.

    Parameters
    ----------
    graph : FactorGraph
        Any graph, without evidence.

    Attributes
    ----------
    graph : FactorGraph
        It begins with the variables of the given graph, those of cliques follow. The
        given graph if there are no cliques.
    n : int
        Number of cliques.
    """

    def __init__(self, graph):
        self.graph, self.n = graph, 0
        factors, cliques = _conditions(graph)
        edges, of_pairs = _joined_pairs(graph)
        # the last state of a clique says that none is taken
        table_of = graph.factor_tables[factors]
        needs_one = [graph.tables[t].condition == "xor" for t in table_of]
        self._needs_one = np.array(needs_one + [False] * len(of_pairs), dtype=bool)
        cliques += of_pairs
        if not cliques:
            return
        self.n = len(cliques)
        self._sizes = np.array(list(map(len, cliques)))
        # of each state of each clique
        self._owner = np.repeat(np.arange(self.n), self._sizes)
        self._place = np.concatenate([np.arange(size) for size in self._sizes])
        literals = np.concatenate(cliques)
        self._variable = np.searchsorted(graph.first_state, literals, side="right") - 1
        self._state = literals - graph.first_state[self._variable]
        self.graph = self._with_variables(
            graph,
            np.delete(np.arange(graph.n_edges), edges),
            np.delete(np.arange(graph.n_factors), factors),
        )

    def extend(self, labeling):
        """Add the states of cliques to a labeling of the given graph.

        Parameters
        ----------
        labeling : ndarray of shape (n_variables,)
            States.

        Returns
        -------
        labeling : ndarray of shape (n_variables + n,)
            States. Of a clique with several states that are taken, it says one.
        """
        said = np.array(self._sizes)
        is_taken = labeling[self._variable] == self._state
        said[self._owner[is_taken]] = self._place[is_taken]
        return np.concatenate([labeling, said])

    def _with_variables(self, graph, edges, factors):
        """The graph with a new variable for each clique, some edges and factors."""
        keys = np.stack([self._state, self._place, self._sizes[self._owner]], axis=1)
        keys, of_ends = np.unique(keys, axis=0, return_inverse=True)
        links = [_link(*key) for key in keys.tolist()]
        ends = np.stack([self._variable, graph.n_variables + self._owner], axis=1)
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
    """Factors of which at most one variable can be on, and their cliques of states."""
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
    """Edges that cliques take the place of, and these cliques of states."""
    nothing = np.zeros(0, dtype=np.intp), []
    edges, pairs = _exclusions(graph)
    if not 0 < len(pairs) <= _MOST_PAIRS:
        return nothing
    cliques = _cover(pairs)
    joined = {pair for c in cliques for pair in combinations(sorted(c), 2)}
    is_gone = [pair in joined for pair in map(tuple, pairs.tolist())]
    # cliques that share most of their pairs would make the graph larger
    if sum(is_gone) <= sum(map(len, cliques)):
        return nothing
    return edges[is_gone], cliques


def _exclusions(graph):
    """Edges that exclude a pair of states and do nothing else, and these pairs.

    States are numbered as in the unary scores.
    """
    edges, pairs = [np.zeros(0, dtype=np.intp)], [np.zeros((0, 2), dtype=np.intp)]
    for t, chosen in graph.edges_by_table():
        table = graph.tables[t]
        if not isinstance(table, DenseTable) or table.shape != (2, 2):
            continue
        forbidden = table.values == -np.inf
        if forbidden.sum() != 1 or table.values[~forbidden].any():
            continue
        states = graph.first_state[graph.edges[chosen]] + np.argwhere(forbidden)
        edges.append(chosen)
        pairs.append(np.sort(states, axis=1))
    return np.concatenate(edges), np.concatenate(pairs)


def _cover(pairs):
    """Cliques that cover most pairs, greedily; each covers pairs that are left.

    It ends with those that it has found by then if it takes long.
    """
    near = {}
    for a, b in pairs.tolist():
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    left = {a: set(others) for a, others in near.items()}
    cliques, work = [], 0
    for a, b in pairs.tolist():
        if work > _MOST_WORK:
            break
        if b not in left[a]:
            continue
        work += min(len(near[a]), len(near[b]))
        clique, candidates = [a, b], near[a] & near[b]
        # of each candidate, how many members it is in no clique with
        gain = {c: (c in left[a]) + (c in left[b]) for c in candidates}
        while candidates:
            work += len(candidates)
            # the smallest number of several, so that runs are repeatable
            best = max(sorted(candidates), key=gain.__getitem__)
            clique.append(best)
            candidates &= near[best]
            for c in candidates & left[best]:
                gain[c] += 1
        if len(clique) < _LEAST:
            continue
        cliques.append(clique)
        for c in clique:
            left[c].difference_update(clique)
    return cliques


def _link(state, place, size):
    """A variable takes a state if, and only if, the clique says so."""
    values = np.zeros((2, size + 1))
    values[state] = values[:, place] = -np.inf
    values[state, place] = 0.0
    return DenseTable._own(values)
