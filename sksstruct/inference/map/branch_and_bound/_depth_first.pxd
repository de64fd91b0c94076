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
    # decisions on the path from the root: variable, chosen values (up to `_first` of
    # the next decision), trail mark and bound before the decision, and whether the
    # second branch is open; backtracking stops at `_lowest`
    cdef readonly Py_ssize_t depth
    cdef Py_ssize_t _root_mark, _lowest, _conflict
    cdef int32_t* _variable
    cdef int32_t* _chosen
    cdef Py_ssize_t* _first
    cdef Py_ssize_t* _mark
    cdef int64_t* _bound
    cdef uint8_t* _open
    cdef readonly bint dead

    cdef bint _run(self, Consistency network, int64_t work,
                   Py_ssize_t dead_ends) except -1 nogil
    cdef int _solve_leaf(self, Consistency network) except -1 nogil
    cdef int _decide(self, Consistency network, Py_ssize_t variable) except -1 nogil
    cdef int _apply(self, Consistency network, Py_ssize_t variable,
                    const int32_t* chosen, Py_ssize_t n, bint keep) except -1 nogil
    cdef bint _backtrack(self, Consistency network) except -1 nogil
    cdef void _blame(self, Consistency network, Py_ssize_t variable) noexcept nogil
    cdef Py_ssize_t _choose(self, Consistency network) noexcept nogil
    cdef Py_ssize_t _fewest_values(self, Consistency network, Py_ssize_t begin,
                                   Py_ssize_t end, bint core) noexcept nogil
    cdef Py_ssize_t _best_value(self, Consistency network,
                                Py_ssize_t variable) noexcept nogil
    cdef Py_ssize_t _better_half(self, Consistency network, Py_ssize_t variable,
                                 int32_t* out) noexcept nogil
