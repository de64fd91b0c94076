"""Alternating directions dual decomposition in the manner of AD3, for comparison."""

from sksstruct.inference.map.gdmm.gdmm import MAPGDMM, TEXTS
from sksstruct.utils._doc import fill_doc


@fill_doc(TEXTS)
class AD3(MAPGDMM):
    """Alternating directions with quadratic programs per edge, in the manner of AD3.

    Uses the augmented Lagrangian of `MAPGDMM`, but solves the quadratic program of each
    edge by an active-set method before it moves the other edges [1]_. AD3 chooses
    entries among all entries of a table. Use this solver for comparisons.

    Parameters
    ----------
    %(parameters)s

    References
    ----------
    .. [1] A. F. T. Martins et al., "AD3: alternating directions dual decomposition for
       MAP inference in graphical models", JMLR 16, 2015.

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph, Potts
    >>> from sksstruct.inference.map import AD3
    >>> graph = FactorGraph([[0, 1.0], [0.2, 0]], [(0, 1)], Potts(2))
    >>> result = AD3().solve(graph, random_state=0)
    >>> result.labeling.tolist(), result.status
    ([1, 1], 'optimal')
    """

    # Largest number of active-set steps of an edge per iteration.
    _steps = 10
    _lists = False
