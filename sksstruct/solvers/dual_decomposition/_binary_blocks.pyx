"""Block steps for labels that are on or off, and pairs of them.

I. Yen et al. (2016), Section 3.1. In an example i of weight p_i, with C_i = p_i / alpha
and observed labels y_j,

    q_j         is the probability that label j is on,
    a, b, s     are those of a pair (j, k): that its labels are on by its own account
                (its marginals), and that both are,
    lambda_j    is the multiplier of the constraint a = q_j, in units of p_i,
    rho         is the weight of the quadratic terms,
    eta         is the step of the multipliers, in units of rho.

The augmented Lagrangian (12) is that of `_state.pyx`, an example's part of which is, in
units of p_i,

    - sum_j loss_j(q_j) + sum_(pairs, ends) lambda_j (a - q_j) + rho (a - q_j)^2

(both outcomes of a label differ by the same amount, hence no rho/2, and lambda_j is
2 rho u_j). What a label gains by q_j is

    score + loss + sum over its pairs of lambda_j + 2 rho (a - q_j)

and a step for a label is exact; so is that for a pair (`_pair_step.pyx`). After a pass
lambda_j += 2 rho eta (a - q_j): (13).

Only active pairs have a, b, s and multipliers. The others agree with their labels. A
label has moved if a visit took it from where it was observed, and it was not found to
be there again since; a pair of two labels that have moved is active. In an inactive
pair one label has not moved, and fixes what the pair does, s = q_j y_k. The pair is
*tied* to label j if that other label is on: its weight then follows q_j, and counts for
the curvature along q_j.
"""

from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free

from sksstruct.models.protocols._factors cimport BinaryFactorModel, pair_score
from sksstruct.solvers.dual_decomposition._pair_step cimport step_pair
from sksstruct.solvers.dual_decomposition._residuals cimport Residuals, add_residual
from sksstruct.utils._clock cimport Clock
from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport const_intps, doubles, int32s, uint8s

# Least curvature of a label, in units of C_i: one without features and pairs goes all
# the way to where it gains.
cdef double LEAST_CURVATURE = 1e-9


cdef class BinaryBlocks:
    """Probabilities of labels, active pairs and their multipliers, and steps for them.

    `binary_state.py` states what is public, and makes the arrays.
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
        self._owned = probabilities, have_moved, score, sums, counts, active_in
        # at the observed labels every w is zero
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
        """Let the methods below be about an example."""
        # pointers into the rows of the example, which many short loops read
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
            Examples.
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
        """Move all labels of the example by their scores and losses."""
        cdef Py_ssize_t label, L = self.model.n_labels
        cdef double curvature = self._C * self.model.label_norm(self._example)
        cdef double least = LEAST_CURVATURE * self._C, gain, q
        curvature = curvature if curvature > least else least
        # all scores at once, as the labels do not depend on each other
        self.model.label_scores(self._example, 0, L, self._score)
        self.calls += L
        for label in range(L):
            gain = self._score[label] + (-1.0 if self._y_true[label] else 1.0)
            q = unit(self._q[label] + gain / curvature)
            # most labels stay at an end of the interval
            if q != self._q[label]:
                self.model.add_label(
                    self._example, label, -self._C * (q - self._q[label]))
                self._q[label] = q
        return 0

    # ---- what labels gain ----

    cdef int _gather(self, Py_ssize_t low, Py_ssize_t high) except -1 nogil:
        """Collect what labels gain for a visit that scores low <= label < high.

        Other labels are scored if they have moved or are observed.
        """
        cdef Py_ssize_t label, k
        cdef ActivePair* item
        self.model.label_scores(self._example, low, high, &self._score[low])
        # a list of those that had moved, as others will during the visit
        self._n_movers = 0
        for label in range(self.model.n_labels):
            self._inactive_gain[label] = self._message_sum[label] = 0.0
            self._n_active_pairs[label] = self._n_tied[label] = 0
            if self._moved[label]:
                self._movers[self._n_movers] = <int32_t> label
                self._n_movers += 1
            # all that have moved are visited, and observed ones may have pairs to pay
            if not low <= label < high and (self._moved[label] or self._y_true[label]):
                self._score[label] = self.model.label_score(self._example, label)
                self.model.visited += 1
        # active pairs first: the inactive ones are those that are not marked then
        for k in range(self._active.size):
            item = &self._active.items[k]
            self._active_in[item.pair] = <int32_t> self._example
            add_message(self, self.model._pairs[item.pair, 0], item.first,
                        item.point.first)
            add_message(self, self.model._pairs[item.pair, 1], item.second,
                        item.point.second)
        # from the labels that are on to their neighbors, as few labels are on
        for label in range(self.model.n_labels):
            if self._q[label] != 0.0:
                self._gather_inactive(label)
        self.model.visited += self._active.size
        return 0

    cdef void _gather_inactive(self, Py_ssize_t label) noexcept nogil:
        """Tell the neighbors of a label what their inactive pairs make them gain."""
        cdef Py_ssize_t neighbor, k
        cdef int32_t pair
        for k in range(self.model._first_neighbor[label],
                       self.model._first_neighbor[label + 1]):
            neighbor = self.model._neighbors[k]
            pair = self.model._neighbor_pairs[k]
            if not is_active(self, pair):
                self._inactive_gain[neighbor] += implied_gain(
                    self, label, pair_score(self.model, pair))
                # a label that has moved fixes nothing
                self._n_tied[neighbor] += not self._moved[label]

    # ---- pairs that become active ----

    cdef int _append(self, int32_t pair, double both, double first,
                     double second) except -1 nogil:
        """Add to the active pairs one whose marginals are what its labels do."""
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
        """Activate a pair during the visit, of labels of which one at least stays."""
        cdef Py_ssize_t label = self.model._pairs[pair, 0]
        cdef Py_ssize_t neighbor = self.model._pairs[pair, 1]
        # each end no longer counts it as inactive, and gets a message instead
        untie(self, pair, label, neighbor)
        untie(self, pair, neighbor, label)
        self._active_in[pair] = <int32_t> self._example
        add_message(self, label, first, self._q[label])
        add_message(self, neighbor, second, self._q[neighbor])
        # the s that the label that stays fixed so far: w does not change
        return self._append(pair, self._q[label] * self._q[neighbor], first, second)

    cdef int _activate_moved(self, Py_ssize_t label) except -1 nogil:
        """Activate a label's pairs with others that have moved: it moves as well now.

        Until now it stayed where it was observed, and s was 0 or the neighbor's q.
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
            # what the pair does is no longer up to the neighbor alone
            self._n_tied[neighbor] -= is_on
            if self._moved[neighbor]:
                self._activate_both_moved(pair, label, neighbor)
        return 0

    cdef int _activate_both_moved(self, int32_t pair, Py_ssize_t label,
                                  Py_ssize_t neighbor) except -1 nogil:
        """Activate a pair of a label that begins to move, and one that has moved."""
        cdef double score = pair_score(self.model, pair), both = 0.0, multiplier = 0.0
        self._inactive_gain[neighbor] -= implied_gain(self, label, score)
        self._inactive_gain[label] -= implied_gain(self, neighbor, score)
        # q as marginals: the quadratic terms are zero to begin with
        self._active_in[pair] = <int32_t> self._example
        add_message(self, label, 0.0, self._q[label])
        add_message(self, neighbor, 0.0, self._q[neighbor])
        if self._q[label] > 0.0:
            # tied to the neighbor, the pair made it gain the score; now the multiplier
            # does, so that nothing changes for it
            both, multiplier = self._q[neighbor], score
            self._message_sum[neighbor] += multiplier
        if self.model._pairs[pair, 0] == neighbor:
            return self._append(pair, both, multiplier, 0.0)
        return self._append(pair, both, 0.0, multiplier)

    # ---- steps ----

    cdef int _step_label(self, Py_ssize_t label) except -1 nogil:
        """Move a label to where it gains nothing, or as far as it can."""
        cdef double gain = label_gain(self, label), old = self._q[label], q, change
        self.calls += 1
        # what moving to the better of on and off promises, to first order
        self.block_gap += self._C * (gain * (1.0 - old) if gain > 0.0 else -gain * old)
        if not self._moved[label]:
            # it stays where it was observed, unless it gains enough by moving
            if (-gain if self._y_true[label] else gain) <= self.ignore:
                return 0
            self._moved[label] = 1
            self._activate_moved(label)
            # its pairs with labels that have moved now count through messages
            gain = label_gain(self, label)
        q = unit(old + gain / label_curvature(self, label))
        change = q - old
        if change == 0.0:
            return 0
        self._q[label] = q
        # the residual of each of its active pairs changes by so much
        self._square_moved += self._n_active_pairs[label] * change * change
        self.model.add_label(self._example, label, -self._C * change)
        if self._n_tied[label]:
            self._move_tied(label, change)
        return 0

    cdef void _move_tied(self, Py_ssize_t label, double change) noexcept nogil:
        """Let the weights of pairs that are tied to a label follow it."""
        cdef Py_ssize_t neighbor, k
        cdef int32_t pair
        for k in range(self.model._first_neighbor[label],
                       self.model._first_neighbor[label + 1]):
            neighbor = self.model._neighbors[k]
            pair = self.model._neighbor_pairs[k]
            # observed and not moved, the neighbor is on: s is the label's own q
            if (self._y_true[neighbor] and not self._moved[neighbor]
                    and not is_active(self, pair)):
                change_weight(self, pair, change)

    cdef void _step_pair(self, ActivePair* item) noexcept nogil:
        """Move an active pair to the minimum of its block."""
        cdef double q_first = self._q[self.model._pairs[item.pair, 0]]
        cdef double q_second = self._q[self.model._pairs[item.pair, 1]]
        cdef double scaling = self.model.scaling, old = item.point.both
        self.calls += 1
        # the linear terms of the multipliers shift the centers of the quadratic ones
        self.block_gap += self._C * step_pair(
            pair_score(self.model, item.pair), self._C * scaling * scaling,
            q_first - item.first / (2.0 * self.rho),
            q_second - item.second / (2.0 * self.rho), self.rho, &item.point)
        change_weight(self, item.pair, item.point.both - old)

    cdef void _move_multipliers(self, double eta, Residuals* sums) noexcept nogil:
        """Move the multipliers of the example (13), and count the residuals."""
        # the residuals are of u = lambda / (2 rho), as in `_state.pyx`
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
        """Add changes of the weights of pairs that make them agree with labels."""
        cdef double* changes = doubles(changes_)
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.model.n_examples):
                self._begin_example(i)
                self._add_changes(changes)

    cdef void _add_changes(self, double* changes) noexcept nogil:
        """Count how far the nearest s that the labels allow is from that of pairs."""
        cdef double C = self._C * self.model.scaling, first, second, both
        cdef Py_ssize_t k
        cdef ActivePair* item
        for k in range(self._active.size):
            item = &self._active.items[k]
            first = self._q[self.model._pairs[item.pair, 0]]
            second = self._q[self.model._pairs[item.pair, 1]]
            # a + b - 1 <= s <= a, b
            both = item.point.both
            both = first if first < both else both
            both = second if second < both else both
            both = first + second - 1.0 if first + second - 1.0 > both else both
            changes[item.pair] -= C * (both - item.point.both)


cdef inline double unit(double value) noexcept nogil:
    """Return the nearest number between zero and one."""
    return 0.0 if value < 0.0 else (1.0 if value > 1.0 else value)


cdef inline void add_message(BinaryBlocks state, Py_ssize_t label, double multiplier,
                             double marginal) noexcept nogil:
    """Count an active pair for one of its labels."""
    state._message_sum[label] += multiplier + 2.0 * state.rho * marginal
    state._n_active_pairs[label] += 1


cdef inline double implied_gain(BinaryBlocks state, Py_ssize_t label,
                                double score) noexcept nogil:
    """Return what an inactive pair makes the neighbor of a label gain.

    It is the derivative of the most that s can count, as the neighbor moves up from
    zero and the label stays.
    """
    cdef double q = state._q[label]
    # s is the neighbor's own q
    if q >= 1.0:
        return score
    # s can rise with the neighbor up to q, as a positive score has it do; a negative
    # one keeps it at zero, for as long as the two do not sum to more than one
    return score if q > 0.0 and score > 0.0 else 0.0


cdef inline void untie(BinaryBlocks state, int32_t pair, Py_ssize_t label,
                       Py_ssize_t neighbor) noexcept nogil:
    """Take back what an inactive pair makes the neighbor of a label gain."""
    state._inactive_gain[neighbor] -= implied_gain(
        state, label, pair_score(state.model, pair))
    state._n_tied[neighbor] -= state._q[label] > 0.0 and not state._moved[label]


cdef inline double label_curvature(BinaryBlocks state,
                                   Py_ssize_t label) noexcept nogil:
    """Return the second derivative along q_j, that of tied pairs included."""
    cdef double scaling = state.model.scaling, least = LEAST_CURVATURE * state._C
    # of |w|^2, to which tied pairs add their feature, and of the quadratic terms
    cdef double curvature = (
        state._C * (state.model.label_norm(state._example)
                    + scaling * scaling * state._n_tied[label])
        + 2.0 * state.rho * state._n_active_pairs[label])
    return curvature if curvature > least else least
