cimport cython
from libc.stdint cimport int32_t, uint64_t

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.utils._random cimport random_below


@cython.final
cdef class Forest:
    # number of variables of the last forest
    cdef Py_ssize_t size
    # moves are counted, so that nothing has to be reset: the last move in which a
    # variable, or a factor through a variable, was taken
    cdef int32_t* _taken
    cdef int32_t* _factor_taken
    cdef int32_t _move
    # trees while the forest grows, and what touched them last
    cdef int32_t* _root
    cdef int32_t* _touched_by
    cdef int32_t* _touched
    # its variables, parents first
    cdef int32_t* _queue
    cdef int32_t* _parent
    cdef int32_t* _parent_edge
    # scores of all states of its variables, with the messages of their children
    cdef double* _scores
    cdef double* _out

    cdef void clear(self) noexcept nogil
    cdef void condition(self, Problem problem, int32_t* labeling,
                        Py_ssize_t variable, double* out) noexcept nogil
    cdef double improve(self, Problem problem, int32_t* labeling, int32_t* window,
                        Py_ssize_t size, uint64_t* random) noexcept nogil
    cdef bint _closes_cycle(self, Problem problem,
                            Py_ssize_t variable) noexcept nogil
    cdef void _take(self, Problem problem, Py_ssize_t variable) noexcept nogil
    cdef void _orient(self, Problem problem, const int32_t* window,
                      Py_ssize_t size) noexcept nogil
    cdef void _enqueue(self, Py_ssize_t variable, Py_ssize_t parent,
                       Py_ssize_t edge) noexcept nogil
    cdef double _condition_all(self, Problem problem,
                               int32_t* labeling) noexcept nogil
    cdef void _send_to_roots(self, Problem problem) noexcept nogil
    cdef double _read_off(self, Problem problem, int32_t* labeling,
                          uint64_t* random) noexcept nogil


cdef inline Py_ssize_t pick_best(const double* scores, Py_ssize_t n,
                                 uint64_t* random) noexcept nogil:
    """A state with the largest score; which of several that tie is random."""
    # from a random state on, once around
    cdef Py_ssize_t i = random_below(random, n), best = i, _k
    for _k in range(n):
        if scores[i] > scores[best]:
            best = i
        i += 1
        if i == n:
            i = 0
    return best
