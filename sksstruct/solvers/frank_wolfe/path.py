"""The regularization path of a structured support vector machine.

Osokin et al. (2016), Section 4 and Algorithms 6 and 7, with a wider certificate. Let
the weights w at alpha have the duality gap g, their duals the linear term l, and
u = alpha w. At another alpha' the same w has the objective

    P(w) = alpha'/2 |w|^2 + R,     R = g + l - alpha |w|^2

and the duals, mixed with the observed labelings at a share s of one or less, have

    D(s) = s l - s^2 |u|^2 / (2 alpha')

The paper keeps w, which is s = alpha'/alpha, and its gap (12) grows linearly with the
distance of alpha' from alpha. With the best share, s = min(1, alpha' l / |u|^2), the
gap grows with the square of the distance: where s is 1,

    g(alpha') = g + |w|^2 (alpha' - alpha)^2 / (2 alpha')

for smaller and larger alpha' alike. So w is good on both sides of alpha, and segments
have length O(sqrt(epsilon)) instead of O(epsilon). At alpha' = 0 the gap is R.
"""

import time
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from sksstruct.solvers.core.base import SCALING, Options
from sksstruct.solvers.core.loop import check_order
from sksstruct.solvers.frank_wolfe.bcfw import BCFW, BCFWState

# Number of passes after which the exact gap is computed regardless of the estimates.
_LOOK = 5
# Certificates are no more accurate than this share of the objective at w = 0.
_ROUNDING = 1e-13


@dataclass
class Segment:
    """Weights that are good for an interval of alpha.

    Parameters
    ----------
    alpha : float
        Regularization at which they were trained.
    lower, upper : float
        The interval; may reach to 0 or inf. Above the path's first alpha, the weights
        for another alpha' are multiplied by ``alpha / alpha'``.
    weights : ndarray
        Flat weights.
    objective, gap : float
        Objective and duality gap at `alpha`; estimates on a heuristic path.
    n_iter, oracle_calls : int
        Passes, and oracle calls in all, since the path began.
    seconds : float
        Time since then.
    converged : bool
        Whether the gap that was asked for was reached.
    """

    alpha: float
    lower: float
    upper: float
    weights: np.ndarray
    objective: float
    gap: float
    n_iter: int
    oracle_calls: int
    seconds: float
    converged: bool


def edges_of_grid(alphas):
    """Ends of the segments of a grid of alphas, from the largest."""
    return np.concatenate([[np.inf], np.sqrt(alphas[1:] * alphas[:-1]), [0.0]])


class Path:
    """Follows the path of one training problem.

    Parameters
    ----------
    model : BoundModel
        The model with its data.
    solver : BCFW
        Its options of sampling, steps and caching are used; averaging is not.
    epsilon : float
        Suboptimality allowed, in units of the objective.
    kappa : float
        Share of epsilon at which training stops at each breakpoint.
    max_iter : int
        Maximum number of passes for each breakpoint.
    exact : bool
        Whether gaps are computed, or taken from the last visit of each example.
    random_state, n_jobs
        Random state and number of threads, as for solvers.
    """

    def __init__(
        self, model, solver, *, epsilon, kappa, max_iter, exact, random_state, n_jobs
    ):
        if not isinstance(solver, BCFW):
            raise TypeError(
                f"the path needs a BCFW solver, got {type(solver).__name__}"
            )
        solver = clone(solver).set_params(averaging=False, tol=0.0)
        self.model = model
        self.epsilon, self.kappa, self.exact = epsilon, kappa, exact
        self.max_iter = max_iter
        self.started = time.perf_counter()
        self.state = BCFWState(solver, model, 1.0, Options(random_state, n_jobs))
        self.kernel, self.weights = self.state.kernel, self.state.weights
        # passes in all, and at the current alpha
        self.n_iter = self.n_passes = 0
        box = self.weights.lower, self.weights.upper
        if box[0] is not None:
            sides = [bound[np.isfinite(bound)] for bound in box]
            if any(side.any() for side in sides):
                raise ValueError("the path needs bounds that are zero or infinite")

    # ---- where weights are good ----

    @property
    def alpha(self):
        """The alpha that the path has reached."""
        return self.state.alpha

    @property
    def square(self):
        """The squared norm |w|^2."""
        return float(self.weights.w @ self.weights.w)

    def gap_at(self, alpha, gap):
        """Gap of the weights at another alpha, and the share of the duals for it."""
        square, loss = self.square, self.kernel.loss
        u = self.alpha * (self.alpha * square)
        if alpha == 0.0:
            return max(gap + loss - self.alpha * square, 0.0), 0.0
        share = min(1.0, alpha * loss / u) if u > 0.0 else 1.0
        risk = gap + loss - self.alpha * square
        dual = share * loss - share**2 * u / (2.0 * alpha)
        return alpha / 2.0 * square + risk - dual, share

    def reach(self, gap):
        """The smallest alpha at which the weights are good enough."""
        if self.gap_at(0.0, gap)[0] <= self.epsilon:
            return 0.0
        if self.gap_at(self.alpha, gap)[0] > self.epsilon:
            return self.alpha
        # the gap falls as alpha grows up to this one
        bad, good = -100.0, 0.0
        for _ in range(60):
            middle = 0.5 * (bad + good)
            value = self.gap_at(self.alpha * np.exp(middle), gap)[0]
            if value <= self.epsilon:
                good = middle
            else:
                bad = middle
        return self.alpha * float(np.exp(good))

    # ---- moving along ----

    def move(self, alpha, share):
        """Go to another alpha: a share of the duals, the rest on observed outputs."""
        self.kernel.rescale(share, alpha)
        self.state.alpha = alpha
        # The estimates were for other weights: forget them until they are measured
        # again, and call the oracle before using the cache.
        self.kernel.gaps_[:] = np.inf
        self.n_passes = 0

    def start(self):
        """Go to the largest breakpoint (Algorithm 6); return its objective and gap."""
        state = self.state
        if self.epsilon < _ROUNDING * state.scale:
            raise ValueError(
                f"epsilon={self.epsilon:.3g} is below the rounding errors of the "
                f"objective, which is {state.scale:.3g} at w = 0"
            )
        state.risk.decode(self.weights.w)
        self.kernel.start_at(state.risk.labelings)
        # at the weights psi: theta_i is the best score without the loss
        bound = self.square + state.risk.value(self.weights.w, loss_scale=0.0)
        state.calls_of_checks += self.model.n_examples
        self.move(max(bound / (self.kappa * self.epsilon), 1e-100), 1.0)
        return self.certify()

    def certify(self):
        """Objective and gap at the weights, by a sweep."""
        primal = 0.5 * self.alpha * self.square + self.state.check_gaps()
        gap = primal - (self.kernel.loss - 0.5 * self.alpha * self.square)
        if not np.isfinite(gap):
            raise ValueError(f"training broke down: the gap is {gap:.3g}. {SCALING}")
        check_order(primal, primal - gap, self.state.scale)
        return primal, max(gap, 0.0)

    def estimate(self):
        """Objective and gap, estimated from the last visits of the examples."""
        gap = float(self.kernel.gaps_.sum())
        return self.kernel.loss - 0.5 * self.alpha * self.square + gap, gap

    def _good(self, gap, covered):
        """Whether weights are accurate, and good up to an alpha."""
        if covered is not None and self.gap_at(covered, gap)[0] > self.epsilon:
            return False
        if gap <= self.kappa * self.epsilon:
            return True
        # good for every smaller alpha: this is the last segment
        return covered is not None and self.gap_at(0.0, gap)[0] <= self.epsilon

    def solve(self, covered=None):
        """Train until good up to an alpha; return objective, gap and success."""
        passes = 0
        while True:
            self.n_passes += 1
            self.state.one_pass(self.n_passes)
            passes += 1
            self.n_iter += 1
            primal, gap = self.estimate()
            if self.exact and (
                self._good(gap, covered) or passes % _LOOK == 0 or self.state.needs_gaps
            ):
                primal, gap = self.certify()
                promising = True
            else:
                promising = not self.exact
            if promising and self._good(gap, covered):
                return primal, gap, True
            if passes >= self.max_iter:
                if self.exact:
                    primal, gap = self.certify()
                return primal, gap, self._good(gap, covered)
            if promising and covered is not None and gap < self.kappa**2 * self.epsilon:
                # too far from the covered part: go back half of the way
                self.move(float(np.sqrt(self.alpha * covered)), 1.0)

    def _segment(self, lower, upper, primal, gap, converged):
        return Segment(
            self.alpha,
            lower,
            upper,
            self.weights.w.copy(),
            primal,
            gap,
            self.n_iter,
            self.kernel.oracle_calls + self.state.calls_of_checks,
            time.perf_counter() - self.started,
            converged,
        )

    def _next(self, covered):
        """Alpha whose weights would be good up to `covered`, if alpha w stayed."""
        size = self.alpha * (self.alpha * self.square) / covered
        slack = 2.0 * (1.0 - self.kappa) * self.epsilon
        return covered / (1.0 + np.sqrt(slack / max(size, 1e-12 * slack)))

    def segments(self, alpha_min=0.0):
        """Follow the path down to an alpha; an iterator over `Segment`.

        The segments follow each other without a gap. The last one reaches down to zero
        if its weights are good for every smaller alpha.
        """
        primal, gap = self.start()
        covered = self.reach(gap)
        yield self._segment(covered, np.inf, primal, gap, True)
        while covered > alpha_min:
            alpha = max(self._next(covered), alpha_min)
            if not alpha < covered:  # epsilon is below rounding
                return
            self.move(alpha, self.gap_at(alpha, gap)[1])
            primal, gap, converged = self.solve(covered)
            upper = covered
            covered = self.reach(gap) if converged else self.alpha
            yield self._segment(covered, upper, primal, gap, converged)
            if not converged:
                return

    def grid(self, alphas):
        """Train at given alphas, from the largest, each from the one before."""
        gap = None
        edges = edges_of_grid(alphas)
        for k, alpha in enumerate(alphas.tolist()):
            share = 1.0 if gap is None else self.gap_at(alpha, gap)[1]
            self.move(alpha, share)
            primal, gap, converged = self.solve()
            yield self._segment(edges[k + 1], edges[k], primal, gap, converged)
