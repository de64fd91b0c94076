"""Optimisers: they know a bound model's oracles and no structure."""

from sksstruct.solvers._registry import resolve_solver
from sksstruct.solvers._result import SolverResult
from sksstruct.solvers.bcfw import BCFW
from sksstruct.solvers.bmrm import BMRM
from sksstruct.solvers.casimir import Casimir
from sksstruct.solvers.cutting_plane import CuttingPlane
from sksstruct.solvers.fw import FrankWolfe
from sksstruct.solvers.gdmm import GDMM
from sksstruct.solvers.lbfgs import LBFGS
from sksstruct.solvers.pragam import Pragam
from sksstruct.solvers.prox_linear import ProxLinear
from sksstruct.solvers.soft_bcfw import SoftBCFW
from sksstruct.solvers.ssg import SSG
from sksstruct.solvers.svrg import SVRG

__all__ = [
    "BCFW",
    "BMRM",
    "GDMM",
    "LBFGS",
    "SSG",
    "SVRG",
    "Casimir",
    "CuttingPlane",
    "FrankWolfe",
    "Pragam",
    "ProxLinear",
    "SoftBCFW",
    "SolverResult",
    "resolve_solver",
]
