"""Dual coordinate ascent on the pseudo-likelihood, or margins, of label sets.

The score of label j of example i, with the observed values y_ik of the other labels, is

    f_ij = <w_j, x_i> + scaling sum_(k next to j) v_jk y_ik,      v_jk = v_kj

and the objective, with s_ij = 1 where the label is on, else -1, and costs c_ij,

    P(w, v) = alpha/2 (|w|^2 + |v|^2) + sum_i p_i sum_j c_ij l(s_ij f_ij)

where c_ij is zero if y_ij, or the value of one of its neighbors, is not known.

With one dual variable b_ij for each label of each example, a_ij being the features that
f_ij is linear in,

    D(b) = sum_i p_i sum_j c_ij phi(b_ij) - alpha/2 |w(b)|^2
    w(b) = sum_i p_i / alpha sum_j c_ij b_ij s_ij a_ij

where phi(b) = -l*(-b) is b on [0, 1] for the hinge, b - b^2 / 4 for its square, b >= 0,
and the entropy of b for the logistic loss. A visit of example i maximizes D over b_ij
for one label j after the other, with all other variables fixed (Hsieh et al., 2008; Yu
et al., 2011). A label that is off reads no weight that the step of another label of the
example changes, so that the scores of all labels that are off are formed at once, eight
in a vector.
"""

from libc.math cimport exp, fabs, log, log1p
from libc.stdint cimport int8_t, int32_t

from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.utils._clock cimport Clock
from sksstruct.utils._pointers cimport (
    const_doubles, const_int8s, const_int32s, const_intps, doubles,
)
from sksstruct.utils._simd cimport sks_exp_row

cdef enum:
    HINGE, SQUARED_HINGE, LOGISTIC
    # If fewer labels than one in FEW change, their weights are updated one by one.
    FEW = 8
    # Largest number of Newton steps for one dual variable; three or four suffice.
    MOST_STEPS = 50

LOSSES = {"hinge": HINGE, "squared_hinge": SQUARED_HINGE, "log": LOGISTIC}

# A product of numbers between 1 and 2 grows up to this before its logarithm is taken.
cdef double LARGE = 1e300
# Newton's method for the logistic loss ends if the logit changes by less than this.
cdef double PRECISION = 1e-12


cdef inline double loss_of(int kind, double margin) noexcept nogil:
    """Return l(margin), the loss of a label."""
    cdef double slack = 1.0 - margin
    if kind == LOGISTIC:
        # the exponential of a negative number does not overflow
        if margin > 0.0:
            return log1p(exp(-margin))
        return log1p(exp(margin)) - margin
    if slack <= 0.0:
        return 0.0
    return slack if kind == HINGE else slack * slack


cdef inline double dual_of(int kind, double b) noexcept nogil:
    """Return phi(b), the term of a dual variable in D."""
    if kind == HINGE:
        return b
    if kind == SQUARED_HINGE:
        return b - 0.25 * b * b
    # zero at both ends, where the logarithm is infinite
    if b <= 0.0 or b >= 1.0:
        return 0.0
    return -b * log(b) - (1.0 - b) * log1p(-b)


cdef inline double best_dual(int kind, double margin, double curvature,
                             double b) noexcept nogil:
    """Return the b' of the largest phi(b') - margin b' - curvature/2 (b' - b)^2."""
    cdef double slack = 1.0 - margin, best
    if kind == LOGISTIC:
        return best_logistic_dual(margin, curvature, b)
    # the derivative by b' is linear; its root is clipped to the range of b'
    if kind == SQUARED_HINGE:
        best = (slack + curvature * b) / (curvature + 0.5)
        return best if best > 0.0 else 0.0
    # without features, the dual variable does not change the margin
    if curvature <= 0.0:
        return 1.0 if slack > 0.0 else 0.0
    best = b + slack / curvature
    return min(max(best, 0.0), 1.0)


cdef double best_logistic_dual(double margin, double curvature,
                               double b) noexcept nogil:
    """Return the best b' of the logistic loss, by Newton's method on its logit t."""
    # t is the root of  t + margin + curvature (sigmoid(t) - b),  which increases in t;
    # the sigmoid is between 0 and 1, which gives bounds of the root
    cdef double low = -margin - curvature * (1.0 - b)
    cdef double high = -margin + curvature * b
    cdef double t = 0.5 * (low + high), share, value, step, last = high - low
    cdef int _
    for _ in range(MOST_STEPS):
        share = 1.0 / (1.0 + exp(-t))
        value = t + margin + curvature * (share - b)
        # low and high enclose the root
        if value > 0.0:
            high = t
        else:
            low = t
        step = value / (1.0 + curvature * share * (1.0 - share))
        # far from the root Newton's steps may oscillate: bisect the interval instead
        if not (low < t - step < high and fabs(step) < 0.5 * last):
            step = t - 0.5 * (low + high)
        t -= step
        last = fabs(step)
        if last < PRECISION:
            break
    return 1.0 / (1.0 + exp(-t))


cdef class ConditionalKernel:
    """The loops over examples, with the arrays of `ConditionalRows`."""

    cdef readonly Py_ssize_t n_examples, n_labels, n_features, n_pairs, ld
    cdef int kind
    cdef double scaling
    cdef FeatureRows rows
    # owns the memory whose addresses are stored below
    cdef object _owned
    # state of each label of each example, (n_examples, n_labels); cost of each label in
    # each state, (n_states, n_labels)
    cdef const int8_t* states
    cdef const double* costs
    # for each example p_i, and the squared norm |x_i|^2 of its features
    cdef const double* example_weights
    cdef const double* squares
    # labels that are on, example by example; start of each example in this list
    cdef const Py_ssize_t* on_starts
    cdef const int32_t* on
    # labels that are on, or that have no loss, in the same form
    cdef const Py_ssize_t* hidden_starts
    cdef const int32_t* hidden
    # labels that interact with a label, label by label, and the numbers of these pairs;
    # start of each label in these lists
    cdef const Py_ssize_t* next_starts
    cdef const int32_t* next_labels
    cdef const int32_t* next_pairs

    def __init__(self, arrays, FeatureRows rows, str loss, double scaling):
        self._owned, self.rows, self.scaling = arrays, rows, scaling
        self.kind = LOSSES[loss]
        self.n_examples, self.n_labels = arrays.states.shape
        self.n_features, self.n_pairs = rows.n_features, arrays.n_pairs
        self.ld = arrays.ld
        self.states = const_int8s(arrays.states)
        self.costs = const_doubles(arrays.costs)
        self.example_weights = const_doubles(arrays.example_weights)
        self.squares = const_doubles(arrays.squares)
        self.on_starts, self.on = const_intps(arrays.on_starts), const_int32s(arrays.on)
        self.hidden_starts = const_intps(arrays.hidden_starts)
        self.hidden = const_int32s(arrays.hidden)
        self.next_starts = const_intps(arrays.next_starts)
        self.next_labels = const_int32s(arrays.next_labels)
        self.next_pairs = const_int32s(arrays.next_pairs)

    cdef inline Py_ssize_t _state(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
        """Return the state of label j of example i, whose lowest bit is y_ij."""
        return self.states[i * self.n_labels + j]

    cdef inline double _cost(self, Py_ssize_t state, Py_ssize_t j) noexcept nogil:
        """Return c_ij, the cost of label j of the examples in which it has a state."""
        return self.costs[state * self.n_labels + j]

    # ---- one example ----

    cdef void _scores(self, Py_ssize_t i, const double* w,
                      double* out) noexcept nogil:
        """Write f_ij of all labels; `out` has room for the padding."""
        cdef Py_ssize_t j
        for j in range(self.ld):
            out[j] = 0.0
        self.rows.scores(i, w, self.ld, out, out)
        self._add_pair_scores(i, w, out)

    cdef void _add_pair_scores(self, Py_ssize_t i, const double* w,
                               double* out) noexcept nogil:
        """Add the scores of pairs to the scores f_ij of all labels of an example."""
        cdef Py_ssize_t k, place, entry
        cdef const double* pair_weights = w + self.n_features * self.ld
        if not self.n_pairs:
            return
        # a pair adds to f_ij if its other label is on, and few labels are on
        for place in range(self.on_starts[i], self.on_starts[i + 1]):
            k = self.on[place]
            for entry in range(self.next_starts[k], self.next_starts[k + 1]):
                out[self.next_labels[entry]] += (
                    self.scaling * pair_weights[self.next_pairs[entry]])

    cdef void _count_pairs(self, Py_ssize_t i, double* out) noexcept nogil:
        """Write, for each label, the squared norm of the entries of pairs in a_ij."""
        cdef Py_ssize_t j, place, entry
        for j in range(self.n_labels):
            out[j] = 0.0
        if not self.n_pairs:
            return
        for place in range(self.on_starts[i], self.on_starts[i + 1]):
            j = self.on[place]
            # as label j is on, a_ik of each neighbor k has an entry `scaling`
            for entry in range(self.next_starts[j], self.next_starts[j + 1]):
                out[self.next_labels[entry]] += self.scaling * self.scaling

    cdef void _add(self, Py_ssize_t i, const double* change, Py_ssize_t n_changed,
                   double* w) noexcept nogil:
        """w += sum_j change_j a_ij, where `n_changed` changes are not zero."""
        cdef Py_ssize_t j
        # in late passes few dual variables change
        if n_changed * FEW < self.n_labels:
            for j in range(self.n_labels):
                if change[j] != 0.0:
                    self.rows.add_to_column(i, change[j], w + j, self.ld)
        else:
            self.rows.scatter(i, 1.0, change, self.ld, w)
        self._add_to_pairs(i, change, w)

    cdef void _add_to_pairs(self, Py_ssize_t i, const double* change,
                            double* w) noexcept nogil:
        """Add sum_j change_j a_ij to the weights of pairs."""
        cdef Py_ssize_t j, place, entry
        cdef double* pair_weights = w + self.n_features * self.ld
        if not self.n_pairs:
            return
        for place in range(self.on_starts[i], self.on_starts[i + 1]):
            j = self.on[place]
            # if both labels of a pair are on, both of their changes add to its weight
            for entry in range(self.next_starts[j], self.next_starts[j + 1]):
                pair_weights[self.next_pairs[entry]] += (
                    self.scaling * change[self.next_labels[entry]])

    cdef Py_ssize_t _step(self, Py_ssize_t i, double alpha, double* scores,
                          const double* norms, double* duals,
                          double* change) noexcept nogil:
        """Maximize D over the duals of an example; return how many of them changed.

        For each label j, `change` becomes the factor of a_ij in the change of the
        weights.
        """
        cdef Py_ssize_t j, place, n_changed = 0
        # labels that are off read no weight that another label of the example changes
        if self.kind == SQUARED_HINGE:
            n_changed = self._squared_hinge_off(i, alpha, scores, norms, duals, change)
        else:
            for j in range(self.n_labels):
                change[j] = 0.0
                if not self._state(i, j) & 1:
                    n_changed += self._coordinate(
                        i, j, alpha, scores[j], norms[j], &duals[j], &change[j])
        # a step of a label that is on changes weights of pairs, which its neighbors
        # read
        for place in range(self.on_starts[i], self.on_starts[i + 1]):
            j = self.on[place]
            if self._coordinate(
                    i, j, alpha, scores[j], norms[j], &duals[j], &change[j]):
                n_changed += 1
                self._update_neighbors(j, change[j], scores)
        return n_changed

    cdef Py_ssize_t _squared_hinge_off(self, Py_ssize_t i, double alpha, double* scores,
                                       const double* norms, double* duals,
                                       double* change) noexcept nogil:
        """Maximize D over the duals of the labels that are off, as most labels are.

        The loop has no branches, so that compilers make vector code of it. Labels that
        are on or have no loss are hidden: for the loop their dual is zero, and their
        score leaves the dual at zero.
        """
        cdef Py_ssize_t j, place
        cdef double* hidden_scores = change + self.ld
        cdef double* hidden_duals = hidden_scores + self.ld
        cdef const double* costs = self.costs
        cdef double weight = self.example_weights[i] / alpha
        cdef double square = self.squares[i], rate, curvature, best, n_changed = 0.0
        for place in range(self.hidden_starts[i], self.hidden_starts[i + 1]):
            j = self.hidden[place]
            hidden_scores[j], hidden_duals[j] = scores[j], duals[j]
            scores[j], duals[j] = -2.0, 0.0
        for j in range(self.n_labels):
            rate = weight * costs[j]
            curvature = rate * (square + norms[j])
            best = (1.0 + scores[j] + curvature * duals[j]) / (curvature + 0.5)
            best = best if best > 0.0 else 0.0
            change[j] = rate * (duals[j] - best)
            duals[j] = best
            n_changed += 1.0 if change[j] != 0.0 else 0.0
        for place in range(self.hidden_starts[i], self.hidden_starts[i + 1]):
            j = self.hidden[place]
            scores[j], duals[j] = hidden_scores[j], hidden_duals[j]
        return <Py_ssize_t>n_changed

    cdef inline bint _coordinate(self, Py_ssize_t i, Py_ssize_t j, double alpha,
                                 double score, double pairs_norm, double* dual,
                                 double* change) noexcept nogil:
        """Maximize D over b_ij; return whether b_ij changed."""
        cdef Py_ssize_t state = self._state(i, j)
        cdef double sign = 1.0 if state & 1 else -1.0
        # p_i c_ij / alpha: a change of b_ij changes w by this rate times s_ij a_ij
        cdef double rate = self.example_weights[i] * self._cost(state, j) / alpha
        cdef double best
        # a loss without a cost does not enter the objective
        if rate == 0.0:
            return False
        best = best_dual(self.kind, sign * score,
                         rate * (self.squares[i] + pairs_norm), dual[0])
        change[0] = rate * sign * (best - dual[0])
        dual[0] = best
        return change[0] != 0.0

    cdef void _update_neighbors(self, Py_ssize_t j, double change,
                                double* scores) noexcept nogil:
        """Add the change of the weights of label j's pairs to the neighbors' scores.

        Later steps read only the scores of labels that are on: steps of labels that are
        off come first.
        """
        cdef Py_ssize_t entry
        for entry in range(self.next_starts[j], self.next_starts[j + 1]):
            scores[self.next_labels[entry]] += self.scaling * self.scaling * change

    # ---- loops ----

    def visit(self, order, double alpha, duals, w):
        """Visit the given examples; return the number of duals that changed."""
        cdef Py_ssize_t k, i, n_changed, total = 0, n = len(order)
        cdef const Py_ssize_t* numbers = const_intps(order)
        cdef double* variables = doubles(duals)
        cdef double* weights = doubles(w)
        # the last two rows of `scratch` save scores and duals of hidden labels;
        # products read the padding of the changes, which must stay zero
        cdef bytearray scratch = bytearray(5 * self.ld * sizeof(double))
        cdef double* scores = <double*> <char*> scratch
        cdef double* norms = scores + self.ld
        cdef double* change = norms + self.ld
        cdef Clock clock = Clock()
        with nogil:
            for k in range(n):
                if clock.late():
                    break
                i = numbers[k]
                # the order is random, so that the processor does not prefetch the row
                if k + 1 < n:
                    self.rows.prefetch(numbers[k + 1], numbers[k + 1] + 1)
                self._scores(i, weights, scores)
                self._count_pairs(i, norms)
                n_changed = self._step(
                    i, alpha, scores, norms, variables + i * self.n_labels, change)
                if n_changed:
                    self._add(i, change, n_changed, weights)
                total += n_changed
        clock.check()
        return total

    def sums(self, duals, out):
        """Add to `out` the sums of p_i c_ij b_ij of each label j: over the examples
        without the label in the first row, and with the label in the second row.
        """
        cdef Py_ssize_t i, j, state
        cdef const double* b = const_doubles(duals)
        cdef double* total = doubles(out)
        with nogil:
            for i in range(self.n_examples):
                for j in range(self.n_labels):
                    state = self._state(i, j)
                    total[(state & 1) * self.n_labels + j] += (
                        self.example_weights[i] * self._cost(state, j)
                        * b[i * self.n_labels + j])

    def restore(self, double alpha, factors, duals, w):
        """Add w(b) to w, where b_ij is the dual times the factor of y_ij and j."""
        cdef Py_ssize_t i, j, state
        cdef bint on
        cdef double rate
        cdef bytearray scratch = bytearray(self.ld * sizeof(double))
        cdef double* change = <double*> <char*> scratch
        cdef const double* factor = const_doubles(factors)
        cdef const double* b = const_doubles(duals)
        cdef double* weights = doubles(w)
        with nogil:
            for i in range(self.n_examples):
                # w(b) is the change from b = 0, where the weights are zero
                for j in range(self.n_labels):
                    state = self._state(i, j)
                    on = state & 1
                    rate = self.example_weights[i] * self._cost(state, j) / alpha
                    rate = (rate if on else -rate) * factor[on * self.n_labels + j]
                    change[j] = rate * b[i * self.n_labels + j]
                self._add(i, change, self.n_labels, weights)

    def losses(self, Py_ssize_t start, Py_ssize_t stop, w, out):
        """Write sum_j c_ij l(s_ij f_ij) of examples start <= i < stop."""
        cdef Py_ssize_t i, j, state
        cdef double total
        cdef bytearray scratch = bytearray(self.ld * sizeof(double))
        cdef double* scores = <double*> <char*> scratch
        cdef const double* weights = const_doubles(w)
        cdef double* values = doubles(out)
        with nogil:
            for i in range(start, stop):
                self._scores(i, weights, scores)
                if self.kind == SQUARED_HINGE:
                    values[i] = self._squared_hinge_loss(i, scores)
                    continue
                total = 0.0
                for j in range(self.n_labels):
                    state = self._state(i, j)
                    total += self._cost(state, j) * loss_of(
                        self.kind, scores[j] if state & 1 else -scores[j])
                values[i] = total

    cdef double _squared_hinge_loss(self, Py_ssize_t i, double* scores) noexcept nogil:
        """Return sum_j c_ij l(s_ij f_ij); overwrites the scores of hidden labels."""
        cdef Py_ssize_t j, place
        cdef double slack, total = 0.0
        cdef const double* costs = self.costs
        for place in range(self.hidden_starts[i], self.hidden_starts[i + 1]):
            j = self.hidden[place]
            total += self._cost(self._state(i, j), j) * loss_of(self.kind, scores[j])
            # a label that is off has no loss at the score -2
            scores[j] = -2.0
        # losses of all labels as if these were off, without branches
        for j in range(self.n_labels):
            slack = 1.0 + scores[j]
            slack = slack if slack > 0.0 else 0.0
            total += costs[j] * (slack * slack)
        return total

    cdef double _slopes(self, Py_ssize_t i, double* scores,
                        double* memory) noexcept nogil:
        """Replace f_ij by p_i c_ij s_ij l'(s_ij f_ij); return sum_j c_ij l(s_ij f_ij).

        `memory` has two rows.
        """
        cdef Py_ssize_t j, state
        cdef double sign, cost, slack, total = 0.0
        cdef double weight = self.example_weights[i]
        cdef double* sizes = memory
        cdef double* small = memory + self.ld
        if self.kind == LOGISTIC:
            return self._logistic_slopes(i, scores, sizes, small)
        for j in range(self.n_labels):
            state = self._state(i, j)
            sign = 1.0 if state & 1 else -1.0
            cost = self._cost(state, j)
            slack = max(1.0 - sign * scores[j], 0.0)
            total += cost * slack * slack
            scores[j] = -2.0 * weight * cost * sign * slack
        return total

    cdef double _logistic_slopes(self, Py_ssize_t i, double* scores, double* sizes,
                                 double* small) noexcept nogil:
        """Do the same as `_slopes` for the logistic loss, with eight exponentials at a
        time.
        """
        cdef Py_ssize_t j, state
        cdef double sign, cost, e, share, low, largest, product = 1.0, total = 0.0
        cdef double weight = self.example_weights[i]
        # e^-|f|, which does not overflow
        for j in range(self.n_labels):
            sizes[j] = -fabs(scores[j])
        largest = exp(sks_exp_row(self.n_labels, self.ld, sizes, small, &low))
        for j in range(self.n_labels):
            state = self._state(i, j)
            sign = 1.0 if state & 1 else -1.0
            cost = self._cost(state, j)
            e = largest * small[j]
            # the logarithm of a product replaces the logarithms of the factors 1 + e
            if cost == 1.0:
                product *= 1.0 + e
                if product > LARGE:
                    total += log(product)
                    product = 1.0
            else:
                total += cost * log1p(e)
            share = e / (1.0 + e)
            if sign * scores[j] < 0.0:
                total -= cost * sign * scores[j]
                share = 1.0 / (1.0 + e)
            scores[j] = -weight * cost * sign * share
        return total + log(product)

    def add_slopes(self, Py_ssize_t start, Py_ssize_t stop, w, gradient, losses,
                   products=None):
        """Write the losses of examples start <= i < stop, and add their gradient.

        Parameters
        ----------
        start, stop : int
            Examples.
        w : ndarray of shape (n_weights,)
            Weights.
        gradient : ndarray of shape (n_weights,)
            The gradient is added to this array; only its part for weights of pairs if
            there are `products`.
        losses : ndarray of shape (n_examples,)
            sum_j c_ij l(s_ij f_ij) is written to this array.
        products : ndarray of shape (stop - start, ld), default=None
            The scores without pairs, which become slopes p_i c_ij s_ij l'.
        """
        cdef Py_ssize_t i
        cdef bytearray scratch = bytearray(3 * self.ld * sizeof(double))
        cdef double* memory = <double*> <char*> scratch
        cdef double* scores = memory + 2 * self.ld
        cdef const double* weights = const_doubles(w)
        cdef double* slopes = doubles(gradient)
        cdef double* values = doubles(losses)
        cdef double* known = NULL if products is None else doubles(products)
        with nogil:
            for i in range(start, stop):
                if known:
                    scores = known + (i - start) * self.ld
                    self._add_pair_scores(i, weights, scores)
                else:
                    self._scores(i, weights, scores)
                values[i] = self._slopes(i, scores, memory)
                if known:
                    self._add_to_pairs(i, scores, slopes)
                else:
                    self._add(i, scores, self.n_labels, slopes)

    def duals_at(self, w, duals):
        """Write the dual variables b_ij = -l'(s_ij f_ij) of the weights w."""
        cdef Py_ssize_t i, j
        cdef double margin
        cdef bytearray scratch = bytearray(self.ld * sizeof(double))
        cdef double* scores = <double*> <char*> scratch
        cdef const double* weights = const_doubles(w)
        cdef double* b = doubles(duals)
        with nogil:
            for i in range(self.n_examples):
                self._scores(i, weights, scores)
                for j in range(self.n_labels):
                    margin = scores[j] if self._state(i, j) & 1 else -scores[j]
                    if self.kind == LOGISTIC:
                        b[i * self.n_labels + j] = 1.0 / (1.0 + exp(margin))
                    else:
                        b[i * self.n_labels + j] = 2.0 * max(1.0 - margin, 0.0)

    def dual_losses(self, factors, duals, out):
        """Write sum_j c_ij phi(b_ij), where b is the duals times `factors`."""
        cdef Py_ssize_t i, j, state
        cdef double b_ij, total
        cdef const double* factor = const_doubles(factors)
        cdef const double* b = const_doubles(duals)
        cdef double* values = doubles(out)
        with nogil:
            for i in range(self.n_examples):
                total = 0.0
                for j in range(self.n_labels):
                    state = self._state(i, j)
                    b_ij = (factor[(state & 1) * self.n_labels + j]
                            * b[i * self.n_labels + j])
                    total += self._cost(state, j) * dual_of(self.kind, b_ij)
                values[i] = total
