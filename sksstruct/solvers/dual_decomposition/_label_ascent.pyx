"""Ascent of the dual of label sets along lines, one example at a time.

In example i of weight p_i, with C_i = p_i / alpha and observed labels y_j, q_j is the
probability that label j is on, and s_e that both labels of pair e = (j, k) are,

    max(0, q_j + q_k - 1) <= s_e <= min(q_j, q_k)

The dual is sum_i p_i sum_j |q_j - y_j| - alpha/2 |w|^2, at the weights

    w_j = sum_i C_i (y_j - q_j) x_i,   v_e = scaling sum_i C_i (y_j y_k - s_e)

A visit finds the best point z of the relaxation at the present weights, by a cut that
is reduced to the labels that need one (`_reduced_roof.pyx`); labels that differ from it
are to move. Steps along lines in q (`_label_steps.pyx`) then improve the dual.
Frank-Wolfe steps towards z are among them, so that the dual converges; and as labels
have steps of their own, it does so as quickly as for labels without pairs.

If q_j or q_k is 0 or 1, s_e is q_j q_k. Only the s of pairs of two other labels, which
are open, are stored. `label_ascent.py` makes the arrays.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from sksstruct.inference.cuts._reduced_roof cimport (
    LabelPairs, PairLists, ReducedRoofDual,
)
from sksstruct.models.protocols._factors cimport BinaryFactorModel
from sksstruct.solvers.dual_decomposition._label_steps cimport (
    LabelSteps, Link, Local, is_open,
)
from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport (
    const_doubles, const_intps, doubles, int32s, uint8s,
)

# Least curvature of a label, in units of C_i: one without features and pairs goes all
# the way to where it gains.
cdef double LEAST_CURVATURE = 1e-9


cdef struct OpenPair:
    # a pair of two labels that are neither on nor off, and its s
    int32_t pair
    double both


cdef struct OpenPairs:
    Py_ssize_t size, capacity
    OpenPair* items


cdef class LabelVisits(LabelSteps):
    """Visits of examples, and what they change; see `LabelAscent`."""

    cdef readonly BinaryFactorModel model
    cdef readonly LabelPairs graph
    cdef readonly ReducedRoofDual oracle
    cdef readonly double alpha
    cdef public double gap, ignore
    cdef public int64_t calls
    # q, of shape (n_examples, n_labels)
    cdef double* _q
    cdef OpenPairs* _open_pairs
    cdef tuple _owned

    # of the example that is visited: C_i, scores, z, places of local labels
    cdef double _C
    cdef double* _unary
    cdef int32_t* _states
    cdef int32_t* _place
    # the last link of each pair
    cdef int32_t* _link_of

    def __init__(self, BinaryFactorModel model, double alpha, LabelPairs graph,
                 probabilities, unary, direction, waits, integers, link_of):
        cdef Py_ssize_t L = model.n_labels, i, label
        cdef int32_t* first = int32s(integers)
        self.model, self.alpha, self.graph = model, alpha, graph
        self.oracle = ReducedRoofDual(graph)
        self._open_pairs = <OpenPairs*> calloc(
            model.n_examples + 1, sizeof(OpenPairs))
        if self._open_pairs == NULL:
            raise MemoryError()
        self._q, self._unary = doubles(probabilities), doubles(unary)
        self._direction, self._waits = doubles(direction), uint8s(waits)
        self._moving, self._drawn, self._group = first, first + L, first + 2 * L
        self._states, self._place = first + 3 * L, first + 4 * L
        self._link_of = int32s(link_of)
        for i in range(model.n_examples):
            for label in range(L):
                self._q[i * L + label] = model._y_true[i, label]
        self._owned = probabilities, unary, direction, waits, integers, link_of

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self._open_pairs != NULL:
            for i in range(self.model.n_examples):
                free(self._open_pairs[i].items)
        free(self._open_pairs)

    # ---- passes ----

    def visit_alone(self, order_):
        """Visit examples without pairs: a support vector machine for each label."""
        cdef const Py_ssize_t* order = const_intps(order_)
        cdef Py_ssize_t k, n = len(order_)
        with nogil:
            for k in range(n):
                self._visit_alone(order[k])

    def visit(self, order_):
        """Visit examples in the given order."""
        cdef const Py_ssize_t* order = const_intps(order_)
        cdef Py_ssize_t k, n = len(order_)
        with nogil:
            for k in range(n):
                self._visit(order[k])

    cdef int _visit_alone(self, Py_ssize_t i) except -1 nogil:
        """Let each label of an example go to its best q, as if it had no pairs."""
        cdef Py_ssize_t label
        cdef double gain, old, q
        cdef double* probabilities = self._q + i * self.model.n_labels
        self._begin(i)
        for label in range(self.model.n_labels):
            gain, old = self._unary[label], probabilities[label]
            q = unit(old + gain / self._label_curvature)
            # what going all the way to the better of on and off promises
            self.gap += self.model._example_weights[i] * (
                gain * (1.0 - old) if gain > 0.0 else -gain * old)
            if q != old:
                self.model.add_label(i, label, -self._C * (q - old))
                probabilities[label] = q
        return 0

    cdef int _begin(self, Py_ssize_t i) except -1 nogil:
        """Score the labels of an example, and let steps be about it."""
        cdef double least
        self._C = self.model._example_weights[i] / self.alpha
        least = LEAST_CURVATURE * self._C
        self._label_curvature = self._C * self.model.label_norm(i)
        if self._label_curvature < least:
            self._label_curvature = least
        # in units of the scores of pairs, not of their weights
        self._pair_curvature = self._C * self.model.scaling * self.model.scaling
        self._score(i, self._unary)
        self.calls += 1
        return 0

    cdef int _score(self, Py_ssize_t i, double* unary) except -1 nogil:
        """Write what each label scores by being on, its loss included."""
        cdef Py_ssize_t label
        self.model.label_scores(i, 0, self.model.n_labels, unary)
        for label in range(self.model.n_labels):
            unary[label] += -1.0 if self.model._y_true[i, label] else 1.0
        return 0

    cdef int _visit(self, Py_ssize_t i) except -1 nogil:
        """Improve the duals of an example."""
        cdef Py_ssize_t label
        cdef double gap
        cdef const double* probabilities = self._q + i * self.model.n_labels
        self._begin(i)
        # the present point, rounded, is next to the solution in late passes
        for label in range(self.model.n_labels):
            self._states[label] = 2 if probabilities[label] > 0.5 else 0
        self.oracle.relax(self._unary, self._states)
        self._gather(i)
        if not self._n_moving:
            return 0
        # before the steps, so that the sum over examples is what is left to gain
        gap = self._gap()
        self.gap += self.model._example_weights[i] * gap
        if gap > self.ignore:
            self._improve()
            self._store(i)
        return 0

    # ---- the labels of an example that may move ----

    cdef int _gather(self, Py_ssize_t i) except -1 nogil:
        """List the labels that are to move or are on, and the pairs of those."""
        cdef Py_ssize_t label, n = 0, k
        cdef double q, target
        cdef const double* probabilities = self._q + i * self.model.n_labels
        cdef Local* item
        self._n_moving = 0
        for label in range(self.model.n_labels):
            q, target = probabilities[label], 0.5 * self._states[label]
            # pairs of a label that is off and stays so have s = 0
            if q == 0.0 and target == 0.0:
                continue
            reserve(<void**> &self._local, &self._local_capacity, n + 1, sizeof(Local))
            item = &self._local[n]
            item.label, item.q, item.target = <int32_t> label, q, target
            item.gain, item.before = self._unary[label], q
            item.first = item.last = 0
            self._place[label] = <int32_t> n
            # open labels may move in other ways than to z
            if q != target or is_open(q):
                self._moving[self._n_moving] = <int32_t> n
                self._n_moving += 1
            n += 1
        self._n = n
        # most examples have none in late passes
        if self._n_moving:
            self._link(i)
        # for the next example, without a loop over all labels
        for k in range(n):
            self._place[self._local[k].label] = -1
        return 0

    cdef int _link(self, Py_ssize_t i) except -1 nogil:
        """Find the pairs of labels of which one may move."""
        cdef Py_ssize_t k, place, n = 0, label
        cdef int32_t other
        cdef PairLists graph = self.graph.lists
        cdef Local* item
        cdef Link* link
        cdef OpenPair* stored
        for k in range(self._n_moving):
            item = &self._local[self._moving[k]]
            label = item.label
            item.first = n
            for place in range(graph.first_partner[label],
                               graph.first_partner[label + 1]):
                other = self._place[graph.partner[place]]
                if other < 0:
                    continue
                reserve(<void**> &self._links, &self._link_capacity, n + 1,
                        sizeof(Link))
                link = &self._links[n]
                link.pair, link.other = graph.partner_pair[place], other
                link.score, link.twin = graph.score[place], -1
                # right if one of the two is on or off
                link.both = item.q * self._local[other].q
                # the other one's links are listed if it comes before
                if other < self._moving[k] and (
                        self._local[other].last > self._local[other].first):
                    link.twin = self._link_of[link.pair]
                    self._links[link.twin].twin = <int32_t> n
                self._link_of[link.pair] = <int32_t> n
                n += 1
            item.last = n
        self._n_links = n
        # both labels of a stored pair are open, so that they are among those that move
        for k in range(self._open_pairs[i].size):
            stored = &self._open_pairs[i].items[k]
            link = &self._links[self._link_of[stored.pair]]
            link.both = self._links[link.twin].both = stored.both
        return 0

    cdef int _store(self, Py_ssize_t i) except -1 nogil:
        """Write what has moved into weights and probabilities."""
        cdef Py_ssize_t k, j
        cdef Local* item
        cdef Link* link
        cdef OpenPairs* open_pairs = &self._open_pairs[i]
        open_pairs.size = 0
        for k in range(self._n_moving):
            item = &self._local[self._moving[k]]
            if item.q != item.before:
                self.model.add_label(i, item.label, -self._C * (item.q - item.before))
                self._q[i * self.model.n_labels + item.label] = item.q
            for j in range(item.first, item.last):
                link = &self._links[j]
                # of twins the first counts
                if 0 <= link.twin < j:
                    continue
                # scores of most pairs stay, and telling the lists takes time
                if self.model.scaling * self.model._pair_weights[link.pair] != (
                        link.score):
                    self.graph.put(link.pair, link.score)
                    self.model._pair_weights[link.pair] = (
                        link.score / self.model.scaling)
                if is_open(item.q) and is_open(self._local[link.other].q):
                    keep(open_pairs, link.pair, link.both)
        return 0

    # ---- the first pairs ----

    def choose_pairs(self, sums_):
        """Choose the first s; the entries of sums, of shape (3, n_pairs), are zero."""
        cdef double* sums = doubles(sums_)
        cdef Py_ssize_t i
        with nogil:
            # a weight is a sum over all examples, so that all are counted first
            for i in range(self.model.n_examples):
                self._choose_pairs(i, sums, False)
            for i in range(self.model.n_examples):
                self._choose_pairs(i, sums, True)

    cdef int _choose_pairs(self, Py_ssize_t i, double* lows,
                           bint choose) except -1 nogil:
        """Count the least, the most and the observed s of an example, or choose s."""
        cdef Py_ssize_t label, other, place
        cdef int32_t pair
        cdef double* highs = lows + self.model.n_pairs
        cdef double* seen = highs + self.model.n_pairs
        cdef double C = self.model._example_weights[i] / self.alpha
        cdef double q, p, low, high, both, observed
        cdef const double* probabilities = self._q + i * self.model.n_labels
        cdef OpenPairs* open_pairs = &self._open_pairs[i]
        C *= self.model.scaling
        for label in range(self.model.n_labels):
            q = probabilities[label]
            if q == 0.0 and not self.model._y_true[i, label]:
                continue
            for place in range(self.graph.lists.first_partner[label],
                               self.graph.lists.first_partner[label + 1]):
                other = self.graph.lists.partner[place]
                p = probabilities[other]
                if other > label or (p == 0.0 and not self.model._y_true[i, other]):
                    continue
                pair = self.graph.lists.partner_pair[place]
                # where one label is on, s is the other's q, without rounding
                high = q if q < p else p
                low = q + p - 1.0 if q + p > 1.0 else 0.0
                low = high if q == 1.0 or p == 1.0 else low
                # the weight of the pair is C times what this exceeds s by, in sum
                observed = self.model._y_true[i, label] * self.model._y_true[i, other]
                if not choose:
                    lows[pair] += C * low
                    highs[pair] += C * high
                    seen[pair] += C * observed
                    continue
                # all examples go the same share of their ranges
                both = low
                if seen[pair] > lows[pair]:
                    # no range at all gives infinity, which is cut off
                    both += (high - low) * unit(
                        (seen[pair] - lows[pair]) / (highs[pair] - lows[pair]))
                self.model._pair_weights[pair] -= C * (both - observed)
                if is_open(q) and is_open(p):
                    keep(open_pairs, pair, both)
        return 0

    def load_scores(self, scores_):
        """Set the scores of pairs, and sum those of each label again."""
        self.graph.load(const_doubles(scores_))

    # ---- certificates ----

    def read_open(self, out_):
        """Write s of open pairs to an array of shape (n_examples, n_pairs)."""
        cdef double* out = doubles(out_)
        cdef Py_ssize_t i, k
        cdef OpenPair* item
        for i in range(self.model.n_examples):
            for k in range(self._open_pairs[i].size):
                item = &self._open_pairs[i].items[k]
                out[i * self.model.n_pairs + item.pair] = item.both

    def read_hinge(self, ReducedRoofDual oracle, Py_ssize_t first, Py_ssize_t last,
                   unary_, states_, values_):
        """Write the relaxed hinge of examples first <= i < last to values[i].

        Other threads may do the same with another oracle and scratch of their own.
        """
        cdef double* unary = doubles(unary_)
        cdef int32_t* states = int32s(states_)
        cdef double* values = doubles(values_)
        cdef const double* probabilities
        cdef Py_ssize_t i, label
        with nogil:
            for i in range(first, last):
                probabilities = self._q + i * self.model.n_labels
                self._score(i, unary)
                for label in range(self.model.n_labels):
                    states[label] = 2 * self.model._y_true[i, label]
                # with the losses of the other labelings in the scores
                values[i] = -oracle.value(unary, states)
                for label in range(self.model.n_labels):
                    states[label] = 2 if probabilities[label] > 0.5 else 0
                oracle.relax(unary, states)
                values[i] += oracle.value(unary, states)


cdef inline double unit(double value) noexcept nogil:
    """Return the nearest number between zero and one."""
    return 0.0 if value < 0.0 else (1.0 if value > 1.0 else value)


cdef inline int keep(OpenPairs* pairs, int32_t pair, double both) except -1 nogil:
    """Add a pair to a list."""
    reserve(<void**> &pairs.items, &pairs.capacity, pairs.size + 1, sizeof(OpenPair))
    pairs.items[pairs.size].pair, pairs.items[pairs.size].both = pair, both
    pairs.size += 1
    return 0
