"""Solvers by name."""

from sksstruct.solvers.bcfw import BCFW


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


_BY_NAME = {"auto": _auto, "bcfw": BCFW}


def resolve_solver(solver, *, max_iter, tol):
    """Solver object for a name or an object.

    Parameters
    ----------
    solver : {"auto", "bcfw"} or solver object
        A name takes `max_iter` and `tol`; an object brings its own.
    max_iter : int
        Largest number of passes.
    tol : float
        Tolerance, relative to the objective at w = 0.

    Returns
    -------
    solver : solver object
        The object given, or a new one.

    Raises
    ------
    ValueError
        If there is no solver of that name.
    TypeError
        If it is neither a name nor has a method ``solve``.
    """
    if isinstance(solver, str):
        if solver not in _BY_NAME:
            raise ValueError(
                f"unknown solver {solver!r}; the names are {sorted(_BY_NAME)}, or pass "
                "an object of sksstruct.solvers"
            )
        return _BY_NAME[solver](max_iter=max_iter, tol=tol)
    needed = ("solve", "check", "accepts")
    if isinstance(solver, type) or not all(hasattr(solver, name) for name in needed):
        raise TypeError(
            f"solver must be a name or an object of sksstruct.solvers, got {solver!r}"
        )
    return solver
