# Disjoint sets of numbered items (union-find; Tarjan, JACM 22, 1975): each item points
# to an item of its set, and the root to itself. To join two sets, let one root point to
# the other.

from libc.stdint cimport int32_t


cdef inline int32_t root_of(int32_t* parent, int32_t item) noexcept nogil:
    """Return the root of an item's set, halving the path to it."""
    while parent[item] != item:
        parent[item] = parent[parent[item]]
        item = parent[item]
    return item
