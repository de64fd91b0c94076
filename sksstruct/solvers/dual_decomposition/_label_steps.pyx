"""Steps for the labels of one example: of single labels, and of groups towards z.

Notation is that of `_label_ascent.pyx`. The labels of an example that are on or may
move are local labels, numbered from 0; links are the data of their pairs. A step moves
along a line in q, with every s at the best value that the new q allow:

    psi(t) = max_s dual(q + t d, s)

is concave, its derivative is piecewise linear, and its maximum in [0, t_max] is found
by false position. First, each group of labels that gain by moving together takes one
step towards the target z; then each label takes a step alone, up or down.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free

from sksstruct.inference.cuts._reduced_roof cimport together

# Largest number of iterations of a line search. The step is the left end of the last
# interval: it improves the dual, however early the search stops.
cdef int MOST_STEPS = 12
# A line search ends once the derivative is at most this fraction of its value at t = 0.
cdef double SMALL = 1e-2
# Probabilities this close to 0 or 1 are set to 0 or 1.
cdef double ZERO = 1e-12


cdef class LabelSteps:
    """Local labels and links of an example, and steps that improve its dual."""

    def __dealloc__(self):
        free(self._local)
        free(self._links)

    cdef double _gap(self) noexcept nogil:
        """Return the gap of the example: score of z minus score of the present q, s."""
        cdef Py_ssize_t k, j
        cdef Local* item
        cdef Link* link
        cdef double gap = 0.0, both
        for k in range(self._n_moving):
            item = &self._local[self._moving[k]]
            gap += item.gain * (item.target - item.q)
            for j in range(item.first, item.last):
                link = &self._links[j]
                # each pair counts once, at the first of its twin links
                if 0 <= link.twin < j:
                    continue
                both = 0.5 * together(<int32_t> (2.0 * item.target),
                                      <int32_t> (2.0 * self._local[link.other].target),
                                      link.score)
                gap += link.score * (both - link.both)
        return gap

    # ---- steps ----

    cdef void _improve(self) noexcept nogil:
        """Take steps of groups of labels towards z, then of single labels."""
        cdef Py_ssize_t k, n = 0
        cdef int32_t label
        # groups of labels are moved first: ascent along single labels alone could stop
        # at a point that only moving several labels together improves
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
        """Move groups of labels, connected by pairs that gain, towards z together."""
        cdef Py_ssize_t k, j, size, n_visited
        cdef int32_t label, other
        cdef Link* link
        cdef double d
        for k in range(n_drawn):
            self._waits[self._drawn[k]] = 1
        for k in range(n_drawn):
            label = self._drawn[k]
            if not self._waits[label]:
                continue
            # the group grows by breadth-first search from this label
            self._waits[label] = 0
            self._group[0], size, n_visited = label, 1, 0
            while n_visited < size:
                label = self._group[n_visited]
                n_visited += 1
                d = self._local[label].target - self._local[label].q
                self._direction[label] = d
                for j in range(self._local[label].first, self._local[label].last):
                    link = &self._links[j]
                    other = link.other
                    # the pair gains if its score is positive and both labels move in
                    # the same direction, or if the score is negative and the labels
                    # move in opposite directions
                    if self._waits[other] and link.score * d * (
                            self._local[other].target - self._local[other].q) > 0.0:
                        self._waits[other] = 0
                        self._group[size] = other
                        size += 1
            # a group of one label is left to `_step_alone`
            if size > 1:
                self._search(size)
            for j in range(size):
                self._direction[self._group[j]] = 0.0

    cdef void _step_alone(self, int32_t label) noexcept nogil:
        """Move one label up or down, if that improves the dual."""
        cdef double q = self._local[label].q, curvature = 0.0, d = 1.0
        cdef double first, slope, at_t, at_high = 0.0, t, low = 0.0, high = 1.0 - q
        # the slopes of the two directions differ if an s is at a bound
        first = self._slope_alone(label, d, 0.0, &curvature) if q < 1.0 else 0.0
        if first <= 0.0:
            d, high = -1.0, q
            first = self._slope_alone(label, d, 0.0, &curvature) if q > 0.0 else 0.0
        if first <= 0.0:
            return
        slope = first
        for _step in range(MOST_STEPS):
            # Newton's method is used until a point beyond the maximum is known, and
            # false position afterwards
            if at_high < 0.0:
                t = low + slope * (high - low) / (slope - at_high)
            else:
                t = low + slope / curvature
                t = t if t < high else high
            at_t = self._slope_alone(label, d, t, &curvature)
            if at_t < 0.0:
                high, at_high = t, at_t
                continue
            # the search stops before the maximum: a shorter step improves the dual,
            # too, and each slope takes time to compute
            low, slope = t, at_t
            if slope <= SMALL * first or t == high:
                break
        self._direction[label] = d
        self._group[0] = label
        self._move(1, low)
        self._direction[label] = 0.0

    cdef double _slope_alone(self, Py_ssize_t label, double d, double t,
                             double* curvature) noexcept nogil:
        """Return the derivative of psi at t, for a step of one label.

        Minus the second derivative is written to `curvature`.
        """
        cdef Local* item = &self._local[label]
        cdef Link* link
        cdef Py_ssize_t j
        cdef double b = self._pair_curvature, q = item.q + d * t, p
        cdef double total = item.gain - self._label_curvature * d * t, peak
        cdef double fall = self._label_curvature
        for j in range(item.first, item.last):
            link = &self._links[j]
            p = self._local[link.other].q
            if p == 1.0:
                # the other label is on, so that s equals q
                total += link.score - b * (q - link.both)
                fall += b
            elif p > 0.0:
                peak = link.both + link.score / b
                # Without bounds, the best s is `peak`. If `peak` is above the upper
                # bound of s, s = q; if below the lower bound, s = q + p - 1. Between
                # the bounds, s does not depend on q.
                if (q < p or (q == p and d < 0.0)) and peak >= q:
                    total += link.score - b * (q - link.both)
                    fall += b
                elif (q + p > 1.0 or (q + p == 1.0 and d > 0.0)) and (
                        peak <= q + p - 1.0):
                    total += link.score - b * (q + p - 1.0 - link.both)
                    fall += b
        curvature[0] = fall
        return d * total

    cdef void _search(self, Py_ssize_t size) noexcept nogil:
        """Move the group along its direction to the maximum of psi, if psi rises."""
        cdef double low = 0.0, high = INFINITY, at_low, at_high, t, slope, first, d
        cdef Py_ssize_t k
        cdef Local* item
        cdef int side = 0
        # the longest step is the first at which a label reaches 0 or 1
        for k in range(size):
            item, d = &self._local[self._group[k]], self._direction[self._group[k]]
            t = (1.0 - item.q) / d if d > 0.0 else -item.q / d
            high = t if t < high else high
        first = at_low = self._slope(size, 0.0)
        if not at_low > 0.0 or not high > 0.0:
            return
        # the whole step is tried first, as in early passes most groups gain by it
        at_high = self._slope(size, high)
        if at_high >= 0.0:
            low = high
        else:
            for _step in range(MOST_STEPS):
                t = low - at_low * (high - low) / (at_high - at_low)
                slope = self._slope(size, t)
                # Illinois rule: the slope at an end that stays for a second time is
                # halved
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
        """Return the right-hand derivative of psi at t, for a step of the group."""
        cdef Py_ssize_t k, j
        cdef double total = 0.0, d, e, q, p, low, high, peak, b = self._pair_curvature
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
                    # the other label is fixed at 0 or 1, so that s equals q p
                    if p == 1.0:
                        total += d * (link.score - b * (q - link.both))
                    continue
                # each pair counts once, at the first of its twin links
                if e != 0.0 and 0 <= link.twin < j:
                    continue
                # bounds of s at t, and the best s without bounds
                p += e * t
                high = q if q < p else p
                low = q + p - 1.0 if q + p > 1.0 else 0.0
                peak = link.both + link.score / b
                if peak >= high:
                    # s equals the smaller of q and p; if q = p, the probability that
                    # rises more slowly
                    total += ((d if q < p or (q == p and d < e) else e)
                              * (link.score - b * (high - link.both)))
                elif peak <= low and (low > 0.0 or (q + p == 1.0 and d + e > 0.0)):
                    total += (d + e) * (link.score - b * (low - link.both))
        return total

    cdef void _move(self, Py_ssize_t size, double t) noexcept nogil:
        """Move the group by t along its direction, and update s of its pairs."""
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
        # every s is updated after all q, as an s depends on both labels of its pair
        for k in range(size):
            item = &self._local[self._group[k]]
            q = item.q
            for j in range(item.first, item.last):
                link = &self._links[j]
                p = self._local[link.other].q
                high = q if q < p else p
                low = q + p - 1.0 if q + p > 1.0 else 0.0
                # with one label at 1, the bounds are equal, and must not differ by
                # rounding
                low = high if q == 1.0 or p == 1.0 else low
                best = link.both + link.score / self._pair_curvature
                best = best if best > low else low
                best = best if best < high else high
                link.score -= self._pair_curvature * (best - link.both)
                link.both = best
                if link.twin >= 0:
                    self._links[link.twin].both = best
                    self._links[link.twin].score = link.score
