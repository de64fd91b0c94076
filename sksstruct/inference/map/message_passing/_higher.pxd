cimport cython
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.core._tables cimport TableSpec

# Summary of the gains of a condition's literals: inputs, and for some conditions a last
# literal that is the output. The gain of a literal is the difference of its incoming
# scores between on and off.
cdef struct Gains:
    int condition
    Py_ssize_t arity, n_inputs, limit
    double all_off              # sum of incoming scores with all literals off
    double top, second          # the two largest gains of inputs
    Py_ssize_t best             # the input of the largest gain
    double positive             # sum of the positive gains of inputs
    double output               # gain of the output


cdef inline void* zeros(Py_ssize_t n, size_t size) except NULL:
    """Allocate n zeros of `size` bytes each; the caller frees the memory."""
    cdef void* room = calloc(n, size)
    if room == NULL:
        raise MemoryError
    return room


@cython.final
cdef class HigherFactors:
    # largest number of variables of a factor, and of states of a variable
    cdef Py_ssize_t arity, width
    # incoming score and max-marginal of each state: index i * width + k is for state k
    # of the variable at place i of the scope
    cdef double* incoming
    cdef double* best
    # states of the factor's variables at the table entry that is read
    cdef Py_ssize_t* _state
    # of a condition: gain of each literal, prefix sums of the gains in descending
    # order, rank of each literal in this order, and items of a heap of literals
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
