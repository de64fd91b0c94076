"""What message passing solvers have in common: sweeps, searches, and when to stop."""

import numpy as np

from sksstruct.inference.lp.core._decode import by_variable, polish, refine
from sksstruct.inference.lp.core.solver import MAPSolver


class MessagePassing(MAPSolver):
    """Base of solvers whose kernel has ``sweep(backward)``, labelings and beliefs."""

    # Called with the problem; makes the kernel.
    _kernel = None
    _parameter_constraints = {
        **MAPSolver._parameter_constraints,
        "search": ["boolean"],
        "patience": MAPSolver._parameter_constraints["max_iter"],
    }

    def __init__(self, max_iter=1000, tol=1e-6, *, search=True, patience=40):
        self.max_iter = max_iter
        self.tol = tol
        self.search = search
        self.patience = patience

    def _run(self, run):
        """Sweep until the run ends or the bound stalls; the beliefs."""
        messages = self._kernel(run.problem)
        checkpoint, next_search = np.inf, 8
        for k in range(run.max_iter):
            bound = messages.sweep(k % 2 == 1)
            run.offer(messages.labeling)
            if self.search and k + 1 >= next_search:
                next_search = int(1.5 * next_search) + 1
                refine(run, polish(run, messages.labeling), messages.beliefs)
            if run.report(bound=bound):
                break
            if k % self.patience == self.patience - 1:
                # the bound alternates a little between the directions
                if checkpoint - run.bound <= 0.01 * (run.bound - run.score):
                    run.status = "stalled"
                    break
                checkpoint = run.bound
        if run.status == "optimal":
            flat = run.problem.indicator(run.labeling)
        else:
            flat = ties(run.problem, messages.beliefs)
        run.marginals = by_variable(run.problem, flat)
        return messages.beliefs


def ties(problem, beliefs):
    """Even shares of the states within rounding of each variable's best."""
    flat = np.zeros(len(beliefs))
    first_state = problem.graph.first_state
    scale = max(1.0, float(np.abs(beliefs).max(initial=0.0)))
    for first, last in zip(first_state[:-1], first_state[1:], strict=True):
        part = beliefs[first:last]
        tie = part >= part.max() - 1e-6 * scale
        flat[first:last] = tie / tie.sum()
    return flat
