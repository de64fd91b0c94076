"""Max-product linear programming: block-coordinate descent over factors of any size.

A. Globerson and T. Jaakkola, Fixing max-product, NIPS 2007. Factor f gives each of its
variables i the message

    lambda_fi(x_i) = -b_i(x_i)
        + max_{x_f with x_i} (theta_f(x_f) + sum_k b_k(x_k)) / |f|

with b_i = theta_i + sum of the messages of the other factors; then max over x_f of
theta_f - sum of its messages is 0, and the sum of the variables' maxima of theta_i +
all messages, the beliefs, is an upper bound that never rises.

Conditions on binary variables have their max-marginals in closed form. A literal is on
where its variable has the state that makes it true; its gain is what turning it on adds
to the beliefs. What a condition allows depends on how many literals are on, so that the
best and second best gain, the sum of the positive ones, and for a budget the gains in
decreasing order, say what the best is with any literal on or off.
"""

import numpy as np

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.inference.lp.core._problem cimport MAPProblem
from sksstruct.inference.lp.core._tables cimport (
    ATMOSTONE, BUDGET, DENSE, OR, OROUT, XOR, XOROUT, TableSpec,
)
from sksstruct.inference.lp.message_passing._messages cimport Messages


# The gains of the literals of a condition, summed up; the last may be an output, which
# is no input.
cdef struct Gains:
    int condition
    Py_ssize_t arity, n_inputs, limit
    double all_off              # beliefs with all literals off
    double top, second          # the two largest gains of inputs
    Py_ssize_t best             # the input with the largest
    double positive             # sum of the positive gains of inputs
    double output               # gain of the output


@cython.final
cdef class MaxProductLP(Messages):
    """Messages of a graph.

    Attributes
    ----------
    labeling : ndarray of shape (n_variables,), int32
        The best state of each variable.
    beliefs : ndarray of shape (n_states.sum(),)
        Scores of the states with all messages.
    bound : float
        Upper bound; inf before the first sweep.
    """

    cdef Py_ssize_t[:, ::1] _start          # of the messages of edges
    cdef Py_ssize_t[::1] _start_higher      # and of each place in a scope
    # of an edge: beliefs of its ends without its messages, and a product
    cdef double[:, ::1] _without
    cdef double[::1] _out
    # of a larger factor: max-marginals in rows of _width, and states one by one
    cdef double[::1] _max_marginals
    cdef Py_ssize_t _width
    cdef Py_ssize_t[::1] _state
    # of a condition: gains, their order, its inverse, and sums of the largest
    cdef double[::1] _gain, _prefix
    cdef Py_ssize_t[::1] _order, _rank

    def __init__(self, MAPProblem problem):
        cdef Py_ssize_t n_messages = 2 * problem.n_edges
        states = np.asarray(problem.states).astype(np.intp)
        # a message to each end of each edge, then to each variable of each factor
        sizes = np.concatenate([states[np.asarray(problem.ends)].reshape(-1),
                                states[np.asarray(problem.scope)]])
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        self._start = start[:n_messages].reshape(-1, 2)
        self._start_higher = start[n_messages:]
        self._messages = np.zeros(start[len(start) - 1])
        self._without = np.empty((2, problem.max_states))
        self._out = np.empty(problem.max_states)
        arity = int(np.diff(np.asarray(problem.scope_first)).max(initial=1))
        self._width = problem.max_states
        self._max_marginals = np.empty(arity * self._width)
        # sums of 0, 1, ..., arity gains
        self._gain, self._prefix = np.empty(arity + 1), np.empty(arity + 1)
        self._state, self._order, self._rank = (
            np.empty(arity, dtype=np.intp) for _ in range(3))

    @property
    def labeling(self):
        cdef MAPProblem problem = self.problem
        cdef Py_ssize_t variable, k
        cdef const double* belief
        cdef int32_t[::1] states = np.zeros(problem.n_variables, dtype=np.int32)
        for variable in range(problem.n_variables):
            belief = &self._beliefs[problem.first[variable]]
            # by itself, without regard to its neighbors: a local search does the rest
            for k in range(1, problem.states[variable]):
                if belief[k] > belief[states[variable]]:
                    states[variable] = k
        return np.asarray(states)

    def moved(self):
        cdef MAPProblem problem = self.problem
        cdef Py_ssize_t edge, factor, axis, place, begin, size, first
        messages = np.asarray(self._messages)
        found = []
        for edge in range(problem.n_edges):
            for axis in range(2):
                begin = self._start[edge, axis]
                size = problem.states[problem.ends[edge, axis]]
                found.append((edge, axis, messages[begin:begin + size]))
        for factor in range(problem.n_higher):
            first = problem.scope_first[factor]
            for place in range(first, problem.scope_first[factor + 1]):
                begin = self._start_higher[place]
                size = problem.states[problem.scope[place]]
                found.append((problem.n_edges + factor, place - first,
                              messages[begin:begin + size]))
        return found

    cdef int _sweep(self, MAPProblem problem, bint backward) except -1 nogil:
        """Update the edges and then the larger factors, or backward; then the bound."""
        cdef Py_ssize_t n_factors = problem.n_edges + problem.n_higher
        cdef Py_ssize_t factor, variable, k
        cdef double top, work
        for k in range(n_factors):
            factor = n_factors - 1 - k if backward else k
            if factor < problem.n_edges:
                work = <double>problem.states[problem.ends[factor, 0]]
                work *= problem.states[problem.ends[factor, 1]]
                self._update_edge(problem, factor)
            else:
                work = self._n_entries(problem, factor - problem.n_edges)
                self._update_factor(problem, factor - problem.n_edges)
            if problem.late(work):
                self.bound = INFINITY
                return 0
        # factors are at zero by their messages: the bound is that of the variables
        self.bound = 0.0
        for variable in range(problem.n_variables):
            top = -INFINITY
            for k in range(problem.first[variable], problem.first[variable + 1]):
                top = max(top, self._beliefs[k])
            self.bound += top
        return 0

    cdef double _n_entries(self, MAPProblem problem, Py_ssize_t factor) noexcept nogil:
        """Entries of the table of a larger factor; variables of a condition."""
        cdef Py_ssize_t begin = problem.scope_first[factor], k
        cdef Py_ssize_t end = problem.scope_first[factor + 1]
        cdef double total = 1.0
        if problem.specs[problem.higher_table[factor]].kind != DENSE:
            return end - begin
        for k in range(begin, end):
            total *= problem.states[problem.scope[k]]
        return total

    # ---- edges ----

    cdef void _update_edge(self, MAPProblem problem, Py_ssize_t edge) noexcept nogil:
        """New messages of an edge to both of its ends."""
        cdef Py_ssize_t side, k, variable
        cdef double* belief
        cdef double* without
        cdef double* message
        cdef double* out = &self._out[0]
        # both messages come from the same b: what is without them goes first
        for side in range(2):
            variable = problem.ends[edge, side]
            without = &self._without[side, 0]
            belief = &self._beliefs[problem.first[variable]]
            message = &self._messages[self._start[edge, side]]
            for k in range(problem.states[variable]):
                without[k] = belief[k] - message[k]
        for side in range(2):
            variable = problem.ends[edge, side]
            without = &self._without[side, 0]
            belief = &self._beliefs[problem.first[variable]]
            message = &self._messages[self._start[edge, side]]
            problem.message(edge, side == 0, &self._without[1 - side, 0], out)
            # half of what the edge and both of its ends have together, |f| being 2
            for k in range(problem.states[variable]):
                belief[k] = 0.5 * (without[k] + out[k])
                message[k] = belief[k] - without[k]

    # ---- factors of three or more variables ----

    cdef void _update_factor(self, MAPProblem problem,
                             Py_ssize_t factor) noexcept nogil:
        """New messages of a larger factor to all of its variables."""
        cdef Py_ssize_t begin = problem.scope_first[factor], i, k, variable
        cdef Py_ssize_t arity = problem.scope_first[factor + 1] - begin
        cdef double* belief
        cdef double* message
        cdef double share
        # the beliefs are b while the factor is looked at: without its messages
        for i in range(arity):
            variable = problem.scope[begin + i]
            belief = &self._beliefs[problem.first[variable]]
            message = &self._messages[self._start_higher[begin + i]]
            for k in range(problem.states[variable]):
                belief[k] -= message[k]
        if problem.specs[problem.higher_table[factor]].kind == DENSE:
            self._maximise_table(problem, factor, arity)
        else:
            self._maximise_condition(problem, factor, arity)
        # each variable gets its share, 1 / |f|, of what all have together
        for i in range(arity):
            variable = problem.scope[begin + i]
            belief = &self._beliefs[problem.first[variable]]
            message = &self._messages[self._start_higher[begin + i]]
            for k in range(problem.states[variable]):
                share = self._max_marginals[i * self._width + k] / arity
                message[k] = share - belief[k]
                belief[k] += message[k]

    cdef void _maximise_table(self, MAPProblem problem, Py_ssize_t factor,
                              Py_ssize_t arity) noexcept nogil:
        """Max-marginals of a table plus the beliefs of its variables."""
        cdef const TableSpec* table = &problem.specs[problem.higher_table[factor]]
        cdef Py_ssize_t begin = problem.scope_first[factor], i, k, variable, entry = 0
        cdef double total
        # from the first state of all variables on
        for i in range(arity):
            self._state[i] = 0
            for k in range(problem.states[problem.scope[begin + i]]):
                self._max_marginals[i * self._width + k] = -INFINITY
        # every entry once: a maximum for each state of each variable at the same time
        while True:
            total = table.data[entry]
            for i in range(arity):
                variable = problem.scope[begin + i]
                total += self._beliefs[problem.first[variable] + self._state[i]]
            for i in range(arity):
                k = i * self._width + self._state[i]
                if total > self._max_marginals[k]:
                    self._max_marginals[k] = total
            # states count like digits, the last variable fastest, as entries do
            entry += 1
            i = arity - 1
            while i >= 0:
                self._state[i] += 1
                if self._state[i] < problem.states[problem.scope[begin + i]]:
                    break
                self._state[i] = 0
                i -= 1
            if i < 0:
                return

    # ---- conditions ----

    cdef void _maximise_condition(self, MAPProblem problem, Py_ssize_t factor,
                                  Py_ssize_t arity) noexcept nogil:
        """Max-marginals of a condition plus the beliefs of its variables."""
        cdef const TableSpec* table = &problem.specs[problem.higher_table[factor]]
        cdef Py_ssize_t begin = problem.scope_first[factor], i, true_state
        cdef double on, off
        cdef Gains gains
        gains.condition, gains.arity = table.condition, arity
        gains.limit = <Py_ssize_t>table.limit
        self._collect_gains(problem, table, begin, &gains)
        self._sum_up(&gains)
        # only a budget needs to know more than the two best
        if table.condition == BUDGET:
            self._sort(arity)
        # for each literal the best with it on, and with it off
        for i in range(arity):
            if table.condition == BUDGET:
                self._compare_in_budget(&gains, i, &on, &off)
            elif i == gains.n_inputs:
                _compare_output(&gains, &on)
                off = 0.0
            else:
                _compare_input(&gains, i, self._gain[i], &on, &off)
            # what cannot be is as bad as a penalty
            off = max(off, on + problem.penalty)
            on = max(on, off + problem.penalty)
            true_state = 0 if table.data[i] else 1
            self._max_marginals[i * self._width + true_state] = gains.all_off + on
            self._max_marginals[i * self._width + 1 - true_state] = gains.all_off + off

    cdef inline void _collect_gains(self, MAPProblem problem, const TableSpec* table,
                                    Py_ssize_t begin, Gains* gains) noexcept nogil:
        """The gain of each literal, and the beliefs with all of them off."""
        cdef Py_ssize_t i, true_state
        cdef const double* belief
        gains.all_off = 0.0
        for i in range(gains.arity):
            true_state = 0 if table.data[i] else 1
            belief = &self._beliefs[problem.first[problem.scope[begin + i]]]
            gains.all_off += belief[1 - true_state]
            self._gain[i] = belief[true_state] - belief[1 - true_state]

    cdef inline void _sum_up(self, Gains* gains) noexcept nogil:
        """Best and second best input, and the sum of those that want to be on."""
        cdef Py_ssize_t i
        cdef double gain
        # an output is the last literal, and says what the inputs before it are
        gains.n_inputs, gains.output = gains.arity, 0.0
        if gains.condition == OROUT or gains.condition == XOROUT:
            gains.n_inputs = gains.arity - 1
            gains.output = self._gain[gains.arity - 1]
        gains.top = gains.second = -INFINITY
        gains.best, gains.positive = -1, 0.0
        for i in range(gains.n_inputs):
            gain = self._gain[i]
            # the second is the best of the others for the best itself
            if gain > gains.top:
                gains.top, gains.second, gains.best = gain, gains.top, i
            elif gain > gains.second:
                gains.second = gain
            if gain > 0.0:
                gains.positive += gain

    cdef inline void _compare_in_budget(self, const Gains* gains, Py_ssize_t i,
                                        double* on, double* off) noexcept nogil:
        """Best scores with literal i on and off, where at most `limit` may be on."""
        cdef Py_ssize_t arity = gains.arity, limit = gains.limit
        cdef double gain = self._gain[i]
        # the best `limit` of the others that want to be on; where literal i is among
        # the best, they are one more without it
        if self._rank[i] < limit:
            off[0] = self._prefix[min(limit + 1, arity)] - max(0.0, gain)
        else:
            off[0] = self._prefix[min(limit, arity)]
        # it takes one of the `limit` places itself
        on[0] = -INFINITY
        if limit > 0 and self._rank[i] < limit - 1:
            on[0] = gain + self._prefix[min(limit, arity)] - max(0.0, gain)
        elif limit > 0:
            on[0] = gain + self._prefix[min(limit - 1, arity)]

    cdef void _sort(self, Py_ssize_t arity) noexcept nogil:
        """Rank the gains, largest first, and sum up the best that are positive."""
        # by insertion: a condition has few variables
        cdef Py_ssize_t i, k, now
        for i in range(arity):
            self._order[i] = i
        for i in range(1, arity):
            now = self._order[i]
            k = i
            while k and self._gain[self._order[k - 1]] < self._gain[now]:
                self._order[k] = self._order[k - 1]
                k -= 1
            self._order[k] = now
        # a budget need not be used up, so that gains below zero count as zero
        self._prefix[0] = 0.0
        for k in range(arity):
            self._rank[self._order[k]] = k
            self._prefix[k + 1] = self._prefix[k] + max(0.0, self._gain[self._order[k]])


cdef inline void _compare_input(const Gains* gains, Py_ssize_t i, double gain,
                                double* on, double* off) noexcept nogil:
    """Best scores with input i on and off, beyond that of all literals off."""
    # the best of the other inputs, all others as they want, and as they want but with
    # at least one of them on
    cdef double other = gains.second if i == gains.best else gains.top
    cdef double free = gains.positive - max(0.0, gain)
    cdef double some = free if other > 0.0 else other
    # exactly one is on: this one, or the best of the others
    if gains.condition == XOR:
        on[0], off[0] = gain, other
    elif gains.condition == ATMOSTONE:
        on[0], off[0] = gain, max(0.0, other)
    elif gains.condition == OR:
        on[0], off[0] = gain + free, some
    elif gains.condition == OROUT:
        # with an input on, so is the output; with none, all may be off
        on[0], off[0] = gains.output + gain + free, max(0.0, gains.output + some)
    else:
        on[0], off[0] = gains.output + gain, max(0.0, gains.output + other)


cdef inline void _compare_output(const Gains* gains, double* on) noexcept nogil:
    """Best score with the output on; with the output off, all literals are off."""
    # it takes one input that is on, and more where they gain and are allowed
    if gains.condition == XOROUT or not gains.top > 0.0:
        on[0] = gains.output + gains.top
    else:
        on[0] = gains.output + gains.positive
