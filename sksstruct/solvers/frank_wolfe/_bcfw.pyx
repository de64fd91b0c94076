"""Block-coordinate Frank-Wolfe: the visit of one example, compiled.

Osokin et al. (2016), Algorithms 1-5 and 9, with duals in the space of mean parameters.
Block i holds a mixture of labelings; theta_i are the potentials, and

    value(y) = L_i(y) + <theta_i, mu(y)>         value(mu_i) = sum_y alpha_i(y) value(y)
    gap_i    = p_i ( max_y value(y) - value(mu_i) )
    v       += p_i/alpha A_i^T (mu_i_old - mu_i_new)

A step of size g along (s - a), s and a labelings or the mixture itself, has

    slope = value(s) - value(a)       curvature = p_i/alpha |A_i^T (mu(s) - mu(a))|^2
    dual gain = p_i (g slope - g^2/2 curvature)           g = slope / curvature, clipped

Blocks are kept by `Blocks`. Where the example's Gram matrix is at hand, several steps
are taken on a visit without touching features again: with
M[y, z] = <A_i^T (mu(y) - mu(y_i)), A_i^T (mu(z) - mu(y_i))>, a step changes
value(y) - value(y_i) by - g p_i/alpha (M[s, y] - M[a, y]); only differences count.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.models.protocols._base cimport BoundModel, Workspace
from sksstruct.solvers.frank_wolfe._blocks cimport Block, Blocks
from sksstruct.solvers.frank_wolfe._sampling cimport SumTree
from sksstruct.utils._simd cimport sks_prefetch


cdef enum Step:
    FW = 0
    PAIRWISE = 1
    AWAY = 2

STEPS = {"fw": FW, "pairwise": PAIRWISE, "away": AWAY}


cdef class BCFWKernel(Blocks):
    """State of the dual and the compiled passes over it.

    Parameters
    ----------
    model : BoundModel
        The model with its data, started.
    alpha : float
        Regularisation.
    step, cache, cache_factor, cache_nu, inner_steps, max_cached
        As in `sksstruct.solvers.BCFW`.
    """

    cdef int step
    cdef double factor, nu
    cdef Py_ssize_t inner_steps
    cdef readonly object gaps_
    cdef double[::1] gaps
    cdef SumTree tree
    cdef bint sample_by_gap
    cdef public double gap_total       # at the last full check; inf before
    cdef public double loss_average
    cdef public double gain            # dual increase since it was last reset

    def __init__(self, BoundModel model, double alpha, *, step, cache, cache_factor,
                 cache_nu, inner_steps, max_cached, sample_by_gap):
        self.step = STEPS[step]
        Blocks.__init__(self, model, alpha, use_means=self.step == FW and not cache,
                        cache=cache, max_cached=max_cached)
        self.factor, self.nu = cache_factor, cache_nu
        self.inner_steps = inner_steps
        self.gaps_ = np.zeros(self.n_blocks)
        self.gaps = self.gaps_
        self.sample_by_gap = sample_by_gap
        self.tree = SumTree(self.n_blocks if sample_by_gap else 1)
        self.gap_total = INFINITY

    # ---- passes ----

    def visit_in_order(self, const Py_ssize_t[::1] order):
        """Visit the given blocks."""
        cdef Py_ssize_t k
        with nogil:
            for k in range(order.shape[0]):
                if k + 4 < order.shape[0]:
                    self.model.prefetch(order[k + 4], False)
                    sks_prefetch(&self.blocks[order[k + 4]], sizeof(Block))
                if k + 1 < order.shape[0]:
                    self._prefetch(order[k + 1])
                self._visit(order[k], True)

    def visit_known(self, const Py_ssize_t[::1] order, double least):
        """Visit blocks without the oracle, using known labelings only.

        Left out are blocks where the last visit promised a gain of no more than least.
        Returns the number of visits.
        """
        cdef Py_ssize_t k, visits = 0
        with nogil:
            for k in range(order.shape[0]):
                if self.promises[order[k]] > least:
                    self._visit(order[k], False)
                    visits += 1
        return visits

    def visit_by_gap(self, const double[::1] uniforms):
        """Visit blocks drawn in proportion to their gap estimates (Alg. 2).

        Returns the number of visits: fewer than asked for once the estimates together
        are a hundredth of the gap last computed, or zero. They tell little then.
        """
        cdef Py_ssize_t k, visits = 0
        cdef double least = 0.0
        if self.gap_total != INFINITY:
            least = 0.01 * self.gap_total
        with nogil:
            for k in range(uniforms.shape[0]):
                if self.tree.total() <= least:
                    break
                self._visit(self.tree.find(uniforms[k]), True)
                visits += 1
        return visits

    def check(self, Workspace ws, Py_ssize_t start, Py_ssize_t stop, double[::1] hinge,
              double[::1] gaps):
        """Write max_y H_i(y) and the block gaps of start <= i < stop (Alg. 2, 15-20).

        Reads the state only, so that threads may share the work.
        """
        cdef Py_ssize_t i, j
        cdef double best, true_value, mean, value
        cdef int32_t[::1] y = np.empty(self.model.max_size, dtype=np.int32)
        cdef Block* b
        with nogil:
            for i in range(start, stop):
                b = &self.blocks[i]
                self.model.potentials(ws, i)
                self.model.y_true(i, &y[0])
                self.model.evaluate(ws, i, &y[0], &true_value)
                # the value of a mixture counts the loss of the potentials once
                if self.use_means:
                    self.model.evaluate_mean(ws, i, b.n_keys, b.keys, b.values, &mean)
                else:
                    mean = 0.0
                    for j in range(b.n):
                        if b.weight[j] > 0.0:
                            self.model.evaluate(
                                ws, i, b.labelings + j * self.model._sizes[i], &value)
                            mean += b.weight[j] * value
                self.model.decode(ws, i, &y[0], &best)
                hinge[i] = best - true_value
                value = self.model._example_weights[i] * (best - mean)
                gaps[i] = value if value > 0.0 else 0.0

    def set_gaps(self, gaps):
        """Take over exact block gaps after a full check."""
        self.gaps_[:] = gaps
        self.gap_total = gaps.sum()
        if self.sample_by_gap:
            self.tree.fill(self.gaps_)

    def average(self, bint begin):
        """Let the average of the iterates begin here, or stop collecting it."""
        if begin:
            self.iterate = 0.0
            self.loss_average = 0.0
            self.model.u[:] = 0.0
        self.model.collect_average(begin)

    # ---- one visit ----

    cdef int _visit(self, Py_ssize_t i, bint oracle) except -1 nogil:
        self.model.potentials(self.workspace, i)
        if self.use_means:
            self._visit_means(i)
        else:
            self._visit_labelings(i, oracle)
        # Weighted averaging, rho_k = 2/(k+2): the mean of the iterates with weights
        # 1, 2, ..., k. A change at iterate k enters all later ones, so that the mean is
        # v - u / (k (k+1) / 2) with u = sum_k (k-1) k / 2 change_k.
        self.iterate += 1.0
        return 0

    cdef void _prefetch(self, Py_ssize_t i) noexcept nogil:
        cdef Block* b = &self.blocks[i]
        self.model.prefetch(i, True)
        if self.use_means:
            sks_prefetch(b.keys, b.n_keys * sizeof(int32_t))
            sks_prefetch(b.values, b.n_keys * sizeof(double))
        else:
            sks_prefetch(b.labelings, b.n * self.model._sizes[i] * sizeof(int32_t))
            sks_prefetch(b.weight, b.n * sizeof(double))
            sks_prefetch(b.gram, b.n_gram * b.capacity * sizeof(double))

    cdef double _average(self) noexcept nogil:
        return self.iterate * (self.iterate + 1.0) / 2.0

    cdef int _measured(self, Py_ssize_t i, double gap) except -1 nogil:
        self.gaps[i] = gap if gap > 0.0 else 0.0
        if self.sample_by_gap:
            self.tree.set(i, self.gaps[i])
        return 0

    cdef void _change_loss(self, Py_ssize_t i, double loss) noexcept nogil:
        cdef double change = self.model._example_weights[i] * (loss - self.losses[i])
        self.losses[i] = loss
        self.loss += change
        self.loss_average += self._average() * change

    cdef int _visit_means(self, Py_ssize_t i) except -1 nogil:
        """Algorithm 1, lines 4-11."""
        cdef Block* b = &self.blocks[i]
        cdef double p = self.model._example_weights[i]
        cdef double best, mean, loss, norm, slope, curvature, g
        cdef Py_ssize_t n, q
        self.model.add_mean(self.workspace, i, b.n_keys, b.keys, b.values, 1.0, &mean)
        self.model.decode(self.workspace, i, &self.decoded[0], &best)
        self.oracle_calls += 1
        slope = best - mean
        self._measured(i, p * slope)
        if slope <= 0.0:
            return self.model.apply_change(self.workspace, i, 0.0, 0.0)
        self.model.loss(i, &self.decoded[0], &loss)
        self.model.add_labeling(self.workspace, i, &self.decoded[0], -1.0)
        self.model.change_norm(self.workspace, i, &norm)
        curvature = p / self.alpha * norm
        g = slope / curvature if slope < curvature else 1.0
        self.model.apply_change(self.workspace, i, g * p / self.alpha, self._average())
        self.gain += p * g * (slope - 0.5 * g * curvature)
        self._change_loss(i, (1.0 - g) * self.losses[i] + g * loss)
        n = self.model.indicator(i, &self.decoded[0], &self.keys[0])
        if g == 1.0:
            self._restart_means(b, n)
            return 0
        for q in range(b.n_keys):
            b.values[q] *= 1.0 - g
        return self._add_keys(b, n, g)

    cdef int _visit_labelings(self, Py_ssize_t i, bint oracle) except -1 nogil:
        cdef Block* b = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j, s = 0, steps
        cdef double p = self.model._example_weights[i]
        cdef double mean = 0.0, best
        for j in range(b.n):
            self.model.evaluate(self.workspace, i, b.labelings + j * size,
                                &self.value[j])
            mean += b.weight[j] * self.value[j]
            if self.value[j] > self.value[s]:
                s = j
        if oracle and not (
                self.cache and p * (self.value[s] - mean) >= self._threshold(i)):
            self.model.decode(self.workspace, i, &self.decoded[0], &best)
            self.oracle_calls += 1
            self._measured(i, p * (best - mean))
            s = self._find(b, size, &self.decoded[0])
            if s == b.n:
                self._append(i, &self.decoded[0])
                self.value[s] = best
        self.promises[i] = p * (self.value[s] - mean)
        steps = self.inner_steps
        if steps > 1 and (self.model._lower != NULL
                          or not self.model.has_gram(self.workspace, i)):
            steps = 1
        if steps > 1:
            self._many_steps(i, s, steps)
        else:
            self._one_step(i, s, mean)
        self._drop(i)
        return 0

    cdef double _threshold(self, Py_ssize_t i) noexcept nogil:
        """Cache hit criterion (section 3.3): enough progress, locally and globally."""
        if self.factor == INFINITY or self.gaps[i] == INFINITY:
            return INFINITY
        cdef double local = self.factor * self.gaps[i]
        cdef double overall = self.nu / self.n_blocks * self.gap_total
        return local if local > overall else overall

    cdef Py_ssize_t _worst_active(self, Block* b) noexcept nogil:
        cdef Py_ssize_t j, a = -1
        for j in range(b.n):
            if b.weight[j] > 0.0 and (a < 0 or self.value[j] < self.value[a]):
                a = j
        return a

    cdef int _move(self, Block* b, Py_ssize_t s, Py_ssize_t a, double g) noexcept nogil:
        """Weights after a step: a < 0 is towards s, s < 0 is away from a."""
        cdef Py_ssize_t j
        if a < 0:
            for j in range(b.n):
                b.weight[j] *= 1.0 - g
            b.weight[s] += g
        elif s < 0:
            for j in range(b.n):
                b.weight[j] *= 1.0 + g
            b.weight[a] -= g
        else:
            b.weight[s] += g
            b.weight[a] -= g
        return 0

    cdef double _direction(self, Block* b, Py_ssize_t* s, Py_ssize_t* a, double mean,
                           double* limit) noexcept nogil:
        """Corner to go to (s), corner to leave (a), -1 for the mixture; the slope."""
        cdef double slope
        limit[0] = 1.0
        a[0] = -1
        if self.step == PAIRWISE:
            a[0] = self._worst_active(b)
            if a[0] < 0:  # no weight is a number any more: the next check says so
                return 0.0
            limit[0] = b.weight[a[0]]
            return self.value[s[0]] - self.value[a[0]]
        slope = self.value[s[0]] - mean
        if self.step == AWAY:
            a[0] = self._worst_active(b)
            if a[0] < 0:
                return 0.0
            if slope > mean - self.value[a[0]] or b.weight[a[0]] >= 1.0:
                a[0] = -1
            else:
                s[0] = -1
                slope = mean - self.value[a[0]]
                limit[0] = b.weight[a[0]] / (1.0 - b.weight[a[0]])
        return slope

    cdef int _one_step(self, Py_ssize_t i, Py_ssize_t s, double mean) except -1 nogil:
        """Algorithms 1, 3 and 4: one step through the example's change of means."""
        cdef Block* b = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], a, j
        cdef double p = self.model._example_weights[i]
        cdef double limit, slope, norm, curvature, g, loss = 0.0
        slope = self._direction(b, &s, &a, mean, &limit)
        if slope <= 0.0:
            return 0
        if s >= 0:
            self.model.add_labeling(self.workspace, i, b.labelings + s * size, -1.0)
        if a >= 0:
            self.model.add_labeling(self.workspace, i, b.labelings + a * size, 1.0)
        if s < 0 or a < 0:
            for j in range(b.n):
                if b.weight[j] > 0.0:
                    self.model.add_labeling(
                        self.workspace, i, b.labelings + j * size,
                        b.weight[j] if a < 0 else -b.weight[j])
        self.model.change_norm(self.workspace, i, &norm)
        curvature = p / self.alpha * norm
        g = slope / curvature if slope < limit * curvature else limit
        self.model.apply_change(self.workspace, i, g * p / self.alpha, self._average())
        self.gain += p * g * (slope - 0.5 * g * curvature)
        self._move(b, s, a, g)
        if g == limit:
            self._settle(b, s, a)
        for j in range(b.n):
            loss += b.weight[j] * b.loss[j]
        self._change_loss(i, loss)
        return 0

    cdef int _settle(self, Block* b, Py_ssize_t s, Py_ssize_t a) noexcept nogil:
        """After a step to its limit the weight that was spent is zero, exactly."""
        cdef Py_ssize_t j
        if a >= 0:
            b.weight[a] = 0.0
        else:
            for j in range(b.n):
                b.weight[j] = 1.0 if j == s else 0.0
        return 0

    cdef int _many_steps(self, Py_ssize_t i, Py_ssize_t s,
                         Py_ssize_t steps) except -1 nogil:
        """Up to `steps` steps among the known labelings, then one change of weights."""
        cdef Block* b = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], a, j, k, m, r, width
        cdef double p = self.model._example_weights[i], rate = p / self.alpha
        cdef double limit, slope, curvature, g, change, mean, loss = 0.0, first = 0.0
        cdef double top = 0.0
        cdef const double* row_s
        cdef const double* row_a
        self._extend_gram(i)
        width = b.capacity
        for j in range(b.n):
            self.old_weight[j] = b.weight[j]
        for r in range(steps):
            if r:
                s = 0
                for j in range(1, b.n):
                    if self.value[j] > self.value[s]:
                        s = j
            mean = 0.0
            if self.step != PAIRWISE:
                for j in range(b.n):
                    mean += b.weight[j] * self.value[j]
            slope = self._direction(b, &s, &a, mean, &limit)
            # Stop when another step would win little against the first one.
            if slope <= 0.0 or slope < 0.01 * first:
                break
            if r == 0:
                first = slope
            if s >= 0 and a >= 0:
                row_s, row_a = b.gram + s * width, b.gram + a * width
                curvature = rate * (row_s[s] - 2.0 * row_s[a] + row_a[a])
                g = slope / curvature if slope < limit * curvature else limit
                for j in range(b.n):
                    self.value[j] -= g * rate * (row_s[j] - row_a[j])
            else:
                # against the mixture: its inner products with every labeling
                k = s if s >= 0 else a
                row_s = b.gram + k * width
                curvature = row_s[k]
                for j in range(b.n):
                    self.mixture[j] = 0.0
                for m in range(b.n):
                    if b.weight[m] > 0.0:
                        row_a = b.gram + m * width
                        for j in range(b.n):
                            self.mixture[j] += b.weight[m] * row_a[j]
                for j in range(b.n):
                    curvature += b.weight[j] * (self.mixture[j] - 2.0 * row_s[j])
                curvature *= rate
                g = slope / curvature if slope < limit * curvature else limit
                change = g * rate if s >= 0 else -g * rate
                for j in range(b.n):
                    self.value[j] -= change * (row_s[j] - self.mixture[j])
            self.gain += p * g * (slope - 0.5 * g * curvature)
            self._move(b, s, a, g)
            if g == limit:
                self._settle(b, s, a)
        # The change of means in units of its largest part, as a model may take entries
        # far below 1 for rounding error; the unit goes into the scale.
        for j in range(b.n):
            change = self.old_weight[j] - b.weight[j]
            if change > top or -change > top:
                top = change if change > 0.0 else -change
        for j in range(b.n):
            loss += b.weight[j] * b.loss[j]
            change = self.old_weight[j] - b.weight[j]
            if change != 0.0:
                self.model.add_labeling(self.workspace, i, b.labelings + j * size,
                                        change / top)
        self.model.apply_change(self.workspace, i, rate * top, self._average())
        self._change_loss(i, loss)
        return 0
