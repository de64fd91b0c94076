"""Sampling in proportion to weights that change at every draw.

A complete binary tree of partial sums: node 1 is the root, and node k has the sum of
its children 2k and 2k + 1. The weights are the leaves, in order; the last row is filled
up with zeros, which are never drawn.
"""

import numpy as np


cdef class SumTree:
    """Tree that updates weights, and draws in proportion to them, in time O(log n).

    Parameters
    ----------
    n : int
        Number of weights, which are initially zero.
    """

    def __init__(self, Py_ssize_t n):
        self.n = n
        # with a power of two, all leaves are in one row, and every draw ends at a leaf
        self._leaves = 1
        while self._leaves < n:
            self._leaves *= 2
        # node 0 is unused, so that the children of node k are 2k and 2k + 1
        self._tree = np.zeros(2 * self._leaves)

    cdef void set(self, Py_ssize_t index, double value) noexcept nogil:
        """Set one weight, and update the sums of the nodes above."""
        cdef Py_ssize_t node = self._leaves + index
        self._tree[node] = value
        node //= 2
        while node >= 1:
            # sums are recomputed, as updates would add up rounding errors
            self._tree[node] = self._tree[2 * node] + self._tree[2 * node + 1]
            node //= 2

    cdef double total(self) noexcept nogil:
        """Return the sum of all weights."""
        return self._tree[1]

    cdef Py_ssize_t find(self, double uniform) noexcept nogil:
        """Return the index of the weight that a uniform number in [0, 1) selects."""
        cdef double remainder = uniform * self._tree[1]
        cdef Py_ssize_t node = 1
        while node < self._leaves:
            node *= 2
            # never enter a subtree with sum zero, whatever the rounding errors of the
            # remainder
            if remainder >= self._tree[node] and self._tree[node + 1] > 0.0:
                remainder -= self._tree[node]
                node += 1
        return node - self._leaves

    def fill(self, const double[::1] values):
        """Set all weights, and compute the sums of all nodes."""
        cdef Py_ssize_t index, node
        for index in range(self.n):
            self._tree[self._leaves + index] = values[index]
        # from the last node to the root, so that children come before their parent
        for node in range(self._leaves - 1, 0, -1):
            self._tree[node] = self._tree[2 * node] + self._tree[2 * node + 1]

    def draw(self, const double[::1] uniforms):
        """Return the indices of the weights that uniform numbers in [0, 1) select."""
        return np.array([self.find(uniform) for uniform in uniforms], dtype=np.intp)
