"""The constraints of a factor graph as clauses, and a labeling that satisfies them.

A variable of two states is a truth value, one of more states has a truth value for each
of them, of which exactly one is true. An entry of -inf is a clause: not all of its
states are taken.
"""

from itertools import combinations

import numpy as np

from sksstruct.factor_graphs import DenseTable, Logic
from sksstruct.inference.map.clauses.search import ClauseSearch
from sksstruct.inference.map.core._index import offsets

# Literals of all clauses beyond which there is no search.
_MOST_LITERALS = 8_000_000


class Constraints:
    """Labelings without a score of -inf.

    Parameters
    ----------
    graph : FactorGraph
        A graph without evidence.
    labeling : ndarray of shape (n_variables,)
        States that are tried first.

    Attributes
    ----------
    exist : bool
        Whether there are any, not more than there is memory for. Conditions "budget"
        are left out, so that a labeling may violate one of them.
    """

    def __init__(self, graph, labeling):
        self._graph = graph
        self._states = states = np.asarray(graph.n_states)
        # of each state, the literal that says it is taken
        binary = states == 2
        self._first_value = offsets(np.where(binary, 1, states))
        first = np.repeat(self._first_value[:-1], states)
        within = np.arange(len(first)) - np.repeat(graph.first_state[:-1], states)
        self._literal = np.where(
            np.repeat(binary, states), 2 * first + (within == 0), 2 * (first + within)
        ).astype(np.int32)
        self._parts, self._size, self._search = [], 0, None
        self.exist = self._collect()
        if not self.exist:
            return
        self._search = ClauseSearch(
            int(self._first_value[-1]), *_flat(self._parts), self._values(labeling)
        )
        self._parts = []

    def _collect(self):
        """Collect clauses as arrays of a row each; False if there are none."""
        graph = self._graph
        self._add(self._literal[graph.unaries == -np.inf, None] ^ 1)
        for t, scopes in self._scopes_by_table():
            table = graph.tables[t]
            if isinstance(table, Logic):
                self._add_condition(table, scopes)
            elif isinstance(table, DenseTable):
                self._add_table(table.values == -np.inf, scopes)
            if self._size > _MOST_LITERALS:
                return False
        if not self._parts:
            return False
        self._add_one_state_each()
        return self._size <= _MOST_LITERALS

    def _scopes_by_table(self):
        """Yield each table with the scopes that use it, edges first."""
        graph = self._graph
        # weights of tables with -inf are positive, and change nothing here
        for t, edges in graph.edges_by_table():
            yield t, graph.edges[edges]
        for t, _, scopes in graph.factors_by_table():
            yield t, scopes

    def _add(self, clauses):
        """Add clauses of equal length, literals of shape (n_clauses, length)."""
        if len(clauses):
            self._size += clauses.size
            self._parts.append(np.ascontiguousarray(clauses, dtype=np.int32))

    def _add_one_state_each(self):
        """Variables of other than two states take one of them."""
        graph = self._graph
        for k in np.unique(self._states[self._states != 2]).tolist():
            first = graph.first_state[:-1][self._states == k]
            literals = self._literal[first[:, None] + np.arange(k)]
            self._add(literals)
            self._add_pairs(literals)

    def _add_pairs(self, literals):
        """Of each row of literals, no two are true."""
        n, k = literals.shape
        if n * k * (k - 1) > _MOST_LITERALS:
            # so many pairs are not even built
            self._size = np.inf
            return
        pairs = np.array(list(combinations(range(k), 2)), dtype=int).reshape(-1, 2)
        self._add(literals[:, pairs].reshape(-1, 2) ^ 1)

    def _add_table(self, forbidden, scopes):
        """Clauses for the entries of a table that are -inf."""
        if not forbidden.any() or not len(scopes):
            return
        first = self._graph.first_state[scopes]
        for entry in np.argwhere(forbidden):
            self._add(self._literal[first + entry] ^ 1)

    def _add_condition(self, table, scopes):
        """Clauses for a condition on variables of two states."""
        on = self._literal[self._graph.first_state[scopes] + 1] ^ table.negated
        name = table.condition
        if name == "budget":
            return
        last = None
        if name.endswith("out"):
            on, last = on[:, :-1], on[:, -1:]
        if name in ("xor", "or"):
            self._add(on)
        if last is not None:
            self._add(np.hstack([on, last ^ 1]))
            for k in range(on.shape[1]):
                self._add(np.hstack([on[:, k : k + 1] ^ 1, last]))
        if name in ("xor", "atmostone", "xorout"):
            self._add_pairs(on)

    def _values(self, labeling):
        """Truth values of a labeling."""
        values = np.zeros(self._first_value[-1], dtype=bool)
        literals = self._literal[self._graph.first_state[:-1] + labeling]
        values[literals >> 1] = literals & 1 == 0
        return values

    # ---- the search ----

    @property
    def infeasible(self):
        """Whether no labeling satisfies them."""
        return self._search.unsatisfiable

    @property
    def work(self):
        """Number of clauses that were looked at."""
        return self._search.work

    def advance(self, work):
        """Search on.

        Parameters
        ----------
        work : int
            Clauses to look at, about.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), int32, or None
            A labeling, if one was found.
        """
        if not self._search.advance(work):
            return None
        taken = self._search.values[self._literal >> 1] == (self._literal & 1 == 0)
        # clauses allow exactly one state of each variable
        flat = np.flatnonzero(taken)
        return (flat - self._graph.first_state[:-1]).astype(np.int32)

    def prefer(self, labeling):
        """Search again, for a labeling near another one, with the learned clauses."""
        self._search.prefer(self._values(labeling))


def _flat(parts):
    """Where each clause begins, and all literals."""
    lengths = np.concatenate([np.full(len(p), p.shape[1]) for p in parts])
    literals = np.concatenate([part.ravel() for part in parts])
    return offsets(lengths).astype(np.int64), literals
