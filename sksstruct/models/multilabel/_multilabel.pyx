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
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memset

from sksstruct.inference.cuts._reduced_roof cimport LabelPairs, ReducedRoofDual
from sksstruct.models.protocols._bound_model cimport in_range
from sksstruct.models.tables._structure cimport OracleMemory, Potentials, Structure
from sksstruct.utils._pointers cimport const_int32s

# A word of a labeling holds so many bits of pairs.
cdef enum:
    WORD = 32


def count_words(n_pairs, exact):
    """Return the number of words that a labeling needs for its pairs."""
    return 0 if exact else (n_pairs + WORD - 1) // WORD


cdef class SearchMemory(OracleMemory):
    """What the oracle of one thread keeps."""

    # for enumeration, or with scores of the last example for the one that relaxes
    cdef LabelPairs pairs
    cdef ReducedRoofDual relaxed
    # scores of labels and then of pairs, and what enumeration keeps up to date
    cdef double* scores
    cdef double* fields
    cdef bytearray _room

    def __init__(self, LabelSets sets):
        self.pairs = LabelPairs(sets.pairs, sets.n_labels)
        if not sets.exact:
            self.relaxed = ReducedRoofDual(self.pairs)
        self._room = bytearray((2 * sets.n_labels + sets.n_pairs) * sizeof(double))
        self.scores = <double*> <char*> self._room
        self.fields = self.scores + sets.n_labels + sets.n_pairs


# final: nobody derives from it, and every pair of a labeling is a call
@cython.final
cdef class LabelSets(Structure):
    """Sets of labels, and pairs of labels that are both on.

    Parameters
    ----------
    sizes, y_true, max_keys : objects
        As of `Structure`; see `count_words` for the lengths.
    n_labels : int
        Number of labels L.
    pairs : ndarray of shape (n_pairs, 2), int32
        Pairs of labels.
    pair_start : int
        The key of the first pair.
    exact : bool
        Whether to try all labelings; otherwise the relaxation is solved.

    Attributes
    ----------
    n_words : int
        Words of a labeling that hold bits of pairs.
    """

    oracles = ("max", "factors", "label_sets")
    # pairs of labels have no place of their own without the data
    views_need_data = True
    cdef readonly Py_ssize_t n_labels, n_pairs, n_words
    cdef readonly object pairs
    cdef readonly bint exact
    cdef const int32_t* _pairs
    cdef Py_ssize_t _pair_start

    def __init__(self, sizes, y_true, max_keys, n_labels, pairs, pair_start, exact):
        self.pairs, self._pairs = pairs, const_int32s(pairs)
        self.n_labels, self.n_pairs, self.exact = n_labels, len(self.pairs), exact
        self.n_words = count_words(self.n_pairs, exact)
        self._pair_start = pair_start
        # the same bits stand for other pairs elsewhere
        self.meaning += [self.pairs, exact]

    @property
    def preferred_solver(self):
        return None if self.exact else "bca"

    def own_memory(self):
        return SearchMemory(self)

    # ---- the loss ----

    cdef int add_loss(self, Potentials* at, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t j, first = self._starts[i]
        for j in range(self.n_labels):
            # each of two halves costs a half, or saves it where the label was observed
            if self._y_true[first + j]:
                at.theta[j] -= 0.5 * scale
                at.constant += scale
            else:
                at.theta[j] += 0.5 * scale
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

    cdef int decode(self, Potentials* at, OracleMemory own, Py_ssize_t i,
                    int32_t* y) except -1 nogil:
        return self._find(at, <SearchMemory> own, y)

    cdef int _find(self, Potentials* at, SearchMemory memory,
                   int32_t* y) except -1 nogil:
        """Write the best labeling."""
        cdef Py_ssize_t j, pair
        cdef double* label_scores = memory.scores
        cdef double* pair_scores = label_scores + self.n_labels
        # the table has what a half scores, the oracles want the whole
        for j in range(self.n_labels):
            label_scores[j] = 2.0 * at.theta[j]
        for pair in range(self.n_pairs):
            pair_scores[pair] = 2.0 * at.theta[self._pair_start + pair]
        if self.exact:
            memory.pairs.enumerate(label_scores, pair_scores, memory.fields, y)
        else:
            memory.pairs.load(pair_scores)
            for j in range(self.n_labels):
                y[j] = 2 if label_scores[j] > 0.0 else 0
            memory.relaxed.relax(label_scores, y)
            self._set_bits(pair_scores, y)
        return 0

    cdef void _set_bits(self, const double* pair_scores, int32_t* y) noexcept nogil:
        """Put two halves on together where that scores more than apart."""
        cdef Py_ssize_t pair
        cdef int32_t* bits = y + self.n_labels
        memset(bits, 0, self.n_words * sizeof(int32_t))
        for pair in range(self.n_pairs):
            if (pair_scores[pair] > 0.0 and y[self._pairs[2 * pair]] == 1
                    and y[self._pairs[2 * pair + 1]] == 1):
                # unsigned: the last bit of a word is the sign
                bits[pair // WORD] |= <int32_t> (<uint32_t> 1 << (pair % WORD))

    cdef inline int32_t _halves(self, const int32_t* y, Py_ssize_t pair) noexcept nogil:
        """Return how many halves of a pair are on: 0, 1 or 2."""
        cdef int32_t first = y[self._pairs[2 * pair]]
        cdef int32_t second = y[self._pairs[2 * pair + 1]]
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
