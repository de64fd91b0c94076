"""Block-coordinate Frank-Wolfe: the visit of one example, compiled.

Osokin et al. (2016), Algorithms 1-5 and 9, with duals in the space of mean parameters.
Block i holds a mixture of labelings; theta_i are the potentials, and

    value(y) = L_i(y) + <theta_i, mu(y)>         value(mu_i) = sum_y alpha_i(y) value(y)
    gap_i    = p_i ( max_y value(y) - value(mu_i) )
    v       += p_i/alpha A_i^T (mu_i_old - mu_i_new)

A step of size g moves the mixture along (s - a), with a source a and a target s that
are labelings or the mixture itself. It has

    slope = value(s) - value(a)       curvature = p_i/alpha |A_i^T (mu(s) - mu(a))|^2
    dual gain = p_i (g slope - g^2/2 curvature)           g = slope / curvature, clipped

or, without line search, g = 2n / (k + 2n) at visit k = 0, 1, ... of n blocks.

`Blocks` stores the blocks, and `_directions.pxd` chooses source and target. If the
example has a Gram matrix, a visit takes several steps without reading features again:
with M[y, z] = <A_i^T (mu(y) - mu(y_i)), A_i^T (mu(z) - mu(y_i))>, a step changes
value(y) - value(y_i) by - g p_i/alpha (M[s, y] - M[a, y]); only differences matter.

Below, j and k number the labelings of a block, and MIXTURE is the number of the
mixture; `self.value[j]` is value(y) of labeling j; the rate is p_i/alpha.
"""

cimport cython

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.solvers.frank_wolfe._blocks cimport Block, Blocks
from sksstruct.solvers.frank_wolfe._directions cimport (
    AWAY, FW, MIXTURE, PAIRWISE, Direction, best_labeling, find_direction, line_search,
    move_weights,
)
from sksstruct.solvers.frank_wolfe._sampling cimport SumTree
from sksstruct.utils._pointers cimport const_doubles, const_intps, doubles, int32s
from sksstruct.utils._simd cimport sks_prefetch

from sksstruct.utils._layout import aligned_zeros

STEPS = {"fw": FW, "pairwise": PAIRWISE, "away": AWAY}

# The struct of a block, which has the addresses of its arrays, is prefetched this
# number of visits ahead: reading memory takes as long as a few visits of small
# examples. The arrays are prefetched one visit ahead.
cdef enum:
    FAR_AHEAD = 4

# Steps of a visit end when the slope is less than this fraction of the first slope.
cdef double LEAST_SLOPE = 0.01
# Sampling by gap ends when the sum of estimates falls below this fraction of the last
# exact gap.
cdef double LEAST_ESTIMATES = 0.01


# The class is final, so that private methods are called directly and inlined: a visit
# of a small example takes no longer than a few indirect calls.
@cython.final
cdef class BCFWKernel(Blocks):
    """Dual variables of BCFW, and compiled passes over the examples.

    Parameters
    ----------
    model : BoundModel
        The model with its data.
    weights : Weights
        The iterate; initially zero.
    alpha : float
        Regularization.
    step, step_size, cache, cache_factor, cache_nu, inner_steps, max_cached
        As in `sksstruct.solvers.BCFW`.
    sample_by_gap : bool
        Whether `visit_by_gap` will be called.
    """

    cdef int step
    cdef bint searches                 # whether steps have a line search
    # number of visits, never reset; `iterate` is reset when an average begins
    cdef public double visits
    cdef double factor, nu
    cdef Py_ssize_t inner_steps
    # for each block, an estimate of its gap: the gap at the last visit with the oracle,
    # or at the last check; and the tree that samples blocks by these estimates
    cdef readonly object gaps_
    cdef double* gaps
    cdef SumTree tree
    cdef bint sample_by_gap
    cdef public double gap_total       # sum of block gaps at the last check, or inf
    cdef public double loss_average
    cdef public double gain            # increase of the dual since the last reset

    def __init__(self, BoundModel model, Weights weights, double alpha, *, step, cache,
                 cache_factor, cache_nu, inner_steps, max_cached, sample_by_gap,
                 step_size="line_search"):
        self.step = STEPS[step]
        self.searches = step_size == "line_search"
        # pairwise and away steps, and the cache, need the labelings of the mixture
        Blocks.__init__(
            self, model, weights, alpha, cache=cache, max_cached=max_cached,
            use_means=self.step == FW and not cache and model.has_means)
        self.factor, self.nu = cache_factor, cache_nu
        self.inner_steps = inner_steps
        self.gaps_ = aligned_zeros(self.n_blocks)
        self.gaps = doubles(self.gaps_)
        self.sample_by_gap = sample_by_gap
        # without sampling by gap, the tree is not used
        self.tree = SumTree(self.n_blocks if sample_by_gap else 1)
        # without an exact gap, infinity keeps `_threshold` from accepting cached
        # labelings
        self.gap_total = INFINITY

    # ---- passes ----

    def visit_in_order(self, order_):
        """Visit the given blocks one after the other, with the oracle."""
        cdef const Py_ssize_t* order = const_intps(order_)
        cdef Py_ssize_t k, n = len(order_)
        with nogil:
            for k in range(n):
                # the addresses of arrays are prefetched a few visits before the arrays
                if k + FAR_AHEAD < n:
                    self.model.prefetch(order[k + FAR_AHEAD], False)
                    self._prefetch_numbers(order[k + FAR_AHEAD])
                if k + 1 < n:
                    self._prefetch(order[k + 1])
                self._visit(order[k], True)

    def visit_known(self, order_, double least):
        """Visit blocks without the oracle, using only known labelings.

        Skips blocks whose promise, the gap over the known labelings at the last visit,
        is at most `least`. Returns the number of visits.
        """
        cdef const Py_ssize_t* order = const_intps(order_)
        cdef Py_ssize_t k, n = len(order_), visits = 0
        with nogil:
            for k in range(n):
                # steps in other blocks have changed the gap since, but rarely by much
                if self.promises[order[k]] > least:
                    self._visit(order[k], False)
                    visits += 1
        return visits

    def visit_by_gap(self, uniforms_):
        """Visit blocks drawn in proportion to their gap estimates (Alg. 2).

        Returns the number of visits. Visits end once the sum of the estimates is at
        most a hundredth of the last exact gap, as the estimates are then too
        inaccurate.
        """
        cdef const double* uniforms = const_doubles(uniforms_)
        cdef Py_ssize_t k, n = len(uniforms_), visits = 0
        cdef double least = 0.0
        if self.gap_total != INFINITY:
            least = LEAST_ESTIMATES * self.gap_total
        with nogil:
            for k in range(n):
                if self.tree.total() <= least:
                    break
                # no prefetch: the next draw depends on the gap found in this visit
                self._visit(self.tree.find(uniforms[k]), True)
                visits += 1
        return visits

    cdef int _visit(self, Py_ssize_t i, bint oracle) except -1 nogil:
        """Load the potentials of an example, and make steps in its block."""
        self.model.potentials(self.workspace, i)
        if self.use_means:
            self._visit_means(i)
        else:
            self._visit_labelings(i, oracle)
        # a visit that does not change the block is counted, too: it repeats the iterate
        self.iterate += 1.0
        self.visits += 1.0
        return 0

    cdef void _prefetch_numbers(self, Py_ssize_t i) noexcept nogil:
        """Prefetch the entries of a block in the arrays over all blocks."""
        sks_prefetch(&self.blocks[i], sizeof(Block))
        sks_prefetch(&self.losses[i], sizeof(double))
        sks_prefetch(&self.gaps[i], sizeof(double))
        sks_prefetch(&self.model._example_weights[i], sizeof(double))

    cdef void _prefetch(self, Py_ssize_t i) noexcept nogil:
        """Prefetch the arrays of a block and of its example."""
        cdef Block* block = &self.blocks[i]
        self.model.prefetch(i, True)
        if self.use_means:
            sks_prefetch(block.keys, block.n_keys * sizeof(int32_t))
            sks_prefetch(block.values, block.n_keys * sizeof(double))
        else:
            sks_prefetch(block.labelings,
                         block.n_labelings * self.model._sizes[i] * sizeof(int32_t))
            sks_prefetch(block.weight, block.n_labelings * sizeof(double))
            sks_prefetch(block.gram, block.n_gram * block.capacity * sizeof(double))

    # ---- certificates ----

    def check(self, Workspace ws, Py_ssize_t start, Py_ssize_t stop, hinge_, gaps_):
        """Write max_y H_i(y) and the block gaps of start <= i < stop (Alg. 2, 15-20).

        This method only reads the state, so that threads may share the work.
        """
        cdef Py_ssize_t i
        cdef double best, true_value, mixture_value, gap
        # each call has its own scratch, as threads would share the scratch of visits
        labeling = aligned_zeros(self.model.max_size, "i4")
        cdef int32_t* y = int32s(labeling)
        cdef double* hinge = doubles(hinge_)
        cdef double* gaps = doubles(gaps_)
        with nogil:
            for i in range(start, stop):
                self.model.potentials(ws, i)
                self.model.y_true(i, y)
                self.model.evaluate(ws, i, y, &true_value)
                mixture_value = self._mixture_value(ws, i)
                self.model.decode(ws, i, y, &best)
                hinge[i] = best - true_value
                gap = self.model._example_weights[i] * (best - mixture_value)
                # rounding errors may make the gap of an optimal block negative
                gaps[i] = gap if gap > 0.0 else 0.0

    cdef double _mixture_value(self, Workspace ws, Py_ssize_t i) except? -1.0 nogil:
        """Return value(mu_i); the potentials include the loss."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t j
        cdef double value, total = 0.0
        if self.use_means:
            self.model.evaluate_mean(ws, i, block.n_keys, block.keys, block.values,
                                     &total)
            return total
        for j in range(block.n_labelings):
            # with a cache, most labelings have weight zero, and need no evaluation
            if block.weight[j] > 0.0:
                self.model.evaluate(
                    ws, i, block.labelings + j * self.model._sizes[i], &value)
                total += block.weight[j] * value
        return total

    def set_gaps(self, gaps):
        """Replace the estimates by exact block gaps after a full check."""
        self.gaps_[:] = gaps
        self.gap_total = gaps.sum()
        if self.sample_by_gap:
            self.tree.fill(self.gaps_)

    cdef void _set_gap(self, Py_ssize_t i, double gap) noexcept nogil:
        """Set the estimate of a block's gap to the gap found in a visit."""
        # sampling needs estimates that are not negative
        self.gaps[i] = gap if gap > 0.0 else 0.0
        if self.sample_by_gap:
            self.tree.set(i, self.gaps[i])

    # ---- the average of the iterates ----

    # With rho_k = 2/(k+2), the average is the mean of the iterates with weights 1, 2,
    # ..., k. A change at iterate k enters all later iterates, so that the mean is v - u
    # / (k (k+1) / 2) with u = sum_k (k-1) k / 2 change_k: a visit updates only the
    # entries that it changes.

    def average(self, bint begin):
        """Restart the average of the iterates if `begin`, else stop collecting it."""
        if begin:
            self.iterate = 0.0
            self.loss_average = 0.0
            self.weights.u[:] = 0.0
        self.weights.collect_average(begin)

    cdef double _average_factor(self) noexcept nogil:
        """Return the factor of a change in u, (k-1) k / 2 at visit k."""
        return self.iterate * (self.iterate + 1.0) / 2.0

    cdef int _apply_change(self, Py_ssize_t i, double scale) except -1 nogil:
        """Add the prepared change to the iterate, and to u for the average."""
        return self.model.apply_change(self.workspace, i, self.weights, scale,
                                       self._average_factor())

    cdef void _set_loss(self, Py_ssize_t i, double loss) noexcept nogil:
        """Set the loss of a block's mixture, and update the linear term of the dual."""
        cdef double change = self.model._example_weights[i] * (loss - self.losses[i])
        self.losses[i] = loss
        self.loss += change
        # the loss is averaged like the weights, as the dual value of the average needs
        # both averages
        self.loss_average += self._average_factor() * change

    cdef double _step_size(self, double slope, double curvature,
                           double limit) noexcept nogil:
        """Return the step size, by line search or by the number of visits so far."""
        if self.searches:
            return line_search(slope, curvature, limit)
        # k counts from zero, so that the first step has size 1
        return 2.0 * self.n_blocks / (self.visits + 2.0 * self.n_blocks)

    # ---- visits of mean parameters ----

    cdef int _visit_means(self, Py_ssize_t i) except -1 nogil:
        """Visit a block of mean parameters: Algorithm 1, lines 4-11."""
        cdef Block* block = &self.blocks[i]
        cdef double p_i = self.model._example_weights[i], rate = p_i / self.alpha
        cdef double best, mixture_value, loss, norm, slope, curvature, step
        cdef Py_ssize_t count, entry
        self.model.evaluate_mean(self.workspace, i, block.n_keys, block.keys,
                                 block.values, &mixture_value)
        self.model.decode(self.workspace, i, self.decoded, &best)
        self.oracle_calls += 1
        slope = best - mixture_value
        self._set_gap(i, p_i * slope)
        if slope <= 0.0 and self.searches:
            return 0
        self.model.loss(i, self.decoded, &loss)
        count = self.model.indicator(i, self.decoded, self.keys)
        # this call also adds the keys of the labeling to the block
        self._subtract_keys(block, count)
        self.model.add_mean(self.workspace, i, block.n_keys, block.keys,
                            self.difference, 1.0, NULL)
        self.model.change_norm(self.workspace, i, &norm)
        curvature = rate * norm
        step = self._step_size(slope, curvature, 1.0)
        self._apply_change(i, step * p_i / self.alpha)
        self.gain += p_i * step * (slope - 0.5 * step * curvature)
        self._set_loss(i, (1.0 - step) * self.losses[i] + step * loss)
        # after a step of size 1 the mixture is one labeling: other keys are removed
        if step == 1.0:
            return self._restart_means(block, count)
        for entry in range(block.n_keys):
            block.values[entry] -= step * self.difference[entry]
        return 0

    # ---- visits of labelings ----

    cdef int _visit_labelings(self, Py_ssize_t i, bint oracle) except -1 nogil:
        """Visit a block of labelings: Algorithms 3, 4 and 5."""
        cdef double p_i = self.model._example_weights[i], mixture_value
        cdef Py_ssize_t best = self._evaluate_labelings(i, &mixture_value)
        # cache hit: a known labeling that gains enough saves the oracle call (Alg. 5)
        if oracle and not (self.cache and p_i * (self.value[best] - mixture_value)
                           >= self._threshold(i)):
            best = self._ask_oracle(i, mixture_value)
        # `visit_known` skips blocks with a small promise
        self.promises[i] = p_i * (self.value[best] - mixture_value)
        # with bounds, the Gram matrix does not give the objective along a step
        if (self.inner_steps > 1 and self.searches and self.weights._lower == NULL
                and self.model.has_gram(self.workspace, i)):
            self._take_inner_steps(i, best)
        else:
            self._take_one_step(i, best, mixture_value)
        # labelings are removed at the end, as steps may have made weights zero
        return self._drop(i)

    cdef Py_ssize_t _evaluate_labelings(self, Py_ssize_t i,
                                        double* mixture_value) except -1 nogil:
        """Evaluate the labelings of a block and their mixture; return the best one."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j, best = 0
        cdef double total = 0.0
        for j in range(block.n_labelings):
            self.model.evaluate(self.workspace, i, block.labelings + j * size,
                                &self.value[j])
            total += block.weight[j] * self.value[j]
            if self.value[j] > self.value[best]:
                best = j
        mixture_value[0] = total
        return best

    cdef Py_ssize_t _ask_oracle(self, Py_ssize_t i,
                                double mixture_value) except -1 nogil:
        """Decode an example; return the number of the labeling, appended if new."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t number
        cdef double best
        self.model.decode(self.workspace, i, self.decoded, &best)
        self.oracle_calls += 1
        self._set_gap(i, self.model._example_weights[i] * (best - mixture_value))
        number = self._find(block, self.model._sizes[i], self.decoded)
        # a known labeling keeps its value, which may differ by rounding errors
        if number == block.n_labelings:
            self._append(i, self.decoded)
            self.value[number] = best
        return number

    cdef double _threshold(self, Py_ssize_t i) noexcept nogil:
        """Return the least gap with which a known labeling saves the oracle call.

        This is the cache hit criterion of Section 3.3.
        """
        cdef double local, overall
        # no cache hits without a gap estimate or with an infinite factor: the products
        # below may be NaN
        if self.factor == INFINITY or self.gaps[i] == INFINITY:
            return INFINITY
        local = self.factor * self.gaps[i]
        overall = self.nu / self.n_blocks * self.gap_total
        return local if local > overall else overall

    # ---- one step ----

    cdef int _take_one_step(self, Py_ssize_t i, Py_ssize_t best,
                            double mixture_value) except -1 nogil:
        """Take one step, which reads features (Algorithms 1, 3, 4)."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t j
        cdef double p_i = self.model._example_weights[i]
        cdef double norm, curvature, step, loss = 0.0
        cdef Direction direction = find_direction(
            self.step, block, self.value, best, mixture_value)
        if direction.slope <= 0.0 and self.searches:
            return 0
        self._prepare_change(i, &direction)
        self.model.change_norm(self.workspace, i, &norm)
        curvature = p_i / self.alpha * norm
        step = self._step_size(direction.slope, curvature, direction.limit)
        self._apply_change(i, step * p_i / self.alpha)
        self.gain += p_i * step * (direction.slope - 0.5 * step * curvature)
        move_weights(block, &direction, step)
        # the loss is recomputed, so that rounding errors do not accumulate
        for j in range(block.n_labelings):
            loss += block.weight[j] * block.loss[j]
        self._set_loss(i, loss)
        return 0

    cdef int _prepare_change(self, Py_ssize_t i, Direction* direction) except -1 nogil:
        """Prepare mu(source) - mu(target), the change of means of a whole step."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j
        if direction.target != MIXTURE:
            self.model.add_labeling(
                self.workspace, i, block.labelings + direction.target * size, -1.0)
        if direction.source != MIXTURE:
            self.model.add_labeling(
                self.workspace, i, block.labelings + direction.source * size, 1.0)
        if direction.target != MIXTURE and direction.source != MIXTURE:
            return 0
        # the mixture is the source or the target: all its labelings are added
        for j in range(block.n_labelings):
            if block.weight[j] > 0.0:
                self.model.add_labeling(
                    self.workspace, i, block.labelings + j * size, block.weight[j]
                    if direction.source == MIXTURE else -block.weight[j])
        return 0

    # ---- several steps ----

    cdef int _take_inner_steps(self, Py_ssize_t i, Py_ssize_t best) except -1 nogil:
        """Take several steps among the known labelings, then change the weights once.

        The Gram matrix gives exact values after every step.
        """
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t j, turn
        cdef double p_i = self.model._example_weights[i], rate = p_i / self.alpha
        cdef double curvature, step, first_slope = 0.0
        cdef Direction direction
        self._extend_gram(i)
        # at the end, w changes by the differences from the old weights of labelings
        for j in range(block.n_labelings):
            self.old_weight[j] = block.weight[j]
        for turn in range(self.inner_steps):
            # in turn 0, the target is the given labeling, even if another labeling has
            # the same value
            if turn:
                best = best_labeling(block, self.value)
            direction = find_direction(
                self.step, block, self.value, best, self._mean_value(block))
            # stop when another step would gain little compared with the first one
            if direction.slope <= 0.0 or direction.slope < LEAST_SLOPE * first_slope:
                break
            if turn == 0:
                first_slope = direction.slope
            if direction.target != MIXTURE and direction.source != MIXTURE:
                step = self._step_between(block, &direction, rate, &curvature)
            else:
                step = self._step_from_mixture(block, &direction, rate, &curvature)
            self.gain += p_i * step * (direction.slope - 0.5 * step * curvature)
            move_weights(block, &direction, step)
        return self._apply_weight_changes(i, rate)

    cdef double _mean_value(self, Block* block) noexcept nogil:
        """Return the value of the mixture, or 0 if no direction depends on it."""
        cdef Py_ssize_t j
        cdef double total = 0.0
        # the slopes of pairwise directions do not contain the value of the mixture
        if self.step != PAIRWISE:
            for j in range(block.n_labelings):
                total += block.weight[j] * self.value[j]
        return total

    cdef double _step_between(self, Block* block, Direction* way, double rate,
                              double* curvature) noexcept nogil:
        """Return the size of a step between two labelings, and update all values."""
        cdef Py_ssize_t j, target = way.target, source = way.source
        cdef const double* target_row = block.gram + target * block.capacity
        cdef const double* source_row = block.gram + source * block.capacity
        cdef double step
        # |s - a|^2 = M[s, s] - 2 M[s, a] + M[a, a]
        curvature[0] = rate * (
            target_row[target] - 2.0 * target_row[source] + source_row[source])
        step = line_search(way.slope, curvature[0], way.limit)
        for j in range(block.n_labelings):
            self.value[j] -= step * rate * (target_row[j] - source_row[j])
        return step

    cdef double _step_from_mixture(self, Block* block, Direction* way, double rate,
                                   double* curvature) noexcept nogil:
        """Return the size of a step from or to the mixture, and update all values."""
        cdef Py_ssize_t j
        cdef Py_ssize_t corner = way.source if way.target == MIXTURE else way.target
        cdef const double* row = block.gram + corner * block.capacity
        cdef double step, change, square = row[corner]
        self._multiply_mixture(block)
        # |s - mixture|^2 does not depend on the sign of the direction
        for j in range(block.n_labelings):
            square += block.weight[j] * (self.mixture[j] - 2.0 * row[j])
        curvature[0] = square * rate
        step = line_search(way.slope, curvature[0], way.limit)
        change = -step * rate if way.target == MIXTURE else step * rate
        for j in range(block.n_labelings):
            self.value[j] -= change * (row[j] - self.mixture[j])
        return step

    cdef void _multiply_mixture(self, Block* block) noexcept nogil:
        """Compute the inner products of the mixture with all labelings."""
        cdef Py_ssize_t j, k
        cdef const double* row
        for j in range(block.n_labelings):
            self.mixture[j] = 0.0
        # with a cache, most labelings have weight zero, and their rows are not read
        for k in range(block.n_labelings):
            if block.weight[k] > 0.0:
                row = block.gram + k * block.capacity
                for j in range(block.n_labelings):
                    self.mixture[j] += block.weight[k] * row[j]

    cdef int _apply_weight_changes(self, Py_ssize_t i, double rate) except -1 nogil:
        """Change w by the changes of the labelings' weights.

        The change of means is divided by its largest weight change, as a model may
        treat entries far below 1 as rounding errors; the scale multiplies it back.
        """
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j
        cdef double change, loss = 0.0, largest = 0.0
        for j in range(block.n_labelings):
            change = self.old_weight[j] - block.weight[j]
            if change > largest or -change > largest:
                largest = change if change > 0.0 else -change
        for j in range(block.n_labelings):
            loss += block.weight[j] * block.loss[j]
            change = self.old_weight[j] - block.weight[j]
            # most weights do not change; `largest` is positive if any weight changes
            if change != 0.0:
                self.model.add_labeling(self.workspace, i, block.labelings + j * size,
                                        change / largest)
        self._apply_change(i, rate * largest)
        self._set_loss(i, loss)
        return 0
