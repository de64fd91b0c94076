"""The loop of `SequenceVectorizer` over sequences, positions and features.

Every position becomes a row of a CSR matrix: pairs of a column and a value, the rows
one after the other, with `indptr` telling where each begins and `offsets` at which row
each sequence begins. Columns are numbered in the order in which features appear.
"""

cimport cython

from collections.abc import Mapping

import numpy as np

from cpython.dict cimport PyDict_GetItemWithError
from cpython.float cimport PyFloat_AsDouble
from cpython.object cimport PyObject
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from sksstruct.utils._memory cimport reserve


@cython.final
cdef class Rows:
    """Growing CSR rows."""

    # Plain arrays, as a list would keep an object for each number.
    cdef int32_t* indices
    cdef double* data
    cdef Py_ssize_t count, index_capacity, data_capacity
    cdef list ends

    def __cinit__(self):
        self.ends = [0]

    def __dealloc__(self):
        free(self.indices)
        free(self.data)

    cdef inline int add(self, Py_ssize_t column, double value) except -1:
        """Append an entry to the present row."""
        reserve(<void**> &self.indices, &self.index_capacity, self.count + 1,
                sizeof(int32_t))
        reserve(<void**> &self.data, &self.data_capacity, self.count + 1,
                sizeof(double))
        self.indices[self.count] = <int32_t> column
        self.data[self.count] = value
        self.count += 1
        return 0

    def arrays(self):
        """Copies of data, indices and indptr."""
        # Columns fit in 32 bits, numbers of entries may not. One entry more than
        # needed, so that there is always a first one to point at.
        cdef double[::1] data = np.zeros(self.count + 1)
        cdef int32_t[::1] indices = np.zeros(self.count + 1, dtype=np.int32)
        if self.count:
            memcpy(&data[0], self.data, self.count * sizeof(double))
            memcpy(&indices[0], self.indices, self.count * sizeof(int32_t))
        return (np.asarray(data)[:self.count], np.asarray(indices)[:self.count],
                np.array(self.ends, dtype=np.int64))


@cython.final
cdef class Collector:
    """Features of one position after the other, as rows.

    The position is number `position` of sequence number `sequence`, for errors.
    """

    cdef Rows rows
    # columns by feature; new features are added to it if grow, else left out
    cdef dict vocabulary
    cdef bint grow
    cdef str separator
    # Columns by name and value: most pairs are met again and again, and the name with
    # its value is joined, and sought among all features, only once.
    cdef dict known
    # kept here and not passed from call to call, as only errors need them
    cdef Py_ssize_t sequence, position

    def __init__(self, dict vocabulary, bint grow, str separator):
        self.vocabulary, self.grow, self.separator = vocabulary, grow, separator
        self.rows, self.known = Rows(), {}

    cdef int add_sequence(self, positions) except -1:
        """Append a row for each position of a sequence."""
        # Strings and dicts can be iterated over as well, but are a forgotten list.
        # Anything else that can be iterated over will do.
        if isinstance(positions, (str, bytes, Mapping)) or not hasattr(
                positions, "__iter__"):
            raise TypeError(
                f"X[{self.sequence}] is a single {type(positions).__name__}: a "
                "sequence is a list of dicts or of lists of strings")
        self.position = 0
        for features in positions:
            # dict first: for other types Mapping is looked up in a registry
            if isinstance(features, dict) or isinstance(features, Mapping):
                self.add_mapping(features)
            elif isinstance(features, (str, bytes)) or not hasattr(
                    features, "__iter__"):
                raise TypeError(
                    f"X[{self.sequence}] has a single {type(features).__name__} at "
                    f"position {self.position}: the features of a position are a dict "
                    "or a list of strings")
            else:
                self.add_strings(features)
            # a position without features is a row without entries
            self.rows.ends.append(self.rows.count)
            self.position += 1
        return 0

    cdef int add_mapping(self, features) except -1:
        """Append features of a name and a number, or of a name and a string."""
        cdef Py_ssize_t column
        cdef double value
        for name, item in features.items():
            # Most strings are of the type itself, which is a single comparison.
            if type(item) is str or isinstance(item, str):
                column = self.column_of_pair(name, item)
                value = 1.0
            else:
                # Numbers of one name share its column: no pair to look up.
                self.check_name(name)
                value = self.check_value(name, item)
                column = self.column_of(name)
            if column >= 0:
                self.rows.add(column, value)
        return 0

    cdef int add_strings(self, features) except -1:
        """Append features that are strings, with value 1."""
        cdef Py_ssize_t column
        for feature in features:
            if not isinstance(feature, str):
                raise TypeError(
                    f"X[{self.sequence}] has a feature that is not a string at "
                    f"position {self.position}: {feature!r:.80}")
            column = self.column_of(feature)
            if column >= 0:
                self.rows.add(column, 1.0)
        return 0

    cdef inline Py_ssize_t column_of_pair(self, name, item) except -2:
        """Column of a name with a string as its value; -1 if it is left out."""
        cdef dict of_name
        cdef PyObject* found = PyDict_GetItemWithError(self.known, name)
        cdef Py_ssize_t column
        # A dict of dicts: pairs as keys would have to be made for each look-up.
        if found == NULL:
            of_name = self.known[name] = {}
        else:
            of_name = <dict> found
        found = PyDict_GetItemWithError(of_name, item)
        if found != NULL:
            return <object> found
        # only here: the name of a pair that is found has been checked before
        self.check_name(name)
        column = of_name[item] = self.column_of(f"{name}{self.separator}{item}")
        return column

    cdef inline Py_ssize_t column_of(self, object feature) except -2:
        """Column of a feature; -1 if it is left out."""
        # A borrowed reference, without the exception that a missing key would make.
        cdef PyObject* found = PyDict_GetItemWithError(self.vocabulary, feature)
        cdef Py_ssize_t column
        if found != NULL:
            return <object> found
        # pairs that are left out are remembered as such too, by the caller
        if not self.grow:
            return -1
        # columns in the order of first appearance
        column = len(self.vocabulary)
        self.vocabulary[feature] = column
        return column

    cdef int check_name(self, name) except -1:
        """Refuse names that are not strings."""
        if not isinstance(name, str):
            raise TypeError(
                f"X[{self.sequence}] has a feature name that is not a string at "
                f"position {self.position}: {name!r:.80}")
        return 0

    cdef double check_value(self, name, item) except? -1:
        """A value as a finite number."""
        cdef double value
        # whatever has __float__ is a number, as are bools
        try:
            value = PyFloat_AsDouble(item)
        except TypeError:
            raise TypeError(
                f"X[{self.sequence}] has a value that is neither a number nor a string "
                f"at position {self.position}: {name!r:.80}: {item!r:.80}") from None
        except OverflowError:
            value = float("inf")
        # true of NaN and infinity only
        if value - value != 0.0:
            raise ValueError(
                f"X[{self.sequence}] contains NaN or infinity at position "
                f"{self.position}: {name!r:.80}")
        return value


def collect(X, dict vocabulary, bint grow, str separator):
    """CSR arrays (data, indices, indptr) and offsets of sequences of features.

    Features missing in the vocabulary are added to it if grow, else left out.
    """
    cdef Collector collector = Collector(vocabulary, grow, separator)
    cdef list offsets = [0]
    cdef Py_ssize_t n_rows = 0
    # Any iterables, also generators: nothing is asked for its length.
    for sequence, positions in enumerate(X):
        collector.sequence = sequence
        collector.add_sequence(positions)
        n_rows += collector.position
        offsets.append(n_rows)
    return *collector.rows.arrays(), np.array(offsets, dtype=np.int64)
