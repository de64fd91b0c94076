"""Block-coordinate Frank-Wolfe: the visit of one example, compiled.

Osokin et al. (2016), Algorithms 1-5 and 9, with duals in the space of mean parameters.
Block i holds a mixture of labelings; theta_i are the potentials, and

    value(y) = L_i(y) + <theta_i, mu(y)>         value(mu_i) = sum_y alpha_i(y) value(y)
    gap_i    = p_i ( max_y value(y) - value(mu_i) )
    v       += p_i/alpha A_i^T (mu_i_old - mu_i_new)

A step of size g along (s - a), s and a labelings or the mixture itself, has

    slope = value(s) - value(a)       curvature = p_i/alpha |A_i^T (mu(s) - mu(a))|^2
    dual gain = p_i (g slope - g^2/2 curvature)           g = slope / curvature, clipped

Two forms of a block. Plain Frank-Wolfe steps without a cache need only mu_i, a sparse
list of keys. All else keeps labelings and their weights, the active set S_i and, with
a cache, labelings of weight zero (C_i, S_i a part of it). Where the example's Gram
matrix is at hand, several steps are taken on a visit without touching features again:
with M[y, z] = <A_i^T (mu(y) - mu(y_i)), A_i^T (mu(z) - mu(y_i))>, a step changes
value(y) - value(y_i) by - g p_i/alpha (M[s, y] - M[a, y]); only differences count.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from sksstruct.models._base cimport BoundModel, Workspace
from sksstruct.solvers._sampling cimport SumTree
from sksstruct.utils._arena cimport Arena
from sksstruct.utils._simd cimport sks_prefetch


cdef enum Step:
    FW = 0
    PAIRWISE = 1
    AWAY = 2

STEPS = {"fw": FW, "pairwise": PAIRWISE, "away": AWAY}


def fits(state, BoundModel model, bint means):
    """Whether exported duals are of sequences and labels like these, in this form."""
    return state.get("means") == means and state["signature"] == model.signature


cdef struct Block:
    # plain Frank-Wolfe: mean parameters
    Py_ssize_t n_keys, key_capacity
    int32_t* keys
    double* values
    # labelings with weights
    Py_ssize_t n, capacity, n_gram
    int32_t* labelings      # (capacity, size)
    double* weight
    double* loss
    double* gram            # (capacity, capacity), of the first n_gram labelings


cdef class BCFWKernel:
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

    cdef BoundModel model
    cdef Workspace workspace
    cdef readonly double alpha
    cdef int step
    cdef bint cache, use_means
    cdef double factor, nu
    cdef Py_ssize_t inner_steps, max_cached
    cdef Py_ssize_t n_blocks
    cdef Block* blocks
    cdef Arena arena                   # holds the arrays of all blocks
    cdef readonly object gaps_, losses_, promises_
    cdef double[::1] gaps, losses, promises
    cdef SumTree tree
    cdef bint sample_by_gap
    cdef public double gap_total       # at the last full check; inf before
    cdef public double iterate         # k, visits so far
    cdef public double loss, loss_average
    cdef public double gain            # dual increase since it was last reset
    cdef public Py_ssize_t oracle_calls
    cdef double[::1] value, old_weight, mixture
    cdef int32_t[::1] decoded, keys
    cdef int32_t[::1] place

    def __cinit__(self, BoundModel model, double alpha, *, step, cache, cache_factor,
                  cache_nu, inner_steps, max_cached, sample_by_gap):
        self.model = model
        self.workspace = model.workspace()
        self.alpha = alpha
        self.step = STEPS[step]
        self.cache = cache
        self.use_means = self.step == FW and not cache
        self.factor, self.nu = cache_factor, cache_nu
        self.inner_steps, self.max_cached = inner_steps, max_cached
        self.n_blocks = model.n_examples
        self.arena = Arena()
        self.blocks = <Block*> calloc(self.n_blocks, sizeof(Block))
        if self.blocks == NULL:
            raise MemoryError()
        self.gaps_ = np.zeros(self.n_blocks)
        self.losses_ = np.zeros(self.n_blocks)
        self.gaps, self.losses = self.gaps_, self.losses_
        self.promises_ = np.zeros(self.n_blocks)
        self.promises = self.promises_
        self.sample_by_gap = sample_by_gap
        self.tree = SumTree(self.n_blocks if sample_by_gap else 1)
        self.gap_total = INFINITY
        self.value = np.zeros(16)
        self.old_weight = np.zeros(16)
        self.mixture = np.zeros(16)
        self.decoded = np.zeros(model.max_size, dtype=np.int32)
        self.keys = np.zeros(model.max_keys, dtype=np.int32)
        if self.use_means:
            self.place = np.full(model.key_space, -1, dtype=np.int32)
        cdef Py_ssize_t i, n
        for i in range(self.n_blocks):
            model.truth(i, &self.decoded[0])
            if self.use_means:
                n = model.indicator(i, &self.decoded[0], &self.keys[0])
                self._restart_means(&self.blocks[i], n)
            else:
                self._append(i, &self.decoded[0])
                self.blocks[i].weight[0] = 1.0

    def __dealloc__(self):
        free(self.blocks)

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

    def add_known(self, const int32_t[::1] labelings):
        """Let a labeling of every block, in their order, be known."""
        cdef Py_ssize_t i
        cdef const int32_t* y
        with nogil:
            for i in range(self.n_blocks):
                y = &labelings[self.model._starts[i]]
                if self._find(&self.blocks[i], self.model._sizes[i],
                              y) == self.blocks[i].n:
                    self._append(i, y)
                    self.promises[i] = INFINITY
        self.oracle_calls += self.n_blocks

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
                self.model.truth(i, &y[0])
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

    # ---- the dual variables, in and out ----

    def export(self):
        """Dual variables as a dict of flat arrays; see `restore`."""
        cdef Py_ssize_t i, n, n_keys = 0, n_values = 0
        cdef Block* b
        counts = np.empty(self.n_blocks, dtype=np.intp)
        cdef Py_ssize_t[::1] count = counts
        for i in range(self.n_blocks):
            b = &self.blocks[i]
            count[i] = b.n_keys if self.use_means else b.n
            n_values += count[i]
            n_keys += count[i] if self.use_means else count[i] * self.model._sizes[i]
        cdef int32_t[::1] keys = np.empty(n_keys, dtype=np.int32)
        cdef double[::1] values = np.empty(n_values)
        n_keys = n_values = 0
        for i in range(self.n_blocks):
            b = &self.blocks[i]
            n = count[i] if self.use_means else count[i] * self.model._sizes[i]
            memcpy(&keys[n_keys], b.keys if self.use_means else b.labelings,
                   n * sizeof(int32_t))
            memcpy(&values[n_values], b.values if self.use_means else b.weight,
                   count[i] * sizeof(double))
            n_keys += n
            n_values += count[i]
        return {
            "means": bool(self.use_means),
            "signature": self.model.signature,
            "counts": counts,
            "keys": np.asarray(keys),
            "values": np.asarray(values),
        }

    def restore(self, state):
        """Start from exported dual variables; weights and losses are formed anew.

        Raises ValueError if the state is not accepted.
        """
        if not fits(state, self.model, self.use_means):
            raise ValueError("dual variables of another problem")
        cdef int32_t[::1] keys = np.array(state["keys"])
        cdef double[::1] values = np.array(state["values"])
        cdef const Py_ssize_t[::1] counts = state["counts"]
        cdef Py_ssize_t i, j, n, first_key = 0, first_value = 0
        cdef double value
        cdef Block* b
        self.iterate = 0.0
        # At w = 0 the value of a mixture is its loss.
        self.model.read_from(np.zeros_like(self.model.w))
        for i in range(self.n_blocks):
            b = &self.blocks[i]
            n = counts[i]
            self.model.potentials(self.workspace, i)
            self.model.truth(i, &self.decoded[0])
            self.model.add_labeling(self.workspace, i, &self.decoded[0], 1.0)
            if self.use_means:
                self._reserve_keys(b, n)
                memcpy(b.keys, &keys[first_key], n * sizeof(int32_t))
                memcpy(b.values, &values[first_value], n * sizeof(double))
                b.n_keys = n
                self.model.add_mean(self.workspace, i, n, b.keys, b.values, -1.0,
                                    &value)
                first_key += n
            else:
                b.n = b.n_gram = 0
                value = 0.0
                for j in range(n):
                    self._append(i, &keys[first_key])
                    b.weight[j] = values[first_value + j]
                    value += b.weight[j] * b.loss[j]
                    self.model.add_labeling(
                        self.workspace, i, &keys[first_key], -b.weight[j])
                    first_key += self.model._sizes[i]
            self.losses[i] = value
            first_value += n
            self.model.apply_change(
                self.workspace, i, self.model._example_weights[i] / self.alpha, 0.0)
        self.model.read_from(self.model.w)
        self.loss = float(self.model.example_weights @ self.losses_)

    def start_at(self, const int32_t[::1] labelings):
        """Put all weight on one labeling of each block; the weights must be zero."""
        cdef Py_ssize_t i, n
        cdef const int32_t* y
        cdef Block* b
        for i in range(self.n_blocks):
            b = &self.blocks[i]
            y = &labelings[self.model._starts[i]]
            self.model.loss(i, y, &self.losses[i])
            self.model.potentials(self.workspace, i)
            self.model.truth(i, &self.decoded[0])
            self.model.add_labeling(self.workspace, i, &self.decoded[0], 1.0)
            self.model.add_labeling(self.workspace, i, y, -1.0)
            self.model.apply_change(
                self.workspace, i, self.model._example_weights[i] / self.alpha, 0.0)
            if self.use_means:
                n = self.model.indicator(i, y, &self.keys[0])
                self._restart_means(b, n)
            else:
                b.n = b.n_gram = 0
                self._append(i, y)
                b.weight[0] = 1.0
        self.loss = float(self.model.example_weights @ self.losses_)
        self.oracle_calls += self.n_blocks

    def rescale(self, double share, double alpha):
        """Go on at another alpha, with this share of the duals, the rest on the truth.

        All weights are share alpha_old / alpha of what they were, and the losses share
        of it (Proposition 1 with share = alpha / alpha_old: the weights stay). Gaps are
        those of before.
        """
        cdef Py_ssize_t i, j, n
        cdef Block* b
        for i in range(self.n_blocks):
            b = &self.blocks[i]
            self.model.truth(i, &self.decoded[0])
            self.promises[i] = INFINITY
            self.losses[i] *= share
            if share == 1.0:
                continue
            if self.use_means:
                n = self.model.indicator(i, &self.decoded[0], &self.keys[0])
                for j in range(b.n_keys):
                    b.values[j] *= share
                self._add_keys(b, n, 1.0 - share)
            else:
                for j in range(b.n):
                    b.weight[j] *= share
                j = self._find(b, self.model._sizes[i], &self.decoded[0])
                if j == b.n:
                    self._append(i, &self.decoded[0])
                b.weight[j] += 1.0 - share
        self.loss *= share
        self.model.v *= share * self.alpha / alpha
        if self.model.lower is not None:
            np.clip(self.model.v, self.model.lower, self.model.upper, out=self.model.w)
        self.alpha = alpha

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

    # ---- keeping labelings ----

    cdef Py_ssize_t _find(self, Block* b, Py_ssize_t size,
                          const int32_t* y) noexcept nogil:
        cdef Py_ssize_t j, t
        for j in range(b.n):
            for t in range(size):
                if b.labelings[j * size + t] != y[t]:
                    break
            else:
                return j
        return b.n

    cdef int _append(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        cdef Block* b = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], capacity
        if b.n == b.capacity:
            capacity = 2 * b.capacity if b.capacity else 4
            b.labelings = <int32_t*> self.arena.grow(
                b.labelings, b.n * size * sizeof(int32_t),
                capacity * size * sizeof(int32_t))
            b.weight = <double*> self.arena.grow(
                b.weight, b.n * sizeof(double), capacity * sizeof(double))
            b.loss = <double*> self.arena.grow(
                b.loss, b.n * sizeof(double), capacity * sizeof(double))
            # rows of the Gram matrix get longer: it is formed again when asked for
            b.n_gram = 0
            b.gram = NULL
            b.capacity = capacity
            if capacity > self.value.shape[0]:
                with gil:
                    self._grow(capacity)
        memcpy(b.labelings + b.n * size, y, size * sizeof(int32_t))
        b.weight[b.n] = 0.0
        self.model.loss(i, y, &b.loss[b.n])
        b.n += 1
        return 0

    cdef int _grow(self, Py_ssize_t capacity) except -1:
        value = np.zeros(capacity)
        value[:self.value.shape[0]] = self.value
        self.value = value
        self.old_weight = np.zeros(capacity)
        self.mixture = np.zeros(capacity)
        return 0

    cdef int _extend_gram(self, Py_ssize_t i) except -1 nogil:
        cdef Block* b = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j, k, width = b.capacity
        if b.gram == NULL:
            b.gram = <double*> self.arena.take(width * width * sizeof(double))
            b.n_gram = 0
        for j in range(b.n_gram, b.n):
            self.model.gram_row(self.workspace, i, b.labelings + j * size, j + 1,
                                b.labelings, b.gram + j * width)
            for k in range(j):
                b.gram[k * width + j] = b.gram[j * width + k]
        b.n_gram = b.n
        return 0

    cdef int _drop(self, Py_ssize_t i) except -1 nogil:
        """Forget labelings of weight zero: all without a cache, else the lowest ones
        beyond max_cached. Their weight is zero, so that no iterate changes."""
        cdef Block* b = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j, lowest
        if not self.cache:
            j = 0
            while j < b.n:
                if b.weight[j] <= 0.0:
                    self._remove(b, size, j)
                else:
                    j += 1
            return 0
        while b.n > self.max_cached:
            lowest = -1
            for j in range(b.n):
                if b.weight[j] <= 0.0 and (
                        lowest < 0 or self.value[j] < self.value[lowest]):
                    lowest = j
            if lowest < 0:
                return 0
            self._remove(b, size, lowest)
        return 0

    cdef void _remove(self, Block* b, Py_ssize_t size, Py_ssize_t j) noexcept nogil:
        """Put the last labeling in place of labeling j."""
        cdef Py_ssize_t last = b.n - 1, width = b.capacity, k
        if j != last:
            memcpy(b.labelings + j * size, b.labelings + last * size,
                   size * sizeof(int32_t))
            b.weight[j] = b.weight[last]
            b.loss[j] = b.loss[last]
            self.value[j] = self.value[last]
            if b.n_gram == b.n:
                for k in range(b.n):
                    b.gram[j * width + k] = b.gram[last * width + k]
                for k in range(b.n):
                    b.gram[k * width + j] = b.gram[k * width + last]
                b.gram[j * width + j] = b.gram[last * width + last]
            elif b.n_gram > j:
                b.n_gram = j
        b.n = last
        if b.n_gram > last:
            b.n_gram = last

    cdef int _reserve_keys(self, Block* b, Py_ssize_t n) except -1 nogil:
        cdef Py_ssize_t capacity = b.key_capacity
        if n <= capacity:
            return 0
        capacity = n if n > 2 * capacity else 2 * capacity
        b.keys = <int32_t*> self.arena.grow(
            b.keys, b.n_keys * sizeof(int32_t), capacity * sizeof(int32_t))
        b.values = <double*> self.arena.grow(
            b.values, b.n_keys * sizeof(double), capacity * sizeof(double))
        b.key_capacity = capacity
        return 0

    cdef int _restart_means(self, Block* b, Py_ssize_t n) except -1 nogil:
        """The mixture becomes the labeling whose n keys are in self.keys."""
        b.n_keys = 0
        return self._add_keys(b, n, 1.0)

    cdef int _add_keys(self, Block* b, Py_ssize_t n, double g) except -1 nogil:
        """Add g to the mean parameters whose n keys are in self.keys."""
        cdef Py_ssize_t q, k
        self._reserve_keys(b, b.n_keys + n)
        for q in range(b.n_keys):
            self.place[b.keys[q]] = <int32_t> q
        for q in range(n):
            k = self.place[self.keys[q]]
            if k < 0:
                k = b.n_keys
                b.n_keys += 1
                b.keys[k] = self.keys[q]
                b.values[k] = 0.0
                self.place[self.keys[q]] = <int32_t> k
            b.values[k] += g
        for q in range(b.n_keys):
            self.place[b.keys[q]] = -1
        return 0
