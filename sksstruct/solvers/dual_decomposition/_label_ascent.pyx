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
are open, are stored.
"""

import numpy as np

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


cdef class LabelAscent(LabelSteps):
    """Probabilities of labels and pairs, and passes that improve them.

    Parameters
    ----------
    model : BinaryFactorModel
        The model; its weights are written.
    alpha : float
        Regularization.

    Attributes
    ----------
    gap : float
        Sum of the gaps of the examples visited since this was last set.
    calls : int
        Number of maximizations of the relaxation.
    """

    cdef readonly BinaryFactorModel model
    cdef readonly LabelPairs graph
    cdef readonly ReducedRoofDual oracle
    cdef readonly double alpha
    cdef public double gap, ignore
    cdef public int64_t calls
    cdef double[:, ::1] _probabilities
    cdef OpenPairs* _open_pairs

    # of the example that is visited: C_i, scores, z, places of local labels
    cdef double _C
    cdef double[::1] _unary
    cdef int32_t[::1] _states, _place
    # the last link of each pair
    cdef int32_t[::1] _link_of

    def __cinit__(self, BinaryFactorModel model, double alpha):
        cdef Py_ssize_t n = model.n_examples, L = model.n_labels
        self.model, self.alpha = model, alpha
        self.graph = LabelPairs(model.pairs, L)
        self.oracle = ReducedRoofDual(self.graph)
        self._open_pairs = <OpenPairs*> calloc(n + 1, sizeof(OpenPairs))
        if self._open_pairs == NULL:
            raise MemoryError()
        self._probabilities = np.array(model._y_true, dtype=np.float64)
        # scores are written by whole vectors
        self._unary = np.zeros(L + 8)
        self._states = np.zeros(L, dtype=np.int32)
        self._place = np.full(L, -1, dtype=np.int32)
        self._link_of = np.zeros(model.n_pairs + 1, dtype=np.int32)

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self._open_pairs != NULL:
            for i in range(self.model.n_examples):
                free(self._open_pairs[i].items)
        free(self._open_pairs)

    # ---- passes ----

    def visit_alone(self, const Py_ssize_t[::1] order):
        """Visit examples without pairs: a support vector machine for each label.

        Parameters
        ----------
        order : ndarray of shape (n,), intp
            Examples.
        """
        cdef Py_ssize_t k, i, label
        cdef double gain, old, q
        with nogil:
            for k in range(order.shape[0]):
                i = order[k]
                self._begin(i)
                # labels have nothing to do with each other: each goes to its best q
                for label in range(self.model.n_labels):
                    gain, old = self._unary[label], self._probabilities[i, label]
                    q = unit(old + gain / self._label_curvature)
                    # what going all the way to the better of on and off promises
                    self.gap += self.model._example_weights[i] * (
                        gain * (1.0 - old) if gain > 0.0 else -gain * old)
                    if q != old:
                        self.model.add_label(i, label, -self._C * (q - old))
                        self._probabilities[i, label] = q

    def visit(self, const Py_ssize_t[::1] order):
        """Visit examples in the given order.

        Parameters
        ----------
        order : ndarray of shape (n,), intp
            Examples.
        """
        cdef Py_ssize_t k
        with nogil:
            for k in range(order.shape[0]):
                self._visit(order[k])

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
        self._score(i, &self._unary[0])
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
        self._begin(i)
        # the present point, rounded, is next to the solution in late passes
        for label in range(self.model.n_labels):
            self._states[label] = 2 if self._probabilities[i, label] > 0.5 else 0
        self.oracle.relax(&self._unary[0], &self._states[0])
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
        cdef Local* item
        self._n_moving = 0
        for label in range(self.model.n_labels):
            q, target = self._probabilities[i, label], 0.5 * self._states[label]
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
                self._probabilities[i, item.label] = item.q
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

    def begin_pairs(self):
        """Choose s for the labels found without pairs.

        Each s lies between the limits that the labels set, and makes the weight of its
        pair zero if possible. The objective then stays the same.
        """
        cdef double[:, ::1] sums = np.zeros((3, self.model.n_pairs + 1))
        cdef Py_ssize_t i
        with nogil:
            # a weight is a sum over all examples, so that all are counted first
            for i in range(self.model.n_examples):
                self._begin_pairs(i, sums, False)
            for i in range(self.model.n_examples):
                self._begin_pairs(i, sums, True)
        self.load()

    cdef int _begin_pairs(self, Py_ssize_t i, double[:, ::1] sums,
                          bint choose) except -1 nogil:
        """Count the least, the most and the observed s of an example, or choose s."""
        cdef Py_ssize_t label, other, place
        cdef int32_t pair
        cdef double C = self.model._example_weights[i] / self.alpha
        cdef double q, p, low, high, both, observed
        cdef OpenPairs* open_pairs = &self._open_pairs[i]
        C *= self.model.scaling
        for label in range(self.model.n_labels):
            q = self._probabilities[i, label]
            if q == 0.0 and not self.model._y_true[i, label]:
                continue
            for place in range(self.graph.lists.first_partner[label],
                               self.graph.lists.first_partner[label + 1]):
                other = self.graph.lists.partner[place]
                p = self._probabilities[i, other]
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
                    sums[0, pair] += C * low
                    sums[1, pair] += C * high
                    sums[2, pair] += C * observed
                    continue
                # all examples go the same share of their ranges
                both = low
                if sums[2, pair] > sums[0, pair]:
                    # no range at all gives infinity, which is cut off
                    both += (high - low) * unit(
                        (sums[2, pair] - sums[0, pair])
                        / (sums[1, pair] - sums[0, pair]))
                self.model._pair_weights[pair] -= C * (both - observed)
                if is_open(q) and is_open(p):
                    keep(open_pairs, pair, both)
        return 0

    def load(self):
        """Copy the weights of pairs from the model, and sum scores again."""
        cdef double[::1] scores = (
            self.model.scaling * np.append(self.model.pair_weights(), 0.0))
        self.graph.load(&scores[0])

    # ---- certificates ----

    def expected_loss(self):
        """Return sum_i p_i sum_j |q_j - y_j|, the linear term of the dual."""
        q, y_true = np.asarray(self._probabilities), np.asarray(self.model._y_true)
        return float(self.model.example_weights @ np.abs(q - y_true).sum(axis=1))

    def probabilities(self):
        """Return q, of shape (n_examples, n_labels); for tests."""
        return np.array(self._probabilities)

    def pair_probabilities(self):
        """Return s, of shape (n_examples, n_pairs); for tests of few pairs."""
        cdef Py_ssize_t i, k
        q = np.asarray(self._probabilities)
        first, second = self.model.pairs.T
        # right for all but open pairs
        out = q[:, first] * q[:, second]
        for i in range(self.model.n_examples):
            for k in range(self._open_pairs[i].size):
                out[i, self._open_pairs[i].items[k].pair] = (
                    self._open_pairs[i].items[k].both)
        return out

    def hinge(self, Py_ssize_t first, Py_ssize_t last, double[::1] values):
        """Compute the relaxed hinge of examples at the current weights.

        Parameters
        ----------
        first, last : int
            The examples first <= i < last.
        values : ndarray of shape (n_examples,)
            Overwritten with their hinges.
        """
        # of this call: threads share only what they read, the scores of pairs too
        cdef ReducedRoofDual oracle = ReducedRoofDual(self.graph)
        cdef double[::1] unary = np.zeros(self.model.n_labels + 8)
        cdef int32_t[::1] states = np.zeros(self.model.n_labels, dtype=np.int32)
        cdef Py_ssize_t i, label
        with nogil:
            for i in range(first, last):
                self._score(i, &unary[0])
                for label in range(self.model.n_labels):
                    states[label] = 2 * self.model._y_true[i, label]
                # with the losses of the other labelings in the scores
                values[i] = -oracle.value(&unary[0], &states[0])
                for label in range(self.model.n_labels):
                    states[label] = 2 if self._probabilities[i, label] > 0.5 else 0
                oracle.relax(&unary[0], &states[0])
                values[i] += oracle.value(&unary[0], &states[0])


cdef inline double unit(double value) noexcept nogil:
    """Return the nearest number between zero and one."""
    return 0.0 if value < 0.0 else (1.0 if value > 1.0 else value)


cdef inline int keep(OpenPairs* pairs, int32_t pair, double both) except -1 nogil:
    """Add a pair to a list."""
    reserve(<void**> &pairs.items, &pairs.capacity, pairs.size + 1, sizeof(OpenPair))
    pairs.items[pairs.size].pair, pairs.items[pairs.size].both = pair, both
    pairs.size += 1
    return 0
