from libc.stdint cimport int8_t, int32_t

cdef enum:
    FREE = -1
    TERMINAL = -2
    ORPHAN = -3
    SOURCE = 0
    SINK = 1


cdef class FlowTrees:
    cdef readonly object edges
    cdef readonly Py_ssize_t n_variables
    cdef Py_ssize_t _n, _m
    cdef const Py_ssize_t[:, ::1] _ends
    # arcs of variable v: first[v] <= a < first[v + 1]; arc[e] goes along edge e
    cdef int32_t[::1] _first, _head, _sister, _arc
    cdef double[::1] _residual, _terminal, _flow
    # trees: arc to the parent, side, and how far the terminal was at which time
    cdef int32_t[::1] _parent, _time, _distance
    cdef int8_t[::1] _side
    # variables to grow from, and those that lost their parent; circular
    cdef int32_t[::1] _active, _orphans
    cdef int8_t[::1] _is_active
    cdef Py_ssize_t _active_first, _active_count, _orphan_first, _orphan_count
    cdef int32_t _now

    cdef inline bint _from_source(self, Py_ssize_t v) noexcept nogil:
        """Whether a variable is on the source's side of the cut."""
        return self._parent[v] != FREE and self._side[v] == SOURCE

    cdef void _activate(self, Py_ssize_t v) noexcept nogil
    cdef void _orphan(self, Py_ssize_t v) noexcept nogil
    cdef void _root(self, Py_ssize_t v) noexcept nogil
    cdef void _start(self) noexcept nogil
    cdef void _force(self, Py_ssize_t v, double capacity) noexcept nogil
    cdef void _maximise(self) noexcept nogil
    cdef Py_ssize_t _grow(self, Py_ssize_t v) noexcept nogil
    cdef void _augment(self, Py_ssize_t joint) noexcept nogil
    cdef void _adopt_all(self) noexcept nogil
    cdef int32_t _origin(self, Py_ssize_t v) noexcept nogil
    cdef void _adopt(self, Py_ssize_t v) noexcept nogil
