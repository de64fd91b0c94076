"""Dual coordinate ascent on smooth losses: the visit of one example, compiled.

`models/protocols/_entropy_dual.pyx` states the dual variables. A visit moves the
natural parameters of one example towards its potentials, by a share s of the way:

    eta_i' = (1 - s) eta_i + s theta_i / mu

With d = mu_i' - mu_i, from one call of the exp oracle, the dual value increases by

    p_i ( <theta_i, d> + mu H(mu_i') - mu H(mu_i) - q/2 ),  q = p_i/alpha |A_i^T d|^2

where the potentials theta_i include the loss. To first order d = s C (theta_i/mu -
eta_i) with the covariance C of the parts under mu_i. With the slope b = <theta_i - mu
eta_i, d>, the increase is largest at the share s b / (s b + q), up to third-order
terms. The next visit of the example starts with this share; a visit repeats the oracle
call only if its share was more than twice the best one. The slope also gives the block
gap, b / (2 s), to second order.

The line search of Le Priol et al. (2018), Section 3, mixes means instead of natural
parameters, which agrees to first order; it needs the means of pairs at every position,
and their logarithms in each trial.

If w is a truncation of v, by soft thresholding or to the existing weights, the true
second-order term of the increase is smaller than q/2, as most changed weights stay
zero. This term is known after the step. Its ratio to q/2 is stored for the next visit
of the example, and a step that lowered the dual value is undone.
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
    # The addresses of an example's arrays are prefetched this number of visits ahead.
    FAR_AHEAD = 4
    # Largest number of trials (of a share, or of an advantage) in a visit: after so
    # many halvings of the share, the step is within rounding errors.
    MOST_TRIALS = 40

# The share s of the way from eta_i to theta_i / mu with which the second visit of an
# example starts (as in `dual_ascent.py`), and the largest share.
cdef double FIRST_SHARE = 0.5, MOST_SHARE = 0.9
# Initial value of the advantage, which is added to the scores of observed labels (see
# `_leave_certain`). If no trial of a visit was too high, the advantage for the next
# example is lower by DOWN. Within a visit, the advantage changes by UP, and by GROWTH
# times the last change in each further trial.
cdef double FIRST_ADVANTAGE = 5.0, DOWN = 0.05, UP = 0.5, GROWTH = 1.5
# Bisection ends once the interval of advantages is shorter than this, or the interval
# of shares (see `_leave_by_mixing`) shorter than the square of this.
cdef double LEAST_INTERVAL = 1e-3
# An entropy mu H below this is a rounding error: a single labeling has all probability.
cdef double CERTAIN = 1e-10
# Two distributions of a single labeling each are taken for equal if the scores of their
# labelings differ by less than this.
cdef double STILL = 1e-7
# Sampling by gap ends when the sum of estimates falls below this fraction of the last
# exact gap.
cdef double LEAST_ESTIMATES = 0.01
# Lower bound of the measured ratio ("part") of the true second-order term to q/2: a
# smaller ratio would make the next step too long.
cdef double LEAST_PART = 0.02


def steepness(EntropyDual dual, order_, Workspace workspace):
    """Return the ratio of squared norms to gains at w = 0, as in `dual_ascent.py`.

    `order_` are the numbers of the examples, of which the first ones are used if the
    time is short.
    """
    cdef BoundModel model = dual.model
    cdef const Py_ssize_t* order = const_intps(order_)
    cdef double norm, p_i, squares = 0.0, gains = 0.0
    cdef DualStep step
    cdef Py_ssize_t k, i, n = len(order_)
    cdef Clock clock = Clock()
    with nogil:
        for k in range(n):
            # after the time limit, the examples so far are enough for an estimate
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
    """Dual ascent steps, one example after the other; see `DualAscentKernel`."""

    cdef EntropyDual dual
    cdef BoundModel model
    cdef Weights weights
    cdef Workspace workspace
    cdef double alpha
    cdef public double advantage
    # sum of the block gaps when they were last computed exactly; inf before that
    cdef public double gap_total
    cdef readonly object gaps
    cdef readonly Py_ssize_t oracle_calls
    cdef public double gain
    # for each example: the share with which the next visit starts; the ratio ("part")
    # of the true second-order term to q/2 in the last step; and the gap estimate
    cdef double* _shares
    cdef double* _parts
    cdef double* _gaps
    cdef tuple _arrays
    # the ratio ("part") measured in the last step, of whichever example
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
        self._arrays = shares, parts
        self.tree = SumTree(dual.model.n_examples)

    # ---- passes ----

    def visit_in_order(self, order_):
        """Take a dual ascent step on each of the given examples, in this order."""
        cdef const Py_ssize_t* order = const_intps(order_)
        cdef Py_ssize_t k, n = len(order_)
        cdef Clock clock = Clock()
        with nogil:
            for k in range(n):
                if clock.late():
                    break
                # an example's addresses are prefetched a few visits before the memory
                # they point to
                if k + FAR_AHEAD < n:
                    self.model.prefetch(order[k + FAR_AHEAD], False)
                if k + 1 < n:
                    self.model.prefetch(order[k + 1], True)
                self._visit(order[k])
        clock.check()

    def visit_by_gap(self, uniforms_):
        """Visit examples drawn in proportion to their gap estimates.

        Returns whether all draws were visited. Visits end once the sum of the estimates
        is at most a hundredth of the last exact gap, as the estimates are then too
        inaccurate.
        """
        cdef const double* uniforms = const_doubles(uniforms_)
        cdef Py_ssize_t k, i, n = len(uniforms_)
        cdef bint complete = True
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
                    complete = False
                    break
                i = self.tree.find(uniforms[k])
                self._visit(i)
                self.tree.set(i, self._gaps[i])
        clock.check()
        return complete

    def restore(self):
        """Compute the weights from the dual variables; before, the weights are zero."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.model.n_examples):
                self.dual.distance(self.workspace, i)
                self._move(i, -self._rate(i))
                self.model.clear(self.workspace, i)

    # ---- changing the weights within a run ----

    def use(self, Weights weights, double alpha):
        """Continue with other weights, which the dual variables need not define."""
        self.weights, self.alpha = weights, alpha
        self.workspace.read(weights.w)

    # ---- one example ----

    @cython.final
    cdef int _visit(self, Py_ssize_t i) except -1 nogil:
        """Load the potentials of an example, and take a dual ascent step on it."""
        self.dual.load(self.workspace, i)
        # without entropy, natural parameters are infinite, or so large that a mixture
        # with them has the same single labeling
        if self.dual._entropies[i] > CERTAIN:
            return self._step(i)
        return self._leave_certain(i)

    @cython.final
    cdef int _leave_certain(self, Py_ssize_t i) except -1 nogil:
        """Take a step from a single labeling, at which the entropy has infinite slope.

        The trial distribution has the potentials plus an advantage, which is added to
        the scores of the observed labels. An advantage that increases the dual value
        lies between values that make the observed labeling certain and values that make
        another labeling certain. The advantage found for one example is a good first
        trial for the next example.
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
                # the gain of this step estimates the gain of the next visit
                self._gaps[i] = self.model._example_weights[i] * gain
                self._shares[i], self._parts[i] = FIRST_SHARE, self.last_part
                # no trial was too high: try a lower advantage for the next example
                if high == INFINITY:
                    self.advantage = advantage - DOWN
                return 0
            self.model.clear(self.workspace, i)
            # the advantage is too high if the observed labels are certain, else too low
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
        return self._leave_by_mixing(i)

    @cython.final
    cdef int _leave_by_mixing(self, Py_ssize_t i) except -1 nogil:
        """Take a step from a single labeling if no advantage increased the dual value.

        The labeling may be wrong while every advantage makes the observed labeling
        certain. The share is then found by bisection, between shares with which the
        distribution stays at the wrong labeling and shares with which the dual value
        decreases.
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
        # up to rounding errors, the labeling is the optimum of the block
        self._gaps[i] = 0.0
        return 0

    @cython.final
    cdef int _step(self, Py_ssize_t i) except -1 nogil:
        """Move the natural parameters of an example towards its potentials."""
        cdef double share = self._shares[i], best, norm, gain
        cdef DualStep step
        cdef Py_ssize_t _
        for _ in range(MOST_TRIALS):
            self.oracle_calls += 1
            self.dual.mix(self.workspace, i, share, &step)
            # up to rounding errors, the optimum of the block is reached
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
                # The step was undone, as the true second-order term was larger than
                # predicted. `_take` has stored the measured ratio: try again.
                continue
            # the share is at least halved, as third-order terms matter for long steps
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
        """Apply the prepared change of means to the weights; return whether it stays.

        If w is a truncation of v, the true gain is known only after the step, and a
        step that did not increase the dual value is undone. `curvature` is q.
        """
        cdef double p_i = self.model._example_weights[i], squares, true_gain
        if self.weights._truncates:
            squares = self.weights.squares
            self._move(i, -self._rate(i))
            true_gain = (
                step.loss + step.entropy - self.dual._losses[i]
                - self.dual._entropies[i]
                - 0.5 * (self.weights.squares - squares) / self._rate(i))
            self._measure_part(i, step, true_gain, curvature)
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
    cdef void _measure_part(self, Py_ssize_t i, const DualStep* step, double gain,
                            double curvature) noexcept nogil:
        """Store the ratio ("part") of a step's true second-order term to q/2."""
        cdef double part = 1.0
        if curvature > 0.0:
            part = 2.0 * (step.linear + step.entropy - self.dual._entropies[i]
                          - gain) / curvature
        # rounding errors of small steps can give any value
        part = min(max(part, LEAST_PART), 1.0)
        self._parts[i] = self.last_part = part

    @cython.final
    cdef int _move(self, Py_ssize_t i, double scale) except -1 nogil:
        """Add the prepared change of means to the weights, and keep it prepared."""
        self.model.scatter(self.workspace, i, scale, self.weights._v)
        if self.weights._asks:
            self.model.touch(self.workspace, i, self.weights)
        return 0
