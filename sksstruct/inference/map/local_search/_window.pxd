cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport Problem


@cython.final
cdef class Window:
    cdef Py_ssize_t size
    # the variable at each place, and the place of each variable of the problem; -1:
    # outside the window, or with a fixed state
    cdef int32_t* variable
    cdef int32_t* place
    # Of each variable v of the problem: number of candidates. The candidates are states
    # of v, and begin at the offset of the states of v.
    cdef int32_t* n_candidates
    cdef int32_t* candidates

    cdef void enter(self, Problem problem, const int32_t* variables,
                    Py_ssize_t size) noexcept nogil
    cdef void admit(self, Problem problem, const int32_t* labeling) noexcept nogil
    cdef void _take_all(self, Problem problem, Py_ssize_t variable) noexcept nogil


cdef inline void leave(Window window, Py_ssize_t place) noexcept nogil:
    """Remove a variable from the window: its state is fixed."""
    window.place[window.variable[place]] = -1


cdef inline int32_t candidates_at(Window window, Py_ssize_t place) noexcept nogil:
    """Number of candidates of the variable at a place."""
    return window.n_candidates[window.variable[place]]


cdef inline int32_t candidate(Window window, Problem problem, Py_ssize_t variable,
                              Py_ssize_t k) noexcept nogil:
    """Candidate k of a variable."""
    return window.candidates[problem.first[variable] + k]
