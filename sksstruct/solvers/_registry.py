"""Solvers by name."""

from sksstruct.solvers.bcfw import BCFW
from sksstruct.solvers.lbfgs import LBFGS


def _auto(**common):
    """What reaches a given gap soonest on every problem measured so far: pairwise
    steps, several per visit, passes over known labelings while they pay, and an average
    that forgets the first steps."""
    return BCFW(
        sampling="permutation",
        step="pairwise",
        cache=True,
        averaging="suffix",
        gap_every="auto",
        cache_factor=float("inf"),
        inner_steps=10,
        cached_passes="auto",
        **common,
    )


_BY_NAME = {"auto": _auto, "bcfw": BCFW, "lbfgs": LBFGS}


def resolve_solver(solver, *, max_iter, tol, smooth=False):
    """Solver object for a name or an object.

    Parameters
    ----------
    solver : {"auto", "bcfw", "lbfgs"} or solver object
        A name takes `max_iter` and `tol`; an object brings its own.
    max_iter : int
        Largest number of passes.
    tol : float
        Tolerance, relative to the objective.
    smooth : bool, default=False
        Whether the loss has a gradient; else it is the structured hinge.

    Returns
    -------
    solver : solver object
        The object given, or a new one.

    Raises
    ------
    ValueError
        If there is no solver of that name, or it is not for this kind of loss.
    TypeError
        If it is neither a name nor has a method ``solve``.
    """
    if isinstance(solver, str):
        if solver not in _BY_NAME:
            raise ValueError(
                f"unknown solver {solver!r}; the names are {sorted(_BY_NAME)}, or pass "
                "an object of sksstruct.solvers"
            )
        name = "lbfgs" if solver == "auto" and smooth else solver
        solver = _BY_NAME[name](max_iter=max_iter, tol=tol)
    needed = ("solve", "check", "accepts")
    if isinstance(solver, type) or not all(hasattr(solver, name) for name in needed):
        raise TypeError(
            f"solver must be a name or an object of sksstruct.solvers, got {solver!r}"
        )
    if smooth and not getattr(solver, "needs_gradient", False):
        raise ValueError(
            f"{type(solver).__name__} minimises the structured hinge, loss='hinge', "
            "through its max oracle; a loss with a gradient needs solver='lbfgs'"
        )
    if not smooth and getattr(solver, "needs_gradient", False):
        raise ValueError(
            f"{type(solver).__name__} needs a gradient, which loss='hinge' does not "
            "have; use loss='log' or 'smoothed_hinge', or another solver"
        )
    return solver
