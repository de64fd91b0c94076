from libc.stdint cimport int8_t, int32_t

# FREE, TERMINAL and ORPHAN are the values of `FlowNode.parent` that are not the number
# of an arc. SOURCE and SINK are the values of `FlowNode.side`.
cdef enum:
    FREE = -1
    TERMINAL = -2
    ORPHAN = -3
    SOURCE = 0
    SINK = 1

# Members that the search reads together are adjacent in memory: reading a variable or
# an arc takes one cache line.
cdef struct FlowNode:
    # `parent`: arc to the parent, or FREE, TERMINAL or ORPHAN. `distance`: number of
    # arcs on the path to the terminal. `time`: value of `_now` at which the distance
    # was confirmed. `side`: tree of the variable. `is_active`: whether the variable is
    # queued for growth.
    int32_t parent, time, distance
    int8_t side, is_active

cdef struct FlowArc:
    int32_t head, sister


cdef class FlowTrees:
    cdef readonly object edges
    cdef readonly Py_ssize_t n_variables
    # n_variables and the number of edges
    cdef Py_ssize_t _n, _m
    # arrays whose memory the pointers refer to
    cdef object _owned
    # (n_edges, 2) the two variables of each edge
    cdef const Py_ssize_t* _ends
    # An arc leaves each end of an edge toward the other end, its head; the two arcs are
    # sisters. Variable v has the arcs _first[v] to _first[v + 1] - 1, and _arc_of[e]
    # leaves the first end of edge e.
    cdef int32_t* _first
    cdef int32_t* _arc_of
    cdef FlowArc* _arcs
    # `_residual`: residual capacity of each arc. `_terminal`: residual capacity between
    # each variable and the terminals, from the source if positive, to the sink if
    # negative. `_flow`: initial flow of the next problem, by edge.
    cdef double* _residual
    cdef double* _terminal
    cdef double* _flow
    cdef FlowNode* _nodes
    # Two circular queues: active variables, from which trees grow, and orphans.
    cdef int32_t* _active
    cdef int32_t* _orphans
    cdef Py_ssize_t _active_first, _active_count, _orphan_first, _orphan_count
    # Number of augmentations and forced changes so far. A distance is confirmed if its
    # `time` is `_now`.
    cdef int32_t _now

    cdef inline bint _from_source(self, Py_ssize_t variable) noexcept nogil:
        """Whether a variable is on the source's side of the cut."""
        return (self._nodes[variable].parent != FREE
                and self._nodes[variable].side == SOURCE)

    cdef inline double _residual_of(self, Py_ssize_t arc, bint along) noexcept nogil:
        """Residual capacity along an arc, or against the arc."""
        # without a branch, which would often be mispredicted
        cdef Py_ssize_t sister = self._arcs[arc].sister
        return self._residual[sister + along * (arc - sister)]

    cdef inline bint _same_tree(self, Py_ssize_t variable,
                                Py_ssize_t neighbor) noexcept nogil:
        """Whether a neighbor is in a variable's tree; orphans count until set free."""
        return (self._nodes[neighbor].side == self._nodes[variable].side
                and self._nodes[neighbor].parent != FREE)

    cdef void _link_arcs(self) noexcept nogil
    cdef void _activate(self, Py_ssize_t variable) noexcept nogil
    cdef void _orphan(self, Py_ssize_t variable) noexcept nogil
    cdef void _attach_to_terminal(self, Py_ssize_t variable) noexcept nogil
    cdef void _start(self) noexcept nogil
    cdef void _fill_shortest(self) noexcept nogil
    cdef void _force(self, Py_ssize_t variable, double capacity) noexcept nogil
    cdef void _maximize(self) noexcept nogil
    cdef Py_ssize_t _grow(self, Py_ssize_t variable) noexcept nogil
    cdef void _augment(self, Py_ssize_t joint) noexcept nogil
    cdef void _adopt_all(self) noexcept nogil
    cdef void _adopt(self, Py_ssize_t variable) noexcept nogil
    cdef Py_ssize_t _nearest_parent(self, Py_ssize_t orphan,
                                    int32_t* steps) noexcept nogil
    cdef int32_t _steps_to_terminal(self, Py_ssize_t variable) noexcept nogil
    cdef void _set_free(self, Py_ssize_t orphan) noexcept nogil
