"""Labelings from fractional solutions, and local search from them."""

import numpy as np

from sksstruct.inference.map.core.rounding import round_marginals
from sksstruct.inference.map.local_search.search import LocalSearch
from sksstruct.utils.progress import Status

# Scores that differ by less, relative to the largest one, tie.
_TIE = 1e-6
# Number of forests that improve each labeling: most of the gain comes from the first.
_FORESTS = 2
# Windows over promising states: the largest number of states of a variable, and of
# variables, which is smaller where variables have more states.
_WINDOWS = (3, 20), (6, 12)
# Largest number of entries of a table of such a window, and of all its tables.
_BUDGET, _TOTAL = 4096.0, 1e6


def search_locally(run, labeling):
    """Improve a labeling by single variables and by forests, and offer it.

    Parameters
    ----------
    run : MAPRun
        Receives the labeling.
    labeling : ndarray of shape (n_variables,)
        Labeling to start from.

    Returns
    -------
    search : LocalSearch
        The search, which can be continued.
    """
    search = LocalSearch(run.problem, labeling, run.seed())
    search.conditional_modes()
    for _ in range(_FORESTS):
        if not run.late():
            search.forests(1)
    run.offer(search.labeling)
    return search


def search_promising(run, search, beliefs):
    """Continue a local search by exact moves over the few most promising states.

    Parameters
    ----------
    run : MAPRun
        Receives the labeling.
    search : LocalSearch
        The search to continue.
    beliefs : ndarray of shape (n_states.sum(),)
        Scores of the states; large ones are promising.
    """
    window = search.elimination.window
    moves = max(20, run.problem.n_variables // 16)
    for n_states, width in _WINDOWS:
        states = best_candidates(run.problem, beliefs, n_states, search.labeling)
        window.some_states(run.problem, n_states, states)
        for _ in range(moves):
            if run.late():
                break
            search.windows(1, width, _BUDGET, _TOTAL)
    window.all_states(run.problem)
    run.offer(search.labeling)


def best_candidates(problem, scores, limit, labeling):
    """The `limit` states with the largest scores, from where those of a variable begin.

    The labeling is among them. Variables with no more states have none.
    """
    first, out = problem.arrays.first, np.zeros(len(scores), dtype=np.int32)
    for variable in np.flatnonzero(problem.arrays.states > limit).tolist():
        begin, end = first[variable : variable + 2]
        part = scores[begin:end]
        # the order among them does not matter, so that partitioning is enough
        best = np.argpartition(-part, limit - 1)[:limit]
        # a labeling to go on from has to stay possible: it replaces the worst
        if labeling[variable] not in best:
            best[np.argmin(part[best])] = labeling[variable]
        out[begin : begin + limit] = best
    return out


def decode(run, marginals):
    """Rounding, conditional rounding, and a local search from the better of the two.

    Parameters
    ----------
    run : MAPRun
        Receives the labelings.
    marginals : ndarray of shape (n_states.sum(),)
        Fractional solution.

    Returns
    -------
    search : LocalSearch
        The search, which can be continued.
    """
    problem = run.problem
    rounded, conditional = round_marginals(problem, marginals)
    scores = [problem.labeling_score(x) for x in (rounded, conditional)]
    best = conditional if scores[1] > scores[0] else rounded
    run.offer(best, max(scores))
    return search_locally(run, best)


def by_variable(problem, flat):
    """A flat vector over states, cut into variables."""
    return np.split(np.asarray(flat), np.asarray(problem.graph.first_state)[1:-1])


def set_marginals(run, beliefs=None):
    """Set the marginals of a run: those of its labeling where that is optimal.

    Parameters
    ----------
    run : MAPRun
        Has a status and a labeling.
    beliefs : ndarray of shape (n_states.sum(),), default=None
        Scores of the states, whose `ties` are the marginals of any other run. None:
        those of its labeling, whatever the status.
    """
    problem = run.problem
    if beliefs is None or run.status is Status.OPTIMAL:
        flat = problem.indicator(run.labeling)
    else:
        flat = ties(problem, beliefs)
    run.marginals = by_variable(problem, flat)


def ties(problem, beliefs):
    """Even shares for the best states of each variable, up to rounding.

    Parameters
    ----------
    problem : MAPProblem
        The graph.
    beliefs : ndarray of shape (n_states.sum(),)
        Scores of the states.

    Returns
    -------
    marginals : ndarray of shape (n_states.sum(),)
        Distributions over the states of the variables.
    """
    beliefs, sizes = np.asarray(beliefs), problem.graph.n_states
    first = problem.graph.first_state[:-1]
    scale = max(1.0, float(np.abs(beliefs).max(initial=0.0)))
    least = np.maximum.reduceat(beliefs, first) - _TIE * scale
    tied = beliefs >= np.repeat(least, sizes)
    return tied / np.repeat(np.add.reduceat(tied, first, dtype=np.float64), sizes)
