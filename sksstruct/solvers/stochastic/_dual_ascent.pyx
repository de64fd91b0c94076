"""Dual coordinate ascent on smooth losses: the visit of one example, compiled.

The duals are those of `models/protocols/_entropy_dual.pyx`. A visit moves the natural
parameters of one example towards its potentials, by a share s:

    eta_i' = (1 - s) eta_i + s theta_i / mu

With d = mu_i' - mu_i, found by one call of the exp oracle, the dual gains

    p_i ( <theta_i, d> + mu H(mu_i') - mu H(mu_i) - q/2 ),  q = p_i/alpha |A_i^T d|^2

as the potentials theta_i count the loss. To first order d is s C (theta_i/mu - eta_i),
C being the covariance of the parts under mu_i. With the slope
b = <theta_i - mu eta_i, d>, the gain is largest at the share s b / (s b + q), up to
terms of third order. So the share that one visit finds is what the next visit of the
example begins with, and only where it was more than twice too long is the oracle called
again. The slope tells the block's gap too: it is b / (2 s) to second order.

The line search of Le Priol et al. (2018), Section 3, mixes means and not natural
parameters, which is the same to first order; it needs the means of pairs at every
position, and a logarithm of each at each trial.

Where w is v truncated, towards zero or to the weights that exist, |w|^2 changes by less
than q says: most changes are of weights that stay zero. The change is known once the
step is taken. What share of q it was is remembered for the example's next visit, and a
step after which the dual is lower is taken back.
"""

cimport cython

from libc.math cimport INFINITY

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._entropy_dual cimport DualStep, EntropyDual
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.solvers.frank_wolfe._sampling cimport SumTree
from sksstruct.utils._clock cimport Clock
from sksstruct.utils._pointers cimport const_doubles, const_intps, doubles

from sksstruct.solvers.core.base import SCALING

BREAKDOWN = f"training broke down: a step is not finite. {SCALING}"

cdef enum:
    # Addresses of an example's memory are asked for so many visits ahead.
    FAR_AHEAD = 4
    # Shares that a visit tries: halved so often, a step is rounding error.
    MOST_TRIALS = 40

# The share that the second visit of an example begins with, as in `dual_ascent.py`,
# and the largest one.
cdef double FIRST_SHARE = 0.5, MOST_SHARE = 0.9
# The first advantage of observed labels, and by how much it changes: down a little
# whenever the dual gains at once, up where it does not, by more each time.
cdef double FIRST_ADVANTAGE = 5.0, DOWN = 0.05, UP = 0.5, GROWTH = 1.5
# Two advantages that are nearer to each other are as good as one.
cdef double LEAST_INTERVAL = 1e-3
# Below this mu H is rounding error: all weight is on one labeling.
cdef double CERTAIN = 1e-10
# Certain distributions with this difference of scores are on the same labeling.
cdef double STILL = 1e-7
# Visits by gap end when the estimates are less than this part of the last exact gap.
cdef double LEAST_ESTIMATES = 0.01
# A smaller part of q is not believed: the next step would be too long.
cdef double LEAST_PART = 0.02


def steepness(EntropyDual dual, order_, Workspace workspace):
    """Return how much the norm of w counts; see `dual_ascent.py`."""
    cdef BoundModel model = dual.model
    cdef const Py_ssize_t* order = const_intps(order_)
    cdef double norm, p_i, squares = 0.0, gains = 0.0
    cdef DualStep step
    cdef Py_ssize_t k, i, n = len(order_)
    cdef Clock clock = Clock()
    with nogil:
        for k in range(n):
            # a few examples say as much where time is short
            if clock.late():
                break
            i = order[k]
            p_i = model._example_weights[i]
            dual.load(workspace, i)
            dual.spread(workspace, i, &step)
            model.change_norm(workspace, i, &norm)
            model.clear(workspace, i)
            squares += p_i * p_i * norm
            gains += p_i * (step.loss + step.entropy)
    return squares / gains if gains > 0.0 else 0.0


cdef class DualAscentVisits:
    """Visits of examples; see `DualAscentKernel`."""

    cdef EntropyDual dual
    cdef BoundModel model
    cdef Weights weights
    cdef Workspace workspace
    cdef double alpha
    cdef public double advantage
    # of the last exact gaps; inf before
    cdef public double gap_total
    cdef readonly object gaps
    cdef readonly Py_ssize_t oracle_calls
    cdef public double gain
    # what visits begin with, what part of q counts, and the gaps
    cdef double* _shares
    cdef double* _parts
    cdef double* _gaps
    cdef tuple _owned
    # the part that the last step of any example found
    cdef public double last_part
    cdef SumTree tree

    def __init__(self, EntropyDual dual, Weights weights, double alpha, shares, parts,
                 gaps):
        self.dual, self.model, self.weights = dual, dual.model, weights
        self.workspace = dual.model.workspace(weights.w)
        self.alpha, self.advantage = alpha, FIRST_ADVANTAGE
        self.gap_total, self.last_part = INFINITY, 1.0
        self._shares, self._parts = doubles(shares), doubles(parts)
        self.gaps, self._gaps = gaps, doubles(gaps)
        self._owned = shares, parts
        self.tree = SumTree(dual.model.n_examples)

    # ---- passes ----

    def visit_in_order(self, order_):
        """Visit the given examples."""
        cdef const Py_ssize_t* order = const_intps(order_)
        cdef Py_ssize_t k, n = len(order_)
        cdef Clock clock = Clock()
        with nogil:
            for k in range(n):
                if clock.late():
                    break
                # what says where memory is comes a few visits before the memory
                if k + FAR_AHEAD < n:
                    self.model.prefetch(order[k + FAR_AHEAD], False)
                if k + 1 < n:
                    self.model.prefetch(order[k + 1], True)
                self._visit(order[k])
        clock.check()

    def visit_by_gap(self, uniforms_):
        """Visit examples drawn in proportion to their gap estimates.

        Returns whether it visited all. Stops once the sum of the estimates is at most a
        hundredth of the last computed gap, because they are then too inaccurate.
        """
        cdef const double* uniforms = const_doubles(uniforms_)
        cdef Py_ssize_t k, i, n = len(uniforms_)
        cdef bint enough = True
        cdef double least = 0.0
        cdef Clock clock = Clock()
        if self.gap_total != INFINITY:
            least = LEAST_ESTIMATES * self.gap_total
        self.tree.fill(self.gaps)
        with nogil:
            for k in range(n):
                if clock.late():
                    break
                if self.tree.total() <= least:
                    enough = False
                    break
                i = self.tree.find(uniforms[k])
                self._visit(i)
                self.tree.set(i, self._gaps[i])
        clock.check()
        return enough

    def restore(self):
        """Compute the weights that the dual variables define."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.model.n_examples):
                self.dual.distance(self.workspace, i)
                self._move(i, -self._rate(i))
                self.model.clear(self.workspace, i)

    # ---- the same run, going on elsewhere ----

    def use(self, Weights weights, double alpha):
        """Continue with other weights, which may differ from those of the duals."""
        self.weights, self.alpha = weights, alpha
        self.workspace.read(weights.w)

    # ---- one example ----

    @cython.final
    cdef int _visit(self, Py_ssize_t i) except -1 nogil:
        """Load an example, and take a step."""
        self.dual.load(self.workspace, i)
        # what is certain, up to rounding, stays so in every mixture
        if self.dual._entropies[i] > CERTAIN:
            return self._step(i)
        return self._begin(i)

    @cython.final
    cdef int _begin(self, Py_ssize_t i) except -1 nogil:
        """Take a step from a single labeling, where the entropy has an infinite slope.

        There is an advantage of the observed labels with which the dual gains, between
        those that make this labeling certain and those that make another one certain.
        What is enough for one example is a good guess for the next.
        """
        cdef double norm, gain, advantage = self.advantage
        cdef double low = -INFINITY, high = INFINITY, jump = UP
        cdef DualStep step
        cdef Py_ssize_t _
        for _ in range(MOST_TRIALS):
            self.oracle_calls += 1
            self.dual.begin(self.workspace, i, advantage, &step)
            self.model.change_norm(self.workspace, i, &norm)
            if not norm < INFINITY:
                raise ValueError(BREAKDOWN)
            norm *= self._rate(i) * self._parts[i]
            gain = (step.linear + step.entropy - self.dual._entropies[i]
                    - 0.5 * norm)
            if gain > 0.0 and self._take(i, &step, gain, norm / self._parts[i]):
                # no better guess of what the next step gains
                self._gaps[i] = self.model._example_weights[i] * gain
                self._shares[i], self._parts[i] = FIRST_SHARE, self.last_part
                # lower ones were found for examples that are unlike the others
                if high == INFINITY:
                    self.advantage = advantage - DOWN
                return 0
            self.model.clear(self.workspace, i)
            # too certain of the observed labels, or not certain enough
            if step.entropy <= CERTAIN and step.wrong < 0.5:
                high = advantage
                advantage = 0.5 * (low + high) if low > -INFINITY else high - jump
                jump *= GROWTH
            else:
                low = advantage
                advantage = 0.5 * (low + high) if high < INFINITY else low + jump
                jump *= GROWTH
            if high - low < LEAST_INTERVAL:
                break
        return self._leave(i)

    @cython.final
    cdef int _leave(self, Py_ssize_t i) except -1 nogil:
        """Take a step from a labeling that another advantage does not improve.

        It may be a wrong one, and the observed one certain by now. Then there is a
        mixture that begins to leave it, between those that do not and those that are
        too far away.
        """
        cdef double norm, gain, share, low = 0.0, high = 1.0
        cdef DualStep step
        while high - low > LEAST_INTERVAL * LEAST_INTERVAL:
            share = 0.5 * (low + high)
            self.oracle_calls += 1
            self.dual.mix(self.workspace, i, share, &step)
            self.model.change_norm(self.workspace, i, &norm)
            norm *= self._rate(i) * self._parts[i]
            gain = (step.linear + step.entropy - self.dual._entropies[i]
                    - 0.5 * norm)
            if gain > CERTAIN and self._take(i, &step, gain, norm / self._parts[i]):
                self._gaps[i] = self.model._example_weights[i] * gain
                self._shares[i], self._parts[i] = FIRST_SHARE, self.last_part
                return 0
            self.model.clear(self.workspace, i)
            if step.entropy <= CERTAIN and step.linear < STILL:
                low = share
            else:
                high = share
        # as far as rounding errors allow to say, the labeling is the optimum
        self._gaps[i] = 0.0
        return 0

    @cython.final
    cdef int _step(self, Py_ssize_t i) except -1 nogil:
        """Take a step towards the potentials."""
        cdef double share = self._shares[i], best, norm, gain
        cdef DualStep step
        cdef Py_ssize_t _
        for _ in range(MOST_TRIALS):
            self.oracle_calls += 1
            self.dual.mix(self.workspace, i, share, &step)
            # at the optimum of the block, as far as rounding errors allow to say
            if not step.slope > 0.0:
                self._gaps[i] = 0.0
                break
            self.model.change_norm(self.workspace, i, &norm)
            norm *= self._rate(i) * self._parts[i]
            self._gaps[i] = (
                0.5 * self.model._example_weights[i] * step.slope / share)
            best = step.slope / (step.slope + norm / share)
            if best > MOST_SHARE:
                best = MOST_SHARE
            gain = (step.linear + step.entropy - self.dual._entropies[i]
                    - 0.5 * norm)
            if gain > 0.0 and share < 2.0 * best:
                self._shares[i] = best
                if self._take(i, &step, gain, norm / self._parts[i]):
                    return 0
                # it was too long, by a part of q that is larger now
                continue
            # at least halved, as the second order may be wrong about long steps
            share = best if best < 0.5 * share else 0.5 * share
            self.model.clear(self.workspace, i)
        return self.model.clear(self.workspace, i)

    @cython.final
    cdef double _rate(self, Py_ssize_t i) noexcept nogil:
        """Return p_i / alpha."""
        return self.model._example_weights[i] / self.alpha

    @cython.final
    cdef bint _take(self, Py_ssize_t i, const DualStep* step, double gain,
                    double curvature) except -1 nogil:
        """Take the step that is prepared, unless the dual turns out to be lower.

        `curvature` is q. Returns whether the step was taken.
        """
        cdef double p_i = self.model._example_weights[i], squares, true_gain
        if self.weights._truncates:
            squares = self.weights.squares
            self._move(i, -self._rate(i))
            true_gain = (
                step.loss + step.entropy - self.dual._losses[i]
                - self.dual._entropies[i]
                - 0.5 * (self.weights.squares - squares) / self._rate(i))
            self._find_part(i, step, true_gain, curvature)
            if not true_gain > 0.0:
                self._move(i, self._rate(i))
                self.model.clear(self.workspace, i)
                return False
            gain = true_gain
        else:
            self._move(i, -self._rate(i))
        self.gain += p_i * gain
        self.dual.accept(i, step)
        self.model.clear(self.workspace, i)
        return True

    @cython.final
    cdef void _find_part(self, Py_ssize_t i, const DualStep* step, double gain,
                         double curvature) noexcept nogil:
        """Find the part of q that a step's gain shows."""
        cdef double part = 1.0
        if curvature > 0.0:
            part = 2.0 * (step.linear + step.entropy - self.dual._entropies[i]
                          - gain) / curvature
        # rounding errors of small steps say nothing
        part = min(max(part, LEAST_PART), 1.0)
        self._parts[i] = self.last_part = part

    @cython.final
    cdef int _move(self, Py_ssize_t i, double scale) except -1 nogil:
        """Add the prepared change of means to the weights, and keep it prepared."""
        self.model.scatter(self.workspace, i, scale, self.weights._v)
        if self.weights._asks:
            self.model.touch(self.workspace, i, self.weights)
        return 0
