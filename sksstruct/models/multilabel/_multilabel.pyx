"""Sets of labels with scores of pairs: features times labels, and one row of pairs.

Score of labels y in {0, 1}^L for features x:

    sum_j y_j (<W[:, j], x> + bias[j])  +  scaling sum_(j, k) V[j, k] y_j y_k

with Hamming's loss, the number of labels that are wrong: without pairs training is one
binary support vector machine for each label. The maximum over the labelings is relaxed
to the local polytope, whose vertices are half-integral, or found by enumeration.

A labeling counts halves: each label has 0, 1 or 2 halves. After these numbers, each
pair has a bit, in words of 32 bits: if both labels are half on, the bit says whether
these halves are on together; otherwise the labels determine the pair. Enumeration finds
no single halves, and needs no bits. The features are halved too, so that a key, listed
once or twice, stands for half a label or half a pair.

Below, j numbers the labels. The table has one row of L labels and padding and, if there
are pairs, one row of the pairs.
"""

cimport cython
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memset

from sksstruct.inference.cuts._reduced_roof cimport LabelPairs, ReducedRoofDual
from sksstruct.models.protocols._bound_model cimport in_range
from sksstruct.models.tables._structure cimport OracleMemory, Potentials, Structure
from sksstruct.utils._pointers cimport const_int32s

# Number of bits of pairs in a word of a labeling.
cdef enum:
    WORD = 32


def count_words(n_pairs, exact):
    """Return the number of words that a labeling needs for its pairs."""
    return 0 if exact else (n_pairs + WORD - 1) // WORD


cdef class SearchMemory(OracleMemory):
    """Workspace of the oracle, one for each thread."""

    # the pairs of labels, which enumeration reads; for the roof dual, they also have
    # the scores of the last example
    cdef LabelPairs pairs
    cdef ReducedRoofDual relaxed
    # scores of the labels and then of the pairs; scratch for enumeration
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


# a final class has no virtual calls of `_halves`, which runs for every pair
@cython.final
cdef class LabelSets(Structure):
    """Sets of labels, and pairs of labels that are both on.

    Parameters
    ----------
    sizes, y_true, max_keys : objects
        As in `Structure`; see `count_words` for the lengths.
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
        Number of words of a labeling that contain bits of pairs.
    """

    oracles = ("max", "factors", "label_sets")
    # the layout of the weights of pairs is known only with the data
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
        # bits of a labeling refer to this list of pairs
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
            # half a label costs 1/2 if it was observed as off, else it saves 1/2
            if self._y_true[first + j]:
                at.theta[j] -= 0.5 * scale
                at.constant += scale
            else:
                at.theta[j] += 0.5 * scale
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef Py_ssize_t j, first = self._starts[i]
        # the number of wrong halves is an integer, so that the loss is exact
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
        """Write the labeling with the highest score."""
        cdef Py_ssize_t j, pair
        cdef double* label_scores = memory.scores
        cdef double* pair_scores = label_scores + self.n_labels
        # the table has scores of halves, the oracles expect scores of whole labels
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
        """Set the bits of the pairs of half labels whose halves are on together."""
        cdef Py_ssize_t pair
        cdef int32_t* bits = y + self.n_labels
        memset(bits, 0, self.n_words * sizeof(int32_t))
        for pair in range(self.n_pairs):
            if (pair_scores[pair] > 0.0 and y[self._pairs[2 * pair]] == 1
                    and y[self._pairs[2 * pair + 1]] == 1):
                # unsigned, because bit 31 of a signed word is the sign
                bits[pair // WORD] |= <int32_t> (<uint32_t> 1 << (pair % WORD))

    cdef inline int32_t _halves(self, const int32_t* y, Py_ssize_t pair) noexcept nogil:
        """Return how many halves of a pair are on: 0, 1 or 2."""
        cdef int32_t first = y[self._pairs[2 * pair]]
        cdef int32_t second = y[self._pairs[2 * pair + 1]]
        if not first or not second:
            return 0
        # the labels determine the pair, unless both are half on
        if first + second > 2 or not self.n_words:
            return first + second - 2
        return (y[self.n_labels + pair // WORD] >> (pair % WORD)) & 1

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        cdef Py_ssize_t j
        # all values of the bits of pairs are valid
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
        # a key is listed once for each half that is on
        for j in range(self.n_labels):
            for _half in range(y[j]):
                keys[n_keys] = <int32_t> j
                n_keys += 1
        for pair in range(self.n_pairs):
            for _half in range(self._halves(y, pair)):
                keys[n_keys] = <int32_t> (self._pair_start + pair)
                n_keys += 1
        return n_keys
