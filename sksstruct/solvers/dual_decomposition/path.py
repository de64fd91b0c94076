"""Training by dual decomposition at given alphas, each from the one before.

Multipliers and distributions stay as they are while alpha changes: the new dual value
is that of a point that is feasible for any alpha, and the messages still agree.
"""

import time

from sklearn.base import clone

from sksstruct.solvers.frank_wolfe.path import Segment, edges_of_grid
from sksstruct.utils.progress import Status


class FactorGrid:
    """Solves one training problem for several alphas.

    Parameters
    ----------
    model : BoundModel
        The model with its data.
    solver : GDMM
        Its options are used, but not `max_iter` and `tol`.
    gap : float
        Duality gap at which training stops at each alpha, in units of the objective.
    max_iter : int
        Maximum number of passes for each alpha.
    random_state, n_jobs
        Random state and number of threads, as for solvers.
    """

    def __init__(self, model, solver, *, gap, max_iter, random_state, n_jobs):
        tol = gap / model.factors().loss_at_zero()
        self.model = model
        self.solver = clone(solver).set_params(max_iter=max_iter, tol=tol)
        self.random_state, self.n_jobs = random_state, n_jobs
        self.started = time.perf_counter()

    def grid(self, alphas):
        """Train at given alphas, from the largest; an iterator over `Segment`."""
        edges, state, n_iter, calls = edges_of_grid(alphas), None, 0, 0
        for k, alpha in enumerate(alphas.tolist()):
            result = self.solver.solve(
                self.model,
                alpha,
                random_state=self.random_state,
                n_jobs=self.n_jobs,
                dual_state=state,
            )
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            state = result.dual_state
            if not self.solver.accepts(state, self.model):
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
                time.perf_counter() - self.started,
                result.status is Status.CONVERGED,
            )
