"""Block-greedy coordinate descent for many pairs of binary labels: Algorithm 3.

I. Yen et al. (2016), Sections 3.1 and 3.2 and Appendix C-2; notation and steps are
stated in `_binary_blocks.pyx`. What is here is which pairs are active. Pairs are
activated, and stay active but for `deactivate_pairs`:

    those of labels that are both observed, from the beginning;
    those of two labels that have moved;
    those with a positive score of labels that stay off and cannot pay for it, from a
    list in descending order: the factorwise oracle for interactions;
    those with a negative score of an observed label and one that would move but for it.

To pay for a score is to have a multiplier against it: the multipliers of a new pair are
what its labels can pay, so that a pair whose score does not matter stays where it is.
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

    # of one pass: pairs with a positive score, descending; sums of a label's negative
    # scores; what labels can pay
    cdef const int32_t* _positive_pairs
    cdef Py_ssize_t _n_positive
    cdef const double* _negative_sum
    cdef double* _budget

    # ---- the first pairs, and those that came in too early ----

    def activate_first(self, sums_):
        """Activate the first pairs; sums, of shape (3, n_pairs), are zero."""
        # for each pair sums of the least, the most and the observed s, times C_i and
        # the feature: the parts of its weight
        cdef double* sums = doubles(sums_)
        cdef Py_ssize_t i
        with nogil:
            # a weight is a sum over all examples, so that all are counted first
            for i in range(self.model.n_examples):
                self._begin_example(i)
                self._note_moves()
                self._begin(sums, False)
            for i in range(self.model.n_examples):
                self._begin_example(i)
                self._begin(sums, True)

    cdef void _note_moves(self) noexcept nogil:
        """Take for moved the labels that are not where they were observed."""
        cdef Py_ssize_t label
        for label in range(self.model.n_labels):
            self._moved[label] = self._q[label] != self._y_true[label]

    cdef int _begin(self, double* sums, bint activate) except -1 nogil:
        """Count, or activate, the pairs of labels that may both be on."""
        cdef Py_ssize_t label, neighbor, k
        cdef int32_t pair
        for label in range(self.model.n_labels):
            if not (self._moved[label] or self._y_true[label]):
                continue
            for k in range(self.model._first_neighbor[label],
                           self.model._first_neighbor[label + 1]):
                neighbor = self.model._neighbors[k]
                pair = self.model._neighbor_pairs[k]
                # both ends list the pair, which counts once
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
        """Add the least, the most and the observed s of a pair to the sums."""
        cdef double C = self._C * self.model.scaling, low, high
        cdef Py_ssize_t n = self.model.n_pairs
        limits(self._q[label], self._q[neighbor], &low, &high)
        sums[pair] += C * low
        sums[n + pair] += C * high
        sums[2 * n + pair] += C * (self._y_true[label] * self._y_true[neighbor])

    cdef int _begin_pair(self, double* sums, int32_t pair, Py_ssize_t label,
                         Py_ssize_t neighbor) except -1 nogil:
        """Activate a pair at an s; over all examples these sum to the observed ones."""
        cdef double observed = self._y_true[label] * self._y_true[neighbor]
        cdef Py_ssize_t n = self.model.n_pairs
        cdef double low, high, both, share = sums[2 * n + pair] - sums[pair]
        limits(self._q[label], self._q[neighbor], &low, &high)
        # the same part of every example's range; an end of it where the observed sum is
        # outside, or infinity says that no example has a range
        if share > 0.0:
            share /= sums[n + pair] - sums[pair]
        share = 0.0 if share < 0.0 else (1.0 if share > 1.0 else share)
        both = low + share * (high - low)
        change_weight(self, pair, both - observed)
        # of an observed label that stays and one that was not observed, the pair is
        # tied to the second, and need not be active
        if observed == 0.0 and not (self._moved[label] and self._moved[neighbor]):
            return 0
        return self._append(pair, both, 0.0, 0.0)

    def deactivate_pairs(self):
        """Deactivate pairs with a label that has its observed value.

        Many pairs become active before the weights are right. Those that matter become
        active again.
        """
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.model.n_examples):
                self._begin_example(i)
                self._note_moves()
                self._deactivate()

    cdef void _deactivate(self) noexcept nogil:
        """Keep the active pairs of two labels that have moved, or are observed."""
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
                # the label that stays fixes s again
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
        # no example, so that marks of the last pass do not count
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
            # all constraints at the same time, as (13) has it
            for i in range(self.model.n_examples):
                self._begin_example(i)
                self._move_multipliers(eta, &sums)
        clock.check()
        self.infeasibility = sums.distance / max(2 * self.n_active, 1)
        self.primal_residual = relative_norm(sums.square, sums.size)
        self.dual_residual = relative_norm(self._square_moved, sums.multipliers)

    cdef int _visit(self, Py_ssize_t low, Py_ssize_t high,
                    Py_ssize_t most) except -1 nogil:
        """Visit the example: find pairs, then steps for labels, then for pairs."""
        cdef Py_ssize_t k, label
        self._gather(low, high)
        self._activate_negative()
        self._activate_positive(most)
        # labels that have moved are few, and visited whatever the part
        for k in range(self._n_movers):
            self._step_label(self._movers[k])
        for label in range(low, high):
            if not self._moved[label]:
                self._step_label(label)
        # pairs that came in with the steps of their labels included
        for k in range(self._active.size):
            self._step_pair(&self._active.items[k])
        return 0

    # ---- the oracles ----

    cdef int _activate_positive(self, Py_ssize_t most) except -1 nogil:
        """Activate pairs of labels that were not observed, the largest scores first.

        A label that stays has a budget, what it loses by moving; a pair whose score its
        labels' budgets can pay has no reason to come in.
        """
        cdef Py_ssize_t k, label, neighbor
        cdef int32_t pair
        cdef double score, first, second, missing
        cdef double* budget = self._budget
        # budgets are of the visit: pairs that are activated use them up
        self._set_budgets()
        self.model.visited += self._n_positive
        for k in range(self._n_positive):
            pair = self._positive_pairs[k]
            label, neighbor = self.model._pairs[pair, 0], self.model._pairs[pair, 1]
            first, second = budget[label], budget[neighbor]
            # an end without a budget is observed or has moved: other rules are for it
            if first < 0.0 or second < 0.0 or is_active(self, pair):
                continue
            score = pair_score(self.model, pair)
            # it was positive when the pass began
            if score <= 0.0:
                continue
            if first + second >= score:
                # what one pair takes from a budget no later pair can have
                budget[label] -= score * first / (first + second)
                budget[neighbor] -= score * second / (first + second)
            elif most:
                most -= 1
                # what is missing makes both of them move
                missing = 0.5 * (score - first - second)
                self._activate(pair, first + missing, second + missing)
                budget[label] = budget[neighbor] = 0.0
        return 0

    cdef void _set_budgets(self) noexcept nogil:
        """Give labels that stay off what they can pay, and the others -1."""
        cdef Py_ssize_t label
        cdef double budget
        for label in range(self.model.n_labels):
            self._budget[label] = -1.0
            # one that would move anyway has nothing to pay with
            if not (self._y_true[label] or self._moved[label]):
                budget = -label_gain(self, label)
                self._budget[label] = budget if budget > 0.0 else 0.0

    cdef int _activate_negative(self) except -1 nogil:
        """Activate pairs of a label that is on and one that only they keep in place."""
        cdef Py_ssize_t label, neighbor, k
        cdef int32_t pair
        cdef double score
        for label in range(self.model.n_labels):
            # a label that can pay for all of its pairs is not searched
            if (self._q[label] < 1.0
                    or label_gain(self, label) >= self._negative_sum[label]):
                continue
            for k in range(self.model._first_neighbor[label],
                           self.model._first_neighbor[label + 1]):
                neighbor = self.model._neighbors[k]
                pair = self.model._neighbor_pairs[k]
                score = pair_score(self.model, pair)
                # most scores are not: the neighbor's gain is looked at for the others
                if score >= -self.ignore or is_active(self, pair):
                    continue
                self.model.visited += 1
                # the multiplier leaves the neighbor's gain what it was while the pair
                # was tied; from now on the label pays as much
                if label_gain(self, neighbor) - score > 0.0:
                    self._activate(pair, score, score)
        return 0


cdef inline void limits(double first, double second, double* low,
                        double* high) noexcept nogil:
    """Write the least and the most s of labels with these probabilities."""
    low[0] = first + second - 1.0 if first + second > 1.0 else 0.0
    high[0] = first if first < second else second
