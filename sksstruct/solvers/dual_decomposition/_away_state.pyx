"""Away-step Frank-Wolfe on the augmented Lagrangian: Algorithm 2 of Yen et al. (2016).

The point, all q_v and q_f of `_state.pyx` together, is a convex combination of bases,
each of which picks one outcome of every factor (14). A step goes towards the basis of
the best outcomes (15), or away from the active basis of the least gain (16), whichever
promises more (17), with an exact line search: the objective is quadratic, and its
curvature along a direction is that of |w|^2, from the gains before and after a whole
step, and that of the consistency terms. Steps are repeated until one does not drop a
basis.

The multipliers move by rho eta |M q_f - q_v|^2, and only if what is minimized lags
behind by less: else they would turn in circles about a point that is far from theirs,
which is what the bound of eta in Theorem 1 prevents by constants that nobody knows. The
slope towards the best basis tells how far it lags behind at most.

Factors are numbered: variables first, then pairs. What belongs to their active outcomes
lies in flat arrays, those of a factor from its offset on.
"""

from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset

from sksstruct.models.protocols._factors cimport FactorModel, Outcome
from sksstruct.solvers.dual_decomposition._active_sets cimport (
    ActiveLabels, ActiveOutcomes, PairEnd, activate_label, fit_ends,
)
from sksstruct.solvers.dual_decomposition._state cimport GDMMState, pair_gain
from sksstruct.utils._memory cimport resize
from sksstruct.utils._pointers cimport const_doubles


cdef class AwayGDMMState(GDMMState):
    """State of GDMM whose distributions are combinations of bases.

    Attributes
    ----------
    n_bases : int
        Number of bases with a coefficient.
    """

    cdef readonly Py_ssize_t n_bases
    cdef Py_ssize_t _n_factors, _capacity, _gains_capacity
    # a row for each basis: the place of its outcome among those of each factor
    cdef int32_t* _bases
    cdef double* _coefficients
    # the basis of the best outcomes
    cdef int32_t* _best
    # of active outcomes: where those of a factor begin, gains, and the direction
    cdef Py_ssize_t* _offsets
    cdef double* _gains
    cdef double* _direction

    def __cinit__(self, FactorModel model, alpha, rho):
        self._n_factors = model.n_variables + model.n_pairs
        self._reserve_bases(8)
        # the one basis of the observed outcomes, which are the first of their factors
        memset(self._bases, 0, self._n_factors * sizeof(int32_t))
        self._coefficients[0] = 1.0
        self.n_bases = 1
        resize(<void**> &self._best, self._n_factors * sizeof(int32_t))
        resize(<void**> &self._offsets, (self._n_factors + 1) * sizeof(Py_ssize_t))

    def __dealloc__(self):
        free(self._bases)
        free(self._coefficients)
        free(self._best)
        free(self._offsets)
        free(self._gains)
        free(self._direction)

    cdef int _reserve_bases(self, Py_ssize_t n) except -1:
        """Make room for n bases."""
        resize(<void**> &self._bases, n * self._n_factors * sizeof(int32_t))
        resize(<void**> &self._coefficients, n * sizeof(double))
        self._capacity = n
        return 0

    cdef int32_t* _basis(self, Py_ssize_t basis) noexcept nogil:
        """Return the row of a basis."""
        return self._bases + basis * self._n_factors

    def away_step(self, parts_, bint linear):
        """Take steps until one does not drop a basis; see `GDMMState.visit`."""
        cdef const double* parts = const_doubles(parts_)
        self._square_moved = 0.0
        # it ends soon: each drop step takes a basis that a step before it has added
        while self._one_step(parts, linear):
            pass

    def update(self, double eta):
        """Update the multipliers, as far as the minimization keeps up with them.

        Parameters
        ----------
        eta : float
            Largest step in units of rho.
        """
        cdef double violation = self._violation()
        # what a whole step adds to the augmented Lagrangian is at most what is left to
        # be gained in it: never nothing, so that no violation lasts
        if violation < self.block_gap:
            eta *= violation / self.block_gap
        GDMMState.update(self, eta)

    cdef double _violation(self) except -1.0 nogil:
        """Return rho sum_i p_i sum_(f, v) |M_vf q_f - q_v|^2."""
        cdef Py_ssize_t i, pair, k
        cdef PairEnd* end
        cdef double total = 0.0, square
        cdef int side
        for i in range(self.model.n_examples):
            square = 0.0
            for pair in range(self.model._first_pair[i], self.model._first_pair[i + 1]):
                # labels may have come in since this pair was looked at
                fit_ends(self._arena, &self._outcomes[pair])
                for side in range(2):
                    end = &self._outcomes[pair].ends[side]
                    for k in range(end.labels.size):
                        square += (end.marginal[k] - end.labels.q[k]) ** 2
            total += self.model._example_weights[i] * square
        return self.rho * total

    # ---- one step ----

    cdef bint _one_step(self, const double* parts, bint linear) except -1:
        """Make one step; whether it dropped a basis."""
        cdef Py_ssize_t worst
        cdef double current, towards_slope, away_slope, share
        # what the oracles find is active before gains are computed, so that the best
        # outcome of a factor is among its active ones
        self._find_labels(parts)
        self._find_pairs(linear)
        self._compute_gains(True)
        # slopes along d_F and d_A of (17), gains being falls of the objective
        current = self._mean_gain()
        worst = self._worst_basis()
        towards_slope = self._basis_gain(self._best) - current
        away_slope = current - self._basis_gain(self._basis(worst))
        self.block_gap = towards_slope
        # the last basis stays: there is nowhere to go from it but towards another
        if towards_slope >= away_slope or self.n_bases == 1:
            self._aim(self._best, 1.0)
            self._step_towards(self._search_line(towards_slope, 1.0))
            return False
        # as far as the coefficient of the basis falls to zero: after a step it is
        # c (1 + step) - step
        share = self._coefficients[worst]
        share = share / (1.0 - share) if share < 1.0 else 0.0
        self._aim(self._basis(worst), -1.0)
        return self._step_away(worst, self._search_line(away_slope, share), share)

    cdef double _search_line(self, double slope, double longest) except -1.0:
        """Move along the direction to the minimum; the step, 0 where none is taken."""
        cdef double curvature, step
        # at the minimum, or with no place to go
        if slope <= 0.0 or longest <= 0.0:
            return 0.0
        curvature = self._take_whole_step()
        # rounding may make a curvature of zero negative
        step = slope / curvature if curvature > 0.0 else longest
        step = step if step < longest else longest
        self._go_back_to(step)
        return step

    cdef int _step_towards(self, double step) except -1:
        """Give the best basis the coefficient that a step takes from the others."""
        cdef Py_ssize_t basis
        if step == 0.0:
            return 0
        for basis in range(self.n_bases):
            self._coefficients[basis] *= 1.0 - step
        # the others have nothing left
        if step == 1.0:
            self.n_bases = 0
        self._add_basis(step)
        return 0

    cdef bint _step_away(self, Py_ssize_t worst, double step,
                         double longest) except -1:
        """Take from the worst basis what the others get; whether it is dropped."""
        cdef Py_ssize_t basis
        cdef double total = 0.0
        if step == 0.0:
            return False
        for basis in range(self.n_bases):
            self._coefficients[basis] *= 1.0 + step
        self._coefficients[worst] -= step
        if step < longest:
            return False
        # a drop step: the last basis takes the place of the one that is left
        self.n_bases -= 1
        if worst != self.n_bases:
            memcpy(self._basis(worst), self._basis(self.n_bases),
                   self._n_factors * sizeof(int32_t))
        self._coefficients[worst] = self._coefficients[self.n_bases]
        # rounding must not add up over many steps
        for basis in range(self.n_bases):
            total += self._coefficients[basis]
        for basis in range(self.n_bases):
            self._coefficients[basis] /= total
        return True

    cdef int _add_basis(self, double coefficient) except -1:
        """Add to the coefficient of the best basis, which may be new."""
        cdef Py_ssize_t n = self.n_bases, known
        cdef size_t n_bytes = self._n_factors * sizeof(int32_t)
        # places do not change, as no outcome leaves here: rows can be compared
        for known in range(n):
            # at most one, as a basis is added only if it is not there
            if not memcmp(self._basis(known), self._best, n_bytes):
                self._coefficients[known] += coefficient
                return 0
        # every step may need one more
        if n == self._capacity:
            self._reserve_bases(2 * n)
        memcpy(self._basis(n), self._best, n_bytes)
        self._coefficients[n] = coefficient
        self.n_bases += 1
        return 0

    # ---- oracles and gains ----

    cdef int _find_labels(self, const double* parts) except -1 nogil:
        """Activate labels that are better than the active ones of their variable."""
        cdef Py_ssize_t variable
        cdef ActiveLabels* labels
        cdef double* gains
        cdef double best, value
        cdef int32_t label = 0
        for variable in range(self.model.n_variables):
            labels = &self._labels[variable]
            # nothing moves until all oracles have been asked
            self._reserve(labels.size + 2)
            gains = self._scratch.score
            self._variable_gains(variable, gains)
            best = gains[argmax(labels.size, gains)]
            self.calls += 1
            if self.model.find_label(variable, parts[variable], labels.size,
                                     labels.label, best, &label, &value):
                activate_label(self._arena, labels, label)
        return 0

    cdef int _find_pairs(self, bint linear) except -1 nogil:
        """Activate outcomes that are better than the active ones of their pair."""
        cdef Py_ssize_t pair, k
        cdef ActiveOutcomes* outcomes
        cdef Outcome outcome
        cdef double best, gain
        for pair in range(self.model.n_pairs):
            outcomes = &self._outcomes[pair]
            self._load_pair(pair)
            best = pair_gain(&self._scratch, outcomes, 0)
            for k in range(1, outcomes.size):
                gain = pair_gain(&self._scratch, outcomes, k)
                best = gain if gain > best else best
            if self._find_pair(pair, linear, best, &outcome):
                self._activate_pair(pair, &outcome)
        return 0

    cdef int _compute_gains(self, bint find_best) except -1:
        """Compute gains of active outcomes, times p_i; find the best of each factor."""
        cdef Py_ssize_t n = self.model.n_variables, i, variable, pair, k
        cdef ActiveOutcomes* outcomes
        cdef double weight
        cdef double* gains
        self._set_offsets()
        # in the units of the objective, as bases have outcomes of all examples
        for i in range(self.model.n_examples):
            weight = self.model._example_weights[i]
            for variable in range(self.model._first_variable[i],
                                  self.model._first_variable[i + 1]):
                gains = &self._gains[self._offsets[variable]]
                self._variable_gains(variable, gains)
                for k in range(self._labels[variable].size):
                    gains[k] *= weight
                if find_best:
                    self._best[variable] = argmax(self._labels[variable].size, gains)
            for pair in range(self.model._first_pair[i], self.model._first_pair[i + 1]):
                outcomes = &self._outcomes[pair]
                self._load_pair(pair)
                gains = &self._gains[self._offsets[n + pair]]
                # the scratch holds one pair at a time
                for k in range(outcomes.size):
                    gains[k] = weight * pair_gain(&self._scratch, outcomes, k)
                if find_best:
                    self._best[n + pair] = argmax(outcomes.size, gains)
        return 0

    cdef int _set_offsets(self) except -1:
        """Lay out the flat arrays, which grow where outcomes came in."""
        cdef Py_ssize_t n = self.model.n_variables, total = 0, factor
        for factor in range(self._n_factors):
            self._offsets[factor] = total
            total += (self._labels[factor].size if factor < n
                      else self._outcomes[factor - n].size)
        self._offsets[self._n_factors] = total
        # never within a step, when the direction is in use and no outcome comes in
        if self._gains_capacity < total:
            resize(<void**> &self._gains, 2 * total * sizeof(double))
            resize(<void**> &self._direction, 2 * total * sizeof(double))
            self._gains_capacity = 2 * total
        return 0

    cdef double* _distribution(self, Py_ssize_t factor) noexcept nogil:
        """Return q of a factor."""
        cdef Py_ssize_t n = self.model.n_variables
        return self._labels[factor].q if factor < n else self._outcomes[factor - n].q

    cdef double _basis_gain(self, const int32_t* basis) noexcept nogil:
        """Return what the outcomes of a basis gain."""
        cdef Py_ssize_t factor
        cdef double total = 0.0
        # the gradient has a part for each factor, and a basis picks one entry of it
        for factor in range(self._n_factors):
            total += self._gains[self._offsets[factor] + basis[factor]]
        return total

    cdef Py_ssize_t _worst_basis(self) noexcept nogil:
        """Return the basis that gains least (16), the first of several."""
        cdef Py_ssize_t basis, worst = 0
        cdef double gain, least = self._basis_gain(self._bases)
        # computed anew: every step changes the gains of all bases
        for basis in range(1, self.n_bases):
            gain = self._basis_gain(self._basis(basis))
            if gain < least:
                worst, least = basis, gain
        return worst

    cdef double _mean_gain(self) noexcept nogil:
        """Return what the outcomes gain on average, under the distributions."""
        cdef Py_ssize_t factor, k
        cdef double total = 0.0
        cdef double* q
        cdef double* gains
        for factor in range(self._n_factors):
            q = self._distribution(factor)
            gains = &self._gains[self._offsets[factor]]
            # what every outcome gains counts by its weight: <gradient, point>
            for k in range(self._offsets[factor + 1] - self._offsets[factor]):
                total += q[k] * gains[k]
        return total

    # ---- moves ----

    cdef void _aim(self, const int32_t* basis, double sign) noexcept nogil:
        """Let the direction lead to a basis for sign 1, from it for sign -1."""
        cdef Py_ssize_t factor, k
        cdef double* q
        cdef double* direction
        for factor in range(self._n_factors):
            q = self._distribution(factor)
            direction = &self._direction[self._offsets[factor]]
            for k in range(self._offsets[factor + 1] - self._offsets[factor]):
                direction[k] = sign * ((k == basis[factor]) - q[k])

    cdef double _slope(self) noexcept nogil:
        """Return how fast the objective falls along the direction."""
        cdef Py_ssize_t k, total = self._offsets[self._n_factors]
        cdef double slope = 0.0
        for k in range(total):
            slope += self._direction[k] * self._gains[k]
        return slope

    cdef double _take_whole_step(self) except? -1.0:
        """Go a whole step; the fall of the slope on the way is the curvature."""
        cdef double before = self._slope()
        # a whole step and not a small one: the quadratic is exact, and the difference
        # of two slopes loses least
        self._move_weights(1.0)
        self._move_distributions(1.0)
        # the gains at the end of the step are those of no iterate: the best of the
        # point where the step began is still needed
        self._compute_gains(False)
        return before - self._slope()

    cdef int _go_back_to(self, double step) except -1:
        """Come back from the whole step to where the line search ends."""
        cdef Py_ssize_t variable, k
        cdef double* direction
        # by the difference, which needs no copy of where the step began
        self._move_weights(step - 1.0)
        self._move_distributions(step - 1.0)
        for variable in range(self.model.n_variables):
            direction = &self._direction[self._offsets[variable]]
            for k in range(self._labels[variable].size):
                # once for each pair, whose residual changes by so much
                self._square_moved += self._labels[variable].degree * (
                    step * direction[k]) ** 2
        return 0

    cdef int _move_distributions(self, double step) except -1:
        """Move the distributions, and the marginals of pairs, along the direction."""
        cdef Py_ssize_t n = self.model.n_variables, factor, pair, k
        cdef PairEnd* end
        cdef double* q
        cdef double* direction
        cdef int side
        for factor in range(n + self.model.n_pairs):
            q = self._distribution(factor)
            direction = &self._direction[self._offsets[factor]]
            for k in range(self._offsets[factor + 1] - self._offsets[factor]):
                q[k] += step * direction[k]
        # marginals are linear in q_f, and move with it rather than be summed again
        for pair in range(self.model.n_pairs):
            direction = &self._direction[self._offsets[n + pair]]
            for side in range(2):
                end = &self._outcomes[pair].ends[side]
                for k in range(self._outcomes[pair].size):
                    end.marginal[end.place[k]] += step * direction[k]
                    end.labels.total[end.place[k]] += step * direction[k]
        return 0

    cdef int _move_weights(self, double step) except -1:
        """Move the weights along what the direction is in their space (10)."""
        cdef Py_ssize_t n = self.model.n_variables, i, variable, pair
        cdef ActiveLabels* labels
        cdef ActiveOutcomes* outcomes
        cdef double scale
        for i in range(self.model.n_examples):
            # weights go by e_truth - q
            scale = -step * self.model._example_weights[i] / self.alpha
            for variable in range(self.model._first_variable[i],
                                  self.model._first_variable[i + 1]):
                labels = &self._labels[variable]
                self._scale_direction(variable, labels.size, scale)
                self.model.add_labels(variable, labels.size, labels.label,
                                      self._scratch.change)
            for pair in range(self.model._first_pair[i], self.model._first_pair[i + 1]):
                outcomes = &self._outcomes[pair]
                self._scale_direction(n + pair, outcomes.size, scale)
                self.model.add_pairs(pair, outcomes.size, outcomes.entry,
                                     self._scratch.change)
        return 0

    cdef int _scale_direction(self, Py_ssize_t factor, Py_ssize_t n,
                              double scale) except -1 nogil:
        """Write a multiple of the direction of one factor into the scratch."""
        cdef double* direction = &self._direction[self._offsets[factor]]
        cdef Py_ssize_t k
        self._reserve(n + 2)
        for k in range(n):
            self._scratch.change[k] = scale * direction[k]
        return 0


cdef int32_t argmax(Py_ssize_t n, const double* values) noexcept nogil:
    """Return the place of the largest of n values, the first of several."""
    cdef Py_ssize_t k
    cdef int32_t best = 0
    # a tie with the observed outcome, the first of its factor, is for that one
    for k in range(1, n):
        if values[k] > values[best]:
            best = <int32_t> k
    return best
