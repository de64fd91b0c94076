from libc.stdint cimport int32_t, int64_t


cdef class FactorModel:
    # Factors bound to their training data. The comments of _factors.pyx state each.
    cdef readonly Py_ssize_t n_examples, n_variables, n_pairs, n_labels
    cdef readonly double pair_norm       # the largest of pair_scores
    cdef readonly int64_t visited
    cdef readonly object example_weights, first_variable, first_pair, pairs, y_true
    cdef const double[::1] _example_weights
    cdef const Py_ssize_t[::1] _first_variable, _first_pair
    cdef const int32_t[:, ::1] _pairs
    cdef const int32_t[::1] _y_true
    cdef const double[::1] _cost

    cdef int find_label(
        self, Py_ssize_t v, double part, Py_ssize_t n, const int32_t* labels,
        double floor, int32_t* label, double* value) except -1 nogil
    cdef int label_scores(self, Py_ssize_t v, Py_ssize_t n, const int32_t* labels,
                          double* out) except -1 nogil
    cdef int add_labels(self, Py_ssize_t v, Py_ssize_t n, const int32_t* labels,
                        const double* changes) except -1 nogil
    cdef double label_norm(self, Py_ssize_t v) noexcept nogil
    cdef int find_pair(
        self, Py_ssize_t f, bint linear, Py_ssize_t n, const int32_t* left,
        const double* left_messages, Py_ssize_t m, const int32_t* right,
        const double* right_messages, double floor, int32_t* a, int32_t* b,
        double* value) except -1 nogil
    cdef Py_ssize_t entry(self, Py_ssize_t f, Py_ssize_t a,
                          Py_ssize_t b) except -1 nogil
    cdef int pair_scores(self, Py_ssize_t n, const int32_t* entries, double* out,
                         double* norms) except -1 nogil
    cdef int add_pairs(self, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil


cdef class BinaryFactorModel:
    # Labels that are on or off, and pairs of them, bound to training data.
    cdef readonly Py_ssize_t n_examples, n_labels, n_pairs
    cdef readonly double scaling
    cdef public int64_t visited
    cdef readonly object example_weights, pairs
    cdef const double[::1] _example_weights
    cdef const unsigned char[:, ::1] _y_true
    cdef const int32_t[:, ::1] _pairs
    # neighbours of label j in pairs: near_first[j] <= a < near_first[j + 1]
    cdef const Py_ssize_t[::1] _near_first
    cdef const int32_t[::1] _near, _near_pair
    cdef double[::1] _pair_weights

    cdef int scores(self, Py_ssize_t i, Py_ssize_t low, Py_ssize_t high,
                    double* out) except -1 nogil
    cdef double score(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil
    cdef int add(self, Py_ssize_t i, Py_ssize_t j, double change) except -1 nogil
    cdef double norm(self, Py_ssize_t i) noexcept nogil
