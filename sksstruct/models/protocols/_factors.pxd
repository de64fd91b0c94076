# Factors bound to training data; notation and methods: see `_factors.pyx`.

from libc.stdint cimport int32_t, int64_t


cdef struct Messages:
    # messages from one variable to a pair, for `size` labels of the variable; messages
    # of labels that are not listed are zero
    Py_ssize_t size
    const int32_t* labels
    const double* values


cdef struct Outcome:
    # an outcome of a pair: the labels of its two variables, and the score of these
    # labels plus their messages
    int32_t labels[2]
    double value


cdef class FactorModel:
    cdef readonly Py_ssize_t n_examples, n_variables, n_pairs, n_labels
    # largest squared norm |phi_f|^2 of the features of an outcome of a pair
    cdef readonly double pair_norm
    # whether pairs of an example form cycles
    cdef readonly bint loopy
    # whether some labels of variables, or some outcomes of pairs, are forbidden
    cdef readonly bint constrained
    # number of scores that oracles, `label_scores` and `pair_scores` have read
    cdef readonly int64_t visited
    # the variables of example i are first_variable[i] to first_variable[i + 1] - 1, and
    # its pairs are first_pair[i] to first_pair[i + 1] - 1
    cdef readonly object example_weights, first_variable, first_pair, pairs, y_true
    cdef const double[::1] _example_weights
    cdef const Py_ssize_t[::1] _first_variable, _first_pair
    cdef const int32_t[:, ::1] _pairs
    cdef const int32_t[::1] _y_true
    # for each variable, the loss of any label but the observed one
    cdef const double[::1] _cost

    cdef int find_label(
        self, Py_ssize_t variable, double part, Py_ssize_t n, const int32_t* labels,
        double floor, int32_t* label, double* value) except -1 nogil
    cdef int label_scores(self, Py_ssize_t variable, Py_ssize_t n,
                          const int32_t* labels, double* scores) except -1 nogil
    cdef int add_labels(self, Py_ssize_t variable, Py_ssize_t n,
                        const int32_t* labels, const double* changes) except -1 nogil
    cdef double label_norm(self, Py_ssize_t variable) noexcept nogil
    cdef int find_pair(self, Py_ssize_t pair, bint linear, const Messages* messages,
                       double floor, Outcome* outcome) except -1 nogil
    cdef Py_ssize_t entry(self, Py_ssize_t pair, Py_ssize_t first_label,
                          Py_ssize_t second_label) except -1 nogil
    cdef int pair_scores(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                         double* scores, double* norms) except -1 nogil
    cdef int add_pairs(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil
    cdef bint allows(self, Py_ssize_t pair, Py_ssize_t first_label,
                     Py_ssize_t second_label) noexcept nogil


cdef class BinaryFactorModel:
    cdef readonly Py_ssize_t n_examples, n_labels, n_pairs
    cdef readonly double scaling
    cdef public int64_t visited
    cdef readonly object example_weights, pairs
    cdef const double[::1] _example_weights
    cdef const unsigned char[:, ::1] _y_true
    cdef const int32_t[:, ::1] _pairs
    # entries first_neighbor[j] to first_neighbor[j + 1] - 1 belong to label j:
    # `_neighbor_pairs` has the pairs of label j, `_neighbors` the other label of each
    cdef const Py_ssize_t[::1] _first_neighbor
    cdef const int32_t[::1] _neighbors, _neighbor_pairs
    cdef double[::1] _pair_weights

    cdef int label_scores(self, Py_ssize_t i, Py_ssize_t low, Py_ssize_t high,
                          double* scores) except -1 nogil
    cdef double label_score(self, Py_ssize_t i, Py_ssize_t label) noexcept nogil
    cdef int add_label(self, Py_ssize_t i, Py_ssize_t label,
                       double change) except -1 nogil
    cdef double label_norm(self, Py_ssize_t i) noexcept nogil


cdef inline double pair_score(BinaryFactorModel model, Py_ssize_t pair) noexcept nogil:
    """Return the score of a pair if both of its labels are on."""
    return model.scaling * model._pair_weights[pair]
