"""Sweeps of belief propagation, plain or tree-reweighted, over factors of any size.

In tree-reweighted belief propagation, factor f is in the share r_f of some spanning
forests; in plain belief propagation r_f is 1. Factor f has a message l_fi to each of
its variables. The beliefs are psi_i = theta_i + sum_f l_fi. An update of f computes a_i
= r_f psi_i - l_fi for each of its variables, and then

    l_fi(x_i) = r_f log sum_{x_f with x_i}
                    exp((theta_f(x_f) + sum_{k != i} a_k(x_k)) / r_f)

up to a constant. These messages are r_f times those of M. Wainwright, T. Jaakkola and
A. Willsky, A new class of upper bounds on the log partition function, IEEE Trans.
Information Theory 51 (2005). At a fixed point the marginals exp(psi_i) of the variables
are the marginals of the factor distributions exp((theta_f + sum_i a_i) / r_f).

For all messages, the score of a labeling is the mean over the forests T of

    sum_i psi_i(x_i) + sum_{f in T} (theta_f(x_f) - sum_i l_fi(x_i)) / r_f

As log Z is convex, the mean of the forests' log Z is an upper bound on the graph's
log Z. In a forest log Z is summed from the leaves to the roots.
"""

cimport cython
from libc.math cimport INFINITY, exp, fabs, log
from libc.stdint cimport int8_t

from sksstruct.inference.map.core._problem cimport Problem, arity_of, variable_at
from sksstruct.inference.map.sum_product._factor_sums cimport FactorSums
from sksstruct.utils._pointers cimport const_doubles, const_intps, doubles, int8s


cdef class BeliefSweeps:
    """Sweeps over the messages of `Beliefs`."""

    cdef Problem problem
    cdef object _owned
    cdef FactorSums _sums
    cdef const double* _share
    cdef double* _messages
    cdef double* _beliefs
    # offset of the message to each place of a scope, and order of the factors in sweeps
    cdef const Py_ssize_t* _start
    cdef const Py_ssize_t* _order
    cdef public double damping
    cdef readonly double residual

    def __init__(self, Problem problem, arrays):
        self.problem, self._owned = problem, arrays
        self._sums = FactorSums(problem)
        self._share, self._start = (
            const_doubles(arrays.share), const_intps(arrays.start))
        self._messages, self._beliefs = (
            doubles(arrays.messages), doubles(arrays.beliefs))
        self._order, self.residual = const_intps(arrays.order), INFINITY

    # ---- sweeps ----

    def sweep(self, bint backward=False):
        """Update the messages of all factors once; return the largest relative change.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t k, n = self.problem.n_factors
        with nogil:
            self.residual = 0.0
            for k in range(n):
                if problem.late(self._update(
                        problem, self._order[n - 1 - k if backward else k])):
                    self.residual = INFINITY
                    break
            self._recompute_beliefs(problem)
        return self.residual

    @cython.final
    cdef void _recompute_beliefs(self, Problem problem) noexcept nogil:
        """Recompute the beliefs, as updates leave rounding errors."""
        cdef Py_ssize_t factor, i, k, first, offset = 0
        for k in range(problem.first[problem.n_variables]):
            self._beliefs[k] = problem.unary[k]
        for factor in range(problem.n_factors):
            for i in range(arity_of(problem, factor)):
                first = problem.first[variable_at(problem, factor, i)]
                for k in range(problem.states[variable_at(problem, factor, i)]):
                    self._beliefs[first + k] += self._messages[offset]
                    offset += 1

    @cython.final
    cdef double _update(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """Update the messages of a factor; return an estimate of the work."""
        cdef double share = self._share[factor]
        cdef Py_ssize_t i, k, variable, size
        cdef Py_ssize_t offset = self._start[problem.scope_first[factor]]
        cdef double top, old, new
        cdef double* belief
        cdef double* out = self._sums.out
        cdef const double* incoming = self._sums.incoming
        self._gather(problem, factor)
        self._sums.run(problem, factor, share)
        for i in range(arity_of(problem, factor)):
            variable = variable_at(problem, factor, i)
            belief = &self._beliefs[problem.first[variable]]
            size = problem.states[variable]
            top = -INFINITY
            for k in range(size):
                out[k] -= incoming[k]
                top = max(top, out[k])
            for k in range(size):
                old, new = self._messages[offset + k], out[k] - top
                self.residual = max(self.residual,
                                    fabs(new - old) / max(1.0, fabs(new)))
                new += self.damping * (old - new)
                self._messages[offset + k] = new
                belief[k] += new - old
            offset += size
            out += self._sums.width
            incoming += self._sums.width
        return self._sums.work(problem, factor)

    @cython.final
    cdef void _gather(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """Write the scores a_i of a factor's variables to the workspace `_sums`."""
        cdef double share = self._share[factor]
        cdef Py_ssize_t i, k, variable, size
        cdef Py_ssize_t offset = self._start[problem.scope_first[factor]]
        cdef const double* belief
        for i in range(arity_of(problem, factor)):
            variable = variable_at(problem, factor, i)
            belief = &self._beliefs[problem.first[variable]]
            size = problem.states[variable]
            for k in range(size):
                self._sums.incoming[i * self._sums.width + k] = (
                    share * belief[k] - self._messages[offset + k])
            offset += size

    # ---- values ----

    def normalize(self, marginals):
        """Write the normalized marginals of all variables to `marginals`."""
        cdef Problem problem = self.problem
        cdef Py_ssize_t variable, k, first, size
        cdef double total
        cdef double* out = doubles(marginals)
        for variable in range(problem.n_variables):
            first, size = problem.first[variable], problem.states[variable]
            total = _log_sum(&self._beliefs[first], size, 1.0)
            for k in range(first, first + size):
                out[k] = exp(self._beliefs[k] - total)

    def gather(self, Py_ssize_t factor, scores):
        """Write the scores a_i of a factor's variables, concatenated, to `scores`."""
        cdef Py_ssize_t i, k
        cdef double* out = doubles(scores)
        self._gather(self.problem, factor)
        for i in range(arity_of(self.problem, factor)):
            for k in range(self.problem.states[variable_at(self.problem, factor, i)]):
                out[0] = self._sums.incoming[i * self._sums.width + k]
                out += 1

    def free_energy(self, room):
        """Return the Bethe estimate of log Z.

        `room` has a one for each variable, and is overwritten.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t factor, variable, i
        cdef double total = 0.0, share
        cdef double* counting = doubles(room)
        for factor in range(problem.n_factors):
            share = self._share[factor]
            self._gather(problem, factor)
            self._sums.run(problem, factor, share)
            for i in range(arity_of(problem, factor)):
                counting[variable_at(problem, factor, i)] -= share
            variable = variable_at(problem, factor, 0)
            total += share * _log_sum(self._sums.out, problem.states[variable], share)
        for variable in range(problem.n_variables):
            total += counting[variable] * _log_sum(
                &self._beliefs[problem.first[variable]], problem.states[variable], 1.0)
        return total

    def sum_forest(self, factors, parents, scores, roots):
        """Return log Z of a forest; inf if time ran out.

        `scores` has the beliefs, and `roots` has a one for each variable; both are
        changed.
        """
        cdef Problem problem = self.problem
        cdef const Py_ssize_t* members = const_intps(factors)
        cdef const Py_ssize_t* parent = const_intps(parents)
        # beliefs plus log sums over the subtrees below each variable; at the end the
        # scores of a root include its whole tree
        cdef double* score = doubles(scores)
        cdef int8_t* is_root = int8s(roots)
        cdef Py_ssize_t k, variable, n = len(factors)
        cdef double total = 0.0, work
        with nogil:
            for k in range(n):
                work = self._sum_out(problem, members[k], parent[k], score, is_root)
                if problem.late(work):
                    total = INFINITY
                    break
            for variable in range(problem.n_variables):
                if is_root[variable]:
                    total += _log_sum(&score[problem.first[variable]],
                                      problem.states[variable], 1.0)
        return total

    @cython.final
    cdef double _sum_out(self, Problem problem, Py_ssize_t factor, Py_ssize_t parent,
                         double* score, int8_t* is_root) noexcept nogil:
        """Sum out all variables of a factor but the parent; add the sums to its scores.

        Returns an estimate of the work, in table entries.
        """
        cdef double share = self._share[factor]
        cdef double* incoming = self._sums.incoming
        cdef Py_ssize_t i, k, variable, size, begin = 0
        cdef Py_ssize_t offset = self._start[problem.scope_first[factor]]
        for i in range(arity_of(problem, factor)):
            variable = variable_at(problem, factor, i)
            size = problem.states[variable]
            for k in range(size):
                incoming[k] = -self._messages[offset + k]
                if i != parent:
                    incoming[k] += share * score[problem.first[variable] + k]
            if i != parent:
                is_root[variable] = 0
            offset += size
            incoming += self._sums.width
        self._sums.run(problem, factor, share)
        variable = variable_at(problem, factor, parent)
        begin = problem.first[variable]
        for k in range(problem.states[variable]):
            score[begin + k] += self._sums.out[parent * self._sums.width + k] / share
        return self._sums.work(problem, factor)


cdef double _log_sum(const double* values, Py_ssize_t n, double scale) noexcept nogil:
    """Return log sum exp(values / scale)."""
    cdef double top = _largest(values, n), total = 0.0
    cdef Py_ssize_t k
    for k in range(n):
        total += exp((values[k] - top) / scale)
    return top / scale + log(total)


cdef inline double _largest(const double* values, Py_ssize_t n) noexcept nogil:
    """Return the largest of n values."""
    cdef double top = values[0]
    cdef Py_ssize_t k
    for k in range(1, n):
        top = max(top, values[k])
    return top
