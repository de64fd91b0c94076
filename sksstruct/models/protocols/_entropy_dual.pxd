from libc.stdint cimport int32_t, uint8_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace


cdef struct DualStep:
    # Results of a step from mu_i to mu_i'; notation: see `_entropy_dual.pyx`.
    double linear       # <theta_i, mu_i' - mu_i>, with the loss in theta_i
    double slope        # `linear` minus mu <eta_i, mu_i' - mu_i>
    double loss         # L_i(mu_i')
    double entropy      # mu H(mu_i')
    double wrong        # sum of the probabilities of wrong labels under mu_i'


cdef class EntropyDual:
    # attributes and methods: see `_entropy_dual.pyx`
    cdef readonly BoundModel model
    cdef readonly double mu
    cdef readonly object natural, begun, losses, entropies
    # addresses or memoryviews of the arrays above, for loops without the interpreter
    cdef double[::1] _losses, _entropies
    cdef uint8_t[::1] _begun
    cdef float* _natural
    # (array of `_means`, array of `_has_means`), which `sharing` passes on
    cdef tuple _stored
    # stored means mu_i of the first `_room` natural parameters, and for each example
    # whether its means are stored
    cdef double* _means
    cdef Py_ssize_t _room
    cdef uint8_t[::1] _has_means
    # if means do not fit into `_means`: the means found last, and the number of their
    # example, or -1
    cdef double* _last_means
    cdef Py_ssize_t _last_example
    # index in `natural` of the first natural parameter of each example
    cdef const Py_ssize_t[::1] _first
    # scratch for one example: theta_i / mu, a trial's natural parameters, its means,
    # and the change of the means
    cdef object _scratch
    cdef double* _loaded
    cdef double* _tried
    cdef double* _tried_means
    cdef double* _change
    # scratch for the observed labeling of an example, and for its keys
    cdef int32_t[::1] _labeling, _keys

    # methods that solvers call
    cdef int load(self, Workspace ws, Py_ssize_t i) except -1 nogil
    cdef int begin(self, Workspace ws, Py_ssize_t i, double advantage,
                   DualStep* out) except -1 nogil
    cdef int mix(self, Workspace ws, Py_ssize_t i, double share,
                 DualStep* out) except -1 nogil
    cdef int spread(self, Workspace ws, Py_ssize_t i, DualStep* out) except -1 nogil
    cdef int accept(self, Py_ssize_t i, const DualStep* step) except -1 nogil
    cdef int distance(self, Workspace ws, Py_ssize_t i) except -1 nogil
    cdef int gap(self, Workspace ws, Py_ssize_t i, double* loss,
                 double* gap) except -1 nogil
    # methods that subclasses define
    cdef Py_ssize_t n_nodes(self, Py_ssize_t i) noexcept nogil
    cdef int read(self, Workspace ws, Py_ssize_t i) except -1 nogil
    cdef int observe(self, Py_ssize_t i, double* means) except -1 nogil
    cdef double expect(self, Workspace ws, Py_ssize_t i, const double* natural,
                       double* means) except? -1 nogil
    cdef double log_partition(self, Workspace ws, Py_ssize_t i) except? -1 nogil
    cdef double loss(self, Py_ssize_t i, const double* means) except? -1 nogil
    cdef int add_change(self, Workspace ws, Py_ssize_t i) except -1 nogil

    cdef Py_ssize_t _size(self, Py_ssize_t i) noexcept nogil
    cdef bint _has_room(self, Py_ssize_t i) noexcept nogil
    cdef const double* means(self, Workspace ws, Py_ssize_t i) except NULL nogil
    cdef int _round(self, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t observed_keys(self, Py_ssize_t i) except -1 nogil
    cdef int _favor(self, Py_ssize_t i, double* natural,
                    double advantage) except -1 nogil
    cdef double _wrong(self, Py_ssize_t i, const double* means) except? -1 nogil
    cdef int _prepare(self, Workspace ws, Py_ssize_t i, const double* new,
                      const double* old) except -1 nogil
    cdef int _find_means(self, Workspace ws, Py_ssize_t i, const double* means,
                         DualStep* out) except -1 nogil


ctypedef fused score:
    float
    double


cdef inline double inner(Py_ssize_t n, const score* scores,
                         const double* means) noexcept nogil:
    """Return <scores, means>; a score of -inf times a mean of zero is zero."""
    # four partial sums, because each addition to a single sum waits for the addition
    # before; conditional expressions compile to selections without branches
    cdef double[4] totals = [0.0, 0.0, 0.0, 0.0]
    cdef Py_ssize_t full = n - n % 4, k, j
    for k in range(0, full, 4):
        for j in range(4):
            totals[j] += means[k + j] * (
                scores[k + j] if means[k + j] != 0.0 else <score> 0.0)
    for k in range(full, n):
        if means[k] != 0.0:
            totals[0] += scores[k] * means[k]
    return (totals[0] + totals[1]) + (totals[2] + totals[3])
