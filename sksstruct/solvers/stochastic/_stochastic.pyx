"""Steps along one example's (sub)gradient, compiled, with weights that shrink lazily.

A factor takes the shrinking by the regulariser, so that a step costs the example's own
features: w = s v. In variance-reduced steps the part that is the same for all examples
is added to a row when an example reads it, see `LazyWeights`. A change c of v made
while the weighted sum of the factors was S enters the later iterates only, and their
weighted sum is S v - u with u = sum S c. When s gets small it goes into v, and the sum
so far is put aside.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._smooth_loss cimport SmoothLoss
from sksstruct.models.protocols._weights cimport LazyWeights, Weights

# Below this the factor s goes into the weights, once.
cdef double SMALL = 1e-8


cdef class SubgradientKernel:
    """Stochastic subgradient steps on the structured hinge.

    Parameters
    ----------
    model : BoundModel
        The model with its data.
    weights : Weights
        Where to start, with or without room for the average; without a box.
    alpha : float
        Regularisation.
    """

    cdef BoundModel model
    cdef Weights iterate
    cdef Workspace workspace
    cdef double alpha
    cdef readonly double s, steps, weighted, loss
    cdef object collected       # the sum of iterates up to the last fold
    cdef int32_t[::1] decoded, observed

    def __cinit__(self, BoundModel model, Weights weights, double alpha):
        self.model, self.iterate = model, weights
        self.workspace = model.workspace(weights.w)
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
        with nogil:
            for k in range(order.shape[0]):
                i = order[k]
                prefetch(model, order, k)
                share = model.n_examples * model._example_weights[i]
                # s v gives the labelings of v with the loss divided by s
                self.workspace.loss_scale = 1.0 / self.s
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
                model.apply_change(self.workspace, i, self.iterate,
                                   rates[k] * share / self.s, self.weighted)
                self.steps += 1.0
                self.weighted += self.steps * self.s
                if self.s < SMALL:
                    with gil:
                        self._fold(self.s)

    def _fold(self, double s):
        """Multiply the weights by s; the sum of iterates begins anew."""
        weights = self.iterate
        if weights.u is not None and self.weighted:
            self.collected += self.weighted * weights.v - weights.u
            weights.u[:] = 0.0
        self.weighted = 0.0
        weights.v *= s
        self.s = 1.0

    def weights(self):
        """Copy of the iterate."""
        return self.s * self.iterate.v

    def average(self):
        """The iterates' mean with weights 1, 2, 3, ..."""
        if not self.steps:
            return self.weights()
        total = self.steps * (self.steps + 1.0) / 2.0
        weights = self.iterate
        return (self.collected + self.weighted * weights.v - weights.u) / total


cdef class VarianceReducedKernel:
    """Variance-reduced gradient steps on a smooth loss (Johnson and Zhang, 2013).

    The objective is sum_i p_i f_i(w) + <linear, w> + ridge/2 |w|^2, and a step

        w <- w - rate ( p_i/prob_i (grad f_i(w) - grad f_i(anchor)) + direction
                        + ridge w ),   direction = grad f(anchor) + linear

    Parameters
    ----------
    loss : SmoothLoss
        Its last sweep was at the anchor, unless `anchored` is False, when
        grad f_i(anchor) is zero.
    weights : LazyWeights
        Where to start.
    """

    cdef SmoothLoss smooth
    cdef BoundModel model
    cdef LazyWeights weights
    cdef Workspace workspace
    cdef object _exists

    def __cinit__(self, SmoothLoss loss, LazyWeights weights):
        self.smooth, self.model, self.weights = loss, loss.model, weights
        self.workspace = loss.model.workspace(weights.w)
        self._exists = None
        if loss.support is not None:
            self._exists = np.zeros(weights.size, dtype=np.uint8)
            self._exists[loss.support] = 1

    def epoch(self, const Py_ssize_t[::1] order, const double[::1] ratios,
              direction, double rate, double ridge, bint anchored=True):
        """Steps on the given examples; ratios[k] = p_i / prob_i of the k-th.

        The weights are where the steps start, and are overwritten by where they end.
        """
        cdef Py_ssize_t k, i
        cdef SmoothLoss smooth = self.smooth
        cdef BoundModel model = self.model
        cdef LazyWeights weights = self.weights
        cdef double shrink = 1.0 - rate * ridge
        if not 0.0 < shrink <= 1.0:
            raise ValueError(f"a step of {rate} is too long for a ridge of {ridge}")
        weights.start(direction, smooth.row_size, self._exists)
        smooth.start_visits(anchored)
        with nogil:
            for k in range(order.shape[0]):
                i = order[k]
                prefetch(model, order, k)
                smooth.catch_up(weights, i)
                smooth.mean_change(self.workspace, i, weights.scale, anchored)
                weights.scale *= shrink
                model.apply_change(self.workspace, i, weights,
                                   -rate * ratios[k] / weights.scale, 0.0)
                weights.total -= rate / weights.scale
                if weights.scale < SMALL:
                    with gil:
                        weights.finish()
        weights.finish()


cdef inline void prefetch(BoundModel model, const Py_ssize_t[::1] order,
                          Py_ssize_t k) noexcept nogil:
    """Ask for the memory of the examples that are visited after the k-th."""
    if k + 4 < order.shape[0]:
        model.prefetch(order[k + 4], False)
    if k + 1 < order.shape[0]:
        model.prefetch(order[k + 1], True)
