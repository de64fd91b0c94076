"""Alternating directions dual decomposition, for comparison."""

from sksstruct.inference.lp.gdmm.gdmm import MAPGDMM


class AD3(MAPGDMM):
    """Alternating directions with quadratic programs per edge, in the manner of AD3.

    The augmented Lagrangian of `GDMM`; but the quadratic program of each edge is solved
    by an active set of its entries before the others move [1]_, and entries are chosen
    among all of them. For comparison.

    Parameters
    ----------
    max_iter : int, default=2000
        Largest number of iterations.
    tol : float, default=1e-6
        As of `GDMM`.
    rho : "auto" or float, default="auto"
        Weight of the quadratic terms.

    References
    ----------
    .. [1] A. F. T. Martins et al., "AD3: alternating directions dual decomposition for
       MAP inference in graphical models", JMLR 16, 2015.
    """

    # Steps of the active set of an edge in each iteration.
    _steps = 10
    _lists = False
