"""The structured hinge smoothed by l2 on the k best labelings of any model.

For example i with values h_y = L_i(y) + <theta_i, mu_i(y)> of its k best labelings and
smoothing mu (Pillutla et al., 2018, Section 2 and Algorithm 6):

    f_i  = max_u <u, h> + mu/2 (1 - |u|^2) - h_{y_i},   u in the simplex
    grad = sum_y u_y A_i^T mu_i(y) - A_i^T mu_i(y_i),   u = projection of h / mu

which is exact where the last of the k has no weight. Below a mixture is the k labelings
with their shares u. The oracle is called in Python, one example at a time.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._smooth_loss cimport SmoothLoss
from sksstruct.models.protocols._weights cimport LazyWeights

from sksstruct.projections import project_simplex


cdef class TopKHinge(SmoothLoss):
    """A bound model with its hinge smoothed.

    Parameters
    ----------
    model : BoundModel
        The model, which has the oracle "topk".
    smoothing : SmoothedHinge
        Smoothing by "l2", with its strength and number of labelings.
    nonsmooth : bool, default=True
        Whether the hinge itself is minimized.
    """

    cdef readonly Py_ssize_t k
    # mixtures of the last sweep
    cdef object _anchors
    cdef int32_t[::1] _observed

    def __init__(self, BoundModel model, smoothing, bint nonsmooth=True):
        if smoothing.smoothing != "l2":
            raise ValueError(
                "the hinge of this model is smoothed by its k best labelings: it needs "
                f"smoothing='l2', not {smoothing.smoothing!r}")
        self.model, self.k, self.mu = model, smoothing.k, smoothing.mu
        self.convex, self.nonsmooth = True, nonsmooth
        self.support, self.row_size = None, model.row_size
        # half the squared norm of u, which sums to one, is at most this
        self.diameter = 0.5
        self.exact = np.ones(model.n_examples, dtype=np.uint8)
        self._anchors = [None] * model.n_examples
        self._observed = np.empty(max(model.max_size, 1), dtype=np.int32)

    def mixture(self, Workspace workspace, Py_ssize_t i, double scale):
        """Return the k best labelings at scaled weights, their values and shares."""
        # weights s w give the labelings of w with the loss divided by s
        workspace.loss_scale = 1.0 / scale
        try:
            labelings, values = self.model.topk(workspace, i, self.k)
        finally:
            workspace.loss_scale = 1.0
        values = scale * np.asarray(values)
        # relative to the best: the projection is that of any shifted values
        shares = project_simplex((values - values.max()) / self.mu)
        return labelings, values, shares

    cdef int _add(self, Workspace workspace, Py_ssize_t i, labelings, shares,
                  double factor) except -1:
        """d += factor times the mean parameters of a mixture."""
        cdef Py_ssize_t rank
        cdef const int32_t[:, ::1] rows = labelings
        cdef const double[::1] weights = shares
        for rank in range(rows.shape[0]):
            # most shares are zero where mu is small
            if weights[rank] > 0.0:
                self.model.add_labeling(
                    workspace, i, &rows[rank, 0], factor * weights[rank])
        return 0

    cdef int _subtract_observed(self, Workspace workspace, Py_ssize_t i) except -1:
        """d -= mu_i(y_i)"""
        self.model.y_true(i, &self._observed[0])
        return self.model.add_labeling(workspace, i, &self._observed[0], -1.0)

    # ---- value and gradient ----

    def value_and_gradient(self, w, gradient, n_jobs=None):
        cdef BoundModel model = self.model
        cdef Workspace workspace = model.workspace(w)
        cdef double[::1] out = gradient
        cdef Py_ssize_t i
        cdef double total = 0.0
        gradient[:] = 0.0
        self.expected_loss = self.hinge = 0.0
        for i in range(model.n_examples):
            total += model._example_weights[i] * self._visit_at_anchor(workspace, i)
            # the mixture minus what was observed is in the workspace now
            model.scatter(workspace, i, model._example_weights[i], &out[0])
            model.clear(workspace, i)
        return total

    cdef double _visit_at_anchor(self, Workspace workspace, Py_ssize_t i) except? -1:
        """Return f_i, keep its mixture, and prepare d = E mu_i - mu_i(y_i)."""
        cdef double value, true_value
        labelings, values, shares = self.mixture(workspace, i, 1.0)
        self._anchors[i] = labelings, shares
        # all labelings were found, or those beyond would get no share
        self.exact[i] = len(shares) < self.k or shares[len(shares) - 1] == 0.0
        self.model.y_true(i, &self._observed[0])
        # at the potentials that the oracle has left in the workspace
        self.model.evaluate(workspace, i, &self._observed[0], &true_value)
        value = shares @ values + self.mu / 2.0 * (1.0 - shares @ shares) - true_value
        self.hinge += self.model._example_weights[i] * (values.max() - true_value)
        self._add_expected_loss(i, labelings, shares)
        self._add(workspace, i, labelings, shares, 1.0)
        self._subtract_observed(workspace, i)
        return value

    cdef int _add_expected_loss(self, Py_ssize_t i, labelings, shares) except -1:
        """Add p_i times the expected loss of a mixture to that of all examples."""
        cdef Py_ssize_t rank
        cdef const int32_t[:, ::1] rows = labelings
        cdef double loss
        for rank in range(rows.shape[0]):
            self.model.loss(i, &rows[rank, 0], &loss)
            self.expected_loss += (
                self.model._example_weights[i] * shares[rank] * loss)
        return 0

    # ---- visits of single examples ----

    def start_visits(self, bint anchored):
        """Do nothing: visits need no preparation."""

    cdef int catch_up(self, LazyWeights weights, Py_ssize_t i) except -1 nogil:
        return self.model.catch_up(weights, i)

    cdef int mean_change(self, Workspace workspace, Py_ssize_t i, double scale,
                         bint anchored) except -1 nogil:
        with gil:
            labelings, _, shares = self.mixture(workspace, i, scale)
            self._add(workspace, i, labelings, shares, 1.0)
            if anchored:
                labelings, shares = self._anchors[i]
                self._add(workspace, i, labelings, shares, -1.0)
            else:
                self._subtract_observed(workspace, i)
        return 0
