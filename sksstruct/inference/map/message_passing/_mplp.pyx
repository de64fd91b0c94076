"""Max-product linear programming: block-coordinate descent over factors of any size.

A. Globerson and T. Jaakkola, Fixing max-product, NIPS 2007. Factor f sends to each of
its variables i the message

    lambda_fi(x_i) = -b_i(x_i)
        + max_{x_f with x_i} (theta_f(x_f) + sum_k b_k(x_k)) / |f|

with b_i = theta_i + sum of the messages of the other factors. After this update, the
maximum over x_f of theta_f minus the factor's messages is 0. The belief of a variable
is theta_i plus all its messages, and the sum of the beliefs' maxima is an upper bound
that never rises.
"""

cimport cython
from libc.math cimport INFINITY

from sksstruct.inference.map.core._problem cimport Problem
from sksstruct.inference.map.message_passing._higher cimport HigherFactors
from sksstruct.inference.map.message_passing._messages cimport Messages
from sksstruct.utils._pointers cimport const_intps


cdef class MaxProductSweeps(Messages):
    """Sweeps over the messages of `MaxProductLP`."""

    cdef const Py_ssize_t* _start   # offset of the message to each place of a scope
    cdef HigherFactors _higher      # workspace for one factor of any size

    def __init__(self, Problem problem, arrays):
        Messages.__init__(self, problem, arrays)
        self._start = const_intps(arrays.scope_start)
        self._higher = HigherFactors(problem)

    cdef int _sweep(self, Problem problem, bint backward) except -1 nogil:
        """Update all messages of edges and then of larger factors, and the bound.

        With `backward`, the order of the factors is reversed.
        """
        cdef Py_ssize_t factor, variable, k
        cdef double top, work
        for k in range(problem.n_factors):
            factor = problem.n_factors - 1 - k if backward else k
            work = self._update(problem, factor)
            if problem.late(work):
                self.bound = INFINITY
                return 0
        # theta_f minus the messages of f has maximum zero, and adds nothing to the
        # bound
        self.bound = 0.0
        for variable in range(problem.n_variables):
            top = -INFINITY
            for k in range(problem.first[variable], problem.first[variable + 1]):
                top = max(top, self._beliefs[k])
            self.bound += top
        return 0

    @cython.final
    cdef double _update(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """Update the messages of a factor to its variables; return the entries read."""
        cdef Py_ssize_t begin = problem.scope_first[factor], i, k, variable
        cdef Py_ssize_t arity = problem.scope_first[factor + 1] - begin
        cdef Py_ssize_t width = self._higher.width
        cdef double* incoming = self._higher.incoming
        cdef double* share = self._higher.best
        cdef double* belief
        cdef double* without
        cdef double* message
        cdef double work = 1.0
        # incoming scores b_i: the beliefs without the messages of this factor
        for i in range(arity):
            variable = problem.scope[begin + i]
            belief = &self._beliefs[problem.first[variable]]
            without = incoming + i * width
            message = &self._messages[self._start[begin + i]]
            work *= problem.states[variable]
            for k in range(problem.states[variable]):
                without[k] = belief[k] - message[k]
        if factor >= problem.n_edges:
            work = self._higher.n_entries(problem, factor)
            self._higher.maximize(problem, factor)
        # new beliefs: max-marginals of the factor and all b_i, divided by |f|
        for i in range(arity):
            variable = problem.scope[begin + i]
            belief = &self._beliefs[problem.first[variable]]
            without = incoming + i * width
            message = &self._messages[self._start[begin + i]]
            if factor < problem.n_edges:
                # for edges, `problem.message` leaves out the receiver's own b_i
                problem.message(factor, i == 0, incoming + (1 - i) * width, share)
                for k in range(problem.states[variable]):
                    belief[k] = 0.5 * (without[k] + share[k])
                    message[k] = belief[k] - without[k]
                continue
            for k in range(problem.states[variable]):
                belief[k] = share[k] / arity
                message[k] = belief[k] - without[k]
            share += width
        return work
