from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._weights cimport LazyWeights


cdef class SmoothLoss:
    # A bound model with a loss that has a gradient; see `_smooth_loss.pyx`.
    cdef readonly BoundModel model
    cdef readonly Py_ssize_t row_size
    cdef readonly bint convex, nonsmooth
    cdef readonly double mu, diameter
    # results of the last `value_and_gradient`
    cdef readonly double expected_loss, hinge
    cdef readonly object exact, support
    cdef public bint keep_anchors

    cdef int catch_up(self, LazyWeights weights, Py_ssize_t i) except -1 nogil
    cdef int mean_change(self, Workspace ws, Py_ssize_t i, double scale,
                         bint anchored) except -1 nogil
