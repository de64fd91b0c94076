"""Away-step Frank-Wolfe on the augmented Lagrangian: Algorithm 2 of Yen et al. (2016).

The point, all q_v and q_f of `_state.pyx` together, is a convex combination of bases; a
basis picks one outcome of every factor (14). A step moves either towards the basis of
the best outcomes (15), or away from the active basis with the least gain (16),
whichever has the steeper slope (17). The line search is exact, as the objective is
quadratic: its curvature along a direction is the difference of the slopes before and
after a whole step. A pass ends with the first step that does not drop a basis.

A whole step of the multipliers raises the augmented Lagrangian by the violation
sum_i p_i rho sum |M_vf q_f - q_v|^2. The slope towards the best basis bounds the
decrease that is left to the minimization; if this bound exceeds the violation, the
step is shortened. Otherwise the multipliers would oscillate around a point far from the
optimum; Theorem 1 prevents this by a bound of eta, whose constants are unknown.

Factors are numbered: variables first, then pairs. Gains and directions of their active
outcomes lie in flat arrays, in which each factor has an offset.
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
    """State of GDMM whose distributions are convex combinations of bases.

    A basis consists of one outcome of each factor.

    Attributes
    ----------
    n_bases : int
        Number of active bases: the bases with a positive coefficient.
    """

    cdef readonly Py_ssize_t n_bases
    cdef Py_ssize_t _n_factors, _capacity, _gains_capacity
    # (n_bases, n_factors): the outcome that each active basis has at each factor, as a
    # place in the factor's list of active outcomes
    cdef int32_t* _bases
    # (n_bases,): coefficient of each active basis in the convex combination
    cdef double* _coefficients
    # (n_factors,): the basis of the best outcomes, in the format of a row of `_bases`
    cdef int32_t* _best
    # `_gains` and `_direction` have an entry for each active outcome of each factor;
    # the entries of factor f begin at _offsets[f]
    cdef Py_ssize_t* _offsets
    cdef double* _gains
    cdef double* _direction

    def __cinit__(self, FactorModel model, alpha, rho):
        self._n_factors = model.n_variables + model.n_pairs
        self._reserve_bases(8)
        # the first basis has the observed outcomes, which have place 0 in their lists
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
        """Reserve memory for n bases."""
        resize(<void**> &self._bases, n * self._n_factors * sizeof(int32_t))
        resize(<void**> &self._coefficients, n * sizeof(double))
        self._capacity = n
        return 0

    cdef int32_t* _basis(self, Py_ssize_t basis) noexcept nogil:
        """Return the row of `_bases` that holds an active basis."""
        return self._bases + basis * self._n_factors

    def away_step(self, parts_, bint linear):
        """Make steps until one drops no basis; parameters as in `GDMMState.visit`."""
        cdef const double* parts = const_doubles(parts_)
        self._square_moved = 0.0
        # the loop ends, as every iteration but the last one removes a basis, and none
        # but the last one can add a basis
        while self._step_drops_basis(parts, linear):
            pass

    def update(self, double eta):
        """Update the multipliers, by a shorter step if the point is far from optimal.

        Parameters
        ----------
        eta : float
            Largest step in units of rho.
        """
        cdef double violation = self._violation()
        # A whole step raises the augmented Lagrangian by `violation`. If the slope
        # towards the best basis (`block_gap`) is larger, the step is multiplied by
        # violation / slope. The step stays positive, so that no violation persists.
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
                # another pair may have activated labels since this pair was visited
                fit_ends(self._arena, &self._outcomes[pair])
                for side in range(2):
                    end = &self._outcomes[pair].ends[side]
                    for k in range(end.labels.size):
                        square += (end.marginal[k] - end.labels.q[k]) ** 2
            total += self.model._example_weights[i] * square
        return self.rho * total

    # ---- one step ----

    cdef bint _step_drops_basis(self, const double* parts, bint linear) except -1:
        """Make one Frank-Wolfe or away step; return whether it dropped a basis."""
        cdef Py_ssize_t worst
        cdef double current, towards_slope, away_slope, longest
        # the oracles activate the best outcome of every factor before gains of active
        # outcomes are computed
        self._find_labels(parts)
        self._find_pairs(linear)
        self._compute_gains(True)
        # rates at which the objective decreases along the Frank-Wolfe direction d_F and
        # the away direction d_A of (17): a gain is minus an entry of the gradient
        current = self._mean_gain()
        worst = self._worst_basis()
        towards_slope = self._basis_gain(self._best) - current
        away_slope = current - self._basis_gain(self._basis(worst))
        self.block_gap = towards_slope
        # a point that is a single basis cannot move away from this basis
        if towards_slope >= away_slope or self.n_bases == 1:
            self._set_direction(self._best, 1.0)
            self._step_towards(self._search_line(towards_slope, 1.0))
            return False
        # an away step changes the coefficient c of the worst basis to
        # c (1 + step) - step; the longest step makes this coefficient zero
        longest = self._coefficients[worst]
        longest = longest / (1.0 - longest) if longest < 1.0 else 0.0
        self._set_direction(self._basis(worst), -1.0)
        return self._step_away(worst, self._search_line(away_slope, longest), longest)

    cdef double _search_line(self, double slope, double longest) except -1.0:
        """Move the point along `_direction` to the minimum; return the step size."""
        cdef double curvature, step
        # the direction does not descend, or the longest step has length zero
        if slope <= 0.0 or longest <= 0.0:
            return 0.0
        curvature = self._take_whole_step()
        # rounding may make a curvature of zero negative
        step = slope / curvature if curvature > 0.0 else longest
        step = step if step < longest else longest
        self._retreat_to(step)
        return step

    cdef int _step_towards(self, double step) except -1:
        """Move a fraction `step` of all coefficients to the best basis."""
        cdef Py_ssize_t basis
        if step == 0.0:
            return 0
        for basis in range(self.n_bases):
            self._coefficients[basis] *= 1.0 - step
        # a step of 1 makes the coefficients of all other bases zero
        if step == 1.0:
            self.n_bases = 0
        self._add_basis(step)
        return 0

    cdef bint _step_away(self, Py_ssize_t worst, double step,
                         double longest) except -1:
        """Lower the coefficient of the worst basis; return whether this drops it."""
        cdef Py_ssize_t basis
        cdef double total = 0.0
        if step == 0.0:
            return False
        for basis in range(self.n_bases):
            self._coefficients[basis] *= 1.0 + step
        self._coefficients[worst] -= step
        if step < longest:
            return False
        # in a drop step, the row of the dropped basis is filled with the last row
        self.n_bases -= 1
        if worst != self.n_bases:
            memcpy(self._basis(worst), self._basis(self.n_bases),
                   self._n_factors * sizeof(int32_t))
        self._coefficients[worst] = self._coefficients[self.n_bases]
        # coefficients are normalized, so that rounding errors do not add up over many
        # steps
        for basis in range(self.n_bases):
            total += self._coefficients[basis]
        for basis in range(self.n_bases):
            self._coefficients[basis] /= total
        return True

    cdef int _add_basis(self, double coefficient) except -1:
        """Add to the coefficient of the best basis; append it if it is not active."""
        cdef Py_ssize_t n = self.n_bases, row
        cdef size_t n_bytes = self._n_factors * sizeof(int32_t)
        # rows can be compared, as places of outcomes never change in this class
        for row in range(n):
            # at most one row matches, as rows are distinct
            if not memcmp(self._basis(row), self._best, n_bytes):
                self._coefficients[row] += coefficient
                return 0
        # the capacity doubles, as later steps may append more bases
        if n == self._capacity:
            self._reserve_bases(2 * n)
        memcpy(self._basis(n), self._best, n_bytes)
        self._coefficients[n] = coefficient
        self.n_bases += 1
        return 0

    # ---- oracles and gains ----

    cdef int _find_labels(self, const double* parts) except -1 nogil:
        """Activate for each variable its best label, if all active labels gain less."""
        cdef Py_ssize_t variable
        cdef ActiveLabels* labels
        cdef double* gains
        cdef double best, value
        cdef int32_t label = 0
        for variable in range(self.model.n_variables):
            labels = &self._labels[variable]
            # labels of earlier variables may be activated before this gain is computed:
            # this changes neither the point nor the messages
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
        """Activate for each pair its best outcome, if all active outcomes gain less."""
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
        """Write gains of all active outcomes, times example weights p_i, to `_gains`.

        With `find_best`, the place of the best outcome of each factor is written to
        `_best`.
        """
        cdef Py_ssize_t n = self.model.n_variables, i, variable, pair, k
        cdef ActiveOutcomes* outcomes
        cdef double weight
        cdef double* gains
        self._set_offsets()
        # the factor p_i puts the gains of different examples into the unit of the
        # objective, as a basis has outcomes in all examples
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
                # the scratch holds only one pair at a time
                for k in range(outcomes.size):
                    gains[k] = weight * pair_gain(&self._scratch, outcomes, k)
                if find_best:
                    self._best[n + pair] = argmax(outcomes.size, gains)
        return 0

    cdef int _set_offsets(self) except -1:
        """Set the offsets of factors, and enlarge the flat arrays if necessary."""
        cdef Py_ssize_t n = self.model.n_variables, total = 0, factor
        for factor in range(self._n_factors):
            self._offsets[factor] = total
            total += (self._labels[factor].size if factor < n
                      else self._outcomes[factor - n].size)
        self._offsets[self._n_factors] = total
        # only the first call in a step may enlarge the arrays: the direction, which
        # later calls must keep, is set after the last outcome has become active
        if self._gains_capacity < total:
            resize(<void**> &self._gains, 2 * total * sizeof(double))
            resize(<void**> &self._direction, 2 * total * sizeof(double))
            self._gains_capacity = 2 * total
        return 0

    cdef double* _distribution(self, Py_ssize_t factor) noexcept nogil:
        """Return the probabilities q of the active outcomes of a factor."""
        cdef Py_ssize_t n = self.model.n_variables
        return self._labels[factor].q if factor < n else self._outcomes[factor - n].q

    cdef double _basis_gain(self, const int32_t* basis) noexcept nogil:
        """Return the sum of the gains of a basis's outcomes."""
        cdef Py_ssize_t factor
        cdef double total = 0.0
        for factor in range(self._n_factors):
            total += self._gains[self._offsets[factor] + basis[factor]]
        return total

    cdef Py_ssize_t _worst_basis(self) noexcept nogil:
        """Return the active basis with the least gain (16), the first of several."""
        cdef Py_ssize_t basis, worst = 0
        cdef double gain, least = self._basis_gain(self._bases)
        # the gains of all bases are recomputed, as every step changes them
        for basis in range(1, self.n_bases):
            gain = self._basis_gain(self._basis(basis))
            if gain < least:
                worst, least = basis, gain
        return worst

    cdef double _mean_gain(self) noexcept nogil:
        """Return the sum over factors f of the mean gain of outcomes under q_f."""
        cdef Py_ssize_t factor, k
        cdef double total = 0.0
        cdef double* q
        cdef double* gains
        for factor in range(self._n_factors):
            q = self._distribution(factor)
            gains = &self._gains[self._offsets[factor]]
            # the sum is -<gradient, point>
            for k in range(self._offsets[factor + 1] - self._offsets[factor]):
                total += q[k] * gains[k]
        return total

    # ---- moves ----

    cdef void _set_direction(self, const int32_t* basis, double sign) noexcept nogil:
        """Set the direction: towards a basis for sign 1, away from it for sign -1."""
        cdef Py_ssize_t factor, k
        cdef double* q
        cdef double* direction
        for factor in range(self._n_factors):
            q = self._distribution(factor)
            direction = &self._direction[self._offsets[factor]]
            for k in range(self._offsets[factor + 1] - self._offsets[factor]):
                direction[k] = sign * ((k == basis[factor]) - q[k])

    cdef double _slope(self) noexcept nogil:
        """Return the rate at which the objective decreases along the direction."""
        cdef Py_ssize_t k, total = self._offsets[self._n_factors]
        cdef double slope = 0.0
        for k in range(total):
            slope += self._direction[k] * self._gains[k]
        return slope

    cdef double _take_whole_step(self) except? -1.0:
        """Move by a step of 1, and return the curvature: the decrease of the slope."""
        cdef double before = self._slope()
        # The objective is quadratic, so that the slopes before and after a step of any
        # length give its curvature. Rounding affects the difference of the slopes least
        # if the step is long.
        self._move_weights(1.0)
        self._move_distributions(1.0)
        # False keeps `_best`, the best basis at the point where the step began
        self._compute_gains(False)
        return before - self._slope()

    cdef int _retreat_to(self, double step) except -1:
        """Move back from the whole step to the step that the line search returns."""
        cdef Py_ssize_t variable, k
        cdef double* direction
        # moving by the difference saves a copy of the initial point
        self._move_weights(step - 1.0)
        self._move_distributions(step - 1.0)
        for variable in range(self.model.n_variables):
            direction = &self._direction[self._offsets[variable]]
            for k in range(self._labels[variable].size):
                # `_square_moved` counts the change of q_v once for each pair of v
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
        # marginals are linear in q_f, and are updated rather than summed again
        for pair in range(self.model.n_pairs):
            direction = &self._direction[self._offsets[n + pair]]
            for side in range(2):
                end = &self._outcomes[pair].ends[side]
                for k in range(self._outcomes[pair].size):
                    end.marginal[end.place[k]] += step * direction[k]
                    end.labels.total[end.place[k]] += step * direction[k]
        return 0

    cdef int _move_weights(self, double step) except -1:
        """Change the weights w(q) (10) as a step of q along the direction does."""
        cdef Py_ssize_t n = self.model.n_variables, i, variable, pair
        cdef ActiveLabels* labels
        cdef ActiveOutcomes* outcomes
        cdef double scale
        for i in range(self.model.n_examples):
            # by (10), the weights contain -C_i q times the features of the outcomes
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
        """Write the direction of one factor, times `scale`, to the scratch."""
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
    # the observed outcome, which comes first, wins ties
    for k in range(1, n):
        if values[k] > values[best]:
            best = <int32_t> k
    return best
