"""Soft max-marginals of one factor: an edge, a larger table, or a condition.

Every variable i of a factor f has incoming scores a_i of its states. `run` computes

    out_i(x_i) = r log sum_{x_f with x_i} exp((theta_f(x_f) + sum_k a_k(x_k)) / r)

for all i, where r > 0 is the share of the factor. In the limit r = 0 the sums are
max-marginals. Each sum is relative to its own largest term, so that exponentials do not
overflow.

Conditions on binary variables limit the number of literals that are on. Forward and
backward sums over the inputs, by the number of inputs that are on, take time in
proportion to the arity, times the limit of a budget.
"""

cimport cython
from libc.math cimport INFINITY, exp, log
from libc.stdlib cimport free

from sksstruct.inference.map.core._problem cimport (
    Problem, arity_of, next_states, variable_at,
)
from sksstruct.inference.map.core._tables cimport (
    BUDGET, DENSE, LOGIC, OR, OROUT, XOR, XOROUT, TableSpec, entry_of,
)
from sksstruct.inference.map.message_passing._higher cimport HigherFactors, zeros

# exp of a number below this one, added to 1, is lost to rounding.
cdef double NEGLIGIBLE = -45.0


@cython.final
cdef class FactorSums:
    """Soft max-marginals of one factor at a time, with workspace for any factor."""

    def __cinit__(self, Problem problem):
        cdef HigherFactors higher = HigherFactors(problem)
        cdef Py_ssize_t k, arity = higher.arity
        self._higher, self.width = higher, higher.width
        # the memory is shared with `HigherFactors`, which computes max-marginals of the
        # same incoming scores
        self.incoming = higher.incoming
        self.out = <double*>zeros(arity * self.width, sizeof(double))
        self._state = <Py_ssize_t*>zeros(arity, sizeof(Py_ssize_t))
        self._gain = <double*>zeros(arity, sizeof(double))
        # inputs that are on are counted up to the limit of a budget, otherwise up to 1
        self._counts = 2
        for k in range(problem._n_tables):
            if problem.specs[k].kind == LOGIC:
                self._counts = max(self._counts, 1 + <Py_ssize_t>problem.specs[k].limit)
        self._before = <double*>zeros((arity + 1) * self._counts, sizeof(double))
        self._after = <double*>zeros((arity + 1) * self._counts, sizeof(double))

    def __dealloc__(self):
        free(self.out)
        free(self._state)
        free(self._gain)
        free(self._before)
        free(self._after)

    cdef double work(self, Problem problem, Py_ssize_t factor) noexcept nogil:
        """Return an estimate of the work for a factor, in table entries."""
        cdef Py_ssize_t arity = arity_of(problem, factor), i
        cdef const TableSpec* table = &problem.specs[problem.table_of[factor]]
        # exponentials take longer than reading entries
        cdef double total = 4.0
        if table.kind == LOGIC:
            # linear in the arity: no table of a condition is written out
            total *= 4.0 * arity
            if table.condition == BUDGET:
                total *= table.limit + 1.0
            return total
        for i in range(arity):
            total *= problem.states[variable_at(problem, factor, i)]
        return total * arity

    cdef void run(self, Problem problem, Py_ssize_t factor,
                  double share) noexcept nogil:
        """Write the soft max-marginals of a factor to `out`."""
        if factor < problem.n_edges:
            self._edge(problem, factor, share)
        elif problem.specs[problem.table_of[factor]].kind == DENSE:
            self._table(problem, factor, arity_of(problem, factor), share)
        else:
            self._condition(problem, factor, arity_of(problem, factor), share)

    # ---- edges ----

    cdef void _edge(self, Problem problem, Py_ssize_t edge,
                    double share) noexcept nogil:
        """Write the soft max-marginals of the two ends of an edge to `out`."""
        cdef const TableSpec* table = &problem.specs[problem.table_of[edge]]
        cdef double weight = problem.weight(edge), total, term
        cdef const double* first = self.incoming
        cdef const double* second = self.incoming + self.width
        cdef double* row_top = self.out
        cdef double* col_top = self.out + self.width
        # sums of the exponentials of the terms, relative to the largest term
        cdef double* row_sum = self._higher.best
        cdef double* col_sum = self._higher.best + self.width
        cdef Py_ssize_t i, j, rows, cols
        rows = problem.states[problem.ends[edge][0]]
        cols = problem.states[problem.ends[edge][1]]
        for i in range(rows):
            row_top[i], row_sum[i] = -INFINITY, 0.0
        for j in range(cols):
            col_top[j], col_sum[j] = -INFINITY, 0.0
        # first pass: the largest term of each sum
        for i in range(rows):
            for j in range(cols):
                total = weight * entry_of(table, i, j) + first[i] + second[j]
                row_top[i] = max(row_top[i], total)
                col_top[j] = max(col_top[j], total)
        # second pass: computing entries again is cheaper than storing all of them
        for i in range(rows):
            for j in range(cols):
                total = weight * entry_of(table, i, j) + first[i] + second[j]
                term = (total - row_top[i]) / share
                if term > NEGLIGIBLE:
                    row_sum[i] += exp(term)
                term = (total - col_top[j]) / share
                if term > NEGLIGIBLE:
                    col_sum[j] += exp(term)
        # each sum contains exp(0), so that no logarithm is infinite
        for i in range(rows):
            row_top[i] += share * log(row_sum[i])
        for j in range(cols):
            col_top[j] += share * log(col_sum[j])

    # ---- larger tables ----

    cdef void _table(self, Problem problem, Py_ssize_t factor, Py_ssize_t arity,
                     double share) noexcept nogil:
        """Write the soft max-marginals of a table of three or more variables to `out`.
        """
        cdef const double* entries = problem.specs[problem.table_of[factor]].data
        cdef Py_ssize_t begin = problem.scope_first[factor], i, k
        cdef double total, term
        for i in range(arity):
            self._state[i] = 0
            for k in range(problem.states[problem.scope[begin + i]]):
                self.out[i * self.width + k] = 0.0
        # first pass: the largest terms are the max-marginals
        self._higher.maximize(problem, factor)
        # second pass: every entry is a term of one sum for each variable
        while True:
            total = entries[0]
            for i in range(arity):
                total += self.incoming[i * self.width + self._state[i]]
            for i in range(arity):
                k = self._state[i]
                term = (total - self._higher.best[i * self.width + k]) / share
                if term > NEGLIGIBLE:
                    self.out[i * self.width + k] += exp(term)
            entries += 1
            if not next_states(problem, begin, arity, self._state):
                break
        for i in range(arity):
            for k in range(problem.states[problem.scope[begin + i]]):
                self.out[i * self.width + k] = (
                    self._higher.best[i * self.width + k]
                    + share * log(self.out[i * self.width + k]))

    # ---- conditions ----

    cdef void _condition(self, Problem problem, Py_ssize_t factor, Py_ssize_t arity,
                         double share) noexcept nogil:
        """Write the soft max-marginals of a condition to `out`.

        Entries that violate the condition score `penalty`.
        """
        cdef const TableSpec* table = &problem.specs[problem.table_of[factor]]
        cdef bint has_output = table.condition == OROUT or table.condition == XOROUT
        # without an upper limit, count 1 stands for one or more
        cdef bint more = table.condition == OR or table.condition == OROUT
        cdef Py_ssize_t n_inputs = arity - 1 if has_output else arity
        cdef Py_ssize_t most = 1, i, true_state
        cdef double output, on, off, all_off = 0.0, scale = share
        if table.condition == BUDGET:
            most = <Py_ssize_t>table.limit
        # gain: difference of incoming scores with a literal on and off, over the share
        for i in range(arity):
            true_state = 0 if table.data[i] else 1
            all_off += self.incoming[i * self.width + 1 - true_state]
            self._gain[i] = (self.incoming[i * self.width + true_state]
                             - self.incoming[i * self.width + 1 - true_state]) / scale
        self._count(n_inputs, most, more)
        output = self._gain[arity - 1]
        for i in range(arity):
            if has_output and i == n_inputs:
                # with the output off, all inputs are off; with the output on, the log
                # sum over the inputs is that of count 1
                off, on = 0.0, output + self._before[n_inputs * self._counts + 1]
            else:
                off = self._others(table, i, most, more, 0)
                on = self._gain[i] + self._others(table, i, most, more, 1)
                if has_output:
                    # output off requires all inputs off
                    off, on = _log_add(0.0, output + off), output + on
            # violating entries score `penalty` and not -inf: `sum_forest` divides
            # messages by shares, and messages must be finite
            off, on = all_off + scale * off, all_off + scale * on
            true_state = 0 if table.data[i] else 1
            self.out[i * self.width + true_state] = max(on, off + problem.penalty)
            self.out[i * self.width + 1 - true_state] = max(off, on + problem.penalty)

    cdef void _count(self, Py_ssize_t n_inputs, Py_ssize_t most,
                     bint more) noexcept nogil:
        """Write log sums over inputs, by the number on, to `_before` and `_after`."""
        cdef Py_ssize_t i, c
        cdef double* before = self._before
        cdef double* after = self._after + n_inputs * self._counts
        cdef double* last
        # without inputs only count 0 is possible
        for c in range(most + 1):
            before[c] = after[c] = 0.0 if c == 0 else -INFINITY
        for i in range(n_inputs):
            last, before = before, before + self._counts
            _add_input(last, before, self._gain[i], most, more)
        # the same from the last input to the first
        for i in range(n_inputs - 1, -1, -1):
            last, after = after, after - self._counts
            _add_input(last, after, self._gain[i], most, more)

    cdef double _others(self, const TableSpec* table, Py_ssize_t i, Py_ssize_t most,
                        bint more, int on) noexcept nogil:
        """Return the log sum over the allowed states of all inputs other than input i.

        `on` is the state of input i. If there is an output, it is on.
        """
        cdef Py_ssize_t before, least, room, n_after = 0
        cdef bint one = (table.condition == XOR or table.condition == XOROUT or more)
        cdef double total = -INFINITY, some = -INFINITY
        cdef const double* ahead = self._before + i * self._counts
        cdef const double* behind = self._after + (i + 1) * self._counts
        cdef double none = behind[0]
        # The loop is over the number of earlier inputs that are on, in descending
        # order. `some` is the log sum over the allowed positive numbers of later inputs
        # that are on.
        for before in range(most, -1, -1):
            room = most if more else most - before - on
            while n_after < room:
                n_after += 1
                some = _log_add(some, behind[n_after])
            if room < 0:
                continue
            least = 1 if one and before + on == 0 else 0
            total = _log_add(total, ahead[before]
                             + (some if least else _log_add(none, some)))
        return total


cdef inline void _add_input(const double* last, double* out, double gain,
                            Py_ssize_t most, bint more) noexcept nogil:
    """Add an input to the log sums `last` of each count; write the sums to `out`."""
    cdef Py_ssize_t c
    out[0] = 0.0
    for c in range(1, most + 1):
        out[c] = _log_add(last[c], last[c - 1] + gain)
    # count 1 stands for more, too: the input may be on in addition to other inputs
    if more:
        out[1] = _log_add(out[1], last[1] + gain)


cdef inline double _log_add(double x, double y) noexcept nogil:
    """Return log(exp(x) + exp(y)); either may be -inf."""
    cdef double high = max(x, y), low = min(x, y)
    if low - high > NEGLIGIBLE:
        return high + log(1.0 + exp(low - high))
    return high
