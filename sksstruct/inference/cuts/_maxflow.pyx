"""Maximum flow between two terminals, and the minimum cut, by search trees.

A graph of variables has an arc of limited capacity in each direction along every edge,
and each variable an arc from the source or to the sink. The largest flow from source to
sink fills a cut: a set of arcs without which no path is left, the cheapest of its kind.

The method is that of Boykov and Kolmogorov (PAMI 26(9), 2004), Section 3, stage by
stage. A tree grows from each terminal over arcs that have capacity left (`_grow`).
Where the trees meet there is a path, which is filled (`_augment`). Variables whose arc
to the parent is full by then are orphans: each looks for another parent in its tree,
the nearest to the terminal, or falls out of the tree (`_adopt`). When nothing grows any
more, the source's tree is the smallest side of a minimum cut.

Flow goes from a parent to its children in the source's tree, and from the children to
their parent in the sink's; so what counts is the capacity of an arc along it in one
tree, and against it in the other. Capacities between a variable and the terminals are
one number, positive from the source and negative to the sink. Arithmetic is in double
precision; what fills an arc leaves exactly zero, so that zero needs no tolerance.
"""

import numpy as np

from libc.math cimport fabs
from libc.stdint cimport int32_t


cdef inline Py_ssize_t wrapped(Py_ssize_t place, Py_ssize_t size) noexcept nogil:
    """A place in a circular list, at most one turn too far."""
    return place - size if place >= size else place


# The two walks along a path are functions, which the compiler makes for each tree: as
# methods, which it cannot, they cost a tenth of an augmentation.


cdef inline double bottleneck(FlowTrees trees, Py_ssize_t variable, bint from_source,
                              double most) noexcept nogil:
    """The least capacity between a variable and its terminal, `most` at most."""
    cdef double left
    while trees._parent[variable] != TERMINAL:
        left = trees._left(trees._parent[variable], not from_source)
        most = left if left < most else most
        variable = trees._head[trees._parent[variable]]
    left = fabs(trees._terminal[variable])
    return left if left < most else most


cdef inline void push(FlowTrees trees, Py_ssize_t variable, bint from_source,
                      double amount) noexcept nogil:
    """Send flow between a variable and its terminal; full arcs make orphans."""
    # the change along the arcs to parents, against which the source's flow goes
    cdef double change = amount if from_source else -amount
    cdef Py_ssize_t arc
    while trees._parent[variable] != TERMINAL:
        arc = trees._parent[variable]
        trees._residual[arc] += change
        trees._residual[trees._sister[arc]] -= change
        if trees._left(arc, not from_source) <= 0.0:
            trees._orphan(variable)
        variable = trees._head[arc]
    trees._terminal[variable] -= change
    if trees._terminal[variable] == 0.0:
        trees._orphan(variable)


cdef class FlowTrees:
    """A graph with residual capacities and the two search trees.

    Parameters
    ----------
    edges : ndarray of shape (n_edges, 2), intp
        Pairs of variables, checked.
    n_variables : int
        Number of variables.
    """

    def __init__(self, edges, n_variables):
        self.edges = edges
        self.n_variables = self._n = n_variables
        self._m = len(self.edges)
        self._ends = self.edges
        n, m = self._n, self._m
        # Half the memory of 64-bit indices, through which the search walks at random.
        if 2 * m >= 2**31 or n >= 2**31:
            raise ValueError("the graph is too large for 32-bit indices")
        self._link_arcs()
        # One entry more than edges need, so that there is always a first one to point
        # at. What `_start` sets is left as it is.
        self._residual = np.zeros(2 * m + 1)
        self._terminal = np.zeros(n)
        self._flow = np.zeros(m + 1)
        self._parent = np.empty(n, dtype=np.int32)
        self._time = np.empty(n, dtype=np.int32)
        self._distance = np.empty(n, dtype=np.int32)
        self._side = np.empty(n, dtype=np.int8)
        self._active = np.empty(n, dtype=np.int32)
        self._is_active = np.empty(n, dtype=np.int8)
        self._orphans = np.empty(n, dtype=np.int32)

    def _link_arcs(self):
        """Number the arcs so that those that leave a variable follow each other."""
        cdef Py_ssize_t n = self._n, m = self._m, edge, first, second
        degree = np.bincount(self.edges.ravel(), minlength=n)
        self._first = np.concatenate([[0], np.cumsum(degree)]).astype(np.int32)
        self._head = np.empty(2 * m + 1, dtype=np.int32)
        self._sister = np.empty(2 * m + 1, dtype=np.int32)
        self._arc = np.empty(m + 1, dtype=np.int32)
        # Arcs are visited variable by variable, and so are stored that way.
        cdef int32_t[::1] place = np.array(self._first)
        for edge in range(m):
            first, second = self._ends[edge, 0], self._ends[edge, 1]
            self._head[place[first]] = <int32_t> second
            self._head[place[second]] = <int32_t> first
            self._sister[place[first]] = place[second]
            self._sister[place[second]] = place[first]
            self._arc[edge] = place[first]
            place[first] += 1
            place[second] += 1

    cdef void _activate(self, Py_ssize_t variable) noexcept nogil:
        """Let the trees grow from a variable later, if it is not in line already."""
        cdef Py_ssize_t place
        if not self._is_active[variable]:
            # No variable is listed twice, so that n places are enough.
            self._is_active[variable] = 1
            place = wrapped(self._active_first + self._active_count, self._n)
            self._active[place] = <int32_t> variable
            self._active_count += 1

    cdef void _orphan(self, Py_ssize_t variable) noexcept nogil:
        """Take a variable's parent away; `_adopt_all` finds it another."""
        # Orphans have no parent to lose: n places are enough here too.
        cdef Py_ssize_t place = wrapped(
            self._orphan_first + self._orphan_count, self._n)
        self._parent[variable] = ORPHAN
        self._orphans[place] = <int32_t> variable
        self._orphan_count += 1

    cdef void _root(self, Py_ssize_t variable) noexcept nogil:
        """Join a variable to the terminal that has capacity for it."""
        self._side[variable] = SOURCE if self._terminal[variable] > 0.0 else SINK
        self._parent[variable] = TERMINAL
        # a terminal is one step away, and no other way is shorter
        self._time[variable] = self._now
        self._distance[variable] = 1
        self._activate(variable)

    cdef void _start(self) noexcept nogil:
        """Trees of nothing but roots, which are all active; no orphans."""
        cdef Py_ssize_t variable
        self._now = 0
        self._active_first = self._active_count = 0
        self._orphan_first = self._orphan_count = 0
        for variable in range(self._n):
            self._is_active[variable] = 0
            self._parent[variable] = FREE
            self._time[variable] = 0
            if self._terminal[variable] != 0.0:
                self._root(variable)

    cdef void _force(self, Py_ssize_t variable, double capacity) noexcept nogil:
        """Add terminal capacity that changes a variable's side, and mend the trees."""
        cdef Py_ssize_t arc, neighbor
        # Ways to the terminals that were confirmed before may go through the variable.
        self._now += 1
        self._terminal[variable] += capacity
        # Its children belong to the tree that it leaves.
        for arc in range(self._first[variable], self._first[variable + 1]):
            neighbor = self._head[arc]
            if self._parent[neighbor] == self._sister[arc]:
                self._orphan(neighbor)
        # Before its children are adopted, so that none of them finds it in their tree.
        self._root(variable)
        self._adopt_all()

    cdef void _maximise(self) noexcept nogil:
        """Grow the trees and fill the paths between them until there are none."""
        cdef Py_ssize_t variable, joint
        while self._active_count:
            variable = self._active[self._active_first]
            joint = -1
            # Adoption may have freed a variable after it came into the list.
            if self._parent[variable] != FREE:
                joint = self._grow(variable)
            if joint < 0:
                self._active_first = wrapped(self._active_first + 1, self._n)
                self._active_count -= 1
                self._is_active[variable] = 0
                continue
            # The variable stays the first of the list: it may touch the other tree
            # in more places. Distances have to be confirmed after each augmentation.
            self._now += 1
            self._augment(joint)
            self._adopt_all()

    cdef Py_ssize_t _grow(self, Py_ssize_t variable) noexcept nogil:
        """Add a variable's free neighbors to its tree.

        Stops at an arc from the source's tree to the sink's and returns it, else -1.
        """
        cdef Py_ssize_t arc, neighbor
        cdef bint from_source = self._side[variable] == SOURCE
        cdef int32_t sister
        for arc in range(self._first[variable], self._first[variable + 1]):
            if self._left(arc, from_source) <= 0.0:
                continue
            sister = self._sister[arc]
            neighbor = self._head[arc]
            if self._parent[neighbor] == FREE:
                # Its distance is as old as that of the parent.
                self._side[neighbor] = self._side[variable]
                self._parent[neighbor] = sister
                self._time[neighbor] = self._time[variable]
                self._distance[neighbor] = self._distance[variable] + 1
                self._activate(neighbor)
            elif self._side[neighbor] != self._side[variable]:
                return arc if from_source else sister
            elif (self._time[neighbor] <= self._time[variable]
                  and self._distance[neighbor] > self._distance[variable]):
                # Here is a shorter way to the terminal, as far as is known. Short
                # paths have fewer arcs to fill, and leave fewer orphans.
                self._parent[neighbor] = sister
                self._time[neighbor] = self._time[variable]
                self._distance[neighbor] = self._distance[variable] + 1
        return -1

    cdef void _augment(self, Py_ssize_t joint) noexcept nogil:
        """Push as much as the path through an arc between the trees takes."""
        cdef Py_ssize_t tail = self._head[self._sister[joint]]
        cdef Py_ssize_t head = self._head[joint]
        # The least of the capacities, itself one of them: the difference is exactly
        # zero there, and the path is gone afterwards.
        cdef double amount = self._residual[joint]
        amount = bottleneck(self, tail, True, amount)
        amount = bottleneck(self, head, False, amount)
        self._residual[joint] -= amount
        self._residual[self._sister[joint]] += amount
        push(self, tail, True, amount)
        push(self, head, False, amount)

    cdef void _adopt_all(self) noexcept nogil:
        """Find parents for all orphans, those included that this makes."""
        cdef Py_ssize_t variable
        while self._orphan_count:
            variable = self._orphans[self._orphan_first]
            self._orphan_first = wrapped(self._orphan_first + 1, self._n)
            self._orphan_count -= 1
            self._adopt(variable)

    cdef void _adopt(self, Py_ssize_t variable) noexcept nogil:
        """Give an orphan the parent nearest to the terminal, or set it free."""
        cdef int32_t steps = 0
        cdef Py_ssize_t arc = self._nearest_parent(variable, &steps)
        if arc < 0:
            self._set_free(variable)
            return
        self._parent[variable] = <int32_t> arc
        self._time[variable] = self._now
        self._distance[variable] = steps + 1

    cdef Py_ssize_t _nearest_parent(self, Py_ssize_t orphan,
                                    int32_t* steps) noexcept nogil:
        """The arc to the parent with the fewest steps to the terminal, or -1."""
        cdef bint from_source = self._side[orphan] == SOURCE
        cdef Py_ssize_t arc, neighbor, best = -1
        cdef int32_t found
        for arc in range(self._first[orphan], self._first[orphan + 1]):
            if self._left(arc, not from_source) <= 0.0:
                continue
            # from here on the arc can carry flow between a parent and the orphan
            neighbor = self._head[arc]
            if not self._same_tree(orphan, neighbor):
                continue
            if self._parent[neighbor] == ORPHAN:
                continue
            # A neighbor that hangs from an orphan may be a descendant of this one:
            # as its parent it would close a cycle.
            found = self._steps_to_terminal(neighbor)
            if found < 0:
                continue
            if best < 0 or found < steps[0]:
                best = arc
                steps[0] = found
            # Later searches stop at what this one learned on its way.
            while self._time[neighbor] != self._now:
                self._time[neighbor] = self._now
                self._distance[neighbor] = found
                found -= 1
                neighbor = self._head[self._parent[neighbor]]
        return best

    cdef int32_t _steps_to_terminal(self, Py_ssize_t variable) noexcept nogil:
        """Steps to a variable's terminal, or -1 where the way ends at an orphan."""
        cdef int32_t steps = 0
        while True:
            # Confirmed since the last augmentation: only ways that end at an orphan
            # are changed by adoption.
            if self._time[variable] == self._now and self._parent[variable] != ORPHAN:
                return steps + self._distance[variable]
            steps += 1
            # Roots are confirmed by themselves; the others only once a way is found,
            # by the caller, which knows how long it is.
            if self._parent[variable] == TERMINAL:
                self._time[variable] = self._now
                self._distance[variable] = 1
                return steps
            if self._parent[variable] == ORPHAN:
                return -1
            variable = self._head[self._parent[variable]]

    cdef void _set_free(self, Py_ssize_t orphan) noexcept nogil:
        """Remove an orphan from its tree; its children become orphans themselves."""
        cdef bint from_source = self._side[orphan] == SOURCE
        cdef Py_ssize_t arc, neighbor
        for arc in range(self._first[orphan], self._first[orphan + 1]):
            neighbor = self._head[arc]
            if not self._same_tree(orphan, neighbor):
                continue
            # If this one stays in the tree, growth can reach the orphan from it.
            if self._left(arc, not from_source) > 0.0:
                self._activate(neighbor)
            if self._parent[neighbor] == self._sister[arc]:
                self._orphan(neighbor)
        self._parent[orphan] = FREE
