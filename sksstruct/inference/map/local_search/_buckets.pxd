cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.local_search._order cimport (
    MAX_NEIGHBORS, EliminationOrder,
)
from sksstruct.inference.map.local_search._window cimport Window


# Table of scores over the candidates of the variables at some places of a window. The
# candidate of the last place changes fastest.
cdef struct Part:
    int32_t count
    # places of the table's variables: one variable and at most MAX_NEIGHBORS neighbors
    int32_t scope[MAX_NEIGHBORS + 1]
    # offset of the table in `entries`; not a pointer, since `entries` moves when it
    # grows
    Py_ssize_t start
    # the next part of the same bucket, or -1
    Py_ssize_t next


@cython.final
cdef class Buckets:
    # first part in the bucket of each place; -1: the bucket is empty
    cdef Py_ssize_t[::1] head
    cdef double* entries
    cdef Part* parts
    cdef Py_ssize_t n_parts
    cdef Py_ssize_t _n_entries, _parts_capacity, _entries_capacity
    # states of the labeling while `_load_factor` overwrites them
    cdef int32_t[::1] _saved_states

    cdef int load(self, Problem problem, Window window, EliminationOrder order,
                  int32_t* labeling) except -1 nogil
    cdef double value(self, Problem problem, Window window,
                      const int32_t* labeling) noexcept nogil
    cdef Py_ssize_t add(self, Py_ssize_t n_entries) except -1 nogil
    cdef void file(self, EliminationOrder order, Py_ssize_t part) noexcept nogil
    cdef int _load_variable(self, Problem problem, Window window,
                            EliminationOrder order, const int32_t* labeling,
                            Py_ssize_t place) except -1 nogil
    cdef int _load_edge(self, Problem problem, Window window, EliminationOrder order,
                        Py_ssize_t edge) except -1 nogil
    cdef int _load_factor(self, Problem problem, Window window,
                          EliminationOrder order, int32_t* labeling,
                          Py_ssize_t factor) except -1 nogil
