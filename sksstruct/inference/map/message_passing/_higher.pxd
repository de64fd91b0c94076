cimport cython
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.core._tables cimport TableSpec

# The gains of the literals of a condition, summed up; the last may be an output, which
# is no input.
cdef struct Gains:
    int condition
    Py_ssize_t arity, n_inputs, limit
    double all_off              # scores with all literals off
    double top, second          # the two largest gains of inputs
    Py_ssize_t best             # the input with the largest
    double positive             # sum of the positive gains of inputs
    double output               # gain of the output


cdef inline void* zeros(Py_ssize_t n, size_t size) except NULL:
    """Room for so many numbers, which is to be freed."""
    cdef void* room = calloc(n, size)
    if room == NULL:
        raise MemoryError
    return room


@cython.final
cdef class HigherFactors:
    # variables of a factor at most, and states of a variable at most
    cdef Py_ssize_t arity, width
    # by place in the scope and state: what variables have, and max-marginals
    cdef double* incoming
    cdef double* best
    # states of the variables of a table, one by one
    cdef Py_ssize_t* _state
    # of a condition: gains, sums of the largest, their ranks, and a heap of literals
    cdef double* _gain
    cdef double* _prefix
    cdef Py_ssize_t* _rank
    cdef int32_t* _items

    cdef double n_entries(self, Problem problem, Py_ssize_t factor) noexcept nogil
    cdef void maximize(self, Problem problem, Py_ssize_t factor) noexcept nogil
    cdef void maximize_for(self, Problem problem, Py_ssize_t factor,
                           Py_ssize_t place) noexcept nogil
    cdef void _maximize_table(self, Problem problem, Py_ssize_t factor,
                              Py_ssize_t arity) noexcept nogil
    cdef void _maximize_table_for(self, Problem problem, Py_ssize_t factor,
                                  Py_ssize_t place) noexcept nogil
    cdef void _maximize_condition(self, Problem problem, Py_ssize_t factor,
                                  Py_ssize_t arity) noexcept nogil
    cdef void _collect_gains(self, const TableSpec* table, Gains* gains) noexcept nogil
    cdef void _sum_up(self, Gains* gains) noexcept nogil
    cdef void _compare_in_budget(self, const Gains* gains, Py_ssize_t i, double* on,
                                 double* off) noexcept nogil
    cdef void _sort(self, Py_ssize_t arity) noexcept nogil
