cimport cython
from libc.stdint cimport int32_t, uint64_t

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.local_search._buckets cimport Buckets, Part
from sksstruct.inference.map.local_search._order cimport (
    MAX_NEIGHBORS, EliminationOrder,
)
from sksstruct.inference.map.local_search._window cimport Window

cdef enum:
    # Largest number of parts in a bucket: the part of the variable, those of its edges
    # and larger factors (2 * MAX_NEIGHBORS at most), and the parts that eliminations of
    # neighbors have made: one for each edge or factor at most, except for parts over
    # links that failed eliminations have left.
    MAX_PARTS = 2 * MAX_NEIGHBORS + 66


# Loop over the candidates of the `count` neighbors of an eliminated variable, which
# reads the `n_parts` parts in the bucket of this variable.
cdef struct Scan:
    Py_ssize_t n_parts, count
    # offset of the entry of each part at the current candidates of the neighbors, and
    # candidate 0 of the eliminated variable
    Py_ssize_t entry[MAX_PARTS]
    # stride of each part along the eliminated variable
    Py_ssize_t own_stride[MAX_PARTS]
    # change of each part's `entry` if neighbor k moves to its next candidate, and all
    # faster neighbors return to their first candidates
    Py_ssize_t move[MAX_NEIGHBORS][MAX_PARTS]
    # current candidate, and number of candidates, of each of the `count` neighbors
    int32_t digit[MAX_NEIGHBORS]
    int32_t radix[MAX_NEIGHBORS]


@cython.final
cdef class Elimination:
    cdef readonly Window window
    cdef readonly EliminationOrder order
    cdef readonly bint solved
    cdef Buckets _buckets
    # of each place: chosen candidate, and offset of its backpointers in `_choices`
    cdef int32_t[::1] _chosen
    cdef Py_ssize_t[::1] _offset
    cdef int32_t* _choices
    cdef Py_ssize_t _n_choices, _choices_capacity
    cdef double _maximum

    cdef double improve(self, Problem problem, int32_t* labeling,
                        const int32_t* variables, Py_ssize_t size, double budget,
                        double total, uint64_t* random) except? -1.0 nogil
    cdef bint _maximize(self, Problem problem) except -1 nogil
    cdef Py_ssize_t _add_part(self, EliminationOrder order,
                              Py_ssize_t place) except -1 nogil
    cdef bint _open_bucket(self, Scan* scan, Py_ssize_t place,
                           const Part* made) noexcept nogil
    cdef void _take_maxima(self, Scan* scan, Py_ssize_t place,
                           double* out) noexcept nogil
    cdef void _follow_choices(self, Problem problem, int32_t* labeling) noexcept nogil
    cdef void _open_part(self, Scan* scan, Py_ssize_t place, const Part* made,
                         const Part* part) noexcept nogil
