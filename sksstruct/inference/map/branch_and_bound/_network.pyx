"""A cost network: integers that move between tables, variables and a constant.

The cost of a labeling is c0 plus the costs of the values and of the factors. All costs
are at least 0, so that c0 is a lower bound. Costs move without changing the sum
(equivalence-preserving transformations; Cooper et al., Soft arc consistency revisited,
Artificial Intelligence 174, 2010). Tables are read-only: the delta of a value is the
cost moved to it from a factor, and the cost of a tuple is its table entry minus the
deltas of its values. Integers keep the sums exact.

The trail saves each number before it changes, and backtracking restores the numbers up
to a mark. The values of a variable that are alive come first in a list of all values,
so that the trail saves only the number of alive values.

Propagation and branching are in the kernels that extend this one.
"""

from libc.stdlib cimport free

from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport (
    const_int32s, const_int64s, const_intps, int32s, int64s, intps,
)


cdef class CostNetwork:
    """Costs of variables and factors, in the arrays of `Network`."""

    def __init__(self, arrays, int64_t limit, int64_t c0):
        cdef Py_ssize_t factor
        self._owned, self.c0, self.limit = arrays, c0, limit
        self.n_variables, self.n_factors = len(arrays.size), len(arrays.tables)
        self.end = self.own_end = self.n_variables
        self.first, self.unary = const_intps(arrays.first), int64s(arrays.unary)
        self.values, self.place = int32s(arrays.values), int32s(arrays.place)
        self.size, self.settled = int64s(arrays.size), int64s(arrays.settled)
        self.highest, self.least = int64s(arrays.highest), int64s(arrays.least)
        self.scope_first, self.scope = (
            const_intps(arrays.scope_first), const_int32s(arrays.scope))
        self.delta_first, self.delta = (
            const_intps(arrays.delta_first), int64s(arrays.delta))
        self.residue, self.digit = int32s(arrays.residue), int32s(arrays.digit)
        self.in_first = const_intps(arrays.in_first)
        self.in_place = const_int32s(arrays.in_place)
        self.in_factor = const_int32s(arrays.in_factor)
        # kernels follow a pointer to each table without the GIL
        self.tables = <const int64_t**>intps(arrays.pointers)
        for factor in range(self.n_factors):
            self.tables[factor] = const_int64s(arrays.tables[factor])

    def __dealloc__(self):
        free(self._trail)

    # ---- the trail ----

    cdef int save(self, int64_t* where) except -1 nogil:
        """Save a number on the trail before it changes."""
        reserve(<void**>&self._trail, &self._trail_capacity, self.n_saved + 1,
                sizeof(Saved))
        # every number that changes is an int64
        self._trail[self.n_saved].where = where
        self._trail[self.n_saved].value = where[0]
        self.n_saved += 1
        return 0

    cdef void undo(self, Py_ssize_t mark) noexcept nogil:
        """Restore all numbers to their values when `n_saved` was `mark`."""
        # from the last change back: a number may have changed several times
        while self.n_saved > mark:
            self.n_saved -= 1
            self._trail[self.n_saved].where[0] = self._trail[self.n_saved].value

    # ---- values ----

    cdef bint alive(self, Py_ssize_t variable, Py_ssize_t value) noexcept nogil:
        """Whether a variable can still take a value."""
        return self.place[self.first[variable] + value] < self.size[variable]

    cdef int remove(self, Py_ssize_t variable, Py_ssize_t value) except -1 nogil:
        """Remove a value that is alive."""
        self.save(&self.size[variable])
        # the removed value gets the seat right after the alive values, so that
        # restoring `size` makes it alive again
        self.size[variable] -= 1
        self._seat(variable, value, self.size[variable])
        return 0

    cdef int restrict(self, Py_ssize_t variable, const int32_t* chosen,
                      Py_ssize_t n_chosen, bint keep) except -1 nogil:
        """Keep only the chosen values of a variable, or remove the chosen values."""
        cdef Py_ssize_t k, n_kept = 0
        self.save(&self.size[variable])
        # kept values move to the first seats, removed ones right after the alive values
        for k in range(n_chosen):
            if not self.alive(variable, chosen[k]):
                continue
            if keep:
                self._seat(variable, chosen[k], n_kept)
                n_kept += 1
            else:
                self.size[variable] -= 1
                self._seat(variable, chosen[k], self.size[variable])
        if keep:
            self.size[variable] = n_kept
        return 0

    cdef void _seat(self, Py_ssize_t variable, Py_ssize_t value,
                    Py_ssize_t seat) noexcept nogil:
        """Swap a value with the value at a seat."""
        cdef Py_ssize_t first = self.first[variable]
        cdef int32_t other = self.values[first + seat]
        cdef Py_ssize_t old_seat = self.place[first + value]
        # `values` and `place` stay inverse to each other
        self.values[first + seat], self.values[first + old_seat] = value, other
        self.place[first + value], self.place[first + other] = seat, old_seat

    # ---- moving costs ----

    cdef int take(self, Py_ssize_t place, Py_ssize_t value,
                  int64_t cost) except -1 nogil:
        """Move a cost from a factor to a value; a negative cost moves to the factor."""
        cdef int64_t* delta = &self.delta[self.delta_first[place] + value]
        cdef int64_t* unary = &self.unary[self.first[self.scope[place]] + value]
        # delta and unary cost change together, so that no labeling changes its cost
        self.save(delta)
        self.save(unary)
        delta[0] += cost
        unary[0] += cost
        return 0

    cdef bint settle(self, Py_ssize_t variable) except -1 nogil:
        """Move a variable's least cost to c0, remove costly values; False: dead end."""
        cdef Py_ssize_t first = self.first[variable], k
        cdef int64_t least, high = 0, most
        if self.size[variable] == 0:
            return False
        # the least cost of the values that are alive
        least = self.unary[first + self.values[first]]
        for k in range(1, self.size[variable]):
            least = min(least, self.unary[first + self.values[first + k]])
        if least > 0:
            # every value costs at least this much
            self.save(&self.c0)
            self.save(&self.settled[variable])
            self.c0 += least
            self.settled[variable] += least
            if self.c0 >= self.limit:
                return False
            for k in range(self.size[variable]):
                self.save(&self.unary[first + self.values[first + k]])
                self.unary[first + self.values[first + k]] -= least
        # the loop runs backward: `remove` fills a seat with a value that has been
        # checked
        most = self.too_much(variable)
        for k in range(self.size[variable] - 1, -1, -1):
            least = self.unary[first + self.values[first + k]]
            # a value that raises c0 to the limit is in no better labeling
            if least >= most:
                self.remove(variable, self.values[first + k])
            elif least > high:
                high = least
        if high != self.highest[variable]:
            self.save(&self.highest[variable])
            self.highest[variable] = high
        return True

    cdef int64_t too_much(self, Py_ssize_t variable) noexcept nogil:
        """Return the least cost at which a value of a variable is removed."""
        # variables of descendant clusters are searched later, maybe with another limit
        return self.limit - self.c0 if variable < self.own_end else self.top

    # ---- factors of any number of variables ----

    cdef Py_ssize_t n_tuples(self, Py_ssize_t factor) noexcept nogil:
        """Return the number of a factor's tuples of alive values, at most a million."""
        cdef Py_ssize_t i, n = 1
        for i in range(self.scope_first[factor], self.scope_first[factor + 1]):
            n *= self.size[self.scope[i]]
            if n >= 1_000_000:
                return 1_000_000
        return n

    cdef void minimize(self, Py_ssize_t factor, Py_ssize_t target,
                       bint full) noexcept nogil:
        """Write the min-marginals of a factor for the variable at `target` to `least`.

        With `full` the costs of the other variables are added to the factor.
        """
        cdef Py_ssize_t begin = self.scope_first[factor], i, cell, value, target_value
        cdef Py_ssize_t arity = self.scope_first[factor + 1] - begin
        cdef Py_ssize_t variable = self.scope[target]
        cdef int64_t cost
        # larger costs are capped: at the limit a value is removed anyway
        for i in range(self.size[variable]):
            self.least[self.values[self.first[variable] + i]] = max(
                self.limit, self.top)
        # start with the first value of every variable
        for i in range(arity):
            self.digit[i] = 0
        while True:
            # the index of an entry has the values as digits, the last variable fastest
            cell, cost, target_value = 0, 0, 0
            for i in range(begin, begin + arity):
                variable = self.scope[i]
                value = self.values[self.first[variable] + self.digit[i - begin]]
                cell = cell * (self.first[variable + 1] - self.first[variable]) + value
                cost -= self.delta[self.delta_first[i] + value]
                # the target's own unary cost is left out
                if i == target:
                    target_value = value
                elif full:
                    cost += self.unary[self.first[variable] + value]
            self.work += 1
            cost += self.tables[factor][cell]
            if cost < self.least[target_value]:
                self.least[target_value] = cost
            # next tuple: add one to a number with a digit for each variable
            i = arity - 1
            while i >= 0:
                self.digit[i] += 1
                if self.digit[i] < self.size[self.scope[begin + i]]:
                    break
                self.digit[i] = 0
                i -= 1
            if i < 0:
                return
