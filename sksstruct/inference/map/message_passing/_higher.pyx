"""Max-marginals of factors of three or more variables: tables and conditions.

Every variable of a factor has incoming scores of its states. The max-marginal of a
state is the largest sum of the factor's score and all incoming scores over the tuples
with this state.

Conditions on binary variables have max-marginals in closed form. A literal is on if its
variable has the state that makes it true, and its gain is the difference of incoming
scores with the literal on and off. A condition depends on the number of literals that
are on only, so that max-marginals follow from the two largest gains and the sum of the
positive gains; for a budget, from the sorted gains.
"""

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free

from sksstruct.inference.map.core._problem cimport Problem, arity_of, next_states
from sksstruct.inference.map.core._tables cimport (
    ATMOSTONE, BUDGET, DENSE, LOGIC, OR, OROUT, XOR, XOROUT, TableSpec,
)
from sksstruct.utils._heap cimport Heap, HeapOrder, pop, push


@cython.final
cdef class HigherFactors:
    """Max-marginals of one factor at a time, with workspace for any factor of a graph.
    """

    def __cinit__(self, Problem problem):
        cdef Py_ssize_t factor
        self.arity, self.width = 2, problem.max_states
        for factor in range(problem.n_factors):
            self.arity = max(self.arity, arity_of(problem, factor))
        self.incoming = <double*>zeros(self.arity * self.width, sizeof(double))
        self.best = <double*>zeros(self.arity * self.width, sizeof(double))
        # `_prefix` has the sums of the first 0, 1, ..., arity gains
        self._gain = <double*>zeros(self.arity + 1, sizeof(double))
        self._prefix = <double*>zeros(self.arity + 1, sizeof(double))
        self._state = <Py_ssize_t*>zeros(self.arity, sizeof(Py_ssize_t))
        self._rank = <Py_ssize_t*>zeros(self.arity, sizeof(Py_ssize_t))
        self._items = <int32_t*>zeros(self.arity, sizeof(int32_t))

    def __dealloc__(self):
        free(self.incoming)
        free(self.best)
        free(self._gain)
        free(self._prefix)
        free(self._state)
        free(self._rank)
        free(self._items)

    cdef double n_entries(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """Return the number of table entries of a factor.

        For a condition, returns an estimate of the work in the same unit.
        """
        cdef Py_ssize_t begin = problem.scope_first[factor], k
        cdef Py_ssize_t end = problem.scope_first[factor + 1]
        cdef double total = 1.0
        if problem.specs[problem.table_of[factor]].kind == LOGIC:
            return 16.0 * (end - begin)
        for k in range(begin, end):
            total *= problem.states[problem.scope[k]]
        return total

    cdef void maximize(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """Write the max-marginals of all variables of a factor to `best`."""
        cdef Py_ssize_t arity = (problem.scope_first[factor + 1]
                                 - problem.scope_first[factor])
        if problem.specs[problem.table_of[factor]].kind == DENSE:
            self._maximize_table(problem, factor, arity)
        else:
            self._maximize_condition(problem, factor, arity)

    cdef void maximize_for(self, Problem problem, Py_ssize_t factor,
                           Py_ssize_t place) noexcept nogil:
        """Write the max-marginals of the variable at `place` to `best`.

        The incoming scores of this variable must be zero. For a condition, the
        max-marginals of all variables are written.
        """
        if problem.specs[problem.table_of[factor]].kind == DENSE:
            self._maximize_table_for(problem, factor, place)
        else:
            # closed forms give the max-marginals of all variables at once
            self.maximize(problem, factor)

    # ---- tables ----

    cdef void _maximize_table(self, Problem problem, Py_ssize_t factor,
                              Py_ssize_t arity) noexcept nogil:
        """Write the max-marginals of all variables of a table to `best`."""
        cdef const TableSpec* table = &problem.specs[problem.table_of[factor]]
        cdef Py_ssize_t begin = problem.scope_first[factor], i, k, entry = 0
        cdef double total
        # start with the first state of all variables
        for i in range(arity):
            self._state[i] = 0
            for k in range(problem.states[problem.scope[begin + i]]):
                self.best[i * self.width + k] = -INFINITY
        # a single pass over the entries updates the maxima of all states
        while True:
            total = table.data[entry]
            for i in range(arity):
                total += self.incoming[i * self.width + self._state[i]]
            for i in range(arity):
                if total > self.best[i * self.width + self._state[i]]:
                    self.best[i * self.width + self._state[i]] = total
            entry += 1
            if not next_states(problem, begin, arity, self._state):
                return

    cdef void _maximize_table_for(self, Problem problem, Py_ssize_t factor,
                                  Py_ssize_t place) noexcept nogil:
        """Write the max-marginals of the variable at `place` of a table to `best`."""
        cdef const double* entries = problem.specs[problem.table_of[factor]].data
        cdef Py_ssize_t begin = problem.scope_first[factor], i, k
        cdef Py_ssize_t last = problem.scope_first[factor + 1] - begin - 1
        cdef Py_ssize_t width = problem.states[problem.scope[begin + last]]
        cdef double* best = self.best + place * self.width
        cdef const double* scores = self.incoming + last * self.width
        cdef double other_scores, top
        for i in range(last):
            self._state[i] = 0
        for k in range(problem.states[problem.scope[begin + place]]):
            best[k] = -INFINITY
        # the inner loop reads a contiguous row: the states of the last variable
        while True:
            other_scores = 0.0
            for i in range(last):
                other_scores += self.incoming[i * self.width + self._state[i]]
            if place == last:
                for k in range(width):
                    best[k] = max(best[k], other_scores + entries[k])
            else:
                top = -INFINITY
                for k in range(width):
                    top = max(top, entries[k] + scores[k])
                k = self._state[place]
                best[k] = max(best[k], other_scores + top)
            entries += width
            if not next_states(problem, begin, last, self._state):
                return

    # ---- conditions ----

    cdef void _maximize_condition(self, Problem problem, Py_ssize_t factor,
                                  Py_ssize_t arity) noexcept nogil:
        """Write the max-marginals of all variables of a condition to `best`."""
        cdef const TableSpec* table = &problem.specs[problem.table_of[factor]]
        cdef Py_ssize_t i, true_state
        cdef double on, off
        cdef Gains gains
        gains.condition, gains.arity = table.condition, arity
        gains.limit = <Py_ssize_t>table.limit
        self._collect_gains(table, &gains)
        self._sum_up(&gains)
        # only a budget needs sorted gains
        if table.condition == BUDGET:
            self._sort(arity)
        # for each literal: best sum of gains with the literal on, and with it off
        for i in range(arity):
            if table.condition == BUDGET:
                self._compare_in_budget(&gains, i, &on, &off)
            elif i == gains.n_inputs:
                _compare_output(&gains, &on)
                off = 0.0
            else:
                _compare_input(&gains, i, self._gain[i], &on, &off)
            # an entry that violates the condition has the score `penalty`
            off = max(off, on + problem.penalty)
            on = max(on, off + problem.penalty)
            true_state = 0 if table.data[i] else 1
            self.best[i * self.width + true_state] = gains.all_off + on
            self.best[i * self.width + 1 - true_state] = gains.all_off + off

    cdef void _collect_gains(self, const TableSpec* table,
                             Gains* gains) noexcept nogil:
        """Compute each literal's gain, and the sum of incoming scores if all are off.
        """
        cdef Py_ssize_t i, true_state
        gains.all_off = 0.0
        for i in range(gains.arity):
            true_state = 0 if table.data[i] else 1
            gains.all_off += self.incoming[i * self.width + 1 - true_state]
            self._gain[i] = (self.incoming[i * self.width + true_state]
                             - self.incoming[i * self.width + 1 - true_state])

    cdef void _sum_up(self, Gains* gains) noexcept nogil:
        """Find the two largest gains of inputs, and the sum of positive gains."""
        cdef Py_ssize_t i
        cdef double gain
        # the output is the last literal, a function of the inputs
        gains.n_inputs, gains.output = gains.arity, 0.0
        if gains.condition == OROUT or gains.condition == XOROUT:
            gains.n_inputs = gains.arity - 1
            gains.output = self._gain[gains.arity - 1]
        gains.top = gains.second = -INFINITY
        gains.best, gains.positive = -1, 0.0
        for i in range(gains.n_inputs):
            gain = self._gain[i]
            # for the input of the largest gain, `second` is the largest gain of the
            # other inputs
            if gain > gains.top:
                gains.top, gains.second, gains.best = gain, gains.top, i
            elif gain > gains.second:
                gains.second = gain
            if gain > 0.0:
                gains.positive += gain

    cdef void _compare_in_budget(self, const Gains* gains, Py_ssize_t i, double* on,
                                 double* off) noexcept nogil:
        """Write the largest sums of gains with literal i on, and with literal i off.

        At most `limit` literals are on.
        """
        cdef Py_ssize_t arity = gains.arity, limit = gains.limit
        cdef double gain = self._gain[i]
        # `off` is the sum of the `limit` largest positive gains of the other literals.
        # If literal i is among the `limit` largest, the first `limit` + 1 are summed,
        # without literal i.
        if self._rank[i] < limit:
            off[0] = self._prefix[min(limit + 1, arity)] - max(0.0, gain)
        else:
            off[0] = self._prefix[min(limit, arity)]
        # `on` is the gain of literal i, plus the `limit` - 1 largest positive gains of
        # the other literals
        on[0] = -INFINITY
        if limit > 0 and self._rank[i] < limit - 1:
            on[0] = gain + self._prefix[min(limit, arity)] - max(0.0, gain)
        elif limit > 0:
            on[0] = gain + self._prefix[min(limit - 1, arity)]

    cdef void _sort(self, Py_ssize_t arity) noexcept nogil:
        """Rank the gains in decreasing order, with prefix sums of positive gains."""
        cdef Py_ssize_t k
        cdef int32_t best
        cdef Heap heap
        cdef HeapOrder order
        heap.items, heap.size = self._items, 0
        order.values, order.by_number, order.places = self._gain, True, NULL
        for k in range(arity):
            push(&heap, &order, <int32_t>k)
        # a budget need not be used up: negative gains count as zero
        self._prefix[0] = 0.0
        for k in range(arity):
            best = heap.items[0]
            pop(&heap, &order)
            self._rank[best] = k
            self._prefix[k + 1] = self._prefix[k] + max(0.0, self._gain[best])


cdef inline void _compare_input(const Gains* gains, Py_ssize_t i, double gain,
                                double* on, double* off) noexcept nogil:
    """Write the best sums of gains with input i on and with input i off."""
    # largest gain of another input; and largest sum of gains of a set of other inputs,
    # and of a nonempty set
    cdef double best_other = gains.second if i == gains.best else gains.top
    cdef double others = gains.positive - max(0.0, gain)
    cdef double nonempty = others if best_other > 0.0 else best_other
    # exactly one input is on: input i, or the best other one
    if gains.condition == XOR:
        on[0], off[0] = gain, best_other
    elif gains.condition == ATMOSTONE:
        on[0], off[0] = gain, max(0.0, best_other)
    elif gains.condition == OR:
        on[0], off[0] = gain + others, nonempty
    elif gains.condition == OROUT:
        # the output is on if any input is; otherwise all literals are off
        on[0], off[0] = gains.output + gain + others, max(0.0, gains.output + nonempty)
    else:
        on[0], off[0] = gains.output + gain, max(0.0, gains.output + best_other)


cdef inline void _compare_output(const Gains* gains, double* on) noexcept nogil:
    """Write the best sum of gains with the output on.

    If the output is off, all literals are off and the sum is zero.
    """
    # at least one input is on; for OROUT also all inputs with positive gains
    if gains.condition == XOROUT or not gains.top > 0.0:
        on[0] = gains.output + gains.top
    else:
        on[0] = gains.output + gains.positive
