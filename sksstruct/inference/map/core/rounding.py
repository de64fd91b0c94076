"""Rounding of fractional solutions: arrays for the kernel `_rounding`."""

import numpy as np

from sksstruct.inference.map.core._rounding import round_conditionally

# Marginals up to this are rounding errors of a solver and count as zero.
_NEGLIGIBLE = 1e-9


def round_marginals(problem, marginals):
    """Round marginals to two labelings.

    Parameters
    ----------
    problem : MAPProblem
        The graph.
    marginals : ndarray of shape (n_states.sum(),)
        Distributions over the states of the variables.

    Returns
    -------
    rounded, conditional : ndarrays of shape (n_variables,), int32
        Labelings by plain and by conditional rounding.
    """
    n, first = problem.n_variables, problem.arrays.first
    rounded = problem.best_states(marginals)
    # the largest marginal of each variable
    certainty = marginals[first[:n] + rounded]
    # a stable sort keeps ties in the order of variables on every machine
    order = np.argsort(-certainty, kind="stable")
    # expectations sum over states of positive probability only
    support = np.flatnonzero(marginals > _NEGLIGIBLE)
    begin = np.searchsorted(support, first)
    conditional, assigned = rounded.copy(), np.zeros(n, dtype=np.int8)
    round_conditionally(
        problem, marginals, support, begin, order, conditional, assigned
    )
    return rounded, conditional
