"""Hash table that numbers pairs of labels in the order of their insertion."""

cimport cython

import numpy as np

from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from sksstruct.utils._memory cimport resize
from sksstruct.utils._simd cimport sks_prefetch


@cython.final
cdef class PairIndex:
    """Hash table that numbers some of the pairs of n labels.

    Parameters
    ----------
    n_labels : int
        Number of labels.

    Attributes
    ----------
    n_pairs : int
        Number of pairs that have a number.
    """

    def __cinit__(self, Py_ssize_t n_labels):
        if not 1 <= n_labels < 2**31:
            raise ValueError(f"n_labels must be from 1 to 2**31 - 1, got {n_labels}")
        self.n_labels = n_labels
        # a power of two, so that a mask replaces the remainder
        self._hash_size = 64
        self._hash = <PairSlot*> calloc(self._hash_size, sizeof(PairSlot))
        if self._hash == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self._hash)
        free(self._ends)

    def __reduce__(self):
        return index_of, (self.n_labels, *self.pairs())

    def extend(self, const int32_t[::1] first, const int32_t[::1] second):
        """Number the given pairs that have no number; return the number of each."""
        cdef Py_ssize_t k
        numbers = np.empty(first.shape[0], dtype=np.intp)
        cdef Py_ssize_t[::1] out = numbers
        for k in range(first.shape[0]):
            out[k] = self.add(first[k], second[k])
        return numbers

    def pairs(self):
        """Return first and second labels, in the order of the pairs' numbers."""
        cdef Py_ssize_t k
        ends = np.empty((2, self.n_pairs), dtype=np.int32)
        cdef int32_t[:, ::1] out = ends
        for k in range(self.n_pairs):
            out[0, k], out[1, k] = self._ends[2 * k], self._ends[2 * k + 1]
        return ends[0], ends[1]

    cdef Py_ssize_t _hashed(self, Py_ssize_t first, Py_ssize_t second) noexcept nogil:
        """Slot at which the search for a pair begins."""
        cdef uint64_t key = (<uint64_t> first) * (<uint64_t> self.n_labels)
        key += <uint64_t> second
        # Slots of neighboring pairs should be far apart. Multiplying by 2^64 over the
        # golden ratio moves the difference of two keys into the high bits (Knuth, vol.
        # 3, 6.4); the shift copies the high bits to the bits that select the slot.
        key *= <uint64_t> 0x9E3779B97F4A7C15
        key ^= key >> 32
        return <Py_ssize_t> (key & <uint64_t> (self._hash_size - 1))

    cdef Py_ssize_t _slot(self, Py_ssize_t first, Py_ssize_t second) noexcept nogil:
        """Slot of a pair, or the empty slot into which the pair would go."""
        cdef Py_ssize_t slot = self._hashed(first, second)
        # At least half of the slots are empty, so that the search ends. Pairs are never
        # removed, so that a search may end at an empty slot.
        while self._hash[slot].number:
            if self._hash[slot].first == first and self._hash[slot].second == second:
                break
            slot = (slot + 1) & (self._hash_size - 1)
        return slot

    cdef void prefetch(self, Py_ssize_t size, const int32_t* labels) noexcept nogil:
        """Prefetch the slots of all pairs of neighboring labels of a labeling."""
        cdef Py_ssize_t t
        for t in range(1, size):
            sks_prefetch(&self._hash[self._hashed(labels[t - 1], labels[t])],
                         sizeof(PairSlot))

    cdef Py_ssize_t find(self, Py_ssize_t first, Py_ssize_t second) noexcept nogil:
        """Number of a pair; -1 for a pair without a number."""
        return self._hash[self._slot(first, second)].number - 1

    cdef Py_ssize_t add(self, Py_ssize_t first, Py_ssize_t second) except -1 nogil:
        """Number of a pair, which is added if it is absent."""
        cdef Py_ssize_t pair = self.find(first, second)
        if pair >= 0:
            return pair
        # memory is reserved first: a failure must not leave a pair half added
        if self.n_pairs == self._capacity:
            self._widen()
        pair = self.n_pairs
        self._ends[2 * pair] = <int32_t> first
        self._ends[2 * pair + 1] = <int32_t> second
        self._insert(pair)
        self.n_pairs += 1
        return pair

    cdef void _insert(self, Py_ssize_t pair) noexcept nogil:
        """Put a pair, whose labels are in `_ends`, into the hash table."""
        cdef int32_t first = self._ends[2 * pair], second = self._ends[2 * pair + 1]
        # the slot repeats the labels, so that a search reads only one place in memory
        self._hash[self._slot(first, second)] = PairSlot(
            first, second, <int32_t> (pair + 1))

    cdef int _widen(self) except -1 nogil:
        """Make room for more pairs; half of the hash table stays empty."""
        cdef Py_ssize_t capacity = 2 * self._capacity if self._capacity else 32, pair
        resize(<void**> &self._ends, 2 * capacity * sizeof(int32_t))
        if 2 * capacity > self._hash_size:
            resize(<void**> &self._hash, 2 * capacity * sizeof(PairSlot))
            self._hash_size = 2 * capacity
            # the slot of a pair depends on the table's size: all pairs are inserted
            # again
            memset(self._hash, 0, self._hash_size * sizeof(PairSlot))
            for pair in range(self.n_pairs):
                self._insert(pair)
        self._capacity = capacity
        return 0


def index_of(n_labels, first, second):
    """Return a `PairIndex` that numbers the pairs in the given order."""
    index = PairIndex(n_labels)
    index.extend(first, second)
    return index
