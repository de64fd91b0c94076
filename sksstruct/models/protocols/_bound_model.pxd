from libc.stdint cimport int32_t

from sksstruct.models.protocols._weights cimport LazyWeights, Weights

cdef extern from *:
    """
    // Changes of mean parameters (at most 1) below this number are rounding errors.
    #define SKS_TINY 1e-13
    """
    const double TINY "SKS_TINY"


cdef inline bint in_range(Py_ssize_t n, const int32_t* y, Py_ssize_t low,
                          Py_ssize_t high) noexcept nogil:
    """Return whether low <= y[k] < high for k < n."""
    cdef Py_ssize_t k
    for k in range(n):
        if not low <= y[k] < high:
            return False
    return True


cdef class Workspace:
    # address of the scratch memory of one thread: a struct that each model class
    # defines
    cdef void* scratch
    # the weights that potentials are formed from, and the array that holds them
    cdef const double* w
    cdef object _held
    cdef readonly Py_ssize_t n_weights
    # factor of the loss that is added to the potentials
    cdef public double loss_scale
    # the k best labelings found last, if `topk` returned them as arrays
    cdef object _best
    # arrays that hold the memory of `scratch`
    cdef list _arrays

    cdef double* zeros(self, Py_ssize_t size) except NULL
    cdef int32_t* integers(self, Py_ssize_t size) except NULL
    cdef char* flags(self, Py_ssize_t size) except NULL


cdef class BoundModel:
    # attributes and methods: see `_bound_model.pyx`
    cdef readonly Py_ssize_t n_examples, n_weights
    cdef readonly Py_ssize_t max_size, max_keys, key_space
    cdef readonly double visit_work
    cdef public double feature_scale
    cdef readonly object sizes, starts, example_weights
    # `sizes`, `starts` and `example_weights` as memoryviews, for loops without the
    # interpreter
    cdef const Py_ssize_t[::1] _sizes, _starts
    cdef const double[::1] _example_weights
    cdef public object oracle_bounds, surrogate, binder, kept_factors
    cdef public object completion
    cdef public bint likelihood

    # prefetches the memory of example i before a visit of the example
    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil
    # loads the potentials of example i; `decode` finds the best labeling at the loaded
    # potentials
    cdef int potentials(self, Workspace ws, Py_ssize_t i) except -1 nogil
    cdef int decode(self, Workspace ws, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil
    # loads the potentials itself; points `labelings` (a labeling per row) and `values`
    # to memory that the workspace holds
    cdef Py_ssize_t best_labelings(
        self, Workspace ws, Py_ssize_t i, Py_ssize_t k, const int32_t** labelings,
        const double** values) except -1 nogil
    cdef int y_true(self, Py_ssize_t i, int32_t* y) except -1 nogil
    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil
    cdef int evaluate(self, Workspace ws, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil
    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil
    cdef int evaluate_mean(self, Workspace ws, Py_ssize_t i, Py_ssize_t n_keys,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil
    # checks of labelings and keys in a saved state
    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil
    cdef int has_key(self, Py_ssize_t i, Py_ssize_t key) except -1 nogil
    # exp oracle: sums over all labelings at the loaded potentials
    cdef int expect(self, Workspace ws, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil
    # methods that form, apply and clear d, the change of mean parameters in the
    # workspace
    cdef int add_labeling(self, Workspace ws, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil
    cdef int add_mean(self, Workspace ws, Py_ssize_t i, Py_ssize_t n_keys,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil
    cdef int add_means(self, Workspace ws, Py_ssize_t i,
                       const double* change) except -1 nogil
    cdef int change_norm(self, Workspace ws, Py_ssize_t i,
                         double* value) except -1 nogil
    cdef int scatter(self, Workspace ws, Py_ssize_t i, double scale,
                     double* out) except -1 nogil
    cdef int touch(self, Workspace ws, Py_ssize_t i, Weights weights) except -1 nogil
    cdef int clear(self, Workspace ws, Py_ssize_t i) except -1 nogil
    cdef int catch_up(self, LazyWeights weights, Py_ssize_t i) except -1 nogil
    cdef int apply_change(self, Workspace ws, Py_ssize_t i, Weights weights,
                          double scale, double average) except -1 nogil
    # inner products of the features of labelings, relative to the observed labeling
    cdef int has_gram(self, Workspace ws, Py_ssize_t i) except -1 nogil
    cdef int gram_row(self, Workspace ws, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n_labelings, const int32_t* labelings,
                      double* out) except -1 nogil
