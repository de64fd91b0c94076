"""Sets of labels with scores of pairs: features times labels, and one row of pairs.

Score of labels y in {0, 1}^L for features x:

    sum_j y_j (<W[:, j], x> + bias[j])  +  scaling sum_(j, k) V[j, k] y_j y_k

with Hamming's loss, the number of labels that are wrong: without pairs training is one
binary support vector machine for each label. The maximum over the labelings is relaxed
to the local polytope, whose vertices are half-integral, or found by enumeration.

Labelings are in halves: states 0, 1, 2 of the labels, and after them, 32 to a word, one
bit for each pair, which tells whether two halves are on together: for all other states
the pair follows from its labels. Enumeration finds no halves, and needs no bits. The
features are halved too, so that a key, listed once or twice, stands for half a label or
half a pair.

Below, j numbers the labels. The table has one row of L labels and a padding, and then,
where there are pairs, one of the pairs.
"""

cimport cython

import numpy as np
from scipy import sparse

from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memset

from sksstruct.inference.cuts._reduced_roof cimport LabelPairs, ReducedRoofDual
from sksstruct.models.protocols._bound_model cimport Workspace, in_range
from sksstruct.models.tables._table cimport BoundTable, TableScratch, TableWorkspace


# A word of a labeling holds so many bits of pairs.
cdef enum:
    WORD = 32


def count_words(n_pairs, exact):
    """Return the number of words that a labeling needs for its pairs."""
    return 0 if exact else (n_pairs + WORD - 1) // WORD


cdef class MultilabelWorkspace(TableWorkspace):
    """Scratch of one thread, for tables and for the oracle."""

    # for enumeration, or with scores of the last example for the one that relaxes
    cdef LabelPairs pairs
    cdef ReducedRoofDual relaxed
    # scores of labels and then of pairs, and what enumeration keeps up to date
    cdef double[::1] scores, fields

    def __init__(self, BoundMultilabel model, training=True):
        self.pairs = LabelPairs(model.pairs, model.n_labels)
        if not model.exact:
            self.relaxed = ReducedRoofDual(self.pairs)
        # one more than needed: the pairs, if there are none, begin at some address too
        self.scores = np.empty(model.n_labels + model.n_pairs + 1)
        self.fields = np.empty(model.n_labels)


# final: nobody derives from it, and every pair of a labeling is a call
@cython.final
cdef class BoundMultilabel(BoundTable):
    """Label sets bound to data; see `bind`."""

    # n_words: words of a labeling that hold bits of pairs
    cdef readonly Py_ssize_t n_labels, n_pairs, n_words
    cdef readonly object pairs
    cdef readonly double scaling
    cdef readonly bint exact
    cdef const int32_t[:, ::1] _pairs
    # the key of the first pair
    cdef Py_ssize_t _pair_start

    def __cinit__(self, blocks, sizes, y_true, example_weights, max_keys, *, pairs,
                  exact):
        self.pairs = np.ascontiguousarray(pairs, dtype=np.int32).reshape(-1, 2)
        self._pairs = self.pairs
        self.n_labels, self.n_pairs = blocks[0][2], len(self.pairs)
        self.exact = exact
        self.n_words = count_words(self.n_pairs, exact)
        self._pair_start = self._blocks[0].ld
        # the same bits stand for other pairs elsewhere
        self._structure += [self.pairs, exact]

    oracles = ("max", "factors", "label_sets")
    # pairs of labels have no place of their own without the data
    views_need_data = True

    @property
    def preferred_solver(self):
        return None if self.exact else "bca"

    @classmethod
    def bind(cls, X, n_labels, pairs, Y, example_weights, *, scaling, exact,
             fit_intercept):
        """Bind label sets to data.

        Parameters
        ----------
        X : ndarray or CSR of shape (n_examples, n_features), float64
            Features.
        n_labels : int
            Number of labels L.
        pairs : ndarray of shape (n_pairs, 2)
            Pairs of labels.
        Y : ndarray of shape (n_examples, n_labels) or None
            Observed labels, 0 or 1.
        example_weights : ndarray of shape (n_examples,) or None
            The p_i.
        scaling : float
            Factor of the pairs' feature.
        exact : bool
            Whether to try all labelings; otherwise the relaxation is solved.
        fit_intercept : bool
            Whether labels have a bias.
        """
        n_examples = X.shape[0]
        if fit_intercept:
            ones = np.ones((n_examples, 1))
            X = sparse.hstack([X, ones]) if sparse.issparse(X) else np.hstack([X, ones])
        # a key is half a label: halves of features are exact
        X = sparse.csr_array(X) * 0.5 if sparse.issparse(X) else X * 0.5
        # one row for each example, of labels and of pairs
        each = np.arange(n_examples + 1)
        blocks = [(X, each, n_labels, False)]
        if len(pairs):
            # a row of one column is not padded: two at least
            blocks.append((np.full((n_examples, 1), 0.5 * scaling), each,
                           max(len(pairs), 2), False))
        size = n_labels + count_words(len(pairs), exact)
        y_true = None
        if Y is not None:
            # observed labels are whole, so that no bit is set
            y_true = np.zeros((n_examples, size), dtype=np.int32)
            y_true[:, :n_labels] = 2 * np.asarray(Y)
            y_true = y_true.ravel()
        cdef BoundMultilabel model = cls(
            blocks, np.full(n_examples, size), y_true, example_weights,
            2 * (n_labels + len(pairs)), pairs=pairs, exact=exact)
        model.scaling = scaling
        return model

    def _workspace(self, training):
        return MultilabelWorkspace(self, training)

    def views(self, w):
        coef = self.block(w, 0)[0].T
        pairs = self.block(w, 1)[0][0, :self.n_pairs] if self.n_pairs else np.empty(0)
        return {"coef": coef, "pair_coef": pairs}

    # ---- the loss ----

    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t j, first = self._starts[i]
        for j in range(self.n_labels):
            # each of two halves costs a half, or saves it where the label was observed
            if self._y_true[first + j]:
                ws.theta[j] -= 0.5 * scale
                ws.constant += scale
            else:
                ws.theta[j] += 0.5 * scale
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef Py_ssize_t j, first = self._starts[i]
        # in halves, as integers: losses are exact
        cdef int32_t wrong = 0
        for j in range(self.n_labels):
            wrong += 2 - y[j] if self._y_true[first + j] else y[j]
        value[0] = 0.5 * wrong
        return 0

    # ---- labelings ----

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        self._find(<MultilabelWorkspace> workspace, y)
        # not the oracle's value, which is rounded in another way than those of others
        return self.evaluate(workspace, i, y, value)

    cdef int _find(self, MultilabelWorkspace workspace, int32_t* y) except -1 nogil:
        """Write the best labeling at the loaded potentials."""
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t j, pair
        cdef double* label_scores = &workspace.scores[0]
        cdef double* pair_scores = label_scores + self.n_labels
        # the table has what a half scores, the oracles want the whole
        for j in range(self.n_labels):
            label_scores[j] = 2.0 * ws.theta[j]
        for pair in range(self.n_pairs):
            pair_scores[pair] = 2.0 * ws.theta[self._pair_start + pair]
        if self.exact:
            workspace.pairs.enumerate(
                label_scores, pair_scores, &workspace.fields[0], y)
        else:
            workspace.pairs.load(pair_scores)
            for j in range(self.n_labels):
                y[j] = 2 if label_scores[j] > 0.0 else 0
            workspace.relaxed.relax(label_scores, y)
            self._set_bits(pair_scores, y)
        return 0

    cdef void _set_bits(self, const double* pair_scores, int32_t* y) noexcept nogil:
        """Put two halves on together where that scores more than apart."""
        cdef Py_ssize_t pair
        cdef int32_t* bits = y + self.n_labels
        memset(bits, 0, self.n_words * sizeof(int32_t))
        for pair in range(self.n_pairs):
            if (pair_scores[pair] > 0.0 and y[self._pairs[pair, 0]] == 1
                    and y[self._pairs[pair, 1]] == 1):
                # unsigned: the last bit of a word is the sign
                bits[pair // WORD] |= <int32_t> (<uint32_t> 1 << (pair % WORD))

    cdef inline int32_t _halves(self, const int32_t* y, Py_ssize_t pair) noexcept nogil:
        """Return how many halves of a pair are on: 0, 1 or 2."""
        cdef int32_t first = y[self._pairs[pair, 0]], second = y[self._pairs[pair, 1]]
        if not first or not second:
            return 0
        # the labels decide unless both are halves
        if first + second > 2 or not self.n_words:
            return first + second - 2
        return (y[self.n_labels + pair // WORD] >> (pair % WORD)) & 1

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        cdef Py_ssize_t j
        # bits of pairs may be any
        if not in_range(self.n_labels, y, 0, 3):
            return 0
        if self.exact:
            for j in range(self.n_labels):
                if y[j] == 1:
                    return 0
        return 1

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t j, pair, n_keys = 0
        # a key for each half
        for j in range(self.n_labels):
            for _half in range(y[j]):
                keys[n_keys] = <int32_t> j
                n_keys += 1
        for pair in range(self.n_pairs):
            for _half in range(self._halves(y, pair)):
                keys[n_keys] = <int32_t> (self._pair_start + pair)
                n_keys += 1
        return n_keys
