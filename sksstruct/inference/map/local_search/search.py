"""Set-up of local search."""

from types import SimpleNamespace

import numpy as np

from sksstruct.inference.map.local_search._search import LocalMoves


class LocalSearch(LocalMoves):
    """Local search, which improves a labeling.

    Parameters
    ----------
    problem : MAPProblem
        The graph.
    labeling : array-like of shape (n_variables,)
        First labeling.
    seed : int
        Seed of the random choices.

    Attributes
    ----------
    labeling : ndarray of shape (n_variables,), int32
        The best labeling so far.
    gain : float
        Score of `labeling` minus the score of the first labeling.
    elimination : Elimination
        The exact moves in windows.
    visited : int
        Number of variables that the moves of the last `anneal` visited.
    """

    def __init__(self, problem, labeling, seed):
        n = problem.n_variables
        self.labeling = np.array(labeling, dtype=np.int32)
        self._present = self.labeling.copy()
        # workspace of all moves, which allocate nothing but larger tables
        entered, window, saved_window, saved_states = np.zeros((4, n), dtype=np.int32)
        arrays = SimpleNamespace(
            best=self.labeling, labeling=self._present,
            scores=np.empty(problem.max_states), window=window, entered=entered,
            saved_window=saved_window, saved_states=saved_states,
        )  # fmt: skip
        super().__init__(problem, arrays, random_state(seed))

    def start_from(self, labeling):
        """Continue from another labeling, which becomes the best so far.

        Parameters
        ----------
        labeling : ndarray of shape (n_variables,), or None
            The labeling; None: random states.
        """
        if labeling is None:
            self.randomize()
        else:
            self._present[:] = labeling
        self.forget()


def random_state(seed):
    """Return a state of the kernels' generator: never 0, far apart for close seeds."""
    return (seed * 2 + 1) * 0x9E3779B97F4A7C15 % 2**64 | 1
