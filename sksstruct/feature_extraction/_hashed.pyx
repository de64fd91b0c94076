"""Columns of features by the hash of their names, without a vocabulary.

Columns and signs are those of `sklearn.feature_extraction.FeatureHasher`: 32-bit
MurmurHash3 of the UTF-8 text, which is the same on every machine. The function of
scikit-learn is not used, because it takes a bytes object, which would have to be
created for each feature, and because this module is compiled without scikit-learn.
"""

cimport cython
import numpy as np

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from sksstruct.feature_extraction._vocabulary cimport Columns, Feature
from sksstruct.utils._memory cimport reserve


cdef extern from "Python.h":
    # the text is cached in the string object; for ASCII it is the string's own memory
    const char* PyUnicode_AsUTF8AndSize(PyObject* text, Py_ssize_t* size) except NULL


cdef inline uint32_t rotated(uint32_t x, int count) noexcept nogil:
    return (x << count) | (x >> (32 - count))


cdef int32_t murmur(const char* text, Py_ssize_t size) noexcept nogil:
    """Return MurmurHash3 (x86, 32 bits, seed 0) of `size` bytes."""
    cdef uint32_t hash = 0, word
    cdef Py_ssize_t k
    for k in range(0, size - 3, 4):
        # in native byte order, as in scikit-learn
        memcpy(&word, text + k, 4)
        hash ^= rotated(word * <uint32_t> 0xCC9E2D51, 15) * <uint32_t> 0x1B873593
        hash = rotated(hash, 13) * 5 + <uint32_t> 0xE6546B64
    # the remaining up to three bytes, in little-endian order
    word = 0
    for k in range(size - 1, size // 4 * 4 - 1, -1):
        word = (word << 8) | <uint8_t> text[k]
    hash ^= rotated(word * <uint32_t> 0xCC9E2D51, 15) * <uint32_t> 0x1B873593
    hash ^= <uint32_t> size
    hash = (hash ^ (hash >> 16)) * <uint32_t> 0x85EBCA6B
    hash = (hash ^ (hash >> 13)) * <uint32_t> 0xC2B2AE35
    return <int32_t> (hash ^ (hash >> 16))


@cython.final
cdef class HashedColumns(Columns):
    """Columns of features by their hashes.

    Parameters
    ----------
    n_columns : int
        Number of columns.
    signed : bool
        Whether to negate the values of half of the features. Values of features that
        share a column then tend to cancel.
    """

    def __cinit__(self, int32_t n_columns, bint signed):
        self._n_columns, self._signed = n_columns, signed

    def __dealloc__(self):
        free(self._text)

    def __len__(self):
        return self._n_columns

    cdef int find(self, Py_ssize_t count, Feature* features, bint grow) except -1:
        """Set the columns of features; if signed, negate values of negative hashes."""
        cdef Py_ssize_t k
        for k in range(count):
            self._place(features + k)
        return 0

    cdef int _place(self, Feature* feature) except -1:
        """Set the column of a feature; if signed, negate the value for some hashes."""
        cdef Py_ssize_t head = 0, size = 0
        cdef const char* text = PyUnicode_AsUTF8AndSize(feature.tail, &size)
        cdef const char* before
        cdef int32_t hash
        if feature.head != NULL:
            before = PyUnicode_AsUTF8AndSize(feature.head, &head)
            reserve(<void**> &self._text, &self._capacity, head + size + 1, 1)
            memcpy(self._text, before, head)
            memcpy(self._text + head, text, size)
            text = self._text
        hash = murmur(text, head + size)
        # The column is |hash| mod n. |-2^31| does not fit int32: scikit-learn then uses
        # 2^31, as here.
        feature.column = (-<Py_ssize_t> hash if hash < 0 else hash) % self._n_columns
        if self._signed and hash < 0:
            feature.value = -feature.value
        return 0

    def places(self, names):
        """Return columns and signs of named features, as arrays."""
        cdef Feature feature
        cdef Py_ssize_t k
        columns = np.empty(len(names), dtype=np.intp)
        signs = np.empty(len(names))
        feature.head = NULL
        for k, name in enumerate(names):
            feature.tail, feature.value = <PyObject*> name, 1.0
            self._place(&feature)
            columns[k], signs[k] = feature.column, feature.value
        return columns, signs
