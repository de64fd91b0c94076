cimport cython
from libc.stdint cimport int32_t, uint64_t

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.local_search._buckets cimport Buckets, Part
from sksstruct.inference.map.local_search._order cimport (
    MAX_NEIGHBORS, EliminationOrder,
)
from sksstruct.inference.map.local_search._window cimport Window

cdef enum:
    # The scores of a variable, its edges and larger factors (2 * MAX_NEIGHBORS at
    # most), and what eliminations of its neighbors made: as many at most, each over
    # another edge or factor, but for links that a failed elimination has left behind.
    MAX_PARTS = 2 * MAX_NEIGHBORS + 66


# A bucket while its variable is eliminated: every entry of the table that is made
# stands for states of the neighbors, at which each part has an entry for candidate 0 of
# the variable itself.
cdef struct Scan:
    Py_ssize_t n_parts, count
    Py_ssize_t entry[MAX_PARTS]
    # how far apart the entries of a part are for the candidates of the variable itself
    Py_ssize_t own_stride[MAX_PARTS]
    # how far they move where a neighbor takes its next candidate and all after it
    # return to their first
    Py_ssize_t move[MAX_NEIGHBORS][MAX_PARTS]
    # the present candidate of each of the `count` neighbors, and how many it has
    int32_t digit[MAX_NEIGHBORS]
    int32_t radix[MAX_NEIGHBORS]


@cython.final
cdef class Elimination:
    cdef readonly Window window
    cdef readonly EliminationOrder order
    cdef readonly bint solved
    cdef Buckets _buckets
    # by place: the candidate that is chosen, and where its choices begin
    cdef int32_t[::1] _chosen
    cdef Py_ssize_t[::1] _begin
    cdef int32_t* _choices
    cdef Py_ssize_t _n_choices, _choices_capacity
    cdef double _maximum

    cdef double improve(self, Problem problem, int32_t* labeling,
                        const int32_t* variables, Py_ssize_t size, double budget,
                        double total, uint64_t* random) except? -1.0 nogil
    cdef bint _maximize(self, Problem problem) except -1 nogil
    cdef Py_ssize_t _prepare(self, EliminationOrder order,
                             Py_ssize_t place) except -1 nogil
    cdef bint _open_bucket(self, Scan* scan, Py_ssize_t place,
                           const Part* made) noexcept nogil
    cdef void _visit(self, Scan* scan, Py_ssize_t place, double* out) noexcept nogil
    cdef void _read_off(self, Problem problem, int32_t* labeling) noexcept nogil
    cdef void _open_part(self, Scan* scan, Py_ssize_t place, const Part* made,
                         const Part* part) noexcept nogil
