"""A growing CSR array whose rows have ascending, distinct columns.

The features of a row come in any order, and may repeat a column: the values are summed.
"""

cimport cython

import numpy as np

from cython.view cimport array as cython_array
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, qsort
from libc.string cimport memset

from sksstruct.feature_extraction._vocabulary cimport Feature
from sksstruct.utils._memory cimport reserve, resize


cdef enum:
    # Rows of up to this many features are sorted by counting the smaller columns for
    # each feature. The counts take quadratic time, but are vectorized and have no
    # mispredicted branches.
    FEW = 48
    # Initial capacity of the CSR array: this number of rows, of eight entries each.
    ROOM = 64


cdef int in_order(const void* a, const void* b) noexcept nogil:
    """Compare features by column, and then by their index, which `hash` holds."""
    cdef const Feature* first = <const Feature*> a
    cdef const Feature* second = <const Feature*> b
    if first.column != second.column:
        return 1 if first.column > second.column else -1
    return 1 if first.hash > second.hash else -1


@cython.final
cdef class Rows:
    """Growing CSR rows.

    Parameters
    ----------
    single : bool
        Whether values are float32.
    """

    # C arrays: lists would have a Python object for each number
    def __cinit__(self, bint single):
        self._single = single
        reserve(<void**> &self._ends, &self._end_capacity, ROOM, sizeof(int64_t))
        reserve(<void**> &self._indices, &self._index_capacity, 8 * ROOM,
                sizeof(int32_t))
        self._ends[0] = 0

    def __dealloc__(self):
        free(self._indices)
        free(self._values32)
        free(self._values64)
        free(self._ends)

    cdef int add(self, Py_ssize_t count, Feature* features) except -1:
        """Append a row; features without a column are left out.

        The features are overwritten.
        """
        cdef Py_ssize_t needed = self._count + count, k, n_known = 0
        reserve(<void**> &self._ends, &self._end_capacity, self._n_rows + 2,
                sizeof(int64_t))
        reserve(<void**> &self._indices, &self._index_capacity, needed, sizeof(int32_t))
        if self._single:
            reserve(<void**> &self._values32, &self._value_capacity, needed,
                    sizeof(float))
        else:
            reserve(<void**> &self._values64, &self._value_capacity, needed,
                    sizeof(double))
        # compact the features with a column in place
        for k in range(count):
            if features[k].column >= 0:
                features[n_known] = features[k]
                n_known += 1
        if n_known <= FEW:
            self._sort_few(n_known, features)
        else:
            self._sort_many(n_known, features)
        self._count += self._merge(n_known)
        # a position without features is a row without entries
        self._n_rows += 1
        self._ends[self._n_rows] = self._count
        return 0

    cdef void _write(self, Py_ssize_t place, const Feature* feature) noexcept nogil:
        """Write column and value of a feature to an entry of the CSR array."""
        self._indices[place] = <int32_t> feature.column
        # the branch is always the same, and well predicted
        if self._single:
            self._values32[place] = <float> feature.value
        else:
            self._values64[place] = feature.value

    cdef void _sort_few(self, Py_ssize_t count, const Feature* features) noexcept nogil:
        """Write features after the last row, in ascending order of columns."""
        cdef int32_t[FEW] columns
        cdef int32_t[FEW] places
        cdef Py_ssize_t j, k
        cdef int32_t column, after
        # contiguous columns, so that the loops below vectorize
        for k in range(count):
            columns[k] = <int32_t> features[k].column
        memset(places, 0, sizeof(places))
        # each pair moves one of its two features one place to the right
        for k in range(count):
            column, after = columns[k], 0
            for j in range(k + 1, count):
                after += columns[j] < column
                places[j] += columns[j] >= column
            places[k] += after
        for k in range(count):
            self._write(self._count + places[k], &features[k])

    cdef void _sort_many(self, Py_ssize_t count, Feature* features) noexcept nogil:
        """Write features in order after the last row, by a general sort."""
        cdef Py_ssize_t k
        # the hash is no longer needed: store the index, so that the sort is stable
        for k in range(count):
            features[k].hash = k
        qsort(features, count, sizeof(Feature), &in_order)
        for k in range(count):
            self._write(self._count + k, &features[k])

    cdef Py_ssize_t _merge(self, Py_ssize_t count) noexcept nogil:
        """Merge equal columns of the row that was written last; return its length.

        The row is not yet counted, and its columns ascend.
        """
        cdef int32_t* indices = self._indices + self._count
        cdef Py_ssize_t k, last = 0, repeated = 0
        for k in range(1, count):
            repeated += indices[k] == indices[k - 1]
        # fast path: rows rarely repeat a column
        if not repeated:
            return count
        # `last` is the place of the last merged entry
        for k in range(1, count):
            if indices[k] == indices[last]:
                if self._single:
                    self._values32[self._count + last] += self._values32[
                        self._count + k]
                else:
                    self._values64[self._count + last] += self._values64[
                        self._count + k]
                continue
            last += 1
            indices[last] = indices[k]
            if self._single:
                self._values32[self._count + last] = self._values32[self._count + k]
            else:
                self._values64[self._count + last] = self._values64[self._count + k]
        return last + 1

    def arrays(self):
        """Return data, indices and indptr; the arrays take over the memory.

        The method can be called once.
        """
        cdef cython_array values, indices, ends
        cdef Py_ssize_t count = self._count
        # shrink the memory to one entry more than needed: an empty block may be NULL
        resize(<void**> &self._indices, (count + 1) * sizeof(int32_t))
        if self._single:
            resize(<void**> &self._values32, (count + 1) * sizeof(float))
            values = <float[:count + 1]> self._values32
        else:
            resize(<void**> &self._values64, (count + 1) * sizeof(double))
            values = <double[:count + 1]> self._values64
        indices = <int32_t[:count + 1]> self._indices
        # columns fit into 32 bits; the number of entries may not
        ends = <int64_t[:self._n_rows + 1]> self._ends
        # from here on, the NumPy arrays free the memory
        values.callback_free_data = free
        indices.callback_free_data = free
        ends.callback_free_data = free
        self._values32, self._values64 = NULL, NULL
        self._indices, self._ends = NULL, NULL
        return (np.asarray(values)[:count], np.asarray(indices)[:count],
                np.asarray(ends))
