"""Weighted local search: violated constraints first, the score second.

A table entry is a violation if it is below the best entry by more than a limit. The
search maximizes a weighted sum, in which the score of a violated factor is its best
entry minus the weight of the factor. In a local maximum the weights of all violated
factors grow, until a step improves the sum again (breakout; P. Morris, The breakout
method for escaping from local minima, AAAI 1993). After several local maxima without
violations all weights shrink, so that the search crosses infeasible labelings again.

Each step changes one variable, and the state that it leaves is taboo for some steps.
Values of all states given the rest are updated after each step, for one row of each
table of the variable.
"""

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memset

from sksstruct.inference.map.core._problem cimport Problem, other_end
from sksstruct.utils._pointers cimport const_doubles, doubles, int32s, int64s
from sksstruct.utils._random cimport random_below

# Largest number of variables that are compared for a step.
cdef Py_ssize_t SAMPLE = 40
# After this number of local maxima without violations, weights are multiplied by
# SHRINK.
cdef Py_ssize_t FEASIBLE = 30
cdef double SHRINK = 0.7
# Number of steps after which the values of all states are recomputed, as rounding
# errors of updates accumulate.
cdef Py_ssize_t REFRESH = 100_000


cdef class WeightedSteps:
    """Steps of `WeightedSearch`, in its arrays."""

    cdef Problem problem
    cdef object _owned
    cdef readonly double gain
    cdef double _present_gain, _limit, _unit
    cdef Py_ssize_t _taboo
    cdef uint64_t _random
    cdef int32_t* _labeling
    cdef int32_t* _best
    cdef const double* _highest
    # Weight of each factor, edges first; list of violated factors; and position of each
    # factor in this list, -1 for factors that are not violated.
    cdef double* _weight
    cdef int32_t* _violated
    cdef int32_t* _seat
    cdef readonly Py_ssize_t n_violated
    # of each state: weighted sum of its variable's scores given all other variables,
    # and time at which the variable left the state
    cdef double* _value
    cdef int64_t* _left_at
    # Best other state of each variable; list of variables whose gain by this state is
    # positive; position of each variable in this list, or -1; and the gains.
    cdef int32_t* _target
    cdef int32_t* _improving
    cdef int32_t* _improving_seat
    cdef double* _step_gain
    cdef Py_ssize_t _n_improving, _n_feasible
    cdef int64_t _time
    # entries read since the last step, except those of edges that `_move` counts
    cdef double _entries_read
    # rows of an edge for the old and the new state of one end
    cdef double* _old_row
    cdef double* _new_row

    def __init__(self, Problem problem, arrays, uint64_t random, double limit,
                 double unit, Py_ssize_t taboo):
        self.problem, self._owned, self._random = problem, arrays, random
        self._limit, self._unit, self._taboo = limit, unit, taboo
        self._labeling, self._best = int32s(arrays.labeling), int32s(arrays.best)
        self._highest = const_doubles(arrays.highest)
        self._weight, self._value = doubles(arrays.weight), doubles(arrays.value)
        self._violated, self._seat = int32s(arrays.violated), int32s(arrays.seat)
        self._left_at, self._step_gain = int64s(arrays.left), doubles(arrays.step_gain)
        self._target, self._improving = int32s(arrays.target), int32s(arrays.rising)
        self._improving_seat = int32s(arrays.place)
        self._old_row, self._new_row = doubles(arrays.old), doubles(arrays.new)
        self._recompute(problem)

    def run(self, double work):
        """Continue the search for about `work` entries; return the best gain."""
        cdef Problem problem = self.problem
        cdef double left = work, used
        cdef Py_ssize_t variable
        with nogil:
            while left > 0.0:
                # ascend; in a local maximum, compare the labeling with the best one
                variable = self._pick_improving(problem)
                if variable < 0:
                    self._record(problem)
                    variable = self._escape(problem)
                # choosing a step counts as work even if no entries are read
                used = self._entries_read + 8.0
                self._entries_read = 0.0
                if variable >= 0:
                    used += self._move(problem, variable, self._target[variable])
                else:
                    # all steps are taboo: taboos end when time has passed
                    self._time += 1
                left -= used
                if problem.late(used):
                    break
                # rounding errors of updates accumulate
                if self._time % REFRESH == 0:
                    self._recompute(problem)
            self._record(problem)
        return self.gain

    @cython.final
    cdef void _record(self, Problem problem) noexcept nogil:
        """Keep the present labeling if its score is the best."""
        # gains are unweighted, as the weights change
        if self._present_gain > self.gain + 1e-9 * self._unit:
            self.gain = self._present_gain
            memcpy(self._best, self._labeling,
                   problem.n_variables * sizeof(int32_t))

    # ---- values of states ----

    @cython.final
    cdef inline double _weighted(self, Py_ssize_t factor, double entry) noexcept nogil:
        """Score of an entry; if it is a violation, the best entry minus the weight."""
        if self._highest[factor] - entry > self._limit:
            return self._highest[factor] - self._weight[factor]
        return entry

    @cython.final
    cdef void _recompute(self, Problem problem) noexcept nogil:
        """Compute the values of all states, the violations and the best steps."""
        cdef Py_ssize_t k, v, factor
        self.n_violated = self._n_improving = 0
        for factor in range(problem.n_factors):
            self._seat[factor] = -1
        for v in range(problem.n_variables):
            self._improving_seat[v] = -1
        # fixed order of the sums: variables, edges, larger factors
        for k in range(problem.first[problem.n_variables]):
            self._value[k] = problem.unary[k]
        for factor in range(problem.n_factors):
            self._add_around(problem, factor, -1, 1.0)
        # the lists of violated factors and improving variables need all values
        for factor in range(problem.n_factors):
            self._recheck(problem, factor)
        for v in range(problem.n_variables):
            self._retarget(problem, v)

    @cython.final
    cdef void _add_around(self, Problem problem, Py_ssize_t factor,
                          Py_ssize_t variable, double sign) noexcept nogil:
        """Add a factor, times `sign`, to the values of its variables but `variable`."""
        cdef Py_ssize_t k, other
        for k in range(problem.scope_first[factor], problem.scope_first[factor + 1]):
            other = problem.scope[k]
            if other == variable:
                continue
            if factor < problem.n_edges:
                self._add_edge(problem, factor, other, sign)
            else:
                self._add_factor(problem, factor, other, sign)

    @cython.final
    cdef void _retarget_all(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """Update the best other states of all variables of a factor."""
        cdef Py_ssize_t k
        for k in range(problem.scope_first[factor], problem.scope_first[factor + 1]):
            self._retarget(problem, problem.scope[k])

    @cython.final
    cdef void _add_edge(self, Problem problem, Py_ssize_t edge, Py_ssize_t other,
                        double sign) noexcept nogil:
        """Add an edge to the values of one end, given the state of the other end."""
        cdef bint backward = problem.ends[edge][0] == other
        cdef Py_ssize_t known = other_end(problem, edge, other), k
        cdef double* value = &self._value[problem.first[other]]
        cdef double* row = self._new_row
        self._entries_read += 2.0 * problem.states[other]
        # `add_states` handles weights and all kinds of tables
        memset(row, 0, problem.states[other] * sizeof(double))
        problem.add_states(edge, backward, self._labeling[known], row)
        for k in range(problem.states[other]):
            value[k] += sign * self._weighted(edge, row[k])

    @cython.final
    cdef void _add_factor(self, Problem problem, Py_ssize_t factor, Py_ssize_t other,
                          double sign) noexcept nogil:
        """Add a larger factor to the values of one variable, given the other variables.
        """
        cdef double* value = &self._value[problem.first[other]]
        cdef Py_ssize_t k
        # `higher_entry` scores a labeling: each state is written to the labeling in
        # turn
        cdef int32_t present = self._labeling[other]
        self._entries_read += 4.0 * problem.states[other]
        for k in range(problem.states[other]):
            self._labeling[other] = k
            value[k] += sign * self._weighted(
                factor, problem.higher_entry(factor, self._labeling))
        self._labeling[other] = present

    @cython.final
    cdef double _recheck(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """Update whether a factor is listed as violated; return its present entry."""
        cdef double entry = problem.entry_at(factor, self._labeling)
        # `_weighted` has the same test
        cdef bint violated = self._highest[factor] - entry > self._limit
        cdef int32_t seat = self._seat[factor], last
        if violated and seat < 0:
            self._seat[factor] = self.n_violated
            self._violated[self.n_violated] = factor
            self.n_violated += 1
        elif not violated and seat >= 0:
            # the last factor of the list moves to the free position
            self.n_violated -= 1
            last = self._violated[self.n_violated]
            self._violated[seat], self._seat[last] = last, seat
            self._seat[factor] = -1
        return entry

    @cython.final
    cdef void _retarget(self, Problem problem, Py_ssize_t variable) noexcept nogil:
        """Update a variable's best other state, and the list of improving variables."""
        cdef const double* value = &self._value[problem.first[variable]]
        cdef Py_ssize_t k, best = -1, present = self._labeling[variable]
        cdef int32_t seat = self._improving_seat[variable], last
        cdef double gain = -INFINITY
        # ties go to the first state
        for k in range(problem.states[variable]):
            if k != present and (best < 0 or value[k] > value[best]):
                best = k
        if best >= 0:
            gain = value[best] - value[present]
        self._target[variable], self._step_gain[variable] = best, gain
        # gains within rounding errors do not count
        if gain > 1e-9 * self._unit and seat < 0:
            self._improving_seat[variable] = self._n_improving
            self._improving[self._n_improving] = variable
            self._n_improving += 1
        elif gain <= 1e-9 * self._unit and seat >= 0:
            self._n_improving -= 1
            last = self._improving[self._n_improving]
            self._improving[seat], self._improving_seat[last] = last, seat
            self._improving_seat[variable] = -1

    # ---- steps ----

    @cython.final
    cdef double _move(self, Problem problem, Py_ssize_t variable,
                      int32_t state) noexcept nogil:
        """Give a variable another state; return the number of entries read."""
        cdef int32_t before = self._labeling[variable]
        cdef Py_ssize_t first = problem.first[variable], i, k, edge, factor
        cdef double used = problem.states[variable]
        self._time += 1
        # returning to the old state is taboo from now on
        self._left_at[first + before] = self._time
        self._present_gain += problem.unary[first + state]
        self._present_gain -= problem.unary[first + before]
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            edge = problem.in_factor[i]
            self._update_edge(problem, edge, variable, before, state)
            used += 3.0 * problem.states[other_end(problem, edge, variable)]
        for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
            factor = problem.in_factor[i]
            # subtract the values for the old state, add the values for the new state
            self._present_gain -= problem.higher_entry(factor, self._labeling)
            for k in range(2):
                self._add_around(problem, factor, variable, -1.0 if k == 0 else 1.0)
                self._labeling[variable] = state
            self._present_gain += self._recheck(problem, factor)
            self._labeling[variable] = before
        self._labeling[variable] = state
        # best steps are updated after all values
        self._retarget(problem, variable)
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            self._retarget(problem, other_end(problem, problem.in_factor[i], variable))
        for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
            self._retarget_all(problem, problem.in_factor[i])
        return used

    @cython.final
    cdef void _update_edge(self, Problem problem, Py_ssize_t edge,
                           Py_ssize_t variable, int32_t before,
                           int32_t state) noexcept nogil:
        """Update the values of an edge's other end, and whether the edge is violated.
        """
        cdef bint backward = problem.ends[edge][1] == variable
        cdef Py_ssize_t other = other_end(problem, edge, variable), k
        cdef Py_ssize_t n = problem.states[other]
        cdef double* value = &self._value[problem.first[other]]
        cdef double* old = self._old_row
        cdef double* new = self._new_row
        cdef double least = self._highest[edge] - self._limit
        cdef double low = self._highest[edge] - self._weight[edge]
        # the code of `_add_edge` is repeated here for both rows, as computing rows
        # takes most of the time of a step
        memset(old, 0, n * sizeof(double))
        memset(new, 0, n * sizeof(double))
        problem.add_states(edge, backward, before, old)
        problem.add_states(edge, backward, state, new)
        # the gain of the score is unweighted
        k = self._labeling[other]
        self._present_gain += new[k] - old[k]
        for k in range(n):
            value[k] += ((low if new[k] < least else new[k])
                         - (low if old[k] < least else old[k]))
        # `_recheck` reads the labeling with the new state
        self._labeling[variable] = state
        self._recheck(problem, edge)
        self._labeling[variable] = before

    @cython.final
    cdef Py_ssize_t _pick_improving(self, Problem problem) noexcept nogil:
        """Return an improving variable whose target is not taboo, or -1."""
        cdef Py_ssize_t n = min(self._n_improving, SAMPLE), k, variable, best = -1
        cdef double gain
        for k in range(n):
            # all improving variables if there are few, otherwise a random sample
            variable = self._improving[
                k if self._n_improving <= SAMPLE
                else <Py_ssize_t>random_below(&self._random, self._n_improving)]
            gain = self._step_gain[variable]
            # only steps that gain more are checked for taboo
            if best >= 0 and gain <= self._step_gain[best]:
                continue
            if not self._is_taboo(problem, variable, self._target[variable]):
                best = variable
        return best

    @cython.final
    cdef inline bint _is_taboo(self, Problem problem, Py_ssize_t variable,
                               Py_ssize_t state) noexcept nogil:
        """Whether a variable left a state less than a random tenure ago, see `taboo`.
        """
        return (self._time - self._left_at[problem.first[variable] + state]
                < self._taboo + <Py_ssize_t>random_below(&self._random, self._taboo))

    @cython.final
    cdef Py_ssize_t _escape(self, Problem problem) noexcept nogil:
        """Choose a step out of a local maximum: a variable with its `_target`, or -1.
        """
        cdef Py_ssize_t best = -1, target = -1
        self._compare_some(problem, &best, &target)
        # all other variables keep their best other states as targets
        if best >= 0:
            self._target[best] = target
        return best

    @cython.final
    cdef void _compare_some(self, Problem problem, Py_ssize_t* best,
                            Py_ssize_t* target) noexcept nogil:
        """Find the best step in a violated factor, or among random variables."""
        cdef Py_ssize_t k, factor, variable, _k
        cdef double gain = -INFINITY
        if self.n_violated == 0:
            self._n_feasible += 1
            # all constraints hold: smaller weights give the score more influence
            if self._n_feasible % FEASIBLE == 0:
                for factor in range(problem.n_factors):
                    self._weight[factor] *= SHRINK
                self._recompute(problem)
            # choose the step with the smallest loss among random variables
            for _k in range(SAMPLE):
                variable = random_below(&self._random, problem.n_variables)
                self._compare(problem, variable, best, target, &gain)
            return
        # breakout: raise the weights of violated factors
        self._n_feasible = 0
        for k in range(self.n_violated):
            self._grow(problem, self._violated[k])
        # choose the best step of the variables of a random violated factor
        factor = self._violated[random_below(&self._random, self.n_violated)]
        for k in range(problem.scope_first[factor], problem.scope_first[factor + 1]):
            self._compare(problem, problem.scope[k], best, target, &gain)

    @cython.final
    cdef void _grow(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """Raise the weight of a factor, and update the values of its variables."""
        # subtract the values with the old weight, add the values with the new weight
        self._add_around(problem, factor, -1, -1.0)
        self._weight[factor] += self._unit
        self._add_around(problem, factor, -1, 1.0)
        self._retarget_all(problem, factor)

    @cython.final
    cdef void _compare(self, Problem problem, Py_ssize_t variable,
                       Py_ssize_t* best, Py_ssize_t* target,
                       double* gain) noexcept nogil:
        """Replace the best step if another state of a variable, not taboo, gains more.
        """
        cdef const double* value = &self._value[problem.first[variable]]
        cdef Py_ssize_t k, present = self._labeling[variable]
        cdef double other_gain
        self._entries_read += problem.states[variable]
        for k in range(problem.states[variable]):
            if k == present:
                continue
            other_gain = value[k] - value[present]
            # the gain may be negative: the search has to leave the local maximum
            if other_gain > gain[0] and not self._is_taboo(problem, variable, k):
                gain[0], best[0], target[0] = other_gain, variable, k
