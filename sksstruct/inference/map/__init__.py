"""MAP of factor graphs: solvers with one interface.

Reading order: `core` (the reduced graph, the run, and the result), `message_passing`
and `gdmm` (relaxations), `tightening` (triplets of variables), `branch_and_bound`,
`local_search`, `clauses` (allowed labelings), `packing` (integer programs of graphs of
constraints), and `auto` (the schedule of all these). `highs`, `cp_sat` and `toulbar2`
call other solvers; `sum_product` is belief propagation.

`MAP_SOLVERS` lists the solvers by name: `sksstruct.LPMAPPredictor`, the documentation
and the tests read this list.
"""

from collections.abc import Callable
from functools import partial

from sksstruct.inference.map.auto import Auto
from sksstruct.inference.map.branch_and_bound.branch_and_bound import BranchAndBound
from sksstruct.inference.map.core.result import Interrupted, MAPResult
from sksstruct.inference.map.core.solver import MAPSolver
from sksstruct.inference.map.cp_sat import CPSAT
from sksstruct.inference.map.gdmm.ad3 import AD3
from sksstruct.inference.map.gdmm.binary import MAPBinaryGDMM
from sksstruct.inference.map.gdmm.gdmm import MAPGDMM
from sksstruct.inference.map.highs import HiGHS
from sksstruct.inference.map.message_passing.mplp import MPLP
from sksstruct.inference.map.message_passing.trws import TRWS
from sksstruct.inference.map.sum_product.belief_propagation import BeliefPropagation
from sksstruct.inference.map.sum_product.result import MarginalResult
from sksstruct.inference.map.tightening.tightened import Tightened
from sksstruct.inference.map.toulbar2 import Toulbar2

#: Makers of the solvers, by the names that :class:`~sksstruct.LPMAPPredictor` accepts.
MAP_SOLVERS: dict[str, Callable[..., MAPSolver]] = {
    "auto": Auto,
    "trws": TRWS,
    "gdmm": MAPGDMM,
    "gdmm_binary": MAPBinaryGDMM,
    "mplp": MPLP,
    "tightened": Tightened,
    "ad3": AD3,
    "highs": HiGHS,
    "lp": partial(HiGHS, relaxed=True),
    "branch_and_bound": BranchAndBound,
    "toulbar2": Toulbar2,
    "cp_sat": CPSAT,
}

__all__ = [
    "AD3",
    "CPSAT",
    "MAPGDMM",
    "MAP_SOLVERS",
    "MPLP",
    "TRWS",
    "Auto",
    "BeliefPropagation",
    "BranchAndBound",
    "HiGHS",
    "Interrupted",
    "MAPBinaryGDMM",
    "MAPResult",
    "MAPSolver",
    "MarginalResult",
    "Tightened",
    "Toulbar2",
    "resolve_map_solver",
]


def resolve_map_solver(
    solver: str | MAPSolver, *, max_iter: int | None = None, tol: float | None = None
) -> MAPSolver:
    """Return a new solver for a name, or the given solver object.

    Parameters
    ----------
    solver : str or MAPSolver
        A name of `MAP_SOLVERS` takes `max_iter` and `tol`; an object has its own.
    max_iter : int, default=None
        Maximum number of iterations; None: the solver's default.
    tol : float, default=None
        Relative tolerance; None: the solver's default.

    Returns
    -------
    solver : MAPSolver
        The object given, or a new one.

    Examples
    --------
    >>> from sksstruct.inference.map import resolve_map_solver
    >>> resolve_map_solver("trws", max_iter=100)
    TRWS(max_iter=100)
    """
    if isinstance(solver, MAPSolver):
        return solver
    if not isinstance(solver, str) or solver not in MAP_SOLVERS:
        raise ValueError(
            f"solver must be a MAPSolver or one of {list(MAP_SOLVERS)}, got {solver!r}"
        )
    given = {"max_iter": max_iter, "tol": tol}
    return MAP_SOLVERS[solver](**{k: v for k, v in given.items() if v is not None})
