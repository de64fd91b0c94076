"""The k best labelings of binary variables whose pairs favor agreement.

A part of the set of labelings (see `_best_first`) fixes the labels of some variables,
and holds the residual capacities of a maximum flow. The cost of changing the label of
one variable is the largest flow that the residual graph still admits: from the variable
to the sink if its label is 0, from the source to the variable if it is 1 (Kohli and
Torr, 2008). All variables that the last search of this flow reaches change their
labels, too.

The second best labeling changes the variable with the least such flow. The computation
of a flow ends when the flow exceeds the least flows so far, and does not begin if a
lower bound, inherited from a larger part, exceeds them. Usually few variables remain,
with few augmenting paths each.

Flow between a variable and the terminal of its label stays among variables of this
label, as no residual arc leaves the source's side of a minimum cut. Searches therefore
visit only variables of one label.
"""

from libc.math cimport INFINITY, fabs, nextafter
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from sksstruct.inference.cuts._mincut cimport CutKernel
from sksstruct.inference.search._best_first cimport (
    MOST_WANTED, BestFirst, Part, insert_least, rounded_up,
)
from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport int32s, intps


cdef struct Change:
    # index and old value of a changed capacity
    Py_ssize_t place
    double before


cdef class CutSearch(BestFirst):
    """Search for the k best labelings of the problem that a kernel has solved.

    Parameters
    ----------
    kernel : CutKernel
        The graph with its flow; the caller must not use it during the search.
    labels : ndarray of shape (3, n_variables), int32
        Scratch: a labeling, and two arrays of the search for paths.
    seen : ndarray of shape (n_variables,), intp
        Scratch: zeros.
    """

    cdef CutKernel _kernel
    cdef object _owned
    cdef int32_t* _labels
    # For each part: `_capacities` has the residual capacities of arcs and of terminals,
    # and lower bounds on the cost of changing each variable; `_fixed` tells whether
    # each variable is fixed.
    cdef Py_ssize_t _n_arcs, _part_size
    cdef double* _capacities
    cdef unsigned char* _fixed
    cdef Py_ssize_t _capacities_allocated, _fixed_capacity
    # For the search of paths: `_seen_in` has the number of the last search that reached
    # each variable, `_reached_by` the arc by which each variable was reached, `_queue`
    # the variables in the order in which they were reached. `_changes` has the changes
    # of capacities that `_undo` reverts.
    cdef Py_ssize_t* _seen_in
    cdef int32_t* _reached_by
    cdef int32_t* _queue
    cdef Py_ssize_t _round, _n_queue
    cdef Change* _changes
    cdef Py_ssize_t _n_changes, _change_capacity

    def __cinit__(self, CutKernel kernel, labels, seen):
        cdef Py_ssize_t n = kernel._n
        self._kernel, self.n_variables = kernel, n
        self._n_arcs = 2 * kernel._m
        self._part_size = self._n_arcs + 2 * n
        self._owned = labels, seen
        self._labels, self._seen_in = int32s(labels), intps(seen)
        self._reached_by, self._queue = self._labels + n, self._labels + 2 * n

    def __dealloc__(self):
        free(self._capacities)
        free(self._fixed)
        free(self._changes)

    cdef int reserve_part(self, Py_ssize_t part) except -1 nogil:
        BestFirst.reserve_part(self, part)
        reserve(<void**> &self._capacities, &self._capacities_allocated,
                (part + 1) * self._part_size, sizeof(double))
        reserve(<void**> &self._fixed, &self._fixed_capacity,
                (part + 1) * self.n_variables, 1)
        return 0

    # ---- parts ----

    cdef bint start(self) except -1 nogil:
        cdef Py_ssize_t n = self.n_variables
        cdef Part* current = self._parts
        self._kernel._read_labels(self._labels)
        current.score = self._kernel._score(self._labels)
        memcpy(self._capacities, self._kernel._residual,
               self._n_arcs * sizeof(double))
        memcpy(self._capacities + self._n_arcs, self._kernel._terminal,
               n * sizeof(double))
        memset(self._capacities + self._n_arcs + n, 0, n * sizeof(double))
        memset(self._fixed, 0, n)
        memcpy(self.labeling(0), self._labels, n * sizeof(int32_t))
        current.next_score, current.stale = current.score, True
        return current.score > -INFINITY

    cdef int refresh(self, Py_ssize_t part, Py_ssize_t wanted) except -1 nogil:
        cdef double[MOST_WANTED] least
        cdef Py_ssize_t variable, k, count = min(wanted, MOST_WANTED)
        cdef Part* current = self._parts + part
        cdef const unsigned char* fixed = self._fixed + part * self.n_variables
        cdef double* bounds = (
            self._capacities + (part + 1) * self._part_size - self.n_variables)
        cdef double flow, best, limit
        # The score difference of two allowed labelings is less than `_big` / 2: a
        # change that costs more leads to a forbidden labeling.
        best = self._kernel._big / 2.0
        for k in range(count):
            least[k] = best
        # Changing one variable alone gives a labeling: the least of the costs of such
        # changes is an upper bound on the cost of the second best labeling.
        for variable in range(self.n_variables):
            if not fixed[variable]:
                insert_least(count, least, self._flip_cost(part, variable))
        self._rule_out(part, rounded_up(least[count - 1], self._kernel._big), bounds)
        for variable in range(self.n_variables):
            limit = rounded_up(least[count - 1], self._kernel._big)
            if fixed[variable] or bounds[variable] > limit:
                continue
            bounds[variable] = flow = self._flow_of(part, variable, limit)
            self._undo(part)
            if flow <= limit:
                insert_least(count, least, flow)
                if flow < best:
                    best, current.variable = flow, variable
        current.stale = False
        current.next_score = -INFINITY
        if best < self._kernel._big / 2.0:
            current.next_score = current.score - best
        return 0

    cdef void _rule_out(self, Py_ssize_t part, double limit,
                        double* bounds) noexcept nogil:
        """Raise the bounds of variables whose change must cost more than a limit.

        A cut between a variable and its terminal contains the arc between the variable
        and a neighbor, or is a cut of the neighbor, too. If both cost more than the
        limit, so does every cut of the variable.
        """
        cdef const double* residual = self._capacities + part * self._part_size
        cdef const double* terminal = residual + self._n_arcs
        cdef const int32_t* labels = self.labeling(part)
        cdef double more = nextafter(limit, INFINITY)
        cdef Py_ssize_t place = 0, variable, arc, neighbor
        self._round += 1
        self._n_queue = 0
        for variable in range(self.n_variables):
            if bounds[variable] > limit or limit < (
                    terminal[variable] if labels[variable] else -terminal[variable]):
                self._reach(variable)
        while place < self._n_queue:
            variable = self._queue[place]
            place += 1
            bounds[variable] = max(bounds[variable], more)
            for arc in range(self._kernel._first[variable],
                             self._kernel._first[variable + 1]):
                neighbor = self._kernel._arcs[arc].head
                # A neighbor is reached over the arc that its flow would use: from the
                # neighbor for label 0, to the neighbor for label 1.
                if (self._seen_in[neighbor] != self._round
                        and labels[neighbor] == labels[variable]
                        and residual[arc if labels[variable] else (
                            self._kernel._arcs[arc].sister)] > limit):
                    self._reach(neighbor)

    cdef inline void _reach(self, Py_ssize_t variable) noexcept nogil:
        """Append a variable to the queue of the search."""
        self._seen_in[variable] = self._round
        self._queue[self._n_queue] = <int32_t> variable
        self._n_queue += 1

    cdef double _flip_cost(self, Py_ssize_t part, Py_ssize_t variable) noexcept nogil:
        """Cost of changing the label of one variable, and of no other variable."""
        cdef const double* residual = self._capacities + part * self._part_size
        cdef bint label = self.labeling(part)[variable]
        cdef double total = max(
            residual[self._n_arcs + variable] * (1.0 if label else -1.0), 0.0)
        cdef Py_ssize_t arc
        for arc in range(self._kernel._first[variable],
                         self._kernel._first[variable + 1]):
            total += residual[self._kernel._arcs[arc].sister if label else arc]
        return total

    cdef bint split(self, Py_ssize_t part, Py_ssize_t other) except -1 nogil:
        cdef Py_ssize_t n = self.n_variables, variable = self._parts[part].variable, k
        cdef double* numbers = self._capacities + other * self._part_size
        cdef double* bounds = numbers + self._n_arcs + n
        cdef int32_t* labels = self.labeling(other)
        cdef Part* new = self._parts + other
        cdef double lost
        memcpy(numbers, self._capacities + part * self._part_size,
               self._part_size * sizeof(double))
        memcpy(self._fixed + other * n, self._fixed + part * n, n)
        memcpy(labels, self.labeling(part), n * sizeof(int32_t))
        lost = self._flow_of(other, variable, INFINITY)
        self._n_changes = 0
        # the lower bounds shrink by the cost of the change that leads to the new part
        for k in range(n):
            bounds[k] = max(bounds[k] - lost, 0.0)
        for k in range(self._n_queue):
            labels[self._queue[k]] = 1 - labels[self._queue[k]]
            bounds[self._queue[k]] = 0.0
        self._fix(part, variable)
        self._fix(other, variable)
        # The score is computed from the scores of labels and pairs, because capacities
        # have big numbers in place of -inf.
        memcpy(self._labels, labels, n * sizeof(int32_t))
        new.score = self._kernel._score(self._labels)
        new.next_score, new.stale = new.score, True
        self._parts[part].stale = True
        return new.score > -INFINITY

    cdef void _fix(self, Py_ssize_t part, Py_ssize_t variable) noexcept nogil:
        """Fix a variable to its label by terminal capacity."""
        cdef double* terminal = self._capacities + part * self._part_size + self._n_arcs
        self._fixed[part * self.n_variables + variable] = 1
        terminal[variable] += self._kernel._big if (
            self.labeling(part)[variable]) else -self._kernel._big

    # ---- flows ----

    cdef double _flow_of(self, Py_ssize_t part, Py_ssize_t variable,
                         double limit) except? -1 nogil:
        """Send flow between a variable and its label's terminal; return the amount.

        The result is the largest flow, or exceeds the limit. `_queue` has the variables
        that the last search reached.
        """
        cdef double* terminal = self._capacities + part * self._part_size + self._n_arcs
        cdef double total = 0.0, amount
        cdef Py_ssize_t end
        while total <= limit:
            end = self._find_path(part, variable)
            if end < 0:
                break
            amount = self._bottleneck(part, variable, end, fabs(terminal[end]))
            self._push(part, variable, end, amount)
            total += amount
        return total

    cdef Py_ssize_t _find_path(self, Py_ssize_t part,
                               Py_ssize_t start) noexcept nogil:
        """Find a shortest path from a variable to the terminal of its label.

        Returns the last variable of the path, or -1 if there is no path.
        """
        cdef const double* residual = self._capacities + part * self._part_size
        cdef const double* terminal = residual + self._n_arcs
        cdef const int32_t* labels = self.labeling(part)
        cdef int32_t label = labels[start]
        cdef double side = 1.0 if label else -1.0
        cdef Py_ssize_t place = 0, variable, arc, neighbor
        self._round += 1
        self._n_queue = 0
        self._reach(start)
        if side * terminal[start] > 0.0:
            return start
        while place < self._n_queue:
            variable = self._queue[place]
            place += 1
            for arc in range(self._kernel._first[variable],
                             self._kernel._first[variable + 1]):
                neighbor = self._kernel._arcs[arc].head
                # For label 0, flow to the sink uses the arc to the neighbor; for label
                # 1, flow from the source uses the arc from the neighbor.
                if self._seen_in[neighbor] == self._round or labels[neighbor] != label:
                    continue
                if residual[self._kernel._arcs[arc].sister if label else arc] <= 0.0:
                    continue
                self._reached_by[neighbor] = <int32_t> arc
                if side * terminal[neighbor] > 0.0:
                    return neighbor
                self._reach(neighbor)
        return -1

    cdef double _bottleneck(self, Py_ssize_t part, Py_ssize_t start, Py_ssize_t end,
                            double most) noexcept nogil:
        """Least residual capacity on the path of `_find_path`, at most `most`."""
        cdef const double* residual = self._capacities + part * self._part_size
        cdef bint label = self.labeling(part)[start]
        cdef Py_ssize_t arc, sister
        while end != start:
            arc = self._reached_by[end]
            sister = self._kernel._arcs[arc].sister
            most = min(most, residual[sister if label else arc])
            end = self._kernel._arcs[sister].head
        return most

    cdef int _push(self, Py_ssize_t part, Py_ssize_t start, Py_ssize_t end,
                   double amount) except -1 nogil:
        """Send flow along the path of `_find_path`, and record the changes."""
        cdef bint label = self.labeling(part)[start]
        cdef Py_ssize_t arc, sister
        self._add(part, self._n_arcs + end, -amount if label else amount)
        while end != start:
            arc = self._reached_by[end]
            sister = self._kernel._arcs[arc].sister
            end = self._kernel._arcs[sister].head
            self._add(part, arc, amount if label else -amount)
            self._add(part, sister, -amount if label else amount)
        return 0

    cdef int _add(self, Py_ssize_t part, Py_ssize_t place,
                  double amount) except -1 nogil:
        """Change a capacity, and record its old value."""
        cdef double* number = self._capacities + part * self._part_size + place
        reserve(<void**> &self._changes, &self._change_capacity, self._n_changes + 1,
                sizeof(Change))
        self._changes[self._n_changes] = Change(place, number[0])
        self._n_changes += 1
        number[0] += amount
        return 0

    cdef void _undo(self, Py_ssize_t part) noexcept nogil:
        """Restore the recorded old values of all changed capacities of a part."""
        cdef double* numbers = self._capacities + part * self._part_size
        while self._n_changes:
            self._n_changes -= 1
            numbers[self._changes[self._n_changes].place] = (
                self._changes[self._n_changes].before)
