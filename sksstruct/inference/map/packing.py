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
from sksstruct.inference.map._local_polytope import (
    Rows,
    add_condition,
    add_marginals,
    table_size,
)
from sksstruct.inference.map._threads import in_thread
from sksstruct.inference.map.core._cliques import cover, exclusions
from sksstruct.inference.map.highs import solve_program
from sksstruct.utils.progress import Status

# Largest table whose excluded pairs become cliques, and largest number of its pairs, as
# a multiple of the larger number of states.
_LARGEST_TABLE, _PAIRS_PER_STATE = 10_000, 3.0
# Smallest clique; states in no larger clique are excluded pair by pair.
_LEAST = 3
# Limits of the program: states, pairs of states, and nonzeros of other factors. HiGHS
# misses its time limit in larger programs.
_MOST_STATES, _MOST_PAIRS, _MOST_NONZEROS = 20_000, 40_000, 20_000
# Least share of the variables that are in a constraint.
_LEAST_SHARE = 0.5
# Nodes of branch and bound of HiGHS.
_NODES = 100
# Share of the remaining time that HiGHS gets; with short limits, up to this number of
# seconds, and at most this share.
_SHARE, _LEAST_SECONDS, _MOST_SHARE = 0.4, 0.5, 0.6
# Seconds that HiGHS gets without a limit, and multiple of its time after which it is
# left behind.
_SECONDS, _PATIENCE = 60.0, 1.2
# Scores have at most this absolute value when HiGHS gets them.
_LARGEST = 1e3
# Error of HiGHS's bound: for each row, as a multiple of the largest score, as the
# tolerances of HiGHS are absolute; and relative to the bound.
_ERROR, _RELATIVE_ERROR = 1e-10, 1e-8
# Smallest number of rows of which the error is taken.
_LEAST_ROWS = 100
# Status of `scipy.optimize.milp`.
_INFEASIBLE = 2


class Packing:
    """The integer program of a graph with constraints, and few other scores of pairs.

    Parameters
    ----------
    graph : FactorGraph
        The graph, with scores of -inf.

    Attributes
    ----------
    suits : bool
        Whether constraints have most of the variables, and the program is small enough.
    size : int
        Number of pairs of states that tables of edges exclude; parallel edges count
        separately.
    n_conditions : int
        Number of conditions.
    """

    def __init__(self, graph):
        self._graph, self.size, self.suits = graph, 0, False
        is_logic = np.array([isinstance(t, Logic) for t in graph.tables], dtype=bool)
        logic = np.flatnonzero(is_logic[graph.factor_tables])
        self.n_conditions = len(logic)
        if graph.first_state[-1] > _MOST_STATES:
            return
        self._edges, self._pairs = exclusions(
            graph, _LARGEST_TABLE, _PAIRS_PER_STATE, _MOST_PAIRS
        )
        self.size = len(self._pairs)
        edges = np.unique(self._edges)
        bound = [graph.edges[edges].reshape(-1)]
        bound += [graph.factor_scopes[k] for k in logic.tolist()]
        n_bound = len(np.unique(np.concatenate(bound)))
        if n_bound < max(1.0, _LEAST_SHARE * graph.n_variables):
            return
        uses = np.bincount(graph.edge_tables, minlength=len(graph.tables))
        uses -= np.bincount(graph.edge_tables[edges], minlength=len(graph.tables))
        uses += np.bincount(graph.factor_tables, minlength=len(graph.tables))
        n_nonzeros = sum(
            uses[t] * table_size(graph.tables[t])[2] for t in np.flatnonzero(uses)
        )
        self.suits = n_nonzeros <= _MOST_NONZEROS

    def solve(self, run, searched):
        """Run HiGHS; offer its labeling and its bound.

        Parameters
        ----------
        run : MAPRun
            Receives the bound, and says when time is over.
        searched : MAPRun
            Receives the labeling: the run on the graph without cliques.
        """
        seconds, left = _SECONDS, run.left()
        if left < np.inf:
            seconds = max(_SHARE * left, min(_LEAST_SECONDS, _MOST_SHARE * left))
        end = run.seconds() + _PATIENCE * seconds

        def stop():
            # the callback may ask to stop
            asked = run.callback is not None and run.report_between("integer program")
            return asked or run.late() or run.seconds() > end

        lowest = searched.score if searched.score >= run.lowest else -np.inf
        found = in_thread(lambda: self._solve(run, seconds, lowest), stop)
        if found is None:
            run.report_between("integer program")
            return
        graph, bound = self._graph, found.bound
        if found.x is not None:
            states = np.asarray(found.x[: graph.first_state[-1]])
            searched.offer(searched.problem.best_states(states))
        elif found.status == _INFEASIBLE and lowest == -np.inf:
            run.bound, run.status = run.score, Status.INFEASIBLE
            return
        run.report_between("integer program", bound)

    def _solve(self, run, seconds, lowest):
        """Return SciPy's solution with a bound, or None where the time limit passes."""
        program = self._program(run.late)
        if program is None:
            return None
        top, scores, rows, low, high, integral = program
        # a state or entry whose score is below the best one of its term by more than
        # top - lowest is in no labeling that is better than `lowest`
        margin = 1e-6 * (top - lowest) + 1e-9 * abs(top)
        allowed = scores >= (lowest - top - margin if lowest > -np.inf else -np.inf)
        allowed &= scores > -np.inf
        scores = np.where(allowed, scores, 0.0)
        largest = max(float(-scores.min(initial=0.0)), 1e-300)
        unit = _LARGEST / largest
        options = {"mip_rel_gap": 1e-2 * run.tol, "node_limit": _NODES}
        options["time_limit"] = max(0.0, min(seconds, run.left()))
        found = solve_program(
            unit * scores, rows, low, high, integral, allowed.astype(float), options
        )
        dual = found.get("mip_dual_bound")
        found["bound"] = None
        if dual is not None and np.isfinite(dual):
            below = -dual / unit
            error = _ERROR * largest * max(_LEAST_ROWS, len(low))
            error += _RELATIVE_ERROR * max(abs(below), abs(top))
            found["bound"] = top + below + error
        return found

    def _program(self, late):
        """Return the sum of the terms' best scores, and the columns and rows.

        A term is the row of scores of a variable, or a table. Its scores are given
        relative to its best one.
        """
        graph, parts = self._graph, Rows()
        first = graph.first_state
        for v in range(graph.n_variables):
            parts.add(np.arange(first[v], first[v + 1]), 1.0, 1.0, 1.0)
        cliques, is_covered = cover(self._pairs, _LEAST)
        for clique in cliques:
            parts.add(np.array(clique), 1.0, -np.inf, 1.0)
        parts.add_all(self._pairs[~is_covered], np.ones(2), -np.inf, 1.0)
        best = np.maximum.reduceat(graph.unaries, first[:-1])
        costs, n_columns = [graph.unaries - np.repeat(best, graph.n_states)], first[-1]
        top = float(best.sum())
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
            scores = weight * table.dense().reshape(-1)
            top += float(scores.max())
            costs.append(scores - scores.max())
            index = n_columns + np.arange(len(scores)).reshape(table.shape)
            add_marginals(parts, index, first[scope])
            n_columns += index.size
        integral = np.arange(n_columns) < first[-1]
        return top, np.concatenate(costs), *parts.build(int(n_columns)), integral
