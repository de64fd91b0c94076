"""Common loop of message passing solvers: sweeps, local searches, stopping rules."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from sksstruct.inference.map.core._decode import (
    search_locally,
    search_promising,
    set_marginals,
)
from sksstruct.inference.map.core.solver import TEXTS as COMMON
from sksstruct.inference.map.core.solver import MAPSolver
from sksstruct.utils._parameters import COUNT
from sksstruct.utils.progress import Status

# Sweeps before the first local search; the interval grows by half each time.
_FIRST_SEARCH = 8
# The bound has stalled if `patience` sweeps lower the bound by at most this share of
# the gap.
_LEAST_PROGRESS = 0.01
# Texts for `sksstruct.utils._doc.fill_doc`.
TEXTS = {
    "sweeps": f"""
max_iter : int, default=1000
    Maximum number of sweeps.
{COMMON["tol"].strip()}
search : bool, default=True
    Whether a local search occasionally improves the labelings.
patience : int, default=40
    Number of sweeps after which the solver stops if the bound has not fallen by more
    than a hundredth of the gap.
"""
}


@dataclass(eq=False, repr=False)
class MessagePassing(MAPSolver):
    """Base of solvers whose kernels have ``sweep(backward)``, labeling and beliefs."""

    max_iter: int = 1000
    tol: float = 1e-6
    _: KW_ONLY
    search: bool = True
    patience: int = 40

    # Class of the kernel, called with the problem.
    _kernel: ClassVar[type]
    _allowed = {**MAPSolver._allowed, "search": [bool], "patience": COUNT}

    def _run(self, run):
        """Sweep until the run ends or the bound stalls; return the beliefs."""
        messages = run.messages = self._kernel(run.problem)
        checkpoint, next_search, lowest = np.inf, _FIRST_SEARCH, np.inf
        for k in range(run.max_iter):
            bound = messages.sweep(k % 2 == 1)
            run.offer(messages.labeling)
            if self.search and k + 1 >= next_search:
                next_search = int(1.5 * next_search) + 1
                search = search_locally(run, messages.labeling)
                search_promising(run, search, messages.beliefs)
            if run.report(bound=bound):
                break
            # progress is that of this bound: the run may have a lower one
            lowest = min(lowest, bound)
            # bounds are compared after `patience` sweeps and not after each one, as the
            # bounds of forward and backward sweeps differ slightly
            if k % self.patience == self.patience - 1:
                gap = lowest - run.score
                if checkpoint - lowest <= _LEAST_PROGRESS * gap:
                    run.status = Status.STALLED
                    break
                checkpoint = lowest
        set_marginals(run, messages.beliefs)
        return messages.beliefs
