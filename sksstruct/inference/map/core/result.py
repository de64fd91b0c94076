"""The result that every solver of MAP problems returns."""

from dataclasses import dataclass, field

import numpy as np

from sksstruct.utils.progress import Status


@dataclass
class MAPResult:
    """A labeling, its score, and an upper bound on all scores.

    Parameters
    ----------
    labeling : ndarray of shape (n_variables,), intp
        State of each variable.
    score : float
        Score of the labeling; -inf if the labeling is forbidden.
    bound : float
        Upper bound on the score of every labeling; inf if the method has none.
    marginals : list of ndarrays of shape (n_states[i],), or None
        Fractional solution: a distribution over the states of each variable. None
        if the method has none.
    status : Status
        How the run ended: the string "optimal", "fractional" (the relaxation is solved,
        no labeling reaches it), "stalled", "max_iter", "time_limit", "stopped" (by the
        callback), "interrupted", "infeasible" or "not_found"; `message` explains it.
    n_iter : int
        Iterations.
    trace : dict of ndarrays
        "iteration", "seconds", the best "score" and "bound" so far, and "part": the
        name of the part of the solver that ran since the row before.
    solver : str
        Name of the solver that ran last.
    plan_ : list of str
        The steps of ``"auto"``, with the reason for each. Empty for other solvers.

    Examples
    --------
    >>> from sksstruct import FactorGraph, LPMAPPredictor
    >>> predictor = LPMAPPredictor(random_state=0)
    >>> labelings = predictor.predict([FactorGraph([[0.0, 1.0], [0.5, 0.0]])])
    >>> result = predictor.results_[0]
    >>> result.labeling.tolist(), result.score, result.bound
    ([1, 0], 1.5, 1.5)
    >>> print(result.status.message)
    the labeling is optimal: its score is within tol of the upper bound
    """

    labeling: np.ndarray
    score: float
    bound: float = np.inf
    marginals: list[np.ndarray] | None = None
    status: Status = Status.MAX_ITER
    n_iter: int = 0
    trace: dict[str, np.ndarray] = field(default_factory=dict)
    solver: str = ""
    plan_: list[str] = field(default_factory=list)

    @property
    def message(self) -> str:
        """Sentence that explains the status."""
        return Status(self.status).message

    @property
    def gap(self) -> float:
        """Upper bound minus score."""
        return self.bound - self.score


class Interrupted(KeyboardInterrupt):
    """KeyboardInterrupt of `MAPSolver.solve`, with the result so far.

    Parameters
    ----------
    result : MAPResult
        The best labeling and bound so far.

    Examples
    --------
    >>> from sksstruct.inference.map import Interrupted
    >>> issubclass(Interrupted, KeyboardInterrupt)
    True
    """

    def __init__(self, result: MAPResult) -> None:
        super().__init__(result.message)
        self.result = result
