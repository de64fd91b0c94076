from libc.stdint cimport int32_t, int64_t, uint8_t

from sksstruct.inference.map.branch_and_bound._network cimport CostNetwork


# Variables that wait, each once, taken from the lowest or from the highest one.
cdef struct Queue:
    uint8_t* waits
    Py_ssize_t n, low, high
    # none but these
    Py_ssize_t begin, end


cdef class Consistency(CostNetwork):
    # variables that lost values, that got costs, and whose supports may be gone
    cdef Queue _lost, _risen, _doubtful
    cdef int64_t _settled_c0, _settled_limit
    # the value of each variable that was seen to cost nothing, and the factor at fault
    cdef int32_t* support
    cdef readonly Py_ssize_t culprit
    # gains that are too small to be worth the work of finding them
    cdef int64_t least_gain

    cdef bint propagate(self) except -1 nogil
    cdef void focus(self, Py_ssize_t begin, Py_ssize_t own_end,
                    Py_ssize_t end) noexcept nogil
    cdef void wake(self, Py_ssize_t variable) noexcept nogil
    cdef bint settle_all(self) except -1 nogil
    cdef void forget(self) noexcept nogil
    cdef bint _arcs(self, Py_ssize_t variable) except -1 nogil
    cdef bint _directed_arcs(self, Py_ssize_t variable) except -1 nogil
    cdef bint _project(self, Py_ssize_t factor, Py_ssize_t target,
                       bint full) except -1 nogil
    cdef void _minimize_pair(self, Py_ssize_t factor, Py_ssize_t target,
                             bint full) noexcept nogil
    cdef int _extend(self, Py_ssize_t factor, Py_ssize_t target) except -1 nogil
    cdef int _extend_pair(self, Py_ssize_t factor, Py_ssize_t target) except -1 nogil
    cdef bint _accept(self, Py_ssize_t target) except -1 nogil
    cdef bint _has_support(self, Py_ssize_t variable, Py_ssize_t value) noexcept nogil
    cdef bint _exists(self, Py_ssize_t variable) except -1 nogil
    cdef int64_t _cost_with_earlier(self, Py_ssize_t variable, Py_ssize_t value,
                                    int64_t most) noexcept nogil
    cdef bint _pull(self, Py_ssize_t variable) except -1 nogil
    cdef int _push(self, Py_ssize_t variable, bint backward) except -1 nogil
    cdef bint _goes_on(self, Py_ssize_t i, bint backward) noexcept nogil
