"""The structured hinge smoothed by l2 on the k best labelings of any model.

For example i with values h_y = L_i(y) + <theta_i, mu_i(y)> of its k best labelings and
smoothing mu (Pillutla et al., 2018, Section 2 and Algorithm 6):

    f_i  = max_u <u, h> + mu/2 (1 - |u|^2) - h_{y_i},   u in the simplex
    grad = sum_y u_y A_i^T mu_i(y) - A_i^T mu_i(y_i),   u = projection of h / mu

This is exact for the maximum over all labelings if the last of the k labelings has no
share. Below, a mixture is the k labelings with their shares u; labelings without a
share are left out.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._smooth_loss cimport SmoothLoss
from sksstruct.models.protocols._weights cimport LazyWeights
from sksstruct.projections._simplex cimport threshold_by_partition
from sksstruct.utils._memory cimport reserve


cdef struct Mixture:
    # `count` of the `n_found` labelings that were found have a positive share; `least`
    # is the least share of all that were found
    Py_ssize_t count, n_found
    double least
    # (count, size) labelings with a positive share, and (count,) these shares
    int32_t* labelings
    double* shares


cdef class TopKHinge(SmoothLoss):
    """A bound model with its hinge smoothed by the k best labelings.

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
    # values of the k best labelings, in two copies, one of which the projection
    # permutes; and the mixture of these labelings
    cdef double* _values
    cdef Py_ssize_t _value_capacity
    cdef Mixture _mixture
    cdef Py_ssize_t _share_capacity, _label_capacity
    # mixtures of all examples in the last sweep; example i has the labels from
    # _first_label[i] and the shares from _first_share[i] on
    cdef Mixture _anchors
    cdef Py_ssize_t[::1] _first_label, _first_share
    cdef Py_ssize_t _anchor_share_capacity, _anchor_label_capacity
    cdef int32_t[::1] _observed
    cdef unsigned char[::1] _exact

    def __init__(self, BoundModel model, smoothing, bint nonsmooth=True):
        if smoothing.by_sums:
            raise ValueError(
                "the hinge of this model is smoothed by its k best labelings: it needs "
                f"smoothing='l2', not {smoothing.smoothing!r}")
        # a larger k changes nothing: no memory holds so many labelings
        self.model, self.mu = model, smoothing.mu
        self.k = min(smoothing.k, np.iinfo(np.int32).max)
        self.convex, self.nonsmooth = True, nonsmooth
        self.support, self.row_size = None, model.row_size
        # (1 - |u|^2) / 2 is at most one half
        self.diameter = 0.5
        self.exact = self._exact = np.ones(model.n_examples, dtype=np.uint8)
        self._first_label = np.zeros(model.n_examples + 1, dtype=np.intp)
        self._first_share = np.zeros(model.n_examples + 1, dtype=np.intp)
        self._observed = np.empty(max(model.max_size, 1), dtype=np.int32)

    def __dealloc__(self):
        free(self._values)
        free(self._mixture.labelings)
        free(self._mixture.shares)
        free(self._anchors.labelings)
        free(self._anchors.shares)

    # ---- mixtures ----

    cdef double _mix(self, Workspace workspace, Py_ssize_t i, double scale,
                     double* highest) except? -1 nogil:
        """Find the mixture of example i at `scale` times the workspace's weights.

        Returns the smoothed maximum, and writes the unsmoothed maximum to `highest`.
        """
        cdef Py_ssize_t size = self.model._sizes[i], count, rank
        cdef const int32_t* labelings = NULL
        cdef const double* values = NULL
        cdef Mixture* mixture = &self._mixture
        cdef double rho, share, mean = 0.0, squared = 0.0
        # weights s w give the labelings of w with the loss divided by s
        workspace.loss_scale = 1.0 / scale
        try:
            count = self.model.best_labelings(workspace, i, self.k, &labelings, &values)
        finally:
            workspace.loss_scale = 1.0
        if not count:
            with gil:
                raise ValueError(f"example {i} has no labeling that is allowed")
        reserve(<void**> &self._values, &self._value_capacity, 2 * count,
                sizeof(double))
        reserve(<void**> &mixture.shares, &self._share_capacity, count, sizeof(double))
        reserve(<void**> &mixture.labelings, &self._label_capacity, count * size,
                sizeof(int32_t))
        highest[0] = values[0]
        for rank in range(count):
            highest[0] = max(highest[0], values[rank])
        # the best value is subtracted, which does not change the projection
        for rank in range(count):
            self._values[rank] = scale * (values[rank] - highest[0]) / self.mu
        memcpy(self._values + count, self._values, count * sizeof(double))
        rho = threshold_by_partition(count, self._values + count)
        mixture.count, mixture.n_found, mixture.least = 0, count, 1.0
        for rank in range(count):
            share = max(self._values[rank] - rho, 0.0)
            mixture.least = min(mixture.least, share)
            # with weak smoothing, most shares are zero
            if share > 0.0:
                memcpy(mixture.labelings + mixture.count * size,
                       labelings + rank * size, size * sizeof(int32_t))
                mixture.shares[mixture.count] = share
                mixture.count += 1
                mean += share * self._values[rank]
                squared += share * share
        highest[0] *= scale
        return highest[0] + self.mu * (mean + (1.0 - squared) / 2.0)

    cdef int _store_anchor(self, Py_ssize_t i) except -1 nogil:
        """Store the mixture as the anchor of an example; called in order of the
        examples."""
        cdef Py_ssize_t size = self.model._sizes[i] * self._mixture.count
        cdef Py_ssize_t label = self._first_label[i], share = self._first_share[i]
        cdef Py_ssize_t count = self._mixture.count
        reserve(<void**> &self._anchors.labelings, &self._anchor_label_capacity,
                label + size, sizeof(int32_t))
        reserve(<void**> &self._anchors.shares, &self._anchor_share_capacity,
                share + count, sizeof(double))
        memcpy(self._anchors.labelings + label, self._mixture.labelings,
               size * sizeof(int32_t))
        memcpy(self._anchors.shares + share, self._mixture.shares,
               count * sizeof(double))
        self._first_label[i + 1], self._first_share[i + 1] = label + size, share + count
        return 0

    cdef int _add_mixture(self, Workspace workspace, Py_ssize_t i, Py_ssize_t count,
                          const int32_t* labelings, const double* shares,
                          double factor) except -1 nogil:
        """d += factor times the mean parameters of a mixture."""
        cdef Py_ssize_t rank
        for rank in range(count):
            self.model.add_labeling(
                workspace, i, labelings + rank * self.model._sizes[i],
                factor * shares[rank])
        return 0

    cdef int _subtract_observed(self, Workspace workspace,
                                Py_ssize_t i) except -1 nogil:
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
        with nogil:
            for i in range(model.n_examples):
                total += model._example_weights[i] * self._visit_at_anchor(workspace, i)
                # the workspace holds E mu_i - mu_i(y_i)
                model.scatter(workspace, i, model._example_weights[i], &out[0])
                model.clear(workspace, i)
        return total

    cdef double _visit_at_anchor(self, Workspace workspace,
                                 Py_ssize_t i) except? -1 nogil:
        """Return f_i, store its mixture, and prepare d = E mu_i - mu_i(y_i)."""
        cdef double highest, true_value, value = self._mix(workspace, i, 1.0, &highest)
        cdef Mixture* mixture = &self._mixture
        cdef double weight = self.model._example_weights[i], loss
        cdef Py_ssize_t rank
        self._store_anchor(i)
        # f_i is exact if all labelings were found, or if the last of k labelings has no
        # share, so that labelings beyond k would have no share either
        self._exact[i] = mixture.n_found < self.k or mixture.least == 0.0
        self.model.y_true(i, &self._observed[0])
        # the potentials that `best_labelings` loaded are still valid
        self.model.evaluate(workspace, i, &self._observed[0], &true_value)
        self.hinge += weight * (highest - true_value)
        for rank in range(mixture.count):
            self.model.loss(
                i, mixture.labelings + rank * self.model._sizes[i], &loss)
            self.expected_loss += weight * mixture.shares[rank] * loss
        self._add_mixture(
            workspace, i, mixture.count, mixture.labelings, mixture.shares, 1.0)
        self._subtract_observed(workspace, i)
        return value - true_value

    # ---- visits of single examples ----

    def start_visits(self, bint anchored):
        """Do nothing: visits need no preparation."""

    cdef int catch_up(self, LazyWeights weights, Py_ssize_t i) except -1 nogil:
        return self.model.catch_up(weights, i)

    cdef int mean_change(self, Workspace workspace, Py_ssize_t i, double scale,
                         bint anchored) except -1 nogil:
        cdef Mixture* mixture = &self._mixture
        cdef double highest
        self._mix(workspace, i, scale, &highest)
        self._add_mixture(
            workspace, i, mixture.count, mixture.labelings, mixture.shares, 1.0)
        if not anchored:
            return self._subtract_observed(workspace, i)
        return self._add_mixture(
            workspace, i, self._first_share[i + 1] - self._first_share[i],
            self._anchors.labelings + self._first_label[i],
            self._anchors.shares + self._first_share[i], -1.0)
