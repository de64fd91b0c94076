cimport cython

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.core._tables cimport TableSpec
from sksstruct.inference.map.message_passing._higher cimport HigherFactors


@cython.final
cdef class FactorSums:
    # incoming score and soft max-marginal of each state: index i * width + k is for
    # state k of the variable at place i of the scope
    cdef double* incoming
    cdef double* out
    cdef HigherFactors _higher
    # largest number of states of a variable; and largest count of inputs that are on,
    # plus one
    cdef Py_ssize_t width, _counts
    cdef Py_ssize_t* _state
    # Of a condition: gain of each literal; and for each input i and count c, at index i
    # * _counts + c, the log sum over the states of the inputs before i with c of them
    # on, and the log sum over the states of input i and all later inputs.
    cdef double* _gain
    cdef double* _before
    cdef double* _after

    cdef double work(self, Problem problem, Py_ssize_t factor) noexcept nogil
    cdef void run(self, Problem problem, Py_ssize_t factor,
                  double share) noexcept nogil
    cdef void _edge(self, Problem problem, Py_ssize_t edge,
                    double share) noexcept nogil
    cdef void _table(self, Problem problem, Py_ssize_t factor, Py_ssize_t arity,
                     double share) noexcept nogil
    cdef void _condition(self, Problem problem, Py_ssize_t factor, Py_ssize_t arity,
                         double share) noexcept nogil
    cdef void _count(self, Py_ssize_t n_inputs, Py_ssize_t most,
                     bint more) noexcept nogil
    cdef double _others(self, const TableSpec* table, Py_ssize_t i, Py_ssize_t most,
                        bint more, int on) noexcept nogil
