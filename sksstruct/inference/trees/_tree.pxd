from libc.stdint cimport int32_t


cdef struct Branch:
    # Of one variable: its first child, and the edge and variable above it; and what
    # comes after it in the list of its parent's children. While leaves are taken off,
    # `child` is the number of neighbors left, and `parent` and `edge` are all those
    # and their edges, put together by exclusive or: of a leaf, the only one.
    int32_t child, parent, edge, sibling


cdef class Tree:
    cdef readonly object edges
    cdef readonly Py_ssize_t n_variables, root, most_children
    cdef const Py_ssize_t[:, ::1] _ends
    cdef int32_t[::1] _parent       # root for the roots of trees, -1 for the root
    cdef int32_t[::1] _edge         # edge to the parent; -1 where it is the root
    cdef int32_t[::1] _order        # parents first, the root to begin with
    # By place in the order: the place of the parent; those of the children, _below[k]
    # to _below[k + 1] - 1; and the edge to the parent.
    cdef int32_t[::1] _above, _below, _edge_above
    cdef Py_ssize_t[::1] _children  # those of v: _child_of[_children[v]:[v + 1]]
    cdef Py_ssize_t[::1] _child_of

    cdef bint _hang(self, Branch* branches) noexcept nogil
    cdef void _put_in_order(self, Branch* branches) noexcept nogil
