"""Sampling in proportion to weights that change at every draw."""

import numpy as np


cdef class SumTree:
    """Complete binary tree of partial sums: setting and drawing cost O(log n)."""

    def __init__(self, Py_ssize_t n):
        self.n = n
        self._leaves = 1
        while self._leaves < n:
            self._leaves *= 2
        self._tree = np.zeros(2 * self._leaves)

    cdef void set(self, Py_ssize_t i, double value) noexcept nogil:
        cdef Py_ssize_t k = self._leaves + i
        self._tree[k] = value
        k //= 2
        while k >= 1:
            # Sums are formed anew, not updated: no drift, and no negative rest.
            self._tree[k] = self._tree[2 * k] + self._tree[2 * k + 1]
            k //= 2

    cdef double total(self) noexcept nogil:
        return self._tree[1]

    cdef Py_ssize_t find(self, double uniform) noexcept nogil:
        """Index drawn by a uniform number in [0, 1)."""
        cdef double rest = uniform * self._tree[1]
        cdef Py_ssize_t k = 1
        while k < self._leaves:
            k *= 2
            # Never walk into an empty half, whatever rounding did to the rest.
            if rest >= self._tree[k] and self._tree[k + 1] > 0.0:
                rest -= self._tree[k]
                k += 1
        return k - self._leaves

    def fill(self, const double[::1] values):
        """Set all weights."""
        cdef Py_ssize_t i, k
        for i in range(self.n):
            self._tree[self._leaves + i] = values[i]
        for k in range(self._leaves - 1, 0, -1):
            self._tree[k] = self._tree[2 * k] + self._tree[2 * k + 1]

    def draw(self, const double[::1] uniforms):
        """Indices drawn by given uniform numbers in [0, 1)."""
        return np.array([self.find(x) for x in uniforms], dtype=np.intp)
