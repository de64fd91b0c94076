from libc.stdint cimport int32_t, int64_t, uint8_t

from sksstruct.inference.map.branch_and_bound._consistency cimport Consistency
from sksstruct.inference.map.branch_and_bound._tail cimport Tail


cdef class Descent:
    cdef readonly Consistency network
    cdef readonly bint found
    cdef readonly int64_t best_cost
    cdef readonly Py_ssize_t n_dead_ends
    cdef int64_t _grain
    cdef Tail _tail
    cdef object _owned
    cdef int32_t* _hint
    cdef double* _weight
    # decisions on the way: a variable, the values that it got or lost, up to the first
    # of the next one, the mark to go back to, the bound before it, and whether the
    # other way is open
    # ones from `_lowest` on are those of the present search
    cdef readonly Py_ssize_t depth
    cdef Py_ssize_t _root, _lowest, _last
    cdef int32_t* _variable
    cdef int32_t* _chosen
    cdef Py_ssize_t* _first
    cdef Py_ssize_t* _mark
    cdef int64_t* _bound
    cdef uint8_t* _open
    cdef readonly bint dead

    cdef bint _run(self, Consistency network, int64_t work,
                   Py_ssize_t dead_ends) except -1 nogil
    cdef int _finish(self, Consistency network) except -1 nogil
    cdef int _give(self, Consistency network, Py_ssize_t variable) except -1 nogil
    cdef int _follow(self, Consistency network, Py_ssize_t variable,
                     const int32_t* chosen, Py_ssize_t n, bint keep) except -1 nogil
    cdef bint _go_back(self, Consistency network) except -1 nogil
    cdef void _blame(self, Consistency network, Py_ssize_t variable) noexcept nogil
    cdef Py_ssize_t _choose(self, Consistency network) noexcept nogil
    cdef Py_ssize_t _fewest_values(self, Consistency network, Py_ssize_t begin,
                                   Py_ssize_t end, bint core) noexcept nogil
    cdef Py_ssize_t _best_value(self, Consistency network,
                                Py_ssize_t variable) noexcept nogil
    cdef Py_ssize_t _better_half(self, Consistency network, Py_ssize_t variable,
                                 int32_t* out) noexcept nogil
