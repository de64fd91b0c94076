"""Solver by the greedy direction method of multipliers for large domains."""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from sksstruct.inference.map.core._decode import (
    by_variable,
    decode,
    search_promising,
)
from sksstruct.inference.map.core.solver import TEXTS as COMMON
from sksstruct.inference.map.core.solver import MAPSolver
from sksstruct.inference.map.gdmm._toplists import Lists
from sksstruct.inference.map.gdmm.state import MAPGDMMState
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._parameters import COUNT, POSITIVE
from sksstruct.utils.progress import Status

# Texts for `sksstruct.utils._doc.fill_doc`.
TEXTS = {
    **COMMON,
    "parameters": f"""
max_iter : int, default=2000
    Maximum number of iterations.
{COMMON["tol_relaxed"].strip()}
rho : "auto" or float, default="auto"
    Weight of the quadratic terms. "auto" starts with a tenth of the typical difference
    of scores, and then balances the residuals.
eta : float, default=1.0
    Step size of the multipliers (9), in units of `rho`. Above 2 the multipliers can
    diverge.
sweeps : int, default=1
    S of Algorithm 1: number of times that the marginals of all factors and variables
    are updated before the multipliers.
""",
    "gdmm": """
.. [1] X. Huang, I. E. H. Yen, R. Zhang, Q. Huang, P. Ravikumar and I. S. Dhillon,
   "Greedy direction method of multiplier for MAP inference of large output
   domain", AISTATS 2017.
""",
}


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class MAPGDMM(MAPSolver):
    """Greedy direction method of multipliers (GDMM) for large domains.

    Algorithm 1 of [1]_ solves the LP relaxation by an augmented Lagrangian whose
    vectors are zero except for a few states of each variable. Sorted lists find the
    entries that should become positive. The lists are created when they are first
    needed, and all edges with the same table share these lists. Factors of three or
    more variables have one list of all entries of a table.

    Parameters
    ----------
    %(parameters)s

    References
    ----------
    %(gdmm)s

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct.factor_graphs import FactorGraph
    >>> from sksstruct.inference.map import MAPGDMM
    >>> rng = np.random.default_rng(0)
    >>> graph = FactorGraph(rng.normal(size=(3, 50)), [(0, 1), (1, 2)],
    ...                     rng.normal(size=(50, 50)))
    >>> result = MAPGDMM().solve(graph, random_state=0)
    >>> result.status, bool(result.bound - result.score < 1e-3)
    ('optimal', True)
    """

    max_iter: int = 2000
    tol: float = 1e-6
    _: KW_ONLY
    rho: float | Literal["auto"] = "auto"
    eta: float = 1.0
    sweeps: int = 1

    _pairwise = False
    # Largest number of projected gradient steps (6) of each factor per iteration, and
    # whether searches use sorted lists.
    _steps = 1
    _lists = True
    _allowed = {
        **MAPSolver._allowed,
        "rho": ["auto", *POSITIVE],
        "eta": POSITIVE,
        "sweeps": COUNT,
    }

    def _run(self, run):
        problem = run.problem
        adapt = self.rho == "auto"
        lists = Lists(problem, self._lists)
        rho = _scale(problem) if adapt else self.rho
        state = MAPGDMMState(problem, lists, rho, self.eta)
        next_decoding, next_bound = 1, 5
        for k in range(self.max_iter):
            for _ in range(self.sweeps - 1):
                state.sweep(self._steps, multipliers=False)
            state.sweep(self._steps)
            run.offer(state.labeling())
            bound = None
            residual = state.residual()
            if k + 1 >= next_decoding or residual <= self.tol:
                next_decoding = int(1.5 * (k + 1)) + 1
                search = decode(run, state.flat_marginals())
                if problem.n_higher:
                    # Rounding, and moves of single variables and of forests, change at
                    # most one variable of a larger factor at a time. This search
                    # changes several.
                    search_promising(run, search, state.flat_marginals())
            if k + 1 >= next_bound or residual <= self.tol:
                next_bound = int(1.2 * (k + 1)) + 1
                bound = state.bound()
            if run.report(bound=bound):
                break
            if bound is not None and residual <= self.tol:
                value = state.value()
                if abs(run.bound - value) <= self.tol * max(1.0, abs(value)):
                    run.status = Status.FRACTIONAL
                    break
            if adapt and k % 10 == 9:
                balance(state)
        run.marginals = by_variable(problem, state.flat_marginals())


def balance(state):
    """Raise or lower rho if one residual is more than four times the other."""
    if state.primal_residual > 4.0 * state.dual_residual:
        state.rho *= 1.5
    elif state.dual_residual > 4.0 * state.primal_residual:
        state.rho /= 1.5


def _scale(problem):
    """Return a tenth of the median over variables of best score minus median score."""
    graph = problem.graph
    gaps = []
    for v in range(graph.n_variables):
        row = np.asarray(graph.unary(v))
        if len(row) > 1:
            gaps.append(row.max() - np.median(row))
    typical = float(np.median(gaps)) if gaps else 0.0
    if typical == 0.0:
        typical = 1.0
    return 0.1 * typical
