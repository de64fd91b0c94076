"""Training at given alphas, each started from the result at the alpha before.

A solver that accepts the dual variables of its last result, which are feasible at every
alpha, starts from these dual variables; otherwise training starts from zero.
"""

import time
from dataclasses import dataclass

import numpy as np

from sksstruct.solvers.core.procedures import procedure
from sksstruct.solvers.core.result import SolverResult
from sksstruct.utils.progress import Status


@dataclass
class Segment:
    """Weights that a path uses for all alpha in an interval.

    Parameters
    ----------
    alpha : float
        Regularization at which the weights were trained.
    lower, upper : float
        The interval; may reach to 0 or inf. Above the first alpha of a path with a
        guarantee, the weights for another alpha' are multiplied by ``alpha / alpha'``.
    weights : ndarray
        Flat weights.
    objective, gap : float
        Objective and duality gap at `alpha`; estimates on a heuristic path.
    n_iter, oracle_calls : int
        Total number of passes and of oracle calls since the path began.
    seconds : float
        Time since the path began.
    converged : bool
        Whether the requested gap was reached.
    target : float
        The requested gap.
    result : SolverResult or None
        Result of the solver at `alpha`.
    """

    alpha: float
    lower: float
    upper: float
    weights: np.ndarray
    objective: float
    gap: float
    n_iter: int
    oracle_calls: int
    seconds: float
    converged: bool
    target: float
    result: SolverResult | None = None


def edges_of_grid(alphas):
    """Return the ends of the segments of a grid of alphas, from the largest."""
    return np.concatenate([[np.inf], np.sqrt(alphas[1:] * alphas[:-1]), [0.0]])


def train_on_grid(problem, alphas, **options):
    """Train at given alphas, to the tolerance of the solver; yield segments.

    An interrupted training ends the grid, and its segment is the last one.

    Parameters
    ----------
    problem : object
        Its `model`, `solver` and `l1_ratio` are read.
    alphas : ndarray
        Strengths of regularization, from the largest.
    **options : dict
        Options of `Solver.solve`.

    Yields
    ------
    segment : Segment
        Result at the next alpha.
    """
    started, state, edges = time.perf_counter(), None, edges_of_grid(alphas)
    n_iter = calls = 0
    for k, alpha in enumerate(alphas.tolist()):
        result = procedure(problem.solver, problem.model, state).solve(
            problem.model,
            alpha * (1.0 - problem.l1_ratio),
            l1=alpha * problem.l1_ratio,
            dual_state=state,
            **options,
        )
        state = result.dual_state
        if "completion" in problem.model.oracles or not problem.solver.accepts(
            state, problem.model
        ):
            state = None
        n_iter += result.n_iter
        calls += int(result.history["oracle_calls"][-1])
        yield Segment(
            alpha,
            edges[k + 1],
            edges[k],
            result.weights,
            result.objective,
            result.dual_gap,
            n_iter,
            calls,
            time.perf_counter() - started,
            Status(result.status) is Status.CONVERGED,
            result.target,
            result,
        )
        if Status(result.status) is Status.INTERRUPTED:
            return
