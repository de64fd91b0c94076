"""Greedy direction method of multipliers for many binary factors: Algorithm 2."""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from sksstruct.inference.map.core.solver import MAPSolver
from sksstruct.inference.map.gdmm.binary_state import MAPBinaryGDMMState
from sksstruct.inference.map.gdmm.gdmm import TEXTS, balance
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._parameters import COUNT, POSITIVE
from sksstruct.utils.progress import Status


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class MAPBinaryGDMM(MAPSolver):
    """Greedy direction method of multipliers (GDMM) for many binary factors.

    Algorithm 2 of [1]_, for binary variables and very many edges, most of which do not
    affect the result. Variables and edges become active only when they can increase the
    score.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of iterations.
    %(tol_relaxed)s
    rho : "auto" or float, default="auto"
        Weight of the quadratic terms; "auto" begins with a tenth of a typical score and
        balances the residuals. `rho` is for the state 1 of a variable: the paper counts
        both states, and its rho is half of this.
    eta : float, default=1.0
        Step size of the multipliers (9), in units of `rho`. Above 2 the multipliers can
        diverge.
    edge_step : {"exact", "gradient"}, default="exact"
        How the marginals of an active edge are updated. "exact" minimizes the augmented
        Lagrangian (5), and "gradient" is the projected gradient step (6), with
        ``Q = rho |M|^2``.
    activations : int or "auto", default="auto"
        Largest number of variables (10) and of edges (11) that become active in an
        iteration, besides edges between active variables. In the paper: one. "auto": at
        most 8 edges, and 8 variables plus an eighth of the active variables.
    patience : int, default=100
        Number of iterations after which the solver stops if neither the labeling has
        improved nor the bound has fallen by more than `tol`. With very many attractive
        edges that are not active, the bound can still be high.

    References
    ----------
    %(gdmm)s

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph
    >>> from sksstruct.inference.map import MAPBinaryGDMM
    >>> together = [[0, 0], [0, 1.0]]  # both labels are on
    >>> unaries = [[0, 0.5], [0, -0.4], [0, -2.0]]
    >>> graph = FactorGraph(unaries, [(0, 1), (1, 2)], together)
    >>> result = MAPBinaryGDMM().solve(graph, random_state=0)
    >>> result.labeling.tolist(), result.status
    ([1, 1, 0], 'optimal')
    """

    max_iter: int = 1000
    tol: float = 1e-6
    _: KW_ONLY
    rho: float | Literal["auto"] = "auto"
    eta: float = 1.0
    edge_step: Literal["exact", "gradient"] = "exact"
    activations: int | Literal["auto"] = "auto"
    patience: int = 100

    _allowed = {
        **MAPSolver._allowed,
        "rho": ["auto", *POSITIVE],
        "eta": POSITIVE,
        "edge_step": ["exact", "gradient"],
        "activations": ["auto", *COUNT],
        "patience": COUNT,
    }

    def _check_graph(self, graph):
        if graph.n_variables and set(np.unique(graph.n_states).tolist()) != {2}:
            raise ValueError(
                "MAPBinaryGDMM is for variables of two states; this graph has "
                f"variables of {graph.n_states.max()} states: use MAPGDMM or 'auto'"
            )

    def _run(self, run):
        adapt = self.rho == "auto"
        state = MAPBinaryGDMMState(
            run.problem,
            1.0 if adapt else self.rho,
            self.eta,
            exact=self.edge_step == "exact",
        )
        if adapt:
            state.rho = _scale(state)
        run.offer((state.x > 0.5).astype(np.int32))
        next_decoding, progress = 4, _Progress(run, self.patience)
        for k in range(self.max_iter):
            activated = state.grow(*self._activations(state))
            state.iterate()
            bound = None
            is_tenth = k % 10 == 9
            if k + 1 >= next_decoding or progress.is_due():
                next_decoding = int(1.5 * (k + 1)) + 1
                run.offer(state.local_search(state.x > 0.5))
                bound = state.bound()
            elif is_tenth and 10 * state.n_active >= run.problem.n_edges:
                # The bound reads all edges once. The last ten iterations have read at
                # least as many active edges.
                bound = state.bound()
            if run.report(bound=bound):
                break
            if progress.has_stalled():
                run.status = Status.STALLED
                break
            if not activated and self._converged(state) and self._finish(run, state):
                break
            if adapt and is_tenth:
                balance(state)
        run.marginals = list(np.column_stack([1.0 - state.x, state.x]))

    def _activations(self, state):
        """Return the largest numbers of variables and edges to activate now."""
        if self.activations != "auto":
            return self.activations, self.activations
        # proportional to the number of active variables, so that few iterations suffice
        return 8 + state.n_variables // 8, 8

    def _converged(self, state):
        """Return whether the residuals of the active variables and edges are small."""
        scale = max(1.0, 2.0 * state.n_active) ** 0.5
        return max(state.primal_residual, state.dual_residual) / scale <= self.tol

    def _finish(self, run, state):
        """Report the bound of a converged state; return whether the run is over."""
        run.offer(state.local_search(state.x > 0.5))
        if run.report(bound=state.bound(), step=0):
            return True
        value = state.value()
        if run.bound - value <= self.tol * max(1.0, abs(value)):
            run.status = Status.FRACTIONAL
            return True
        return False


class _Progress:
    """Iteration of the last improvement of the labeling or the bound.

    Parameters
    ----------
    run : MAPRun
        The run.
    patience : int
        Number of iterations without improvement after which the run has stalled.
    """

    def __init__(self, run, patience):
        self._run, self._patience = run, patience
        self._last_gain, self._score, self._bound = 0, run.score, run.exact_bound

    def is_due(self):
        """Return whether no improvement is known for `patience` iterations."""
        return self._run.n_iter - self._last_gain >= self._patience

    def has_stalled(self):
        """Update the last improvement; return whether the run has stalled."""
        run = self._run
        min_improvement = run.tol * max(1.0, abs(run.exact_bound))
        if run.score > self._score or run.exact_bound < self._bound - min_improvement:
            self._last_gain, self._score, self._bound = (
                run.n_iter,
                run.score,
                run.exact_bound,
            )
        return self.is_due()


def _scale(state):
    """Return a tenth of the median absolute nonzero c_i; 0.1 if all c_i are zero."""
    sizes = np.abs(state.unary[state.unary != 0.0])
    return 0.1 * float(np.median(sizes)) if sizes.size else 0.1
