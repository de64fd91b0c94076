from libc.stdint cimport int32_t, uint64_t

from sksstruct.inference.lp.core._problem cimport MAPProblem

cdef enum:
    MAX_NEIGHBOURS = 24


# Scores of a few variables of the window, the last one fastest.
cdef struct Part:
    int32_t count
    int32_t scope[MAX_NEIGHBOURS + 1]
    Py_ssize_t start        # in the arena
    Py_ssize_t next         # another part of the same bucket, or -1


cdef class Elimination:
    cdef int32_t[::1] local, var, n_near, place, order, chosen, at, leaves
    cdef int32_t[::1] cand, n_cand
    cdef Py_ssize_t[::1] bucket, best_start
    cdef int32_t[:, ::1] near
    cdef double* arena
    cdef int32_t* choice
    cdef Part* parts
    cdef Py_ssize_t arena_size, arena_room, choice_size, choice_room
    cdef Py_ssize_t n_parts, parts_room
    cdef readonly Py_ssize_t n_fixed, n_entries
    cdef Py_ssize_t n_placed
    cdef double top
    cdef readonly bint solved

    cdef double improve(self, MAPProblem p, int32_t* x, const int32_t* window,
                        Py_ssize_t size, double budget, double total,
                        uint64_t* random) noexcept nogil
    cdef bint _link(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil
    cdef void _drop(self, Py_ssize_t a) noexcept nogil
    cdef void _fix(self, Py_ssize_t a) noexcept nogil
    cdef double _size(self, Py_ssize_t a) noexcept nogil
    cdef bint _plan(self, MAPProblem p, Py_ssize_t size, double budget,
                    double total, uint64_t* random, bint whole) noexcept nogil
    cdef void _move(self, Py_ssize_t i, Py_ssize_t k) noexcept nogil
    cdef bint _load(self, MAPProblem p, int32_t* x, Py_ssize_t size) noexcept nogil
    cdef Py_ssize_t _part(self, Py_ssize_t entries) noexcept nogil
    cdef void _file(self, Py_ssize_t part) noexcept nogil
    cdef double _value(self, MAPProblem p, const int32_t* x) noexcept nogil
    cdef bint _maximise(self, Py_ssize_t size) noexcept nogil
