cdef class Tree:
    cdef readonly object edges
    cdef readonly Py_ssize_t n_variables, root, most_children
    cdef const Py_ssize_t[:, ::1] _ends
    cdef Py_ssize_t[::1] _parent    # root for the roots of trees, -1 for the root
    cdef Py_ssize_t[::1] _edge      # edge to the parent; -1 where it is the root
    cdef Py_ssize_t[::1] _order     # parents first, the root to begin with
    cdef Py_ssize_t[::1] _children  # those of v: _child_of[_children[v]:[v + 1]]
    cdef Py_ssize_t[::1] _child_of
