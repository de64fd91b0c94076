"""Sweeps of belief propagation, plain or tree-reweighted, over factors of any size.

Factor f has a share r_f of the forests it is in, 1 in plain belief propagation, and a
message l_fi to each of its variables. The beliefs are psi_i = theta_i + sum_f l_fi. An
update of f takes a_i = r_f psi_i - l_fi for each of its variables, and then

    l_fi(x_i) = r_f log sum_{x_f with x_i}
                    exp((theta_f(x_f) + sum_{k != i} a_k(x_k)) / r_f)

up to a constant: the messages of M. Wainwright, T. Jaakkola and A. Willsky, A new class
of upper bounds on the log partition function, IEEE Trans. Information Theory 51 (2005),
times r_f. They are fixed where the marginals exp(psi_i) of the variables are those of
the factors, exp((theta_f + sum_i a_i) / r_f).

Whatever the messages, the scores are the mean over the forests T of

    sum_i psi_i(x_i) + sum_{f in T} (theta_f(x_f) - sum_i l_fi(x_i)) / r_f

so that, as log Z is convex, the mean of log Z of the forests is above that of the
scores; in a forest sums go from the leaves to the roots.
"""

import numpy as np

cimport cython
from libc.math cimport INFINITY, exp, fabs, log

from sksstruct.inference.map.core._index import offsets
from sksstruct.inference.map.core._problem cimport (
    Problem, arity_of, variable_at,
)
from sksstruct.inference.map.sum_product._factor_sums cimport FactorSums


@cython.final
cdef class Beliefs:
    """Messages of a graph.

    Parameters
    ----------
    problem : MAPProblem
        The graph.
    shares : ndarray of shape (n_factors,)
        The r_f; edges come before larger factors.
    maximize : bool, default=False
        Whether to replace sums by maxima (max-product); shares must be 1.

    Attributes
    ----------
    damping : float
        Share of the old message in a new one; initially 0.
    residual : float
        Largest change of a message in the last sweep, before damping. The change is
        relative to the size of the message if this is above 1. inf if time ran out
        before the end of the sweep.
    """

    cdef Problem problem
    cdef FactorSums _sums
    cdef const double[::1] _share
    cdef double[::1] _messages, _beliefs
    # of the message to each place in a scope, and the order of the sweeps
    cdef Py_ssize_t[::1] _start, _order
    cdef public double damping
    cdef readonly double residual

    def __init__(self, Problem problem, const double[::1] shares):
        self.problem, self._share, self.damping = problem, shares, 0.0
        self._sums = FactorSums(problem)
        scope, first = problem.arrays.scope, problem.arrays.scope_first
        self._start = offsets(problem.arrays.states[scope])
        # along the numbers of the variables, as they tend to be neighbors
        first = first[:problem.n_factors]
        self._order = np.lexsort(
            [np.maximum.reduceat(scope, first), np.minimum.reduceat(scope, first)])
        self._messages = np.zeros(self._start[len(scope)])
        self._beliefs = problem.arrays.unary.copy()
        self.residual = INFINITY

    @property
    def beliefs(self):
        return np.asarray(self._beliefs)

    # ---- sweeps ----

    def sweep(self, bint backward=False):
        """Update the messages of all factors once.

        Parameters
        ----------
        backward : bool, default=False
            Whether to go from the last to the first.

        Returns
        -------
        residual : float
            The largest change.
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
            self._add_up(problem)
        return self.residual

    cdef void _add_up(self, Problem problem) noexcept nogil:
        """Beliefs from scratch: updates in between leave rounding errors."""
        cdef Py_ssize_t factor, i, k, first, at = 0
        for k in range(problem.first[problem.n_variables]):
            self._beliefs[k] = problem.unary[k]
        for factor in range(problem.n_factors):
            for i in range(arity_of(problem, factor)):
                first = problem.first[variable_at(problem, factor, i)]
                for k in range(problem.states[variable_at(problem, factor, i)]):
                    self._beliefs[first + k] += self._messages[at]
                    at += 1

    cdef double _update(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """New messages of a factor; about how much work they take."""
        cdef double share = self._share[factor]
        cdef Py_ssize_t i, k, variable, size
        cdef Py_ssize_t at = self._start[problem.scope_first[factor]]
        cdef double top, old, new
        cdef double* belief
        self._gather(problem, factor)
        self._sums.run(problem, factor, share)
        for i in range(arity_of(problem, factor)):
            variable = variable_at(problem, factor, i)
            belief = &self._beliefs[problem.first[variable]]
            size = problem.states[variable]
            top = -INFINITY
            for k in range(size):
                self._sums.out[i, k] -= self._sums.incoming[i, k]
                top = max(top, self._sums.out[i, k])
            for k in range(size):
                old, new = self._messages[at + k], self._sums.out[i, k] - top
                self.residual = max(self.residual,
                                    fabs(new - old) / max(1.0, fabs(new)))
                new += self.damping * (old - new)
                self._messages[at + k] = new
                belief[k] += new - old
            at += size
        return self._sums.work(problem, factor)

    cdef void _gather(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """The a_i of a factor."""
        cdef double share = self._share[factor]
        cdef Py_ssize_t i, k, variable, size
        cdef Py_ssize_t at = self._start[problem.scope_first[factor]]
        cdef const double* belief
        for i in range(arity_of(problem, factor)):
            variable = variable_at(problem, factor, i)
            belief = &self._beliefs[problem.first[variable]]
            size = problem.states[variable]
            for k in range(size):
                self._sums.incoming[i, k] = (share * belief[k]
                                             - self._messages[at + k])
            at += size

    # ---- values ----

    def marginals(self):
        """Return the marginals of the variables.

        Returns
        -------
        marginals : ndarray of shape (n_states.sum(),)
            Distributions over the states of the variables.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t variable, k, first, size
        cdef double total
        cdef double[::1] out = np.empty(problem.first[problem.n_variables])
        for variable in range(problem.n_variables):
            first, size = problem.first[variable], problem.states[variable]
            total = _log_sum(&self._beliefs[first], size, 1.0)
            for k in range(first, first + size):
                out[k] = exp(self._beliefs[k] - total)
        return np.asarray(out)

    def factor_scores(self, Py_ssize_t factor):
        """Return the scores that messages add to a factor in its marginals.

        Parameters
        ----------
        factor : int
            The factor.

        Returns
        -------
        scores : list of ndarrays of shape (n_states[i],)
            The a_i of its variables.
        """
        cdef Py_ssize_t i
        self._gather(self.problem, factor)
        return [np.array(self._sums.incoming[i, :self.problem.states[
                    variable_at(self.problem, factor, i)]])
                for i in range(arity_of(self.problem, factor))]

    def log_partition(self):
        """Return the Bethe free energy, or its reweighted kind, at a fixed point.

        Returns
        -------
        value : float
            sum_i (1 - sum_f r_f) log Z_i + sum_f r_f log Z_f, where Z_i and Z_f
            normalize the marginals.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t factor, variable, i
        cdef double total = 0.0, share
        cdef double[::1] left = np.ones(problem.n_variables)
        for factor in range(problem.n_factors):
            share = self._share[factor]
            self._gather(problem, factor)
            self._sums.run(problem, factor, share)
            for i in range(arity_of(problem, factor)):
                left[variable_at(problem, factor, i)] -= share
            variable = variable_at(problem, factor, 0)
            total += share * _log_sum(&self._sums.out[0, 0], problem.states[variable],
                                      share)
        for variable in range(problem.n_variables):
            total += left[variable] * _log_sum(
                &self._beliefs[problem.first[variable]], problem.states[variable], 1.0)
        return total

    def forest_log_partition(self, const Py_ssize_t[::1] factors,
                             const Py_ssize_t[::1] parents):
        """Return log Z of one forest.

        Parameters
        ----------
        factors, parents : ndarrays of shape (n_members,), intp
            See `draw_forest`.

        Returns
        -------
        value : float
            log Z; inf if time ran out before the end.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t k, variable, begin, size
        cdef double total = 0.0, work
        # what variables have so far; the roots have all in the end
        cdef double[::1] score = np.array(self._beliefs)
        cdef signed char[::1] is_root = np.ones(problem.n_variables, dtype=np.int8)
        with nogil:
            for k in range(len(factors)):
                work = self._pass_on(problem, factors[k], parents[k], score, is_root)
                if problem.late(work):
                    total = INFINITY
                    break
            for variable in range(problem.n_variables):
                if not is_root[variable]:
                    continue
                begin, size = problem.first[variable], problem.states[variable]
                total += _log_sum(&score[begin], size, 1.0)
        return total

    cdef double _pass_on(self, Problem problem, Py_ssize_t factor, Py_ssize_t parent,
                         double[::1] score, signed char[::1] is_root) noexcept nogil:
        """Add the sum over all variables of a factor but one to this one."""
        cdef double share = self._share[factor]
        cdef Py_ssize_t i, k, variable, size, begin = 0
        cdef Py_ssize_t at = self._start[problem.scope_first[factor]]
        for i in range(arity_of(problem, factor)):
            variable = variable_at(problem, factor, i)
            size = problem.states[variable]
            for k in range(size):
                self._sums.incoming[i, k] = -self._messages[at + k]
                if i != parent:
                    self._sums.incoming[i, k] += share * score[
                        problem.first[variable] + k]
            if i != parent:
                is_root[variable] = 0
            at += size
        self._sums.run(problem, factor, share)
        variable = variable_at(problem, factor, parent)
        begin = problem.first[variable]
        for k in range(problem.states[variable]):
            score[begin + k] += self._sums.out[parent, k] / share
        return self._sums.work(problem, factor)


cdef double _log_sum(const double* values, Py_ssize_t n, double scale) noexcept nogil:
    """log sum exp(values / scale)."""
    cdef double top = _largest(values, n), total = 0.0
    cdef Py_ssize_t k
    for k in range(n):
        total += exp((values[k] - top) / scale)
    return top / scale + log(total)


cdef inline double _largest(const double* values, Py_ssize_t n) noexcept nogil:
    """The largest of some values."""
    cdef double top = values[0]
    cdef Py_ssize_t k
    for k in range(1, n):
        top = max(top, values[k])
    return top
