"""The arrays of a factor graph that the kernels read."""

from types import SimpleNamespace

import numpy as np

from sksstruct.factor_graphs._tables import DENSE, LOGIC
from sksstruct.inference.map.core._index import offsets, places_by
from sksstruct.inference.map.core._problem import Problem


class MAPProblem(Problem):
    """Flat arrays of a graph without evidence and without -inf.

    Parameters
    ----------
    graph : FactorGraph
        The graph; the problem keeps the graph alive.
    penalty : float, default=0.0
        Score of a condition that does not hold, instead of -inf.
    """

    def __init__(self, graph, penalty=0.0):
        self.graph = graph
        most = int(graph.n_states.max(initial=1))
        arrays = SimpleNamespace(
            states=graph.n_states, first=graph.first_state,
            # a copy, as kernels may write to it
            unary=np.array(graph.unaries),
            ends=graph.edges, weights=graph.edge_weights,
            # workspace of one message
            value=np.empty(most), index=np.empty(most, dtype=np.intp),
            # tables without edges send no messages, and need no preparation
            uses=np.bincount(graph.edge_tables, minlength=len(graph.tables)),
            tables=[_specify(table) for table in graph.tables],
            **_factors(graph),
        )  # fmt: skip
        super().__init__(arrays, graph.n_factors, penalty)

    def labeling_score(self, labeling):
        """Return the score of a labeling.

        Parameters
        ----------
        labeling : ndarray of shape (n_variables,), int32
            States.

        Returns
        -------
        score : float
            Score of the labeling, with penalties instead of -inf.
        """
        return self.score_of(np.ascontiguousarray(labeling, dtype=np.int32))

    def max_product(self, edge, values, backward=False):
        """Return the message through one edge.

        Parameters
        ----------
        edge : int
            The edge (u, v).
        values : ndarray of shape (n_states[u],), or of v with backward
            Added to the scores of the edge.
        backward : bool, default=False
            Whether the message goes from v to u.

        Returns
        -------
        message : ndarray of shape (n_states[v],), or of u with backward
            Maxima over the states of the sender.
        """
        sender, receiver = self.arrays.ends[edge, :: -1 if backward else 1]
        values = np.ascontiguousarray(values, dtype=np.float64)
        if len(values) != self.arrays.states[sender]:
            raise ValueError(
                f"values must have an entry for each state of variable {sender}: "
                f"{self.arrays.states[sender]}, got {len(values)}"
            )
        out = np.empty(self.arrays.states[receiver])
        self.send(edge, backward, values, out)
        return out

    def best_states(self, scores=None):
        """Return the best state of each variable alone; ties go to the first state.

        Parameters
        ----------
        scores : ndarray of shape (n_states.sum(),), default=None
            Scores of the states; None: those of the graph.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), int32
            States.
        """
        labeling = np.zeros(self.n_variables, dtype=np.int32)
        self.find_best(self.arrays.unary if scores is None else scores, labeling)
        return labeling

    def indicator(self, labeling):
        """Return the marginals of a labeling.

        Parameters
        ----------
        labeling : ndarray of shape (n_variables,)
            States.

        Returns
        -------
        marginals : ndarray of shape (n_states.sum(),)
            1 at the state of each variable, 0 elsewhere.
        """
        # an indicator of one state per variable is a vertex of the local polytope
        first = self.arrays.first
        flat = np.zeros(first[-1])
        flat[first[:-1] + labeling] = 1.0
        return flat


def _specify(table):
    """Return the argument of `specify`: kind, shape, parameters, condition, entries."""
    if table.kind == LOGIC:
        limit = -1.0 if table.limit is None else table.limit
        condition = table.conditions.index(table.condition)
        negated = np.array(table.negated, dtype=np.float64)
        return LOGIC, 0, 0, 0.0, limit, condition, negated
    rows, cols = table.shape if len(table.shape) == 2 else (0, 0)
    if table.kind == DENSE:
        # the table's own entries, not a copy
        return DENSE, rows, cols, 0.0, 0.0, 0, table.dense()
    return table.kind, rows, cols, *table.parameters, 0, None


def _factors(graph):
    """Flatten the scopes of all factors; list the factors of each variable."""
    n_edges, n = graph.n_edges, graph.n_variables
    sizes = [np.full(n_edges, 2), [len(scope) for scope in graph.factor_scopes]]
    sizes = np.concatenate(sizes).astype(np.intp)
    scope = np.concatenate([graph.edges.ravel(), *graph.factor_scopes])
    scope = scope.astype(np.int32)
    # the factors of a variable are in ascending order, which determines the rounding of
    # sums over factors
    first, places = places_by(scope, n)
    factors = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return {
        "scope_first": offsets(sizes),
        "scope": scope,
        "table_of": np.concatenate([graph.edge_tables, graph.factor_tables]),
        "in_first": first,
        "in_place": places,
        "in_factor": factors[places],
        "in_larger": first[:n] + np.bincount(graph.edges.ravel(), minlength=n),
    }
