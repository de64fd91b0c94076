cimport cython
from libc.stdint cimport int32_t, uint64_t

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.local_search._window cimport Window

cdef enum:
    # A table of so many variables, even binary ones, is beyond every budget.
    MAX_NEIGHBORS = 24

# Places that share a table with another one.
ctypedef int32_t[MAX_NEIGHBORS] Neighbors


@cython.final
cdef class EliminationOrder:
    # by place in the window: places that share a table with it, and its rank
    cdef Neighbors* neighbors
    cdef int32_t* n_neighbors
    cdef int32_t* rank
    # places: those eliminated, in their order, then those that are left
    cdef int32_t* order
    cdef Py_ssize_t n_eliminated
    # who keeps its state, and what eliminating the others costs
    cdef readonly Py_ssize_t n_fixed, n_entries
    # where each place is in `order`; places that were leaves when they were noted
    cdef int32_t* _index
    cdef int32_t* _leaves
    cdef Py_ssize_t _end, _n_leaves
    cdef double _spent

    cdef bint plan(self, Problem problem, Window window, double budget, double total,
                   bint all_or_nothing, uint64_t* random) noexcept nogil
    cdef void _connect(self, Problem problem, Window window) noexcept nogil
    cdef bint _connect_edges(self, Problem problem, Window window,
                             Py_ssize_t place) noexcept nogil
    cdef bint _connect_factors(self, Problem problem, Window window,
                               Py_ssize_t place) noexcept nogil
    cdef bint _link(self, Py_ssize_t place, Py_ssize_t other) noexcept nogil
    cdef void _unlink(self, Py_ssize_t place) noexcept nogil
    cdef void _keep(self, Window window, Py_ssize_t place) noexcept nogil
    cdef void _list_waiting(self, Window window) noexcept nogil
    cdef Py_ssize_t _next_leaf(self) noexcept nogil
    cdef double _cost(self, Window window, Py_ssize_t place) noexcept nogil
    cdef Py_ssize_t _cheapest(self, Window window) noexcept nogil
    cdef Py_ssize_t _most_connected(self, uint64_t* random) noexcept nogil
    cdef bint _eliminate(self, Py_ssize_t index) noexcept nogil
    cdef void _drop_waiting(self, Window window, Py_ssize_t index) noexcept nogil
    cdef void _move(self, Py_ssize_t index, Py_ssize_t to) noexcept nogil
