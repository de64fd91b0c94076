"""Rows of a CSR array that grows, each with its columns in order and once.

Features come in any order, and more than once; values of the same column add up.
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
    # Rows of up to this many features are sorted by counting, for each, those that
    # come before it: quadratic, but in whole vectors and without unforeseen jumps.
    FEW = 48
    # There is room for so many rows at first, of eight entries.
    ROOM = 64


cdef int in_order(const void* a, const void* b) noexcept nogil:
    """Order of features by column, and of one column as they came."""
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

    # Plain arrays, as a list would keep an object for each number.
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
        cdef Py_ssize_t needed = self._count + count, k, kept = 0
        reserve(<void**> &self._ends, &self._end_capacity, self._n_rows + 2,
                sizeof(int64_t))
        reserve(<void**> &self._indices, &self._index_capacity, needed, sizeof(int32_t))
        if self._single:
            reserve(<void**> &self._values32, &self._value_capacity, needed,
                    sizeof(float))
        else:
            reserve(<void**> &self._values64, &self._value_capacity, needed,
                    sizeof(double))
        # in place, as the list is not needed again
        for k in range(count):
            if features[k].column >= 0:
                features[kept] = features[k]
                kept += 1
        if kept <= FEW:
            self._sort_few(kept, features)
        else:
            self._sort_many(kept, features)
        self._count += self._merge(kept)
        # a position without features is a row without entries
        self._n_rows += 1
        self._ends[self._n_rows] = self._count
        return 0

    cdef void _write(self, Py_ssize_t place, const Feature* feature) noexcept nogil:
        """Write an entry."""
        self._indices[place] = <int32_t> feature.column
        # the same test each time, which costs nothing
        if self._single:
            self._values32[place] = <float> feature.value
        else:
            self._values64[place] = feature.value

    cdef void _sort_few(self, Py_ssize_t count, const Feature* features) noexcept nogil:
        """Write features in order after the last row."""
        cdef int32_t[FEW] columns
        cdef int32_t[FEW] places
        cdef Py_ssize_t j, k
        cdef int32_t column, after
        # side by side, so that vectors hold many
        for k in range(count):
            columns[k] = <int32_t> features[k].column
        memset(places, 0, sizeof(places))
        # of each pair, the second of the two comes after the first, or otherwise
        for k in range(count):
            column, after = columns[k], 0
            for j in range(k + 1, count):
                after += columns[j] < column
                places[j] += columns[j] >= column
            places[k] += after
        for k in range(count):
            self._write(self._count + places[k], &features[k])

    cdef void _sort_many(self, Py_ssize_t count, Feature* features) noexcept nogil:
        """Write features in order after the last row, as `_sort_few`."""
        cdef Py_ssize_t k
        # the hash was needed to find the column: now it is where the feature was
        for k in range(count):
            features[k].hash = k
        qsort(features, count, sizeof(Feature), &in_order)
        for k in range(count):
            self._write(self._count + k, &features[k])

    cdef Py_ssize_t _merge(self, Py_ssize_t count) noexcept nogil:
        """Add up neighbors of the same column after the last row; how many are left."""
        cdef int32_t* indices = self._indices + self._count
        cdef Py_ssize_t k, last = 0, repeated = 0
        for k in range(1, count):
            repeated += indices[k] == indices[k - 1]
        # rarely is there any
        if not repeated:
            return count
        # `last` is where the entry is that the next one may add to
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
        """Return data, indices and indptr, once: the arrays then own the rows."""
        cdef cython_array values, indices, ends
        cdef Py_ssize_t count = self._count
        # One entry more than needed, so that there is always one; what was reserved
        # beyond it is given back.
        resize(<void**> &self._indices, (count + 1) * sizeof(int32_t))
        if self._single:
            resize(<void**> &self._values32, (count + 1) * sizeof(float))
            values = <float[:count + 1]> self._values32
        else:
            resize(<void**> &self._values64, (count + 1) * sizeof(double))
            values = <double[:count + 1]> self._values64
        indices = <int32_t[:count + 1]> self._indices
        # columns fit in 32 bits, numbers of entries may not
        ends = <int64_t[:self._n_rows + 1]> self._ends
        # the arrays belong to NumPy from here on
        values.callback_free_data = free
        indices.callback_free_data = free
        ends.callback_free_data = free
        self._values32, self._values64 = NULL, NULL
        self._indices, self._ends = NULL, NULL
        return (np.asarray(values)[:count], np.asarray(indices)[:count],
                np.asarray(ends))
