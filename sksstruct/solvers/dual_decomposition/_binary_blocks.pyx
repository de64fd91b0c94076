"""Block steps for binary labels and for pairs of them.

I. Yen et al. (2016), Section 3.1. In an example i of weight p_i, with C_i = p_i / alpha
and observed labels y_j,

        q_j         is the probability that label j is on,
        a, b, s     are probabilities under the distribution of a pair (j, k): that j is
                    on, that k is on (the marginals), and that both are on,
        lambda_j    is the multiplier of the constraint a = q_j, in units of p_i,
        rho         is the weight of the quadratic terms,
        eta         is the step of the multipliers, in units of rho.

The augmented Lagrangian (12) is that of `_state.pyx`; in units of p_i, an example
contributes

    - sum_j loss_j(q_j) + sum_(pairs, ends) lambda_j (a - q_j) + rho (a - q_j)^2

(the residuals of "on" and "off" are equal up to sign, hence no rho/2, and lambda_j is
2 rho u_j). Minus the derivative along q_j, the gain of label j, is

    score + loss + sum over its pairs of lambda_j + 2 rho (a - q_j)

The step of a label is an exact minimization along q_j, and so is the step of a pair
over (a, b, s) (`_pair_step.pyx`). After a pass lambda_j += 2 rho eta (a - q_j): (13).

Only active pairs have a, b, s and multipliers of their own. A label *has moved* if a
visit took q_j from its observed value and q_j has not been found there again since; a
pair of two labels that have moved is active. In an inactive pair one label k has not
moved, which fixes s = q_j y_k. If y_k = 1, the pair is *tied* to label j: the weight of
the pair then changes with q_j, and counts in the curvature along q_j.
"""

from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free

from sksstruct.models.protocols._factors cimport BinaryFactorModel, pair_score
from sksstruct.solvers.dual_decomposition._pair_step cimport step_pair
from sksstruct.solvers.dual_decomposition._residuals cimport Residuals, add_residual
from sksstruct.utils._clock cimport Clock
from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport const_intps, doubles, int32s, uint8s

# Least curvature of a label, in units of C_i: a label without features and pairs has no
# curvature, and moves to the end of [0, 1] that its gain favors.
cdef double LEAST_CURVATURE = 1e-9


cdef class BinaryBlocks:
    """Probabilities of labels, active pairs with their multipliers, and their steps.

    `binary_state.py` documents the public attributes, and allocates the arrays.
    """

    def __init__(self, BinaryFactorModel model, double alpha, double rho,
                 probabilities, have_moved, score, sums, counts, active_in):
        cdef Py_ssize_t L = model.n_labels, i, label
        self.model, self.alpha, self.rho = model, alpha, rho
        self._active_pairs = <ActivePairs*> calloc(
            model.n_examples + 1, sizeof(ActivePairs))
        if self._active_pairs == NULL:
            raise MemoryError()
        self._probabilities = doubles(probabilities)
        self._have_moved = uint8s(have_moved)
        self._score = doubles(score)
        self._inactive_gain = doubles(sums)
        self._message_sum = self._inactive_gain + L
        self._n_tied = int32s(counts)
        self._n_active_pairs, self._movers = self._n_tied + L, self._n_tied + 2 * L
        self._active_in = int32s(active_in)
        self._arrays = probabilities, have_moved, score, sums, counts, active_in
        # each q starts at the observed label, where w = 0 by (10)
        for i in range(model.n_examples):
            for label in range(L):
                self._probabilities[i * L + label] = model._y_true[i, label]

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self._active_pairs != NULL:
            for i in range(self.model.n_examples):
                free(self._active_pairs[i].items)
        free(self._active_pairs)

    cdef void _begin_example(self, Py_ssize_t i) noexcept nogil:
        """Set the example that the methods below read and change."""
        # pointers to the example's rows, as many short loops read them
        self._example = i
        self._C = self.model._example_weights[i] / self.alpha
        self._q = self._probabilities + i * self.model.n_labels
        self._moved = self._have_moved + i * self.model.n_labels
        self._y_true = &self.model._y_true[i, 0]
        self._active = &self._active_pairs[i]

    # ---- labels alone ----

    def visit_alone(self, order_):
        """Make one pass without pairs: a support vector machine for each label.

        Parameters
        ----------
        order_ : ndarray of shape (n,), intp
            The examples in the order in which they are visited.
        """
        cdef const Py_ssize_t* order = const_intps(order_)
        cdef Py_ssize_t k, n = len(order_)
        cdef Clock clock = Clock()
        self.block_gap = 0.0
        with nogil:
            for k in range(n):
                if clock.late():
                    break
                self._begin_example(order[k])
                self._step_labels_alone()
        clock.check()

    cdef int _step_labels_alone(self) except -1 nogil:
        """Move each q_j of the example to the minimum of (12) without pairs."""
        cdef Py_ssize_t label, L = self.model.n_labels
        cdef double curvature = self._C * self.model.label_norm(self._example)
        cdef double least = LEAST_CURVATURE * self._C, gain, q
        curvature = curvature if curvature > least else least
        # one call computes all scores, as steps of labels without pairs are independent
        self.model.label_scores(self._example, 0, L, self._score)
        self.calls += L
        for label in range(L):
            gain = self._score[label] + (-1.0 if self._y_true[label] else 1.0)
            q = unit(self._q[label] + gain / curvature)
            # most labels stay at 0 or 1, and do not change the weights
            if q != self._q[label]:
                self.model.add_label(
                    self._example, label, -self._C * (q - self._q[label]))
                self._q[label] = q
        return 0

    # ---- gains of labels ----

    cdef int _gather_gains(self, Py_ssize_t low, Py_ssize_t high) except -1 nogil:
        """Compute, for a visit, the scores of labels and the gains from their pairs.

        Labels outside low <= label < high are scored only if they have moved or are
        observed.
        """
        cdef Py_ssize_t label, k
        cdef ActivePair* item
        self.model.label_scores(self._example, low, high, &self._score[low])
        # `_movers` keeps the labels that have moved before this visit, in which more
        # labels begin to move
        self._n_movers = 0
        for label in range(self.model.n_labels):
            self._inactive_gain[label] = self._message_sum[label] = 0.0
            self._n_active_pairs[label] = self._n_tied[label] = 0
            if self._moved[label]:
                self._movers[self._n_movers] = <int32_t> label
                self._n_movers += 1
            # the visit makes a step of every label that has moved, and
            # `_activate_negative` needs the score of every label with q = 1
            if not low <= label < high and (self._moved[label] or self._y_true[label]):
                self._score[label] = self.model.label_score(self._example, label)
                self.model.visited += 1
        # active pairs are marked first, so that `_gather_inactive` skips them
        for k in range(self._active.size):
            item = &self._active.items[k]
            self._active_in[item.pair] = <int32_t> self._example
            add_message(self, self.model._pairs[item.pair, 0], item.first,
                        item.point.first)
            add_message(self, self.model._pairs[item.pair, 1], item.second,
                        item.point.second)
        # inactive pairs of a label with q = 0 imply no gains for its neighbors; few
        # labels have q > 0
        for label in range(self.model.n_labels):
            if self._q[label] != 0.0:
                self._gather_inactive(label)
        self.model.visited += self._active.size
        return 0

    cdef void _gather_inactive(self, Py_ssize_t label) noexcept nogil:
        """Add the gains that a label's inactive pairs imply for its neighbors.

        The pairs that are tied to the neighbors are counted as well.
        """
        cdef Py_ssize_t neighbor, k
        cdef int32_t pair
        for k in range(self.model._first_neighbor[label],
                       self.model._first_neighbor[label + 1]):
            neighbor = self.model._neighbors[k]
            pair = self.model._neighbor_pairs[k]
            if not is_active(self, pair):
                self._inactive_gain[neighbor] += implied_gain(
                    self, label, pair_score(self.model, pair))
                # the pair is tied to the neighbor if this label is on and has not moved
                self._n_tied[neighbor] += not self._moved[label]

    # ---- pairs that become active ----

    cdef int _append_active(self, int32_t pair, double both, double first,
                            double second) except -1 nogil:
        """Append a pair to the active pairs; a and b are set to the q of its labels."""
        cdef ActivePairs* active = self._active
        cdef ActivePair* item
        reserve(<void**> &active.items, &active.capacity, active.size + 1,
                sizeof(ActivePair))
        item = &active.items[active.size]
        item.pair, item.first, item.second = pair, first, second
        item.point.first = self._q[self.model._pairs[pair, 0]]
        item.point.second = self._q[self.model._pairs[pair, 1]]
        item.point.both = both
        active.size += 1
        self.n_active += 1
        return 0

    cdef int _activate(self, int32_t pair, double first, double second) except -1 nogil:
        """Activate a pair during a visit; at least one of its labels has not moved."""
        cdef Py_ssize_t label = self.model._pairs[pair, 0]
        cdef Py_ssize_t neighbor = self.model._pairs[pair, 1]
        # at both ends, the message of the active pair replaces the implied gain
        untie(self, pair, label, neighbor)
        untie(self, pair, neighbor, label)
        self._active_in[pair] = <int32_t> self._example
        add_message(self, label, first, self._q[label])
        add_message(self, neighbor, second, self._q[neighbor])
        # s stays q_j q_k, as fixed by the label that has not moved: w does not change
        return self._append_active(
            pair, self._q[label] * self._q[neighbor], first, second)

    cdef int _activate_pairs_of(self, Py_ssize_t label) except -1 nogil:
        """Activate pairs of a label that begins to move, if the neighbor has moved.

        Until now q of this label was the observed 0 or 1, and s was 0 or the neighbor's
        q.
        """
        cdef Py_ssize_t neighbor, k
        cdef int32_t pair
        cdef bint is_on = self._q[label] > 0.0
        for k in range(self.model._first_neighbor[label],
                       self.model._first_neighbor[label + 1]):
            neighbor = self.model._neighbors[k]
            pair = self.model._neighbor_pairs[k]
            if is_active(self, pair):
                continue
            # a pair is tied to the neighbor only while this label has not moved
            self._n_tied[neighbor] -= is_on
            if self._moved[neighbor]:
                self._activate_both_moved(pair, label, neighbor)
        return 0

    cdef int _activate_both_moved(self, int32_t pair, Py_ssize_t label,
                                  Py_ssize_t neighbor) except -1 nogil:
        """Activate the pair of a label that begins to move and a moved neighbor."""
        cdef double score = pair_score(self.model, pair), both = 0.0, multiplier = 0.0
        self._inactive_gain[neighbor] -= implied_gain(self, label, score)
        self._inactive_gain[label] -= implied_gain(self, neighbor, score)
        # marginals a, b start at the labels' q, so that the quadratic terms are zero
        self._active_in[pair] = <int32_t> self._example
        add_message(self, label, 0.0, self._q[label])
        add_message(self, neighbor, 0.0, self._q[neighbor])
        if self._q[label] > 0.0:
            # the pair was tied to the neighbor and added its score to the neighbor's
            # gain; the multiplier now adds the same amount, so that the gain does not
            # change
            both, multiplier = self._q[neighbor], score
            self._message_sum[neighbor] += multiplier
        if self.model._pairs[pair, 0] == neighbor:
            return self._append_active(pair, both, multiplier, 0.0)
        return self._append_active(pair, both, 0.0, multiplier)

    # ---- steps ----

    cdef int _step_label(self, Py_ssize_t label) except -1 nogil:
        """Move q of a label to the minimum of (12) along q in [0, 1]."""
        cdef double gain = label_gain(self, label), old = self._q[label], q, change
        self.calls += 1
        # first-order estimate of the gain from moving q to 0 or 1, whichever is better
        self.block_gap += self._C * (gain * (1.0 - old) if gain > 0.0 else -gain * old)
        if not self._moved[label]:
            # a label at its observed value stays there if moving gains less than
            # `ignore`
            if (-gain if self._y_true[label] else gain) <= self.ignore:
                return 0
            self._moved[label] = 1
            self._activate_pairs_of(label)
            # the pairs just activated now contribute to the gain through messages
            gain = label_gain(self, label)
        q = unit(old + gain / label_curvature(self, label))
        change = q - old
        if change == 0.0:
            return 0
        self._q[label] = q
        # the residual a - q_j of each active pair of this label changes by -change
        self._square_moved += self._n_active_pairs[label] * change * change
        self.model.add_label(self._example, label, -self._C * change)
        if self._n_tied[label]:
            self._move_tied(label, change)
        return 0

    cdef void _move_tied(self, Py_ssize_t label, double change) noexcept nogil:
        """Change the weights of pairs tied to a label, whose q has changed."""
        cdef Py_ssize_t neighbor, k
        cdef int32_t pair
        for k in range(self.model._first_neighbor[label],
                       self.model._first_neighbor[label + 1]):
            neighbor = self.model._neighbors[k]
            pair = self.model._neighbor_pairs[k]
            # a neighbor that is observed and has not moved is on, so that s = q of this
            # label
            if (self._y_true[neighbor] and not self._moved[neighbor]
                    and not is_active(self, pair)):
                change_weight(self, pair, change)

    cdef void _step_pair(self, ActivePair* item) noexcept nogil:
        """Move (a, b, s) of an active pair to the minimum of (12)."""
        cdef double q_first = self._q[self.model._pairs[item.pair, 0]]
        cdef double q_second = self._q[self.model._pairs[item.pair, 1]]
        cdef double scaling = self.model.scaling, old = item.point.both
        self.calls += 1
        # lambda (a - q) + rho (a - q)^2 is rho (a - center)^2 plus a constant
        self.block_gap += self._C * step_pair(
            pair_score(self.model, item.pair), self._C * scaling * scaling,
            q_first - item.first / (2.0 * self.rho),
            q_second - item.second / (2.0 * self.rho), self.rho, &item.point)
        change_weight(self, item.pair, item.point.both - old)

    cdef void _move_multipliers(self, double eta, Residuals* sums) noexcept nogil:
        """Update the multipliers of the example (13), and add up the residuals."""
        # residual sums are computed with u = lambda / (2 rho), as in `_state.pyx`
        cdef double step = 2.0 * eta * self.rho, unit_of_u = 2.0 * self.rho
        cdef double residual, q
        cdef Py_ssize_t k
        cdef ActivePair* item
        for k in range(self._active.size):
            item = &self._active.items[k]
            q = self._q[self.model._pairs[item.pair, 0]]
            residual = item.point.first - q
            item.first += step * residual
            add_residual(sums, residual, q, item.first / unit_of_u)
            q = self._q[self.model._pairs[item.pair, 1]]
            residual = item.point.second - q
            item.second += step * residual
            add_residual(sums, residual, q, item.second / unit_of_u)

    # ---- the dual ----

    def add_feasible_changes(self, changes_):
        """Add to `changes_` the pair weight changes that make each s fit its two q."""
        cdef double* changes = doubles(changes_)
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.model.n_examples):
                self._begin_example(i)
                self._add_changes(changes)

    cdef void _add_changes(self, double* changes) noexcept nogil:
        """Add the pair weight changes from moving each s of the example into bounds."""
        cdef double C = self._C * self.model.scaling, first, second, both
        cdef Py_ssize_t k
        cdef ActivePair* item
        for k in range(self._active.size):
            item = &self._active.items[k]
            first = self._q[self.model._pairs[item.pair, 0]]
            second = self._q[self.model._pairs[item.pair, 1]]
            # s is moved into its bounds, q_j + q_k - 1 <= s <= min(q_j, q_k)
            both = item.point.both
            both = first if first < both else both
            both = second if second < both else both
            both = first + second - 1.0 if first + second - 1.0 > both else both
            changes[item.pair] -= C * (both - item.point.both)


cdef inline double unit(double value) noexcept nogil:
    """Return the number in [0, 1] that is nearest to a value."""
    return 0.0 if value < 0.0 else (1.0 if value > 1.0 else value)


cdef inline void add_message(BinaryBlocks state, Py_ssize_t label, double multiplier,
                             double marginal) noexcept nogil:
    """Add the message of an active pair to the message sum of one of its labels."""
    state._message_sum[label] += multiplier + 2.0 * state.rho * marginal
    state._n_active_pairs[label] += 1


cdef inline double implied_gain(BinaryBlocks state, Py_ssize_t label,
                                double score) noexcept nogil:
    """Return the gain that an inactive pair of a label implies for the neighbor.

    The implied gain is the right-hand derivative of score * s along the neighbor's q at
    0. The q of `label` is fixed, and s has the best value that both q allow.
    """
    cdef double q = state._q[label]
    # this label is on, so that s equals the neighbor's q
    if q >= 1.0:
        return score
    # with a positive score, s is the smaller of the two q; with a negative score, s is
    # zero until the two q sum to more than one
    return score if q > 0.0 and score > 0.0 else 0.0


cdef inline void untie(BinaryBlocks state, int32_t pair, Py_ssize_t label,
                       Py_ssize_t neighbor) noexcept nogil:
    """Subtract a pair from the neighbor's implied gain and number of tied pairs."""
    state._inactive_gain[neighbor] -= implied_gain(
        state, label, pair_score(state.model, pair))
    state._n_tied[neighbor] -= state._q[label] > 0.0 and not state._moved[label]


cdef inline double label_curvature(BinaryBlocks state,
                                   Py_ssize_t label) noexcept nogil:
    """Return the second derivative of (12) along q_j, divided by p_i."""
    cdef double scaling = state.model.scaling, least = LEAST_CURVATURE * state._C
    # sum of the second derivatives of alpha/2 |w|^2, in which q_j changes the weights
    # of the label and of its tied pairs, and of the quadratic terms of active pairs
    cdef double curvature = (
        state._C * (state.model.label_norm(state._example)
                    + scaling * scaling * state._n_tied[label])
        + 2.0 * state.rho * state._n_active_pairs[label])
    return curvature if curvature > least else least
