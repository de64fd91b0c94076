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

Below, `towards` is the number of the labeling s in the block, `from_` that of a, and -1
stands for the mixture; the rate is p_i/alpha.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.solvers.frank_wolfe._blocks cimport Block, Blocks
from sksstruct.solvers.frank_wolfe._sampling cimport SumTree
from sksstruct.utils._simd cimport sks_prefetch


cdef enum Step:
    FW = 0
    PAIRWISE = 1
    AWAY = 2

STEPS = {"fw": FW, "pairwise": PAIRWISE, "away": AWAY}

# Steps of a visit end when another one would gain less than this part of the first.
cdef double LEAST_SLOPE = 0.01
# Visits by gap end when the estimates are less than this part of the last exact gap.
cdef double LEAST_ESTIMATES = 0.01
cdef Py_ssize_t MIXTURE = -1


cdef struct Direction:
    # from one corner to another, or the mixture, as far as `limit`
    Py_ssize_t towards, from_
    double slope, limit


cdef inline double line_search(double slope, double curvature,
                               double limit) noexcept nogil:
    """The best step along a direction of positive slope."""
    return slope / curvature if slope < limit * curvature else limit


cdef class BCFWKernel(Blocks):
    """State of the dual and the compiled passes over it.

    Parameters
    ----------
    model : BoundModel
        The model with its data.
    weights : Weights
        Zero; the iterate.
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

    def __init__(self, BoundModel model, Weights weights, double alpha, *, step, cache,
                 cache_factor, cache_nu, inner_steps, max_cached, sample_by_gap):
        self.step = STEPS[step]
        Blocks.__init__(
            self, model, weights, alpha, use_means=self.step == FW and not cache,
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
                # what says where memory is comes a few visits before the memory
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
            least = LEAST_ESTIMATES * self.gap_total
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
        cdef Py_ssize_t i
        cdef double best, true_value, mean, value
        cdef int32_t[::1] y = np.empty(self.model.max_size, dtype=np.int32)
        with nogil:
            for i in range(start, stop):
                self.model.potentials(ws, i)
                self.model.y_true(i, &y[0])
                self.model.evaluate(ws, i, &y[0], &true_value)
                mean = self._mixture_value(ws, i)
                self.model.decode(ws, i, &y[0], &best)
                hinge[i] = best - true_value
                value = self.model._example_weights[i] * (best - mean)
                gaps[i] = value if value > 0.0 else 0.0

    cdef double _mixture_value(self, Workspace ws, Py_ssize_t i) except? -1.0 nogil:
        """value(mu_i); the loss of the potentials counts once in it."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t j
        cdef double value, mean = 0.0
        if self.use_means:
            self.model.evaluate_mean(ws, i, block.n_keys, block.keys, block.values,
                                     &mean)
            return mean
        for j in range(block.n):
            if block.weight[j] > 0.0:
                self.model.evaluate(
                    ws, i, block.labelings + j * self.model._sizes[i], &value)
                mean += block.weight[j] * value
        return mean

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
            self.weights.u[:] = 0.0
        self.weights.collect_average(begin)

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
        """Ask for the memory of the next block and its example."""
        cdef Block* block = &self.blocks[i]
        self.model.prefetch(i, True)
        if self.use_means:
            sks_prefetch(block.keys, block.n_keys * sizeof(int32_t))
            sks_prefetch(block.values, block.n_keys * sizeof(double))
        else:
            sks_prefetch(block.labelings,
                         block.n * self.model._sizes[i] * sizeof(int32_t))
            sks_prefetch(block.weight, block.n * sizeof(double))
            sks_prefetch(block.gram, block.n_gram * block.capacity * sizeof(double))

    cdef double _average(self) noexcept nogil:
        """The factor of a change in the average of the iterates."""
        return self.iterate * (self.iterate + 1.0) / 2.0

    cdef int _apply(self, Py_ssize_t i, double scale) except -1 nogil:
        """Add the prepared change to the iterate, and to its average."""
        return self.model.apply_change(self.workspace, i, self.weights, scale,
                                       self._average())

    cdef void _measured(self, Py_ssize_t i, double gap) noexcept nogil:
        """Take note of a block gap."""
        self.gaps[i] = gap if gap > 0.0 else 0.0
        if self.sample_by_gap:
            self.tree.set(i, self.gaps[i])

    cdef void _change_loss(self, Py_ssize_t i, double loss) noexcept nogil:
        """The loss of a block's mixture, and with it the linear term of the dual."""
        cdef double change = self.model._example_weights[i] * (loss - self.losses[i])
        self.losses[i] = loss
        self.loss += change
        self.loss_average += self._average() * change

    cdef int _visit_means(self, Py_ssize_t i) except -1 nogil:
        """Algorithm 1, lines 4-11."""
        cdef Block* block = &self.blocks[i]
        cdef double p = self.model._example_weights[i]
        cdef double best, mean, loss, norm, slope, curvature, step
        cdef Py_ssize_t n, q
        self.model.add_mean(self.workspace, i, block.n_keys, block.keys, block.values,
                            1.0, &mean)
        self.model.decode(self.workspace, i, &self.decoded[0], &best)
        self.oracle_calls += 1
        slope = best - mean
        self._measured(i, p * slope)
        if slope <= 0.0:
            return self.model.clear(self.workspace, i)
        self.model.loss(i, &self.decoded[0], &loss)
        self.model.add_labeling(self.workspace, i, &self.decoded[0], -1.0)
        self.model.change_norm(self.workspace, i, &norm)
        curvature = p / self.alpha * norm
        step = line_search(slope, curvature, 1.0)
        self._apply(i, step * p / self.alpha)
        self.gain += p * step * (slope - 0.5 * step * curvature)
        self._change_loss(i, (1.0 - step) * self.losses[i] + step * loss)
        n = self.model.indicator(i, &self.decoded[0], &self.keys[0])
        if step == 1.0:
            return self._restart_means(block, n)
        for q in range(block.n_keys):
            block.values[q] *= 1.0 - step
        return self._add_keys(block, n, step)

    cdef int _visit_labelings(self, Py_ssize_t i, bint oracle) except -1 nogil:
        """Algorithms 3, 4 and 5: steps among labelings, asking the oracle for one."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j, towards = 0
        cdef double p = self.model._example_weights[i]
        cdef double mean = 0.0, best
        for j in range(block.n):
            self.model.evaluate(self.workspace, i, block.labelings + j * size,
                                &self.value[j])
            mean += block.weight[j] * self.value[j]
            if self.value[j] > self.value[towards]:
                towards = j
        if oracle and not (
                self.cache and p * (self.value[towards] - mean) >= self._threshold(i)):
            self.model.decode(self.workspace, i, &self.decoded[0], &best)
            self.oracle_calls += 1
            self._measured(i, p * (best - mean))
            towards = self._find(block, size, &self.decoded[0])
            if towards == block.n:
                self._append(i, &self.decoded[0])
                self.value[towards] = best
        self.promises[i] = p * (self.value[towards] - mean)
        # a box makes the objective along a step unknown to the Gram matrix
        if (self.inner_steps > 1 and self.weights._lower == NULL
                and self.model.has_gram(self.workspace, i)):
            self._many_steps(i, towards)
        else:
            self._one_step(i, towards, mean)
        self._drop(i)
        return 0

    cdef double _threshold(self, Py_ssize_t i) noexcept nogil:
        """Cache hit criterion (section 3.3): enough progress, locally and globally."""
        if self.factor == INFINITY or self.gaps[i] == INFINITY:
            return INFINITY
        cdef double local = self.factor * self.gaps[i]
        cdef double overall = self.nu / self.n_blocks * self.gap_total
        return local if local > overall else overall

    # ---- directions ----

    cdef Py_ssize_t _worst_active(self, Block* block) noexcept nogil:
        """The labeling of lowest value among those with a weight; -1: there is none."""
        cdef Py_ssize_t j, worst = MIXTURE
        for j in range(block.n):
            if block.weight[j] > 0.0 and (
                    worst < 0 or self.value[j] < self.value[worst]):
                worst = j
        return worst

    cdef Direction _direction(self, Block* block, Py_ssize_t best,
                              double mean) noexcept nogil:
        """Where a step goes, given the best labeling and the value of the mixture."""
        cdef Direction out
        cdef Py_ssize_t worst = MIXTURE
        out.towards, out.from_, out.limit = best, MIXTURE, 1.0
        out.slope = self.value[best] - mean
        if self.step == FW:
            return out
        worst = self._worst_active(block)
        if worst < 0:  # no weight is a number any more: the next check says so
            out.slope = 0.0
        elif self.step == PAIRWISE:
            out.from_, out.limit = worst, block.weight[worst]
            out.slope = self.value[best] - self.value[worst]
        elif not (out.slope > mean - self.value[worst]
                  or block.weight[worst] >= 1.0):
            out.towards, out.from_ = MIXTURE, worst
            out.slope = mean - self.value[worst]
            out.limit = block.weight[worst] / (1.0 - block.weight[worst])
        return out

    cdef void _move(self, Block* block, Direction* way, double step) noexcept nogil:
        """Weights of the labelings after a step."""
        cdef Py_ssize_t j
        if way.towards >= 0 and way.from_ >= 0:
            block.weight[way.towards] += step
            block.weight[way.from_] -= step
        elif way.towards >= 0:
            for j in range(block.n):
                block.weight[j] *= 1.0 - step
            block.weight[way.towards] += step
        else:
            for j in range(block.n):
                block.weight[j] *= 1.0 + step
            block.weight[way.from_] -= step
        if step == way.limit:
            # what was spent is zero, exactly
            if way.from_ >= 0:
                block.weight[way.from_] = 0.0
            else:
                for j in range(block.n):
                    block.weight[j] = 1.0 if j == way.towards else 0.0

    # ---- steps ----

    cdef int _one_step(self, Py_ssize_t i, Py_ssize_t best,
                       double mean) except -1 nogil:
        """Algorithms 1, 3 and 4: one step through the example's change of means."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j
        cdef double p = self.model._example_weights[i]
        cdef double norm, curvature, step, loss = 0.0
        cdef Direction way = self._direction(block, best, mean)
        if way.slope <= 0.0:
            return 0
        if way.towards >= 0:
            self.model.add_labeling(
                self.workspace, i, block.labelings + way.towards * size, -1.0)
        if way.from_ >= 0:
            self.model.add_labeling(
                self.workspace, i, block.labelings + way.from_ * size, 1.0)
        if way.towards < 0 or way.from_ < 0:
            for j in range(block.n):
                if block.weight[j] > 0.0:
                    self.model.add_labeling(
                        self.workspace, i, block.labelings + j * size,
                        block.weight[j] if way.from_ < 0 else -block.weight[j])
        self.model.change_norm(self.workspace, i, &norm)
        curvature = p / self.alpha * norm
        step = line_search(way.slope, curvature, way.limit)
        self._apply(i, step * p / self.alpha)
        self.gain += p * step * (way.slope - 0.5 * step * curvature)
        self._move(block, &way, step)
        for j in range(block.n):
            loss += block.weight[j] * block.loss[j]
        self._change_loss(i, loss)
        return 0

    cdef int _many_steps(self, Py_ssize_t i, Py_ssize_t best) except -1 nogil:
        """Several steps among the known labelings, then one change of the weights."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t j, turn
        cdef double p = self.model._example_weights[i], rate = p / self.alpha
        cdef double curvature, step, mean, first = 0.0
        cdef Direction way
        self._extend_gram(i)
        for j in range(block.n):
            self.old_weight[j] = block.weight[j]
        for turn in range(self.inner_steps):
            if turn:
                best = 0
                for j in range(1, block.n):
                    if self.value[j] > self.value[best]:
                        best = j
            mean = 0.0
            if self.step != PAIRWISE:
                for j in range(block.n):
                    mean += block.weight[j] * self.value[j]
            way = self._direction(block, best, mean)
            # stop when another step would win little against the first one
            if way.slope <= 0.0 or way.slope < LEAST_SLOPE * first:
                break
            if turn == 0:
                first = way.slope
            if way.towards >= 0 and way.from_ >= 0:
                step = self._step_between(block, &way, rate, &curvature)
            else:
                step = self._step_from_mixture(block, &way, rate, &curvature)
            self.gain += p * step * (way.slope - 0.5 * step * curvature)
            self._move(block, &way, step)
        return self._apply_weight_changes(i, rate)

    cdef double _step_between(self, Block* block, Direction* way, double rate,
                              double* curvature) noexcept nogil:
        """A pairwise step; the values of all labelings are those after it."""
        cdef Py_ssize_t j, s = way.towards, a = way.from_
        cdef const double* row_s = block.gram + s * block.capacity
        cdef const double* row_a = block.gram + a * block.capacity
        cdef double step
        curvature[0] = rate * (row_s[s] - 2.0 * row_s[a] + row_a[a])
        step = line_search(way.slope, curvature[0], way.limit)
        for j in range(block.n):
            self.value[j] -= step * rate * (row_s[j] - row_a[j])
        return step

    cdef double _step_from_mixture(self, Block* block, Direction* way, double rate,
                                   double* curvature) noexcept nogil:
        """A step between a labeling and the mixture, in either direction.

        The inner products of the mixture with every labeling are formed for it.
        """
        cdef Py_ssize_t j, other, width = block.capacity
        cdef Py_ssize_t corner = way.towards if way.towards >= 0 else way.from_
        cdef const double* row = block.gram + corner * width
        cdef const double* row_of_other
        cdef double step, change, square = row[corner]
        for j in range(block.n):
            self.mixture[j] = 0.0
        for other in range(block.n):
            if block.weight[other] > 0.0:
                row_of_other = block.gram + other * width
                for j in range(block.n):
                    self.mixture[j] += block.weight[other] * row_of_other[j]
        for j in range(block.n):
            square += block.weight[j] * (self.mixture[j] - 2.0 * row[j])
        curvature[0] = square * rate
        step = line_search(way.slope, curvature[0], way.limit)
        change = step * rate if way.towards >= 0 else -step * rate
        for j in range(block.n):
            self.value[j] -= change * (row[j] - self.mixture[j])
        return step

    cdef int _apply_weight_changes(self, Py_ssize_t i, double rate) except -1 nogil:
        """Change w by what the labelings' weights have changed by.

        The change of means is in units of its largest part, as a model may take entries
        far below 1 for rounding error; the unit goes into the scale.
        """
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j
        cdef double change, loss = 0.0, largest = 0.0
        for j in range(block.n):
            change = self.old_weight[j] - block.weight[j]
            if change > largest or -change > largest:
                largest = change if change > 0.0 else -change
        for j in range(block.n):
            loss += block.weight[j] * block.loss[j]
            change = self.old_weight[j] - block.weight[j]
            if change != 0.0:
                self.model.add_labeling(self.workspace, i, block.labelings + j * size,
                                        change / largest)
        self._apply(i, rate * largest)
        self._change_loss(i, loss)
        return 0
