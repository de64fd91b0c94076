"""Sequential tree-reweighted message passing."""

from sksstruct.inference.map.message_passing._passing import TEXTS, MessagePassing
from sksstruct.inference.map.message_passing.sweeps import TreeReweighted
from sksstruct.utils._doc import fill_doc


@fill_doc(TEXTS)
class TRWS(MessagePassing):
    """Sequential tree-reweighted max-product (TRW-S), for factors of any size.

    Block-coordinate descent on the dual of the LP relaxation [1]_. The upper bound
    never rises, but it can end above the value of the relaxation. Messages through
    Potts tables and truncated distances take linear time [2]_. Messages through large
    tables visit only the states that can change the result, and are exact. Factors of
    three or more variables are processed in the same order of the variables [3]_.

    Parameters
    ----------
    %(sweeps)s

    Notes
    -----
    If the labeling is optimal, the marginals of a result are those of the labeling.
    Otherwise the marginals of a variable are uniform over the states whose
    reparametrized scores are tied. These marginals show which states the relaxation
    leaves undecided, but are not a solution of the relaxation. `HiGHS` and `MAPGDMM`
    return solutions.

    References
    ----------
    .. [1] V. Kolmogorov, "Convergent tree-reweighted message passing for energy
       minimization", IEEE PAMI 28, 2006.
    .. [2] P. Felzenszwalb and D. Huttenlocher, "Efficient belief propagation for early
       vision", IJCV 70, 2006.
    .. [3] V. Kolmogorov, "A new look at reweighted message passing", IEEE PAMI 37,
       2015.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct.factor_graphs import FactorGraph, TruncatedLinear
    >>> from sksstruct.inference.map import TRWS
    >>> seen = np.array([0, 0, 3, 0, 4, 4])  # a row of pixels with five levels
    >>> unaries = -np.abs(np.arange(5) - seen[:, None])
    >>> edges = np.column_stack([np.arange(5), np.arange(1, 6)])
    >>> graph = FactorGraph(unaries, edges, TruncatedLinear(5, scale=2.0, limit=3.0))
    >>> result = TRWS().solve(graph, random_state=0)
    >>> result.labeling.tolist(), result.score, result.status
    ([0, 0, 0, 0, 4, 4], -6.0, 'optimal')
    """

    _pairwise = False
    _kernel = TreeReweighted
