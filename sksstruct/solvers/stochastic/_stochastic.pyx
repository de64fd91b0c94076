"""Steps along one example's (sub)gradient, compiled, with weights that shrink lazily.

A factor takes the shrinking by the regularizer, so that a step costs the example's own
features only: w = s v. In variance-reduced steps the part that is the same for all
examples is added to a row when an example reads it, see `LazyWeights`.

Averages weigh the iterate of step t by a weight a_t. With S the sum of a_t s over the
steps so far, a change c of v enters the later iterates only, so that the weighted sum
of all iterates is S v - u with u = sum S c, S being that at the time of each change.
When s gets small it goes into v, the sum so far is put aside, and S and u begin anew.
"""

cimport cython

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._smooth_loss cimport SmoothLoss
from sksstruct.models.protocols._weights cimport LazyWeights, Weights
from sksstruct.utils._clock cimport Clock

# Below this the factor s goes into v: changes of v grow as 1 / s, and without an end.
cdef double SMALL = 1e-8

# The addresses of an example's memory are asked for so many visits ahead, and what is
# there one visit ahead, as in `_bcfw.pyx`.
cdef enum:
    FAR_AHEAD = 4


cdef inline void prefetch(BoundModel model, const Py_ssize_t[::1] order,
                          Py_ssize_t k) noexcept nogil:
    """Ask for the memory of the examples that are visited after the k-th."""
    if k + FAR_AHEAD < order.shape[0]:
        model.prefetch(order[k + FAR_AHEAD], False)
    if k + 1 < order.shape[0]:
        model.prefetch(order[k + 1], True)


cdef class Bounds:
    """Bounds of some weights, to which steps are truncated.

    Parameters
    ----------
    box : Box
        The bounds.
    row_size : int
        Number of weights that are updated together.
    """

    cdef Py_ssize_t[::1] index, rows
    cdef double[::1] lower, upper

    def __cinit__(self, box, Py_ssize_t row_size):
        self.index = box.index.astype(np.intp)
        self.rows = np.unique(box.index // row_size).astype(np.intp)
        self.lower, self.upper = box.lower[box.index], box.upper[box.index]

    cdef void project(self, Weights weights, double scale,
                      double average) noexcept nogil:
        """Truncate v so that scale v is within the bounds.

        Changes, times `average`, are added to u if an average is collected.
        """
        cdef Py_ssize_t j, k
        cdef double value
        for j in range(self.index.shape[0]):
            k = self.index[j]
            value = weights._v[k]
            if scale * value < self.lower[j]:
                value = self.lower[j] / scale
            elif scale * value > self.upper[j]:
                value = self.upper[j] / scale
            else:
                continue
            if weights._u != NULL:
                weights._u[k] += average * (value - weights._v[k])
            weights._v[k] = value

    cdef void project_lazily(self, LazyWeights weights, double average) noexcept nogil:
        """Truncate lazy weights, whose rows with bounds are brought up to date."""
        cdef Py_ssize_t j
        # all of them, whatever the example reads: the direction moves every weight
        for j in range(self.rows.shape[0]):
            weights.catch_up(self.rows[j])
        self.project(weights, weights.scale, average)


cdef class AveragedIterate:
    """Weights w = s v that steps shrink and change, and the average of the iterates.

    Parameters
    ----------
    weights : Weights
        Initial weights, with or without memory for the average; without a box.
    model : BoundModel
        The model with its data.
    alpha : float
        Regularization.
    box : Box, default=None
        Bounds of some weights, to which each step is truncated.

    Attributes
    ----------
    steps : float
        Number of steps so far.
    """

    cdef Weights iterate
    cdef BoundModel model
    cdef Workspace workspace
    cdef double alpha
    cdef readonly double steps
    # s and S; the sum of the weights a_t; the weighted sum of the iterates before S
    # last began
    cdef double scale, scale_sum, total
    cdef object put_aside
    cdef Bounds box

    def __init__(self, Weights weights, BoundModel model, double alpha, box=None):
        self.iterate, self.model, self.alpha = weights, model, alpha
        self.workspace = model.workspace(weights.w)
        self.box = None
        if box is not None:
            self.box = Bounds(box, 1)
            # zero need not be in the box
            self.box.project(weights, 1.0, 0.0)
        self.scale = 1.0
        self.put_aside = 0.0

    cdef int _visit(self, Py_ssize_t i, double rate) except -1 nogil:
        """Take a step on one example."""
        raise NotImplementedError

    def visit(self, const Py_ssize_t[::1] order, const double[::1] rates):
        """Take a step of the given rate on each of the given examples."""
        cdef Py_ssize_t k
        cdef Clock clock = Clock()
        with nogil:
            for k in range(order.shape[0]):
                if clock.late():
                    break
                prefetch(self.model, order, k)
                self._visit(order[k], rates[k])
        clock.check()

    cdef int _shrink(self, double factor) except -1 nogil:
        """Multiply the weights by a factor, if it is positive, and else by zero."""
        if factor < SMALL:
            # nothing is left of them: the first step of rates 1 / (alpha t) is one
            with gil:
                self._fold(0.0)
        else:
            self.scale *= factor
        return 0

    cdef int _count(self, double weight) except -1 nogil:
        """Count the iterate after a step, with a weight in the average."""
        if self.box is not None:
            self.box.project(self.iterate, self.scale, self.scale_sum)
        self.steps += 1.0
        self.total += weight
        self.scale_sum += weight * self.scale
        if self.scale < SMALL:
            with gil:
                self._fold(self.scale)
        return 0

    def _fold(self, double factor):
        """Multiply v by a factor, and restart from s = 1 with a new sum of iterates."""
        weights = self.iterate
        # without steps since the last time, S and u are zero
        if weights.u is not None and self.scale_sum:
            self.put_aside += self.scale_sum * weights.v - weights.u
            weights.u[:] = 0.0
        self.scale_sum = 0.0
        weights.v *= factor
        # another vector, where some weights do not exist
        if weights.w is not weights.v:
            weights.set(weights.v)
        self.scale = 1.0

    def begin_average(self):
        """Forget the previous iterates."""
        self._fold(self.scale)
        self.put_aside = self.total = 0.0

    def weights(self):
        """Return a copy of the iterate."""
        return self.scale * self.iterate.v

    def average(self):
        """Return the weighted mean of the iterates."""
        # nothing to divide by
        if not self.total:
            return self.weights()
        weights = self.iterate
        return (self.put_aside + self.scale_sum * weights.v - weights.u) / self.total


# final, as the other kernels: private methods are called directly
@cython.final
cdef class SubgradientKernel(AveragedIterate):
    """Stochastic subgradient steps on the structured hinge:

        w <- (1 - rate alpha) w + rate n p_i A_i^T (mu_i(y_i) - mu_i(y))

    where y is the result of the max oracle. The iterates have the weights 1, 2, 3, ...
    in the average.

    Parameters
    ----------
    weights, model, alpha, box : objects
        As in `AveragedIterate`.

    Attributes
    ----------
    loss : float
        Sum of n p_i L_i(y) over the steps.
    """

    cdef readonly double loss
    # labelings of the example that is visited
    cdef int32_t[::1] decoded, observed

    def __init__(self, Weights weights, BoundModel model, double alpha, box=None):
        AveragedIterate.__init__(self, weights, model, alpha, box)
        self.decoded = np.zeros(model.max_size, dtype=np.int32)
        self.observed = np.zeros(model.max_size, dtype=np.int32)

    cdef int _visit(self, Py_ssize_t i, double rate) except -1 nogil:
        # examples are drawn evenly, whatever their weights
        cdef double share = self.model.n_examples * self.model._example_weights[i]
        # before the weights shrink: the subgradient is that at the old ones
        self.loss += share * self._decode(i)
        self._shrink(1.0 - rate * self.alpha)
        self.model.add_labeling(self.workspace, i, &self.observed[0], 1.0)
        self.model.add_labeling(self.workspace, i, &self.decoded[0], -1.0)
        # with S before this step: the change is in no iterate yet
        self.model.apply_change(self.workspace, i, self.iterate,
                                rate * share / self.scale, self.scale_sum)
        return self._count(self.steps + 1.0)

    cdef double _decode(self, Py_ssize_t i) except? -1.0 nogil:
        """Write the max oracle's and the observed labeling; return the loss."""
        cdef double value, loss
        # v gives the labelings of s v with the loss divided by s
        self.workspace.loss_scale = 1.0 / self.scale
        self.model.potentials(self.workspace, i)
        self.model.decode(self.workspace, i, &self.decoded[0], &value)
        self.model.loss(i, &self.decoded[0], &loss)
        self.model.y_true(i, &self.observed[0])
        return loss


@cython.final
cdef class GradientKernel(AveragedIterate):
    """Stochastic gradient steps on a smooth loss (Bottou, 2010).

    The objective is sum_i p_i f_i(w) + alpha/2 |w|^2, and a step is

        w <- (1 - rate alpha) w - rate n p_i grad f_i(w)

    Parameters
    ----------
    loss : SmoothLoss
        The losses.
    weights, alpha, box : objects
        As in `AveragedIterate`.
    """

    cdef SmoothLoss smooth

    def __init__(self, Weights weights, SmoothLoss loss, double alpha, box=None):
        AveragedIterate.__init__(self, weights, loss.model, alpha, box)
        self.smooth = loss

    def visit(self, const Py_ssize_t[::1] order, const double[::1] rates):
        # changes of v are divided by the factors that these make
        if len(rates) and not np.max(rates) * self.alpha < 1.0:
            raise ValueError(
                f"a step of {np.max(rates)} is too long for an alpha of {self.alpha}")
        self.smooth.start_visits(False)
        AveragedIterate.visit(self, order, rates)

    cdef int _visit(self, Py_ssize_t i, double rate) except -1 nogil:
        # examples are drawn evenly, whatever their weights
        cdef double share = self.model.n_examples * self.model._example_weights[i]
        self.smooth.mean_change(self.workspace, i, self.scale, False)
        self._shrink(1.0 - rate * self.alpha)
        # with S before this step: the change is in no iterate yet
        self.model.apply_change(self.workspace, i, self.iterate,
                                -rate * share / self.scale, self.scale_sum)
        return self._count(1.0)


@cython.final
cdef class VarianceReducedKernel:
    """Variance-reduced gradient steps on a smooth loss (Johnson and Zhang, 2013).

    The objective is sum_i p_i f_i(w) + <linear, w> + ridge/2 |w|^2, and a step is

        w <- w - rate ( p_i/prob_i (grad f_i(w) - grad f_i(anchor)) + direction
                        + ridge w ),   direction = grad f(anchor) + linear

    Afterwards, weights with bounds are truncated to them.

    Parameters
    ----------
    loss : SmoothLoss
        Its last sweep was at the anchor. Epochs with ``anchored=False`` need no sweep,
        and take grad f_i(anchor) to be zero.
    weights : LazyWeights
        Initial weights.
    box : Box or None
        Bounds of some weights.
    """

    cdef SmoothLoss smooth
    cdef BoundModel model
    cdef LazyWeights weights
    cdef Workspace workspace
    cdef Bounds box
    # 0 for weights that stay zero; None where all exist
    cdef object _exists
    # Of the average over an epoch, with the weights 1, 2, 3, ...: their number and sum;
    # the sums of the factor s, and of s times `total`; what is known of it already.
    cdef double _steps, _weight_sum, _scale_sum, _along_sum
    cdef object _put_aside

    def __cinit__(self, SmoothLoss loss, LazyWeights weights, box=None):
        self.smooth, self.model, self.weights = loss, loss.model, weights
        self.workspace = loss.model.workspace(weights.w)
        self._exists = None
        self.box = None if box is None else Bounds(box, loss.row_size)
        # changes by examples go to whole rows, and to weights that stay zero
        if loss.support is not None:
            self._exists = np.zeros(weights.size, dtype=np.uint8)
            self._exists[loss.support] = 1

    def epoch(self, const Py_ssize_t[::1] order, const double[::1] ratios,
              direction, double rate, double ridge, bint anchored=True,
              bint average=False):
        """Take steps on the given examples; ratios[k] = p_i / prob_i of the k-th.

        The steps start from the weights, which are overwritten with the last iterate,
        or with the average of the iterates with the weights 1, 2, 3, ...
        """
        cdef Py_ssize_t k
        cdef Clock clock = Clock()
        cdef double shrink = 1.0 - rate * ridge
        # changes of v are divided by products of this factor
        if not 0.0 < shrink <= 1.0:
            raise ValueError(f"a step of {rate} is too long for a ridge of {ridge}")
        self.weights.start(direction, self.smooth.row_size, self._exists)
        self.weights.collect_average(average)
        self._steps = self._weight_sum = 0.0
        self._scale_sum = self._along_sum = 0.0
        self._put_aside = 0.0
        self.smooth.start_visits(anchored)
        with nogil:
            for k in range(order.shape[0]):
                if clock.late():
                    break
                prefetch(self.model, order, k)
                self._visit(order[k], ratios[k], rate, shrink, anchored)
        self._fold(average)
        if average and self._weight_sum:
            np.divide(self._put_aside, self._weight_sum, out=self.weights.v)
            if self._exists is not None:
                self.weights.v *= self._exists
        clock.check()

    cdef int _visit(self, Py_ssize_t i, double ratio, double rate, double shrink,
                    bint anchored) except -1 nogil:
        """Take a step: along the example's own gradient, and along the direction."""
        # only the rows that the example reads, and before they are read
        self.smooth.catch_up(self.weights, i)
        self.smooth.mean_change(self.workspace, i, self.weights.scale, anchored)
        # Changes are of v, and the weights are scale v. The shrinking comes first, as
        # the step's own change is not shrunk.
        self.weights.scale *= shrink
        self.model.apply_change(self.workspace, i, self.weights,
                                -rate * ratio / self.weights.scale, self._scale_sum)
        self.weights.total -= rate / self.weights.scale
        if self.box is not None:
            self.box.project_lazily(self.weights, self._scale_sum)
        self._steps += 1.0
        self._weight_sum += self._steps
        self._scale_sum += self._steps * self.weights.scale
        self._along_sum += self._steps * self.weights.scale * self.weights.total
        if self.weights.scale < SMALL:
            with gil:
                self._fold(self.weights._u != NULL)
        return 0

    def _fold(self, bint average):
        """Set v = w and s = 1, and start a new sum of iterates."""
        weights = self.weights
        weights.catch_up_all()
        # w_t = s_t (x_t + total_t direction): x changes by examples only, so that the
        # sum of the first part is S x - u, as in `AveragedIterate`
        if average:
            along = self._along_sum - self._scale_sum * weights.total
            self._put_aside += (
                self._scale_sum * weights.v + along * weights.direction - weights.u)
            weights.u[:] = 0.0
            self._scale_sum = self._along_sum = 0.0
        weights.finish()
