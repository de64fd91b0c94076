"""MAP of factor graphs through the LP relaxation: solvers with one interface."""

from sksstruct.inference.lp._registry import SOLVERS, resolve_map_solver
from sksstruct.inference.lp.auto import Auto
from sksstruct.inference.lp.core.result import MAPResult
from sksstruct.inference.lp.core.solver import MAPSolver
from sksstruct.inference.lp.enumeration import Enumeration
from sksstruct.inference.lp.gdmm.ad3 import AD3
from sksstruct.inference.lp.gdmm.binary import MAPBinaryGDMM
from sksstruct.inference.lp.gdmm.gdmm import MAPGDMM
from sksstruct.inference.lp.highs import HiGHS
from sksstruct.inference.lp.message_passing.mplp import MPLP
from sksstruct.inference.lp.message_passing.trws import TRWS
from sksstruct.inference.lp.subgradient import Subgradient

# As these were called before: `sksstruct.solvers.GDMM` is the one that trains.
GDMM, BinaryGDMM = MAPGDMM, MAPBinaryGDMM

__all__ = [
    "AD3",
    "GDMM",
    "MAPGDMM",
    "MPLP",
    "SOLVERS",
    "TRWS",
    "Auto",
    "BinaryGDMM",
    "Enumeration",
    "HiGHS",
    "MAPBinaryGDMM",
    "MAPResult",
    "MAPSolver",
    "Subgradient",
    "resolve_map_solver",
]
