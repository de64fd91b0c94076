"""Gram matrices of the rows of features of examples, K_i = F_i F_i^T, made on demand.

With them, the norm of F_i^T d and the inner products of labelings do not read the
features: a visit can take many steps before it touches the weights. A matrix is kept if
it is no larger than four times the features of its rows, and if labelings pick entries
of about as many rows: of examples with thousands of rows of which a labeling picks a
few, F_i^T d is formed instead. That also takes less time where rows have few features:
the product of a row with all others is as long as there are rows.
"""

from libc.stdlib cimport calloc, free

from sksstruct.models.tables._blocks cimport Block, WeightBlocks, n_rows_of
from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.utils._arena cimport Arena
from sksstruct.utils._simd cimport sks_prefetch


# Matrices have at most so many times the entries of the rows.
cdef Py_ssize_t WIDEST = 4


cdef double square_of(const Block* block, Py_ssize_t i,
                      double* spread) noexcept nogil:
    """Return the square of the only row of an example."""
    cdef Py_ssize_t row = block.offsets[i]
    cdef double square
    (<FeatureRows> block.rows).spread(row, spread)
    square = (<FeatureRows> block.rows).spread_dot(row, spread)
    (<FeatureRows> block.rows).unspread(row, spread)
    return square


cdef class GramMatrices:
    """The matrices of all examples, for each block with rows.

    Parameters
    ----------
    layout : WeightBlocks
        The blocks.
    n_examples : int
        Number of examples.
    max_rows : int
        Matrices of more rows are not kept.
    on_disk : bool, default=False
        Whether to store the matrices in files.
    needed : bool, default=False
        Whether to keep matrices also where F_i^T d takes less time.
    """

    def __cinit__(self, WeightBlocks layout, Py_ssize_t n_examples,
                  Py_ssize_t max_rows, bint on_disk=False, bint needed=False):
        cdef Py_ssize_t number, n_blocks = layout.n_row_blocks
        self._layout, self._n_examples, self._max_rows = layout, n_examples, max_rows
        self._arena, self._needed = Arena(on_disk), needed
        # not in the arena, which does not clear what it gives
        self._matrices = <double***> calloc(max(n_blocks, 1), sizeof(double**))
        if self._matrices == NULL:
            raise MemoryError()
        for number in range(n_blocks):
            self._matrices[number] = <double**> calloc(
                max(n_examples, 1), sizeof(double*))
            if self._matrices[number] == NULL:
                raise MemoryError()

    def __dealloc__(self):
        cdef Py_ssize_t number
        # the matrices themselves go with the arena
        if self._matrices != NULL:
            for number in range(self._layout.n_row_blocks):
                free(self._matrices[number])
        free(self._matrices)

    def longest_product(self):
        """Return the number of weights of the largest block without some matrix."""
        cdef Py_ssize_t number, i, most = 0
        cdef Block* block
        for number in range(self._layout.n_row_blocks):
            block = &self._layout.blocks[number]
            if block.n_features * block.ld > most:
                for i in range(self._n_examples):
                    if not self.fits(number, i):
                        most = block.n_features * block.ld
                        break
        return most

    cdef bint fits(self, Py_ssize_t number, Py_ssize_t i) noexcept nogil:
        """Return whether the matrix of an example is kept; the same at every call."""
        cdef Block* block = &self._layout.blocks[number]
        cdef Py_ssize_t first = block.offsets[i], size = n_rows_of(block, i)
        if not self._needed and size * size > WIDEST * (
                <FeatureRows> block.rows).count(first, first + size):
            return False
        # a page is allowed to all: examples may have few features
        return size <= self._max_rows and 8 * size * size <= 4096 + 4 * (
            <FeatureRows> block.rows).n_bytes(first, first + size)

    cdef int find(self, Py_ssize_t number, Py_ssize_t i, double* spread,
                  const double** matrix) except -1 nogil:
        """Look up the matrix of an example, (size, size); NULL where it is not kept.

        spread (n_features + 1) must be zero, and is again afterwards. Returns whether
        there is a matrix.
        """
        cdef double** kept = self._matrices[number] + i
        cdef Block* block = &self._layout.blocks[number]
        # of one row the number itself is in the place of its address, which saves a
        # wait for memory; it is found again where it is zero
        if n_rows_of(block, i) == 1:
            if kept[0] == NULL:
                (<double*> kept)[0] = square_of(block, i, spread)
            matrix[0] = <double*> kept
            return 1
        # last, so that an error leaves no half-filled matrix behind
        if kept[0] == NULL and self.fits(number, i):
            kept[0] = self._make(block, i, spread)
        matrix[0] = kept[0]
        return matrix[0] != NULL

    cdef double* _make(self, const Block* block, Py_ssize_t i,
                       double* spread) except NULL nogil:
        """Return the matrix of an example."""
        cdef Py_ssize_t first = block.offsets[i], size = n_rows_of(block, i)
        cdef Py_ssize_t row, column
        cdef double* gram = <double*> self._arena.take(size * size * sizeof(double))
        for row in range(size):
            # one row spread out over all features, met by the rows up to it: products
            # of sparse rows without a search
            (<FeatureRows> block.rows).spread(first + row, spread)
            for column in range(row + 1):
                gram[row * size + column] = gram[column * size + row] = (
                    (<FeatureRows> block.rows).spread_dot(first + column, spread))
            (<FeatureRows> block.rows).unspread(first + row, spread)
        return gram

    cdef void prefetch(self, Py_ssize_t number, Py_ssize_t i, bint soon) noexcept nogil:
        """Ask for the memory of a matrix, or for the pointer to it."""
        cdef double** kept = self._matrices[number] + i
        cdef Py_ssize_t size
        if not soon:
            sks_prefetch(kept, 8)
            return
        size = n_rows_of(&self._layout.blocks[number], i)
        if size > 1 and kept[0] != NULL:
            sks_prefetch(kept[0], 8 * size * size)
