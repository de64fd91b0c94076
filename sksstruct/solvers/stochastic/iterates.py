"""Iterates of steps along one example's (sub)gradient, and their averages.

With w = s v (see `_stochastic.pyx`), the average weighs the iterate of step t by a_t.
Let S be the sum of a_t s over the steps so far. A change c of v affects later iterates
only, so that the weighted sum of all iterates is S v - u with u = sum S c, where each
change uses the S at its time. When s becomes small, it is multiplied into v, the sum so
far is stored separately, and S and u restart from zero.
"""

import numpy as np

from sksstruct.solvers.stochastic._stochastic import (
    Bounds,
    GradientSteps,
    SubgradientSteps,
    VarianceReducedSteps,
)
from sksstruct.utils._clock import Clock
from sksstruct.utils._layout import aligned_zeros


def bounds_of(box, row_size=1):
    """Return the bounds of a `Box` in the form that kernels read; None without a box.

    A row, for kernels of lazy weights, has `row_size` weights.
    """
    if box is None:
        return None
    index = box.index.astype(np.intp)
    rows = np.unique(index // row_size)
    return Bounds(index, rows, box.lower[index], box.upper[index])


class AveragedIterate:
    """Base of kernels of steps: the iterate w = s v, and the average of the iterates.

    Attributes
    ----------
    steps : float
        Number of steps so far.
    """

    # weighted sum of the iterates before the last restart of S and u
    put_aside = 0.0

    def fold(self, factor):
        """Multiply v by a factor, and restart from s = 1 with a new sum of iterates.

        Kernels call this method when s becomes small.
        """
        weights = self.iterate
        # without steps since the last restart, S and u are zero
        if weights.u is not None and self.scale_sum:
            self.put_aside += self.scale_sum * weights.v - weights.u
            weights.u[:] = 0.0
        self.scale_sum = 0.0
        np.multiply(weights.v, factor, out=weights.v)
        # w is a separate vector if some weights do not exist
        if weights.w is not weights.v:
            weights.set(weights.v)
        self.scale = 1.0

    def begin_average(self):
        """Discard the sum of the previous iterates."""
        self.fold(self.scale)
        self.put_aside = self.total = 0.0

    def weights(self):
        """Return a copy of the iterate."""
        return self.scale * self.iterate.v

    def average(self):
        """Return the weighted mean of the iterates."""
        # before the first step, there is no iterate to average
        if not self.total:
            return self.weights()
        weights = self.iterate
        return (self.put_aside + self.scale_sum * weights.v - weights.u) / self.total


class SubgradientKernel(AveragedIterate, SubgradientSteps):
    """Stochastic subgradient steps on the structured hinge:

        w <- (1 - rate alpha) w + rate n p_i A_i^T (mu_i(y_i) - mu_i(y))

    where y is the result of the max oracle. The iterates have the weights 1, 2, 3, ...
    in the average.

    Parameters
    ----------
    weights : Weights
        Initial weights, with or without memory for the average; without a box.
    model : BoundModel
        The model with its data.
    alpha : float
        Regularization.
    box : Box, default=None
        Bounds of some weights, to which the weights are clipped after each step.

    Attributes
    ----------
    loss : float
        Sum of n p_i L_i(y) over the steps.
    """

    def __init__(self, weights, model, alpha, box=None):
        decoded, observed = (aligned_zeros(model.max_size, "i4") for _ in range(2))
        super().__init__(weights, model, alpha, bounds_of(box), decoded, observed)


class GradientKernel(AveragedIterate, GradientSteps):
    """Stochastic gradient steps on a smooth loss (Bottou, 2010).

    The objective is sum_i p_i f_i(w) + alpha/2 |w|^2, and a step is

        w <- (1 - rate alpha) w - rate n p_i grad f_i(w)

    Parameters
    ----------
    loss : SmoothLoss
        The losses.
    weights, alpha, box : objects
        As in `SubgradientKernel`.
    """

    def __init__(self, weights, loss, alpha, box=None):
        super().__init__(weights, loss, alpha, bounds_of(box))

    def visit(self, order, rates):
        """Take a step of the given rate on each of the given examples."""
        # changes of v are divided by products of 1 - rate alpha, which must be positive
        if len(rates) and not np.max(rates) * self.alpha < 1.0:
            raise ValueError(
                f"a step of {np.max(rates)} is too long for an alpha of {self.alpha}"
            )
        self.smooth.start_visits(False)
        super().visit(order, rates)


class VarianceReducedKernel(VarianceReducedSteps):
    """Variance-reduced gradient steps on a smooth loss (Johnson and Zhang, 2013).

    The objective is sum_i p_i f_i(w) + <linear, w> + ridge/2 |w|^2, and a step is

        w <- w - rate ( p_i/prob_i (grad f_i(w) - grad f_i(anchor)) + direction
                        + ridge w ),   direction = grad f(anchor) + linear

    where prob_i is the probability with which example i is drawn. Afterwards, weights
    with bounds are truncated to their bounds.

    Parameters
    ----------
    loss : SmoothLoss
        The losses, whose last sweep was at the anchor. Epochs with ``anchored=False``
        need no sweep, and use zero in place of grad f_i(anchor).
    weights : LazyWeights
        Initial weights.
    box : Box or None
        Bounds of some weights.
    """

    def __init__(self, loss, weights, box=None):
        super().__init__(loss, weights, bounds_of(box, loss.row_size))
        # for each weight, 1 in the support and 0 outside; None if all weights exist
        self._exists = None
        # updates change whole rows, including weights that must stay zero
        if loss.support is not None:
            self._exists = np.zeros(weights.size, dtype=np.uint8)
            self._exists[loss.support] = 1

    def epoch(
        self, order, ratios, direction, rate, ridge, anchored=True, average=False
    ):
        """Take steps on given examples; ratios[k] = p_i / prob_i of the k-th example.

        The steps start from the weights, which are overwritten with the last iterate,
        or with the average of the iterates with the weights 1, 2, 3, ...
        """
        clock = Clock()
        shrink = 1.0 - float(rate) * float(ridge)
        # changes of v are divided by products of this factor
        if not 0.0 < shrink <= 1.0:
            raise ValueError(f"a step of {rate} is too long for a ridge of {ridge}")
        weights = self.weights
        weights.start(direction, self.smooth.row_size, self._exists)
        weights.collect_average(average)
        self.steps = self.weight_sum = self.scale_sum = self.along_sum = 0.0
        self._keeps_average, self._put_aside = average, 0.0
        self.smooth.start_visits(anchored)
        self.visit(order, ratios, rate, shrink, anchored, clock)
        self.fold()
        if average and self.weight_sum:
            np.divide(self._put_aside, self.weight_sum, out=weights.v)
            if self._exists is not None:
                np.multiply(weights.v, self._exists, out=weights.v)
        clock.check()

    def fold(self):
        """Set v = w and s = 1, and restart the sum of iterates."""
        weights = self.weights
        weights.catch_up_all()
        # w_t = s_t (x_t + total_t direction), where x changes along gradients of
        # examples: the weighted sum of s_t x_t is S x - u, as in `AveragedIterate`
        if self._keeps_average:
            along = self.along_sum - self.scale_sum * weights.total
            self._put_aside += (
                self.scale_sum * weights.v + along * weights.direction - weights.u
            )
            weights.u[:] = 0.0
            self.scale_sum = self.along_sum = 0.0
        weights.finish()
