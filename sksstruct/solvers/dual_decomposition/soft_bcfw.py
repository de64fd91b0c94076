"""Soft-BCFW: a penalty, not a constraint, makes factors and variables consistent.

O. Meshi, N. Srebro and T. Hazan (2015). The problem is the augmented Lagrangian of
`_state.pyx`, whose notation is used here, with multipliers u = 0,

    alpha/2 |w|^2 - sum_i p_i sum_v <loss_v, q_v>
        + sum_i p_i rho/2 sum_(f, v) |M_vf q_f - q_v|^2

The block steps of GDMM solve it. With a larger rho, the optimum is closer to that of
the structured support vector machine, and the solver needs more passes.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.solvers.dual_decomposition.gdmm import (
    BinaryGDMMRun,
    FactorSolver,
    GDMMRun,
)
from sksstruct.utils._param_validation import Positive


@dataclass(eq=False, repr=False)
class SoftBCFW(FactorSolver):
    """Dual decomposition by penalties without multipliers: a baseline for `GDMM`.

    Papers compare `GDMM` with this baseline, which uses the same blocks. The solver
    converges to a point near the optimum, and the distance depends on `rho`;
    ``dual_gap_`` bounds the objective minus the optimum.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of passes over the factors.
    tol : float, default=3e-3
        Stop when the gap of the softened problem, added up over the visits of a pass,
        is at most ``tol`` times the objective at w = 0.
    update : {"auto", "bcfw", "bgcd"}, default="auto"
        See `GDMM`.
    oracle : {"sublinear", "scan"}, default="scan"
        See `GDMM`.
    partitions : int or "auto", default="auto"
        See `GDMM`.
    rho : float, default=10.0
        Weight of the penalty, in units of the mean curvature of a pair: the mean of
        p_i / alpha times the squared norm of the pair's features.
    check_every : int or "auto", default="auto"
        See `GDMM`.

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

    _: KW_ONLY
    rho: Positive = 10.0
    update: Literal["auto", "bcfw", "bgcd"] = "auto"
    oracle: Literal["sublinear", "scan"] = "scan"

    # a step of zero keeps the multipliers at zero
    eta = 0.0

    def accepts(self, dual_state: dict, model: BoundModel) -> bool:
        # a state of GDMM has multipliers, which this solver cannot use
        return False

    def _run_type(self, is_binary):
        return BinarySoftBCFWRun if is_binary else SoftBCFWRun


class _WithoutMultipliers:
    """Methods of runs whose multipliers are zero and whose rho is fixed.

    The duality gap does not converge to zero, so that the gap of the softened problem
    decides when to stop.
    """

    def initial_rho(self):
        return self.solver.rho * self.curvature

    @property
    def adapts_rho(self):
        return False

    def export(self):
        return {}

    def final_status(self):
        gap = self.state.block_gap * self.alpha
        if gap <= self.solver.tol * self.loop.scale:
            return "softened"
        return None


class SoftBCFWRun(_WithoutMultipliers, GDMMRun):
    """A run of `SoftBCFW` on variables with any number of labels."""


class BinarySoftBCFWRun(_WithoutMultipliers, BinaryGDMMRun):
    """A run of `SoftBCFW` on binary labels and pairs of them."""

    def final_status(self):
        # the first passes solve another softened problem, without pairs
        return super().final_status() if self.loop.n_iter > self.n_alone else None
