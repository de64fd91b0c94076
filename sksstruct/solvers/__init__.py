"""Optimisers: they know a bound model's oracles and no structure."""

from sksstruct.solvers._registry import resolve_solver
from sksstruct.solvers._result import SolverResult
from sksstruct.solvers.bcfw import BCFW

__all__ = ["BCFW", "SolverResult", "resolve_solver"]
