"""The result that a solver returns."""

from dataclasses import dataclass

import numpy as np

from sksstruct.utils.progress import Status


@dataclass
class SolverResult:
    """Weights and certificate of a run.

    Parameters
    ----------
    weights : ndarray
        Flat weights, in the model's layout.
    objective : float
        Primal objective at the weights.
    dual_gap : float
        Certificate: upper bound on the difference between the objective and its
        minimum; ``inf`` if there is no bound.
    dual_loss : float
        Linear term of the dual, ``dual = dual_loss - alpha/2 |w|^2`` (without bounds);
        ``-inf`` if there is none.
    n_iter : int
        Number of passes.
    status : Status
        Why the run ended: "converged", "flat", "max_iter", "time_limit", "callback",
        "early", "interrupted", "stalled", "diverged", "softened" or "rounds". The
        attribute `message` of the status is a sentence about it.
    history : dict of ndarray
        Columns ``pass``, ``oracle_calls``, ``seconds``, ``primal``, ``dual``, ``gap``,
        and columns of the solver's own.
    target : float
        The gap at which training stops.
    dual_state : dict
        Dual variables, or weights, to start from again.
    exact : float
        Share of the examples whose loss is exact, and not only that of the K best
        labelings.
    """

    weights: np.ndarray
    objective: float
    dual_gap: float
    dual_loss: float
    n_iter: int
    status: Status
    history: dict[str, np.ndarray]
    target: float
    dual_state: dict | None = None
    exact: float = 1.0
