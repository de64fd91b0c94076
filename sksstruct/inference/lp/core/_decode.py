"""Labelings from fractional solutions, and their improvement."""

import numpy as np

from sksstruct.inference.lp.core._rounding import round_marginals
from sksstruct.inference.lp.local_search._search import LocalSearch


def polish(run, labeling, *, forests=2):
    """Improve a labeling by single variables and by forests, and offer it."""
    search = LocalSearch(run.problem, labeling, run.seed())
    search.settle()
    if forests:
        search.forests(forests)
    run.offer(search.labeling)
    return search


def decode(run, marginals):
    """Rounding, conditional rounding, and a local search from the better of the two.

    Parameters
    ----------
    run : Run
        Takes the labelings.
    marginals : ndarray of shape (n_states.sum(),)
        Fractional solution.
    """
    problem = run.problem
    rounded, conditional = round_marginals(problem, marginals)
    scores = [problem.labeling_score(x) for x in (rounded, conditional)]
    best = conditional if scores[1] > scores[0] else rounded
    run.offer(best, max(scores))
    return polish(run, best)


def refine(run, search, beliefs):
    """Exact moves in small windows, over the few most promising states.

    Parameters
    ----------
    run : Run
        Takes the labeling.
    search : LocalSearch
        Where to start.
    beliefs : ndarray of shape (n_states.sum(),)
        What makes a state promising.
    """
    for limit, width in ((3, 20), (6, 12)):
        search.elimination.best_states(run.problem, beliefs, limit, search.labeling)
        search.windows(max(20, run.problem.n // 16), width, 4096.0, 1e6)
    search.elimination.all_states(run.problem)
    run.offer(search.labeling)


def by_variable(problem, flat):
    """A flat vector over states, cut into variables."""
    return np.split(np.asarray(flat), np.asarray(problem.graph.first_state)[1:-1])
