"""The loop of `SequenceVectorizer` over sequences, positions and features."""

from collections.abc import Mapping

import numpy as np

from cpython.dict cimport PyDict_GetItemWithError
from cpython.float cimport PyFloat_AsDouble
from cpython.object cimport PyObject
from libc.stdint cimport int32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy


cdef class _Rows:
    """Growing CSR rows."""

    cdef int32_t* indices
    cdef double* data
    cdef Py_ssize_t n, capacity
    cdef list ends

    def __cinit__(self):
        self.ends = [0]

    def __dealloc__(self):
        free(self.indices)
        free(self.data)

    cdef int grow(self) except -1:
        cdef Py_ssize_t capacity = 2 * self.capacity if self.capacity else 1024
        cdef void* indices = realloc(self.indices, capacity * sizeof(int32_t))
        if indices == NULL:
            raise MemoryError()
        self.indices = <int32_t*> indices
        cdef void* data = realloc(self.data, capacity * sizeof(double))
        if data == NULL:
            raise MemoryError()
        self.data = <double*> data
        self.capacity = capacity
        return 0

    cdef inline int add(self, Py_ssize_t column, double value) except -1:
        if self.n == self.capacity:
            self.grow()
        self.indices[self.n] = <int32_t> column
        self.data[self.n] = value
        self.n += 1
        return 0

    def arrays(self):
        """Copies of data, indices and indptr."""
        # One entry more than needed, so that there is always a first one to point at.
        cdef double[::1] data = np.zeros(self.n + 1)
        cdef int32_t[::1] indices = np.zeros(self.n + 1, dtype=np.int32)
        if self.n:
            memcpy(&data[0], self.data, self.n * sizeof(double))
            memcpy(&indices[0], self.indices, self.n * sizeof(int32_t))
        return (np.asarray(data)[:self.n], np.asarray(indices)[:self.n],
                np.array(self.ends, dtype=np.int64))


cdef Py_ssize_t _column(dict vocabulary, object key, bint grow) except -2:
    """Column of a feature; -1 if it is not to be had."""
    cdef PyObject* found = PyDict_GetItemWithError(vocabulary, key)
    cdef Py_ssize_t column
    if found != NULL:
        return <object> found
    if not grow:
        return -1
    column = len(vocabulary)
    vocabulary[key] = column
    return column


def collect(X, dict vocabulary, bint grow, str separator):
    """CSR arrays (data, indices, indptr) and offsets of sequences of features.

    Features missing in the vocabulary are added to it if grow, else left out.
    """
    cdef _Rows rows = _Rows()
    cdef list offsets = [0]
    # Columns by name and value: most pairs are met again and again, and the name with
    # its value is joined, and sought among all features, only once.
    cdef dict known = {}
    cdef dict of_name
    cdef PyObject* found
    cdef Py_ssize_t i, t, column, n_rows = 0
    cdef double value
    for i, sequence in enumerate(X):
        if isinstance(sequence, (str, bytes, Mapping)) or not hasattr(
                sequence, "__iter__"):
            raise TypeError(
                f"X[{i}] is a single {type(sequence).__name__}: a sequence is a list "
                "of dicts or of lists of strings")
        t = 0
        for position in sequence:
            if isinstance(position, dict) or isinstance(position, Mapping):
                for name, item in position.items():
                    if type(item) is str or isinstance(item, str):
                        found = PyDict_GetItemWithError(known, name)
                        if found == NULL:
                            of_name = known[name] = {}
                        else:
                            of_name = <dict> found
                        found = PyDict_GetItemWithError(of_name, item)
                        if found != NULL:
                            column = <object> found
                        else:
                            _check_name(name, i, t)
                            column = of_name[item] = _column(
                                vocabulary, f"{name}{separator}{item}", grow)
                        value = 1.0
                    else:
                        _check_name(name, i, t)
                        value = _check_value(name, item, i, t)
                        column = _column(vocabulary, name, grow)
                    if column >= 0:
                        rows.add(column, value)
            elif isinstance(position, (str, bytes)) or not hasattr(
                    position, "__iter__"):
                raise TypeError(
                    f"X[{i}] has a single {type(position).__name__} at position {t}: "
                    "the features of a position are a dict or a list of strings")
            else:
                for key in position:
                    if not isinstance(key, str):
                        raise TypeError(
                            f"X[{i}] has a feature that is not a string at position "
                            f"{t}: {key!r:.80}")
                    column = _column(vocabulary, key, grow)
                    if column >= 0:
                        rows.add(column, 1.0)
            rows.ends.append(rows.n)
            t += 1
        n_rows += t
        offsets.append(n_rows)
    return *rows.arrays(), np.array(offsets, dtype=np.int64)


def _check_name(name, i, t):
    if not isinstance(name, str):
        raise TypeError(
            f"X[{i}] has a feature name that is not a string at position {t}: "
            f"{name!r:.80}")


def _check_value(name, item, i, t):
    try:
        value = PyFloat_AsDouble(item)
    except TypeError:
        raise TypeError(
            f"X[{i}] has a value that is neither a number nor a string at position "
            f"{t}: {name!r:.80}: {item!r:.80}") from None
    except OverflowError:
        value = float("inf")
    if value - value != 0.0:
        raise ValueError(
            f"X[{i}] contains NaN or infinity at position {t}: {name!r:.80}")
    return value
