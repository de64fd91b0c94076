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
    # what the pointers point into, and the two ends of each edge
    cdef tuple _arrays, _lists
    cdef const Py_ssize_t* _ends
    cdef Py_ssize_t _n_edges
    cdef int32_t* _parent       # root for the roots of trees, -1 for the root
    cdef int32_t* _edge         # edge to the parent; -1 where it is the root
    cdef int32_t* _order        # parents first, the root to begin with
    # By place in the order: the place of the parent; those of the children, _below[k]
    # to _below[k + 1] - 1; and the edge to the parent.
    cdef int32_t* _above
    cdef int32_t* _below
    cdef int32_t* _edge_above
    cdef Py_ssize_t* _children  # those of v: _child_of[_children[v]:[v + 1]]
    cdef Py_ssize_t* _child_of

    cdef Py_ssize_t _find_cycle(self, Py_ssize_t* leader) noexcept nogil
    cdef bint _hang(self, Branch* branches) noexcept nogil
    cdef void _put_in_order(self, Branch* branches) noexcept nogil
