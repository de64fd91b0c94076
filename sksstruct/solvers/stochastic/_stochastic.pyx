"""Steps along one example's (sub)gradient, compiled, with weights that shrink lazily.

Weights are w = s (v + (total - last) direction): the factor s takes the shrinking by
the regulariser, so that a step costs the example's own features; `direction`, the part
of a variance-reduced step that is the same for all examples, is added to a row of v
when an example reads it. A change c of v made while the weighted sum of the factors was
S enters the later iterates only, and their weighted sum is S v - u with u = sum S c.
When s gets small it goes into v, and the sum so far is put aside.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.models.protocols._base cimport BoundModel, SmoothLoss, Workspace

# Below this the factor s goes into the weights, once.
cdef double SMALL = 1e-8


cdef class SubgradientKernel:
    """Stochastic subgradient steps on the structured hinge.

    Parameters
    ----------
    model : BoundModel
        The model with its data, started with room for the average.
    alpha : float
        Regularisation.
    """

    cdef BoundModel model
    cdef Workspace workspace
    cdef double alpha
    cdef readonly double s, steps, weighted, loss
    cdef object collected       # the sum of iterates up to the last fold
    cdef int32_t[::1] decoded, observed

    def __cinit__(self, BoundModel model, double alpha):
        self.model = model
        self.workspace = model.workspace()
        self.alpha = alpha
        self.s = 1.0
        self.collected = 0.0
        self.decoded = np.zeros(model.max_size, dtype=np.int32)
        self.observed = np.zeros(model.max_size, dtype=np.int32)

    def visit(self, const Py_ssize_t[::1] order, const double[::1] rates):
        """A step of the given rate on each of the given examples.

        w <- (1 - rate alpha) w + rate n p_i A_i^T (mu_i(y_i) - mu_i(y)),  y the max
        oracle's answer. `loss` collects n p_i L_i(y).
        """
        cdef Py_ssize_t k, i
        cdef double value, loss, shrink, share
        cdef BoundModel model = self.model
        try:
            with nogil:
                for k in range(order.shape[0]):
                    i = order[k]
                    if k + 4 < order.shape[0]:
                        model.prefetch(order[k + 4], False)
                    if k + 1 < order.shape[0]:
                        model.prefetch(order[k + 1], True)
                    share = model.n_examples * model._example_weights[i]
                    model.loss_scale = 1.0 / self.s
                    model.potentials(self.workspace, i)
                    model.decode(self.workspace, i, &self.decoded[0], &value)
                    model.loss(i, &self.decoded[0], &loss)
                    model.y_true(i, &self.observed[0])
                    self.loss += share * loss
                    shrink = 1.0 - rates[k] * self.alpha
                    if shrink < SMALL:
                        # nothing is left of the weights
                        with gil:
                            self._fold(0.0)
                    else:
                        self.s *= shrink
                    model.add_labeling(self.workspace, i, &self.observed[0], 1.0)
                    model.add_labeling(self.workspace, i, &self.decoded[0], -1.0)
                    model.apply_change(self.workspace, i, rates[k] * share / self.s,
                                       self.weighted)
                    self.steps += 1.0
                    self.weighted += self.steps * self.s
                    if self.s < SMALL:
                        with gil:
                            self._fold(self.s)
        finally:
            model.loss_scale = 1.0

    def _fold(self, double s):
        """Multiply the weights by s; the sum of iterates begins anew."""
        if self.model.u is not None and self.weighted:
            self.collected += self.weighted * self.model.v - self.model.u
            self.model.u[:] = 0.0
        self.weighted = 0.0
        self.model.v *= s
        self.s = 1.0

    def weights(self):
        """Copy of the iterate."""
        return self.s * self.model.v

    def average(self):
        """The iterates' mean with weights 1, 2, 3, ..."""
        if not self.steps:
            return self.weights()
        total = self.steps * (self.steps + 1.0) / 2.0
        return (self.collected + self.weighted * self.model.v - self.model.u) / total


cdef class VarianceReducedKernel:
    """Variance-reduced gradient steps on a smooth loss (Johnson and Zhang, 2013).

    The objective is sum_i p_i f_i(w) + <linear, w> + ridge/2 |w|^2, and a step

        w <- w - rate ( p_i/prob_i (grad f_i(w) - grad f_i(anchor)) + direction
                        + ridge w ),   direction = grad f(anchor) + linear

    Parameters
    ----------
    loss : SmoothLoss
        Loss whose model holds the weights; its last sweep was at the anchor, unless
        `anchored` is False, when grad f_i(anchor) is zero.
    """

    cdef SmoothLoss smooth
    cdef BoundModel model
    cdef Workspace workspace
    cdef readonly double s, total

    def __cinit__(self, SmoothLoss loss):
        self.smooth = loss
        self.model = loss.model
        self.workspace = loss.model.workspace()

    def epoch(self, const Py_ssize_t[::1] order, const double[::1] ratios,
              direction, double rate, double ridge, bint anchored=True):
        """Steps on the given examples; ratios[k] = p_i / prob_i of the k-th.

        The model's weights are the start, and are overwritten by the end.
        """
        cdef Py_ssize_t k, i
        cdef SmoothLoss smooth = self.smooth
        cdef BoundModel model = self.model
        cdef double shrink = 1.0 - rate * ridge
        if not 0.0 < shrink <= 1.0:
            raise ValueError(f"a step of {rate} is too long for a ridge of {ridge}")
        self.s, self.total = 1.0, 0.0
        smooth.start_visits(direction, anchored)
        with nogil:
            for k in range(order.shape[0]):
                i = order[k]
                if k + 4 < order.shape[0]:
                    model.prefetch(order[k + 4], False)
                if k + 1 < order.shape[0]:
                    model.prefetch(order[k + 1], True)
                smooth.catch_up(i, self.total)
                smooth.mean_change(self.workspace, i, self.s, anchored)
                self.s *= shrink
                model.apply_change(self.workspace, i, -rate * ratios[k] / self.s, 0.0)
                self.total -= rate / self.s
                if self.s < SMALL:
                    with gil:
                        smooth.finish_visits(self.total)
                        model.v *= self.s
                        self.s, self.total = 1.0, 0.0
                        smooth.start_visits(direction, anchored)
        smooth.finish_visits(self.total)
        model.v *= self.s
