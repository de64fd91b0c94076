"""Gram matrices of the features of sequences, K_i = F_i F_i^T, made when asked for.

With them the norm of A_i^T d and the inner products of labelings take no look at the
features: a visit may make many steps before it touches the weights. A matrix is kept as
long as it is no larger than four times the features of its sequence.
"""

from libc.stdlib cimport calloc, free

from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.utils._arena cimport Arena
from sksstruct.utils._simd cimport sks_prefetch


cdef class GramMatrices:
    """The matrices of all sequences.

    Parameters
    ----------
    rows : FeatureRows
        Features of all positions.
    starts : ndarray of shape (n_sequences + 1,), intp
        Where the positions of each sequence begin.
    """

    def __cinit__(self, FeatureRows rows, starts):
        self._rows, self._starts = rows, starts
        self._n_sequences = len(starts) - 1
        self._arena = Arena()
        self._matrices = <double**> calloc(self._n_sequences, sizeof(double*))
        if self._matrices == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self._matrices)

    def all_fit(self):
        """Whether every sequence is short enough for a matrix."""
        cdef Py_ssize_t i
        for i in range(self._n_sequences):
            if not self.fits(i):
                return False
        return True

    cdef bint fits(self, Py_ssize_t i) noexcept nogil:
        """Whether the matrix of a sequence is kept; the same at every call."""
        cdef Py_ssize_t first = self._starts[i], last = self._starts[i + 1]
        cdef Py_ssize_t size = last - first
        cdef Py_ssize_t width = (4 if self._rows.single else 8) + 4 * self._rows.sparse
        return 8 * size * size <= 4 * width * self._rows.count(first, last) + 4096

    cdef int find(self, Py_ssize_t i, double* spread,
                  const double** matrix) except -1 nogil:
        """Look up the matrix of a sequence, (size, size); NULL where it is not kept.

        spread (n_features + 1) must be zero, and is again afterwards. Returns whether
        there is a matrix.
        """
        cdef Py_ssize_t first = self._starts[i], size = self._starts[i + 1] - first
        cdef Py_ssize_t row, column
        cdef double* gram
        if self._matrices[i] != NULL or not self.fits(i):
            matrix[0] = self._matrices[i]
            return matrix[0] != NULL
        gram = <double*> self._arena.take(size * size * sizeof(double))
        for row in range(size):
            # one row spread out over all features, met by the rows up to it: products
            # of sparse rows without a search
            self._rows.spread(first + row, spread)
            for column in range(row + 1):
                gram[row * size + column] = gram[column * size + row] = (
                    self._rows.spread_dot(first + column, spread))
            self._rows.unspread(first + row, spread)
        # last, so that an error leaves no half-filled matrix behind
        self._matrices[i] = gram
        matrix[0] = gram
        return 1

    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil:
        """Ask for the memory of a matrix, or for the pointer to it."""
        cdef Py_ssize_t size
        if not soon:
            sks_prefetch(&self._matrices[i], 8)
        elif self._matrices[i] != NULL:
            size = self._starts[i + 1] - self._starts[i]
            sks_prefetch(self._matrices[i], 8 * size * size)
