from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace


cdef struct DualStep:
    # What comes of a step from mu_i to mu_i'; `_entropy_dual.pyx` states the notation.
    double linear       # <theta_i, mu_i' - mu_i>, the loss included
    double slope        # the same minus mu <eta_i, mu_i' - mu_i>
    double loss         # L_i(mu_i')
    double entropy      # mu H(mu_i')
    double wrong        # what mu_i' has on labels that were not observed


cdef class EntropyDual:
    # `_entropy_dual.pyx` states attributes and methods.
    cdef readonly BoundModel model
    cdef readonly double mu
    cdef readonly object losses, entropies
    # the same arrays, for loops without the interpreter
    cdef double[::1] _losses, _entropies

    cdef int load(self, Workspace ws, Py_ssize_t i) except -1 nogil
    cdef int begin(self, Workspace ws, Py_ssize_t i, double advantage,
                   DualStep* out) except -1 nogil
    cdef int mix(self, Workspace ws, Py_ssize_t i, double share,
                 DualStep* out) except -1 nogil
    cdef int accept(self, Py_ssize_t i, const DualStep* step) except -1 nogil
    cdef int distance(self, Workspace ws, Py_ssize_t i) except -1 nogil
    cdef int gap(self, Workspace ws, Py_ssize_t i, double* loss,
                 double* gap) except -1 nogil
