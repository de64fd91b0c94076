"""The search (8) of Algorithm 1 in factors of three or more variables.

The descent of an entry of y_f is its score minus the gradients d_if at its states;
gradients are zero for states without a slot. The entries of a table are in one list, by
score, which all factors that share the table use. The search reads the list until the
remaining scores, plus the largest possible contributions of the gradients, cannot
exceed the best descent so far; active entries are searched first, and end the search
early.

A condition on binary variables allows entries by the number of literals that are on.
The gain of a literal is the difference of the descent between on and off; the best
entry turns on the literals with positive gains, as far as the condition allows.
"""

cimport cython
from libc.math cimport INFINITY

from sksstruct.inference.map.core._tables cimport (
    BUDGET, DENSE, OR, OROUT, XOR, XOROUT,
)
from sksstruct.inference.map.gdmm._slots cimport Active
from sksstruct.utils._pointers cimport const_int32s, const_intps, intps


@cython.final
cdef class HigherSearch:
    """Search for the entry of steepest descent in factors of three or more variables.
    """

    def __cinit__(self, arrays):
        self._owned = arrays
        self._begin, self._size = const_intps(arrays.begin), const_intps(arrays.size)
        self._order = const_int32s(arrays.order)
        self._state, self._n_states = intps(arrays.state), intps(arrays.n_states)
        self._stride = intps(arrays.stride)
        # the pointers are stored in intp arrays, whose items have the size of a pointer
        self._gradient = <const double**>intps(arrays.gradient)
        self._slot = <const int32_t**>intps(arrays.slot)

    cdef double n_entries(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """Return the number of entries of a factor's table; zero for a condition."""
        return self._size[problem.table_of[factor]]

    cdef double run(self, SlotState state, Problem problem, Py_ssize_t factor,
                    bint multipliers, double** gradient, Py_ssize_t* states,
                    double* score) except? -1 nogil:
        """Write a factor's entry of largest descent to `states`; return the descent.

        `gradient` has an array for each end, by slot. If `multipliers` is true, the
        descent is computed with the ends' multipliers in place of the gradients.
        `score` receives the score of the entry.
        """
        cdef const TableSpec* table = &problem.specs[problem.table_of[factor]]
        cdef Py_ssize_t begin = problem.scope_first[factor], i, k, variable
        cdef Py_ssize_t arity = problem.scope_first[factor + 1] - begin, stride = 1
        cdef double slack = 0.0, best
        for i in range(arity - 1, -1, -1):
            variable = problem.scope[begin + i]
            self._gradient[i] = (state._ends[begin + i].mu if multipliers
                                 else gradient[i])
            self._slot[i] = &state._slot[problem.first[variable]]
            self._n_states[i], self._stride[i] = problem.states[variable], stride
            stride *= problem.states[variable]
            # largest contribution of this end's gradient to a descent
            best = (0.0 if state._n_slots[variable] < problem.states[variable]
                    else -INFINITY)
            for k in range(state._n_slots[variable]):
                best = max(best, -self._gradient[i][k])
            slack += best
        if table.kind == DENSE:
            return self._run_table(state, problem, factor, slack, states, score)
        score[0] = 0.0
        return self._run_condition(table, arity, states)

    # ---- tables ----

    cdef double _run_table(self, SlotState state, Problem problem, Py_ssize_t factor,
                           double slack, Py_ssize_t* states,
                           double* score) noexcept nogil:
        """Find the entry of largest descent among active entries and the table's list.
        """
        cdef Py_ssize_t table = problem.table_of[factor], i, k, entry
        cdef const double* entries = problem.specs[table].data
        cdef const int32_t* order = &self._order[self._begin[table]]
        cdef const Active* active = &state._active[factor]
        cdef Py_ssize_t begin = problem.scope_first[factor], arity = active.arity
        cdef double descent, best = -INFINITY
        for k in range(active.count):
            for i in range(arity):
                self._state[i] = state._state[problem.scope[begin + i]][
                    active.slot[k * arity + i]]
            descent = self._descent(active.score[k], arity, self._state)
            if descent > best:
                best, score[0] = descent, active.score[k]
                for i in range(arity):
                    states[i] = self._state[i]
        for k in range(self._size[table]):
            entry = order[k]
            if entries[entry] + slack <= best:
                break
            self.looked_up += 1
            for i in range(arity):
                self._state[i] = entry // self._stride[i] % self._n_states[i]
            descent = self._descent(entries[entry], arity, self._state)
            if descent > best:
                best, score[0] = descent, entries[entry]
                for i in range(arity):
                    states[i] = self._state[i]
        return best

    cdef inline double _descent(self, double score, Py_ssize_t arity,
                                const Py_ssize_t* states) noexcept nogil:
        """Return the descent of an entry: its score minus the gradients at its states.
        """
        cdef Py_ssize_t i, slot
        for i in range(arity):
            slot = self._slot[i][states[i]]
            if slot >= 0:
                score -= self._gradient[i][slot]
        return score

    # ---- conditions ----

    cdef double _run_condition(self, const TableSpec* table, Py_ssize_t arity,
                               Py_ssize_t* states) noexcept nogil:
        """Find the allowed entry of largest descent of a condition; return the descent.
        """
        cdef bint has_output = table.condition == OROUT or table.condition == XOROUT
        cdef Py_ssize_t n_inputs = arity - 1 if has_output else arity
        # `most`: largest number of input literals that may be on; `one`: whether at
        # least one input literal must be on (with an output: if the output is on)
        cdef Py_ssize_t most = 1, k, i, top
        cdef bint one = has_output or table.condition == XOR or table.condition == OR
        cdef double best = 0.0, gain
        if table.condition == OR or table.condition == OROUT:
            most = n_inputs
        elif table.condition == BUDGET:
            most = <Py_ssize_t>table.limit
        # start with the entry where all literals are off
        for i in range(arity):
            states[i] = 1 if table.data[i] else 0
        best = self._descent(0.0, arity, states)
        gain = 0.0
        for k in range(min(most, n_inputs)):
            top = -1
            for i in range(n_inputs):
                # only literals that are off are candidates
                if states[i] == (1 if table.data[i] else 0) and (
                        top < 0 or self._gain(i, table) > self._gain(top, table)):
                    top = i
            if not (self._gain(top, table) > 0.0 or (one and k == 0)):
                break
            gain += self._turn_on(top, table, states)
        if has_output:
            gain += self._turn_on(n_inputs, table, states)
            # the output stays off if turning it on gains nothing; then all inputs must
            # be off, too
            if gain <= 0.0:
                for i in range(arity):
                    states[i] = 1 if table.data[i] else 0
                return best
        return best + gain

    cdef inline double _turn_on(self, Py_ssize_t literal, const TableSpec* table,
                                Py_ssize_t* states) noexcept nogil:
        """Turn a literal on, and return its gain."""
        states[literal] = 0 if table.data[literal] else 1
        return self._gain(literal, table)

    cdef inline double _gain(self, Py_ssize_t literal,
                             const TableSpec* table) noexcept nogil:
        """Return the change of the descent when a literal is turned on."""
        cdef Py_ssize_t true_state = 0 if table.data[literal] else 1
        cdef Py_ssize_t on = self._slot[literal][true_state]
        cdef Py_ssize_t off = self._slot[literal][1 - true_state]
        cdef double gain = 0.0
        if on >= 0:
            gain -= self._gradient[literal][on]
        if off >= 0:
            gain += self._gradient[literal][off]
        return gain
