"""Alternating directions dual decomposition, for comparison."""

from sksstruct.inference.lp.gdmm.gdmm import MAPGDMM


class AD3(MAPGDMM):
    """Alternating directions with quadratic programs per edge, in the manner of AD3.

    Has the augmented Lagrangian of `MAPGDMM`, but solves the quadratic program of each
    edge by an active set of its entries before the others move [1]_, and chooses
    entries among all of them. It is meant for comparison.

    Parameters
    ----------
    max_iter : int, default=2000
        Largest number of iterations.
    tol : float, default=1e-6
        A labeling is optimal where its score is within `tol` of the bound, relative to
        the score or 1; the relaxation is solved where the residuals of its constraints
        and the distance of its value to the bound are below `tol`.
    rho : "auto" or float, default="auto"
        Weight of the quadratic terms; "auto" begins with a tenth of the typical
        difference of scores and balances the residuals.

    References
    ----------
    .. [1] A. F. T. Martins et al., "AD3: alternating directions dual decomposition for
       MAP inference in graphical models", JMLR 16, 2015.
    """

    # Steps of the active set of an edge in each iteration.
    _steps = 10
    _lists = False
