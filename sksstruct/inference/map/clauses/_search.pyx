"""Conflict-driven clause learning: search for an assignment that satisfies clauses.

Literal 2 v means that variable v is true, literal 2 v + 1 that it is false. A clause is
an array of literals of which at least one has to be true. The search decides variables
one by one and propagates: if all literals of a clause but one are false, the last one
becomes true. Each clause is watched at its first two literals, so that propagation
visits a clause only if a watched literal became false (M. Moskewicz et al., Chaff, DAC
2001). The clauses that watch a literal are a linked list, with two nodes for each
clause, so that the search allocates no memory.

A conflict is a clause whose literals are all false. Resolving the conflict with the
reasons of its literals, back to the first unique implication point, gives a clause to
learn (J. Marques-Silva and K. Sakallah, GRASP, IEEE Transactions on Computers 1999).
The search jumps back to the level at which the learned clause propagates. Decisions
prefer variables of recent conflicts, and the last value of each variable. Restarts
follow Luby's sequence. If the memory for learned clauses is full, the half of these
clauses with the most decision levels is forgotten, as in Glucose (G. Audemard and L.
Simon, IJCAI 2009).
"""

from libc.stdint cimport int8_t, int32_t, int64_t
from libc.string cimport memmove

cdef enum:
    TRUE = 1
    FALSE = -1
    OPEN = 0
    NONE = -1
    # Number of conflicts in a unit of Luby's sequence.
    UNIT = 100

# Factor by which the activity increment grows at each conflict, so that older
# increments count less and less.
cdef double GROWTH = 1.0 / 0.95
# Activities are rescaled if one of them is above this number.
cdef double HIGH = 1e100
# Learned clauses of at most this number of decision levels are kept when clauses with
# many levels are forgotten.
cdef int32_t FEW_LEVELS = 2


cdef inline int32_t negated(int32_t literal) noexcept nogil:
    return literal ^ 1


cdef int64_t luby(int64_t i) noexcept nogil:
    """Return entry i >= 1 of Luby's sequence 1 1 2 1 1 2 4 1 1 2 ..."""
    cdef int64_t k = 1
    while (<int64_t> 1 << k) - 1 < i:
        k += 1
    while (<int64_t> 1 << k) - 1 != i:
        i -= (<int64_t> 1 << (k - 1)) - 1
        k = 1
        while (<int64_t> 1 << k) - 1 < i:
            k += 1
    return <int64_t> 1 << (k - 1)


cdef class ConflictSearch:
    """Kernel of conflict-driven search, in the arrays of `ClauseSearch`.

    Parameters
    ----------
    arrays : SimpleNamespace
        The arrays that `ClauseSearch` allocates.
    n_variables, n_clauses : int
        Numbers of variables and of given clauses.
    """

    cdef object _owned
    cdef Py_ssize_t _n_variables, _n_given
    # literals of all clauses, offset of each clause, and number of decision levels of
    # each learned clause
    cdef int32_t[::1] _literals
    cdef int64_t[::1] _begin
    cdef int32_t[::1] _levels
    # first node in the watch list of each literal, and next node after each node; node
    # 2 c + i is for literal i (0 or 1) of clause c
    cdef int64_t[::1] _first_node, _next_node
    # value of each literal; of each variable: last value, decision level, and reason
    # (the clause that propagated the variable)
    cdef int8_t[::1] _value, _phase
    cdef int32_t[::1] _level
    cdef int64_t[::1] _reason
    # trail: true literals in the order of assignment, and index on the trail at which
    # each decision level begins
    cdef int32_t[::1] _trail, _level_begin
    cdef Py_ssize_t _n_trail, _n_levels, _n_propagated
    # heap of variables by activity, and the place of each variable in the heap
    cdef double[::1] _activity
    cdef double _increment
    cdef int32_t[::1] _heap, _place
    cdef Py_ssize_t _heap_size
    # conflict analysis: marks of variables, the learned clause, and the last conflict
    # at which each level was counted
    cdef int8_t[::1] _marked
    cdef int32_t[::1] _learned
    cdef int64_t[::1] _level_mark
    cdef Py_ssize_t _n_learned
    cdef readonly Py_ssize_t n_clauses
    cdef readonly int64_t work, n_conflicts
    cdef int64_t _next_restart, _n_restarts
    cdef readonly bint unsatisfiable

    def __init__(self, arrays, Py_ssize_t n_variables, Py_ssize_t n_clauses):
        self._owned = arrays
        self._n_variables, self._n_given = n_variables, n_clauses
        self.n_clauses = n_clauses
        self._literals, self._begin = arrays.literals, arrays.begin
        self._levels = arrays.levels
        self._first_node, self._next_node = arrays.head, arrays.next
        self._value, self._phase = arrays.value, arrays.phase
        self._level, self._reason = arrays.level, arrays.reason
        self._trail, self._level_begin = arrays.trail, arrays.level_begin
        self._activity, self._increment = arrays.activity, 1.0
        self._heap, self._place = arrays.heap, arrays.place
        self._marked, self._learned = arrays.seen, arrays.learned
        self._level_mark = arrays.level_mark
        self._n_restarts, self._next_restart = 1, UNIT
        with nogil:
            self._begin_search()

    def advance(self, int64_t work):
        """Continue the search for about `work` visits of clauses.

        Returns
        -------
        found : bool
            Whether all variables have values that satisfy all clauses.
        """
        cdef bint found
        with nogil:
            found = self._search(self.work + work)
        return found

    def begin_again(self):
        """Undo all decisions; the learned clauses stay."""
        with nogil:
            self._backjump(0)

    # ---- the search ----

    cdef void _begin_search(self) noexcept nogil:
        """Make the heap of variables and the watch lists."""
        cdef Py_ssize_t v
        for v in range(self._n_variables):
            self._heap[v], self._place[v] = <int32_t> v, <int32_t> v
        self._heap_size = self._n_variables
        for v in range(self._n_variables // 2 - 1, -1, -1):
            self._sift_down(v)
        self._watch_all()

    cdef bint _search(self, int64_t end) noexcept nogil:
        """Decide, propagate and learn; return whether all variables have values."""
        cdef int64_t conflict
        cdef int32_t variable
        while not self.unsatisfiable:
            conflict = self._propagate()
            if conflict != NONE:
                self.n_conflicts += 1
                if self._n_levels == 0:
                    self.unsatisfiable = True
                    return False
                if self._has_room():
                    self._learn(conflict)
                else:
                    self._restart()
                continue
            if self._n_levels and self.n_conflicts >= self._next_restart:
                self._restart()
                continue
            # the search stops before a decision; the next call continues from there
            if self.work >= end:
                return False
            variable = self._most_active()
            if variable == NONE:
                return True
            self._level_begin[self._n_levels] = <int32_t> self._n_trail
            self._n_levels += 1
            self._assign(2 * variable + (self._phase[variable] != TRUE), NONE)
        return False

    cdef void _restart(self) noexcept nogil:
        """Undo all decisions, and forget clauses if the memory is full."""
        self._backjump(0)
        if self.n_conflicts >= self._next_restart:
            self._n_restarts += 1
            self._next_restart = self.n_conflicts + UNIT * luby(self._n_restarts)
        if not self._has_room():
            self._forget()

    cdef bint _has_room(self) noexcept nogil:
        """Whether one more clause can be learned."""
        return (self.n_clauses + 1 < self._levels.shape[0] and
                self._begin[self.n_clauses] + self._n_variables
                <= self._literals.shape[0])

    # ---- values ----

    cdef void _assign(self, int32_t literal, int64_t reason) noexcept nogil:
        """Make a literal true; `reason` is the clause that implies it, or NONE."""
        cdef int32_t variable = literal >> 1
        self._value[literal], self._value[negated(literal)] = TRUE, FALSE
        self._level[variable] = <int32_t> self._n_levels
        self._reason[variable] = reason
        self._trail[self._n_trail] = literal
        self._n_trail += 1

    cdef void _backjump(self, Py_ssize_t level) noexcept nogil:
        """Undo the assignments of levels above `level`; store the values as phases."""
        cdef Py_ssize_t first
        cdef int32_t literal, variable
        if level >= self._n_levels:
            return
        first = self._level_begin[level]
        while self._n_trail > first:
            self._n_trail -= 1
            literal = self._trail[self._n_trail]
            variable = literal >> 1
            self._phase[variable] = FALSE if literal & 1 else TRUE
            self._value[literal] = self._value[negated(literal)] = OPEN
            if self._place[variable] == NONE:
                self._insert(variable)
        self._n_levels, self._n_propagated = level, first

    # ---- propagation ----

    cdef void _watch(self, int32_t literal, int64_t node) noexcept nogil:
        self._next_node[node] = self._first_node[literal]
        self._first_node[literal] = node

    cdef void _watch_all(self) noexcept nogil:
        """Rebuild all watch lists at level 0; clauses of one literal fix variables."""
        cdef Py_ssize_t clause, literal
        cdef int64_t begin
        for literal in range(2 * self._n_variables):
            self._first_node[literal] = NONE
        for clause in range(self.n_clauses):
            begin = self._begin[clause]
            if self._begin[clause + 1] - begin == 0:
                self.unsatisfiable = True
            elif self._begin[clause + 1] - begin == 1:
                self._fix(self._literals[begin])
            else:
                self._watch(self._literals[begin], 2 * clause)
                self._watch(self._literals[begin + 1], 2 * clause + 1)

    cdef void _fix(self, int32_t literal) noexcept nogil:
        """Make a literal true at level 0."""
        if self._value[literal] == FALSE:
            self.unsatisfiable = True
        elif self._value[literal] == OPEN:
            self._assign(literal, NONE)

    cdef int64_t _propagate(self) noexcept nogil:
        """Propagate all literals of the trail; return a conflict or NONE."""
        cdef int64_t conflict = NONE
        while self._n_propagated < self._n_trail and conflict == NONE:
            conflict = self._propagate_one(
                negated(self._trail[self._n_propagated]))
            self._n_propagated += 1
        return conflict

    cdef int64_t _propagate_one(self, int32_t false_literal) noexcept nogil:
        """Visit the clauses that watch a false literal; return a conflict or NONE."""
        cdef int64_t node = self._first_node[false_literal], following, clause, k, begin
        cdef int32_t other, place
        cdef bint moved
        # rebuild the list from the clauses that still watch this literal
        self._first_node[false_literal] = NONE
        while node != NONE:
            self.work += 1
            following = self._next_node[node]
            clause, place = node >> 1, <int32_t> (node & 1)
            begin = self._begin[clause]
            other = self._literals[begin + 1 - place]
            moved = False
            if self._value[other] != TRUE:
                for k in range(begin + 2, self._begin[clause + 1]):
                    if self._value[self._literals[k]] != FALSE:
                        self._literals[begin + place] = self._literals[k]
                        self._literals[k] = false_literal
                        self._watch(self._literals[begin + place], node)
                        moved = True
                        break
            if not moved:
                self._watch(false_literal, node)
                if self._value[other] == FALSE:
                    # keep the rest of the list, which was not visited
                    self._append(false_literal, following)
                    return clause
                if self._value[other] == OPEN:
                    self._assign(other, clause)
            node = following
        return NONE

    cdef void _append(self, int32_t literal, int64_t node) noexcept nogil:
        """Append a list of nodes to the watch list of a literal."""
        cdef int64_t following
        while node != NONE:
            following = self._next_node[node]
            self._watch(literal, node)
            node = following

    # ---- conflicts ----

    cdef void _learn(self, int64_t conflict) noexcept nogil:
        """Learn a clause from a conflict; jump back to the level where it propagates.
        """
        cdef Py_ssize_t level, k
        cdef int64_t clause = self.n_clauses, begin = self._begin[clause]
        self._resolve(conflict)
        self._drop_implied()
        level = self._second_level()
        self._levels[clause] = self._count_levels()
        self._increment *= GROWTH
        self._backjump(level)
        if self._n_learned == 1:
            self._fix(self._learned[0])
            return
        for k in range(self._n_learned):
            self._literals[begin + k] = self._learned[k]
        self._begin[clause + 1] = begin + self._n_learned
        self.n_clauses += 1
        self._watch(self._learned[0], 2 * clause)
        self._watch(self._learned[1], 2 * clause + 1)
        self._assign(self._learned[0], clause)

    cdef void _resolve(self, int64_t clause) noexcept nogil:
        """Write the clause of the first unique implication point to `_learned`."""
        cdef Py_ssize_t place = self._n_trail, n_open = 0
        cdef int64_t k
        cdef int32_t literal = NONE, variable
        self._n_learned = 1
        while True:
            for k in range(self._begin[clause], self._begin[clause + 1]):
                variable = self._literals[k] >> 1
                # skip the literal that this clause has propagated
                if self._literals[k] == literal or self._marked[variable]:
                    continue
                if self._level[variable] == 0:
                    continue
                self._marked[variable] = True
                self._raise_activity(variable)
                if self._level[variable] == self._n_levels:
                    n_open += 1
                else:
                    self._learned[self._n_learned] = self._literals[k]
                    self._n_learned += 1
            # find the last marked literal on the trail, which is of the current level
            while True:
                place -= 1
                literal = self._trail[place]
                if self._marked[literal >> 1]:
                    break
            self._marked[literal >> 1] = False
            n_open -= 1
            if n_open == 0:
                break
            clause = self._reason[literal >> 1]
        self._learned[0] = negated(literal)

    cdef void _drop_implied(self) noexcept nogil:
        """Drop redundant literals from the learned clause, and reset the marks.

        A literal is redundant if its reason contains only fixed variables and variables
        of the learned clause.
        """
        cdef Py_ssize_t k, n_kept = 1
        cdef int32_t literal
        for k in range(1, self._n_learned):
            literal = self._learned[k]
            # a dropped literal stays marked, as the literal may imply other literals
            if not self._is_implied(literal >> 1):
                self._learned[k] = self._learned[n_kept]
                self._learned[n_kept] = literal
                n_kept += 1
        for k in range(1, self._n_learned):
            self._marked[self._learned[k] >> 1] = False
        self._n_learned = n_kept

    cdef bint _is_implied(self, int32_t variable) noexcept nogil:
        """Whether all other literals of a variable's reason are marked or fixed."""
        cdef int64_t reason = self._reason[variable], k
        cdef int32_t other
        if reason == NONE:
            return False
        for k in range(self._begin[reason], self._begin[reason + 1]):
            other = self._literals[k] >> 1
            if other != variable and not self._marked[other] and self._level[other] > 0:
                return False
        return True

    cdef Py_ssize_t _second_level(self) noexcept nogil:
        """Return the highest level among `_learned[1:]`, and put such a literal second.
        """
        cdef Py_ssize_t k, best = 1
        if self._n_learned == 1:
            return 0
        for k in range(2, self._n_learned):
            if (self._level[self._learned[k] >> 1]
                    > self._level[self._learned[best] >> 1]):
                best = k
        self._learned[1], self._learned[best] = self._learned[best], self._learned[1]
        return self._level[self._learned[1] >> 1]

    cdef int32_t _count_levels(self) noexcept nogil:
        """Return the number of decision levels of the learned clause."""
        cdef Py_ssize_t k
        cdef int32_t level, count = 0
        for k in range(self._n_learned):
            level = self._level[self._learned[k] >> 1]
            if self._level_mark[level] != self.n_conflicts:
                self._level_mark[level] = self.n_conflicts
                count += 1
        return count

    # ---- memory ----

    cdef void _forget(self) noexcept nogil:
        """Forget learned clauses of many levels; called at level 0.

        Clauses with a literal that is true at level 0 are forgotten, too. Clause
        numbers change, but reasons of fixed variables are never read.
        """
        cdef Py_ssize_t clause, n_kept = self._n_given, n = self.n_clauses
        cdef int64_t begin, size, end = self._begin[self._n_given]
        cdef int32_t limit = self._median_levels()
        cdef Py_ssize_t most = self._n_given + (n - self._n_given) // 2
        for clause in range(self._n_given, n):
            begin = self._begin[clause]
            size = self._begin[clause + 1] - begin
            if self._levels[clause] > FEW_LEVELS and (
                    self._levels[clause] > limit or n_kept >= most):
                continue
            if self._is_true(begin, begin + size):
                continue
            memmove(&self._literals[end], &self._literals[begin],
                    size * sizeof(int32_t))
            self._levels[n_kept] = self._levels[clause]
            self._begin[n_kept] = end
            n_kept, end = n_kept + 1, end + size
        self._begin[n_kept] = end
        # if nearly all clauses have few levels, the youngest quarter is forgotten
        self.n_clauses = min(n_kept, self._n_given + 3 * (n - self._n_given) // 4)
        self._watch_all()

    cdef bint _is_true(self, int64_t begin, int64_t end) noexcept nogil:
        """Whether a literal of a clause is true; called at level 0."""
        cdef int64_t k
        for k in range(begin, end):
            if self._value[self._literals[k]] == TRUE:
                return True
        return False

    cdef int32_t _median_levels(self) noexcept nogil:
        """Return the median number of levels of the learned clauses."""
        cdef Py_ssize_t clause, below, half = (self.n_clauses - self._n_given) // 2
        cdef int32_t low = 1, high = <int32_t> self._n_variables, middle
        while low < high:
            middle = (low + high) // 2
            below = 0
            for clause in range(self._n_given, self.n_clauses):
                below += self._levels[clause] <= middle
            if below >= half:
                high = middle
            else:
                low = middle + 1
        return low

    # ---- variables by activity ----

    cdef int32_t _most_active(self) noexcept nogil:
        """Remove and return the most active variable without a value, or NONE."""
        cdef int32_t variable
        while self._heap_size:
            variable = self._heap[0]
            self._heap_size -= 1
            self._place[variable] = NONE
            if self._heap_size:
                self._set_heap(0, self._heap[self._heap_size])
                self._sift_down(0)
            if self._value[2 * variable] == OPEN:
                return variable
        return NONE

    cdef void _raise_activity(self, int32_t variable) noexcept nogil:
        """Raise the activity of a variable of a conflict."""
        cdef Py_ssize_t v
        self._activity[variable] += self._increment
        if self._activity[variable] > HIGH:
            for v in range(self._n_variables):
                self._activity[v] /= HIGH
            self._increment /= HIGH
        if self._place[variable] != NONE:
            self._sift_up(self._place[variable])

    cdef void _insert(self, int32_t variable) noexcept nogil:
        self._set_heap(self._heap_size, variable)
        self._heap_size += 1
        self._sift_up(self._heap_size - 1)

    cdef void _set_heap(self, Py_ssize_t place, int32_t variable) noexcept nogil:
        self._heap[place], self._place[variable] = variable, <int32_t> place

    cdef void _sift_up(self, Py_ssize_t place) noexcept nogil:
        cdef int32_t variable = self._heap[place]
        cdef Py_ssize_t above
        while place > 0:
            above = (place - 1) >> 1
            if self._activity[self._heap[above]] >= self._activity[variable]:
                break
            self._set_heap(place, self._heap[above])
            place = above
        self._set_heap(place, variable)

    cdef void _sift_down(self, Py_ssize_t place) noexcept nogil:
        cdef int32_t variable = self._heap[place]
        cdef Py_ssize_t below
        while 2 * place + 1 < self._heap_size:
            below = 2 * place + 1
            if (below + 1 < self._heap_size and
                    self._activity[self._heap[below + 1]]
                    > self._activity[self._heap[below]]):
                below += 1
            if self._activity[variable] >= self._activity[self._heap[below]]:
                break
            self._set_heap(place, self._heap[below])
            place = below
        self._set_heap(place, variable)
