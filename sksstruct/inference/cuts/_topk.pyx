"""The k best labelings of binary variables whose pairs favor agreement.

A part of all labelings (see `_best_first`) fixes the labels of some variables, and has
the residual capacities of a maximum flow. Its best labeling with another label of a
variable loses the largest flow that the residual graph still carries: from the variable
to the sink if its label is 0, from the source to the variable if it is 1 (Kohli and
Torr, 2008). The variables that the last search reaches change their labels as well.

The second best labeling changes the variable with the least flow. A flow that exceeds
what others lose is given up, and those that are known to be larger, from a larger part,
are not searched for at all: few variables are left, and for these a few paths.

All flow between a variable and its own terminal stays among variables of one label: no
residual arc leaves the source's side of a minimum cut. So do the searches.
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
    # what was in the arrays of capacities before
    Py_ssize_t place
    double before


cdef class CutSearch(BestFirst):
    """The k best labelings of the scores that a solver has solved.

    Parameters
    ----------
    kernel : CutKernel
        The graph with its flow, which nobody else uses meanwhile.
    labels : ndarray of shape (3, n_variables), int32
        Scratch: a labeling, and two lists of the search for paths.
    seen : ndarray of shape (n_variables,), intp
        Scratch: zeros.
    """

    cdef CutKernel _kernel
    cdef object _owned
    cdef int32_t* _labels
    # Of each part: capacities left of arcs, of terminals, and bounds of what changing
    # each variable loses; and whether variables are fixed.
    cdef Py_ssize_t _n_arcs, _n_numbers
    cdef double* _numbers
    cdef unsigned char* _fixed
    cdef Py_ssize_t _number_capacity, _fixed_capacity
    # Of the search for paths: when variables were reached, by which arc, and in which
    # order; and what has changed since.
    cdef Py_ssize_t* _seen
    cdef int32_t* _via
    cdef int32_t* _queue
    cdef Py_ssize_t _now, _n_queue
    cdef Change* _changes
    cdef Py_ssize_t _n_changes, _change_capacity

    def __cinit__(self, CutKernel kernel, labels, seen):
        cdef Py_ssize_t n = kernel._n
        self._kernel, self.n_variables = kernel, n
        self._n_arcs = 2 * kernel._m
        self._n_numbers = self._n_arcs + 2 * n
        self._owned = labels, seen
        self._labels, self._seen = int32s(labels), intps(seen)
        self._via, self._queue = self._labels + n, self._labels + 2 * n

    def __dealloc__(self):
        free(self._numbers)
        free(self._fixed)
        free(self._changes)

    cdef int reserve_part(self, Py_ssize_t part) except -1 nogil:
        BestFirst.reserve_part(self, part)
        reserve(<void**> &self._numbers, &self._number_capacity,
                (part + 1) * self._n_numbers, sizeof(double))
        reserve(<void**> &self._fixed, &self._fixed_capacity,
                (part + 1) * self.n_variables, 1)
        return 0

    # ---- parts ----

    cdef bint start(self) except -1 nogil:
        cdef Py_ssize_t n = self.n_variables
        cdef Part* own = self._parts
        self._kernel._read_labels(self._labels)
        own.score = self._kernel._score(self._labels)
        memcpy(self._numbers, self._kernel._residual,
               self._n_arcs * sizeof(double))
        memcpy(self._numbers + self._n_arcs, self._kernel._terminal,
               n * sizeof(double))
        memset(self._numbers + self._n_arcs + n, 0, n * sizeof(double))
        memset(self._fixed, 0, n)
        memcpy(self.labeling(0), self._labels, n * sizeof(int32_t))
        own.next_score, own.stale = own.score, True
        return own.score > -INFINITY

    cdef int refresh(self, Py_ssize_t part, Py_ssize_t wanted) except -1 nogil:
        cdef double[MOST_WANTED] least
        cdef Py_ssize_t variable, k, count = min(wanted, MOST_WANTED)
        cdef Part* own = self._parts + part
        cdef const unsigned char* fixed = self._fixed + part * self.n_variables
        cdef double* bounds = (
            self._numbers + (part + 1) * self._n_numbers - self.n_variables)
        cdef double flow, best, limit
        # No two labelings differ by as much: what loses more is forbidden.
        best = self._kernel._big / 2.0
        for k in range(count):
            least[k] = best
        # These labelings are known, and the second best is no worse.
        for variable in range(self.n_variables):
            if not fixed[variable]:
                insert_least(count, least, self._cut_of(part, variable))
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
                    best, own.variable = flow, variable
        own.stale = False
        own.next_score = -INFINITY
        if best < self._kernel._big / 2.0:
            own.next_score = own.score - best
        return 0

    cdef void _rule_out(self, Py_ssize_t part, double limit,
                        double* bounds) noexcept nogil:
        """Raise the bounds of variables that are tied to others above a limit.

        A cut either takes the arc to a neighbor, or goes around the neighbor as well:
        if both cost more, so does the cut.
        """
        cdef const double* residual = self._numbers + part * self._n_numbers
        cdef const double* terminal = residual + self._n_arcs
        cdef const int32_t* labels = self.labeling(part)
        cdef double more = nextafter(limit, INFINITY)
        cdef Py_ssize_t place = 0, variable, arc, neighbor
        self._now += 1
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
                # away from the terminal, the other way round than flow
                if (self._seen[neighbor] != self._now
                        and labels[neighbor] == labels[variable]
                        and residual[arc if labels[variable] else (
                            self._kernel._arcs[arc].sister)] > limit):
                    self._reach(neighbor)

    cdef inline void _reach(self, Py_ssize_t variable) noexcept nogil:
        """Put a variable in line."""
        self._seen[variable] = self._now
        self._queue[self._n_queue] = <int32_t> variable
        self._n_queue += 1

    cdef double _cut_of(self, Py_ssize_t part, Py_ssize_t variable) noexcept nogil:
        """What is lost if a variable changes its label alone."""
        cdef const double* residual = self._numbers + part * self._n_numbers
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
        cdef double* numbers = self._numbers + other * self._n_numbers
        cdef double* bounds = numbers + self._n_arcs + n
        cdef int32_t* labels = self.labeling(other)
        cdef Part* new = self._parts + other
        cdef double lost
        memcpy(numbers, self._numbers + part * self._n_numbers,
               self._n_numbers * sizeof(double))
        memcpy(self._fixed + other * n, self._fixed + part * n, n)
        memcpy(labels, self.labeling(part), n * sizeof(int32_t))
        lost = self._flow_of(other, variable, INFINITY)
        self._n_changes = 0
        # what loses so much here lost more before
        for k in range(n):
            bounds[k] = max(bounds[k] - lost, 0.0)
        for k in range(self._n_queue):
            labels[self._queue[k]] = 1 - labels[self._queue[k]]
            bounds[self._queue[k]] = 0.0
        self._fix(part, variable)
        self._fix(other, variable)
        # from the scores, as capacities have big numbers in the place of -inf
        memcpy(self._labels, labels, n * sizeof(int32_t))
        new.score = self._kernel._score(self._labels)
        new.next_score, new.stale = new.score, True
        self._parts[part].stale = True
        return new.score > -INFINITY

    cdef void _fix(self, Py_ssize_t part, Py_ssize_t variable) noexcept nogil:
        """Fix a variable to its label."""
        cdef double* terminal = self._numbers + part * self._n_numbers + self._n_arcs
        self._fixed[part * self.n_variables + variable] = 1
        terminal[variable] += self._kernel._big if (
            self.labeling(part)[variable]) else -self._kernel._big

    # ---- flows ----

    cdef double _flow_of(self, Py_ssize_t part, Py_ssize_t variable,
                         double limit) except? -1 nogil:
        """Send flow between a variable and the terminal of its label.

        It is the largest flow, or more than the limit. The variables reached by the
        last search are in `_queue`.
        """
        cdef double* terminal = self._numbers + part * self._n_numbers + self._n_arcs
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
        """Find a shortest path to a terminal; returns its last variable, or -1."""
        cdef const double* residual = self._numbers + part * self._n_numbers
        cdef const double* terminal = residual + self._n_arcs
        cdef const int32_t* labels = self.labeling(part)
        cdef int32_t label = labels[start]
        cdef double side = 1.0 if label else -1.0
        cdef Py_ssize_t place = 0, variable, arc, neighbor
        self._now += 1
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
                # to the sink along arcs, and from the source against them
                if self._seen[neighbor] == self._now or labels[neighbor] != label:
                    continue
                if residual[self._kernel._arcs[arc].sister if label else arc] <= 0.0:
                    continue
                self._via[neighbor] = <int32_t> arc
                if side * terminal[neighbor] > 0.0:
                    return neighbor
                self._reach(neighbor)
        return -1

    cdef double _bottleneck(self, Py_ssize_t part, Py_ssize_t start, Py_ssize_t end,
                            double most) noexcept nogil:
        """The least capacity on the path that was found, `most` at most."""
        cdef const double* residual = self._numbers + part * self._n_numbers
        cdef bint label = self.labeling(part)[start]
        cdef Py_ssize_t arc, sister
        while end != start:
            arc = self._via[end]
            sister = self._kernel._arcs[arc].sister
            most = min(most, residual[sister if label else arc])
            end = self._kernel._arcs[sister].head
        return most

    cdef int _push(self, Py_ssize_t part, Py_ssize_t start, Py_ssize_t end,
                   double amount) except -1 nogil:
        """Send flow along the path that was found."""
        cdef bint label = self.labeling(part)[start]
        cdef Py_ssize_t arc, sister
        self._add(part, self._n_arcs + end, -amount if label else amount)
        while end != start:
            arc = self._via[end]
            sister = self._kernel._arcs[arc].sister
            end = self._kernel._arcs[sister].head
            self._add(part, arc, amount if label else -amount)
            self._add(part, sister, -amount if label else amount)
        return 0

    cdef int _add(self, Py_ssize_t part, Py_ssize_t place,
                  double amount) except -1 nogil:
        """Change a capacity, and note what it was."""
        cdef double* number = self._numbers + part * self._n_numbers + place
        reserve(<void**> &self._changes, &self._change_capacity, self._n_changes + 1,
                sizeof(Change))
        self._changes[self._n_changes] = Change(place, number[0])
        self._n_changes += 1
        number[0] += amount
        return 0

    cdef void _undo(self, Py_ssize_t part) noexcept nogil:
        """Restore capacities as they were, to the last digit."""
        cdef double* numbers = self._numbers + part * self._n_numbers
        while self._n_changes:
            self._n_changes -= 1
            numbers[self._changes[self._n_changes].place] = (
                self._changes[self._n_changes].before)
