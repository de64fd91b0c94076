"""Solvers by name, and whether a problem has the oracles they need."""

from functools import partial

from sksstruct.solvers.bundle.bmrm import BMRM
from sksstruct.solvers.bundle.cutting_plane import CuttingPlane
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

# What reaches a given gap soonest on every problem measured so far: pairwise steps,
# several per visit, passes over known labelings while they pay, and an average that
# forgets the first steps.
_auto = partial(
    BCFW,
    sampling="permutation",
    step="pairwise",
    cache=True,
    averaging="suffix",
    gap_every="auto",
    cache_factor=float("inf"),
    inner_steps=10,
    cached_passes="auto",
)
_BY_NAME = {
    "auto": _auto,
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
    "gdmm": GDMM,
    "soft_bcfw": SoftBCFW,
    "lbfgs": LBFGS,
}


def resolve_solver(
    solver,
    *,
    max_iter,
    tol,
    smooth=False,
    nonlinear=False,
    bounded=False,
    oracles=("max", "topk", "exp", "projection"),
):
    """Solver object for a name or an object.

    Parameters
    ----------
    solver : str or solver object
        A name takes `max_iter` and `tol`; an object brings its own.
    max_iter : int
        Largest number of passes.
    tol : float
        Tolerance, relative to the objective.
    smooth : bool, default=False
        Whether the loss has a gradient; else it is the structured hinge.
    nonlinear : bool, default=False
        Whether the score is a nonlinear function of the weights.
    bounded : bool, default=False
        Whether weights are confined to a box.
    oracles : tuple of str, default=("max", "topk", "exp", "projection")
        Oracles that the problem has.

    Returns
    -------
    solver : solver object
        The object given, or a new one.

    Raises
    ------
    ValueError
        If there is no solver of that name, or it needs an oracle or a loss that the
        problem does not have.
    TypeError
        If it is neither a name nor has a method ``solve``.
    """
    if isinstance(solver, str):
        if solver not in _BY_NAME:
            raise ValueError(
                f"unknown solver {solver!r}; the names are {sorted(_BY_NAME)}, or pass "
                "an object of sksstruct.solvers"
            )
        name = solver
        if solver == "auto" and (smooth or nonlinear):
            name = "prox_linear" if nonlinear else "lbfgs"
        solver = _BY_NAME[name](max_iter=max_iter, tol=tol)
    needed = ("solve", "check", "accepts")
    if isinstance(solver, type) or not all(hasattr(solver, name) for name in needed):
        raise TypeError(
            f"solver must be a name or an object of sksstruct.solvers, got {solver!r}"
        )
    name = type(solver).__name__
    required_oracles = getattr(solver, "required_oracles", ("max",))
    losses = getattr(solver, "losses", ("hinge",))
    if not set(required_oracles) & set(oracles):
        raise ValueError(
            f"{name} needs the oracle {' or '.join(required_oracles)}; this problem "
            f"has {', '.join(oracles)}"
        )
    if bounded and not getattr(solver, "bounded", False):
        raise ValueError(
            f"{name} cannot confine weights to a box, as the oracles of this model "
            "need; use BCFW, or solver='auto'"
        )
    if nonlinear != getattr(solver, "nonlinear", False):
        raise ValueError(
            f"{name} needs scores that are linear in the weights; a score function "
            "needs solver='prox_linear'"
            if nonlinear
            else f"{name} is for nonlinear scores: it needs a score function"
        )
    if smooth and "smooth" not in losses:
        raise ValueError(
            f"{name} minimises the structured hinge, loss='hinge', through its "
            f"{' or '.join(required_oracles)} oracle; a loss with a gradient needs "
            "solver='lbfgs', 'svrg' or 'casimir'"
        )
    if not smooth and "hinge" not in losses:
        raise ValueError(
            f"{name} needs a gradient, which loss='hinge' does not have; use "
            "loss='log' or 'smoothed_hinge', or another solver"
        )
    return solver
