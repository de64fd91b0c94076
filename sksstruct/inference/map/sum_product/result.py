"""The result of belief propagation."""

from dataclasses import dataclass, field

import numpy as np

from sksstruct.utils.progress import Status


@dataclass
class MarginalResult:
    """Marginals, and the logarithm of the partition function.

    Parameters
    ----------
    marginals : list of ndarrays of shape (n_states[i],), or None
        A distribution over the states of each variable; None if no labeling is allowed,
        or none was found.
    log_partition : float
        The logarithm of the sum of exp(score) over all labelings: an estimate for
        ``kind="bethe"``, the upper bound for ``kind="trw"``, and -inf if no labeling is
        allowed.
    bound : float
        Upper bound on the logarithm of the partition function, whether or not the
        messages converged; inf for ``kind="bethe"``.
    status : Status
        How the run ended: the string "settled", "max_iter", "time_limit", "stopped" (by
        the callback), "infeasible", or "not_found" if the estimate or the marginals
        are those of forbidden labelings; `message` explains it.
    n_iter : int
        Number of sweeps.
    residual : float
        Largest relative change of a message in the last sweep.
    trace : dict of ndarrays
        "iteration", "seconds", "residual" and the best "bound" so far.
    factor_marginals : list of ndarrays, or None
        With ``factors=True``: a distribution over the joint states of the variables of
        each edge and then of each factor, in the shapes of their tables.

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph, Potts
    >>> from sksstruct.inference.map import BeliefPropagation
    >>> chain = FactorGraph([[0, 1.0], [0, 0]], [(0, 1)], Potts(2))
    >>> result = BeliefPropagation().solve(chain)
    >>> result.marginals[1].round(3).tolist(), round(result.log_partition, 3)
    ([0.393, 0.607], 2.627)
    """

    marginals: list[np.ndarray] | None
    log_partition: float = np.nan
    bound: float = np.inf
    status: Status = Status.MAX_ITER
    n_iter: int = 0
    residual: float = np.inf
    trace: dict[str, np.ndarray] = field(default_factory=dict)
    factor_marginals: list[np.ndarray] | None = None

    @property
    def converged(self) -> bool:
        """Whether the messages no longer change."""
        return self.status is Status.SETTLED

    @property
    def message(self) -> str:
        """Sentence that explains the status."""
        return Status(self.status).message
