"""Labelings from fractional solutions by rounding and local search."""

import numpy as np

from sksstruct.inference.map.core.rounding import round_marginals
from sksstruct.inference.map.local_search.search import LocalSearch
from sksstruct.utils.progress import Status

# Relative difference below which scores tie.
_TIE = 1e-6
# Number of forests per labeling: later forests gain little.
_FORESTS = 2
# Windows of the local search over promising states: states per variable, and number of
# variables, which is smaller for more states.
_WINDOWS = (3, 20), (6, 12)
# Largest number of entries of one table of a window, and of all tables of a window.
_BUDGET, _TOTAL = 4096.0, 1e6


def search_locally(run, labeling):
    """Improve a labeling by single variables and by forests, and offer the result.

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
        Scores of the states; states with large scores are promising.
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
    """Return the `limit` states with the largest scores of each variable.

    The states of a variable begin at its offset in the flat vector, and include its
    state in the labeling. Entries of variables with at most `limit` states are zero.
    """
    first, out = problem.arrays.first, np.zeros(len(scores), dtype=np.int32)
    for variable in np.flatnonzero(problem.arrays.states > limit).tolist():
        begin, end = first[variable : variable + 2]
        scores_of_variable = scores[begin:end]
        # the order of these states does not matter: partitioning suffices
        best = np.argpartition(-scores_of_variable, limit - 1)[:limit]
        # the labeling must remain possible: its state replaces the worst of the best
        # states
        if labeling[variable] not in best:
            best[np.argmin(scores_of_variable[best])] = labeling[variable]
        out[begin : begin + limit] = best
    return out


def decode(run, marginals):
    """Offer two roundings, and the result of a local search from the better one.

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
    """Split a flat vector over states by variables."""
    return np.split(np.asarray(flat), np.asarray(problem.graph.first_state)[1:-1])


def set_marginals(run, beliefs=None):
    """Set a run's marginals: from its labeling if optimal, else from beliefs.

    Parameters
    ----------
    run : MAPRun
        Has a status and a labeling.
    beliefs : ndarray of shape (n_states.sum(),), default=None
        Scores of the states, whose `ties` are the marginals unless the labeling is
        optimal. None: the marginals are those of the labeling in any case.
    """
    problem = run.problem
    if beliefs is None or run.status is Status.OPTIMAL:
        flat = problem.indicator(run.labeling)
    else:
        flat = ties(problem, beliefs)
    run.marginals = by_variable(problem, flat)


def ties(problem, beliefs):
    """Return equal probabilities for the best states of each variable.

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
