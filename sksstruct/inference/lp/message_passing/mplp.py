"""Max-product linear programming, for graphs with factors of any size."""

from sksstruct.inference.lp.message_passing._mplp import MaxProductLP
from sksstruct.inference.lp.message_passing._passing import MessagePassing


class MPLP(MessagePassing):
    """Max-product linear programming (MPLP), for factors of any size.

    Block-coordinate descent on the dual of the LP relaxation [1]_. Factors of three or
    more variables are tables, or conditions such as "exactly one", which take linear
    time. For graphs with edges only, `TRWS` is faster.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of sweeps.
    tol : float, default=1e-6
        A labeling is optimal where its score is within `tol` of the bound, relative to
        the score or 1.
    search : bool, default=True
        Whether labelings are improved by a local search from time to time.
    patience : int, default=40
        Number of sweeps after which the solver stops if the bound has not fallen by
        more than a hundredth of the gap.

    References
    ----------
    .. [1] A. Globerson and T. Jaakkola, "Fixing max-product: convergent message passing
       algorithms for MAP LP-relaxations", NIPS 2007.
    """

    _pairwise = False
    _kernel = MaxProductLP
