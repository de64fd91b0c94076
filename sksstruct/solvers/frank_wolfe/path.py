"""The regularization path of a structured support vector machine.

Osokin et al. (2016), Section 4 and Algorithms 6 and 7, with a certificate that holds
for longer segments. Let the weights w at alpha have the duality gap g, their duals the
linear term l, and u = alpha w. At another alpha' the same w has the objective

    P(w) = alpha'/2 |w|^2 + R,     R = g + l - alpha |w|^2

and the duals, mixed with the observed labelings at a share s of one or less, have

    D(s) = s l - s^2 |u|^2 / (2 alpha')

The paper keeps w, which means s = alpha'/alpha, and its gap (12) grows linearly with
the distance of alpha' from alpha. With the best share, s = min(1, alpha' l / |u|^2),
the gap grows with the square of the distance: where s is 1,

    g(alpha') = g + |w|^2 (alpha' - alpha)^2 / (2 alpha')

for smaller and larger alpha' alike. Weights are good at alpha' if their gap there is at
most epsilon. Hence w is good on both sides of alpha, and segments have length
O(sqrt(epsilon)) instead of O(epsilon). At alpha' = 0 the gap is R.

The paper's epsilon is absolute. A relative epsilon, less than 1, allows the gap epsilon
P(w) at alpha', so that small losses alone do not make weights good. D is concave in s
and alpha' together, so that its maximum over s is concave in alpha', and P is linear in
alpha': the excess of the gap over the allowed gap is convex in alpha'. Weights that are
good at both ends of an interval are good inside it, for both kinds of epsilon.
"""

import time
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from sksstruct.solvers.core.base import SCALING, Options
from sksstruct.solvers.core.loop import COLUMNS, check_order
from sksstruct.solvers.core.result import SolverResult
from sksstruct.solvers.core.segments import Segment
from sksstruct.solvers.frank_wolfe.bcfw import BCFW, BCFWState
from sksstruct.solvers.frank_wolfe.exported import export
from sksstruct.utils.progress import Status, Trace

# Number of passes after which the exact gap is computed, whatever the estimates are.
_LOOK = 5
# Gaps below this fraction of the objective at w = 0 are rounding errors.
_ROUNDING = 1e-13


@dataclass
class PathCertificate:
    """Bounds at other values of alpha from weights w trained at one alpha.

    Parameters
    ----------
    alpha : float
        The alpha of the duals.
    square : float
        The squared norm of w.
    loss : float
        Linear term of the dual.
    gap : float
        Duality gap at `alpha`, or an estimate.
    epsilon : float
        Suboptimality allowed.
    relative : bool
        Whether `epsilon` is a share of the objective at the weights, or in its units.
    """

    alpha: float
    square: float
    loss: float
    gap: float
    epsilon: float
    relative: bool

    @property
    def risk(self):
        """Mean structured hinge loss of w."""
        return self.gap + self.loss - self.alpha * self.square

    def gap_at(self, alpha):
        """Return the gap of w at another alpha, and the best share of the duals."""
        # the squared norm of alpha w
        u = self.alpha * (self.alpha * self.square)
        if alpha == 0.0:
            return max(self.risk, 0.0), 0.0
        share = min(1.0, alpha * self.loss / u) if u > 0.0 else 1.0
        dual = share * self.loss - share**2 * u / (2.0 * alpha)
        return alpha / 2.0 * self.square + self.risk - dual, share

    def allowed(self, alpha):
        """Return the gap that epsilon allows at another alpha."""
        if not self.relative:
            return self.epsilon
        return self.epsilon * max(alpha / 2.0 * self.square + self.risk, 0.0)

    def holds(self, alpha):
        """Whether w is within epsilon of the optimum at another alpha."""
        return self.gap_at(alpha)[0] <= self.allowed(alpha)

    def reach(self):
        """Return the smallest alpha at which w is within epsilon of the optimum."""
        if self.holds(0.0):
            return 0.0
        if not self.holds(self.alpha):
            # because of rounding errors: w is within epsilon when `reach` is called
            return self.alpha
        # bisection on log alpha, as the excess of the gap decreases up to `self.alpha`
        outside, within = -100.0, 0.0
        for _ in range(60):
            middle = 0.5 * (outside + within)
            if self.holds(self.alpha * np.exp(middle)):
                within = middle
            else:
                outside = middle
        return self.alpha * float(np.exp(within))


class Path:
    """Follows the regularization path of one training problem.

    Parameters
    ----------
    model : BoundModel
        The model with its data.
    solver : BCFW
        Its options of sampling, steps and caching are used; averaging is not.
    epsilon : float
        Suboptimality allowed.
    relative : bool
        Whether `epsilon` is a share of the objective at the weights, or in its units.
    kappa : float
        Share of epsilon at which training stops at each breakpoint.
    exact : bool
        Whether gaps are computed, or taken from the last visit of each example.
    max_seconds : float or None
        Time limit of each breakpoint.
    random_state, n_jobs
        Random state and number of threads, as for solvers.
    """

    def __init__(
        self,
        model,
        solver,
        *,
        epsilon,
        relative,
        kappa,
        exact,
        max_seconds,
        random_state,
        n_jobs,
    ):
        if not isinstance(solver, BCFW):
            raise TypeError(
                f"the path needs a BCFW solver, got {type(solver).__name__}"
            )
        if solver.step_size != "line_search":
            raise ValueError(
                "the path needs step_size='line_search': other steps would begin anew "
                "at each breakpoint"
            )
        solver = clone(solver).set_params(averaging=False, tol=0.0)
        self.model = model
        self.epsilon, self.kappa, self.exact = epsilon, kappa, exact
        self.relative, self.max_iter = relative, solver.max_iter
        self.max_seconds = np.inf if max_seconds is None else max_seconds
        self.started = time.perf_counter()
        self.state = BCFWState(solver, model, 1.0, Options(random_state, n_jobs))
        self.kernel, self.weights = self.state.kernel, self.state.weights
        # number of passes in total, and at the current alpha
        self.n_iter = self.n_passes = 0
        self.trace = Trace(COLUMNS, COLUMNS[:2])
        box = self.weights.lower, self.weights.upper
        if box[0] is not None:
            sides = [bound[np.isfinite(bound)] for bound in box]
            if any(side.any() for side in sides):
                raise ValueError("the path needs bounds that are zero or infinite")

    @property
    def alpha(self):
        """The alpha that the path has reached."""
        return self.state.alpha

    @property
    def square(self):
        """The squared norm |w|^2."""
        return float(self.weights.w @ self.weights.w)

    def certificate(self, gap):
        """Return the bounds that follow from the present weights and their gap."""
        loss = self.kernel.loss
        return PathCertificate(
            self.alpha, self.square, loss, gap, self.epsilon, self.relative
        )

    # ---- steps along the path ----

    def move(self, alpha, share):
        """Continue at another alpha, with the duals mixed with observed labelings.

        The duals have the weight `share`, and the observed labelings 1 - `share`.
        """
        self.kernel.rescale(share, alpha)
        self.state.alpha = alpha
        # The estimates were for other weights: infinity calls the oracle for each
        # example before the cache is used.
        self.kernel.gaps_[:] = np.inf
        self.n_passes = 0

    def start(self):
        """Move to the largest breakpoint (Algorithm 6), and certify the weights."""
        state, epsilon = self.state, self.epsilon
        if self.relative:
            # epsilon times a lower bound of the optimum: at the first breakpoint, the
            # optimum is at least the objective at w = 0 over 1 + kappa epsilon
            epsilon *= state.scale / (1.0 + self.kappa * epsilon)
        if epsilon < _ROUNDING * state.scale:
            raise ValueError(
                f"epsilon={self.epsilon:.3g} is below the rounding errors of the "
                f"objective, which is {state.scale:.3g} at w = 0"
            )
        state.risk.decode(self.weights.w)
        self.kernel.start_at(state.risk.labelings)
        # the weights are psi of Algorithm 6; theta_i is the best score without the loss
        bound = self.square + state.risk.value(self.weights.w, loss_scale=0.0)
        state.calls_of_checks += self.model.n_examples
        # epsilon can be 0 here only if all losses are zero; then all weights are
        # optimal
        target = self.kappa * epsilon if epsilon > 0.0 else np.inf
        self.move(max(bound / target, 1e-100), 1.0)
        return self.certify()

    def certify(self):
        """Return the objective and the certificate of the weights, by a sweep."""
        half = 0.5 * self.alpha * self.square
        primal = half + self.state.check_gaps()
        gap = primal - (self.kernel.loss - half)
        if not np.isfinite(gap):
            raise ValueError(f"training broke down: the gap is {gap:.3g}. {SCALING}")
        check_order(primal, primal - gap, self.state.scale)
        return primal, self.certificate(max(gap, 0.0))

    def estimate(self):
        """Return objective and certificate, estimated from the last visits."""
        gap = float(self.kernel.gaps_.sum())
        found = self.certificate(gap)
        return self.kernel.loss - 0.5 * self.alpha * found.square + gap, found

    def _is_good(self, certificate, covered):
        """Whether training may end: w is accurate at alpha, and good at `covered`."""
        # estimates are infinite until every example has been visited
        if not np.isfinite(certificate.gap):
            return False
        if covered is not None and not certificate.holds(covered):
            return False
        if certificate.gap <= self.kappa * certificate.allowed(self.alpha):
            return True
        # weights that are good at zero are good for all smaller alpha: this segment is
        # the last
        return covered is not None and certificate.holds(0.0)

    def solve(self, covered=None):
        """Train at alpha until w is also good at `covered`.

        Returns the objective, its `PathCertificate`, and whether training succeeded.
        """
        passes, started = 0, time.perf_counter()
        while True:
            self.n_passes += 1
            self.state.one_pass(self.n_passes)
            passes += 1
            self.n_iter += 1
            primal, certificate = self.estimate()
            if self.exact and (
                self._is_good(certificate, covered)
                or passes % _LOOK == 0
                or self.state.needs_gaps
            ):
                primal, certificate = self.certify()
                may_be_good = True
            else:
                may_be_good = not self.exact
            if may_be_good and self._is_good(certificate, covered):
                return primal, certificate, True
            out_of_time = time.perf_counter() - started >= self.max_seconds
            if out_of_time or passes >= self.max_iter:
                if self.exact:
                    primal, certificate = self.certify()
                return primal, certificate, self._is_good(certificate, covered)
            too_small = self.kappa**2 * certificate.allowed(self.alpha)
            if may_be_good and covered is not None and certificate.gap < too_small:
                # alpha is too far below `covered`: halve the distance, in log alpha
                self.move(float(np.sqrt(self.alpha * covered)), 1.0)

    def _segment(self, lower, upper, primal, found, converged=True):
        calls = self.kernel.oracle_calls + self.state.calls_of_checks
        seconds, gap = time.perf_counter() - self.started, found.gap
        self.trace.add(self.n_iter, calls, seconds, primal, primal - gap, gap)
        return Segment(
            self.alpha,
            lower,
            upper,
            self.weights.w.copy(),
            primal,
            gap,
            self.n_iter,
            calls,
            seconds,
            converged,
            self.kappa * found.allowed(self.alpha),
        )

    def _next(self, covered, found):
        """Return an alpha whose w is good up to `covered`, if alpha w is unchanged."""
        squared_norm = self.alpha * (self.alpha * found.square) / covered
        slack = 2.0 * (1.0 - self.kappa) * found.allowed(covered)
        return covered / (1.0 + np.sqrt(slack / max(squared_norm, 1e-12 * slack)))

    def segments(self, alpha_min=0.0):
        """Follow the path down to an alpha; an iterator over `Segment`.

        Consecutive segments share an end. The last segment extends to zero if its
        weights are good for every smaller alpha.
        """
        primal, found = self.start()
        covered = found.reach()
        yield self._segment(covered, np.inf, primal, found)
        while covered > alpha_min:
            alpha = max(self._next(covered, found), alpha_min)
            if not alpha < covered:  # epsilon is below rounding errors
                return
            self.move(alpha, found.gap_at(alpha)[1])
            primal, found, converged = self.solve(covered)
            upper = covered
            covered = found.reach() if converged else self.alpha
            yield self._segment(covered, upper, primal, found, converged)
            if not converged:
                return

    def result_at(self, alpha):
        """Follow the path down to an alpha, and train there; the result of a solver."""
        try:
            for _ in self.segments(alpha):
                pass
            if self.alpha != alpha:
                self.move(alpha, self.certificate(0.0).gap_at(alpha)[1])
            status = Status.CONVERGED if self.solve()[2] else Status.MAX_ITER
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        # the returned gap is exact, even if the path was followed by estimates
        primal, found = self.certify()
        segment = self._segment(alpha, alpha, primal, found)
        return SolverResult(
            weights=segment.weights,
            objective=primal,
            dual_gap=found.gap,
            dual_loss=self.kernel.loss,
            n_iter=self.n_iter,
            status=status,
            history=self.trace.as_dict(),
            target=segment.target,
            dual_state=export(self.kernel),
        )
