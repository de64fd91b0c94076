"""Steps along one example's (sub)gradient, compiled, with weights that shrink lazily.

With w = s v, the regularizer shrinks the factor s alone, so that a step reads and
writes only the features of its example. Variance-reduced steps also move all weights
along a common direction, which is added to a row when an example reads the row: see
`LazyWeights`. `iterates.py` states the steps, and is the Python side of the kernels.
"""

cimport cython

from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._smooth_loss cimport SmoothLoss
from sksstruct.models.protocols._weights cimport LazyWeights, Weights
from sksstruct.utils._clock cimport Clock
from sksstruct.utils._pointers cimport const_doubles, const_intps, int32s

# When s falls below this bound, s is multiplied into v: changes of v grow as 1 / s.
cdef double SMALL = 1e-8

# The addresses of an example's arrays are prefetched this number of visits ahead, and
# the arrays one visit ahead, as in `_bcfw.pyx`.
cdef enum:
    FAR_AHEAD = 4


cdef inline void prefetch(BoundModel model, const Py_ssize_t* order, Py_ssize_t n,
                          Py_ssize_t k) noexcept nogil:
    """Prefetch memory of examples that are visited after the k-th."""
    if k + FAR_AHEAD < n:
        model.prefetch(order[k + FAR_AHEAD], False)
    if k + 1 < n:
        model.prefetch(order[k + 1], True)


@cython.final
cdef class Bounds:
    """Bounds of the weights `index`, which lie in `rows`, for clipping after steps."""

    cdef Py_ssize_t n_bounds, n_rows
    cdef const Py_ssize_t* index
    cdef const Py_ssize_t* rows
    cdef const double* lower
    cdef const double* upper
    cdef tuple _arrays

    def __cinit__(self, index, rows, lower, upper):
        self.n_bounds, self.n_rows = len(index), len(rows)
        self.index, self.rows = const_intps(index), const_intps(rows)
        self.lower, self.upper = const_doubles(lower), const_doubles(upper)
        self._arrays = index, rows, lower, upper

    cdef void project(self, Weights weights, double scale,
                      double average) noexcept nogil:
        """Clip v so that scale * v is within the bounds.

        If an average is collected, the changes times `average` are added to u.
        """
        cdef Py_ssize_t j, k
        cdef double value
        for j in range(self.n_bounds):
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
        """Clip lazy weights, after updating all rows that have bounds."""
        cdef Py_ssize_t j
        # rows that the example does not read are updated, too: the direction moves
        # every weight
        for j in range(self.n_rows):
            weights.catch_up(self.rows[j])
        self.project(weights, weights.scale, average)


cdef class Steps:
    """Base of the kernels of steps on weights w = s v; see `AveragedIterate`."""

    cdef readonly Weights iterate
    cdef readonly double alpha
    # as in `iterates.py`: the factor s of w = s v, the sum S of a_t s over the steps,
    # and the sum of the weights a_t of the iterates in the average
    cdef public double scale, scale_sum, total
    cdef readonly double steps
    cdef BoundModel model
    cdef Workspace workspace
    cdef Bounds bounds

    def __init__(self, Weights weights, BoundModel model, double alpha, Bounds bounds):
        self.iterate, self.model, self.alpha = weights, model, alpha
        self.workspace = model.workspace(weights.w)
        self.bounds = bounds
        if bounds is not None:
            # the initial weights may violate the bounds
            bounds.project(weights, 1.0, 0.0)
        self.scale = 1.0

    cdef int _visit(self, Py_ssize_t i, double rate) except -1 nogil:
        """Take a step on one example."""
        raise NotImplementedError

    def visit(self, order_, rates_):
        """Take a step of the given rate on each of the given examples."""
        cdef const Py_ssize_t* order = const_intps(order_)
        cdef const double* rates = const_doubles(rates_)
        cdef Py_ssize_t k, n = len(order_)
        cdef Clock clock = Clock()
        with nogil:
            for k in range(n):
                if clock.late():
                    break
                prefetch(self.model, order, n, k)
                self._visit(order[k], rates[k])
        clock.check()

    cdef int _shrink(self, double factor) except -1 nogil:
        """Multiply the weights by a factor, or by zero if the factor is below SMALL."""
        if factor < SMALL:
            # with rates 1 / (alpha t), the first step has factor zero
            with gil:
                self.fold(0.0)
        else:
            self.scale *= factor
        return 0

    cdef int _count_iterate(self, double weight) except -1 nogil:
        """Clip the iterate after a step, and add the iterate to the average."""
        if self.bounds is not None:
            self.bounds.project(self.iterate, self.scale, self.scale_sum)
        self.steps += 1.0
        self.total += weight
        self.scale_sum += weight * self.scale
        if self.scale < SMALL:
            with gil:
                self.fold(self.scale)
        return 0


cdef class SubgradientSteps(Steps):
    """Steps on the structured hinge; see `SubgradientKernel`."""

    # sum over the steps of n p_i L_i(y), the task loss of the decoded labeling y
    cdef readonly double loss
    # scratch: labelings of the visited example
    cdef int32_t* decoded
    cdef int32_t* observed
    cdef tuple _arrays

    def __init__(self, weights, model, alpha, bounds, decoded, observed):
        Steps.__init__(self, weights, model, alpha, bounds)
        self.decoded, self.observed = int32s(decoded), int32s(observed)
        self._arrays = decoded, observed

    cdef int _visit(self, Py_ssize_t i, double rate) except -1 nogil:
        # uniform sampling: the factor n p_i makes the subgradient unbiased
        cdef double share = self.model.n_examples * self.model._example_weights[i]
        cdef double value, loss
        # the example is decoded before the weights shrink; decoding at v with the loss
        # divided by s gives the labelings of w = s v
        self.workspace.loss_scale = 1.0 / self.scale
        self.model.potentials(self.workspace, i)
        self.model.decode(self.workspace, i, self.decoded, &value)
        self.model.loss(i, self.decoded, &loss)
        self.model.y_true(i, self.observed)
        self.loss += share * loss
        self._shrink(1.0 - rate * self.alpha)
        self.model.add_labeling(self.workspace, i, self.observed, 1.0)
        self.model.add_labeling(self.workspace, i, self.decoded, -1.0)
        # u gets the change times the S before this step, as no earlier iterate contains
        # the change
        self.model.apply_change(self.workspace, i, self.iterate,
                                rate * share / self.scale, self.scale_sum)
        return self._count_iterate(self.steps + 1.0)


cdef class GradientSteps(Steps):
    """Steps on a smooth loss; see `GradientKernel`."""

    cdef readonly SmoothLoss smooth

    def __init__(self, weights, SmoothLoss loss, alpha, bounds):
        Steps.__init__(self, weights, loss.model, alpha, bounds)
        self.smooth = loss

    cdef int _visit(self, Py_ssize_t i, double rate) except -1 nogil:
        # uniform sampling: the factor n p_i makes the gradient unbiased
        cdef double share = self.model.n_examples * self.model._example_weights[i]
        self.smooth.mean_change(self.workspace, i, self.scale, False)
        self._shrink(1.0 - rate * self.alpha)
        # u gets the change times the S before this step, as no earlier iterate contains
        # the change
        self.model.apply_change(self.workspace, i, self.iterate,
                                -rate * share / self.scale, self.scale_sum)
        return self._count_iterate(1.0)


cdef class VarianceReducedSteps:
    """Variance-reduced steps on a smooth loss; see `VarianceReducedKernel`."""

    cdef readonly SmoothLoss smooth
    cdef readonly LazyWeights weights
    cdef BoundModel model
    cdef Workspace workspace
    cdef Bounds bounds
    # For the average of the iterates of an epoch, with weights 1, 2, 3, ...: number and
    # sum of these weights, the weighted sum of s, and the weighted sum of s times
    # `weights.total`, the multiple of the common direction in v.
    cdef public double steps, weight_sum, scale_sum, along_sum

    def __init__(self, SmoothLoss loss, LazyWeights weights, Bounds bounds):
        self.smooth, self.model, self.weights = loss, loss.model, weights
        self.workspace = loss.model.workspace(weights.w)
        self.bounds = bounds

    def visit(self, order_, ratios_, double rate, double shrink, bint anchored,
              Clock clock):
        """Take steps on the given examples, until the time limit."""
        cdef const Py_ssize_t* order = const_intps(order_)
        cdef const double* ratios = const_doubles(ratios_)
        cdef Py_ssize_t k, n = len(order_)
        with nogil:
            for k in range(n):
                if clock.late():
                    break
                prefetch(self.model, order, n, k)
                self._visit(order[k], ratios[k], rate, shrink, anchored)

    @cython.final
    cdef int _visit(self, Py_ssize_t i, double ratio, double rate, double shrink,
                    bint anchored) except -1 nogil:
        """Take a step along the example's own gradient and the common direction."""
        # update the rows that the example reads before reading them
        self.smooth.catch_up(self.weights, i)
        self.smooth.mean_change(self.workspace, i, self.weights.scale, anchored)
        # Changes are made to v, where w = scale v. The scale shrinks first, as the
        # change of this step is not shrunk.
        self.weights.scale *= shrink
        self.model.apply_change(self.workspace, i, self.weights,
                                -rate * ratio / self.weights.scale, self.scale_sum)
        self.weights.total -= rate / self.weights.scale
        if self.bounds is not None:
            self.bounds.project_lazily(self.weights, self.scale_sum)
        self.steps += 1.0
        self.weight_sum += self.steps
        self.scale_sum += self.steps * self.weights.scale
        self.along_sum += self.steps * self.weights.scale * self.weights.total
        if self.weights.scale < SMALL:
            with gil:
                self.fold()
        return 0
