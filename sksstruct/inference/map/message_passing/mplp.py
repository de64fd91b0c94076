"""Max-product linear programming, for graphs with factors of any size."""

from sksstruct.inference.map.message_passing._passing import TEXTS, MessagePassing
from sksstruct.inference.map.message_passing.sweeps import MaxProductLP
from sksstruct.utils._doc import fill_doc


@fill_doc(TEXTS)
class MPLP(MessagePassing):
    """Max-product linear programming (MPLP), for factors of any size.

    Block-coordinate descent on the dual of the LP relaxation [1]_. Factors of three or
    more variables are tables, or conditions such as "exactly one", which take linear
    time. `TRWS` minimizes the same bound and is usually faster.

    Parameters
    ----------
    %(sweeps)s

    References
    ----------
    .. [1] A. Globerson and T. Jaakkola, "Fixing max-product: convergent message passing
       algorithms for MAP LP-relaxations", NIPS 2007.

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph, Logic
    >>> from sksstruct.inference.map import MPLP
    >>> one_of_three = FactorGraph(
    ...     [[0, 1.0], [0, 2.0], [0, 1.5]], factors=[((0, 1, 2), Logic("xor", 3))]
    ... )
    >>> MPLP().solve(one_of_three, random_state=0).labeling.tolist()
    [0, 1, 0]
    """

    _pairwise = False
    _kernel = MaxProductLP
