cimport cython
from libc.stdint cimport int32_t, uint64_t

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.utils._random cimport random_below


@cython.final
cdef class Forest:
    # number of variables of the last forest
    cdef Py_ssize_t size
    # number of the last move whose forest contained a given variable, or a variable of
    # a given factor; and number of the current move. A new move needs no reset.
    cdef int32_t* _stamp
    cdef int32_t* _factor_stamp
    cdef int32_t _move
    # union-find roots of the growing trees; of each root: the last variable that was
    # found next to the root's tree, and the move in which it was found
    cdef int32_t* _root
    cdef int32_t* _touched_by
    cdef int32_t* _touched
    # variables of the forest, parents before children; parent of each variable, and
    # edge to the parent
    cdef int32_t* _queue
    cdef int32_t* _parent
    cdef int32_t* _parent_edge
    # score of each state of the forest given all other variables, plus the messages of
    # children; and workspace for one message
    cdef double* _scores
    cdef double* _message

    cdef void clear(self) noexcept nogil
    cdef void condition(self, Problem problem, int32_t* labeling,
                        Py_ssize_t variable, double* out) noexcept nogil
    cdef double improve(self, Problem problem, int32_t* labeling, int32_t* window,
                        Py_ssize_t size, uint64_t* random) noexcept nogil
    cdef bint _closes_cycle(self, Problem problem,
                            Py_ssize_t variable) noexcept nogil
    cdef void _add_variable(self, Problem problem, Py_ssize_t variable) noexcept nogil
    cdef void _orient(self, Problem problem, const int32_t* window,
                      Py_ssize_t size) noexcept nogil
    cdef void _enqueue(self, Py_ssize_t variable, Py_ssize_t parent,
                       Py_ssize_t edge) noexcept nogil
    cdef double _condition_all(self, Problem problem,
                               int32_t* labeling) noexcept nogil
    cdef void _collect_messages(self, Problem problem) noexcept nogil
    cdef double _read_off(self, Problem problem, int32_t* labeling,
                          uint64_t* random) noexcept nogil


cdef inline Py_ssize_t pick_best(const double* scores, Py_ssize_t n,
                                 uint64_t* random) noexcept nogil:
    """Return a state with the largest score; ties are broken at random."""
    # one cyclic pass from a random state on
    cdef Py_ssize_t i = random_below(random, n), best = i, _k
    for _k in range(n):
        if scores[i] > scores[best]:
            best = i
        i += 1
        if i == n:
            i = 0
    return best
