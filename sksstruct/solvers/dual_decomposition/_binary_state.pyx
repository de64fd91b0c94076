"""Block-greedy coordinate descent for many pairs of binary labels: Algorithm 3.

I. Yen et al. (2016), Sections 3.1 and 3.2 and Appendix C-2; `_binary_blocks.pyx` states
notation and steps. This file decides which pairs are active. A pair becomes active, and
stays so until `deactivate_pairs`, in one of four cases:

* both labels are observed: from the beginning;
* both labels have moved;
* its score is positive and exceeds the sum of the budgets of its two labels, both off:
  the factorwise oracle for interactions reads pairs in descending order of scores;
* its score is negative, one label has q = 1, and the other label would move without the
  pair.

The budget of a label that is off is minus its gain: the largest multiplier that does
not move the label. A pair with a positive score that stays inactive reduces the budgets
of its labels by the score. A new pair begins with multipliers that sum to its score.
"""

from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.models.protocols._factors cimport pair_score
from sksstruct.solvers.dual_decomposition._binary_blocks cimport (
    VECTOR, ActivePair, BinaryBlocks, change_weight, is_active, label_gain,
)
from sksstruct.solvers.dual_decomposition._residuals cimport Residuals, relative_norm
from sksstruct.utils._clock cimport Clock
from sksstruct.utils._pointers cimport (
    const_doubles, const_int32s, const_intps, doubles,
)


cdef class BinaryVisits(BinaryBlocks):
    """Visits of Algorithm 3; see `BinaryGDMMState`."""

    # pairs with a positive score at the start of the pass, in descending order
    cdef const int32_t* _positive_pairs
    cdef Py_ssize_t _n_positive
    # for each label: the sum of the absolute negative scores of its pairs at the start
    # of the pass
    cdef const double* _negative_sum
    # for each label: its budget in the visited example, or -1 if it has none
    cdef double* _budget

    # ---- initial pairs, and deactivation after the first passes ----

    def activate_first(self, sums_):
        """Activate the initial pairs; `sums_` is scratch: zeros (3, n_pairs)."""
        # Rows: for each pair, the sum over examples of C_i times the feature times the
        # least s, the largest s and the observed s. The weight of the pair (10) is the
        # sum for the observed s minus the sum for the s that is chosen here.
        cdef double* sums = doubles(sums_)
        cdef Py_ssize_t i
        with nogil:
            # a pair's weight is a sum over all examples: first sum, then choose each s
            for i in range(self.model.n_examples):
                self._begin_example(i)
                self._mark_moved()
                self._visit_first_pairs(sums, False)
            for i in range(self.model.n_examples):
                self._begin_example(i)
                self._visit_first_pairs(sums, True)

    cdef void _mark_moved(self) noexcept nogil:
        """Set which labels have moved: those with q different from the observed y."""
        cdef Py_ssize_t label
        for label in range(self.model.n_labels):
            self._moved[label] = self._q[label] != self._y_true[label]

    cdef int _visit_first_pairs(self, double* sums, bint activate) except -1 nogil:
        """Sum or choose s for all pairs of an example whose labels may both be on."""
        cdef Py_ssize_t label, neighbor, k
        cdef int32_t pair
        for label in range(self.model.n_labels):
            if not (self._moved[label] or self._y_true[label]):
                continue
            for k in range(self.model._first_neighbor[label],
                           self.model._first_neighbor[label + 1]):
                neighbor = self.model._neighbors[k]
                pair = self.model._neighbor_pairs[k]
                # the lists of both ends contain the pair: visit it once
                if neighbor < label or not (
                        self._moved[neighbor] or self._y_true[neighbor]):
                    continue
                if activate:
                    self._begin_pair(sums, pair, label, neighbor)
                else:
                    self._count_pair(sums, pair, label, neighbor)
        return 0

    cdef void _count_pair(self, double* sums, int32_t pair, Py_ssize_t label,
                          Py_ssize_t neighbor) noexcept nogil:
        """Add the least, the largest and the observed s of a pair to the sums."""
        cdef double C = self._C * self.model.scaling, low, high
        cdef Py_ssize_t n = self.model.n_pairs
        limits(self._q[label], self._q[neighbor], &low, &high)
        sums[pair] += C * low
        sums[n + pair] += C * high
        sums[2 * n + pair] += C * (self._y_true[label] * self._y_true[neighbor])

    cdef int _begin_pair(self, double* sums, int32_t pair, Py_ssize_t label,
                         Py_ssize_t neighbor) except -1 nogil:
        """Choose s such that the weight of a pair is zero if possible.

        The pair is activated unless it is tied to a label.
        """
        cdef double observed = self._y_true[label] * self._y_true[neighbor]
        cdef Py_ssize_t n = self.model.n_pairs
        cdef double low, high, both, fraction = sums[2 * n + pair] - sums[pair]
        limits(self._q[label], self._q[neighbor], &low, &high)
        # In every example, s is moved by the same fraction from its least to its
        # largest value, so that the sum of s is the observed sum. The fraction is
        # clipped, as it may exceed 1; it is infinite if s is fixed in all examples.
        if fraction > 0.0:
            fraction /= sums[n + pair] - sums[pair]
        fraction = 0.0 if fraction < 0.0 else (1.0 if fraction > 1.0 else fraction)
        both = low + fraction * (high - low)
        change_weight(self, pair, both - observed)
        # the pair of an observed label that has not moved and an unobserved label is
        # tied to the unobserved label, and need not be active
        if observed == 0.0 and not (self._moved[label] and self._moved[neighbor]):
            return 0
        return self._append_active(pair, both, 0.0, 0.0)

    def deactivate_pairs(self):
        """Deactivate pairs with a label at its observed value.

        In the first passes, far from the optimum, visits activate many pairs that the
        optimum does not need. Pairs that the optimum needs become active again.
        """
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.model.n_examples):
                self._begin_example(i)
                self._mark_moved()
                self._deactivate()

    cdef void _deactivate(self) noexcept nogil:
        """Keep the active pairs whose labels have both moved, or are both observed."""
        cdef Py_ssize_t label, neighbor, k, n = 0
        cdef ActivePair* item
        for k in range(self._active.size):
            item = &self._active.items[k]
            label = self.model._pairs[item.pair, 0]
            neighbor = self.model._pairs[item.pair, 1]
            if (self._moved[label] and self._moved[neighbor]
                    or self._y_true[label] and self._y_true[neighbor]):
                self._active.items[n] = item[0]
                n += 1
            else:
                # the label that has not moved fixes s again
                change_weight(self, item.pair,
                              self._q[label] * self._q[neighbor] - item.point.both)
        self.n_active -= self._active.size - n
        self._active.size = n

    # ---- one pass ----

    def visit(self, order_, parts_, Py_ssize_t n_parts, Py_ssize_t most, double eta,
              positive_pairs, negative_sum, budget):
        """Make one pass over examples; see `BinaryGDMMState`."""
        cdef const Py_ssize_t* order = const_intps(order_)
        cdef const double* parts = const_doubles(parts_)
        cdef Py_ssize_t n = len(order_), k, i, L = self.model.n_labels, width, low
        cdef Residuals sums
        cdef Clock clock = Clock()
        memset(&sums, 0, sizeof(Residuals))
        self._positive_pairs = const_int32s(positive_pairs)
        self._n_positive = len(positive_pairs)
        self._negative_sum, self._budget = const_doubles(negative_sum), doubles(budget)
        self._square_moved = self.block_gap = 0.0
        # -1 is the number of no example, so that no pair is marked as active
        for k in range(self.model.n_pairs):
            self._active_in[k] = -1
        width = (L + n_parts - 1) // n_parts
        width = min((width + VECTOR - 1) // VECTOR * VECTOR if n_parts > 1 else L, L)
        with nogil:
            for k in range(n):
                if clock.late():
                    break
                i = order[k]
                low = <Py_ssize_t> (parts[i] * ((L + width - 1) // width)) * width
                self._begin_example(i)
                self._visit(low, low + width if low + width < L else L, most)
            # all multipliers are updated after the whole pass, as in (13)
            for i in range(self.model.n_examples):
                self._begin_example(i)
                self._move_multipliers(eta, &sums)
        clock.check()
        self.infeasibility = sums.distance / max(2 * self.n_active, 1)
        self.primal_residual = relative_norm(sums.square, sums.size)
        self.dual_residual = relative_norm(self._square_moved, sums.multipliers)

    cdef int _visit(self, Py_ssize_t low, Py_ssize_t high,
                    Py_ssize_t most) except -1 nogil:
        """Visit the example: activate pairs, then make steps of labels and of pairs."""
        cdef Py_ssize_t k, label
        self._gather_gains(low, high)
        self._activate_negative()
        self._activate_positive(most)
        # every visit makes steps of all labels that have moved, which are few, and of
        # all labels of its part
        for k in range(self._n_movers):
            self._step_label(self._movers[k])
        for label in range(low, high):
            if not self._moved[label]:
                self._step_label(label)
        # the list includes pairs that the steps of labels have activated
        for k in range(self._active.size):
            self._step_pair(&self._active.items[k])
        return 0

    # ---- the oracles ----

    cdef int _activate_positive(self, Py_ssize_t n_left) except -1 nogil:
        """Activate at most `n_left` pairs of labels that are off, largest scores first.

        A pair whose score is at most the sum of the remaining budgets of its two labels
        stays inactive.
        """
        cdef Py_ssize_t k, label, neighbor
        cdef int32_t pair
        cdef double score, first, second, shortfall
        cdef double* budget = self._budget
        # budgets are recomputed for each visit, as pairs use them up
        self._set_budgets()
        self.model.visited += self._n_positive
        for k in range(self._n_positive):
            pair = self._positive_pairs[k]
            label, neighbor = self.model._pairs[pair, 0], self.model._pairs[pair, 1]
            first, second = budget[label], budget[neighbor]
            # a label that is observed or has moved has no budget, as its pairs become
            # active by other rules
            if first < 0.0 or second < 0.0 or is_active(self, pair):
                continue
            score = pair_score(self.model, pair)
            # the score was positive at the start of the pass, and may have changed
            # since
            if score <= 0.0:
                continue
            if first + second >= score:
                # the pair uses up a part of the budgets
                budget[label] -= score * first / (first + second)
                budget[neighbor] -= score * second / (first + second)
            elif n_left:
                n_left -= 1
                # the multipliers sum to the score: each exceeds the budget of its label
                # by half of the shortfall, so that both labels move
                shortfall = 0.5 * (score - first - second)
                self._activate(pair, first + shortfall, second + shortfall)
                budget[label] = budget[neighbor] = 0.0
        return 0

    cdef void _set_budgets(self) noexcept nogil:
        """Set the budgets of labels that stay off; all other labels get -1."""
        cdef Py_ssize_t label
        cdef double budget
        for label in range(self.model.n_labels):
            self._budget[label] = -1.0
            # the budget is zero if the label moves even without further pairs
            if not (self._y_true[label] or self._moved[label]):
                budget = -label_gain(self, label)
                self._budget[label] = budget if budget > 0.0 else 0.0

    cdef int _activate_negative(self) except -1 nogil:
        """Activate pairs with a negative score of a label with q = 1.

        A pair is activated if its neighbor would move without the pair.
        """
        cdef Py_ssize_t label, neighbor, k
        cdef int32_t pair
        cdef double score
        for label in range(self.model.n_labels):
            # if the gain is at least the sum of the absolute negative scores of the
            # label's pairs, the label stays on even if all neighbors in them turn on
            if (self._q[label] < 1.0
                    or label_gain(self, label) >= self._negative_sum[label]):
                continue
            for k in range(self.model._first_neighbor[label],
                           self.model._first_neighbor[label + 1]):
                neighbor = self.model._neighbors[k]
                pair = self.model._neighbor_pairs[k]
                score = pair_score(self.model, pair)
                # the neighbor's gain is evaluated only for the few pairs with a
                # negative score
                if score >= -self.ignore or is_active(self, pair):
                    continue
                self.model.visited += 1
                # the multipliers leave the neighbor's gain unchanged, and lower the
                # label's gain by the absolute score
                if label_gain(self, neighbor) - score > 0.0:
                    self._activate(pair, score, score)
        return 0


cdef inline void limits(double first, double second, double* low,
                        double* high) noexcept nogil:
    """Write the least and the largest s that the probabilities of two labels allow."""
    low[0] = first + second - 1.0 if first + second > 1.0 else 0.0
    high[0] = first if first < second else second
