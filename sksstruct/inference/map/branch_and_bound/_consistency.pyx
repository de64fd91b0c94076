"""Soft arc consistency: costs move to where they count, and values are removed.

A value has a support in a factor if some tuple with it costs nothing, and a full one if
the other values of the tuple cost nothing either. What a value without a support costs
at least is moved to it, and from variables to c0. Full directional consistency asks for
full supports in the direction of earlier variables; existential consistency, that each
variable has a value which has full supports everywhere (EDAC; de Givry et al.,
Existential arc consistency, IJCAI 2005). A value that costs too much is removed, which
is arc consistency where costs are infinite. Factors of three or more variables are
looked at while few tuples are left.

`sweep` moves costs through all variables in their order, each giving equal shares to
the factors that go on: sequential tree-reweighted message passing with integers, with
all that is certain in c0. It bounds better than EDAC, and costs more.
"""

from libc.string cimport memset

from sksstruct.utils._pointers cimport int32s, uint8s

# Factors with more tuples wait until some of their values are gone.
cdef Py_ssize_t MAX_TUPLES = 20_000
# Visits of each variable, on average, in one call of `propagate`, and the least gain of
# an existential support: what is left below the limit, shifted by so much.
cdef Py_ssize_t MOST_VISITS = 32
cdef int LEAST_GAIN = 16


cdef inline void enqueue(Queue* queue, Py_ssize_t variable) noexcept nogil:
    """Queue a variable of the part that is searched, unless it is in the queue."""
    if queue.begin <= variable < queue.end and not queue.waits[variable]:
        queue.waits[variable] = 1
        queue.n += 1
        queue.low = min(queue.low, variable)
        queue.high = max(queue.high, variable)


cdef inline Py_ssize_t dequeue(Queue* queue, bint lowest) noexcept nogil:
    """Take out the lowest variable, or the highest."""
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
    """A network that is kept consistent, in the arrays of `Network`."""

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
        # queues are empty as a rule
        for k in range(3):
            if queues[k].n:
                memset(queues[k].waits, 0, self.n_variables)
            queues[k].n, queues[k].low, queues[k].high = 0, self.n_variables, -1

    cdef void focus(self, Py_ssize_t begin, Py_ssize_t own_end,
                    Py_ssize_t end) noexcept nogil:
        """Restrict the queues to some variables; only the first ones lose values."""
        cdef Queue* queues[3]
        cdef Py_ssize_t k
        self.forget()
        self.begin, self.own_end, self.end = begin, own_end, end
        queues[0], queues[1], queues[2] = &self._lost, &self._risen, &self._doubtful
        for k in range(3):
            queues[k].begin, queues[k].end = begin, end
        # another limit, most likely
        self._settled_c0 = -1

    cdef void wake(self, Py_ssize_t variable) noexcept nogil:
        """Look at a variable whose values have changed."""
        enqueue(&self._lost, variable)
        enqueue(&self._risen, variable)
        enqueue(&self._doubtful, variable)

    def wake_all(self):
        """Queue all variables for a visit."""
        cdef Py_ssize_t variable
        for variable in range(self.n_variables):
            self.wake(variable)

    def make_consistent(self):
        """Move costs and remove values until nothing more follows.

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
        """Process the queues, cheap work first; False: a dead end."""
        cdef bint alive = True
        # moves that add up to little may go on for ever: the rest is left as it is
        cdef Py_ssize_t left = MOST_VISITS * (self.end - self.begin)
        self.least_gain = 1 + ((self.limit - self.c0) >> LEAST_GAIN)
        while alive:
            # what costs too much by now goes before anything else is looked at
            if self.c0 != self._settled_c0 or self.limit != self._settled_limit:
                alive = self.settle_all()
            elif self._lost.n:
                alive = self._arcs(dequeue(&self._lost, True))
            elif left <= 0:
                self.forget()
                return True
            elif self._risen.n:
                left -= 1
                alive = self._directed_arcs(dequeue(&self._risen, False))
            elif self._doubtful.n:
                left -= 1
                alive = self._exists(dequeue(&self._doubtful, True))
            else:
                return True
        self.forget()
        self._settled_c0 = -1
        return False

    cdef bint settle_all(self) except -1 nogil:
        """Remove all values that cost too much; False: a dead end."""
        cdef Py_ssize_t variable
        cdef int64_t before
        if self.c0 >= self.limit:
            return False
        self._settled_c0, self._settled_limit = self.c0, self.limit
        for variable in range(self.begin, self.own_end):
            # most variables have no value that costs so much
            if self.highest[variable] + self.c0 >= self.limit:
                before = self.size[variable]
                if not self.settle(variable):
                    return False
                if self.size[variable] < before:
                    self.wake(variable)
        return True

    # ---- supports ----

    cdef bint _arcs(self, Py_ssize_t variable) except -1 nogil:
        """New supports in the factors of a variable that lost values."""
        cdef Py_ssize_t i, place, factor, other
        for i in range(self.in_first[variable], self.in_first[variable + 1]):
            factor, place = self.in_factor[i], self.in_place[i]
            if self.n_tuples(factor) > MAX_TUPLES:
                continue
            # to all others, whether they are decided or not: costs must not stay behind
            for other in range(self.scope_first[factor], self.scope_first[factor + 1]):
                if other != place and not self._project(factor, other, False):
                    return False
        return True

    cdef bint _directed_arcs(self, Py_ssize_t variable) except -1 nogil:
        """New full supports for the first variables of the factors of a variable."""
        cdef Py_ssize_t i, first, factor
        for i in range(self.in_first[variable], self.in_first[variable + 1]):
            factor = self.in_factor[i]
            first = self.scope_first[factor]
            # of a larger factor the first that is open
            while (first < self.scope_first[factor + 1] - 2
                   and self.size[self.scope[first]] == 1):
                first += 1
            # costs go to earlier variables only, so that this ends
            if self.scope[first] < variable:
                if (self.n_tuples(factor) <= MAX_TUPLES
                        and not self._project(factor, first, True)):
                    return False
            else:
                enqueue(&self._doubtful, self.scope[self.scope_first[factor + 1] - 1])
        return True

    cdef bint _project(self, Py_ssize_t factor, Py_ssize_t target,
                       bint full) except -1 nogil:
        """Move costs of a factor to the variable at a place of its scope.

        With `full` the costs of its other variables are moved into the factor as far as
        they can be moved on.
        """
        cdef bint pair = self.scope_first[factor + 1] - self.scope_first[factor] == 2
        cdef Py_ssize_t variable = self.scope[target], first, k
        cdef bint any_cost = False
        self.culprit = factor
        # pairs are most of the work, and have a way of their own
        if pair:
            self._minimize_pair(factor, target, full)
        else:
            self.minimize(factor, target, full)
        first = self.first[variable]
        for k in range(self.size[variable]):
            if self.least[self.values[first + k]] > 0:
                any_cost = True
                break
        # nothing to move: every value has its support
        if not any_cost:
            return True
        # the costs of the others go in, and what is certain comes out
        if full and pair:
            self._extend_pair(factor, target)
        elif full:
            self._extend(factor, target)
        if not self._accept(target):
            return False
        if not full or pair:
            return True
        # what the target did not take goes back, to earlier variables first
        for k in range(self.scope_first[factor], self.scope_first[factor + 1]):
            if k != target:
                self.minimize(factor, k, False)
                if not self._accept(k):
                    return False
        return True

    cdef bint _accept(self, Py_ssize_t target) except -1 nogil:
        """Move `least` to the variable at a place; False: a dead end."""
        cdef Py_ssize_t variable = self.scope[target], k, value
        cdef Py_ssize_t first = self.first[variable]
        cdef int64_t before = self.size[variable], cost, most = self.too_much(variable)
        cdef bint risen = False
        for k in range(self.size[variable] - 1, -1, -1):
            value = self.values[first + k]
            cost = self.least[value]
            if cost <= 0:
                continue
            # gone, and so nothing has to be moved to it
            if cost + self.unary[first + value] >= most:
                self.remove(variable, value)
                continue
            risen = True
            self.take(target, value, cost)
            if self.unary[first + value] > self.highest[variable]:
                self.save(&self.highest[variable])
                self.highest[variable] = self.unary[first + value]
        # values of its neighbors may have lost their full supports
        if self.size[variable] < before or risen:
            if not self.settle(variable):
                return False
            enqueue(&self._risen, variable)
            enqueue(&self._doubtful, variable)
        # where values are gone, other values may have lost all supports
        if self.size[variable] < before:
            enqueue(&self._lost, variable)
        return True

    cdef void _minimize_pair(self, Py_ssize_t factor, Py_ssize_t target,
                             bint full) noexcept nogil:
        """As `minimize`, for two variables; values that had a support may still do."""
        cdef bint column = target > self.scope_first[factor]
        cdef Py_ssize_t source = target - 1 if column else target + 1
        cdef Py_ssize_t variable = self.scope[target], other = self.scope[source]
        cdef Py_ssize_t n_cols = (self.first[variable + 1] - self.first[variable]
                                  if column else
                                  self.first[other + 1] - self.first[other])
        cdef Py_ssize_t step = n_cols if column else 1
        cdef const int32_t* values = &self.values[self.first[variable]]
        cdef const int32_t* others = &self.values[self.first[other]]
        cdef const int64_t* taken = &self.delta[self.delta_first[source]]
        cdef const int64_t* unary = &self.unary[self.first[other]]
        cdef const int64_t* table
        cdef int32_t* residue = &self.residue[self.delta_first[target]]
        cdef Py_ssize_t k, i, value, b, best
        cdef int64_t least, cost, own
        for k in range(self.size[variable]):
            value = values[k]
            table = self.tables[factor] + (value if column else value * n_cols)
            own = self.delta[self.delta_first[target] + value]
            # where it was the last time it most likely still is
            b = residue[value]
            self.work += 1
            if (self.place[self.first[other] + b] < self.size[other]
                    and table[b * step] - taken[b] - own
                    + (unary[b] if full else 0) <= 0):
                self.least[value] = 0
                continue
            # otherwise all are looked at, until one costs nothing
            least, best = max(self.limit, self.top), b
            for i in range(self.size[other]):
                b = others[i]
                cost = table[b * step] - taken[b] - own
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
        """Move as much into a factor of two variables as `least` needs."""
        cdef bint column = target > self.scope_first[factor]
        cdef Py_ssize_t source = target - 1 if column else target + 1
        cdef Py_ssize_t variable = self.scope[target], other = self.scope[source]
        cdef Py_ssize_t n_cols = (self.first[variable + 1] - self.first[variable]
                                  if column else
                                  self.first[other + 1] - self.first[other])
        cdef Py_ssize_t i, k, value, b, at
        cdef int64_t need, cost, most = self.too_much(variable)
        for i in range(self.size[other]):
            b = self.values[self.first[other] + i]
            # what costs nothing gives nothing
            if self.unary[self.first[other] + b] == 0:
                continue
            # the most that any value of the target asks of this one
            need = 0
            self.work += self.size[variable]
            for k in range(self.size[variable]):
                value = self.values[self.first[variable] + k]
                cost = self.least[value]
                # values that are removed at once need nothing
                if (cost <= 0
                        or cost + self.unary[self.first[variable] + value] >= most):
                    continue
                # the cost of the pair as it is now
                at = b * n_cols + value if column else value * n_cols + b
                cost += (self.delta[self.delta_first[target] + value]
                         + self.delta[self.delta_first[source] + b]
                         - self.tables[factor][at])
                if cost > need:
                    need = cost
            if need > 0:
                self.take(source, b, -need)
        return 0

    cdef int _extend(self, Py_ssize_t factor, Py_ssize_t target) except -1 nogil:
        """Move all costs of the other variables into a factor."""
        cdef Py_ssize_t i, k, variable, value
        cdef int64_t cost
        for i in range(self.scope_first[factor], self.scope_first[factor + 1]):
            variable = self.scope[i]
            if i == target:
                continue
            for k in range(self.size[variable]):
                value = self.values[self.first[variable] + k]
                # all of it: the rest comes back afterwards
                cost = self.unary[self.first[variable] + value]
                if cost > 0:
                    self.take(i, value, -cost)
        return 0

    # ---- existential supports ----

    cdef bint _exists(self, Py_ssize_t variable) except -1 nogil:
        """Move costs to a variable none of whose values has full supports."""
        cdef Py_ssize_t first = self.first[variable], k, value, i, factor, place
        cdef int64_t least = self.limit, cost
        if self.size[variable] == 1 or self._has_support(
                variable, self.support[variable]):
            return True
        # the value that is cheapest so far bounds the others
        for k in range(self.size[variable]):
            value = self.values[first + k]
            cost = self._cost_with_earlier(variable, value, least)
            if cost < least:
                least = cost
                self.support[variable] = value
                if cost == 0:
                    return True
        # too little: the work is better spent on a decision
        if least < self.least_gain:
            return True
        for i in range(self.in_first[variable], self.in_first[variable + 1]):
            factor, place = self.in_factor[i], self.in_place[i]
            if (self.scope_first[factor + 1] - self.scope_first[factor] == 2
                    and place > self.scope_first[factor]):
                # what they cost together meets at this variable, and so in c0
                if not self._project(factor, place, True):
                    return False
        return True

    cdef bint _has_support(self, Py_ssize_t variable, Py_ssize_t value) noexcept nogil:
        """Whether a value costs nothing, with earlier neighbors seen to cost nothing.
        """
        if not (self.alive(variable, value)
                and self.unary[self.first[variable] + value] == 0):
            return False
        return self._cost_with_earlier(variable, value, 1) == 0

    cdef int64_t _cost_with_earlier(self, Py_ssize_t variable, Py_ssize_t value,
                                    int64_t most) noexcept nogil:
        """Cost of a value, and what earlier neighbors cost with it; up to `most`."""
        cdef Py_ssize_t i, k, factor, place, other, b, n_cols
        cdef int64_t total = self.unary[self.first[variable] + value], least, cost, own
        cdef const int64_t* table
        n_cols = self.first[variable + 1] - self.first[variable]
        for i in range(self.in_first[variable], self.in_first[variable + 1]):
            # no need to know by how much
            if total >= most:
                break
            factor, place = self.in_factor[i], self.in_place[i]
            if (self.scope_first[factor + 1] - self.scope_first[factor] != 2
                    or place == self.scope_first[factor]):
                continue
            # later neighbors have given their costs already
            other = self.scope[place - 1]
            table = self.tables[factor] + value
            own = self.delta[self.delta_first[place] + value]
            b = self.residue[self.delta_first[place] + value]
            self.work += 1
            if (self.alive(other, b)
                    and table[b * n_cols] - own + self.unary[self.first[other] + b]
                    - self.delta[self.delta_first[place - 1] + b] <= 0):
                continue
            least = self.limit
            for k in range(self.size[other]):
                b = self.values[self.first[other] + k]
                cost = (table[b * n_cols] - own + self.unary[self.first[other] + b]
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
        """Move costs through all variables in their order, or backward.

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
                # all that is known arrives before it goes on
                if not self._pull(variable):
                    possible = False
                    self.forget()
                    break
                self._push(variable, backward)
        return possible

    cdef bint _pull(self, Py_ssize_t variable) except -1 nogil:
        """Move all costs of its factors to a variable, as far as they are certain."""
        cdef Py_ssize_t i, factor
        for i in range(self.in_first[variable], self.in_first[variable + 1]):
            factor = self.in_factor[i]
            if (self.n_tuples(factor) <= MAX_TUPLES
                    and not self._project(factor, self.in_place[i], False)):
                return False
        return True

    cdef int _push(self, Py_ssize_t variable, bint backward) except -1 nogil:
        """Give shares of the costs of a variable to the factors that go on."""
        cdef Py_ssize_t i, k, value, n_on = 0, n_all
        cdef int64_t share
        n_all = self.in_first[variable + 1] - self.in_first[variable]
        for i in range(self.in_first[variable], self.in_first[variable + 1]):
            # as many shares as in the chains of tree-reweighted message passing
            n_on += self._goes_on(i, backward)
        n_all = max(n_on, n_all - n_on)
        if n_on == 0:
            return 0
        for k in range(self.size[variable]):
            value = self.values[self.first[variable] + k]
            # rounded down: what is left over stays
            share = self.unary[self.first[variable] + value] // n_all
            if share <= 0:
                continue
            for i in range(self.in_first[variable], self.in_first[variable + 1]):
                if self._goes_on(i, backward):
                    self.take(self.in_place[i], value, -share)
        return 0

    cdef inline bint _goes_on(self, Py_ssize_t i, bint backward) noexcept nogil:
        """Whether a factor has a later variable, or backward an earlier one."""
        cdef Py_ssize_t factor = self.in_factor[i]
        if backward:
            return self.in_place[i] > self.scope_first[factor]
        return self.in_place[i] < self.scope_first[factor + 1] - 1
