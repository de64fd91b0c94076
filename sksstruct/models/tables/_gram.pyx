"""Gram matrices of the rows of features of examples, K_i = F_i F_i^T, made on demand.

The norm of F_i^T d and the inner products of labelings then do not read the features: a
visit can take many steps before it reads and changes the weights. A matrix is kept if
it is no larger than four times the features of its rows, and if it has at most about as
many rows as a labeling picks entries of. If a labeling picks entries of a few among
thousands of rows, F_i^T d is formed instead, which also takes less time if rows have
few features: a matrix has the products of each row with every row of the example.
"""

from libc.stdlib cimport calloc, free

from sksstruct.models.tables._blocks cimport Block, WeightBlocks, n_rows_of
from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.utils._arena cimport Arena
from sksstruct.utils._simd cimport sks_prefetch


# A matrix is kept only if it has at most this many times the entries of the example's
# rows of features, unless `needed` is set.
cdef Py_ssize_t WIDEST = 4


cdef double square_of(const Block* block, Py_ssize_t i,
                      double* spread) noexcept nogil:
    """Return the squared norm of the features of the only row of an example."""
    cdef Py_ssize_t row = block.offsets[i]
    cdef double square
    (<FeatureRows> block.rows).spread(row, spread)
    square = (<FeatureRows> block.rows).spread_dot(row, spread)
    (<FeatureRows> block.rows).unspread(row, spread)
    return square


cdef class GramMatrices:
    """The Gram matrices of all examples, for each block that is not shared.

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
        Whether to keep matrices even if forming F_i^T d takes less time.
    """

    def __cinit__(self, WeightBlocks layout, Py_ssize_t n_examples,
                  Py_ssize_t max_rows, bint on_disk=False, bint needed=False):
        cdef Py_ssize_t number, n_blocks = layout.n_row_blocks
        self._layout, self._n_examples, self._max_rows = layout, n_examples, max_rows
        self._arena, self._needed = Arena(on_disk), needed
        # allocated outside the arena, whose memory is not zeroed
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
        # the arena frees the matrices
        if self._matrices != NULL:
            for number in range(self._layout.n_row_blocks):
                free(self._matrices[number])
        free(self._matrices)

    def longest_product(self):
        """Return the number of weights, without the bias, in the largest block in which
        some example keeps no Gram matrix.
        """
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
        """Return whether the Gram matrix of an example in a block is kept."""
        cdef Block* block = &self._layout.blocks[number]
        cdef Py_ssize_t first = block.offsets[i], size = n_rows_of(block, i)
        if not self._needed and size * size > WIDEST * (
                <FeatureRows> block.rows).count(first, first + size):
            return False
        # A matrix may be larger than four times the rows of features by 4096 bytes, as
        # examples may have few features.
        return size <= self._max_rows and 8 * size * size <= 4096 + 4 * (
            <FeatureRows> block.rows).n_bytes(first, first + size)

    cdef int find(self, Py_ssize_t number, Py_ssize_t i, double* spread,
                  const double** matrix) except -1 nogil:
        """Find or compute the Gram matrix of an example, (size, size), in a block.

        `spread` (n_features + 1) must be zero, and is zero again afterwards. Returns
        whether a matrix is kept; if none is kept, `matrix` becomes NULL.
        """
        cdef double** kept = self._matrices[number] + i
        cdef Block* block = &self._layout.blocks[number]
        # for an example of one row, the only entry of the matrix is stored in the place
        # of the address, which saves a cache miss; an entry of zero looks like NULL and
        # is computed again
        if n_rows_of(block, i) == 1:
            if kept[0] == NULL:
                (<double*> kept)[0] = square_of(block, i, spread)
            matrix[0] = <double*> kept
            return 1
        # stored after it is complete, so that an error leaves no half-filled matrix
        if kept[0] == NULL and self.fits(number, i):
            kept[0] = self._make(block, i, spread)
        matrix[0] = kept[0]
        return matrix[0] != NULL

    cdef double* _make(self, const Block* block, Py_ssize_t i,
                       double* spread) except NULL nogil:
        """Compute and return the Gram matrix of an example in a block."""
        cdef Py_ssize_t first = block.offsets[i], size = n_rows_of(block, i)
        cdef Py_ssize_t row, column
        cdef double* gram = <double*> self._arena.take(size * size * sizeof(double))
        for row in range(size):
            # each row is spread to all features, so that its products with sparse rows
            # need no search
            (<FeatureRows> block.rows).spread(first + row, spread)
            for column in range(row + 1):
                gram[row * size + column] = gram[column * size + row] = (
                    (<FeatureRows> block.rows).spread_dot(first + column, spread))
            (<FeatureRows> block.rows).unspread(first + row, spread)
        return gram

    cdef void prefetch(self, Py_ssize_t number, Py_ssize_t i, bint soon) noexcept nogil:
        """Prefetch the pointer to a Gram matrix or, if `soon`, the matrix itself."""
        cdef double** kept = self._matrices[number] + i
        cdef Py_ssize_t size
        if not soon:
            sks_prefetch(kept, 8)
            return
        size = n_rows_of(&self._layout.blocks[number], i)
        if size > 1 and kept[0] != NULL:
            sks_prefetch(kept[0], 8 * size * size)
