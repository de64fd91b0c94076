"""What is known of a cluster for the values of its separator: goods and nogoods.

C. Terrioux and P. Jegou, Hybrid backtracking bounded by tree-decomposition of
constraint networks, Artificial Intelligence 146, 2003. A good has the best values and
their cost, a nogood a lower bound only.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from sksstruct.utils._memory cimport reserve


@cython.final
cdef class Goods:
    """Hash table of bounds."""

    def __cinit__(self):
        self._grow()

    def __dealloc__(self):
        free(self.goods)
        free(self.values)
        free(self._slots)

    cdef Py_ssize_t _slot(self, Py_ssize_t cluster, int64_t code) noexcept nogil:
        """The slot of a key, or the free one where it belongs."""
        cdef uint64_t mixed = (<uint64_t>code + 1) * <uint64_t>0x9E3779B97F4A7C15
        cdef Py_ssize_t slot
        # high bits depend on all of the key
        mixed = (mixed ^ (mixed >> 32) ^ <uint64_t>cluster) * (
            <uint64_t>0xD6E8FEB86659FD93)
        slot = <Py_ssize_t>(mixed >> 32) & (self._n_slots - 1)
        # there is a free one always
        while self._slots[slot] >= 0 and (
                self.goods[self._slots[slot]].cluster != cluster
                or self.goods[self._slots[slot]].code != code):
            slot = (slot + 1) & (self._n_slots - 1)
        return slot

    cdef Good* find(self, Py_ssize_t cluster, int64_t code) noexcept nogil:
        """What is known of a key; NULL: nothing."""
        cdef int32_t k = self._slots[self._slot(cluster, code)]
        return &self.goods[k] if k >= 0 else NULL

    cdef Good* insert(self, Py_ssize_t cluster, int64_t code) except NULL nogil:
        """Room for what is known of a key, with a lower bound of its own if it is new.
        """
        cdef Py_ssize_t slot = self._slot(cluster, code)
        cdef Good* good
        if self._slots[slot] < 0:
            # at most half full, so that slots are found at once
            if 2 * (self.n + 1) > self._n_slots:
                self._grow()
                slot = self._slot(cluster, code)
            reserve(<void**>&self.goods, &self._capacity, self.n + 1, sizeof(Good))
            good = &self.goods[self.n]
            good.cluster, good.code, good.at = <int32_t>cluster, code, -1
            good.n_searches = 0
            # the first bound that is known is above it
            good.lower = good.upper = -(1 << 62)
            self._slots[slot] = <int32_t>self.n
            self.n += 1
        return &self.goods[self._slots[slot]]

    cdef int keep(self, Good* good, const int32_t* values,
                  Py_ssize_t n) except -1 nogil:
        """Keep the best values of a cluster."""
        reserve(<void**>&self.values, &self._values_capacity, self._n_values + n,
                sizeof(int32_t))
        # once for each key: what is best stays best
        memcpy(&self.values[self._n_values], values, n * sizeof(int32_t))
        good.at = self._n_values
        self._n_values += n
        return 0

    cdef int _grow(self) except -1 nogil:
        """Twice as many slots."""
        cdef Py_ssize_t n = max(2 * self._n_slots, 1024), k
        reserve(<void**>&self._slots, &self._slots_capacity, n, sizeof(int32_t))
        # all keys get a new slot
        self._n_slots = n
        memset(self._slots, 255, n * sizeof(int32_t))
        for k in range(self.n):
            self._slots[self._slot(self.goods[k].cluster, self.goods[k].code)] = (
                <int32_t>k)
        return 0
