"""Features on pairs of labels: their rows, and products with their weights.

Feature j of position t, of value F_tj, has weights v[j, a, b] for some pairs of labels
(a, b), and the pair of labels at t - 1 and t scores

    transitions[a, b] + sum_j F_tj v[j, a, b]

All weights are in one vector, feature by feature, and for each feature in the order of
the cells a * ld + b of a table. `pair_support.py` decides which weights exist.
Positions of all sequences are numbered one after the other.

These are the B templates of CRF++ and Wapiti. Each position t >= 1 has its own table of
transitions, and edge means have keys

    size_i * ld + (t - 1) * K * ld + from * ld + to

A change of edge means is stored as the change of the weights v, whose cells follow the
cells of the transitions: a labeling changes few weights.
"""

import numpy as np

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from sksstruct.inference.chains._sumproduct cimport (
    EdgeTable, exponentiate_cell, share_exponentials,
)
from sksstruct.models.chain._workspace cimport ChainScratch
from sksstruct.models.protocols._weights cimport LazyWeights
from sksstruct.models.tables._change cimport add_cell, clear_cells

from sksstruct.models.chain.pair_support import pair_rows


cdef inline bint edge_differs(const int32_t* y, const int32_t* z,
                              Py_ssize_t t) noexcept nogil:
    """Return whether the edges of two labelings that end at t differ."""
    return y[t - 1] != z[t - 1] or y[t] != z[t]


@cython.final
cdef class PairFeatures:
    """The features of packed sequences that have weights on pairs of labels.

    Parameters
    ----------
    X : PackedSequences
        All features.
    support : PairSupport
        The weights that exist.
    ld : int
        Length of the rows of tables.
    scale : float, default=1.0
        Factor of all values.
    """

    def __cinit__(self, X, support, Py_ssize_t ld, double scale=1.0):
        cdef const int64_t[::1] indptr, starts
        cdef const int32_t[::1] indices, cells, turned
        cdef const double[::1] values
        columns, first, cell = support.tables(ld)
        rows = pair_rows(X.values, columns)
        self.n_weights, self._ld = support.n_weights, ld
        self._step = support.n_labels * ld
        # types that the kernels read; a spare entry makes the address of entry 0 valid
        indptr = np.ascontiguousarray(rows.indptr, dtype=np.int64)
        indices = np.append(rows.indices, 0).astype(np.int32)
        values = np.append(scale * rows.data, 0.0)
        starts = np.ascontiguousarray(first, dtype=np.int64)
        cells = np.append(cell, 0).astype(np.int32)
        turned = np.append(cell % ld * ld + cell // ld, 0).astype(np.int32)
        self._arrays = indptr, indices, values, starts, cells, turned
        self._indptr, self._indices = &indptr[0], &indices[0]
        self._values = &values[0]
        self._starts, self._cells, self._turned = &starts[0], &cells[0], &turned[0]

    def of_sequences(self, offsets):
        """Return the weights that each sequence reads, one list after the other.

        Returns the starts of the lists, and the weights, ascending in each list.
        """
        # cached, as every thread of a sweep calls this method
        if self._weights_read is None:
            self._weights_read = self._list_weights_read(offsets)
        return self._weights_read

    def _list_weights_read(self, offsets):
        """Compute the lists that `of_sequences` returns."""
        indptr, indices, _, starts, _, _ = map(np.asarray, self._arrays)
        n_sequences, n_columns = len(offsets) - 1, max(len(starts) - 1, 1)
        owner = np.repeat(np.arange(n_sequences), np.diff(offsets))
        # no pair of labels ends at the first position of a sequence
        owner[offsets[:n_sequences]] = -1
        owner = np.repeat(owner, np.diff(indptr))
        later = owner >= 0
        column = indices[:len(owner)][later]
        owner, column = np.divmod(
            np.unique(owner[later] * n_columns + column), n_columns)
        counts = starts[column + 1] - starts[column]
        ends = np.cumsum(counts)
        # consecutive numbers, shifted to the first weight of each feature
        weights = np.arange(counts.sum()) + np.repeat(
            starts[column] - (ends - counts), counts)
        sizes = np.bincount(owner, weights=counts, minlength=n_sequences)
        return (np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
                weights.astype(np.int32))

    def arrays(self):
        """Return the features, and the table cells of their weights, as arrays."""
        return tuple(map(np.asarray, self._arrays))

    def same_as(self, arrays):
        """Return whether `arrays` equal the arrays of this object."""
        return (isinstance(arrays, (tuple, list)) and len(arrays) == len(self._arrays)
                and all(map(np.array_equal, self._arrays, arrays)))

    # ---- all positions of a sequence, whose first one is `first` ----

    cdef void form_tables(self, Py_ssize_t first, Py_ssize_t size,
                          const double* weights, const double* shared,
                          double* tables) noexcept nogil:
        """Write the table of transitions of each pair of neighbors to `tables`."""
        cdef Py_ssize_t t
        # forbidden transitions stay -inf, whatever finite scores are added
        for t in range(1, size):
            memcpy(tables, shared, self._step * sizeof(double))
            self.add_scores(first + t, weights, tables)
            tables += self._step

    cdef void add_labeling(self, ChainScratch* ws, Py_ssize_t first, Py_ssize_t size,
                           const int32_t* y, double coef) noexcept nogil:
        """Add coef times the edges of a labeling to the change of the weights v."""
        cdef Py_ssize_t t
        # edges that two labelings share cancel, so that the change of a listed cell may
        # be 0
        for t in range(1, size):
            self.add(ws, first + t, y[t - 1] * self._ld + y[t], coef)

    cdef double add_mean(self, ChainScratch* ws, Py_ssize_t first, Py_ssize_t edges,
                         Py_ssize_t n_keys, const int32_t* keys, const double* values,
                         double coef, double total) noexcept nogil:
        """Add coef times edge means, whose keys begin at `edges`, to the change in ws.

        Returns `total` plus the score of the edge means.
        """
        cdef Py_ssize_t step = self._step, k, edge
        # a key determines the position, as tables are consecutive
        for k in range(n_keys):
            edge = keys[k] - edges
            total += values[k] * ws.tables[edge]
            add_cell(&ws.change, edge % step, coef * values[k])
            self.add(ws, first + 1 + edge // step, edge % step, coef * values[k])
        return total

    cdef void add_products(self, ChainScratch* ws, Py_ssize_t first, Py_ssize_t size,
                           const int32_t* y, const int32_t* y_true,
                           Py_ssize_t n_labelings, const int32_t* labelings,
                           double* out) noexcept nogil:
        """Add the features' terms of the inner products of `gram_row` to `out`.

        The inner products are of y and each labeling z, both relative to y_true.
        """
        cdef const double* change = ws.change.cells + self._step
        cdef const int32_t* z = labelings
        cdef Py_ssize_t ld = self._ld, k, t
        # add the change of the weights v between y and y_true to the cells
        for t in range(1, size):
            if edge_differs(y, y_true, t):
                self.add(ws, first + t, y[t - 1] * ld + y[t], 1.0)
                self.add(ws, first + t, y_true[t - 1] * ld + y_true[t], -1.0)
        # the inner product with z is the score of its edges, with this change as the
        # weights, minus the same score of y_true
        for k in range(n_labelings):
            for t in range(1, size):
                if edge_differs(z, y_true, t):
                    out[k] += self.score(first + t, z[t - 1] * ld + z[t], change)
                    out[k] -= self.score(
                        first + t, y_true[t - 1] * ld + y_true[t], change)
            z += size
        clear_cells(&ws.change)

    # ---- whole tables ----

    cdef void add_scores(self, Py_ssize_t position, const double* weights,
                         double* table) noexcept nogil:
        """Add the scores of the features of a position to the position's table."""
        cdef Py_ssize_t entry, k, feature
        cdef double value
        for entry in range(self._indptr[position], self._indptr[position + 1]):
            feature, value = self._indices[entry], self._values[entry]
            # cells of one feature ascend, so that memory is read in order
            for k in range(self._starts[feature], self._starts[feature + 1]):
                table[self._cells[k]] += value * weights[k]

    cdef void add_means(self, Py_ssize_t position, double scale, const double* edges,
                        double* out) noexcept nogil:
        """Add scale times a position's features times its edge means to `out`."""
        cdef Py_ssize_t entry, k, feature
        cdef double value
        for entry in range(self._indptr[position], self._indptr[position + 1]):
            feature, value = self._indices[entry], scale * self._values[entry]
            for k in range(self._starts[feature], self._starts[feature + 1]):
                out[k] += value * edges[self._cells[k]]

    cdef void exponentiate(self, Py_ssize_t position, Py_ssize_t n_labels,
                           Py_ssize_t ld, const EdgeTable* shared,
                           EdgeTable* table) noexcept nogil:
        """Write the exponentials of a position's table, whose scores are set.

        Cells for which the position's features have no weight copy the exponentials of
        the shared table, as computing and transposing exponentials is slow.
        """
        cdef Py_ssize_t begin = self._indptr[position], entry, k, feature
        cdef Py_ssize_t end = self._indptr[position + 1]
        cdef double high = -INFINITY
        # exponentials are relative to the largest score
        for entry in range(begin, end):
            feature = self._indices[entry]
            for k in range(self._starts[feature], self._starts[feature + 1]):
                if table.scores[self._cells[k]] > high:
                    high = table.scores[self._cells[k]]
        share_exponentials(n_labels, ld, shared, high, table)
        for entry in range(begin, end):
            feature = self._indices[entry]
            for k in range(self._starts[feature], self._starts[feature + 1]):
                exponentiate_cell(table, self._cells[k], self._turned[k])

    def score_all(self, const int64_t[::1] positions, const double[::1] weights,
                  double[:, ::1] tables):
        """Add the scores of the features of positions to tables, a row for each."""
        cdef Py_ssize_t row
        for row in range(positions.shape[0] if self.n_weights else 0):
            self.add_scores(positions[row], &weights[0], &tables[row, 0])

    def combine_all(self, const int64_t[::1] positions, const double[:, ::1] tables,
                    double[::1] out):
        """Add the features of positions times the positions' tables to `out`."""
        cdef Py_ssize_t row
        for row in range(positions.shape[0] if self.n_weights else 0):
            self.add_means(positions[row], 1.0, &tables[row, 0], &out[0])

    # ---- one pair of labels ----

    cdef Py_ssize_t _find(self, Py_ssize_t feature, Py_ssize_t cell) noexcept nogil:
        """Return the index of the weight of a feature for a cell, or -1."""
        cdef Py_ssize_t low = self._starts[feature], end = self._starts[feature + 1]
        cdef Py_ssize_t high = end, middle
        # bisection for the first cell >= `cell`; a feature has at most K * K cells
        while low < high:
            middle = (low + high) // 2
            if self._cells[middle] < cell:
                low = middle + 1
            else:
                high = middle
        return low if low < end and self._cells[low] == cell else -1

    cdef double score(self, Py_ssize_t position, Py_ssize_t cell,
                      const double* weights) noexcept nogil:
        """Return the score of one cell from the features of a position."""
        cdef Py_ssize_t entry, k
        cdef double total = 0.0
        for entry in range(self._indptr[position], self._indptr[position + 1]):
            k = self._find(self._indices[entry], cell)
            if k >= 0:
                total += self._values[entry] * weights[k]
        return total

    cdef void add(self, ChainScratch* ws, Py_ssize_t position, Py_ssize_t cell,
                  double change) noexcept nogil:
        """Add the change of one edge mean, times the position's features, to the change
        of the weights.
        """
        cdef Py_ssize_t entry, k
        for entry in range(self._indptr[position], self._indptr[position + 1]):
            k = self._find(self._indices[entry], cell)
            if k >= 0:
                add_cell(&ws.change, self._step + k, change * self._values[entry])

    cdef void add_table(self, ChainScratch* ws, Py_ssize_t position,
                        const double* edges, double tiny) noexcept nogil:
        """Add changes of a position's edge means, times its features, to the change of
        the weights; skip changes of at most `tiny`.
        """
        cdef Py_ssize_t entry, k, feature
        cdef double change
        for entry in range(self._indptr[position], self._indptr[position + 1]):
            feature = self._indices[entry]
            for k in range(self._starts[feature], self._starts[feature + 1]):
                change = edges[self._cells[k]]
                if change > tiny or change < -tiny:
                    add_cell(&ws.change, self._step + k, change * self._values[entry])

    # ---- rows of weights ----

    cdef void catch_up(self, Py_ssize_t position, Py_ssize_t first, Py_ssize_t row_size,
                       LazyWeights weights) noexcept nogil:
        """Bring the weights v that a position reads up to date.

        The weights v begin at flat weight `first`; whole rows of `row_size` weights are
        updated.
        """
        cdef Py_ssize_t entry, feature, row, low, high
        for entry in range(self._indptr[position], self._indptr[position + 1]):
            feature = self._indices[entry]
            # weights of a feature may begin and end within a row
            low = (first + self._starts[feature]) // row_size
            high = (first + self._starts[feature + 1] - 1) // row_size
            for row in range(low, high + 1):
                weights.catch_up(row)
