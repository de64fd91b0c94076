"""Two classes and the hinge: dual coordinate descent with shrinking, compiled.

With b_i in [0, 1] for each example, s_i = +-1 its class and f_i its score,

    D(b) = sum_i p_i b_i - alpha/2 |w(b)|^2        w(b) = sum_i p_i / alpha b_i s_i x_i

so that dD/db_i = p_i (1 - s_i f_i), p_i times the slack. A visit maximizes over b_i,
all other variables fixed (Hsieh et al., 2008, Algorithm 1). Shrinking leaves out an
example at a bound if its slack points out of the interval by more than any slack in the
pass before (Section 3.2, Algorithm 3), so that late passes visit few examples.
"""

cimport cython

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.models.binary._binary cimport BoundBinary
from sksstruct.utils._simd cimport sks_prefetch


@cython.final
cdef class Coordinates:
    """The dual variables, and passes over the active examples.

    Parameters
    ----------
    model : BoundBinary
        The model with its data.
    alpha : float
        Regularization.

    Attributes
    ----------
    duals : ndarray of shape (n_examples,)
        The b_i.
    order : ndarray of shape (n_examples,), intp
        Examples. Passes visit the first `n_active` of them.
    gap : float
        Sum of the gaps of the examples, each at the time of its visit in the last pass.
    """

    cdef BoundBinary model
    cdef readonly object duals, order
    cdef readonly Py_ssize_t n_active
    cdef readonly double gap
    cdef double alpha
    # State of the pass: the index in `order` of the next visit, and from the visits so
    # far the number of dual variables that changed, the sum of the gaps, and the
    # extreme slacks.
    cdef Py_ssize_t place, n_changed
    cdef double partial_gap, largest, smallest
    # Limits on slacks, from the last pass: an example with b_i = 0 is left out if its
    # slack is below `lowest`, and one with b_i = 1 if its slack is above `highest`.
    cdef double highest, lowest

    def __init__(self, BoundBinary model, double alpha):
        self.model, self.alpha = model, alpha
        self.duals = np.zeros(model.n_examples)
        self.order = np.arange(model.n_examples, dtype=np.intp)
        self.expand()

    def expand(self):
        """Make all examples active; return whether some were not active before."""
        shrunk = self.n_active < self.model.n_examples
        self.n_active = self.model.n_examples
        self.highest, self.lowest = INFINITY, -INFINITY
        self.gap = INFINITY
        return shrunk

    def begin_pass(self):
        """Start a pass at the first example of the order."""
        self.place = self.n_changed = 0
        self.partial_gap, self.largest, self.smallest = 0.0, -INFINITY, INFINITY

    def visit(self, double[::1] w, Py_ssize_t most):
        """Visit some active examples, in their order.

        Parameters
        ----------
        w : ndarray of shape (n_weights,)
            Weights of the dual variables; updated with them.
        most : int
            Largest number of visits, after which the caller may check for signals.

        Returns
        -------
        n_changed : int or None
            Number of dual variables that the pass changed; None if the pass has not
            ended.
        """
        cdef Py_ssize_t visits = 0, i
        cdef Py_ssize_t[::1] order = self.order
        cdef double[::1] duals = self.duals
        cdef double slack
        with nogil:
            while self.place < self.n_active and visits < most:
                visits += 1
                i = order[self.place]
                if self.place + 1 < self.n_active:
                    self._prefetch(order[self.place + 1])
                slack = 1.0 - self._sign(i) * self.model._score(i, &w[0])
                if self._leaves(duals[i], slack):
                    # the last active example takes the place of example i, and is
                    # visited next
                    self.n_active -= 1
                    order[self.place], order[self.n_active] = order[self.n_active], i
                    continue
                self.place += 1
                self.partial_gap += self.model._example_weights[i] * (
                    (slack if slack > 0.0 else 0.0) - duals[i] * slack)
                # at a bound, a slack that points out of [0, 1] violates no condition of
                # optimality
                if not (duals[i] <= 0.0 and slack < 0.0
                        or duals[i] >= 1.0 and slack > 0.0):
                    self.largest = max(self.largest, slack)
                    self.smallest = min(self.smallest, slack)
                    self.n_changed += self._step(i, slack, &duals[i], &w[0])
        if self.place < self.n_active:
            return None
        self._limit(self.largest, self.smallest)
        self.gap = self.partial_gap
        return self.n_changed

    cdef inline double _sign(self, Py_ssize_t i) noexcept nogil:
        """Return s_i, the class of an example as 1 or -1."""
        return 1.0 if self.model._labels[i] else -1.0

    cdef inline bint _leaves(self, double dual, double slack) noexcept nogil:
        """Return whether an example is at a bound, and likely to stay there."""
        return (dual <= 0.0 and slack < self.lowest
                or dual >= 1.0 and slack > self.highest)

    cdef void _limit(self, double highest, double lowest) noexcept nogil:
        """Set the range of slacks for which examples at a bound stay active."""
        # without a positive slack, no example with b_i = 1 is left out; without a
        # negative slack, no example with b_i = 0
        self.highest = highest if highest > 0.0 else INFINITY
        self.lowest = lowest if lowest < 0.0 else -INFINITY

    cdef inline bint _step(self, Py_ssize_t i, double slack, double* dual,
                           double* w) noexcept nogil:
        """Maximize D over b_i and update the weights; return whether b_i changed."""
        cdef double rate = self.model._example_weights[i] / self.alpha
        cdef double curvature = rate * self.model._norms[i], best
        # without features the slack does not depend on b_i
        if curvature > 0.0:
            best = dual[0] + slack / curvature
        else:
            best = 1.0 if slack > 0.0 else 0.0
        best = min(max(best, 0.0), 1.0)
        if best == dual[0]:
            return False
        self.model._add_features(i, rate * self._sign(i) * (best - dual[0]), w)
        dual[0] = best
        return True

    cdef inline void _prefetch(self, Py_ssize_t i) noexcept nogil:
        """Prefetch the features of example i, as the order of the visits is random."""
        cdef Py_ssize_t first, count
        if self.model._indices != NULL:
            first = self.model._indptr[i]
            count = self.model._indptr[i + 1] - first
            sks_prefetch(self.model._indices + first, count * sizeof(int32_t))
        else:
            first = i * self.model.n_features
            count = self.model.n_features
        sks_prefetch(self.model._values + first, count * sizeof(double))
