"""Set-up of weighted search."""

from types import SimpleNamespace

import numpy as np

from sksstruct.inference.map.local_search._weighted import WeightedSteps
from sksstruct.inference.map.local_search.search import random_state


class WeightedSearch(WeightedSteps):
    """Local search with weights on violated factors.

    Parameters
    ----------
    problem : MAPProblem
        The graph.
    labeling : array-like of shape (n_variables,)
        First labeling.
    seed : int
        Seed of the random choices.
    highest : ndarray of shape (n_factors,)
        The best entry of each factor, edges first.
    limit : float
        Entries that are below the best entry by more than `limit` are violations.
    unit : float
        Initial weight of a factor, and the amount by which it grows.
    taboo : int, default=8
        Tenure: a state is taboo for a random number of steps, from `taboo` to twice as
        many, after its variable has left it.

    Attributes
    ----------
    labeling : ndarray of shape (n_variables,), int32
        The best labeling so far, by its score.
    gain : float
        Score of `labeling` minus the score of the first labeling.
    n_violated : int
        Number of factors that the current labeling violates.
    """

    def __init__(self, problem, labeling, seed, highest, limit, unit, taboo=8):
        n, n_factors = problem.n_variables, problem.n_factors
        n_states = len(problem.arrays.unary)
        self.labeling = np.array(labeling, dtype=np.int32)
        # workspace of all steps, which allocate nothing
        arrays = SimpleNamespace(
            best=self.labeling, labeling=self.labeling.copy(), highest=highest,
            weight=np.full(n_factors, unit),
            violated=np.zeros(n_factors, dtype=np.int32),
            seat=np.zeros(n_factors, dtype=np.int32), value=np.zeros(n_states),
            # far in the past, so that no state is taboo at first
            left=np.full(n_states, -(1 << 60), dtype=np.int64),
            target=np.zeros(n, dtype=np.int32), rising=np.zeros(n, dtype=np.int32),
            place=np.zeros(n, dtype=np.int32), step_gain=np.zeros(n),
            old=np.zeros(problem.max_states), new=np.zeros(problem.max_states),
        )  # fmt: skip
        super().__init__(problem, arrays, random_state(seed), limit, unit, taboo)
