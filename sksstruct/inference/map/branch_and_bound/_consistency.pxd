from libc.stdint cimport int32_t, int64_t, uint8_t

from sksstruct.inference.map.branch_and_bound._network cimport CostNetwork


# Queue of variables, from which the lowest or the highest variable is removed. `waits`
# has a flag for each variable; the `n` variables in the queue are from `low` to `high`.
cdef struct Queue:
    uint8_t* waits
    Py_ssize_t n, low, high
    # only variables from `begin` to `end` - 1 enter the queue
    Py_ssize_t begin, end


cdef class Consistency(CostNetwork):
    # queues of variables that lost values, of variables whose costs rose, and of
    # variables whose existential support may have lost its full supports
    cdef Queue _lost, _risen, _doubtful
    # c0 and limit when `settle_all` checked all values; -1: check again
    cdef int64_t _settled_c0, _settled_limit
    # existential support of each variable, and the factor of the last projection
    cdef int32_t* support
    cdef readonly Py_ssize_t culprit
    # existential projections are left out if they would raise c0 by less than this
    cdef int64_t least_gain

    cdef bint propagate(self) except -1 nogil
    cdef void focus(self, Py_ssize_t begin, Py_ssize_t own_end,
                    Py_ssize_t end) noexcept nogil
    cdef void wake(self, Py_ssize_t variable) noexcept nogil
    cdef bint settle_all(self) except -1 nogil
    cdef void forget(self) noexcept nogil
    cdef bint _restore_supports(self, Py_ssize_t variable) except -1 nogil
    cdef bint _restore_full_supports(self, Py_ssize_t variable) except -1 nogil
    cdef bint _project(self, Py_ssize_t factor, Py_ssize_t target,
                       bint full) except -1 nogil
    cdef void _minimize_pair(self, Py_ssize_t factor, Py_ssize_t target,
                             bint full) noexcept nogil
    cdef int _extend(self, Py_ssize_t factor, Py_ssize_t target) except -1 nogil
    cdef int _extend_pair(self, Py_ssize_t factor, Py_ssize_t target) except -1 nogil
    cdef bint _project_least(self, Py_ssize_t target) except -1 nogil
    cdef bint _has_support(self, Py_ssize_t variable, Py_ssize_t value) noexcept nogil
    cdef bint _restore_existential(self, Py_ssize_t variable) except -1 nogil
    cdef int64_t _cost_with_earlier(self, Py_ssize_t variable, Py_ssize_t value,
                                    int64_t most) noexcept nogil
    cdef bint _collect(self, Py_ssize_t variable) except -1 nogil
    cdef int _share_out(self, Py_ssize_t variable, bint backward) except -1 nogil
    cdef bint _continues(self, Py_ssize_t i, bint backward) noexcept nogil
