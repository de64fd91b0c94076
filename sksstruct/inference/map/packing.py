"""Graphs of constraints as integer programs, in which states exclude each other.

Many graphs with constraints are set packing problems: states have scores, and edges and
conditions exclude some states, as in auctions, warehouse location and Latin squares.
Their integer program has a column for each state. Cliques cover the pairs of states
that exclude each other, and each clique is a row: at most one of its states is taken
(Padberg, 1973). This program is far smaller than the local polytope, and its relaxation
is tighter. HiGHS solves it; its cuts and its branching on many states at once prove
what message passing leaves open. Tables with scores have the columns of the local
polytope, as long as there are few.
"""

import numpy as np

from sksstruct.factor_graphs import Logic
from sksstruct.inference.map._local_polytope import Rows, add_condition, add_marginals
from sksstruct.inference.map._threads import in_thread
from sksstruct.inference.map.core._cliques import cover, exclusions
from sksstruct.inference.map.highs import solve_program

# Largest table whose excluded pairs become cliques, and largest number of its pairs for
# each state.
_LARGEST_TABLE, _PAIRS_PER_STATE = 10_000, 3.0
# Smallest clique; smaller ones are pairs.
_LEAST = 3
# Limits of the program: states, pairs of states, and nonzeros of other factors. HiGHS
# misses its time limit in larger programs.
_MOST_STATES, _MOST_PAIRS, _MOST_NONZEROS = 30_000, 50_000, 20_000
# Nodes of branch and bound of HiGHS.
_NODES = 100
# Share of the remaining time that HiGHS gets.
_SHARE = 0.4
# Error of HiGHS's bound, relative to the bound.
_ERROR = 1e-8


class Packing:
    """The integer program of a graph whose factors are mostly constraints.

    Parameters
    ----------
    graph : FactorGraph
        The graph, with scores of -inf.

    Attributes
    ----------
    suits : bool
        Whether the graph has constraints, and the program is small enough.
    size : int
        Number of pairs of states that exclude each other.
    """

    def __init__(self, graph):
        self._graph = graph
        self._edges, self._pairs = exclusions(graph, _LARGEST_TABLE, _PAIRS_PER_STATE)
        self.size = len(self._pairs)
        others = np.ones(graph.n_edges, dtype=bool)
        others[self._edges] = False
        others = np.concatenate([graph.edge_tables[others], graph.factor_tables])
        others = [graph.tables[t] for t in others.astype(np.intp).tolist()]
        constraints = self.size > 0 or any(isinstance(t, Logic) for t in others)
        self.suits = (
            constraints
            and graph.first_state[-1] <= _MOST_STATES
            and self.size <= _MOST_PAIRS
            and sum(map(_n_nonzeros, others)) <= _MOST_NONZEROS
        )

    def solve(self, run, searched):
        """Run HiGHS; offer its labeling and its bound.

        Parameters
        ----------
        run : MAPRun
            Receives the bound, and says when time is over.
        searched : MAPRun
            Receives the labeling: the run on the graph without cliques.
        """
        found = in_thread(lambda: self._solve(run), run)
        if found is None:
            return
        graph, bound = self._graph, found.get("mip_dual_bound")
        if found.x is not None:
            states = np.asarray(found.x[: graph.first_state[-1]])
            searched.offer(searched.problem.best_states(states))
        if bound is not None and np.isfinite(bound):
            bound = _ERROR * abs(bound) - bound
        run.report_between("integer program", bound)

    def _solve(self, run):
        """Return SciPy's solution, or None where the time limit passes first."""
        program = self._program(run.late)
        if program is None:
            return None
        options = {"mip_rel_gap": 1e-2 * run.tol, "node_limit": _NODES}
        if run.max_seconds is not None:
            options["time_limit"] = max(0.0, _SHARE * run.left())
        return solve_program(*program, options=options)

    def _program(self, late):
        """Return scores, rows, bounds of the rows, and upper bounds of the columns."""
        graph, parts = self._graph, Rows()
        first = graph.first_state
        for v in range(graph.n_variables):
            parts.add(np.arange(first[v], first[v + 1]), 1.0, 1.0, 1.0)
        cliques, is_covered = cover(self._pairs, _LEAST)
        for clique in cliques:
            parts.add(np.array(clique), 1.0, -np.inf, 1.0)
        parts.add_all(self._pairs[~is_covered], np.ones(2), -np.inf, 1.0)
        costs, n_columns = [np.asarray(graph.unaries)], int(first[-1])
        is_row = np.zeros(graph.n_edges + graph.n_factors, dtype=bool)
        is_row[self._edges] = True
        for (scope, table, weight), done in zip(graph._listed(), is_row, strict=True):
            if late():
                return None
            if done:
                continue
            if isinstance(table, Logic):
                add_condition(parts, table, first[scope])
                continue
            costs.append(weight * table.dense().reshape(-1))
            index = n_columns + np.arange(len(costs[-1])).reshape(table.shape)
            add_marginals(parts, index, first[scope])
            n_columns += index.size
        scores = np.concatenate(costs)
        allowed = scores > -np.inf
        scores[~allowed] = 0.0
        integral = np.arange(n_columns) < first[-1]
        return scores, *parts.build(n_columns), integral, allowed.astype(np.float64)


def _n_nonzeros(table):
    """Return the number of nonzeros of a factor with this table, at least about."""
    n = len(table.shape)
    return n if isinstance(table, Logic) else n * float(np.prod(table.shape))
