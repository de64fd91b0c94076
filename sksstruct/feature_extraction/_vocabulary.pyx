"""Columns of features: a hash table of strings that are looked up in two parts.

The feature `name=value` of a dict is looked up without joining the name and the value:
no string is created for a feature that is known or left out. This requires a hash h of
strings with

    h(a + b) = h(a) + P^|a| h(b)        h(s) = sum_k P^k s_k        (mod 2^64)

over code points s_k, independent of their width in memory. P is odd, and random in each
process if Python's string hashes are, so that nobody can prepare colliding features.
"""

cimport cython

from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_Concat
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from sksstruct.utils._simd cimport sks_prefetch


cdef extern from "Python.h":
    # declared for PyObject*: the versions of `cpython.unicode` take owned objects
    int PyUnicode_KIND(PyObject* text) nogil
    void* PyUnicode_DATA(PyObject* text) nogil
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject* text) nogil
    uint32_t PyUnicode_READ(int kind, const void* data, Py_ssize_t k) nogil


# POWERS[k] is P^k. Strings of more than N_POWERS characters are hashed in parts.
cdef enum:
    N_POWERS = 64
cdef uint64_t[N_POWERS + 1] POWERS

# Number of features between the prefetch of a cache line and its use.
cdef enum:
    AHEAD = 16


def _fill_powers():
    cdef uint64_t base = <uint64_t> <Py_ssize_t> hash("sksstruct features")
    cdef Py_ssize_t k
    # numbers that are 5 mod 8 have the largest multiplicative order mod 2^64
    base = (base & ~<uint64_t> 7) | 5
    POWERS[0] = 1
    for k in range(N_POWERS):
        POWERS[k + 1] = POWERS[k] * base


_fill_powers()


cdef uint64_t shift(uint64_t hash, Py_ssize_t length) noexcept nogil:
    """Return P^length h, for the hash h of a string."""
    while length > N_POWERS:
        hash *= POWERS[N_POWERS]
        length -= N_POWERS
    return hash * POWERS[length]


cdef inline uint64_t hash_narrow(const uint8_t* data, Py_ssize_t length) noexcept nogil:
    """Return the hash h of at most N_POWERS characters of one byte each."""
    cdef uint64_t even = 0, odd = 0
    cdef Py_ssize_t k
    # two independent sums, to shorten the chain of dependent additions
    for k in range(0, length - 1, 2):
        even += POWERS[k] * data[k]
        odd += POWERS[k + 1] * data[k + 1]
    if length & 1:
        even += POWERS[length - 1] * data[length - 1]
    return even + odd


cdef uint64_t hash_text(PyObject* text) noexcept:
    """Return the hash h of a str."""
    cdef int kind = PyUnicode_KIND(text)
    cdef const void* data = PyUnicode_DATA(text)
    cdef const uint8_t* narrow = <const uint8_t*> data
    cdef Py_ssize_t length = PyUnicode_GET_LENGTH(text), start, k
    cdef uint64_t total, part
    # fast path of nearly all strings
    if kind == 1 and length <= N_POWERS:
        return hash_narrow(narrow, length)
    # Horner's scheme over parts of N_POWERS characters, from the last to the first
    start, total = length // N_POWERS * N_POWERS, 0
    while start >= 0:
        part = 0
        if kind == 1:
            part = hash_narrow(narrow + start, min(length - start, N_POWERS))
        else:
            for k in range(start, min(length, start + N_POWERS)):
                part += POWERS[k - start] * PyUnicode_READ(kind, data, k)
        total = total * POWERS[N_POWERS] + part
        start -= N_POWERS
    return total


cdef inline uint64_t mixed(uint64_t hash) noexcept nogil:
    """Return a hash h with mixed bits.

    Without this, bit k of h depends only on bits 0 to k of the summands of h.
    """
    hash = (hash ^ (hash >> 32)) * <uint64_t> 0x9E3779B97F4A7C15
    return hash ^ (hash >> 29)


cdef inline bint same_bytes(const char* a, const char* b, size_t size) noexcept nogil:
    """Return whether two blocks of memory, mostly of a few bytes, are equal."""
    cdef uint64_t first, second
    # inline: the call of memcmp would take longer than the comparison
    while size >= 8:
        memcpy(&first, a, 8)
        memcpy(&second, b, 8)
        if first != second:
            return False
        a, b, size = a + 8, b + 8, size - 8
    while size:
        if a[0] != b[0]:
            return False
        a, b, size = a + 1, b + 1, size - 1
    return True


cdef inline bint same_part(PyObject* name, Py_ssize_t first, PyObject* part,
                           Py_ssize_t length) noexcept nogil:
    """Return whether name[first:first + length] is `part`, which has this length."""
    cdef int kind = PyUnicode_KIND(name), other = PyUnicode_KIND(part)
    cdef const void* data = PyUnicode_DATA(name)
    cdef const void* wanted = PyUnicode_DATA(part)
    cdef Py_ssize_t k
    if kind == other:
        return same_bytes(<const char*> data + first * kind, <const char*> wanted,
                          length * kind)
    for k in range(length):
        if PyUnicode_READ(kind, data, first + k) != PyUnicode_READ(other, wanted, k):
            return False
    return True


cdef inline bint is_named(const Feature* feature, PyObject* name) noexcept nogil:
    """Return whether a feature has this name."""
    cdef Py_ssize_t head = 0, tail = PyUnicode_GET_LENGTH(feature.tail)
    if name == feature.tail and feature.head == NULL:
        return True
    if feature.head != NULL:
        head = PyUnicode_GET_LENGTH(feature.head)
    if PyUnicode_GET_LENGTH(name) != head + tail:
        return False
    if head and not same_part(name, 0, feature.head, head):
        return False
    return same_part(name, head, feature.tail, tail)


cdef class Columns:
    """Base class of mappings from features to columns."""

    cdef int find(self, Py_ssize_t count, Feature* features, bint grow) except -1:
        """Set the columns of features, -1 where they have none."""
        raise NotImplementedError


@cython.final
cdef class Vocabulary(Columns):
    """Columns of features, numbered from 0.

    Parameters
    ----------
    names : iterable of str
        Features, all different.

    Attributes
    ----------
    names : list of str
        Features in the order of their columns.
    spellings : list of (str, str)
        See `sksstruct.utils._names.FeatureNames`.
    """

    def __cinit__(self, names=()):
        cdef Feature feature
        self.names, self.spellings = [], []
        self._resize(16)
        feature.head = NULL
        for name in names:
            feature.tail = <PyObject*> name
            feature.hash = mixed(hash_text(feature.tail))
            self._add(&feature)

    def __dealloc__(self):
        # `names` owns the strings of the slots
        free(self._slots)

    def __len__(self):
        return len(self.names)

    cdef int find(self, Py_ssize_t count, Feature* features, bint grow) except -1:
        """Set the columns of features; of unknown ones to -1, or a new one (`grow`)."""
        cdef Py_ssize_t k
        # The table and its strings do not fit the caches: prefetch the slot of a
        # feature 2 * AHEAD features before its look-up, and the slot's string AHEAD
        # features before.
        for k in range(count + 2 * AHEAD):
            if k < count:
                features[k].hash = mixed(features[k].hash)
                sks_prefetch(self._slot(features[k].hash), sizeof(Slot))
            if AHEAD <= k < count + AHEAD:
                sks_prefetch(self._slot(features[k - AHEAD].hash).name, 128)
            if k >= 2 * AHEAD:
                self._find_one(features + k - 2 * AHEAD, grow)
        return 0

    cdef inline Slot* _slot(self, uint64_t hash) noexcept:
        """Return the slot in which the search for a hash begins."""
        return self._slots + (hash & (self._capacity - 1))

    cdef inline int _find_one(self, Feature* feature, bint grow) except -1:
        """Set the column of a feature; if unknown, to -1, or a new one if `grow`."""
        cdef uint32_t tag = feature.hash >> 32
        cdef Slot* slot = self._slot(feature.hash)
        cdef Slot* end = self._slots + self._capacity
        feature.column = -1
        # linear probing, which ends at a free slot
        while slot.column >= 0:
            if slot.tag == tag and is_named(feature, slot.name):
                feature.column = slot.column
                return 0
            slot = slot + 1 if slot + 1 < end else self._slots
        if grow:
            feature.column = self._add(feature)
        return 0

    cdef Py_ssize_t _add(self, const Feature* feature) except -1:
        """Add a new feature, and return its column."""
        cdef Py_ssize_t column = len(self.names)
        cdef object name = <object> feature.tail
        cdef Slot* slot
        if column >= 0x7FFFFFFF:
            raise OverflowError(
                "X has more than 2147483647 features: use a SequenceHasher")
        if feature.head != NULL:
            name = PyUnicode_Concat(<object> feature.head, name)
        # at most 2/3 of the slots are filled, so that searches are short
        if 3 * (column + 1) > 2 * self._capacity:
            self._resize(2 * self._capacity)
        self.names.append(name)
        slot = self._free_slot(feature.hash)
        slot.tag, slot.column = feature.hash >> 32, <int> column
        slot.name = <PyObject*> name
        return column

    cdef Slot* _free_slot(self, uint64_t hash) noexcept:
        """Return the first free slot for a hash."""
        cdef Slot* slot = self._slot(hash)
        cdef Slot* end = self._slots + self._capacity
        while slot.column >= 0:
            slot = slot + 1 if slot + 1 < end else self._slots
        return slot

    cdef int _resize(self, Py_ssize_t capacity) except -1:
        """Move the features to a new table, whose number of slots is a power of two."""
        cdef Slot* old = self._slots
        cdef Slot* slot
        cdef Py_ssize_t k, old_capacity = self._capacity
        slot = <Slot*> malloc(capacity * sizeof(Slot))
        if slot == NULL:
            raise MemoryError()
        self._slots, self._capacity = slot, capacity
        for k in range(capacity):
            self._slots[k].column, self._slots[k].name = -1, NULL
        for k in range(old_capacity):
            if old[k].column >= 0:
                # hash again, as a slot has only half of the hash
                slot = self._free_slot(mixed(hash_text(old[k].name)))
                slot[0] = old[k]
        free(old)
        return 0
