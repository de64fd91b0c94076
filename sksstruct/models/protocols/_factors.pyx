"""The protocol of dual decomposition: factors, their oracles and their features.

Every variable of an example has a unigram factor with the features of the variable, and
some pairs of variables have a bigram factor whose score is an entry of a table that all
pairs share. In the notation of Yen et al. (2016), with example weights p_i,
C_i = p_i / alpha, and q_f a distribution over the outcomes of factor f, (10) is

    w_F = sum_i C_i sum_(f in F(x_i)) Phi_f^T (e_truth - q_f)

A solver calls the factorwise maximization oracles (FMOs, Section 3.2) `find_label` and
`find_pair` for the best outcome of a factor under messages, reads scores of known
outcomes, and adds weight to outcomes. The loss is Hamming's: a wrong label costs
`_cost` of its variable, which `find_label` includes and scores do not.

Outcomes of pairs, and labels of variables, may be forbidden. In a model with forbidden
outcomes, the pairs form trees: each pair has a variable that no earlier pair has, and
its other variable is of an earlier pair or new, too (`_feasible_joint.pyx`).

A model for `GDMM` is a subclass of `FactorModel`, or of `BinaryFactorModel` if every
label is on or off and Algorithm 3 searches among many pairs.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.utils._layout import aligned_zeros, padded_length


def feature_weights(n_features, n_labels, by_feature):
    """Allocate zero weights of inner-product factors, in the order of memory accesses.

    Parameters
    ----------
    n_features, n_labels : int
        Numbers of features and of labels.
    by_feature : bool
        Whether the weights of one feature are adjacent, which suits sparse features.
        Otherwise the weights of one label are, which suits dense features.

    Returns
    -------
    weights : ndarray of shape (n_features, padded_length(n_labels))
        The weights; they begin on a cache line.
    """
    # n_labels is rounded up to whole SIMD vectors, so that kernels need no loop over a
    # remainder
    ld = padded_length(n_labels)
    if by_feature:
        return aligned_zeros(n_features * ld).reshape(n_features, ld)
    # the features of each label are padded to whole SIMD vectors, too
    rows = aligned_zeros(ld * padded_length(n_features)).reshape(ld, -1)
    return rows[:, :n_features].T


cdef class FactorModel:
    """Factors of variables and of pairs of variables, bound to training data.

    Variables have any number of labels. Subclasses implement the oracles below.
    `visited` counts the scores that the oracles read: a measure of time that does not
    depend on the machine.
    """

    # Factors of three and more variables, a `Cliques`; None if there are none.
    cliques = None

    def set_factors(self, first_variable, first_pair, pairs, y_true, costs,
                    example_weights, Py_ssize_t n_labels):
        """Store variables, pairs of variables, observed labels and costs of errors."""
        # arrays for callers in Python; the memoryviews are for kernels
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
        # squared norm of indicator features of a pair; models with other features of
        # pairs set another value
        self.pair_norm = 1.0
        self.loopy = self.constrained = False

    def mean_cost(self):
        """Return the mean cost of a wrong label."""
        return float(np.mean(self._cost))

    def start(self):
        """Set the weights to zero."""
        raise NotImplementedError

    def weights(self):
        """Return the flat weights.

        Later calls return more weights if the model adds weights for pairs of labels
        during training.
        """
        raise NotImplementedError

    def loss_at_zero(self):
        """Return the objective at w = 0: the largest loss, averaged over examples."""
        # at w = 0 all labels score the same, so that loss-augmented decoding chooses a
        # wrong label for every variable
        firsts = self.first_variable[:self.n_examples]
        costs = np.add.reduceat(np.asarray(self._cost), firsts)
        return float(self.example_weights @ costs)

    def set_partition(self, n_parts):
        """Divide the labels into about n_parts parts, which `find_label` searches.

        This is equation (21) of Yen et al. (2016).

        Returns
        -------
        n_parts : int
            Actual number of parts; one if a model does not divide labels.
        """
        return 1

    def square_with(self, pairs, left, right, amounts):
        """Return the |w|^2 that given changes of bigram scores would lead to.

        The score of outcome (left[k], right[k]) of pair pairs[k] changes by amounts[k].
        """
        raise NotImplementedError

    def work_of_maxima(self):
        """Return the approximate number of scores that `maxima` reads."""
        return self.n_variables * self.n_labels

    def maxima(self, weights, n_jobs=None, multipliers=None):
        """Return the mean over examples of max_y L_i(y) + <w, phi(y) - phi(y_i)>.

        If the maximum needs a relaxation, the result may be an upper bound of the mean.

        Parameters
        ----------
        weights : ndarray
            Flat weights.
        n_jobs : int, default=None
            Number of threads.
        multipliers : callable, default=None
            Returns the multipliers of the constraints between pairs and variables,
            which make an upper bound tight; see the solver's `_multipliers.pyx`.
        """
        raise NotImplementedError

    # ---- unigram factors ----

    cdef int find_label(
        self, Py_ssize_t variable, double part, Py_ssize_t n, const int32_t* labels,
        double floor, int32_t* label, double* value
    ) except -1 nogil:
        """Find the label of a variable with the largest score plus loss above `floor`.

        The n given labels are excluded. With `part` in [0, 1), only one part of
        `set_partition` is searched; with a negative `part`, all labels are. Returns
        whether a label was found.
        """
        raise NotImplementedError

    cdef int label_scores(self, Py_ssize_t variable, Py_ssize_t n,
                          const int32_t* labels, double* scores) except -1 nogil:
        """Write the scores of n labels of a variable, without the loss."""
        raise NotImplementedError

    cdef int add_labels(self, Py_ssize_t variable, Py_ssize_t n,
                        const int32_t* labels, const double* changes) except -1 nogil:
        """w += sum_k changes_k phi_v(labels_k)"""
        raise NotImplementedError

    cdef double label_norm(self, Py_ssize_t variable) noexcept nogil:
        """Return |phi_v|^2, the squared norm of the features of a variable."""
        # subclasses override this method: a noexcept method cannot raise an error
        return 0.0

    # ---- bigram factors ----

    cdef int find_pair(self, Py_ssize_t pair, bint linear, const Messages* messages,
                       double floor, Outcome* outcome) except -1 nogil:
        """Find the best outcome of a pair under the messages to its two variables.

        Returns whether an outcome is above floor. `linear` asks for a search of all
        outcomes, the baseline for the sublinear oracle.
        """
        raise NotImplementedError

    cdef Py_ssize_t entry(self, Py_ssize_t pair, Py_ssize_t first_label,
                          Py_ssize_t second_label) except -1 nogil:
        """Return the number of an outcome of a pair, which `pair_scores` and
        `add_pairs` expect as its entry.
        """
        raise NotImplementedError

    cdef int pair_scores(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                         double* scores, double* norms) except -1 nogil:
        """Write the scores and the squared norms |phi_f|^2 of n outcomes of a pair."""
        raise NotImplementedError

    cdef int add_pairs(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil:
        """w += sum_k changes_k phi_f(entries_k)"""
        raise NotImplementedError

    cdef bint allows(self, Py_ssize_t pair, Py_ssize_t first_label,
                     Py_ssize_t second_label) noexcept nogil:
        """Return whether an outcome of a pair is allowed.

        All outcomes that `find_pair` returns are allowed.
        """
        # models that forbid some outcomes override this method
        return True


cdef class BinaryFactorModel:
    """Labels that are on or off, and scores of pairs of labels that are both on.

    The factor of a pair has one weight, times `scaling`, for both labels on. Its three
    other outcomes score zero.
    """

    # attributes of `FactorModel`, for indicator features and no factors beyond pairs
    cliques, pair_norm, loopy, constrained = None, 1.0, False, False

    def set_factors(self, pairs, y_true, example_weights, double scaling):
        """Set pairs, observed labels (n_examples, n_labels), and example weights."""
        self.example_weights = np.ascontiguousarray(example_weights, dtype=np.float64)
        self._example_weights = self.example_weights
        self._y_true = np.ascontiguousarray(y_true, dtype=np.uint8)
        self.n_examples, self.n_labels = y_true.shape
        self.pairs = np.ascontiguousarray(pairs, dtype=np.int32).reshape(-1, 2)
        self._pairs = self.pairs
        self.n_pairs, self.scaling = len(self.pairs), scaling
        # both ends of every pair, sorted by label, so that the pairs of a label are a
        # range; a stable sort keeps neighbors in the order of their pairs
        ends = self.pairs.T.ravel()
        order = np.argsort(ends, kind="stable")
        self._first_neighbor = np.searchsorted(
            ends[order], np.arange(self.n_labels + 1)).astype(np.intp)
        others = self.pairs[:, ::-1].T.ravel()[order]
        # a spare entry at the end, as buffers without pairs would be empty
        self._neighbors = np.append(others, 0).astype(np.int32)
        self._neighbor_pairs = np.append(
            order % max(self.n_pairs, 1), 0).astype(np.int32)

    def start(self):
        """Set the weights to zero."""
        raise NotImplementedError

    def loss_at_zero(self):
        """Return the objective at w = 0, where all labels may be wrong."""
        # both states of a label score zero, and the wrong state costs one
        return float(self.example_weights.sum() * self.n_labels)

    def work_of_maxima(self):
        """Return the number of scores that the objective reads: four per label and
        pair.
        """
        # the relaxed maximum is a minimum cut in a graph with two nodes per label and
        # two edges per pair; each edge has an arc in both directions
        return 4 * self.n_examples * (self.n_labels + self.n_pairs)

    def pair_weights(self):
        """Return the weights of the pairs, a view."""
        # the array has a spare entry, so that it is never empty
        return np.asarray(self._pair_weights)[:self.n_pairs]

    cdef int label_scores(self, Py_ssize_t i, Py_ssize_t low, Py_ssize_t high,
                          double* scores) except -1 nogil:
        """Write the scores <w_j, x_i> of the labels low <= j < high of example i.

        Writes whole SIMD vectors, that is, up to seven more scores.
        """
        raise NotImplementedError

    cdef double label_score(self, Py_ssize_t i, Py_ssize_t label) noexcept nogil:
        """Return the score <w_j, x_i> of label j of example i."""
        return 0.0

    cdef int add_label(self, Py_ssize_t i, Py_ssize_t label,
                       double change) except -1 nogil:
        """w_j += change x_i"""
        raise NotImplementedError

    cdef double label_norm(self, Py_ssize_t i) noexcept nogil:
        """Return |x_i|^2, which all labels share."""
        return 0.0
