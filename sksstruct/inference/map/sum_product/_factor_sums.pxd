cimport cython

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.core._tables cimport TableSpec
from sksstruct.inference.map.message_passing._higher cimport HigherFactors


@cython.final
cdef class FactorSums:
    # by place in the scope and state: incoming scores, and soft max-marginals
    cdef double* incoming
    cdef double* out
    cdef HigherFactors _higher
    # largest number of states of a variable; number of counts of inputs that are on
    cdef Py_ssize_t width, _counts
    cdef Py_ssize_t* _state
    # of a condition: gains; sums over the inputs before, and from, each input, by the
    # number of inputs that are on
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
