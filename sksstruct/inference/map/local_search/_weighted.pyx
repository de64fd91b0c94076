"""Weighted search: violated constraints first, the score second.

An entry of a table is a violation if it is below the best one by more than a limit. The
search maximizes the sum of all other entries, minus a weight for each factor that is
violated. In a local maximum the weights of all violated factors grow, until the maximum
is none any more (breakout; P. Morris, The breakout method for escaping from local
minima, AAAI 1993). Where nothing is violated for a while, all weights shrink, so that
the search comes back to labelings near the border of what is allowed.

Each step changes one variable: in a factor that is violated, if there is one; the state
that it leaves is taboo for some steps. The effect of every change is kept up to date,
so that a step costs as much as the tables of one variable have rows.
"""

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memset

from sksstruct.inference.map.core._problem cimport Problem, other_end
from sksstruct.utils._pointers cimport const_doubles, doubles, int32s, int64s
from sksstruct.utils._random cimport random_below

# Variables that are compared for a step.
cdef Py_ssize_t SAMPLE = 40
# Local maxima without a violation until weights shrink, and by how much.
cdef Py_ssize_t FEASIBLE = 30
cdef double SHRINK = 0.7
# Steps until effects are added up anew, as rounding adds up as well.
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
    # of each factor, edges first: its weight, and its seat among the violated ones
    cdef double* _weight
    cdef int32_t* _violated
    cdef int32_t* _seat
    cdef readonly Py_ssize_t n_violated
    # of each state, given the others: what it scores, and when it was left
    cdef double* _value
    cdef int64_t* _left
    # of each variable: its best other state and what that gains, and its seat among
    # those that gain something
    cdef int32_t* _target
    cdef int32_t* _rising
    cdef int32_t* _place
    cdef double* _step_gain
    cdef Py_ssize_t _n_rising, _n_feasible
    cdef int64_t _time
    # entries that were looked at since the last step, but for edges of a variable
    cdef double _used
    # entries of an edge for two states of one end
    cdef double* _old
    cdef double* _new

    def __init__(self, Problem problem, arrays, uint64_t random, double limit,
                 double unit, Py_ssize_t taboo):
        self.problem, self._owned, self._random = problem, arrays, random
        self._limit, self._unit, self._taboo = limit, unit, taboo
        self._labeling, self._best = int32s(arrays.labeling), int32s(arrays.best)
        self._highest = const_doubles(arrays.highest)
        self._weight, self._value = doubles(arrays.weight), doubles(arrays.value)
        self._violated, self._seat = int32s(arrays.violated), int32s(arrays.seat)
        self._left, self._step_gain = int64s(arrays.left), doubles(arrays.step_gain)
        self._target, self._rising = int32s(arrays.target), int32s(arrays.rising)
        self._place = int32s(arrays.place)
        self._old, self._new = doubles(arrays.old), doubles(arrays.new)
        self._fill(problem)

    def run(self, double work):
        """Search on, reading about so many entries; the gain of the best labeling."""
        cdef Problem problem = self.problem
        cdef double left = work, used
        cdef Py_ssize_t variable
        with nogil:
            while left > 0.0:
                # uphill while that is possible; scores are compared at the top only
                variable = self._pick_rising(problem)
                if variable < 0:
                    self._record(problem)
                    variable = self._escape(problem)
                # choices cost something even where nothing is looked at
                used = self._used + 8.0
                self._used = 0.0
                if variable >= 0:
                    used += self._move(problem, variable, self._target[variable])
                else:
                    # nothing can change, for now
                    self._time += 1
                left -= used
                if problem.late(used):
                    break
                # sums of differences drift away from the sums of the entries
                if self._time % REFRESH == 0:
                    self._fill(problem)
            self._record(problem)
        return self.gain

    @cython.final
    cdef void _record(self, Problem problem) noexcept nogil:
        """Keep the present labeling if its score is the best."""
        # by the score itself, whatever the weights are
        if self._present_gain > self.gain + 1e-9 * self._unit:
            self.gain = self._present_gain
            memcpy(self._best, self._labeling,
                   problem.n_variables * sizeof(int32_t))

    # ---- effects ----

    @cython.final
    cdef inline double _worth(self, Py_ssize_t factor, double entry) noexcept nogil:
        """What an entry of a factor counts: its score, or minus the weight."""
        if self._highest[factor] - entry > self._limit:
            return self._highest[factor] - self._weight[factor]
        return entry

    @cython.final
    cdef void _fill(self, Problem problem) noexcept nogil:
        """Find out all effects and violations."""
        cdef Py_ssize_t k, v, factor
        self.n_violated = self._n_rising = 0
        for factor in range(problem.n_factors):
            self._seat[factor] = -1
        for v in range(problem.n_variables):
            self._place[v] = -1
        # effects are sums: variables first, then edges, then larger factors
        for k in range(problem.first[problem.n_variables]):
            self._value[k] = problem.unary[k]
        for factor in range(problem.n_factors):
            self._add_around(problem, factor, -1, 1.0)
        # the lists last, when all effects are known
        for factor in range(problem.n_factors):
            self._check(problem, factor)
        for v in range(problem.n_variables):
            self._rank(problem, v)

    @cython.final
    cdef void _add_around(self, Problem problem, Py_ssize_t factor,
                          Py_ssize_t variable, double sign) noexcept nogil:
        """Add the effects of a factor on all its variables but one (-1: on all)."""
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
    cdef void _rank_all(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """Find the best other states of all variables of a factor."""
        cdef Py_ssize_t k
        for k in range(problem.scope_first[factor], problem.scope_first[factor + 1]):
            self._rank(problem, problem.scope[k])

    @cython.final
    cdef void _add_edge(self, Problem problem, Py_ssize_t edge, Py_ssize_t other,
                        double sign) noexcept nogil:
        """Add the effects of an edge on one of its ends, given the other end."""
        cdef bint backward = problem.ends[edge][0] == other
        cdef Py_ssize_t known = other_end(problem, edge, other), k
        cdef double* value = &self._value[problem.first[other]]
        cdef double* row = self._new
        self._used += 2.0 * problem.states[other]
        # `add_states` knows all kinds of tables, and weights
        memset(row, 0, problem.states[other] * sizeof(double))
        problem.add_states(edge, backward, self._labeling[known], row)
        for k in range(problem.states[other]):
            value[k] += sign * self._worth(edge, row[k])

    @cython.final
    cdef void _add_factor(self, Problem problem, Py_ssize_t factor, Py_ssize_t other,
                          double sign) noexcept nogil:
        """Add the effects of a larger factor on a variable, given the others."""
        cdef double* value = &self._value[problem.first[other]]
        cdef Py_ssize_t k
        # scores of larger factors are functions of a labeling: write each state into it
        cdef int32_t present = self._labeling[other]
        self._used += 4.0 * problem.states[other]
        for k in range(problem.states[other]):
            self._labeling[other] = k
            value[k] += sign * self._worth(
                factor, problem.higher_entry(factor, self._labeling))
        self._labeling[other] = present

    @cython.final
    cdef double _check(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """List a factor that is violated, or take it from the list; its entry."""
        cdef double entry = problem.entry_at(factor, self._labeling)
        # by what it is missing, as in `_worth`
        cdef bint violated = self._highest[factor] - entry > self._limit
        cdef int32_t seat = self._seat[factor], last
        if violated and seat < 0:
            self._seat[factor] = self.n_violated
            self._violated[self.n_violated] = factor
            self.n_violated += 1
        elif not violated and seat >= 0:
            # the last one takes its seat
            self.n_violated -= 1
            last = self._violated[self.n_violated]
            self._violated[seat], self._seat[last] = last, seat
            self._seat[factor] = -1
        return entry

    @cython.final
    cdef void _rank(self, Problem problem, Py_ssize_t variable) noexcept nogil:
        """Find the best other state of a variable, and whether it gains something."""
        cdef const double* value = &self._value[problem.first[variable]]
        cdef Py_ssize_t k, best = -1, present = self._labeling[variable]
        cdef int32_t seat = self._place[variable], last
        cdef double gain = -INFINITY
        # the first of equals
        for k in range(problem.states[variable]):
            if k != present and (best < 0 or value[k] > value[best]):
                best = k
        if best >= 0:
            gain = value[best] - value[present]
        self._target[variable], self._step_gain[variable] = best, gain
        # rounding is no gain
        if gain > 1e-9 * self._unit and seat < 0:
            self._place[variable] = self._n_rising
            self._rising[self._n_rising] = variable
            self._n_rising += 1
        elif gain <= 1e-9 * self._unit and seat >= 0:
            self._n_rising -= 1
            last = self._rising[self._n_rising]
            self._rising[seat], self._place[last] = last, seat
            self._place[variable] = -1

    # ---- steps ----

    @cython.final
    cdef double _move(self, Problem problem, Py_ssize_t variable,
                      int32_t state) noexcept nogil:
        """Give a variable another state; the number of entries that were looked at."""
        cdef int32_t before = self._labeling[variable]
        cdef Py_ssize_t first = problem.first[variable], i, k, edge, factor
        cdef double used = problem.states[variable]
        self._time += 1
        # the way back is taboo from here on
        self._left[first + before] = self._time
        self._present_gain += problem.unary[first + state]
        self._present_gain -= problem.unary[first + before]
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            edge = problem.in_factor[i]
            self._follow_edge(problem, edge, variable, before, state)
            used += 3.0 * problem.states[other_end(problem, edge, variable)]
        for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
            factor = problem.in_factor[i]
            # out with the old state, in with the new one
            self._present_gain -= problem.higher_entry(factor, self._labeling)
            for k in range(2):
                self._add_around(problem, factor, variable, -1.0 if k == 0 else 1.0)
                self._labeling[variable] = state
            self._present_gain += self._check(problem, factor)
            self._labeling[variable] = before
        self._labeling[variable] = state
        # ranks last, when all effects are known
        self._rank(problem, variable)
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            self._rank(problem, other_end(problem, problem.in_factor[i], variable))
        for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
            self._rank_all(problem, problem.in_factor[i])
        return used

    @cython.final
    cdef void _follow_edge(self, Problem problem, Py_ssize_t edge,
                           Py_ssize_t variable, int32_t before,
                           int32_t state) noexcept nogil:
        """Change the effects of an edge on its other end, and note a violation."""
        cdef bint backward = problem.ends[edge][1] == variable
        cdef Py_ssize_t other = other_end(problem, edge, variable), k
        cdef Py_ssize_t n = problem.states[other]
        cdef double* value = &self._value[problem.first[other]]
        cdef double* old = self._old
        cdef double* new = self._new
        cdef double least = self._highest[edge] - self._limit
        cdef double low = self._highest[edge] - self._weight[edge]
        # one pass for both rows, as most of the time is spent here
        memset(old, 0, n * sizeof(double))
        memset(new, 0, n * sizeof(double))
        problem.add_states(edge, backward, before, old)
        problem.add_states(edge, backward, state, new)
        # the score counts what is there, violated or not
        k = self._labeling[other]
        self._present_gain += new[k] - old[k]
        for k in range(n):
            value[k] += ((low if new[k] < least else new[k])
                         - (low if old[k] < least else old[k]))
        # the labeling has the new state from here on
        self._labeling[variable] = state
        self._check(problem, edge)
        self._labeling[variable] = before

    @cython.final
    cdef Py_ssize_t _pick_rising(self, Problem problem) noexcept nogil:
        """A variable whose best state gains much and is not taboo; -1: none."""
        cdef Py_ssize_t n = min(self._n_rising, SAMPLE), k, variable, best = -1
        cdef double gain
        for k in range(n):
            # all of them where there are few
            variable = self._rising[
                k if self._n_rising <= SAMPLE
                else <Py_ssize_t>random_below(&self._random, self._n_rising)]
            gain = self._step_gain[variable]
            # taboos are looked up only where it matters
            if best >= 0 and gain <= self._step_gain[best]:
                continue
            if not self._is_taboo(problem, variable, self._target[variable]):
                best = variable
        return best

    @cython.final
    cdef inline bint _is_taboo(self, Problem problem, Py_ssize_t variable,
                               Py_ssize_t state) noexcept nogil:
        """Whether a variable has left a state a short time ago."""
        return (self._time - self._left[problem.first[variable] + state]
                < self._taboo + <Py_ssize_t>random_below(&self._random, self._taboo))

    @cython.final
    cdef Py_ssize_t _escape(self, Problem problem) noexcept nogil:
        """Leave a local maximum: a variable, with its `_target`; -1: none."""
        cdef Py_ssize_t best = -1, target = -1
        self._compare_some(problem, &best, &target)
        # of the others `_target` stays what it gains the most with
        if best >= 0:
            self._target[best] = target
        return best

    @cython.final
    cdef void _compare_some(self, Problem problem, Py_ssize_t* best,
                            Py_ssize_t* target) noexcept nogil:
        """Note the best step of some variables, of one violated factor if there is."""
        cdef Py_ssize_t k, factor, variable, _k
        cdef double gain = -INFINITY
        if self.n_violated == 0:
            self._n_feasible += 1
            # the weights are higher than they have to be
            if self._n_feasible % FEASIBLE == 0:
                for factor in range(problem.n_factors):
                    self._weight[factor] *= SHRINK
                self._fill(problem)
            # the least loss among some variables, whose way back is taboo
            for _k in range(SAMPLE):
                variable = random_below(&self._random, problem.n_variables)
                self._compare(problem, variable, best, target, &gain)
            return
        # what is violated in a local maximum has too little weight
        self._n_feasible = 0
        for k in range(self.n_violated):
            self._grow(problem, self._violated[k])
        # one of the variables of one of them
        factor = self._violated[random_below(&self._random, self.n_violated)]
        for k in range(problem.scope_first[factor], problem.scope_first[factor + 1]):
            self._compare(problem, problem.scope[k], best, target, &gain)

    @cython.final
    cdef void _grow(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """Let the weight of a factor grow."""
        # its effects go out with the old weight and come in with the new one
        self._add_around(problem, factor, -1, -1.0)
        self._weight[factor] += self._unit
        self._add_around(problem, factor, -1, 1.0)
        self._rank_all(problem, factor)

    @cython.final
    cdef void _compare(self, Problem problem, Py_ssize_t variable,
                       Py_ssize_t* best, Py_ssize_t* target,
                       double* gain) noexcept nogil:
        """Note a variable whose best state that is not taboo gains the most."""
        cdef const double* value = &self._value[problem.first[variable]]
        cdef Py_ssize_t k, present = self._labeling[variable]
        cdef double found
        self._used += problem.states[variable]
        for k in range(problem.states[variable]):
            if k == present:
                continue
            found = value[k] - value[present]
            # a loss is accepted: it is the least that leads elsewhere
            if found > gain[0] and not self._is_taboo(problem, variable, k):
                gain[0], best[0], target[0] = found, variable, k
