"""Greedy direction method of multipliers for large domains: Algorithm 1, kernel.

X. Huang et al., Greedy direction method of multiplier for MAP inference of large output
domain, AISTATS 2017, minimize the augmented Lagrangian (3) of the LP relaxation over
the marginals x_i of variables and y_f of factors, zero except for a few states:

    sum_i -theta_i' x_i + sum_f -theta_f' y_f
        + rho / 2 sum_(f,i) |M_if y_f - x_i + mu_if / rho|^2

A sweep adds to each y_f the entry of steepest descent (8), which sorted lists find
where the gradients are zero and a scan finds elsewhere, and takes one projected
gradient step (6), whose Q is doubled until it is an upper bound of the curvature. Then
each x_i is updated likewise, by the exact projection (4), and the multipliers by (9),
with eta in units of rho. Vectors are sparse, see `SlotState`.

The gradient of the quadratic term in M_if y_f is d_if = rho (M_if y_f - x_i) + mu_if.
The gradient of the Lagrangian in an entry of y_f is the sum of the d_if at the entry's
states minus its score: see `EntrySearch` for edges and `HigherSearch` for larger
factors.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport Problem, variable_at
from sksstruct.inference.map.gdmm._higher_search cimport HigherSearch
from sksstruct.inference.map.gdmm._edge_search cimport EntrySearch, Search
from sksstruct.inference.map.gdmm._slots cimport (
    Active, End, SlotState, find_entry,
)
from sksstruct.utils._pointers cimport int32s, intps

# A factor whose step has a smaller squared norm takes no more steps in an iteration.
cdef double STILL = 1e-18


cdef class GreedyState(SlotState):
    """Kernel of Algorithm 1 of the paper, on the arrays of `MAPGDMMState`."""

    cdef double _eta
    cdef EntrySearch _search
    cdef HigherSearch _higher
    # entry that the last search (8) found: its states, their slots, and its score
    cdef Py_ssize_t* _found_states
    cdef int32_t* _found_slot
    cdef double _found_score

    def __init__(self, Problem problem, EntrySearch search, HigherSearch higher,
                 double rho, double eta, arrays):
        SlotState.__init__(self, problem, rho, arrays)
        self._search, self._higher, self._eta = search, higher, eta
        self._found_states = intps(arrays.found)
        self._found_slot = int32s(arrays.found_slot)

    @property
    def looked_up(self):
        return self._search.looked_up + self._higher.looked_up

    # ---- update of one factor ----

    cdef bint _update_factor(self, Problem problem,
                             Py_ssize_t factor) except -1 nogil:
        """Activate the entry of steepest descent (8) of a factor, and take a step (6).

        Returns whether another step may help.
        """
        cdef Active* active = &self._active[factor]
        cdef double step_square
        self._find_gradient(problem, factor)
        self._search_entry(problem, factor, False)
        # an entry that is no better than the active ones is activated, too: the step
        # removes it again
        self._activate_entry(problem, factor)
        # a single active entry has the value 1, which a step cannot change
        if active.count == 1:
            self.n_active += 1
            return False
        step_square = self._descend(problem, factor)
        self._drop_zeros(active)
        self.n_active += active.count
        # after a negligible step, another search would find the same entry
        return step_square > STILL

    cdef void _find_gradient(self, Problem problem,
                             Py_ssize_t factor) noexcept nogil:
        """Write the gradient d_if of each end of a factor to `_gradient`."""
        cdef Py_ssize_t i, variable, k
        cdef const End* end
        cdef const double* x
        cdef double* gradient
        for i in range(self._active[factor].arity):
            variable, gradient = variable_at(problem, factor, i), self._gradient[i]
            # all vectors of a variable have the same slots
            end, x = &self._ends[problem.scope_first[factor] + i], self._x[variable]
            for k in range(self._n_slots[variable]):
                gradient[k] = self.rho * (end.marginal[k] - x[k]) + end.mu[k]

    cdef double _search_entry(self, Problem problem, Py_ssize_t factor,
                              bint multipliers) except? -1 nogil:
        """Find the entry of a factor with the largest descent; return the descent.

        If `multipliers` is true, multipliers take the place of gradients in the
        descent.
        """
        cdef Py_ssize_t first = problem.scope_first[factor]
        cdef Search search
        if factor >= problem.n_edges:
            return self._higher.run(self, problem, factor, multipliers,
                                    self._gradient, self._found_states,
                                    &self._found_score)
        if multipliers:
            self._search.run(self, problem, factor, self._ends[first].mu,
                             self._ends[first + 1].mu, &search)
        else:
            self._search.run(self, problem, factor, self._gradient[0],
                             self._gradient[1], &search)
        self._found_states[0], self._found_states[1] = search.row, search.col
        self._found_score = problem.entry(factor, search.row, search.col)
        return search.best

    cdef int _activate_entry(self, Problem problem,
                             Py_ssize_t factor) except -1 nogil:
        """Activate the entry that `_search_entry` found.

        The first entry of a factor gets the value 1, all others 0.
        """
        cdef Active* active = &self._active[factor]
        cdef Py_ssize_t i, variable, slot, first = problem.scope_first[factor]
        for i in range(active.arity):
            variable = variable_at(problem, factor, i)
            slot = self._slot[problem.first[variable] + self._found_states[i]]
            if slot < 0:
                slot = self.add_slot(problem, variable, self._found_states[i])
                # x, y and mu are zero in a new slot, and so is the gradient
                self._gradient[i][slot] = 0.0
            self._found_slot[i] = slot
        if find_entry(active, self._found_slot) >= 0:
            return 0
        # the new entry has value zero, so that the marginals of all ends do not change
        self.add_entry(active, self._found_slot, self._found_score)
        # the first entry makes y_f a distribution
        if active.count == 1:
            active.value[0] = 1.0
            for i in range(active.arity):
                slot = self._found_slot[i]
                self._ends[first + i].marginal[slot] += 1.0
                self._gradient[i][slot] += self.rho
        return 0

    cdef double _descend(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """Take a projected gradient step (6) in the active entries of a factor's y_f.

        The step is written to `_work` and added to the marginals M y; `_drop_zeros`
        adds it to y_f. Returns the squared norm of the step.
        """
        cdef Active* active = &self._active[factor]
        cdef double rho = self.rho, step_square, change, bound = active.arity * self.rho
        cdef double highest = 2.0 * bound * active.count
        # every trial step starts from the same gradient
        while True:
            step_square = self._propose(active, bound)
            self._add_step(problem, factor, 1.0)
            change = self._squared_image(problem, factor)
            # Stop if `bound` is at least the curvature along the step, up to rounding.
            # No curvature exceeds rho times the number of ends times the number of
            # entries, so that the search ends in any case.
            if rho * change <= bound * step_square * (1.0 + 1e-9) or bound > highest:
                return step_square
            self._add_step(problem, factor, -1.0)
            bound *= 2.0

    cdef double _propose(self, const Active* active, double bound) noexcept nogil:
        """Write the projected gradient step, Q = bound, to `_work`; return |step|^2."""
        cdef const int32_t* slot = active.slot
        cdef Py_ssize_t k, i
        cdef double descent, threshold, step_square = 0.0
        for k in range(active.count):
            descent = active.score[k]
            for i in range(active.arity):
                descent -= self._gradient[i][slot[i]]
            slot += active.arity
            self._work[k] = active.value[k] + descent / bound
        # project onto the simplex, and subtract the old values
        threshold = self._threshold(self._work, active.count)
        for k in range(active.count):
            descent = self._work[k] - threshold
            self._work[k] = (descent if descent > 0.0 else 0.0) - active.value[k]
            step_square += self._work[k] * self._work[k]
        return step_square

    cdef void _add_step(self, Problem problem, Py_ssize_t factor,
                        double sign) noexcept nogil:
        """Add the step in `_work`, times `sign`, to the marginals M y of all ends."""
        cdef const Active* active = &self._active[factor]
        cdef const End* ends = &self._ends[problem.scope_first[factor]]
        cdef const int32_t* slot = active.slot
        cdef Py_ssize_t k, i
        for k in range(active.count):
            # entries may share a slot, so that their steps add up
            for i in range(active.arity):
                ends[i].marginal[slot[i]] += sign * self._work[k]
            slot += active.arity

    cdef double _squared_image(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """Return |M step|^2 for the step in `_work`, which M y already contains."""
        # step' M' (M step), without another array: the old M y follows from the
        # gradient
        cdef const Active* active = &self._active[factor]
        cdef const End* ends = &self._ends[problem.scope_first[factor]]
        cdef const int32_t* slot = active.slot
        cdef Py_ssize_t k, i, j
        cdef double rho = self.rho, change, total = 0.0
        for k in range(active.count):
            change = 0.0
            for i in range(active.arity):
                # M step = new M y, in the marginals, minus old M y = (d - mu) / rho + x
                j = slot[i]
                change += (ends[i].marginal[j]
                           - (self._gradient[i][j] - ends[i].mu[j]) / rho
                           - self._x[variable_at(problem, factor, i)][j])
            slot += active.arity
            total += self._work[k] * change
        return total

    cdef void _drop_zeros(self, Active* active) noexcept nogil:
        """Add the step in `_work` to y_f; remove entries that become zero."""
        cdef Py_ssize_t i, k, n_left = 0, arity = active.arity
        # the marginals contain the step already; the order of entries does not matter
        for i in range(active.count):
            active.value[i] += self._work[i]
            if active.value[i] > 0.0:
                for k in range(arity):
                    active.slot[n_left * arity + k] = active.slot[i * arity + k]
                active.score[n_left] = active.score[i]
                active.value[n_left] = active.value[i]
                n_left += 1
        active.count = n_left

    cdef double _threshold(self, const double* values, Py_ssize_t n) noexcept nogil:
        """Return tau for which the sum of max(0, values - tau) is 1.

        This is the threshold of the projection of `values` onto the simplex.
        """
        # Insertion sort, as the values are few. `threshold_by_partition` of the
        # projections adds the values in another order, and its results differ in the
        # last digit.
        cdef double* ordered = self._sorted
        cdef Py_ssize_t i, k
        cdef double value, total = 0.0, threshold = 0.0
        # a copy is sorted, as the step needs the values in their order
        for i in range(n):
            value = values[i]
            k = i
            while k and ordered[k - 1] < value:
                ordered[k] = ordered[k - 1]
                k -= 1
            ordered[k] = value
        # find the largest prefix whose values all exceed the threshold of the prefix
        for i in range(n):
            total += ordered[i]
            if not ordered[i] > (total - 1.0) / (i + 1):
                break
            threshold = (total - 1.0) / (i + 1)
        return threshold

    # ---- update of one variable ----

    cdef int _update_variable(self, Problem problem, Py_ssize_t variable,
                              bint multipliers) except -1 nogil:
        """Update one variable: search a state (7), project (4), update multipliers (9).
        """
        cdef Py_ssize_t degree = (problem.in_first[variable + 1]
                                  - problem.in_first[variable])
        # a variable without factors has no mean to project; its initial state is the
        # best
        if degree == 0:
            return 0
        self._activate_state(problem, variable, degree)
        self._project(problem, variable, degree)
        self._update_multipliers(problem, variable, multipliers)
        return 0

    cdef int _activate_state(self, Problem problem, Py_ssize_t variable,
                             Py_ssize_t degree) except -1 nogil:
        """Search (7): find the state of steepest descent among those without a slot.

        The state gets a slot if the projection would make its marginal positive.
        """
        # outside of the slots the gradient is -theta_i: the next state by score is the
        # best
        cdef Py_ssize_t first = problem.first[variable], n = problem.states[variable]
        cdef Py_ssize_t state, rank = self._next_rank[variable]
        while rank < n and self._slot[first + self._by_score[first + rank]] >= 0:
            rank += 1
        # slots are never removed, so that the next search starts at this rank
        self._next_rank[variable] = rank
        if rank == n:
            return 0
        state = self._by_score[first + rank]
        if (problem.unary[first + state] / (self.rho * degree)
                > self._average(problem, variable, degree)):
            self.add_slot(problem, variable, state)
        return 0

    cdef void _project(self, Problem problem, Py_ssize_t variable,
                       Py_ssize_t degree) noexcept nogil:
        """Update x_i by projection (4), and add the step to the dual residual."""
        # the threshold is computed again, as the search (7) may have added a slot
        cdef double threshold = self._average(problem, variable, degree)
        cdef double* x = self._x[variable]
        cdef Py_ssize_t k
        cdef double value, moved = 0.0
        # slots with x = 0 are kept, as their states are likely to return
        for k in range(self._n_slots[variable]):
            value = self._work[k] - threshold
            value = value if value > 0.0 else 0.0
            moved += (value - x[k]) * (value - x[k])
            x[k] = value
        self.dual_residual += self.rho * self.rho * degree * moved

    cdef double _average(self, Problem problem, Py_ssize_t variable,
                         Py_ssize_t degree) noexcept nogil:
        """Write the mean vector that (4) projects onto the simplex to `_work`.

        Returns the threshold of the projection.
        """
        cdef Py_ssize_t i, k, n = self._n_slots[variable]
        cdef const int32_t* state = self._state[variable]
        cdef const End* end
        # end by end, as the vectors of an end are contiguous
        for k in range(n):
            self._work[k] = problem.unary[problem.first[variable] + state[k]] / self.rho
        for i in range(problem.in_first[variable], problem.in_first[variable + 1]):
            end = &self._ends[problem.in_place[i]]
            for k in range(n):
                self._work[k] += end.marginal[k] + end.mu[k] / self.rho
        for k in range(n):
            self._work[k] /= degree
        return self._threshold(self._work, n)

    cdef void _update_multipliers(self, Problem problem, Py_ssize_t variable,
                                  bint multipliers) noexcept nogil:
        """Add the squares of M y - x at a variable to the primal residual.

        If `multipliers` is true, updates the variable's multipliers (9), too.
        """
        cdef const double* x = self._x[variable]
        cdef Py_ssize_t i, k
        cdef End* end
        cdef double difference, step = self._eta * self.rho
        for i in range(problem.in_first[variable], problem.in_first[variable + 1]):
            end = &self._ends[problem.in_place[i]]
            for k in range(self._n_slots[variable]):
                difference = end.marginal[k] - x[k]
                # `sweep` takes the square root of the sum of squares
                self.primal_residual += difference * difference
                if multipliers:
                    end.mu[k] += step * difference

    # ---- sweeps and values ----

    def sweep(self, Py_ssize_t steps=1, bint multipliers=True):
        """Update all factors, then all variables with their multipliers.

        Parameters
        ----------
        steps : int, default=1
            Largest number of searches and steps of each factor.
        multipliers : bool, default=True
            Whether to update the multipliers as well.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t factor, variable, _k
        with nogil:
            self.primal_residual = self.dual_residual = 0.0
            self.n_active = 0
            for factor in range(self._n_factors):
                if problem.late(self._work_of(problem, factor)):
                    break
                # repeat until a step is negligible, at most `steps` times
                for _k in range(steps):
                    if not self._update_factor(problem, factor):
                        break
            # in the rest of the sweep the marginals y_f of factors do not change
            for variable in range(problem.n_variables):
                self._update_variable(problem, variable, multipliers)
            self.primal_residual = self.primal_residual ** 0.5
            self.dual_residual = self.dual_residual ** 0.5

    def bound(self):
        """Return an upper bound on the scores of all labelings.

        The bound is the maximum of the Lagrangian.

        Returns
        -------
        bound : float
            sum_i max(theta_i + sum_f mu_if) + sum_f max(theta_f - M' mu_f).
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t variable, factor
        cdef double total = 0.0
        with nogil:
            for variable in range(problem.n_variables):
                total += self._best_state(problem, variable)
            for factor in range(self._n_factors):
                if problem.late(self._work_of(problem, factor)):
                    total = INFINITY
                    break
                # multipliers take the place of gradients
                total += self._search_entry(problem, factor, True)
        return total

    cdef inline double _work_of(self, Problem problem,
                                Py_ssize_t factor) noexcept nogil:
        """Return roughly how many table entries a search in a factor reads."""
        cdef Py_ssize_t i
        cdef double total = 64.0
        if factor >= problem.n_edges:
            total += self._higher.n_entries(problem, factor)
        for i in range(self._active[factor].arity):
            total += problem.states[variable_at(problem, factor, i)]
        return total

    cdef double _best_state(self, Problem problem,
                            Py_ssize_t variable) noexcept nogil:
        """Return the maximum of theta_i + sum_f mu_if over the states of a variable."""
        cdef const double* unary = &problem.unary[problem.first[variable]]
        cdef const int32_t* slot = &self._slot[problem.first[variable]]
        cdef const int32_t* by_score = &self._by_score[problem.first[variable]]
        cdef Py_ssize_t i, k
        cdef double score, best = -INFINITY
        # scores of states with slots, which have multipliers at every end
        for k in range(self._n_slots[variable]):
            score = unary[self._state[variable][k]]
            for i in range(problem.in_first[variable],
                           problem.in_first[variable + 1]):
                score += self._ends[problem.in_place[i]].mu[k]
            if score > best:
                best = score
        # states without slots have no multipliers: the best of these states is the
        # first one in descending order of scores
        for k in range(problem.states[variable]):
            if slot[by_score[k]] < 0:
                return max(best, unary[by_score[k]])
        return best

    def lagrangian(self):
        """Return the augmented Lagrangian (3) without terms in the multipliers alone.

        Returns
        -------
        value : float
            -value() + sum mu' (M y - x) + rho / 2 sum |M y - x|^2.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t variable, i, k
        cdef End* end
        cdef double difference, total = -self.value()
        # for tests: each block update of a sweep must lower this value
        for variable in range(problem.n_variables):
            for i in range(problem.in_first[variable],
                           problem.in_first[variable + 1]):
                end = &self._ends[problem.in_place[i]]
                for k in range(self._n_slots[variable]):
                    difference = end.marginal[k] - self._x[variable][k]
                    total += (end.mu[k] * difference
                              + 0.5 * self.rho * difference * difference)
        return total
