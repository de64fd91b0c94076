"""Gram matrices of the features of sequences, K_i = F_i F_i^T, computed on demand.

With them, the norm of A_i^T d and the inner products of labelings do not read the
features: a visit can take many steps before it touches the weights. A matrix is stored
if it is no larger than four times the features of its sequence.

The notation is that of `_chain.pyx`: s and t are positions of sequence i, y and z its
labelings, y_i the observed one, e_a the indicator of label a. The bias is a feature
that is one everywhere, b = 1 if there is one and b = 0 if not. The inner product of
y and z, both relative to y_i, is

    sum_{t,s} (K_i[t,s] + b) <e_{y_t} - e_{y_i,t}, e_{z_s} - e_{y_i,s}>

and that of their edges, with those of first labels and last labels.
"""

from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from sksstruct.models.chain._workspace cimport ChainScratch, add_edge, clear_edges
from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.utils._arena cimport Arena
from sksstruct.utils._simd cimport sks_prefetch


cdef inline double end_product(int32_t y, int32_t other,
                               int32_t observed) noexcept nogil:
    """<e_y - e_observed, e_other - e_observed>, e_a being the indicator of label a."""
    return (y == other) - (y == observed) - (other == observed) + 1.0


cdef class GramMatrices:
    """The matrices of all sequences.

    Parameters
    ----------
    rows : FeatureRows
        Features of all positions.
    starts : ndarray of shape (n_sequences + 1,), intp
        Where the positions of each sequence begin.
    ld : int
        Length of the rows of mean parameters, which have an entry for each label.
    fit_intercept, boundary : bool
        Whether there is a bias, and whether there are start and end weights.
    on_disk : bool, default=False
        Whether to store the matrices in files.
    """

    def __cinit__(self, FeatureRows rows, starts, Py_ssize_t ld, bint fit_intercept,
                  bint boundary, bint on_disk=False):
        self._rows, self._starts = rows, starts
        self._ld, self._bias = ld, 1.0 if fit_intercept else 0.0
        self._boundary = boundary
        self._n_sequences = len(starts) - 1
        self._arena = Arena(on_disk)
        # not in the arena, which does not clear what it gives
        self._matrices = <double**> calloc(self._n_sequences, sizeof(double*))
        if self._matrices == NULL:
            raise MemoryError()

    def __dealloc__(self):
        # the matrices themselves go with the arena
        free(self._matrices)

    cdef Py_ssize_t _size(self, Py_ssize_t i) noexcept nogil:
        """Return the number of positions of a sequence."""
        return self._starts[i + 1] - self._starts[i]

    # ---- matrices ----

    def all_fit(self):
        """Return whether every sequence is short enough for a matrix."""
        cdef Py_ssize_t i
        for i in range(self._n_sequences):
            if not self.fits(i):
                return False
        return True

    cdef bint fits(self, Py_ssize_t i) noexcept nogil:
        """Return whether the matrix of a sequence is kept; the same at every call."""
        cdef Py_ssize_t first = self._starts[i], size = self._size(i)
        # a page is allowed to all: short sequences may have few features
        return 8 * size * size <= 4 * self._rows.n_bytes(first, first + size) + 4096

    cdef int find(self, Py_ssize_t i, double* spread,
                  const double** matrix) except -1 nogil:
        """Look up the matrix of a sequence, (size, size); NULL where it is not kept.

        spread (n_features + 1) must be zero, and is again afterwards. Returns whether
        there is a matrix.
        """
        # last, so that an error leaves no half-filled matrix behind
        if self._matrices[i] == NULL and self.fits(i):
            self._matrices[i] = self._make(i, spread)
        matrix[0] = self._matrices[i]
        return matrix[0] != NULL

    cdef double* _make(self, Py_ssize_t i, double* spread) except NULL nogil:
        """Return the matrix of a sequence."""
        cdef Py_ssize_t first = self._starts[i], size = self._size(i), row, column
        cdef double* gram = <double*> self._arena.take(size * size * sizeof(double))
        for row in range(size):
            # one row spread out over all features, met by the rows up to it: products
            # of sparse rows without a search
            self._rows.spread(first + row, spread)
            for column in range(row + 1):
                gram[row * size + column] = gram[column * size + row] = (
                    self._rows.spread_dot(first + column, spread))
            self._rows.unspread(first + row, spread)
        return gram

    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil:
        """Ask for the memory of a matrix, or for the pointer to it."""
        cdef Py_ssize_t size
        if not soon:
            sks_prefetch(&self._matrices[i], 8)
        elif self._matrices[i] != NULL:
            size = self._size(i)
            sks_prefetch(self._matrices[i], 8 * size * size)

    # ---- inner products of labelings ----

    cdef int products(
        self, ChainScratch* ws, Py_ssize_t i, const int32_t* y, const int32_t* y_true,
        Py_ssize_t n_labelings, const int32_t* labelings, double* out
    ) except -1 nogil:
        """Write the inner products of y with labelings z, both relative to y_i.

        There must be a matrix, and no change in preparation.
        """
        cdef Py_ssize_t size = self._size(i), last = size - 1, k
        cdef const int32_t* other = labelings
        cdef const double* gram
        self.find(i, ws.spread, &gram)
        # what all the products share is done once, for y
        self._weigh(ws, size, gram, y, y_true)
        for k in range(n_labelings):
            out[k] = self._product(ws, size, other, y_true)
            # start and end are features of two positions, and not of the matrix
            if self._boundary:
                out[k] += end_product(y[0], other[0], y_true[0])
                out[k] += end_product(y[last], other[last], y_true[last])
            other += size
        clear_edges(ws)
        return 0

    cdef void _weigh(
        self, ChainScratch* ws, Py_ssize_t size, const double* gram, const int32_t* y,
        const int32_t* y_true
    ) noexcept nogil:
        """delta[s] = sum_t (K_i[t,s] + b) (e_{y_t} - e_{y_i,t}), d_e = the edges of y
        minus those of y_i: an inner product is a few look-ups then."""
        cdef Py_ssize_t ld = self._ld, s, t
        cdef int32_t label, observed
        cdef double weight
        cdef double* row
        # delta is free: what an oracle leaves there is not read again
        memset(ws.delta, 0, size * ld * sizeof(double))
        for t in range(size):
            label, observed, row = y[t], y_true[t], ws.delta
            # of a labeling that is nearly right, most rows of K_i are skipped
            if label == observed:
                continue
            for s in range(size):
                weight = gram[t * size + s] + self._bias
                row[label] += weight
                row[observed] -= weight
                row += ld
        # edges that both have would cancel
        for t in range(size - 1):
            if y[t] != y_true[t] or y[t + 1] != y_true[t + 1]:
                add_edge(ws, y[t] * ld + y[t + 1], 1.0)
                add_edge(ws, y_true[t] * ld + y_true[t + 1], -1.0)

    cdef double _product(
        self, const ChainScratch* ws, Py_ssize_t size, const int32_t* other,
        const int32_t* y_true
    ) noexcept nogil:
        """Return the inner product of what `_weigh` holds with another labeling."""
        cdef Py_ssize_t ld = self._ld, s
        cdef const double* row = ws.delta
        cdef int32_t label, observed, previous = 0, observed_previous = 0
        cdef double value = 0.0
        for s in range(size):
            label, observed = other[s], y_true[s]
            if label != observed:
                value += row[label] - row[observed]
            # an edge differs where one of its ends does
            if s and (label != observed or previous != observed_previous):
                value += ws.edge_change[previous * ld + label]
                value -= ws.edge_change[observed_previous * ld + observed]
            previous, observed_previous = label, observed
            row += ld
        return value
