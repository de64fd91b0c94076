"""The structured hinge smoothed by l2 on the k best labelings of any model.

For example i with values h_y = L_i(y) + <theta_i, mu_i(y)> of its k best labelings and
smoothing m (Pillutla et al., 2018, Section 2 and Algorithm 6):

    f_i  = max_u <u, h> + m/2 (1 - |u|^2) - h_{y_i},   u in the simplex
    grad = sum_y u_y A_i^T mu_i(y) - A_i^T mu_i(y_i),  u = projection of h / m

which is exact where the last of the k has no weight. Visits bring all weights up to
date: their cost is that of the weights, and of the oracle.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.models.protocols._base cimport BoundModel, SmoothLoss, Workspace

from sksstruct.projections import project_simplex


cdef class OracleLoss(SmoothLoss):
    """A bound model with its hinge smoothed.

    Parameters
    ----------
    model : BoundModel
        The model, which has a method ``best(workspace, i, k)``.
    k : int
        Number of labelings.
    """

    cdef readonly Py_ssize_t k
    cdef public bint keep_edges
    cdef double strength, _last
    cdef object _anchors, _direction, _zero

    def __init__(self, BoundModel model, Py_ssize_t k):
        self.model, self.k = model, k
        self.strength = 1.0
        self.convex = self.nonsmooth = True
        self.support = None
        self.diameter = 0.5
        self.exact = np.ones(model.n_examples, dtype=np.uint8)
        self._anchors = [None] * model.n_examples

    def set_smoothing(self, double strength):
        self.strength = strength

    def mixture(self, Workspace workspace, Py_ssize_t i, double scale):
        """The k best labelings at `scale` times the weights, values and weights u."""
        cdef BoundModel model = self.model
        # weights s w give the labelings of w with the loss divided by s
        model.loss_scale = 1.0 / scale
        try:
            labelings, values = model.best(workspace, i, self.k)
        finally:
            model.loss_scale = 1.0
        values = scale * np.asarray(values)
        u = project_simplex((values - values.max()) / self.strength)
        return labelings, values, u

    cdef int _add(self, Workspace workspace, Py_ssize_t i, labelings, u,
                  double factor) except -1:
        """d += factor times the mean of a mixture."""
        cdef Py_ssize_t j
        cdef const int32_t[:, ::1] rows = labelings
        cdef const double[::1] weights = u
        for j in range(rows.shape[0]):
            if weights[j] > 0.0:
                self.model.add_labeling(
                    workspace, i, &rows[j, 0], factor * weights[j])
        return 0

    def value_and_gradient(self, gradient, n_jobs=None):
        cdef BoundModel model = self.model
        cdef Workspace workspace = model.workspace()
        cdef double[::1] out = gradient
        cdef double* v = model._v
        cdef double* u_pointer = model._u
        cdef const double* lower = model._lower
        cdef int32_t[::1] y_true = np.empty(max(model.max_size, 1), dtype=np.int32)
        cdef Py_ssize_t i, j
        cdef double value, total = 0.0, true_value, loss
        cdef const int32_t[:, ::1] rows
        gradient[:] = 0.0
        self.expected_loss = 0.0
        for i in range(model.n_examples):
            labelings, values, u = self.mixture(workspace, i, 1.0)
            self._anchors[i] = labelings, u
            self.exact[i] = len(u) < self.k or u[len(u) - 1] == 0.0
            model.y_true(i, &y_true[0])
            model.evaluate(workspace, i, &y_true[0], &true_value)
            value = u @ values + self.strength / 2.0 * (1.0 - u @ u) - true_value
            total += model._example_weights[i] * value
            rows = labelings
            for j in range(rows.shape[0]):
                model.loss(i, &rows[j, 0], &loss)
                self.expected_loss += model._example_weights[i] * u[j] * loss
            self._add(workspace, i, labelings, u, 1.0)
            model.add_labeling(workspace, i, &y_true[0], -1.0)
            model._v, model._u, model._lower = &out[0], NULL, NULL
            try:
                model.apply_change(workspace, i, model._example_weights[i], 0.0)
            finally:
                model._v, model._u, model._lower = v, u_pointer, lower
        return total

    def start_visits(self, direction, bint anchored):
        self._direction, self._last = np.array(direction), 0.0

    def finish_visits(self, double total):
        if total != self._last:
            self.model.v += (total - self._last) * self._direction
            self._last = total

    cdef int catch_up(self, Py_ssize_t i, double total) except -1 nogil:
        with gil:
            self.finish_visits(total)
        return 0

    cdef int mean_change(self, Workspace workspace, Py_ssize_t i, double scale,
                         bint anchored) except -1 nogil:
        cdef int32_t[::1] y_true
        with gil:
            labelings, _, u = self.mixture(workspace, i, scale)
            self._add(workspace, i, labelings, u, 1.0)
            if anchored:
                labelings, u = self._anchors[i]
                self._add(workspace, i, labelings, u, -1.0)
            else:
                y_true = np.empty(max(self.model.max_size, 1), dtype=np.int32)
                self.model.y_true(i, &y_true[0])
                self.model.add_labeling(workspace, i, &y_true[0], -1.0)
        return 0
