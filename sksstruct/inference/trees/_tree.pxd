from libc.stdint cimport int32_t


cdef struct Branch:
    # Of one variable: the first child, the parent, the edge to the parent, and the next
    # sibling. While leaves are removed, `child` counts the remaining neighbors, and
    # `parent` and `edge` are the exclusive or of the remaining neighbors and of their
    # edges: for a leaf, the only neighbor and the only edge.
    int32_t child, parent, edge, sibling


cdef class Tree:
    cdef readonly object edges
    cdef readonly Py_ssize_t n_variables, root, most_children
    # arrays whose memory the pointers below refer to
    cdef tuple _arrays, _lists
    cdef const Py_ssize_t* _ends  # (n_edges, 2) the variables of each edge
    cdef Py_ssize_t _n_edges
    # parent of each variable. The parent of the root of a tree is the root of roots,
    # variable number `root`, which has parent -1.
    cdef int32_t* _parent
    # number of the edge from each variable to its parent; -1 for the roots of trees
    cdef int32_t* _edge
    # order of messages: parents first, beginning with the root of roots
    cdef int32_t* _order
    # By place in the order: `_above` has the place of the parent, `_below` the place of
    # the first child, and `_edge_above` the edge to the parent. The children of place k
    # are at places _below[k] to _below[k + 1] - 1.
    cdef int32_t* _above
    cdef int32_t* _below
    cdef int32_t* _edge_above
    # children of v: _child_of[_children[v]:_children[v + 1]]
    cdef Py_ssize_t* _children
    cdef Py_ssize_t* _child_of

    cdef Py_ssize_t _find_cycle(self, Py_ssize_t* leader) noexcept nogil
    cdef bint _find_parents(self, Branch* branches) noexcept nogil
    cdef void _number_breadth_first(self, Branch* branches) noexcept nogil
