"""Set-up of the kernels of message passing, and the reparametrization by messages."""

from types import SimpleNamespace

import numpy as np

from sksstruct.inference.map.core._index import offsets
from sksstruct.inference.map.message_passing._mplp import MaxProductSweeps
from sksstruct.inference.map.message_passing._trws import TreeSweeps


class _Moves:
    """Methods of kernels whose messages are scores moved from factors to variables."""

    @property
    def beliefs(self):
        """Scores plus all messages: ndarray of shape (n_states.sum(),)."""
        return self.arrays.beliefs

    def _moved(self, first, factors):
        """Yield the messages of some factors to all places of their scopes."""
        starts, messages = self.arrays.scope_start.tolist(), self.arrays.to_places
        for factor in factors:
            for place in range(first[factor], first[factor + 1]):
                message = messages[starts[place] : starts[place + 1]]
                yield factor, place - first[factor], message

    def reparametrize(self, rows, scopes, tables):
        """Add the messages to the scores of variables, and subtract them from tables.

        Parameters
        ----------
        rows : list of ndarrays
            Scores of the variables, which are changed.
        scopes : list of ndarrays
            Variables of the edges and larger factors.
        tables : list of ndarrays
            Scores of these factors; tables that change are copied first.

        Returns
        -------
        rows, scopes, tables : list
            Rows, scopes and tables that give all labelings the same scores.
        """
        tables, copied = list(tables), set()
        for factor, axis, message in self.moved():
            rows[scopes[factor][axis]] += message
            if factor not in copied:
                tables[factor] = np.array(tables[factor])
                copied.add(factor)
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
        Scores of the states plus all messages at the node's visit in the last sweep.
    score, bound : float
        Score of the labeling, and upper bound of the last sweep.
    """

    def __init__(self, problem):
        graph, n = problem.arrays, problem.n_variables
        # both messages of an edge share memory, with room for the end of more states
        start = offsets(graph.states[graph.ends].max(axis=1, initial=0))
        # only larger factors have a message to each place of their scopes
        sizes = graph.states[graph.scope]
        sizes[: 2 * problem.n_edges] = 0
        first = graph.scope_first[: problem.n_factors]
        lowest = np.minimum.reduceat(graph.scope, first)
        highest = np.maximum.reduceat(graph.scope, first)
        # n_i (see the docstring of `_trws`) is the number of factors of node i, minus
        # the smaller of two numbers: of factors whose first variable is node i, and of
        # factors whose last variable is node i
        n_first_or_last = np.minimum(
            np.bincount(lowest, minlength=n), np.bincount(highest, minlength=n)
        )
        share = 1.0 / np.maximum(np.diff(graph.in_first) - n_first_or_last, 1)
        self.labeling = np.zeros(n, dtype=np.int32)
        # messages begin with zero, and beliefs with the scores
        self.arrays = SimpleNamespace(
            beliefs=graph.unary.copy(), messages=np.zeros(start[-1]), start=start,
            share=share, given=np.empty(problem.max_states),
            out=np.empty(problem.max_states), labeling=self.labeling,
            scope_start=offsets(sizes), to_places=np.zeros(sizes.sum()),
            lowest=lowest, highest=highest,
        )  # fmt: skip
        super().__init__(problem, self.arrays)

    def moved(self):
        """Yield the messages: scores that move from factors to variables.

        The scores of all labelings stay the same.

        Yields
        ------
        factor, axis : int
            An edge, or the number of edges plus a larger factor; and the place of a
            variable in the factor's scope.
        message : ndarray
            The scores moved to the states of this variable.
        """
        graph, start = self.problem.arrays, self.arrays.start.tolist()
        states = graph.states.tolist()
        for edge, (u, v) in enumerate(graph.ends.tolist()):
            # the array has only the message to the end that the last sweep visited last
            variable = min(u, v) if self.backward else max(u, v)
            begin, n = start[edge], states[variable]
            yield edge, int(variable == v), self.arrays.messages[begin : begin + n]
        larger = range(self.problem.n_edges, self.problem.n_factors)
        yield from self._moved(graph.scope_first.tolist(), larger)

    def begin(self, messages):
        """Set the messages from later to earlier nodes, which the first sweep reads.

        Any messages are valid. If the messages are the multipliers of a bound of the
        relaxation, the bound of the first sweep is at most this bound. The first sweep
        must be forward.

        Parameters
        ----------
        messages : ndarray of shape (n_edges, n_states)
            A row for each edge. All variables must have the same number of states.
        """
        self.arrays.messages[:] = messages.reshape(-1)


class MaxProductLP(_Moves, MaxProductSweeps):
    """Messages of max-product linear programming on a graph.

    Parameters
    ----------
    problem : MAPProblem
        The graph.

    Attributes
    ----------
    labeling : ndarray of shape (n_variables,), int32
        The best state of each variable.
    beliefs : ndarray of shape (n_states.sum(),)
        Scores of the states plus all messages.
    bound : float
        Upper bound on all scores; inf before the first sweep.
    """

    def __init__(self, problem):
        graph = problem.arrays
        # a message to each place of each scope, edges before larger factors
        start = offsets(graph.states[graph.scope])
        messages = np.zeros(start[-1])
        self.arrays = SimpleNamespace(
            beliefs=graph.unary.copy(), messages=messages, to_places=messages,
            scope_start=start,
        )  # fmt: skip
        super().__init__(problem, self.arrays)

    @property
    def labeling(self):
        # the best state of each variable by itself; local search makes neighbors agree
        return self.problem.best_states(self.beliefs)

    def moved(self):
        """Yield the messages, as `TreeReweighted.moved` does."""
        first = self.problem.arrays.scope_first.tolist()
        yield from self._moved(first, range(self.problem.n_factors))
