"""What dual decomposition knows of a model: factors, their oracles and their features.

Every variable of an example has a factor of its own (unigram) with the features of the
variable, and some pairs of variables have one (bigram) whose score is an entry of a
table that all pairs share. In the notation of Yen et al. (2016), with example weights
p_i and q_f a distribution over the outcomes of factor f,

    w_F = sum_i p_i / alpha  sum_(f in F(x_i)) Phi_f^T (e_truth - q_f)

A solver asks for the outcome of a factor that scores best under messages (`find_label`,
`find_pair`: the factorwise maximisation oracles), for the scores of known outcomes, and
tells how much weight outcomes gain. The loss is Hamming's: missing the label of
variable v costs so much, which unigram oracles add.
"""

import numpy as np

from libc.stdint cimport int32_t


cdef class FactorModel:
    def set_factors(self, first_variable, first_pair, pairs, y_true, costs,
                    example_weights, Py_ssize_t n_labels):
        """Fix variables, pairs of them, observed labels and their costs."""
        self.first_variable = np.ascontiguousarray(first_variable, dtype=np.intp)
        self.first_pair = np.ascontiguousarray(first_pair, dtype=np.intp)
        self.pairs = np.ascontiguousarray(pairs, dtype=np.int32).reshape(-1, 2)
        self.y_true = np.ascontiguousarray(y_true, dtype=np.int32)
        self.example_weights = np.ascontiguousarray(example_weights, dtype=np.float64)
        self._first_variable, self._first_pair = self.first_variable, self.first_pair
        self._pairs, self._y_true = self.pairs, self.y_true
        self._example_weights = self.example_weights
        self._cost = np.ascontiguousarray(costs, dtype=np.float64)
        self.n_examples = len(self.example_weights)
        self.n_variables, self.n_pairs = len(self.y_true), len(self.pairs)
        self.n_labels = n_labels
        self.pair_norm = 1.0

    def start(self):
        """Zero the weights."""
        raise NotImplementedError

    def weights(self):
        """The weights, flat; those of later calls may be longer."""
        raise NotImplementedError

    def loss_at_zero(self):
        """The objective at w = 0: the largest loss, averaged over the examples."""
        firsts = self.first_variable[:self.n_examples]
        costs = np.add.reduceat(np.asarray(self._cost), firsts)
        return float(self.example_weights @ costs)

    def set_partition(self, n_parts):
        """Divide the labels into about n_parts parts for `find_label`; their number."""
        return 1

    def square_with(self, pairs, left, right, amounts):
        """|w|^2 after changes of the scores of pairs of labels."""
        raise NotImplementedError

    def work_of_maxima(self):
        """About how many scores `maxima` looks at."""
        return self.n_variables * self.n_labels

    def maxima(self, weights, n_jobs=None):
        """Mean over the examples of max_y L_i(y) + <w, phi(y) - phi(y_i)>."""
        raise NotImplementedError

    # The best label of a variable, the loss included, above floor, among the part of
    # the labels that a number in [0, 1) stands for, all labels where it is negative,
    # and apart from the n given ones; 0 where there is none.
    cdef int find_label(
        self, Py_ssize_t v, double part, Py_ssize_t n, const int32_t* labels,
        double floor, int32_t* label, double* value
    ) except -1 nogil:
        raise NotImplementedError

    # Scores of labels without the loss.
    cdef int label_scores(self, Py_ssize_t v, Py_ssize_t n, const int32_t* labels,
                          double* out) except -1 nogil:
        raise NotImplementedError

    # w += sum_k changes_k phi_v(labels_k)
    cdef int add_labels(self, Py_ssize_t v, Py_ssize_t n, const int32_t* labels,
                        const double* changes) except -1 nogil:
        raise NotImplementedError

    # |phi_v|^2
    cdef double label_norm(self, Py_ssize_t v) noexcept nogil:
        raise NotImplementedError

    # The best pair of labels of factor f under messages, above floor; 0 where there is
    # none.
    cdef int find_pair(
        self, Py_ssize_t f, bint linear, Py_ssize_t n, const int32_t* left,
        const double* left_messages, Py_ssize_t m, const int32_t* right,
        const double* right_messages, double floor, int32_t* a, int32_t* b,
        double* value
    ) except -1 nogil:
        raise NotImplementedError

    # Number by which a pair of labels of factor f is known below.
    cdef Py_ssize_t entry(self, Py_ssize_t f, Py_ssize_t a,
                          Py_ssize_t b) except -1 nogil:
        raise NotImplementedError

    # Scores, and squared norms of the features, of pairs of labels.
    cdef int pair_scores(self, Py_ssize_t n, const int32_t* entries, double* out,
                         double* norms) except -1 nogil:
        raise NotImplementedError

    cdef int add_pairs(self, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil:
        raise NotImplementedError


cdef class BinaryFactorModel:
    """Labels that are on or off, and what pairs of them score if both are on.

    The factor of a pair has one weight, times `scaling`; its other outcomes score zero.
    """

    def set_factors(self, pairs, y_true, example_weights, double scaling):
        """Fix pairs, observed labels (n_examples, n_labels), and their weights."""
        self.example_weights = np.ascontiguousarray(example_weights, dtype=np.float64)
        self._example_weights = self.example_weights
        self._y_true = np.ascontiguousarray(y_true, dtype=np.uint8)
        self.n_examples, self.n_labels = y_true.shape
        self.pairs = np.ascontiguousarray(pairs, dtype=np.int32).reshape(-1, 2)
        self._pairs = self.pairs
        self.n_pairs, self.scaling = len(self.pairs), scaling
        ends = self.pairs.T.ravel()
        order = np.argsort(ends, kind="stable")
        self._near_first = np.searchsorted(
            ends[order], np.arange(self.n_labels + 1)).astype(np.intp)
        others = self.pairs[:, ::-1].T.ravel()[order]
        self._near = np.append(others, 0).astype(np.int32)
        self._near_pair = np.append(order % max(self.n_pairs, 1), 0).astype(np.int32)

    def start(self):
        """Zero the weights."""
        raise NotImplementedError

    def loss_at_zero(self):
        """The objective at w = 0: all labels may be wrong."""
        return float(self.example_weights.sum() * self.n_labels)

    def work_of_maxima(self):
        """About how many scores the objective takes, four for each pair."""
        return 4 * self.n_examples * (self.n_labels + self.n_pairs)

    def pair_weights(self):
        """Weights of the pairs, a view."""
        return np.asarray(self._pair_weights)[:self.n_pairs]

    # Scores <w_j, x_i> of the labels low <= j < high.
    cdef int scores(self, Py_ssize_t i, Py_ssize_t low, Py_ssize_t high,
                    double* out) except -1 nogil:
        raise NotImplementedError

    cdef double score(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
        return 0.0

    # w_j += change x_i
    cdef int add(self, Py_ssize_t i, Py_ssize_t j, double change) except -1 nogil:
        raise NotImplementedError

    # |x_i|^2
    cdef double norm(self, Py_ssize_t i) noexcept nogil:
        return 0.0
