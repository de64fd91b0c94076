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

cimport cython
from libc.math cimport fabs
from libc.stdint cimport int32_t

from sksstruct.utils._pointers cimport const_intps, doubles, int32s

from sksstruct.inference.cuts._flow_arrays import flow_arrays


cdef inline Py_ssize_t wrapped(Py_ssize_t place, Py_ssize_t size) noexcept nogil:
    """Wrap a place in a circular list, which is at most one turn too far."""
    return place - size if place >= size else place


# The two walks along a path are functions, which the compiler makes for each tree: as
# methods, which it cannot, they cost a tenth of an augmentation.


cdef inline double bottleneck(FlowTrees trees, Py_ssize_t variable, bint from_source,
                              double most) noexcept nogil:
    """The least capacity between a variable and its terminal, `most` at most."""
    cdef double left
    while trees._nodes[variable].parent != TERMINAL:
        left = trees._left(trees._nodes[variable].parent, not from_source)
        most = left if left < most else most
        variable = trees._arcs[trees._nodes[variable].parent].head
    left = fabs(trees._terminal[variable])
    return left if left < most else most


cdef inline void push(FlowTrees trees, Py_ssize_t variable, bint from_source,
                      double amount) noexcept nogil:
    """Send flow between a variable and its terminal; full arcs make orphans."""
    # the change along the arcs to parents, against which the source's flow goes
    cdef double change = amount if from_source else -amount
    cdef Py_ssize_t arc
    while trees._nodes[variable].parent != TERMINAL:
        arc = trees._nodes[variable].parent
        trees._residual[arc] += change
        trees._residual[trees._arcs[arc].sister] -= change
        if trees._left(arc, not from_source) <= 0.0:
            trees._orphan(variable)
        variable = trees._arcs[arc].head
    trees._terminal[variable] -= change
    if trees._terminal[variable] == 0.0:
        trees._orphan(variable)


cdef class FlowTrees:
    """A graph with residual capacities and the two search trees.

    Parameters
    ----------
    edges : ndarray of shape (n_edges, 2), intp
        Pairs of variables, already checked.
    n_variables : int
        Number of variables.
    """

    def __init__(self, edges, n_variables):
        self.edges, self.n_variables = edges, n_variables
        self._n, self._m = n_variables, len(edges)
        self._owned = arrays = flow_arrays(self._m, self._n)
        self._ends = const_intps(edges)
        self._first, self._arc_of = int32s(arrays[0]), int32s(arrays[1])
        self._arcs = <FlowArc*> int32s(arrays[2])
        self._nodes = <FlowNode*> int32s(arrays[3])
        self._active, self._orphans = int32s(arrays[4]), int32s(arrays[5])
        self._residual, self._terminal = doubles(arrays[6]), doubles(arrays[7])
        self._flow = doubles(arrays[8])
        with nogil:
            self._link_arcs()

    @cython.final
    cdef void _link_arcs(self) noexcept nogil:
        """Number the arcs so that those that leave a variable follow each other."""
        cdef Py_ssize_t edge, variable, first, second
        cdef int32_t out, back
        # One place on: a variable's entry is where its next arc goes while arcs are
        # numbered, and that is where the arcs of the next one begin in the end.
        cdef int32_t* place = self._first + 1
        for edge in range(self._m):
            place[self._ends[2 * edge + 0] + 1] += 1
            place[self._ends[2 * edge + 1] + 1] += 1
        for variable in range(self._n):
            place[variable + 1] += place[variable]
        # Arcs are visited variable by variable, and so are stored that way.
        for edge in range(self._m):
            first, second = self._ends[2 * edge + 0], self._ends[2 * edge + 1]
            out, back = place[first], place[second]
            place[first] += 1
            place[second] += 1
            self._arcs[out] = FlowArc(<int32_t> second, back)
            self._arcs[back] = FlowArc(<int32_t> first, out)
            self._arc_of[edge] = out

    @cython.final
    cdef void _activate(self, Py_ssize_t variable) noexcept nogil:
        """Queue a variable for the growth of the trees, unless it is in the queue."""
        cdef Py_ssize_t place
        if not self._nodes[variable].is_active:
            # No variable is listed twice, so that n places are enough.
            self._nodes[variable].is_active = 1
            place = wrapped(self._active_first + self._active_count, self._n)
            self._active[place] = <int32_t> variable
            self._active_count += 1

    @cython.final
    cdef void _orphan(self, Py_ssize_t variable) noexcept nogil:
        """Take a variable's parent away; `_adopt_all` finds it another."""
        # Orphans have no parent to lose: n places are enough here too.
        cdef Py_ssize_t place = wrapped(
            self._orphan_first + self._orphan_count, self._n)
        self._nodes[variable].parent = ORPHAN
        self._orphans[place] = <int32_t> variable
        self._orphan_count += 1

    @cython.final
    cdef void _root(self, Py_ssize_t variable) noexcept nogil:
        """Join a variable to the terminal that has capacity for it."""
        self._nodes[variable].side = SOURCE if self._terminal[variable] > 0.0 else SINK
        self._nodes[variable].parent = TERMINAL
        # a terminal is one step away, and no other way is shorter
        self._nodes[variable].time = self._now
        self._nodes[variable].distance = 1
        self._activate(variable)

    @cython.final
    cdef void _start(self) noexcept nogil:
        """Reset the trees to their roots, which are all active; no orphans."""
        cdef Py_ssize_t variable
        self._fill_shortest()
        self._now = 0
        self._active_first = self._active_count = 0
        self._orphan_first = self._orphan_count = 0
        for variable in range(self._n):
            self._nodes[variable].is_active = 0
            self._nodes[variable].parent = FREE
            self._nodes[variable].time = 0
            if self._terminal[variable] != 0.0:
                self._root(variable)

    @cython.final
    cdef void _fill_shortest(self) noexcept nogil:
        """Fill the paths from the source over a single arc to the sink.

        On most graphs they carry most of the flow, and need no trees.
        """
        cdef Py_ssize_t variable, arc, neighbor
        cdef double supply, amount
        for variable in range(self._n):
            supply = self._terminal[variable]
            if supply <= 0.0:
                continue
            for arc in range(self._first[variable], self._first[variable + 1]):
                neighbor = self._arcs[arc].head
                amount = -self._terminal[neighbor]
                if amount <= 0.0:
                    continue
                # One of the three is used up: the difference is exactly zero there.
                amount = supply if supply < amount else amount
                if self._residual[arc] < amount:
                    amount = self._residual[arc]
                self._residual[arc] -= amount
                self._residual[self._arcs[arc].sister] += amount
                self._terminal[neighbor] += amount
                supply -= amount
                if supply == 0.0:
                    break
            self._terminal[variable] = supply

    @cython.final
    cdef void _force(self, Py_ssize_t variable, double capacity) noexcept nogil:
        """Add terminal capacity that changes a variable's side, and mend the trees."""
        cdef Py_ssize_t arc, neighbor
        # Ways to the terminals that were confirmed before may go through the variable.
        self._now += 1
        self._terminal[variable] += capacity
        # Its children belong to the tree that it leaves.
        for arc in range(self._first[variable], self._first[variable + 1]):
            neighbor = self._arcs[arc].head
            if self._nodes[neighbor].parent == self._arcs[arc].sister:
                self._orphan(neighbor)
        # Before its children are adopted, so that none of them finds it in their tree.
        self._root(variable)
        self._adopt_all()

    @cython.final
    cdef void _maximize(self) noexcept nogil:
        """Grow the trees and fill the paths between them until there are none."""
        cdef Py_ssize_t variable, joint
        while self._active_count:
            variable = self._active[self._active_first]
            joint = -1
            # Adoption may have freed a variable after it came into the list.
            if self._nodes[variable].parent != FREE:
                joint = self._grow(variable)
            if joint < 0:
                self._active_first = wrapped(self._active_first + 1, self._n)
                self._active_count -= 1
                self._nodes[variable].is_active = 0
                continue
            # The variable stays the first of the list: it may touch the other tree
            # in more places. Distances have to be confirmed after each augmentation.
            self._now += 1
            self._augment(joint)
            self._adopt_all()

    @cython.final
    cdef Py_ssize_t _grow(self, Py_ssize_t variable) noexcept nogil:
        """Add a variable's free neighbors to its tree.

        Stops at an arc from the source's tree to the sink's and returns it, else -1.
        """
        cdef FlowNode* node = &self._nodes[variable]
        cdef FlowNode* neighbor
        cdef Py_ssize_t arc, sister
        cdef bint from_source = node.side == SOURCE, in_tree
        for arc in range(self._first[variable], self._first[variable + 1]):
            neighbor = &self._nodes[self._arcs[arc].head]
            in_tree = neighbor.parent != FREE and neighbor.side == node.side
            # Most neighbors are in the tree, on ways that are as short: only the
            # others are worth the look at the capacity.
            if in_tree and (neighbor.time > node.time
                            or neighbor.distance <= node.distance):
                continue
            sister = self._arcs[arc].sister
            if self._left(arc, from_source) <= 0.0:
                continue
            if not in_tree and neighbor.parent != FREE:
                return arc if from_source else sister
            # A free neighbor joins the tree; another one has a shorter way to the
            # terminal here, as far as is known. Short paths have fewer arcs to fill,
            # and leave fewer orphans. The distance is as old as that of the parent.
            neighbor.parent = <int32_t> sister
            neighbor.time = node.time
            neighbor.distance = node.distance + 1
            if not in_tree:
                neighbor.side = node.side
                self._activate(self._arcs[arc].head)
        return -1

    @cython.final
    cdef void _augment(self, Py_ssize_t joint) noexcept nogil:
        """Push as much as the path through an arc between the trees takes."""
        cdef Py_ssize_t tail = self._arcs[self._arcs[joint].sister].head
        cdef Py_ssize_t head = self._arcs[joint].head
        # The least of the capacities, itself one of them: the difference is exactly
        # zero there, and the path is gone afterwards.
        cdef double amount = self._residual[joint]
        amount = bottleneck(self, tail, True, amount)
        amount = bottleneck(self, head, False, amount)
        self._residual[joint] -= amount
        self._residual[self._arcs[joint].sister] += amount
        push(self, tail, True, amount)
        push(self, head, False, amount)

    @cython.final
    cdef void _adopt_all(self) noexcept nogil:
        """Find parents for all orphans, those included that this makes."""
        cdef Py_ssize_t variable
        while self._orphan_count:
            variable = self._orphans[self._orphan_first]
            self._orphan_first = wrapped(self._orphan_first + 1, self._n)
            self._orphan_count -= 1
            self._adopt(variable)

    @cython.final
    cdef void _adopt(self, Py_ssize_t variable) noexcept nogil:
        """Give an orphan the parent nearest to the terminal, or set it free."""
        cdef int32_t steps = 0
        cdef Py_ssize_t arc = self._nearest_parent(variable, &steps)
        if arc < 0:
            self._set_free(variable)
            return
        self._nodes[variable].parent = <int32_t> arc
        self._nodes[variable].time = self._now
        self._nodes[variable].distance = steps + 1

    @cython.final
    cdef Py_ssize_t _nearest_parent(self, Py_ssize_t orphan,
                                    int32_t* steps) noexcept nogil:
        """The arc to the parent with the fewest steps to the terminal, or -1."""
        cdef bint from_source = self._nodes[orphan].side == SOURCE
        cdef Py_ssize_t arc, neighbor, best = -1
        cdef int32_t found
        for arc in range(self._first[orphan], self._first[orphan + 1]):
            if self._left(arc, not from_source) <= 0.0:
                continue
            # from here on the arc can carry flow between a parent and the orphan
            neighbor = self._arcs[arc].head
            if not self._same_tree(orphan, neighbor):
                continue
            if self._nodes[neighbor].parent == ORPHAN:
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
            while self._nodes[neighbor].time != self._now:
                self._nodes[neighbor].time = self._now
                self._nodes[neighbor].distance = found
                found -= 1
                neighbor = self._arcs[self._nodes[neighbor].parent].head
        return best

    @cython.final
    cdef int32_t _steps_to_terminal(self, Py_ssize_t variable) noexcept nogil:
        """Steps to a variable's terminal, or -1 where the way ends at an orphan."""
        cdef int32_t steps = 0
        while True:
            # Confirmed since the last augmentation: only ways that end at an orphan
            # are changed by adoption.
            if (self._nodes[variable].time == self._now
                    and self._nodes[variable].parent != ORPHAN):
                return steps + self._nodes[variable].distance
            steps += 1
            # Roots are confirmed by themselves; the others only once a way is found,
            # by the caller, which knows how long it is.
            if self._nodes[variable].parent == TERMINAL:
                self._nodes[variable].time = self._now
                self._nodes[variable].distance = 1
                return steps
            if self._nodes[variable].parent == ORPHAN:
                return -1
            variable = self._arcs[self._nodes[variable].parent].head

    @cython.final
    cdef void _set_free(self, Py_ssize_t orphan) noexcept nogil:
        """Remove an orphan from its tree; its children become orphans themselves."""
        cdef bint from_source = self._nodes[orphan].side == SOURCE
        cdef Py_ssize_t arc, neighbor
        for arc in range(self._first[orphan], self._first[orphan + 1]):
            neighbor = self._arcs[arc].head
            if not self._same_tree(orphan, neighbor):
                continue
            # If this one stays in the tree, growth can reach the orphan from it.
            if self._left(arc, not from_source) > 0.0:
                self._activate(neighbor)
            if self._nodes[neighbor].parent == self._arcs[arc].sister:
                self._orphan(neighbor)
        self._nodes[orphan].parent = FREE
