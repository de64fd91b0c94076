cimport cython
from libc.stdint cimport int32_t, uint64_t

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.local_search._window cimport Window

cdef enum:
    # A table over more neighbors exceeds every budget, even if all variables are
    # binary.
    MAX_NEIGHBORS = 24

# Places that share a table with a place.
ctypedef int32_t[MAX_NEIGHBORS] Neighbors


@cython.final
cdef class EliminationOrder:
    # of each place in the window: neighbors (places that share a table), and rank
    cdef Neighbors* neighbors
    cdef int32_t* n_neighbors
    cdef int32_t* rank
    # places of variables without a fixed state: first the eliminated places in their
    # order, then the places that wait for elimination
    cdef int32_t* order
    cdef Py_ssize_t n_eliminated
    # number of variables with fixed states, and number of entries that the elimination
    # reads
    cdef readonly Py_ssize_t n_fixed, n_entries
    # index of each place in `order`, which has `_end` places; stack of `_n_leaves`
    # places, which were leaves when they were pushed
    cdef int32_t* _index
    cdef int32_t* _leaves
    cdef Py_ssize_t _end, _n_leaves
    cdef double _total_cost

    cdef bint plan(self, Problem problem, Window window, double budget, double total,
                   bint all_or_nothing, uint64_t* random) noexcept nogil
    cdef void _connect(self, Problem problem, Window window) noexcept nogil
    cdef bint _connect_edges(self, Problem problem, Window window,
                             Py_ssize_t place) noexcept nogil
    cdef bint _connect_factors(self, Problem problem, Window window,
                               Py_ssize_t place) noexcept nogil
    cdef bint _link(self, Py_ssize_t place, Py_ssize_t other) noexcept nogil
    cdef void _unlink(self, Py_ssize_t place) noexcept nogil
    cdef void _fix(self, Window window, Py_ssize_t place) noexcept nogil
    cdef void _list_waiting(self, Window window) noexcept nogil
    cdef Py_ssize_t _next_leaf(self) noexcept nogil
    cdef double _cost(self, Window window, Py_ssize_t place) noexcept nogil
    cdef Py_ssize_t _cheapest(self, Window window) noexcept nogil
    cdef Py_ssize_t _most_connected(self, uint64_t* random) noexcept nogil
    cdef bint _eliminate(self, Py_ssize_t index) noexcept nogil
    cdef void _fix_waiting(self, Window window, Py_ssize_t index) noexcept nogil
    cdef void _move_to(self, Py_ssize_t index, Py_ssize_t to) noexcept nogil
