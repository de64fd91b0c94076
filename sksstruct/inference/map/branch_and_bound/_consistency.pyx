"""Soft arc consistency: costs move to the lower bound c0, and values are removed.

A value has a support in a factor if some tuple with the value costs nothing there, and
a full support if the other values of the tuple cost nothing either. Projection moves
the least cost of a value's tuples from the factor to the value, and the least cost of a
variable's values to c0; extension moves costs of values back into factors. Full
directional arc consistency requires full supports for the first variable of each
factor; existential arc consistency requires that each variable has a value with full
supports in all factors (EDAC; de Givry et al., Existential arc consistency, IJCAI
2005). A value whose cost reaches the limit is removed; for infinite costs this is arc
consistency. Propagation skips factors with more than `MAX_TUPLES` alive
tuples, except pairs that `_restore_existential` visits.

`sweep` visits all variables in order; each variable collects the costs of its factors,
and gives equal shares to the factors that contain a later variable: sequential
tree-reweighted message passing (TRW-S) with integers. Sweeps reach a higher c0 than
EDAC, with more work.
"""

from libc.string cimport memset

from sksstruct.utils._pointers cimport int32s, uint8s

# Factors with more tuples of alive values are skipped until some values are removed,
# except pairs in `_restore_existential`.
cdef Py_ssize_t MAX_TUPLES = 20_000
# Largest average number of visits of a variable in one call of `propagate`; the least
# gain of an existential projection is the distance of c0 to the limit, shifted right by
# LEAST_GAIN_SHIFT, plus 1.
cdef Py_ssize_t MOST_VISITS = 32
cdef int LEAST_GAIN_SHIFT = 16


cdef inline void enqueue(Queue* queue, Py_ssize_t variable) noexcept nogil:
    """Add a variable from `begin` to `end` - 1 to the queue, unless the queue has it.
    """
    if queue.begin <= variable < queue.end and not queue.waits[variable]:
        queue.waits[variable] = 1
        queue.n += 1
        queue.low = min(queue.low, variable)
        queue.high = max(queue.high, variable)


cdef inline Py_ssize_t dequeue(Queue* queue, bint lowest) noexcept nogil:
    """Remove the lowest or the highest variable from the queue, and return it."""
    cdef Py_ssize_t variable
    if lowest:
        while not queue.waits[queue.low]:
            queue.low += 1
        variable = queue.low
    else:
        while not queue.waits[queue.high]:
            queue.high -= 1
        variable = queue.high
    queue.waits[variable] = 0
    queue.n -= 1
    return variable


cdef class Consistency(CostNetwork):
    """Propagation of soft arc consistency in the arrays of `Network`."""

    def __init__(self, arrays, limit, c0):
        cdef uint8_t* waits = uint8s(arrays.waits)
        CostNetwork.__init__(self, arrays, limit, c0)
        self._lost.waits, self._risen.waits = waits, waits + self.n_variables
        self._doubtful.waits = waits + 2 * self.n_variables
        self.support = int32s(arrays.support)
        self.culprit, self.least_gain = -1, 1
        self._settled_limit = -1
        self.focus(0, self.n_variables, self.n_variables)

    cdef void forget(self) noexcept nogil:
        """Empty the queues."""
        cdef Queue* queues[3]
        cdef Py_ssize_t k
        queues[0], queues[1], queues[2] = &self._lost, &self._risen, &self._doubtful
        # most calls find empty queues
        for k in range(3):
            if queues[k].n:
                memset(queues[k].waits, 0, self.n_variables)
            queues[k].n, queues[k].low, queues[k].high = 0, self.n_variables, -1

    cdef void focus(self, Py_ssize_t begin, Py_ssize_t own_end,
                    Py_ssize_t end) noexcept nogil:
        """Restrict propagation to the variables from `begin` to `end` - 1.

        Values whose cost reaches the limit are removed from variables before `own_end`.
        """
        cdef Queue* queues[3]
        cdef Py_ssize_t k
        self.forget()
        self.begin, self.own_end, self.end = begin, own_end, end
        queues[0], queues[1], queues[2] = &self._lost, &self._risen, &self._doubtful
        for k in range(3):
            queues[k].begin, queues[k].end = begin, end
        # the range may have another limit: check all values again
        self._settled_c0 = -1

    cdef void wake(self, Py_ssize_t variable) noexcept nogil:
        """Queue a variable whose values have changed."""
        enqueue(&self._lost, variable)
        enqueue(&self._risen, variable)
        enqueue(&self._doubtful, variable)

    def wake_all(self):
        """Queue all variables."""
        cdef Py_ssize_t variable
        for variable in range(self.n_variables):
            self.wake(variable)

    def make_consistent(self):
        """Move costs and remove values until the network is consistent.

        Returns
        -------
        possible : bool
            Whether a labeling that costs less than the limit may exist.
        """
        cdef bint possible
        with nogil:
            possible = self.settle_all() and self.propagate()
        return possible

    cdef bint propagate(self) except -1 nogil:
        """Process the queues of variables, cheap work first; False: dead end."""
        cdef bint alive = True
        # Visits are limited, as smaller and smaller moves of costs may never end. If
        # there are too many visits, some full supports may be missing.
        cdef Py_ssize_t visits_left = MOST_VISITS * (self.end - self.begin)
        self.least_gain = 1 + ((self.limit - self.c0) >> LEAST_GAIN_SHIFT)
        while alive:
            # first remove values whose cost reaches the limit, if c0 or limit changed
            if self.c0 != self._settled_c0 or self.limit != self._settled_limit:
                alive = self.settle_all()
            elif self._lost.n:
                alive = self._restore_supports(dequeue(&self._lost, True))
            elif visits_left <= 0:
                self.forget()
                return True
            elif self._risen.n:
                visits_left -= 1
                alive = self._restore_full_supports(dequeue(&self._risen, False))
            elif self._doubtful.n:
                visits_left -= 1
                alive = self._restore_existential(dequeue(&self._doubtful, True))
            else:
                return True
        self.forget()
        self._settled_c0 = -1
        return False

    cdef bint settle_all(self) except -1 nogil:
        """Remove all values whose cost reaches the limit; False: dead end."""
        cdef Py_ssize_t variable
        cdef int64_t before
        if self.c0 >= self.limit:
            return False
        self._settled_c0, self._settled_limit = self.c0, self.limit
        for variable in range(self.begin, self.own_end):
            # most variables need no check: `highest` bounds the costs of their values
            if self.highest[variable] + self.c0 >= self.limit:
                before = self.size[variable]
                if not self.settle(variable):
                    return False
                if self.size[variable] < before:
                    self.wake(variable)
        return True

    # ---- supports ----

    cdef bint _restore_supports(self, Py_ssize_t variable) except -1 nogil:
        """Restore the supports in the factors of a variable that lost values."""
        cdef Py_ssize_t i, place, factor, other
        for i in range(self.in_first[variable], self.in_first[variable + 1]):
            factor, place = self.in_factor[i], self.in_place[i]
            if self.n_tuples(factor) > MAX_TUPLES:
                continue
            # project onto variables with a single value, too: otherwise c0 would miss a
            # cost that is left in the table
            for other in range(self.scope_first[factor], self.scope_first[factor + 1]):
                if other != place and not self._project(factor, other, False):
                    return False
        return True

    cdef bint _restore_full_supports(self, Py_ssize_t variable) except -1 nogil:
        """Restore full supports of earlier variables in the factors of a variable."""
        cdef Py_ssize_t i, first, factor
        for i in range(self.in_first[variable], self.in_first[variable + 1]):
            factor = self.in_factor[i]
            first = self.scope_first[factor]
            # the target is the first variable, except the last one, with two or more
            # values, or else the second to last
            while (first < self.scope_first[factor + 1] - 2
                   and self.size[self.scope[first]] == 1):
                first += 1
            # costs move to earlier variables only, so that the projections end
            if self.scope[first] < variable:
                if (self.n_tuples(factor) <= MAX_TUPLES
                        and not self._project(factor, first, True)):
                    return False
            else:
                enqueue(&self._doubtful, self.scope[self.scope_first[factor + 1] - 1])
        return True

    cdef bint _project(self, Py_ssize_t factor, Py_ssize_t target,
                       bint full) except -1 nogil:
        """Project a factor onto the variable at a place of its scope; False: dead end.

        With `full` the costs of the other variables are first extended into the factor.
        """
        cdef bint pair = self.scope_first[factor + 1] - self.scope_first[factor] == 2
        cdef Py_ssize_t variable = self.scope[target], first, k
        cdef bint any_cost = False
        self.culprit = factor
        # pairs are most of the work, and have faster code
        if pair:
            self._minimize_pair(factor, target, full)
        else:
            self.minimize(factor, target, full)
        first = self.first[variable]
        for k in range(self.size[variable]):
            if self.least[self.values[first + k]] > 0:
                any_cost = True
                break
        # every value has its support: no cost to move
        if not any_cost:
            return True
        # extend the other variables' costs, and project the sum onto the target
        if full and pair:
            self._extend_pair(factor, target)
        elif full:
            self._extend(factor, target)
        if not self._project_least(target):
            return False
        if not full or pair:
            return True
        # project costs left in the factor back onto the other variables, in their order
        for k in range(self.scope_first[factor], self.scope_first[factor + 1]):
            if k != target:
                self.minimize(factor, k, False)
                if not self._project_least(k):
                    return False
        return True

    cdef bint _project_least(self, Py_ssize_t target) except -1 nogil:
        """Move the costs in `least` from a factor to a variable; False: dead end."""
        cdef Py_ssize_t variable = self.scope[target], k, value
        cdef Py_ssize_t first = self.first[variable]
        cdef int64_t before = self.size[variable], cost, most = self.too_much(variable)
        cdef bint risen = False
        for k in range(self.size[variable] - 1, -1, -1):
            value = self.values[first + k]
            cost = self.least[value]
            if cost <= 0:
                continue
            # a value whose cost would reach the limit is removed instead
            if cost + self.unary[first + value] >= most:
                self.remove(variable, value)
                continue
            risen = True
            self.take(target, value, cost)
            if self.unary[first + value] > self.highest[variable]:
                self.save(&self.highest[variable])
                self.highest[variable] = self.unary[first + value]
        # values of neighbors may have lost full supports
        if self.size[variable] < before or risen:
            if not self.settle(variable):
                return False
            enqueue(&self._risen, variable)
            enqueue(&self._doubtful, variable)
        # removed values may have been supports of neighbors' values
        if self.size[variable] < before:
            enqueue(&self._lost, variable)
        return True

    cdef void _minimize_pair(self, Py_ssize_t factor, Py_ssize_t target,
                             bint full) noexcept nogil:
        """Write the min-marginals of a pair to `least`, as `minimize` does.

        The residue (last support) of a value is tried first: if its cost is 0, no other
        value is read.
        """
        cdef bint column = target > self.scope_first[factor]
        cdef Py_ssize_t source = target - 1 if column else target + 1
        cdef Py_ssize_t variable = self.scope[target], other = self.scope[source]
        cdef Py_ssize_t n_cols = (self.first[variable + 1] - self.first[variable]
                                  if column else
                                  self.first[other + 1] - self.first[other])
        cdef Py_ssize_t step = n_cols if column else 1
        cdef const int32_t* values = &self.values[self.first[variable]]
        cdef const int32_t* others = &self.values[self.first[other]]
        cdef const int64_t* source_delta = &self.delta[self.delta_first[source]]
        cdef const int64_t* unary = &self.unary[self.first[other]]
        cdef const int64_t* table
        cdef int32_t* residue = &self.residue[self.delta_first[target]]
        cdef Py_ssize_t k, i, value, b, best
        cdef int64_t least, cost, target_delta
        for k in range(self.size[variable]):
            value = values[k]
            table = self.tables[factor] + (value if column else value * n_cols)
            target_delta = self.delta[self.delta_first[target] + value]
            # the residue is most likely still a support
            b = residue[value]
            self.work += 1
            if (self.place[self.first[other] + b] < self.size[other]
                    and table[b * step] - source_delta[b] - target_delta
                    + (unary[b] if full else 0) <= 0):
                self.least[value] = 0
                continue
            # otherwise scan the alive values until one costs nothing
            least, best = max(self.limit, self.top), b
            for i in range(self.size[other]):
                b = others[i]
                cost = table[b * step] - source_delta[b] - target_delta
                if full:
                    cost += unary[b]
                if cost < least:
                    least, best = cost, b
                    if cost <= 0:
                        break
            self.work += i
            self.least[value] = least
            residue[value] = best

    cdef int _extend_pair(self, Py_ssize_t factor, Py_ssize_t target) except -1 nogil:
        """Extend costs of the other variable into a pair, as far as `least` requires.
        """
        cdef bint column = target > self.scope_first[factor]
        cdef Py_ssize_t source = target - 1 if column else target + 1
        cdef Py_ssize_t variable = self.scope[target], other = self.scope[source]
        cdef Py_ssize_t n_cols = (self.first[variable + 1] - self.first[variable]
                                  if column else
                                  self.first[other + 1] - self.first[other])
        cdef Py_ssize_t i, k, value, b, cell
        cdef int64_t need, cost, most = self.too_much(variable)
        for i in range(self.size[other]):
            b = self.values[self.first[other] + i]
            # a value that costs nothing has no cost to extend
            if self.unary[self.first[other] + b] == 0:
                continue
            # the cost to extend: the largest that any value of the target requires
            need = 0
            self.work += self.size[variable]
            for k in range(self.size[variable]):
                value = self.values[self.first[variable] + k]
                cost = self.least[value]
                # the value requires no cost: it has a support, or the projection
                # removes it
                if (cost <= 0
                        or cost + self.unary[self.first[variable] + value] >= most):
                    continue
                # `least` minus the present cost of the tuple
                cell = b * n_cols + value if column else value * n_cols + b
                cost += (self.delta[self.delta_first[target] + value]
                         + self.delta[self.delta_first[source] + b]
                         - self.tables[factor][cell])
                if cost > need:
                    need = cost
            if need > 0:
                self.take(source, b, -need)
        return 0

    cdef int _extend(self, Py_ssize_t factor, Py_ssize_t target) except -1 nogil:
        """Extend all costs of the other variables into a factor that is no pair."""
        cdef Py_ssize_t i, k, variable, value
        cdef int64_t cost
        for i in range(self.scope_first[factor], self.scope_first[factor + 1]):
            variable = self.scope[i]
            if i == target:
                continue
            for k in range(self.size[variable]):
                value = self.values[self.first[variable] + k]
                # `_project` moves costs that are left in the factor back to the
                # variables
                cost = self.unary[self.first[variable] + value]
                if cost > 0:
                    self.take(i, value, -cost)
        return 0

    # ---- existential supports ----

    cdef bint _restore_existential(self, Py_ssize_t variable) except -1 nogil:
        """Project costs onto a variable that has no existential support.

        Full supports in factors with later variables hold already (directional arc
        consistency), so that the check reads pairs with earlier variables only. Factors
        of three or more variables are left out.
        """
        cdef Py_ssize_t first = self.first[variable], k, value, i, factor, place
        cdef int64_t least = self.limit, cost
        if self.size[variable] == 1 or self._has_support(
                variable, self.support[variable]):
            return True
        # `_cost_with_earlier` stops at the least cost so far
        for k in range(self.size[variable]):
            value = self.values[first + k]
            cost = self._cost_with_earlier(variable, value, least)
            if cost < least:
                least = cost
                self.support[variable] = value
                if cost == 0:
                    return True
        # projections with a smaller gain are left out
        if least < self.least_gain:
            return True
        for i in range(self.in_first[variable], self.in_first[variable + 1]):
            factor, place = self.in_factor[i], self.in_place[i]
            if (self.scope_first[factor + 1] - self.scope_first[factor] == 2
                    and place > self.scope_first[factor]):
                # after these projections every value costs something, which raises c0
                if not self._project(factor, place, True):
                    return False
        return True

    cdef bint _has_support(self, Py_ssize_t variable, Py_ssize_t value) noexcept nogil:
        """Whether a value costs nothing, and has full supports with earlier neighbors.
        """
        if not (self.alive(variable, value)
                and self.unary[self.first[variable] + value] == 0):
            return False
        return self._cost_with_earlier(variable, value, 1) == 0

    cdef int64_t _cost_with_earlier(self, Py_ssize_t variable, Py_ssize_t value,
                                    int64_t most) noexcept nogil:
        """Return a value's cost plus its least costs in pairs with earlier variables.

        Stops if the sum reaches `most`.
        """
        cdef Py_ssize_t i, k, factor, place, other, b, n_cols
        cdef int64_t total = self.unary[
            self.first[variable] + value], least, cost, moved
        cdef const int64_t* table
        n_cols = self.first[variable + 1] - self.first[variable]
        for i in range(self.in_first[variable], self.in_first[variable + 1]):
            # callers do not use costs of `most` or more
            if total >= most:
                break
            factor, place = self.in_factor[i], self.in_place[i]
            # pairs with a later variable have full supports already; factors of three
            # or more variables are left out
            if (self.scope_first[factor + 1] - self.scope_first[factor] != 2
                    or place == self.scope_first[factor]):
                continue
            other = self.scope[place - 1]
            table = self.tables[factor] + value
            moved = self.delta[self.delta_first[place] + value]
            b = self.residue[self.delta_first[place] + value]
            self.work += 1
            if (self.alive(other, b)
                    and table[b * n_cols] - moved + self.unary[self.first[other] + b]
                    - self.delta[self.delta_first[place - 1] + b] <= 0):
                continue
            least = self.limit
            for k in range(self.size[other]):
                b = self.values[self.first[other] + k]
                cost = (table[b * n_cols] - moved + self.unary[self.first[other] + b]
                        - self.delta[self.delta_first[place - 1] + b])
                if cost < least:
                    least = cost
                    self.residue[self.delta_first[place] + value] = b
                    if cost <= 0:
                        break
            self.work += k
            total += least
        return total

    # ---- sweeps ----

    def sweep(self, bint backward=False):
        """Collect costs at each variable; share them out to factors of later variables.

        The variables are visited in order, or in reverse order if `backward`.

        Returns
        -------
        possible : bool
            Whether a labeling that costs less than the limit may exist.
        """
        cdef Py_ssize_t k, variable
        cdef bint possible = True
        with nogil:
            for k in range(self.n_variables):
                variable = self.n_variables - 1 - k if backward else k
                # the variable collects all projections before it shares its costs
                if not self._collect(variable):
                    possible = False
                    self.forget()
                    break
                self._share_out(variable, backward)
        return possible

    cdef bint _collect(self, Py_ssize_t variable) except -1 nogil:
        """Project all factors of a variable onto it; False: dead end."""
        cdef Py_ssize_t i, factor
        for i in range(self.in_first[variable], self.in_first[variable + 1]):
            factor = self.in_factor[i]
            if (self.n_tuples(factor) <= MAX_TUPLES
                    and not self._project(factor, self.in_place[i], False)):
                return False
        return True

    cdef int _share_out(self, Py_ssize_t variable, bint backward) except -1 nogil:
        """Extend equal shares of a variable's costs into factors with later variables.
        """
        cdef Py_ssize_t i, k, value, n_later = 0, n_shares
        cdef int64_t share
        n_shares = self.in_first[variable + 1] - self.in_first[variable]
        for i in range(self.in_first[variable], self.in_first[variable + 1]):
            # as in TRW-S, the number of shares is the larger of two numbers: of factors
            # with a later variable, and of factors without
            n_later += self._continues(i, backward)
        n_shares = max(n_later, n_shares - n_later)
        if n_later == 0:
            return 0
        for k in range(self.size[variable]):
            value = self.values[self.first[variable] + k]
            # shares are rounded down: the remainder stays at the variable
            share = self.unary[self.first[variable] + value] // n_shares
            if share <= 0:
                continue
            for i in range(self.in_first[variable], self.in_first[variable + 1]):
                if self._continues(i, backward):
                    self.take(self.in_place[i], value, -share)
        return 0

    cdef inline bint _continues(self, Py_ssize_t i, bint backward) noexcept nogil:
        """Whether factor `in_factor[i]` has a later variable (`backward`: an earlier).
        """
        cdef Py_ssize_t factor = self.in_factor[i]
        if backward:
            return self.in_place[i] > self.scope_first[factor]
        return self.in_place[i] < self.scope_first[factor + 1] - 1
