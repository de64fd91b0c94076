from libc.stdint cimport int32_t

from sksstruct.models.protocols._weights cimport Weights


cdef class Workspace:
    # What one thread needs: each model points `scratch` at its own struct.
    cdef void* scratch
    cdef const double* w             # what potentials are formed from
    cdef object _held                # keeps it alive
    cdef readonly Py_ssize_t n_weights
    cdef public double loss_scale    # potentials count the loss so many times


cdef class BoundModel:
    # A model bound to its training data. The comments of _bound_model.pyx state each
    # method.
    cdef readonly Py_ssize_t n_examples
    cdef readonly Py_ssize_t n_weights
    cdef readonly Py_ssize_t max_size
    cdef readonly Py_ssize_t max_keys
    cdef readonly Py_ssize_t key_space
    cdef readonly double visit_work      # table entries of a mean oracle call
    cdef readonly object sizes, starts
    cdef readonly object example_weights
    cdef const Py_ssize_t[::1] _sizes, _starts
    cdef const double[::1] _example_weights
    cdef public object oracle_bounds     # on weights, that the oracles need; or None
    cdef public object surrogate         # a SmoothedHinge; None for the hinge

    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil
    cdef int potentials(self, Workspace ws, Py_ssize_t i) except -1 nogil
    cdef int decode(self, Workspace ws, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil
    cdef int y_true(self, Py_ssize_t i, int32_t* y) except -1 nogil
    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil
    cdef int evaluate(self, Workspace ws, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil
    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil
    cdef int evaluate_mean(self, Workspace ws, Py_ssize_t i, Py_ssize_t n,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil
    cdef int add_labeling(self, Workspace ws, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil
    cdef int add_mean(self, Workspace ws, Py_ssize_t i, Py_ssize_t n,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil
    cdef int change_norm(self, Workspace ws, Py_ssize_t i,
                         double* value) except -1 nogil
    cdef int scatter(self, Workspace ws, Py_ssize_t i, double scale,
                     double* out) except -1 nogil
    cdef int truncate(self, Workspace ws, Py_ssize_t i,
                      Weights weights) except -1 nogil
    cdef int clear(self, Workspace ws, Py_ssize_t i) except -1 nogil
    cdef int apply_change(self, Workspace ws, Py_ssize_t i, Weights weights,
                          double scale, double average) except -1 nogil
    cdef int has_gram(self, Workspace ws, Py_ssize_t i) except -1 nogil
    cdef int gram_row(self, Workspace ws, Py_ssize_t i, const int32_t* y, Py_ssize_t n,
                      const int32_t* labelings, double* out) except -1 nogil
