"""The hard constraints of a factor graph as clauses, and labelings that satisfy them.

A variable of two states is a truth value. Any other variable has a truth value for each
state, exactly one of which is true. A table entry of -inf is a clause: at least one of
its variables has another state. Finite scores are ignored.
"""

from itertools import combinations

import numpy as np

from sksstruct.factor_graphs import DenseTable, Logic
from sksstruct.inference.map.clauses.search import ClauseSearch
from sksstruct.inference.map.core._index import offsets

# Graphs whose clauses have more literals are not searched.
_MOST_LITERALS = 8_000_000
# Number of tables that are read together.
_BATCH = 1000


class Constraints:
    """Search for labelings without a score of -inf.

    Parameters
    ----------
    graph : FactorGraph
        A graph without evidence.
    labeling : ndarray of shape (n_variables,)
        States that the search tries first.

    Attributes
    ----------
    exist : bool
        Whether the graph has constraints, and memory suffices for the clauses. Budgets
        are left out, so that labelings may violate budgets.
    """

    def __init__(self, graph, labeling):
        self._graph = graph
        self._states = states = np.asarray(graph.n_states)
        # literal of each state, which is true if the variable has the state
        binary = states == 2
        self._first_value = offsets(np.where(binary, 1, states))
        first = np.repeat(self._first_value[:-1], states)
        within = np.arange(len(first)) - np.repeat(graph.first_state[:-1], states)
        self._literal = np.where(
            np.repeat(binary, states), 2 * first + (within == 0), 2 * (first + within)
        ).astype(np.int32)
        self._clauses, self._n_literals, self._search = [], 0, None
        self.exist = self._collect()
        if not self.exist:
            return
        self._search = ClauseSearch(
            int(self._first_value[-1]), *_flat(self._clauses), self._values(labeling)
        )
        self._clauses = []

    def _collect(self):
        """Collect the clauses; return False if there are no clauses, or too many."""
        graph, batch = self._graph, []
        self._add(self._literal[graph.unaries == -np.inf, None] ^ 1)
        for t, scopes in self._scopes_by_table():
            table = graph.tables[t]
            if batch and (len(scopes) > 1 or table.shape != batch[0][0].shape):
                self._add_tables(batch)
                batch = []
            if isinstance(table, Logic):
                self._add_condition(table, scopes)
            elif isinstance(table, DenseTable):
                if len(scopes) == 1:
                    batch.append((table.values, scopes[0]))
                else:
                    self._add_table(table.values == -np.inf, scopes)
            if self._n_literals > _MOST_LITERALS:
                return False
        self._add_tables(batch)
        if not self._clauses:
            return False
        self._add_one_state_each()
        return self._n_literals <= _MOST_LITERALS

    def _scopes_by_table(self):
        """Yield each table with the scopes that use it, edges first."""
        graph = self._graph
        # weights of tables with -inf are positive, and change no -inf entry
        for t, edges in graph.edges_by_table():
            yield t, graph.edges[edges]
        for t, _, scopes in graph.factors_by_table():
            yield t, scopes

    def _add(self, clauses):
        """Add clauses of equal length: literals of shape (n_clauses, length)."""
        if len(clauses):
            self._n_literals += clauses.size
            self._clauses.append(np.ascontiguousarray(clauses, dtype=np.int32))

    def _add_one_state_each(self):
        """Add clauses that make one state true of each variable that is not binary."""
        graph = self._graph
        for k in np.unique(self._states[self._states != 2]).tolist():
            first = graph.first_state[:-1][self._states == k]
            literals = self._literal[first[:, None] + np.arange(k)]
            self._add(literals)
            self._add_pairs(literals)

    def _add_pairs(self, literals):
        """Add clauses that allow at most one true literal in each row of `literals`."""
        n, k = literals.shape
        if n * k * (k - 1) > _MOST_LITERALS:
            # with too many pairs, mark the clauses as too large without building the
            # pairs
            self._n_literals = np.inf
            return
        pairs = np.array(list(combinations(range(k), 2)), dtype=int).reshape(-1, 2)
        self._add(literals[:, pairs].reshape(-1, 2) ^ 1)

    def _add_table(self, forbidden, scopes):
        """Add a clause for each forbidden entry of a table, at each scope."""
        if not forbidden.any() or not len(scopes):
            return
        first = self._graph.first_state[scopes]
        for entry in np.argwhere(forbidden):
            self._add(self._literal[first + entry] ^ 1)

    def _add_tables(self, batch):
        """Add the clauses of tables of the same shape, each with one scope."""
        for begin in range(0, len(batch), _BATCH):
            tables, scopes = zip(*batch[begin : begin + _BATCH], strict=True)
            table, *entries = np.nonzero(np.array(tables) == -np.inf)
            first = self._graph.first_state[np.array(scopes)]
            self._add(self._literal[first[table] + np.transpose(entries)] ^ 1)

    def _add_condition(self, table, scopes):
        """Add the clauses of a condition on binary variables, at each scope."""
        inputs = self._literal[self._graph.first_state[scopes] + 1] ^ table.negated
        name = table.condition
        if name == "budget":
            return
        output = None
        if name.endswith("out"):
            inputs, output = inputs[:, :-1], inputs[:, -1:]
        if name in ("xor", "or"):
            self._add(inputs)
        if output is not None:
            self._add(np.hstack([inputs, output ^ 1]))
            for k in range(inputs.shape[1]):
                self._add(np.hstack([inputs[:, k : k + 1] ^ 1, output]))
        if name in ("xor", "atmostone", "xorout"):
            self._add_pairs(inputs)

    def _values(self, labeling):
        """Return the truth values of a labeling."""
        values = np.zeros(self._first_value[-1], dtype=bool)
        literals = self._literal[self._graph.first_state[:-1] + labeling]
        values[literals >> 1] = literals & 1 == 0
        return values

    # ---- the search ----

    @property
    def infeasible(self):
        """Whether the search has proved that no labeling satisfies the clauses."""
        return self._search.unsatisfiable

    @property
    def work(self):
        """Number of visits of clauses so far."""
        return self._search.work

    def advance(self, work):
        """Continue the search.

        Parameters
        ----------
        work : int
            Number of visits of clauses, about.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), int32, or None
            A labeling that satisfies the clauses; None if none was found yet.
        """
        if not self._search.advance(work):
            return None
        is_true = self._search.values[self._literal >> 1] == (self._literal & 1 == 0)
        # the clauses make exactly one state of each variable true
        flat = np.flatnonzero(is_true)
        return (flat - self._graph.first_state[:-1]).astype(np.int32)

    def prefer(self, labeling):
        """Search again with the learned clauses; prefer the states of a labeling."""
        self._search.prefer(self._values(labeling))


def _flat(parts):
    """Return the offset of each clause in all literals, and the literals."""
    lengths = np.concatenate([np.full(len(p), p.shape[1]) for p in parts])
    literals = np.concatenate([part.ravel() for part in parts])
    return offsets(lengths).astype(np.int64), literals
