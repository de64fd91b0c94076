"""Block-greedy coordinate descent for many pairs of binary labels: Algorithm 3.

I. Yen et al. (2016), Sections 3.1 and 3.2 and Appendix C-2. A label that is on with
probability q_j, and a pair that is on together with probability s and has marginals
a, b. In units of p_i, with C = p_i / alpha and multipliers lambda = 2 rho u, the
augmented Lagrangian of an example is that of `_gdmm.pyx`,

    alpha/2 |w|^2 - sum_j loss_j(q_j)
        + sum_(pairs, ends) lambda (a - q_j) + rho (a - q_j)^2

(both outcomes of a label differ by the same amount, hence no rho/2). What a label gains
by q_j is score + loss + sum over its pairs of lambda + 2 rho (a - q_j), and a step for
a label is exact; so is that for a pair, where s is the root of a monotone function.

Pairs that were not let in are consistent with their labels without multipliers: a label
that is where it was observed fixes what the pair does, s = q_j y_k. Their scores count
for the label that may move. Let in are, once and for all,

    pairs of labels that are both observed, from the beginning;
    pairs of two labels that have moved;
    pairs with a positive score of labels that stay off and cannot pay for it, from a
    list in descending order: the factorwise oracle for interactions;
    pairs with a negative score of an observed label and one that would move but for it.

The multipliers of a new pair are what its labels can pay, so that a pair whose score
does not matter stays where it is.
"""

import numpy as np

from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, realloc

from sksstruct.models.protocols._factors cimport BinaryFactorModel
from sksstruct.solvers.dual_decomposition._pair_step cimport PairPoint, step_pair

# Least curvature of a label, in units of C.
cdef double TINY = 1e-9


cdef struct ActivePair:
    int32_t pair
    PairPoint at              # marginals, and probability of both
    double first, second      # multipliers


cdef struct Active:
    Py_ssize_t n, room
    ActivePair* items


cdef class BinaryGDMMState:
    """State of Algorithm 3 on labels and pairs of them.

    Parameters
    ----------
    model : BinaryFactorModel
        The model; its weights are written.
    alpha : float
        Regularisation.
    rho : float
        Weight of the quadratic terms.

    Attributes
    ----------
    infeasibility : float
        Mean distance between the marginals of pairs that were let in and the
        probabilities of their labels, in the last pass.
    primal_residual, dual_residual : float
        As of `GDMMState`.
    calls : int
        Labels and pairs that were visited.
    n_active : int
        Pairs that were let in, over all examples.
    """

    cdef readonly BinaryFactorModel model
    cdef readonly double alpha, infeasibility, primal_residual, dual_residual
    cdef public double rho, ignore
    cdef readonly double block_gap
    cdef readonly int64_t calls, n_active
    cdef Active* _active
    cdef double[:, ::1] _q
    cdef unsigned char[:, ::1] _moved
    cdef double[::1] _score, _tied, _sum, _negative, _budget
    cdef int32_t[::1] _count, _ties, _mark, _order, _present
    cdef Py_ssize_t _n_present
    cdef double _shift

    def __cinit__(self, BinaryFactorModel model, double alpha, double rho):
        cdef Py_ssize_t n = model.n_examples, L = model.n_labels
        self.model, self.alpha, self.rho = model, alpha, rho
        self._active = <Active*> calloc(n + 1, sizeof(Active))
        if self._active == NULL:
            raise MemoryError()
        self._q = np.array(model._y_true, dtype=np.float64)
        self._moved = np.zeros((n, L), dtype=np.uint8)
        # whole vectors are written at the end
        self._score, self._tied = np.zeros(L + 32), np.zeros(L)
        self._sum, self._count = np.zeros(L), np.zeros(L, dtype=np.int32)
        self._ties = np.zeros(L, dtype=np.int32)
        self._negative, self._budget = np.zeros(L), np.zeros(L)
        self._mark = np.zeros(model.n_pairs + 1, dtype=np.int32)
        self._present = np.zeros(L + 1, dtype=np.int32)

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self._active != NULL:
            for i in range(self.model.n_examples):
                free(self._active[i].items)
        free(self._active)

    cdef int _let_in(self, Py_ssize_t i, int32_t pair, double a, double b, double s,
                     double first, double second) except -1 nogil:
        cdef Active* active = &self._active[i]
        cdef ActivePair* item
        cdef Py_ssize_t room
        if active.n == active.room:
            room = 2 * active.room if active.room else 4
            item = <ActivePair*> realloc(active.items, room * sizeof(ActivePair))
            if item == NULL:
                with gil:
                    raise MemoryError()
            active.items, active.room = item, room
        item = &active.items[active.n]
        item.pair, item.at.a, item.at.b, item.at.s = pair, a, b, s
        item.first, item.second = first, second
        active.n += 1
        self.n_active += 1
        return 0

    # ---- labels alone ----

    def visit_alone(self, const Py_ssize_t[::1] order):
        """One pass without pairs: a support vector machine for each label."""
        cdef Py_ssize_t k, i, j, L = self.model.n_labels
        cdef double C, gain, new
        self.block_gap = 0.0
        with nogil:
            for k in range(order.shape[0]):
                i = order[k]
                C = self.model._example_weights[i] / self.alpha
                self.model.scores(i, 0, L, &self._score[0])
                self.calls += L
                for j in range(L):
                    gain = self._score[j] + (-1.0 if self.model._y_true[i, j] else 1.0)
                    new = C * self.model.norm(i)
                    new = self._q[i, j] + gain / (new if new > TINY * C else TINY * C)
                    new = 0.0 if new < 0.0 else (1.0 if new > 1.0 else new)
                    if new != self._q[i, j]:
                        self.model.add(i, j, -C * (new - self._q[i, j]))
                        self._q[i, j] = new

    def begin_pairs(self):
        """Let in the pairs of labels that are observed or have moved so far.

        Each s is between the least and the most that the labels allow, as far as makes
        the weight of its pair zero, so that the objective stays what it is.
        """
        cdef double[:, ::1] sums = np.zeros((3, self.model.n_pairs + 1))
        cdef Py_ssize_t i, j
        with nogil:
            for i in range(self.model.n_examples):
                for j in range(self.model.n_labels):
                    self._moved[i, j] = self._q[i, j] != self.model._y_true[i, j]
            self._begin(sums, False)
            self._begin(sums, True)

    cdef int _begin(self, double[:, ::1] sums, bint enter) except -1 nogil:
        """Sums of the least and the most s and of the observed ones; or enter them."""
        cdef Py_ssize_t i, j, a, k
        cdef double C, s, low, high, q, share
        cdef int32_t pair
        for i in range(self.model.n_examples):
            C = self.model._example_weights[i] / self.alpha * self.model.scaling
            for j in range(self.model.n_labels):
                if not (self._moved[i, j] or self.model._y_true[i, j]):
                    continue
                for a in range(self.model._near_first[j],
                               self.model._near_first[j + 1]):
                    k, pair = self.model._near[a], self.model._near_pair[a]
                    if k < j or not (self._moved[i, k] or self.model._y_true[i, k]):
                        continue
                    high = self._q[i, j] + self._q[i, k]
                    low = high - 1.0 if high > 1.0 else 0.0
                    high = self._q[i, j]
                    high = high if high < self._q[i, k] else self._q[i, k]
                    q = self.model._y_true[i, j] * self.model._y_true[i, k]
                    if not enter:
                        sums[0, pair] += C * low
                        sums[1, pair] += C * high
                        sums[2, pair] += C * q
                        continue
                    share = sums[2, pair] - sums[0, pair]
                    if share > 0.0:
                        share /= sums[1, pair] - sums[0, pair]
                    share = 0.0 if share < 0.0 else (1.0 if share > 1.0 else share)
                    s = low + share * (high - low)
                    self.model._pair_weights[pair] -= C * (s - q)
                    # an observed label that stays, and another that was not observed
                    if q == 0.0 and not (self._moved[i, j] and self._moved[i, k]):
                        continue
                    if self.model._pairs[pair, 0] == j:
                        self._let_in(i, pair, self._q[i, j], self._q[i, k], s, 0.0, 0.0)
                    else:
                        self._let_in(i, pair, self._q[i, k], self._q[i, j], s, 0.0, 0.0)
        return 0

    def forget(self):
        """Let go of pairs of labels of which one is where it was observed.

        Many come in before the weights are right; those that matter come in again.
        """
        cdef Py_ssize_t i, j, k, p, n
        cdef double C, s
        cdef Active* active
        cdef ActivePair* item
        with nogil:
            for i in range(self.model.n_examples):
                C = self.model._example_weights[i] / self.alpha * self.model.scaling
                for j in range(self.model.n_labels):
                    self._moved[i, j] = self._q[i, j] != self.model._y_true[i, j]
                active = &self._active[i]
                n = 0
                for p in range(active.n):
                    item = &active.items[p]
                    j = self.model._pairs[item.pair, 0]
                    k = self.model._pairs[item.pair, 1]
                    if ((self._moved[i, j] or self.model._y_true[i, j])
                            and (self._moved[i, k] or self.model._y_true[i, k])
                            and (self._moved[i, j] and self._moved[i, k]
                                 or self.model._y_true[i, j]
                                 and self.model._y_true[i, k])):
                        active.items[n] = item[0]
                        n += 1
                        continue
                    s = self._q[i, j] * self._q[i, k]
                    self.model._pair_weights[item.pair] -= C * (s - item.at.s)
                self.n_active -= active.n - n
                active.n = n

    # ---- one pass ----

    def visit(self, const Py_ssize_t[::1] order, const double[::1] parts,
              Py_ssize_t n_parts, Py_ssize_t most, double eta):
        """One pass over examples, and the multipliers' steps.

        Parameters
        ----------
        order : ndarray of shape (n,), intp
            Examples.
        parts : ndarray of shape (n_examples,)
            The part of the labels that each visit scores, as a number in [0, 1).
        n_parts : int
            Number of parts.
        most : int
            Most pairs with a positive score that an example lets in in a visit.
        eta : float
            Step of the multipliers in units of rho.
        """
        cdef Py_ssize_t k, i, L = self.model.n_labels, width, low
        cdef double square = 0.0, size = 0.0, total = 0.0, multipliers = 0.0
        cdef double stats[4]
        v = self.model.scaling * self.model.pair_weights()
        descending = np.argsort(-v, kind="stable")
        self._order = descending[v[descending] > self.ignore].astype(np.int32)
        ends = self.model.pairs
        self._negative = np.bincount(
            ends.ravel(), np.repeat(np.maximum(-v, 0.0), 2), L).astype(np.float64)
        self._shift = self.block_gap = 0.0
        np.asarray(self._mark)[:] = -1
        width = (L + n_parts - 1) // n_parts
        width = min((width + 7) // 8 * 8 if n_parts > 1 else L, L)
        stats[0] = stats[1] = stats[2] = stats[3] = 0.0
        with nogil:
            for k in range(order.shape[0]):
                i = order[k]
                low = <Py_ssize_t> (parts[i] * ((L + width - 1) // width)) * width
                self._visit(i, low, low + width if low + width < L else L, most)
            for i in range(self.model.n_examples):
                self._update(i, eta, stats)
        square, size, total, multipliers = stats[0], stats[1], stats[2], stats[3]
        self.infeasibility = total / max(2 * self.n_active, 1)
        self.primal_residual = (square / size) ** 0.5 if size else 0.0
        self.dual_residual = (self._shift / multipliers) ** 0.5 if multipliers else 0.0

    cdef int _visit(self, Py_ssize_t i, Py_ssize_t low, Py_ssize_t high,
                    Py_ssize_t most) except -1 nogil:
        cdef Py_ssize_t j, k, p
        cdef double C = self.model._example_weights[i] / self.alpha
        cdef double* q = &self._q[i, 0]
        cdef Active* active = &self._active[i]
        cdef ActivePair* item
        self._gather(i, low, high)
        self._let_in_negative(i)
        self._let_in_positive(i, most)
        for p in range(self._n_present):
            self._step_label(i, self._present[p], C)
        for j in range(low, high):
            if not self._moved[i, j]:
                self._step_label(i, j, C)
        for k in range(active.n):
            item = &active.items[k]
            self._step_pair(item, q[self.model._pairs[item.pair, 0]],
                            q[self.model._pairs[item.pair, 1]], C)
        return 0

    cdef void _update(self, Py_ssize_t i, double eta, double* stats) noexcept nogil:
        """The multipliers of an example; sums for the residuals."""
        cdef Py_ssize_t k
        cdef int p
        cdef double r, q, u
        cdef ActivePair* item
        for k in range(self._active[i].n):
            item = &self._active[i].items[k]
            for p in range(2):
                q = self._q[i, self.model._pairs[item.pair, p]]
                r = (item.at.b if p else item.at.a) - q
                if p:
                    item.second += 2.0 * eta * self.rho * r
                else:
                    item.first += 2.0 * eta * self.rho * r
                u = (item.second if p else item.first) / (2.0 * self.rho)
                stats[0] += r * r
                stats[1] += q * q
                stats[2] += fabs(r)
                stats[3] += u * u

    cdef int _gather(self, Py_ssize_t i, Py_ssize_t low,
                     Py_ssize_t high) except -1 nogil:
        """Scores, and what pairs tell labels, for the visit of an example.

        Labels outside the part are scored if they have moved or are observed.
        """
        cdef Py_ssize_t L = self.model.n_labels, j, k, a, t
        cdef double v
        cdef double* q = &self._q[i, 0]
        cdef Active* active = &self._active[i]
        cdef ActivePair* item
        self.model.scores(i, low, high, &self._score[low])
        self._n_present = 0
        for j in range(L):
            self._tied[j] = self._sum[j] = 0.0
            self._count[j] = self._ties[j] = 0
            if self._moved[i, j]:
                self._present[self._n_present] = <int32_t> j
                self._n_present += 1
            if not low <= j < high and (self._moved[i, j] or self.model._y_true[i, j]):
                self._score[j] = self.model.score(i, j)
                self.model.visited += 1
        for k in range(active.n):
            item = &active.items[k]
            self._mark[item.pair] = <int32_t> i
            j = self.model._pairs[item.pair, 0]
            self._sum[j] += item.first + 2.0 * self.rho * item.at.a
            self._count[j] += 1
            j = self.model._pairs[item.pair, 1]
            self._sum[j] += item.second + 2.0 * self.rho * item.at.b
            self._count[j] += 1
        for t in range(L):
            if q[t] == 0.0:
                continue
            for a in range(self.model._near_first[t], self.model._near_first[t + 1]):
                j = self.model._near[a]
                if self._mark[self.model._near_pair[a]] == i:
                    continue
                v = self.model.scaling * self.model._pair_weights[
                    self.model._near_pair[a]]
                self._tied[j] += self._told(i, t, v)
                self._ties[j] += not self._moved[i, t]
        self.model.visited += active.n
        return 0

    cdef double _told(self, Py_ssize_t i, Py_ssize_t t, double v) noexcept nogil:
        """What the other label of a pair that was not let in gains by moving up from
        zero, label t staying: the derivative of the most that s can count."""
        cdef double on = self._q[i, t]
        if on >= 1.0:
            return v
        return v if on > 0.0 and v > 0.0 else 0.0

    cdef double _gain(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
        cdef double loss = -1.0 if self.model._y_true[i, j] else 1.0
        return (self._score[j] + loss + self._tied[j] + self._sum[j]
                - 2.0 * self.rho * self._count[j] * self._q[i, j])

    cdef int _enter(self, Py_ssize_t i, int32_t pair, double first,
                    double second) except -1 nogil:
        """Let in a pair in the visit of its example, at what its labels do."""
        cdef Py_ssize_t j = self.model._pairs[pair, 0], k = self.model._pairs[pair, 1]
        cdef Py_ssize_t t = 0, other = 0
        cdef double v = self.model.scaling * self.model._pair_weights[pair]
        cdef double a = self._q[i, j], b = self._q[i, k]
        cdef int side
        for side in range(2):
            t, other = (j, k) if side == 0 else (k, j)
            # it no longer counts by itself
            self._tied[other] -= self._told(i, t, v)
            self._ties[other] -= self._q[i, t] > 0.0 and not self._moved[i, t]
        self._mark[pair] = <int32_t> i
        self._sum[j] += first + 2.0 * self.rho * a
        self._sum[k] += second + 2.0 * self.rho * b
        self._count[j] += 1
        self._count[k] += 1
        return self._let_in(i, pair, a, b, a * b, first, second)

    cdef int _let_in_positive(self, Py_ssize_t i, Py_ssize_t most) except -1 nogil:
        """Pairs of labels that were not observed, the largest scores first.

        A label that stays has a budget, what it loses by moving; a pair whose score its
        labels' budgets can pay has no reason to come in.
        """
        cdef Py_ssize_t p, j, k
        cdef int32_t pair
        cdef double v, first, second
        cdef double* budget = &self._budget[0]
        for j in range(self.model.n_labels):
            budget[j] = -1.0
            if not (self.model._y_true[i, j] or self._moved[i, j]):
                budget[j] = -self._gain(i, j)
                budget[j] = budget[j] if budget[j] > 0.0 else 0.0
        self.model.visited += self._order.shape[0]
        for p in range(self._order.shape[0]):
            pair = self._order[p]
            j, k = self.model._pairs[pair, 0], self.model._pairs[pair, 1]
            first, second = budget[j], budget[k]
            if first < 0.0 or second < 0.0 or self._mark[pair] == i:
                continue
            v = self.model.scaling * self.model._pair_weights[pair]
            if v <= 0.0:
                continue
            if first + second >= v:
                budget[j] -= v * first / (first + second)
                budget[k] -= v * second / (first + second)
            elif most:
                most -= 1
                # what is missing makes both of them move
                v = 0.5 * (v - first - second)
                self._enter(i, pair, first + v, second + v)
                budget[j] = budget[k] = 0.0
        return 0

    cdef int _let_in_negative(self, Py_ssize_t i) except -1 nogil:
        """Pairs of a label that is on and one that only their score keeps from moving.
        """
        cdef Py_ssize_t t, a, j
        cdef int32_t pair
        cdef double v
        for t in range(self.model.n_labels):
            if self._q[i, t] < 1.0:
                continue
            # it can pay for all of its pairs
            if self._gain(i, t) >= self._negative[t]:
                continue
            for a in range(self.model._near_first[t], self.model._near_first[t + 1]):
                j, pair = self.model._near[a], self.model._near_pair[a]
                v = self.model.scaling * self.model._pair_weights[pair]
                if v >= -self.ignore or self._mark[pair] == i:
                    continue
                self.model.visited += 1
                if self._gain(i, j) - v > 0.0:
                    self._enter(i, pair, v, v)
        return 0

    # ---- steps ----

    cdef int _step_label(self, Py_ssize_t i, Py_ssize_t j, double C) except -1 nogil:
        cdef double gain = self._gain(i, j), old = self._q[i, j], new, change
        cdef double scaling = self.model.scaling, y_true = self.model._y_true[i, j]
        cdef double Q = (C * (self.model.norm(i) + scaling * scaling * self._ties[j])
                         + 2.0 * self.rho * self._count[j])
        cdef Py_ssize_t a, t
        self.calls += 1
        self.block_gap += C * (gain * (1.0 - old) if gain > 0.0 else -gain * old)
        if not self._moved[i, j]:
            if (gain if y_true == 0.0 else -gain) <= self.ignore:
                return 0
            self._moved[i, j] = 1
            self._tell(i, j)
            # pairs with labels that have moved are no longer tied
            gain = self._gain(i, j)
            Q = (C * (self.model.norm(i) + scaling * scaling * self._ties[j])
                 + 2.0 * self.rho * self._count[j])
        new = old + gain / (Q if Q > TINY * C else TINY * C)
        new = 0.0 if new < 0.0 else (1.0 if new > 1.0 else new)
        change = new - old
        if change == 0.0:
            return 0
        self._q[i, j] = new
        self._shift += self._count[j] * change * change
        self.model.add(i, j, -C * change)
        if self._ties[j] == 0:
            return 0
        for a in range(self.model._near_first[j], self.model._near_first[j + 1]):
            t = self.model._near[a]
            if (self.model._y_true[i, t] and not self._moved[i, t]
                    and self._mark[self.model._near_pair[a]] != i):
                self.model._pair_weights[self.model._near_pair[a]] -= (
                    C * scaling * change)
        return 0

    cdef int _tell(self, Py_ssize_t i, Py_ssize_t j) except -1 nogil:
        """A label moves for the first time: its pairs with others that have moved."""
        cdef Py_ssize_t a, t
        cdef int32_t pair
        cdef double v, on = self._q[i, j]
        for a in range(self.model._near_first[j], self.model._near_first[j + 1]):
            t, pair = self.model._near[a], self.model._near_pair[a]
            if self._mark[pair] == i:
                continue
            v = self.model.scaling * self.model._pair_weights[pair]
            if on > 0.0:
                # what it scores with others is no longer tied to them
                self._ties[t] -= 1
            if self._moved[i, t]:
                self._tied[t] -= self._told(i, j, v)
                self._tied[j] -= self._told(i, t, v)
                self._mark[pair] = <int32_t> i
                self._sum[j] += 2.0 * self.rho * self._q[i, j]
                self._sum[t] += 2.0 * self.rho * self._q[i, t]
                self._count[j] += 1
                self._count[t] += 1
                if on > 0.0:
                    # s = q_t, and t was told v: the multiplier says the same
                    self._sum[t] += v
                    if self.model._pairs[pair, 0] == t:
                        self._let_in(i, pair, self._q[i, t], on, self._q[i, t], v, 0.0)
                    else:
                        self._let_in(i, pair, on, self._q[i, t], self._q[i, t], 0.0, v)
                elif self.model._pairs[pair, 0] == t:
                    self._let_in(i, pair, self._q[i, t], on, 0.0, 0.0, 0.0)
                else:
                    self._let_in(i, pair, on, self._q[i, t], 0.0, 0.0, 0.0)
        return 0

    cdef void _step_pair(self, ActivePair* item, double q_first, double q_second,
                         double C) noexcept nogil:
        cdef double scaling = self.model.scaling, old = item.at.s
        cdef double* weight = &self.model._pair_weights[item.pair]
        self.calls += 1
        self.block_gap += C * step_pair(
            scaling * weight[0], C * scaling * scaling,
            q_first - item.first / (2.0 * self.rho),
            q_second - item.second / (2.0 * self.rho), self.rho, &item.at)
        weight[0] -= C * scaling * (item.at.s - old)

    # ---- the dual ----

    def expected_loss(self):
        """sum_i p_i sum_j |q_j - y_j|"""
        q, y_true = np.asarray(self._q), np.asarray(self.model._y_true)
        return float(self.model.example_weights @ np.abs(q - y_true).sum(axis=1))

    def feasible_changes(self):
        """Changes of the pairs' weights after which pairs agree with their labels."""
        cdef Py_ssize_t i, k
        cdef double[::1] out = np.zeros(self.model.n_pairs + 1)
        cdef double a, b, s, C
        cdef ActivePair* item
        with nogil:
            for i in range(self.model.n_examples):
                C = self.model._example_weights[i] / self.alpha * self.model.scaling
                for k in range(self._active[i].n):
                    item = &self._active[i].items[k]
                    a = self._q[i, self.model._pairs[item.pair, 0]]
                    b = self._q[i, self.model._pairs[item.pair, 1]]
                    s = item.at.s
                    s = a if a < s else s
                    s = b if b < s else s
                    s = a + b - 1.0 if a + b - 1.0 > s else s
                    out[item.pair] -= C * (s - item.at.s)
        return np.asarray(out)[:self.model.n_pairs]
