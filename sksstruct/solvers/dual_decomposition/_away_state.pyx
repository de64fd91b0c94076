"""Away-step Frank-Wolfe on the augmented Lagrangian: Algorithm 2 of Yen et al. (2016).

The point is a combination of bases, each of which picks one outcome of every factor
(14). A step goes towards the basis of the best outcomes (15), or away from the active
basis of the least gain (16), whichever promises more (17), with an exact line search:
the objective is quadratic, and its curvature along a direction is that of |w|^2, from
the scores before and after a whole step, and that of the consistency terms. Steps are
repeated until one does not drop a basis.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.models.protocols._factors cimport FactorModel
from sksstruct.solvers.dual_decomposition._state cimport GDMMState, Pair, Variable


cdef class AwayGDMMState(GDMMState):
    """State of GDMM whose distributions are combinations of bases.

    Attributes
    ----------
    n_bases : int
        Bases with a coefficient.
    """

    cdef int32_t[:, ::1] _bases          # places of outcomes: variables, then pairs
    cdef double[::1] _coefficients
    cdef readonly Py_ssize_t n_bases
    cdef int32_t[::1] _best
    cdef Py_ssize_t[::1] _first          # where the outcomes of a factor are, below
    cdef double[::1] _gain, _step

    def __init__(self, FactorModel model, double alpha, double rho):
        n = model.n_variables + model.n_pairs
        self._bases = np.zeros((8, n), dtype=np.int32)
        self._coefficients = np.zeros(8)
        # the observed labels
        self._coefficients[0] = 1.0
        self.n_bases = 1
        self._best = np.zeros(n, dtype=np.int32)
        self._first = np.zeros(n + 1, dtype=np.intp)
        self._gain, self._step = np.zeros(n), np.zeros(n)

    def away_step(self, const double[::1] parts, bint linear):
        """Step until one does not drop a basis; see `GDMMState.visit`."""
        self._moved = 0.0
        while self._one_step(parts, linear):
            pass

    cdef _one_step(self, const double[::1] parts, bint linear):
        """One step; whether it dropped a basis."""
        cdef Py_ssize_t worst, b
        cdef double best, away, current, least = 0.0, slope, curvature, longest, step
        self._search(parts, linear)
        self._gains()
        best = self._value(self._best)
        current = self._mean()
        worst = -1
        for b in range(self.n_bases):
            away = self._value(self._bases[b])
            if worst < 0 or away < least:
                worst, least = b, away
        self.block_gap = best - current
        # the last basis stays: there is nowhere to go from it but towards another
        towards = best - current >= current - least or self.n_bases == 1
        self._direction(self._best if towards else self._bases[worst], towards)
        slope = best - current if towards else current - least
        longest = 1.0
        if not towards:
            c = self._coefficients[worst]
            longest = c / (1.0 - c) if c < 1.0 else 0.0
        if slope <= 0.0 or longest <= 0.0:
            return False
        curvature = self._try()
        step = slope / curvature if curvature > 0.0 else longest
        step = step if step < longest else longest
        self._go(step)
        if towards:
            for b in range(self.n_bases):
                self._coefficients[b] *= 1.0 - step
            if step == 1.0:
                self.n_bases = 0
            self._add_basis(step)
            return False
        for b in range(self.n_bases):
            self._coefficients[b] *= 1.0 + step
        self._coefficients[worst] -= step
        if step < longest:
            return False
        # dropped: the last one takes its place
        self.n_bases -= 1
        np.asarray(self._bases)[worst] = self._bases[self.n_bases]
        self._coefficients[worst] = self._coefficients[self.n_bases]
        # rounding must not add up
        total = 0.0
        for b in range(self.n_bases):
            total += self._coefficients[b]
        for b in range(self.n_bases):
            self._coefficients[b] /= total
        return True

    cdef _add_basis(self, double coefficient):
        cdef Py_ssize_t b, n = self.n_bases
        best = np.asarray(self._best)
        same = np.flatnonzero((np.asarray(self._bases)[:n] == best).all(axis=1))
        for b in same:
            self._coefficients[b] += coefficient
            return
        if n == self._bases.shape[0]:
            self._bases = np.concatenate([self._bases, np.zeros_like(self._bases)])
            self._coefficients = np.concatenate([self._coefficients, np.zeros(n)])
        np.asarray(self._bases)[n] = best
        self._coefficients[n] = coefficient
        self.n_bases += 1

    cdef int _search(self, const double[::1] parts, bint linear) except -1:
        """Let in outcomes that are better than the active ones."""
        cdef Py_ssize_t v, f, k
        cdef double best, gain
        cdef int32_t a = 0, b = 0, label = 0
        cdef Variable* variable
        cdef Variable* first
        cdef Variable* second
        cdef Pair* pair
        with nogil:
            for v in range(self.model.n_variables):
                variable = &self._variables[v]
                self._widen(variable.n + 2)
                self._variable_gains(v, self._room.value)
                best = self._room.value[argmax(variable.n, self._room.value)]
                self.calls += 1
                if self.model.find_label(v, parts[v], variable.n, variable.label, best,
                                         &label, &gain):
                    self._place(variable, label)
            for f in range(self.model.n_pairs):
                pair = &self._pairs[f]
                first = &self._variables[self.model._pairs[f, 0]]
                second = &self._variables[self.model._pairs[f, 1]]
                self._load_pair(f)
                best = self._pair_gain(pair, 0)
                for k in range(1, pair.n):
                    gain = self._pair_gain(pair, k)
                    best = gain if gain > best else best
                if self._find_pair(f, linear, best, &a, &b, &gain):
                    k = self.model.entry(f, a, b)
                    if self._is_new(pair, k):
                        a, b = self._place(first, a), self._place(second, b)
                        self._join(pair, <int32_t> k, a, b)
        return 0

    cdef int _gains(self) except -1:
        """Gains of active outcomes, weighted by p_i, and the best of each factor."""
        cdef Py_ssize_t n = self.model.n_variables, total = 0, i, v, f, k
        cdef Pair* pair
        cdef double weight
        cdef double* gain
        for v in range(n):
            self._first[v] = total
            total += self._variables[v].n
        for f in range(self.model.n_pairs):
            self._first[n + f] = total
            total += self._pairs[f].n
        self._first[n + self.model.n_pairs] = total
        if self._gain.shape[0] < total:
            self._gain, self._step = np.zeros(2 * total), np.zeros(2 * total)
        for i in range(self.model.n_examples):
            weight = self.model._example_weights[i]
            for v in range(self.model._first_variable[i],
                           self.model._first_variable[i + 1]):
                gain = &self._gain[self._first[v]]
                self._variable_gains(v, gain)
                for k in range(self._variables[v].n):
                    gain[k] *= weight
                self._best[v] = argmax(self._variables[v].n, gain)
            for f in range(self.model._first_pair[i], self.model._first_pair[i + 1]):
                pair = &self._pairs[f]
                self._load_pair(f)
                gain = &self._gain[self._first[n + f]]
                for k in range(pair.n):
                    gain[k] = weight * self._pair_gain(pair, k)
                self._best[n + f] = argmax(pair.n, gain)
        return 0

    cdef double _value(self, const int32_t[::1] basis):
        cdef Py_ssize_t k
        cdef double total = 0.0
        for k in range(basis.shape[0]):
            total += self._gain[self._first[k] + basis[k]]
        return total

    cdef double _mean(self):
        cdef Py_ssize_t v, f, k, n = self.model.n_variables
        cdef double total = 0.0
        for v in range(n):
            for k in range(self._variables[v].n):
                total += self._variables[v].q[k] * self._gain[self._first[v] + k]
        for f in range(self.model.n_pairs):
            for k in range(self._pairs[f].n):
                total += self._pairs[f].q[k] * self._gain[self._first[n + f] + k]
        return total

    cdef void _direction(self, const int32_t[::1] basis, bint towards):
        """From the point to a basis, or from a basis to the point."""
        cdef Py_ssize_t v, k, n = self.model.n_variables
        cdef double sign = 1.0 if towards else -1.0
        cdef double* q
        cdef Py_ssize_t size
        for v in range(n + self.model.n_pairs):
            size = self._first[v + 1] - self._first[v]
            q = self._variables[v].q if v < n else self._pairs[v - n].q
            for k in range(size):
                self._step[self._first[v] + k] = sign * ((k == basis[v]) - q[k])

    cdef int _move(self, double step) except -1:
        """Move the distributions, and their marginals, along the direction."""
        cdef Py_ssize_t v, f, k, n = self.model.n_variables
        cdef double d
        cdef Variable* variable
        cdef Pair* pair
        for v in range(n):
            variable = &self._variables[v]
            for k in range(variable.n):
                variable.q[k] += step * self._step[self._first[v] + k]
        for f in range(self.model.n_pairs):
            pair = &self._pairs[f]
            for k in range(pair.n):
                d = step * self._step[self._first[n + f] + k]
                pair.q[k] += d
                pair.sides[0].marginal[pair.left[k]] += d
                pair.sides[1].marginal[pair.right[k]] += d
                self._variables[self.model._pairs[f, 0]].total[pair.left[k]] += d
                self._variables[self.model._pairs[f, 1]].total[pair.right[k]] += d
        return 0

    cdef int _weigh(self, double step) except -1:
        """The weights that go with a step."""
        cdef Py_ssize_t i, v, f, k, n = self.model.n_variables
        cdef double factor
        for i in range(self.model.n_examples):
            factor = -step * self.model._example_weights[i] / self.alpha
            for v in range(self.model._first_variable[i],
                           self.model._first_variable[i + 1]):
                self._widen(self._variables[v].n + 2)
                for k in range(self._variables[v].n):
                    self._room.value[k] = factor * self._step[self._first[v] + k]
                self.model.add_labels(v, self._variables[v].n,
                                      self._variables[v].label, self._room.value)
            for f in range(self.model._first_pair[i], self.model._first_pair[i + 1]):
                self._widen(self._pairs[f].n + 2)
                for k in range(self._pairs[f].n):
                    self._room.value[k] = factor * self._step[self._first[n + f] + k]
                self.model.add_pairs(self._pairs[f].n, self._pairs[f].entry,
                                     self._room.value)
        return 0

    cdef double _try(self):
        """Go a whole step; the fall of the slope on the way is the curvature."""
        cdef Py_ssize_t k, total = self._first[self._first.shape[0] - 1]
        cdef double before = 0.0, after = 0.0
        for k in range(total):
            before += self._step[k] * self._gain[k]
        self._weigh(1.0)
        self._move(1.0)
        best = np.array(self._best)
        self._gains()
        np.asarray(self._best)[:] = best
        for k in range(total):
            after += self._step[k] * self._gain[k]
        return before - after

    cdef int _go(self, double step) except -1:
        """Come back from the whole step to where the line search ends."""
        cdef Py_ssize_t v, k
        self._weigh(step - 1.0)
        self._move(step - 1.0)
        for v in range(self.model.n_variables):
            for k in range(self._variables[v].n):
                self._moved += self._variables[v].degree * (
                    step * self._step[self._first[v] + k]) ** 2
        return 0


cdef int32_t argmax(Py_ssize_t n, const double* x) noexcept nogil:
    cdef Py_ssize_t k
    cdef int32_t best = 0
    for k in range(1, n):
        if x[k] > x[best]:
            best = <int32_t> k
    return best
