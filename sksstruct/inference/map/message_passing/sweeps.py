"""Set-up of the kernels of message passing, and what their messages move."""

from types import SimpleNamespace

import numpy as np

from sksstruct.inference.map.core._index import offsets
from sksstruct.inference.map.message_passing._mplp import MaxProductSweeps
from sksstruct.inference.map.message_passing._trws import TreeSweeps


class _Moves:
    """Messages as scores that move from factors to variables."""

    @property
    def beliefs(self):
        """Scores of the states with all messages: ndarray, (n_states.sum(),)."""
        return self.arrays.beliefs

    def _moved(self, first, factors):
        """Messages that are at first[p] for place p of a scope, of some factors."""
        starts, messages = self.arrays.scope_start.tolist(), self.arrays.to_places
        for factor in factors:
            for place in range(first[factor], first[factor + 1]):
                message = messages[starts[place] : starts[place + 1]]
                yield factor, place - first[factor], message

    def reparametrize(self, rows, scopes, tables):
        """Move scores from tables to the rows of variables, as the messages do.

        Parameters
        ----------
        rows : list of ndarrays
            Scores of the variables, which are changed.
        scopes : list of ndarrays
            Variables of the edges and larger factors.
        tables : list of ndarrays
            Their scores; tables that change are copied first.

        Returns
        -------
        rows, scopes, tables : list
            Rows, scopes and tables that give all labelings the same scores.
        """
        tables, own = list(tables), set()
        for factor, axis, message in self.moved():
            rows[scopes[factor][axis]] += message
            if factor not in own:
                tables[factor] = np.array(tables[factor])
                own.add(factor)
            shape = [1] * tables[factor].ndim
            shape[axis] = -1
            tables[factor] -= message.reshape(shape)
        return rows, scopes, tables


class TreeReweighted(_Moves, TreeSweeps):
    """Sequential tree-reweighted message passing on a graph.

    Parameters
    ----------
    problem : MAPProblem
        The graph.

    Attributes
    ----------
    labeling : ndarray of shape (n_variables,), int32
        The labeling that the last sweep found.
    beliefs : ndarray of shape (n_states.sum(),)
        Scores of the states with all messages, as the last sweep saw them.
    score, bound : float
        Score of the labeling, and upper bound of the last sweep.
    """

    def __init__(self, problem):
        graph, n = problem.arrays, problem.n_variables
        # a message goes forward and then backward: room for the larger of both ends
        start = offsets(graph.states[graph.ends].max(axis=1, initial=0))
        # only larger factors have a message to each of their places
        sizes = graph.states[graph.scope]
        sizes[: 2 * problem.n_edges] = 0
        first = graph.scope_first[: problem.n_factors]
        lowest = np.minimum.reduceat(graph.scope, first)
        highest = np.maximum.reduceat(graph.scope, first)
        # in how many factors a node is not first, and not last
        least = np.minimum(
            np.bincount(lowest, minlength=n), np.bincount(highest, minlength=n)
        )
        share = 1.0 / np.maximum(np.diff(graph.in_first) - least, 1)
        self.labeling = np.zeros(n, dtype=np.int32)
        # no messages at first: the bound is that of the scores as they are
        self.arrays = SimpleNamespace(
            beliefs=graph.unary.copy(), messages=np.zeros(start[-1]), start=start,
            share=share, given=np.empty(problem.max_states),
            out=np.empty(problem.max_states), labeling=self.labeling,
            scope_start=offsets(sizes), to_places=np.zeros(sizes.sum()),
            lowest=lowest, highest=highest,
        )  # fmt: skip
        super().__init__(problem, self.arrays)

    def moved(self):
        """Yield the scores that messages move from factors to variables.

        The scores of all labelings stay the same.

        Yields
        ------
        factor, axis : int
            An edge, or the number of edges plus a larger factor; and the place of a
            variable in its scope.
        message : ndarray
            A number for each state of the variable.
        """
        graph, start = self.problem.arrays, self.arrays.start.tolist()
        states = graph.states.tolist()
        for edge, (u, v) in enumerate(graph.ends.tolist()):
            # to the end that the last sweep visited last
            variable = min(u, v) if self.backward else max(u, v)
            begin, n = start[edge], states[variable]
            yield edge, int(variable == v), self.arrays.messages[begin : begin + n]
        larger = range(self.problem.n_edges, self.problem.n_factors)
        yield from self._moved(graph.scope_first.tolist(), larger)

    def begin(self, messages):
        """Set the messages to earlier nodes, which the first sweep reads.

        Any messages are valid. If they are the multipliers of a bound of the
        relaxation, the bound of the first sweep is not above that one. This sweep must
        not be backward.

        Parameters
        ----------
        messages : ndarray of shape (n_edges, n_states)
            A row for each edge. All variables must have the same number of states.
        """
        self.arrays.messages[:] = messages.reshape(-1)


class MaxProductLP(_Moves, MaxProductSweeps):
    """Max-product linear programming on a graph.

    Parameters
    ----------
    problem : MAPProblem
        The graph.

    Attributes
    ----------
    labeling : ndarray of shape (n_variables,), int32
        The best state of each variable.
    beliefs : ndarray of shape (n_states.sum(),)
        Scores of the states with all messages.
    bound : float
        Upper bound on all scores; inf before the first sweep.
    """

    def __init__(self, problem):
        graph = problem.arrays
        # a message to each end of each edge, then to each variable of each factor
        start = offsets(graph.states[graph.scope])
        messages = np.zeros(start[-1])
        self.arrays = SimpleNamespace(
            beliefs=graph.unary.copy(), messages=messages, to_places=messages,
            scope_start=start,
        )  # fmt: skip
        super().__init__(problem, self.arrays)

    @property
    def labeling(self):
        # without regard to neighbors: a local search does the rest
        return self.problem.best_states(self.beliefs)

    def moved(self):
        """Yield the scores that messages move, as `TreeReweighted.moved` does."""
        first = self.problem.arrays.scope_first.tolist()
        yield from self._moved(first, range(self.problem.n_factors))
