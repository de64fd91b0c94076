"""Ascent of the dual of label sets along lines, one example at a time.

In example i of weight p_i, with C_i = p_i / alpha and observed labels y_j, q_j is the
probability that label j is on, and s_e that both labels of pair e = (j, k) are on,

    max(0, q_j + q_k - 1) <= s_e <= min(q_j, q_k)

The dual is sum_i p_i sum_j |q_j - y_j| - alpha/2 |w|^2, at the weights

    w_j = sum_i C_i (y_j - q_j) x_i,   v_e = scaling sum_i C_i (y_j y_k - s_e)

A visit finds the best labeling z of the relaxation at the present weights, by a minimum
cut that is reduced to the labels that need one (`_reduced_roof.pyx`). Labels with q
different from z are candidates to move, along lines in q (`_label_steps.pyx`) that
improve the dual. Frank-Wolfe steps towards z are among the steps, so that the ascent
converges; steps of single labels make it as fast as for labels without pairs.

A label is open if 0 < q < 1. Unless both labels of a pair are open, s_e = q_j q_k; only
the s of open pairs are stored. `label_ascent.py` allocates the arrays.
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

# Least curvature of a label, in units of C_i: a label without features and pairs has no
# curvature, and moves to the end of [0, 1] that its gain favors.
cdef double LEAST_CURVATURE = 1e-9


cdef struct OpenPair:
    # a pair whose two labels are open, and its s
    int32_t pair
    double both


cdef struct OpenPairs:
    Py_ssize_t size, capacity
    OpenPair* items


cdef class LabelVisits(LabelSteps):
    """Visits of examples, which update q, s and weights; see `LabelAscent`."""

    cdef readonly BinaryFactorModel model
    cdef readonly LabelPairs graph
    cdef readonly ReducedRoofDual oracle
    cdef readonly double alpha
    cdef public double gap, ignore
    cdef public int64_t calls
    # q of each label in each example, (n_examples, n_labels)
    cdef double* _q
    # open pairs of each example, (n_examples,)
    cdef OpenPairs* _open_pairs
    cdef tuple _arrays

    # C_i of the visited example
    cdef double _C
    # for each label of the visited example: its score including the loss, 2 z, and its
    # place in the list of local labels, or -1
    cdef double* _unary
    cdef int32_t* _states
    cdef int32_t* _place
    # for each pair: the link that was made last, a place in `_links`
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
        self._arrays = probabilities, unary, direction, waits, integers, link_of

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self._open_pairs != NULL:
            for i in range(self.model.n_examples):
                free(self._open_pairs[i].items)
        free(self._open_pairs)

    # ---- passes ----

    def visit_alone(self, order_):
        """Visit examples as if no labels had pairs, which trains one SVM per label."""
        cdef const Py_ssize_t* order = const_intps(order_)
        cdef Py_ssize_t k, n = len(order_)
        with nogil:
            for k in range(n):
                self._visit_alone(order[k])

    def visit(self, order_):
        """Improve the dual in q and s of each example, in the given order."""
        cdef const Py_ssize_t* order = const_intps(order_)
        cdef Py_ssize_t k, n = len(order_)
        with nogil:
            for k in range(n):
                self._visit(order[k])

    cdef int _visit_alone(self, Py_ssize_t i) except -1 nogil:
        """Move each label of an example to its best q, as if the label had no pairs."""
        cdef Py_ssize_t label
        cdef double gain, old, q
        cdef double* probabilities = self._q + i * self.model.n_labels
        self._begin_example(i)
        for label in range(self.model.n_labels):
            gain, old = self._unary[label], probabilities[label]
            q = unit(old + gain / self._label_curvature)
            # first-order estimate of the gain from moving q to 0 or 1, whichever is
            # better
            self.gap += self.model._example_weights[i] * (
                gain * (1.0 - old) if gain > 0.0 else -gain * old)
            if q != old:
                self.model.add_label(i, label, -self._C * (q - old))
                probabilities[label] = q
        return 0

    cdef int _begin_example(self, Py_ssize_t i) except -1 nogil:
        """Score the labels of an example, and set the curvatures of its steps."""
        cdef double least
        self._C = self.model._example_weights[i] / self.alpha
        least = LEAST_CURVATURE * self._C
        self._label_curvature = self._C * self.model.label_norm(i)
        if self._label_curvature < least:
            self._label_curvature = least
        # minus the derivative of a pair's score along its s: one scaling for the
        # weight, which changes with s, and another one for the feature
        self._pair_curvature = self._C * self.model.scaling * self.model.scaling
        self._score(i, self._unary)
        self.calls += 1
        return 0

    cdef int _score(self, Py_ssize_t i, double* unary) except -1 nogil:
        """Write the score of each label being on, including its loss."""
        cdef Py_ssize_t label
        self.model.label_scores(i, 0, self.model.n_labels, unary)
        for label in range(self.model.n_labels):
            unary[label] += -1.0 if self.model._y_true[i, label] else 1.0
        return 0

    cdef int _visit(self, Py_ssize_t i) except -1 nogil:
        """Improve the dual in the coordinates of one example."""
        cdef Py_ssize_t label
        cdef double gap
        cdef const double* probabilities = self._q + i * self.model.n_labels
        self._begin_example(i)
        # warm start: in late passes, the rounded q differs little from the solution z
        for label in range(self.model.n_labels):
            self._states[label] = 2 if probabilities[label] > 0.5 else 0
        self.oracle.relax(self._unary, self._states)
        self._gather_local(i)
        if not self._n_moving:
            return 0
        # the gap of this example before its steps
        gap = self._gap()
        self.gap += self.model._example_weights[i] * gap
        if gap > self.ignore:
            self._improve()
            self._store_changes(i)
        return 0

    # ---- the labels of an example that may move ----

    cdef int _gather_local(self, Py_ssize_t i) except -1 nogil:
        """List labels of an example that may move or are on, and link their pairs."""
        cdef Py_ssize_t label, n = 0, k
        cdef double q, target
        cdef const double* probabilities = self._q + i * self.model.n_labels
        cdef Local* item
        self._n_moving = 0
        for label in range(self.model.n_labels):
            q, target = probabilities[label], 0.5 * self._states[label]
            # a label that is off in both q and z has s = 0 in all of its pairs
            if q == 0.0 and target == 0.0:
                continue
            reserve(<void**> &self._local, &self._local_capacity, n + 1, sizeof(Local))
            item = &self._local[n]
            item.label, item.q, item.target = <int32_t> label, q, target
            item.gain, item.before = self._unary[label], q
            item.first = item.last = 0
            self._place[label] = <int32_t> n
            # an open label may move even if its q equals z
            if q != target or is_open(q):
                self._moving[self._n_moving] = <int32_t> n
                self._n_moving += 1
            n += 1
        self._n = n
        # in late passes, most examples have no label that moves
        if self._n_moving:
            self._link_moving(i)
        # reset for the next example, without a loop over all labels
        for k in range(n):
            self._place[self._local[k].label] = -1
        return 0

    cdef int _link_moving(self, Py_ssize_t i) except -1 nogil:
        """Link the pairs of local labels of which at least one may move."""
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
                # this s is right if at most one of the two labels is open; s of open
                # pairs is set below
                link.both = item.q * self._local[other].q
                # a moving partner that comes before this label has links already
                if other < self._moving[k] and (
                        self._local[other].last > self._local[other].first):
                    link.twin = self._link_of[link.pair]
                    self._links[link.twin].twin = <int32_t> n
                self._link_of[link.pair] = <int32_t> n
                n += 1
            item.last = n
        self._n_links = n
        # the labels of a stored pair are open, hence moving and linked
        for k in range(self._open_pairs[i].size):
            stored = &self._open_pairs[i].items[k]
            link = &self._links[self._link_of[stored.pair]]
            link.both = self._links[link.twin].both = stored.both
        return 0

    cdef int _store_changes(self, Py_ssize_t i) except -1 nogil:
        """Write the changes of the visit to weights and probabilities."""
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
                # each pair is stored once, at the first of its twin links
                if 0 <= link.twin < j:
                    continue
                # most scores do not change, and updating the lists of pairs takes time
                if self.model.scaling * self.model._pair_weights[link.pair] != (
                        link.score):
                    self.graph.put(link.pair, link.score)
                    self.model._pair_weights[link.pair] = (
                        link.score / self.model.scaling)
                if is_open(item.q) and is_open(self._local[link.other].q):
                    append_pair(open_pairs, link.pair, link.both)
        return 0

    # ---- the first pairs ----

    def choose_pairs(self, sums_):
        """Choose the initial s; `sums_` is scratch: zeros of shape (3, n_pairs)."""
        cdef double* sums = doubles(sums_)
        cdef Py_ssize_t i
        with nogil:
            # a pair's weight is a sum over all examples: first sum, then choose each s
            for i in range(self.model.n_examples):
                self._choose_pairs(i, sums, False)
            for i in range(self.model.n_examples):
                self._choose_pairs(i, sums, True)

    cdef int _choose_pairs(self, Py_ssize_t i, double* lows,
                           bint choose) except -1 nogil:
        """Sum the least, largest and observed s of an example's pairs, or choose s."""
        cdef Py_ssize_t label, other, place
        cdef int32_t pair
        cdef double* highs = lows + self.model.n_pairs
        cdef double* observed_sums = highs + self.model.n_pairs
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
                # if one label is on, s is set to the q of the other label, without
                # rounding errors
                high = q if q < p else p
                low = q + p - 1.0 if q + p > 1.0 else 0.0
                low = high if q == 1.0 or p == 1.0 else low
                # the pair's weight is the sum of C times (observed - s) over the
                # examples
                observed = self.model._y_true[i, label] * self.model._y_true[i, other]
                if not choose:
                    lows[pair] += C * low
                    highs[pair] += C * high
                    observed_sums[pair] += C * observed
                    continue
                # the same fraction of the range in every example makes the sums of s
                # and of the observed s equal
                both = low
                if observed_sums[pair] > lows[pair]:
                    # a range of zero in all examples gives infinity, which `unit` clips
                    both += (high - low) * unit(
                        (observed_sums[pair] - lows[pair]) / (highs[pair] - lows[pair]))
                self.model._pair_weights[pair] -= C * (both - observed)
                if is_open(q) and is_open(p):
                    append_pair(open_pairs, pair, both)
        return 0

    def load_scores(self, scores_):
        """Set the scores of pairs, and recompute the sums of scores of each label."""
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
        """Write the relaxed hinge loss of examples first <= i < last to values[i].

        Several threads may call this at once, each with its own oracle and scratch.
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
                # `unary` has losses up to a constant, which cancels between the two
                # values
                values[i] = -oracle.value(unary, states)
                for label in range(self.model.n_labels):
                    states[label] = 2 if probabilities[label] > 0.5 else 0
                oracle.relax(unary, states)
                values[i] += oracle.value(unary, states)


cdef inline double unit(double value) noexcept nogil:
    """Return the nearest number between zero and one."""
    return 0.0 if value < 0.0 else (1.0 if value > 1.0 else value)


cdef inline int append_pair(OpenPairs* pairs, int32_t pair,
                            double both) except -1 nogil:
    """Append a pair and its s to a list of open pairs."""
    reserve(<void**> &pairs.items, &pairs.capacity, pairs.size + 1, sizeof(OpenPair))
    pairs.items[pairs.size].pair, pairs.items[pairs.size].both = pair, both
    pairs.size += 1
    return 0
