"""Optimisers: they know a bound model's oracles and no structure."""

from sksstruct.solvers._registry import resolve_solver
from sksstruct.solvers._result import SolverResult
from sksstruct.solvers.bcfw import BCFW
from sksstruct.solvers.lbfgs import LBFGS

__all__ = ["BCFW", "LBFGS", "SolverResult", "resolve_solver"]
