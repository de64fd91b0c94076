"""Optimizers, which use the oracles of a bound model but not its structure.

`SOLVERS` maps names to solvers; estimators, documentation and tests read it. `core` has
the common parts; `frank_wolfe`, `dual_decomposition`, `stochastic`, `bundle` and
`partitioned` are families of solvers, and `lbfgs.py`, `newton.py`, `continuation.py`
and `pragam.py` single solvers.
"""

from functools import partial

from sksstruct.solvers.bundle.bmrm import BMRM
from sksstruct.solvers.bundle.cutting_plane import CuttingPlane
from sksstruct.solvers.continuation import Continuation
from sksstruct.solvers.core.registry import Registry
from sksstruct.solvers.core.result import SolverResult
from sksstruct.solvers.dual_decomposition.bca import BCA
from sksstruct.solvers.dual_decomposition.gdmm import GDMM
from sksstruct.solvers.dual_decomposition.soft_bcfw import SoftBCFW
from sksstruct.solvers.frank_wolfe.batch import FrankWolfe
from sksstruct.solvers.frank_wolfe.bcfw import BCFW
from sksstruct.solvers.lbfgs import LBFGS
from sksstruct.solvers.newton import Newton
from sksstruct.solvers.partitioned.partitioned import Partitioned
from sksstruct.solvers.pragam import Pragam
from sksstruct.solvers.stochastic.casimir import Casimir
from sksstruct.solvers.stochastic.dcd import DCD
from sksstruct.solvers.stochastic.prox_linear import ProxLinear
from sksstruct.solvers.stochastic.sdca import SDCA
from sksstruct.solvers.stochastic.sgd import SGD
from sksstruct.solvers.stochastic.ssg import SSG
from sksstruct.solvers.stochastic.svrg import SVRG

#: Makers of the solvers, by the names that estimators accept.
SOLVERS = Registry(
    {
        "bcfw": BCFW,
        "fw": FrankWolfe,
        "ssg": SSG,
        "bmrm": BMRM,
        "cutting_plane": CuttingPlane,
        "pragam": Pragam,
        "casimir": Casimir,
        "casimir_constant": partial(Casimir, schedule="constant"),
        "prox_linear": ProxLinear,
        "svrg": SVRG,
        "sdca": SDCA,
        "sgd": SGD,
        "dcd": DCD,
        "gdmm": GDMM,
        "bca": BCA,
        "soft_bcfw": SoftBCFW,
        "lbfgs": LBFGS,
        "newton": Newton,
        "continuation": Continuation,
        "partitioned": Partitioned,
    },
    choices=(
        ("curvature", "hinge", "newton"),
        ("coordinates", "hinge", "dcd"),
        # selected without regularization, which `dcd` does not support
        ("slopes", "hinge", "lbfgs"),
        ("exp", "hinge", "continuation"),
        ("max", "hinge", "bcfw"),
        ("exp", "smooth", "sdca"),
        ("exp", "smooth", "lbfgs"),
        ("topk", "smooth", "lbfgs"),
        ("nonlinear", "hinge", "prox_linear"),
        ("nonlinear", "smooth", "prox_linear"),
        ("projection", "hinge", "pragam"),
        ("factors", "hinge", "gdmm"),
        # selected without regularization, which the solvers above for the same oracle
        # do not support
        ("topk", "hinge", "casimir"),
        ("exp", "hinge", "casimir"),
    ),
)
resolve_solver = SOLVERS.resolve

__all__ = [
    "BCA",
    "BCFW",
    "BMRM",
    "DCD",
    "GDMM",
    "LBFGS",
    "SDCA",
    "SGD",
    "SOLVERS",
    "SSG",
    "SVRG",
    "Casimir",
    "Continuation",
    "CuttingPlane",
    "FrankWolfe",
    "Newton",
    "Partitioned",
    "Pragam",
    "ProxLinear",
    "SoftBCFW",
    "SolverResult",
    "resolve_solver",
]
