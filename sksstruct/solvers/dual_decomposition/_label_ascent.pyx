"""Ascent of the dual of label sets along lines, one example at a time.

In example i of weight p_i, with C_i = p_i / alpha and observed labels y_j, q_j is the
probability that label j is on, and s_e that both labels of pair e = (j, k) are,

    max(0, q_j + q_k - 1) <= s_e <= min(q_j, q_k)

The dual is sum_i p_i sum_j |q_j - y_j| - alpha/2 |w|^2, at the weights

    w_j = sum_i C_i (y_j - q_j) x_i,   v_e = scaling sum_i C_i (y_j y_k - s_e)

A visit finds the best point z of the relaxation at the present weights, by a cut that
is reduced to the labels that need one (`_reduced_roof.pyx`); labels that differ from it
are to move. A step goes along a line in q, with every s at the best that the new q
allow:

    psi(t) = max_s dual(q + t d, s)

is concave, its derivative piecewise linear, and its maximum in [0, t_max] is found by
false position. One step goes towards z for every group of labels that have a reason to
move together, and then one for every label alone, in both directions. Frank-Wolfe steps
towards z are among these lines, so that the dual converges; and as labels have steps of
their own, it does so as quickly as for labels without pairs.

If q_j or q_k is 0 or 1, s_e is q_j q_k. Only the s of pairs of two other labels, which
are open, are stored.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from sksstruct.inference.cuts._reduced_roof cimport (
    LabelPairs, PairLists, ReducedRoofDual,
)
from sksstruct.inference.cuts._roof_dual cimport together
from sksstruct.models.protocols._factors cimport BinaryFactorModel
from sksstruct.utils._memory cimport reserve

# Steps of false position; the left end of the interval is always a gain.
cdef int MOST_STEPS = 12
# The derivative may be this part of what it was at the beginning.
cdef double SMALL = 1e-2
# Least curvature of a label, in units of C_i: one without features and pairs goes all
# the way to where it gains.
cdef double LEAST_CURVATURE = 1e-9
# Probabilities this close to 0 and 1 are 0 and 1.
cdef double ZERO = 1e-12


cdef struct OpenPair:
    # a pair of two labels that are neither on nor off, and its s
    int32_t pair
    double both


cdef struct OpenPairs:
    Py_ssize_t size, capacity
    OpenPair* items


cdef struct Local:
    # a label that may move, or is on: its number, q, where it is to go, the gain of
    # being on without pairs, and the q that it had at the beginning
    int32_t label
    double q, target, gain, before
    # the places of its links; of labels that do not move there are none
    Py_ssize_t first, last


cdef struct Link:
    # The pair of a label and another local one: its number, s and score. If both may
    # move there are two links, each the twin of the other, else the twin is -1.
    int32_t pair, other, twin
    double both, score


cdef class LabelAscent:
    """Probabilities of labels and pairs, and passes that improve them.

    Parameters
    ----------
    model : BinaryFactorModel
        The model; its weights are written.
    alpha : float
        Regularisation.

    Attributes
    ----------
    gap : float
        Sum of the gaps of the examples visited since it was set.
    calls : int
        Maximisations of the relaxation.
    """

    cdef readonly BinaryFactorModel model
    cdef readonly LabelPairs graph
    cdef readonly ReducedRoofDual oracle
    cdef readonly double alpha
    cdef public double gap, ignore
    cdef public int64_t calls
    cdef double[:, ::1] _probabilities
    cdef OpenPairs* _open_pairs

    # of the example that is visited: C_i, curvature of a label and of a pair, scores
    cdef double _C, _label_curvature, _pair_curvature
    cdef double[::1] _unary
    cdef int32_t[::1] _states, _place
    # local labels, and links between any two of them
    cdef Local* _local
    cdef Link* _links
    cdef Py_ssize_t _n, _n_links, _local_capacity, _link_capacity
    # the last link of each pair
    cdef int32_t[::1] _link_of
    # the direction of a step, and the labels that it moves
    cdef double[::1] _direction
    cdef unsigned char[::1] _waits
    cdef int32_t[::1] _moving, _drawn, _group
    cdef Py_ssize_t _n_moving

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
        self._states, self._moving = np.zeros((2, L), dtype=np.int32)
        self._drawn, self._group = np.zeros((2, L), dtype=np.int32)
        self._place = np.full(L, -1, dtype=np.int32)
        self._direction, self._waits = np.zeros(L), np.zeros(L, dtype=np.uint8)
        self._link_of = np.zeros(model.n_pairs + 1, dtype=np.int32)

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self._open_pairs != NULL:
            for i in range(self.model.n_examples):
                free(self._open_pairs[i].items)
        free(self._open_pairs)
        free(self._local)
        free(self._links)

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
        for label in range(self.model.n_labels):
            self._states[label] = 2 if self._probabilities[i, label] > 0.5 else 0
        self.oracle.relax(&self._unary[0], &self._states[0])
        self._gather(i)
        if not self._n_moving:
            return 0
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
        if self._n_moving:
            self._link(i)
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
        for k in range(self._open_pairs[i].size):
            stored = &self._open_pairs[i].items[k]
            link = &self._links[self._link_of[stored.pair]]
            link.both = self._links[link.twin].both = stored.both
        return 0

    cdef double _gap(self) noexcept nogil:
        """What z scores above the present point."""
        cdef Py_ssize_t k, j
        cdef Local* item
        cdef Link* link
        cdef double gap = 0.0, both
        for k in range(self._n_moving):
            item = &self._local[self._moving[k]]
            gap += item.gain * (item.target - item.q)
            for j in range(item.first, item.last):
                link = &self._links[j]
                # of twins the first counts
                if 0 <= link.twin < j:
                    continue
                both = 0.5 * together(<int32_t> (2.0 * item.target),
                                      <int32_t> (2.0 * self._local[link.other].target),
                                      link.score)
                gap += link.score * (both - link.both)
        return gap

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
                if 0 <= link.twin < j:
                    continue
                if self.model.scaling * self.model._pair_weights[link.pair] != (
                        link.score):
                    self.graph.put(link.pair, link.score)
                    self.model._pair_weights[link.pair] = (
                        link.score / self.model.scaling)
                if is_open(item.q) and is_open(self._local[link.other].q):
                    keep(open_pairs, link.pair, link.both)
        return 0

    # ---- steps ----

    cdef void _improve(self) noexcept nogil:
        """Steps of groups of labels towards z, and of labels alone."""
        cdef Py_ssize_t k, n = 0
        cdef int32_t label
        for k in range(self._n_moving):
            label = self._moving[k]
            if self._local[label].target != self._local[label].q:
                self._drawn[n] = label
                n += 1
        if n > 1:
            self._step_groups(n)
        for k in range(self._n_moving):
            self._step_alone(self._moving[k])

    cdef void _step_groups(self, Py_ssize_t n_drawn) noexcept nogil:
        """Move groups of labels that pairs draw to z together."""
        cdef Py_ssize_t k, j, size, done
        cdef int32_t label, other
        cdef Link* link
        cdef double d
        for k in range(n_drawn):
            self._waits[self._drawn[k]] = 1
        for k in range(n_drawn):
            label = self._drawn[k]
            if not self._waits[label]:
                continue
            # breadth first
            self._waits[label] = 0
            self._group[0], size, done = label, 1, 0
            while done < size:
                label = self._group[done]
                done += 1
                d = self._local[label].target - self._local[label].q
                self._direction[label] = d
                for j in range(self._local[label].first, self._local[label].last):
                    link = &self._links[j]
                    other = link.other
                    if self._waits[other] and link.score * d * (
                            self._local[other].target - self._local[other].q) > 0.0:
                        self._waits[other] = 0
                        self._group[size] = other
                        size += 1
            if size > 1:
                self._search(size)
            for j in range(size):
                self._direction[self._group[j]] = 0.0

    cdef void _step_alone(self, int32_t label) noexcept nogil:
        """Move one label up or down, if that is a gain."""
        cdef double q = self._local[label].q, curvature = 0.0, d = 1.0
        cdef double first, slope, at_t, at_high = 0.0, t, low = 0.0, high = 1.0 - q
        first = self._slope_alone(label, d, 0.0, &curvature) if q < 1.0 else 0.0
        if first <= 0.0:
            d, high = -1.0, q
            first = self._slope_alone(label, d, 0.0, &curvature) if q > 0.0 else 0.0
        if first <= 0.0:
            return
        slope = first
        for _step in range(MOST_STEPS):
            # Newton's step, as long as nothing is on the right of the maximum
            if at_high < 0.0:
                t = low + slope * (high - low) / (slope - at_high)
            else:
                t = low + slope / curvature
                t = t if t < high else high
            at_t = self._slope_alone(label, d, t, &curvature)
            if at_t < 0.0:
                high, at_high = t, at_t
                continue
            low, slope = t, at_t
            if slope <= SMALL * first or t == high:
                break
        self._direction[label] = d
        self._group[0] = label
        self._move(1, low)
        self._direction[label] = 0.0

    cdef double _slope_alone(self, Py_ssize_t label, double d, double t,
                             double* curvature) noexcept nogil:
        """The derivative of psi for one label, and how fast it falls."""
        cdef Local* item = &self._local[label]
        cdef Link* link
        cdef Py_ssize_t j
        cdef double b = self._pair_curvature, q = item.q + d * t, p
        cdef double total = item.gain - self._label_curvature * d * t, best
        cdef double fall = self._label_curvature
        for j in range(item.first, item.last):
            link = &self._links[j]
            p = self._local[link.other].q
            if p == 1.0:
                # s is q
                total += link.score - b * (q - link.both)
                fall += b
            elif p > 0.0:
                best = link.both + link.score / b
                # on the line s = q, or on s = q + p - 1
                if (q < p or (q == p and d < 0.0)) and best >= q:
                    total += link.score - b * (q - link.both)
                    fall += b
                elif (q + p > 1.0 or (q + p == 1.0 and d > 0.0)) and (
                        best <= q + p - 1.0):
                    total += link.score - b * (q + p - 1.0 - link.both)
                    fall += b
        curvature[0] = fall
        return d * total

    cdef void _search(self, Py_ssize_t size) noexcept nogil:
        """Go to the maximum along the direction of the group, if that is a gain."""
        cdef double low = 0.0, high = INFINITY, at_low, at_high, t, slope, first, d
        cdef Py_ssize_t k
        cdef Local* item
        cdef int side = 0
        for k in range(size):
            item, d = &self._local[self._group[k]], self._direction[self._group[k]]
            t = (1.0 - item.q) / d if d > 0.0 else -item.q / d
            high = t if t < high else high
        first = at_low = self._slope(size, 0.0)
        if not at_low > 0.0 or not high > 0.0:
            return
        at_high = self._slope(size, high)
        if at_high >= 0.0:
            low = high
        else:
            for _step in range(MOST_STEPS):
                t = low - at_low * (high - low) / (at_high - at_low)
                slope = self._slope(size, t)
                # an end that stays counts half: the Illinois rule
                if slope >= 0.0:
                    low, at_low = t, slope
                    at_high *= 0.5 if side == 1 else 1.0
                    side = 1
                    if slope <= SMALL * first:
                        break
                else:
                    high, at_high = t, slope
                    at_low *= 0.5 if side == 2 else 1.0
                    side = 2
        self._move(size, low)

    cdef double _slope(self, Py_ssize_t size, double t) noexcept nogil:
        """The derivative of psi at t, from the right."""
        cdef Py_ssize_t k, j
        cdef double total = 0.0, d, e, q, p, low, high, best, b = self._pair_curvature
        cdef Local* item
        cdef Link* link
        for k in range(size):
            item, d = &self._local[self._group[k]], self._direction[self._group[k]]
            q = item.q + d * t
            total += d * (item.gain - self._label_curvature * d * t)
            for j in range(item.first, item.last):
                link = &self._links[j]
                e, p = self._direction[link.other], self._local[link.other].q
                if e == 0.0 and (p == 0.0 or p == 1.0):
                    # s is q p
                    if p == 1.0:
                        total += d * (link.score - b * (q - link.both))
                    continue
                # of twins the first counts
                if e != 0.0 and 0 <= link.twin < j:
                    continue
                p += e * t
                high = q if q < p else p
                low = q + p - 1.0 if q + p > 1.0 else 0.0
                best = link.both + link.score / b
                if best >= high:
                    # the smaller of the two decides, and of equal ones the slower
                    total += ((d if q < p or (q == p and d < e) else e)
                              * (link.score - b * (high - link.both)))
                elif best <= low and (low > 0.0 or (q + p == 1.0 and d + e > 0.0)):
                    total += (d + e) * (link.score - b * (low - link.both))
        return total

    cdef void _move(self, Py_ssize_t size, double t) noexcept nogil:
        """Go along the direction of the group, and let every s follow."""
        cdef Py_ssize_t k, j
        cdef double q, p, low, high, best
        cdef Local* item
        cdef Link* link
        for k in range(size):
            item = &self._local[self._group[k]]
            q = item.q + self._direction[self._group[k]] * t
            q = 0.0 if q < ZERO else (1.0 if q > 1.0 - ZERO else q)
            item.gain -= self._label_curvature * (q - item.q)
            item.q = q
        for k in range(size):
            item = &self._local[self._group[k]]
            q = item.q
            for j in range(item.first, item.last):
                link = &self._links[j]
                p = self._local[link.other].q
                high = q if q < p else p
                low = q + p - 1.0 if q + p > 1.0 else 0.0
                # where one is on or off, rounding must not leave a difference
                low = high if q == 1.0 or p == 1.0 else low
                best = link.both + link.score / self._pair_curvature
                best = best if best > low else low
                best = best if best < high else high
                link.score -= self._pair_curvature * (best - link.both)
                link.both = best
                if link.twin >= 0:
                    self._links[link.twin].both = best
                    self._links[link.twin].score = link.score

    # ---- the first pairs ----

    def begin_pairs(self):
        """Choose s for the labels found without pairs.

        Each s is between the least and the most that the labels allow, as far as makes
        the weight of its pair zero, so that the objective stays what it is.
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
        cdef Py_ssize_t n = 0, k, label, other, place
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
                high = q if q < p else p
                low = q + p - 1.0 if q + p > 1.0 else 0.0
                low = high if q == 1.0 or p == 1.0 else low
                observed = self.model._y_true[i, label] * self.model._y_true[i, other]
                if not choose:
                    sums[0, pair] += C * low
                    sums[1, pair] += C * high
                    sums[2, pair] += C * observed
                    continue
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
        """Take over the weights of the model's pairs, and sum scores afresh."""
        cdef Py_ssize_t pair
        cdef double[::1] scores = (
            self.model.scaling * np.append(self.model.pair_weights(), 0.0))
        self.graph.load(&scores[0])

    # ---- certificates ----

    def expected_loss(self):
        """Return sum_i p_i sum_j |q_j - y_j|, the linear term of the dual."""
        q, y_true = np.asarray(self._probabilities), np.asarray(self.model._y_true)
        return float(self.model.example_weights @ np.abs(q - y_true).sum(axis=1))

    def probabilities(self):
        """Return q, of shape (n_examples, n_labels): tests."""
        return np.array(self._probabilities)

    def pair_probabilities(self):
        """Return s, of shape (n_examples, n_pairs): tests of few pairs."""
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
        """Compute the relaxed hinge of examples at the present weights.

        Parameters
        ----------
        first, last : int
            The examples first <= i < last.
        values : ndarray of shape (n_examples,)
            Their hinges are overwritten.
        """
        # of this call: threads share only what they read
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


cdef inline bint is_open(double q) noexcept nogil:
    """Whether a label is neither on nor off."""
    return 0.0 < q < 1.0


cdef inline int keep(OpenPairs* pairs, int32_t pair, double both) except -1 nogil:
    """Add a pair to a list."""
    reserve(<void**> &pairs.items, &pairs.capacity, pairs.size + 1, sizeof(OpenPair))
    pairs.items[pairs.size].pair, pairs.items[pairs.size].both = pair, both
    pairs.size += 1
    return 0
