"""MAP of factor graphs through the LP relaxation: solvers with one interface."""

from sksstruct.inference.lp._base import MAPSolver
from sksstruct.inference.lp._registry import SOLVERS, resolve_map_solver
from sksstruct.inference.lp.ad3 import AD3
from sksstruct.inference.lp.auto import Auto
from sksstruct.inference.lp.enumeration import Enumeration
from sksstruct.inference.lp.gdmm import GDMM
from sksstruct.inference.lp.gdmm_binary import BinaryGDMM
from sksstruct.inference.lp.highs import HiGHS
from sksstruct.inference.lp.mplp import MPLP
from sksstruct.inference.lp.result import MAPResult
from sksstruct.inference.lp.subgradient import Subgradient
from sksstruct.inference.lp.trws import TRWS

__all__ = [
    "AD3",
    "GDMM",
    "MPLP",
    "SOLVERS",
    "TRWS",
    "Auto",
    "BinaryGDMM",
    "Enumeration",
    "HiGHS",
    "MAPResult",
    "MAPSolver",
    "Subgradient",
    "resolve_map_solver",
]
