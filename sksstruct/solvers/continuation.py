"""The hinge by L-BFGS, smoothed by an entropy whose temperature decreases.

The maximum in the hinge is smoothed by mu times the entropy of a distribution of
labelings (Pillutla et al., 2018, Section 2). The mean parameters of any such
distribution are dual variables of the hinge itself, so that the certificate is the
duality gap of the hinge. This gap can exceed the gap of the smoothed problem by up to
the entropy term mu H, and becomes small only if mu decreases.
"""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from sksstruct.losses import SmoothedHinge
from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.models.roles import smooth_loss
from sksstruct.solvers.bundle.dual_bundle import DualBundle
from sksstruct.solvers.core.base import Solver, example
from sksstruct.solvers.core.loop import LEAST_SCALE, Loop
from sksstruct.solvers.core.quasi_newton import add_scaled
from sksstruct.solvers.core.risk import Risk
from sksstruct.solvers.lbfgs import Objective, run_lbfgs
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import Count

# Initial value of the entropy term mu H at w = 0, as a fraction of the objective at
# w = 0.
_FIRST = 0.3
# The temperature is lowered once the gap of the smoothed problem is below this multiple
# of mu H.
_CLOSE = 2.0
# mu H is lowered to this fraction of the gap that `tol` allows.
_AIM = 0.5
# Exponent of the model that mu H decreases as mu^(1 / _POWER).
_POWER = 0.7
# Smallest and largest factor of a change of temperature.
_LEAST_FALL, _MOST_FALL = 0.1, 0.6
# The number of iterations between two certificates is at least `_EVERY`, and at least
# the fraction `_GROWTH` of the iterations so far.
_EVERY, _GROWTH = 4, 0.06
# Largest number of dual points. If these points take more than `_MOST_BYTES`, fewer
# points are kept, but at least `_FEWEST_POINTS`.
_POINTS, _FEWEST_POINTS, _MOST_BYTES = 30, 5, 2**28
# `suits` needs at least `_LONG` positions divided by the squared number of sequences,
# and at most `_MOST_WEIGHTS` weights per position. If there are at most `_FEW_WEIGHTS`
# weights per position, `_LONG_AND_DENSE` replaces `_LONG`. Measured on texts and
# series.
_LONG, _MOST_WEIGHTS = 2.0, 20.0
_LONG_AND_DENSE, _FEW_WEIGHTS = 0.3, 0.1


@fill_doc(example('solver="continuation"'))
@dataclass(eq=False, repr=False)
class Continuation(Solver):
    """Smoothing with continuation: the default for the hinge on few long sequences.

    Minimizes the structured hinge by L-BFGS. The maximum is smoothed by an entropy
    [1]_, whose strength falls, as in Nesterov's method with continuation [2]_, until
    the duality gap of the hinge itself is small. `BCFW` makes one step for each
    sequence in a pass. So `BCFW` takes few steps if there are few sequences, and each
    long sequence needs many labelings. This solver needs about as many sweeps over the
    data for any number of sequences.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of iterations. An iteration is one sweep of the sum-product
        oracle over all examples, sometimes two.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective at w = 0.
    memory : int, default=20
        Number of pairs of vectors that form the approximation of the Hessian.

    Notes
    -----
    The certificate is that of the best combination of the expected mean parameters of
    the last 30 iterations, and takes one sweep of the max oracle. A pair of vectors
    takes 8 bytes for every weight, a dual point 4 bytes. If 30 points would take more
    than 256 MB, fewer are kept. The weights returned are those with the smallest hinge
    objective.

    References
    ----------
    .. [1] K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to
       train structured prediction models", NeurIPS 2018, Section 2.
    .. [2] S. Becker, J. Bobin and E. J. Candes, "NESTA: a fast and accurate first-order
       method for sparse recovery", SIAM Journal on Imaging Sciences 4(1), 2011,
       Section 3.4.

    %(example)s
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    memory: Count = 20

    required_oracles = ("exp",)
    losses = ("hinge",)
    remedy = "Or try solver='bcfw'."

    @classmethod
    def suits(
        cls, model: BoundModel, l1: float = 0.0, alpha: float | None = None
    ) -> bool:
        if model.oracle_bounds is not None or l1:
            return False
        n_positions = float(model.starts[-1])
        length = n_positions / model.n_examples**2
        weights = model.n_weights / n_positions
        long = length >= _LONG and weights <= _MOST_WEIGHTS
        return long or (length >= _LONG_AND_DENSE and weights <= _FEW_WEIGHTS)

    def accepts(self, dual_state: dict, model: BoundModel) -> bool:
        weights = dual_state.get("weights")
        return weights is not None and len(weights) == model.n_weights

    def _solve(self, model, alpha, options):
        loss = smooth_loss(model, SmoothedHinge("entropy", 1.0), nonsmooth=True)
        objective = SmoothedObjective(loss, alpha, options, self.tol)
        loop = Loop(self, alpha, options, scale=objective.scale)
        return run_lbfgs(objective, loop, self.memory)


class SmoothedObjective(Objective):
    """The smoothed objective at the present temperature, with the hinge's certificate.

    Parameters
    ----------
    loss : SmoothLoss
        The mean hinge, smoothed by the entropy.
    alpha : float
        Regularization.
    options : Options
        Its `n_jobs` and `dual_state` are read.
    tol : float
        Tolerance, relative to the objective at w = 0.

    Attributes
    ----------
    scale : float
        The hinge objective at w = 0.
    """

    def __init__(self, loss, alpha, options, tol):
        super().__init__(loss, None, alpha, options)
        size = len(self.start)
        self.risk = Risk(loss.model, self.n_jobs)
        self._zero = np.zeros(loss.model.n_weights)
        self.scale = self.risk.value(self._zero)
        self.target = tol * self.scale
        capacity = max(_MOST_BYTES // (4 * size), _FEWEST_POINTS)
        self.bundle = DualBundle(min(_POINTS, capacity), size, alpha)
        # the first dual point has the observed labelings: its dual value is zero, so
        # that no gap exceeds the objective
        self.bundle.add(np.zeros(size), 0.0, 0.0)
        self._next_check = 0
        self._set_first_temperature()

    def _set_first_temperature(self):
        """Set the first temperature from the objective at w = 0."""
        # scores are zero at w = 0: the smoothed objective minus the expected loss is
        # the entropy term
        top = self.scale if self.scale > LEAST_SCALE else 1.0
        self.loss.set_smoothing(top)
        added = self.loss.value_and_gradient(self._zero, self.gradient, self.n_jobs)
        entropy = (added - self.loss.expected_loss) / top
        # zero entropy: the only labelings are the observed ones
        if entropy > LEAST_SCALE:
            self.loss.set_smoothing(_FIRST * top / entropy)

    def _gradient_and_bounds(self, primal, x, w):
        slope = self._slope = self.gradient[self._existing]
        risk = primal - self.alpha / 2 * float(x @ x)
        linear = risk - float(slope @ x)
        loss = self.loss.expected_loss
        self._terms = loss, max((linear - loss) / self.loss.mu, 0.0)
        add_scaled(self.alpha, x, slope)
        return slope, -np.inf, 0.0

    def keep(self, x):
        self._x, self._value = x, self._last[0]
        self.bundle.add(self._slope - self.alpha * x, *self._terms)
        if self.best is None:
            self.best = np.inf, x.copy(), 1.0, np.inf

    def report(self, loop):
        """Certify the iterate if a check is due; lower the temperature if possible."""
        self._changed, loop.calls = None, self.calls
        # certificates are rare, as each takes a sweep of the max oracle
        if loop.n_iter < self._next_check and loop.n_iter < loop.solver.max_iter:
            return
        self._next_check = loop.n_iter + max(_EVERY, int(_GROWTH * loop.n_iter))
        self.certify(loop)
        if not loop.converged:
            self._lower_temperature()

    def certify(self, loop):
        """Compute and report objective and dual value of the hinge."""
        x = w = self._x
        if self._all_weights is not None:
            w = self._all_weights
            w[self._existing] = x
        hinge = self.risk.value(w) + self.alpha / 2 * float(x @ x)
        self.calls += self.loss.model.n_examples
        self.best_dual = max(self.best_dual, self.bundle.bound(0.0))
        if hinge < self.best[0]:
            self.best = hinge, x.copy(), 1.0, np.inf
        loop.calls = self.calls
        loop.report(hinge, None, self.best_dual)

    def _lower_temperature(self):
        """Lower the temperature if the smoothed problem is solved well enough."""
        mu, entropy = self.loss.mu, self._terms[1]
        excess = mu * entropy / (_AIM * self.target) if self.target else np.inf
        gap = self._value - self.bundle.bound(mu)
        if excess <= 1.0 or gap > _CLOSE * mu * entropy:
            return
        fall = np.clip(excess**-_POWER, _LEAST_FALL, _MOST_FALL)
        self.loss.set_smoothing(mu * fall)
        self._changed = self.at(self._x)
        self.keep(self._x)

    def changed(self):
        return self._changed
