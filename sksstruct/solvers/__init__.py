"""Optimisers: they know a bound model's oracles and no structure."""

from sksstruct.solvers.bundle.bmrm import BMRM
from sksstruct.solvers.bundle.cutting_plane import CuttingPlane
from sksstruct.solvers.core.registry import resolve_solver
from sksstruct.solvers.core.result import SolverResult
from sksstruct.solvers.dual_decomposition.gdmm import GDMM
from sksstruct.solvers.dual_decomposition.soft_bcfw import SoftBCFW
from sksstruct.solvers.frank_wolfe.batch import FrankWolfe
from sksstruct.solvers.frank_wolfe.bcfw import BCFW
from sksstruct.solvers.lbfgs import LBFGS
from sksstruct.solvers.pragam import Pragam
from sksstruct.solvers.stochastic.casimir import Casimir
from sksstruct.solvers.stochastic.prox_linear import ProxLinear
from sksstruct.solvers.stochastic.ssg import SSG
from sksstruct.solvers.stochastic.svrg import SVRG

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
