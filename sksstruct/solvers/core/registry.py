"""Solvers by name, and the choice of one if none is named."""

from functools import partial

from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.solvers.core.base import Solver


class Registry:
    """Names of solvers, which `sksstruct.solvers` registers in a single place.

    Parameters
    ----------
    makers : dict
        For each name, a callable that makes the solver from `max_iter` and `tol`: a
        class, or a `functools.partial` of one.
    choices : tuple of (str, str, str)
        Rules for "auto", of which the first that fits is used: an oracle, a kind of
        loss, "hinge" or "smooth", and the name of a solver.
    """

    def __init__(self, makers, choices):
        self.makers, self.choices = makers, choices

    def names(self, *oracles, losses=("hinge", "smooth")):
        """Return the sorted names of the solvers for given oracles and losses.

        Parameters
        ----------
        *oracles : str
            Oracles that a model offers.
        losses : tuple of str, default=("hinge", "smooth")
            Kinds of loss, of which a solver minimizes at least one.

        Returns
        -------
        names : list of str
            Names; "auto" stands for one of them.
        """
        return sorted(
            name
            for name, maker in self.makers.items()
            if set(_class_of(maker).required_oracles) & set(oracles)
            and set(_class_of(maker).losses) & set(losses)
        )

    def choose(self, model, l1=0.0, alpha=None):
        """Return the name that "auto" selects for a bound model and its penalties."""
        if model.preferred_solver is not None:
            return model.preferred_solver
        loss = "hinge" if model.surrogate is None else "smooth"
        for oracle, kind, name in self.choices:
            cls = _class_of(self.makers[name])
            fits = oracle in model.oracles and kind == loss
            if not fits or not cls.suits(model, l1, alpha):
                continue
            if alpha != 0 or cls.unregularized:
                return name
        return "bcfw"

    def resolve(
        self,
        solver: str | Solver,
        *,
        max_iter: int,
        tol: float,
        model: BoundModel | None = None,
        l1: float = 0.0,
        alpha: float | None = None,
    ) -> Solver:
        """Return the solver object for a name or an object.

        Parameters
        ----------
        solver : str or solver object
            A named solver gets `max_iter` and `tol`; an object has its own parameters.
        max_iter : int
            Maximum number of passes.
        tol : float
            Tolerance, relative to the objective.
        model : BoundModel, default=None
            Model to train: "auto" chooses by its oracles and its loss, and a solver
            with a choice of oracles uses one that the model has. Without a model,
            "auto" is "bcfw".
        l1 : float, default=0.0
            Strength of an l1 penalty, which "auto" takes into account.
        alpha : float, default=None
            Regularization; with 0, "auto" selects a solver that needs none.

        Returns
        -------
        solver : solver object
            The object given, or a new one.

        Raises
        ------
        ValueError
            If there is no solver of that name, a parameter is not valid, or the solver
            needs an oracle or a loss that the model does not have.
        TypeError
            If `solver` is neither a name nor a solver.

        Examples
        --------
        >>> from sksstruct.solvers import BCFW, resolve_solver
        >>> resolve_solver("ssg", max_iter=50, tol=1e-3)
        SSG(max_iter=50, tol=0.001)
        >>> resolve_solver(BCFW(tol=1e-2), max_iter=50, tol=1e-3)
        BCFW(tol=0.01)
        """
        if isinstance(solver, str):
            if solver != "auto" and solver not in self.makers:
                names = ["auto", *sorted(self.makers)]
                raise ValueError(
                    f"unknown solver {solver!r}; the names are {names}, or pass an "
                    "object of sksstruct.solvers"
                )
            name = solver
            if solver == "auto":
                name = "bcfw" if model is None else self.choose(model, l1, alpha)
            solver = self.makers[name](max_iter=max_iter, tol=tol)
            if model is not None:
                solver.adapt(model)
        if not isinstance(solver, Solver):
            raise TypeError(
                "solver must be a name or an object of sksstruct.solvers, got "
                f"{solver!r}"
            )
        solver.check()
        if model is not None:
            solver.check_model(model)
        return solver


def _class_of(maker):
    """Return the class of the solvers that a maker returns."""
    cls = maker.func if isinstance(maker, partial) else maker
    if not issubclass(cls, Solver):
        raise TypeError(f"{cls!r} is not a Solver")
    return cls
