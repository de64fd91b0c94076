"""Soft-BCFW: factors and variables agree by a penalty, and not exactly.

O. Meshi, N. Srebro and T. Hazan (2015). The problem is the augmented Lagrangian of
`_gdmm.pyx` with multipliers that stay zero,

    alpha/2 |w|^2 - sum_i p_i sum_v <loss_v, q_v>
        + sum_i p_i rho/2 sum_(f, v) |M_vf q_f - q_v|^2

solved by the block steps of GDMM. The larger rho is, the closer are its optimum and
that of the structured support vector machine, and the slower is the way.
"""

from numbers import Real

from sksstruct.models.protocols._factors import BinaryFactorModel
from sksstruct.solvers.dual_decomposition.gdmm import GDMM, BinaryRun, Run
from sksstruct.utils._param_validation import Interval, StrOptions


class SoftBCFW(GDMM):
    """Dual decomposition by penalties without multipliers: a baseline for `GDMM`.

    A baseline for `GDMM`, which papers compare with: the same blocks without
    multipliers. It ends near the optimum, at a distance that `rho` decides and
    ``dual_gap_`` shows.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of passes over the factors.
    tol : float, default=3e-3
        Stop where a pass can improve the softened problem by no more than ``tol`` times
        the objective at w = 0.
    rho : float, default=10.0
        Weight of the penalty, in units of the mean curvature p_i / alpha.
    update : {"auto", "bcfw", "bgcd"}, default="auto"
        As of `GDMM`.
    oracle : {"sublinear", "scan"}, default="scan"
        As of `GDMM`.
    partitions : int or "auto", default="auto"
        As of `GDMM`.
    check_every : int or "auto", default="auto"
        As of `GDMM`.

    References
    ----------
    O. Meshi, N. Srebro and T. Hazan, "Efficient training of structured SVMs via soft
    constraints", AISTATS 2015.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.solvers import SoftBCFW
    >>> X = [[[0.0], [1.0], [0.0]], [[1.0], [0.0]]]
    >>> y = [["low", "high", "low"], ["high", "low"]]
    >>> tagger = ChainCRF(alpha=0.1, solver=SoftBCFW(), random_state=0).fit(X, y)
    >>> tagger.predict([[[1.0], [1.0], [0.0]]])[0].tolist()
    ['high', 'high', 'low']
    """

    _parameter_constraints = {
        **{k: v for k, v in GDMM._parameter_constraints.items() if k != "eta"},
        "rho": [Interval(Real, 0, None, closed="neither")],
        "update": [StrOptions({"auto", "bcfw", "bgcd"})],
    }
    # the multipliers do not move
    eta = 0.0

    def __init__(
        self,
        max_iter=1000,
        tol=3e-3,
        *,
        rho=10.0,
        update="auto",
        oracle="scan",
        partitions="auto",
        check_every="auto",
    ):
        self.max_iter = max_iter
        self.tol = tol
        self.rho = rho
        self.update = update
        self.oracle = oracle
        self.partitions = partitions
        self.check_every = check_every

    def _solve(self, model, alpha, options):
        model = self.factors(model)
        kind = SoftBinaryRun if isinstance(model, BinaryFactorModel) else SoftRun
        return kind(self, model, alpha, options).run()


class _Soft:
    """What a run without multipliers does otherwise."""

    def rho_at_start(self):
        return self.solver.rho * self.curvature

    @property
    def adapts(self):
        return False

    def is_done(self):
        gap = self.state.block_gap * self.alpha
        if gap <= self.solver.tol * self.loop.scale:
            return "softened"
        return None


class SoftRun(_Soft, Run):
    """A run of `SoftBCFW` on variables of any number of labels."""


class SoftBinaryRun(_Soft, BinaryRun):
    """A run of `SoftBCFW` on labels that are on or off."""

    def is_done(self):
        # the first passes are without pairs
        return super().is_done() if self.loop.n_iter > self.n_alone else None
