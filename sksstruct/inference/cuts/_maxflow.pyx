"""Maximum flow between two terminals, and the minimum cut, by search trees.

The graph has variables, which edges join by an arc of limited capacity in each
direction; each variable has an arc from the source or to the sink. The largest flow
from source to sink saturates a minimum cut: a set of arcs of least total capacity whose
removal leaves no path.

The method is that of Boykov and Kolmogorov (PAMI 26(9), 2004), Section 3, stage by
stage. A search tree grows from each terminal over arcs with residual capacity
(`_grow`). An arc between the trees closes a path from source to sink, along which flow
is pushed (`_augment`). A variable whose arc to its parent becomes saturated is an
orphan: the orphan gets another parent in its tree, the parent nearest to the terminal,
or else leaves the tree (`_adopt`). When no tree can grow, the source's tree is the
smallest source side of a minimum cut.

Flow passes from parents to children in the source's tree, and from children to parents
in the sink's tree: an arc's residual capacity counts along the arc in one tree, and
against it in the other. The capacity between a variable and the terminals is one
number, positive from the source and negative to the sink. Capacities are double
precision; the amount that saturates an arc is its exact residual capacity, so that
comparisons with zero need no tolerance.
"""

cimport cython
from libc.math cimport fabs
from libc.stdint cimport int32_t

from sksstruct.utils._pointers cimport const_intps, doubles, int32s

from sksstruct.inference.cuts._flow_arrays import flow_arrays


cdef inline Py_ssize_t wrapped(Py_ssize_t place, Py_ssize_t size) noexcept nogil:
    """Wrap an index, which is less than twice the size, into a circular queue."""
    return place - size if place >= size else place


# `bottleneck` and `push` are functions, which the compiler specializes for each tree.
# As methods, which are not specialized, they would make augmentations a tenth slower.


cdef inline double bottleneck(FlowTrees trees, Py_ssize_t variable, bint from_source,
                              double most) noexcept nogil:
    """Least residual capacity on a variable's path to its terminal, at most `most`."""
    cdef double capacity
    while trees._nodes[variable].parent != TERMINAL:
        capacity = trees._residual_of(trees._nodes[variable].parent, not from_source)
        most = capacity if capacity < most else most
        variable = trees._arcs[trees._nodes[variable].parent].head
    capacity = fabs(trees._terminal[variable])
    return capacity if capacity < most else most


cdef inline void push(FlowTrees trees, Py_ssize_t variable, bint from_source,
                      double amount) noexcept nogil:
    """Send flow between a variable and its terminal; saturated arcs make orphans."""
    # change of the residual capacity from child to parent: in the source's tree, flow
    # runs from parent to child
    cdef double change = amount if from_source else -amount
    cdef Py_ssize_t arc
    while trees._nodes[variable].parent != TERMINAL:
        arc = trees._nodes[variable].parent
        trees._residual[arc] += change
        trees._residual[trees._arcs[arc].sister] -= change
        if trees._residual_of(arc, not from_source) <= 0.0:
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
        """Number the arcs so that the arcs of a variable are consecutive."""
        cdef Py_ssize_t edge, variable, first, second
        cdef int32_t out, back
        # `place` is shifted by one: while arcs are numbered, place[v] is the index of
        # v's next arc, and in the end the index of the first arc of variable v + 1.
        cdef int32_t* place = self._first + 1
        for edge in range(self._m):
            place[self._ends[2 * edge + 0] + 1] += 1
            place[self._ends[2 * edge + 1] + 1] += 1
        for variable in range(self._n):
            place[variable + 1] += place[variable]
        # arcs are visited variable by variable, and are stored in this order
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
        """Queue a variable for the growth of its tree, unless it is queued already."""
        cdef Py_ssize_t place
        if not self._nodes[variable].is_active:
            # no variable is queued twice: a queue of n entries suffices
            self._nodes[variable].is_active = 1
            place = wrapped(self._active_first + self._active_count, self._n)
            self._active[place] = <int32_t> variable
            self._active_count += 1

    @cython.final
    cdef void _orphan(self, Py_ssize_t variable) noexcept nogil:
        """Make a variable an orphan; `_adopt_all` finds another parent."""
        # an orphan cannot become an orphan again: a queue of n entries suffices
        cdef Py_ssize_t place = wrapped(
            self._orphan_first + self._orphan_count, self._n)
        self._nodes[variable].parent = ORPHAN
        self._orphans[place] = <int32_t> variable
        self._orphan_count += 1

    @cython.final
    cdef void _attach_to_terminal(self, Py_ssize_t variable) noexcept nogil:
        """Attach a variable to the terminal with which it shares residual capacity."""
        self._nodes[variable].side = SOURCE if self._terminal[variable] > 0.0 else SINK
        self._nodes[variable].parent = TERMINAL
        # the terminal is one step away; no other path is shorter
        self._nodes[variable].time = self._now
        self._nodes[variable].distance = 1
        self._activate(variable)

    @cython.final
    cdef void _start(self) noexcept nogil:
        """Saturate shortest paths; begin the trees with the variables at terminals."""
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
                self._attach_to_terminal(variable)

    @cython.final
    cdef void _fill_shortest(self) noexcept nogil:
        """Saturate all paths from the source over a single arc to the sink.

        On most graphs most of the flow uses these paths, which need no search trees.
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
                # the amount equals one of three capacities, which becomes exactly zero
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
        """Add terminal capacity that changes a variable's side; repair the trees."""
        cdef Py_ssize_t arc, neighbor
        # confirmed distances become invalid, as paths may contain the variable
        self._now += 1
        self._terminal[variable] += capacity
        # the variable leaves its tree; its children stay in the tree as orphans
        for arc in range(self._first[variable], self._first[variable + 1]):
            neighbor = self._arcs[arc].head
            if self._nodes[neighbor].parent == self._arcs[arc].sister:
                self._orphan(neighbor)
        # The variable changes trees before `_adopt_all` runs, so that no former child
        # finds a path through the variable to the terminal of the child's tree.
        self._attach_to_terminal(variable)
        self._adopt_all()

    @cython.final
    cdef void _maximize(self) noexcept nogil:
        """Grow the trees and saturate paths between them until no path is left."""
        cdef Py_ssize_t variable, joint
        while self._active_count:
            variable = self._active[self._active_first]
            joint = -1
            # adoption may have freed the variable after it was queued
            if self._nodes[variable].parent != FREE:
                joint = self._grow(variable)
            if joint < 0:
                self._active_first = wrapped(self._active_first + 1, self._n)
                self._active_count -= 1
                self._nodes[variable].is_active = 0
                continue
            # The variable stays first in the queue, as more of its arcs may lead to the
            # other tree. Each augmentation makes confirmed distances invalid.
            self._now += 1
            self._augment(joint)
            self._adopt_all()

    @cython.final
    cdef Py_ssize_t _grow(self, Py_ssize_t variable) noexcept nogil:
        """Add a variable's free neighbors to its tree.

        Stops at an arc between the trees, and returns the arc in the direction from the
        source's tree to the sink's; otherwise returns -1.
        """
        cdef FlowNode* node = &self._nodes[variable]
        cdef FlowNode* neighbor
        cdef Py_ssize_t arc, sister
        cdef bint from_source = node.side == SOURCE, in_tree
        for arc in range(self._first[variable], self._first[variable + 1]):
            neighbor = &self._nodes[self._arcs[arc].head]
            in_tree = neighbor.parent != FREE and neighbor.side == node.side
            # Most neighbors are in the tree, and their distance to the terminal is not
            # larger than the variable's: the residual capacities of their arcs need not
            # be read.
            if in_tree and (neighbor.time > node.time
                            or neighbor.distance <= node.distance):
                continue
            sister = self._arcs[arc].sister
            if self._residual_of(arc, from_source) <= 0.0:
                continue
            if not in_tree and neighbor.parent != FREE:
                return arc if from_source else sister
            # A free neighbor joins the tree. A neighbor in the tree gets a shorter path
            # to the terminal, by the distances known so far: short paths have fewer
            # arcs to saturate, and leave fewer orphans. The new distance is as old as
            # the parent's.
            neighbor.parent = <int32_t> sister
            neighbor.time = node.time
            neighbor.distance = node.distance + 1
            if not in_tree:
                neighbor.side = node.side
                self._activate(self._arcs[arc].head)
        return -1

    @cython.final
    cdef void _augment(self, Py_ssize_t joint) noexcept nogil:
        """Push as much flow as possible along the path through an arc between trees."""
        cdef Py_ssize_t tail = self._arcs[self._arcs[joint].sister].head
        cdef Py_ssize_t head = self._arcs[joint].head
        # The amount equals the least residual capacity of the path, which becomes
        # exactly zero: the path is saturated.
        cdef double amount = self._residual[joint]
        amount = bottleneck(self, tail, True, amount)
        amount = bottleneck(self, head, False, amount)
        self._residual[joint] -= amount
        self._residual[self._arcs[joint].sister] += amount
        push(self, tail, True, amount)
        push(self, head, False, amount)

    @cython.final
    cdef void _adopt_all(self) noexcept nogil:
        """Find parents for all orphans, including orphans that adoption makes."""
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
        """Return the arc to the possible parent that is nearest to the terminal, or -1.

        steps becomes the distance of this parent to the terminal.
        """
        cdef bint from_source = self._nodes[orphan].side == SOURCE
        cdef Py_ssize_t arc, neighbor, best = -1
        cdef int32_t distance
        for arc in range(self._first[orphan], self._first[orphan + 1]):
            if self._residual_of(arc, not from_source) <= 0.0:
                continue
            # the arc has capacity for flow between this parent and the orphan
            neighbor = self._arcs[arc].head
            if not self._same_tree(orphan, neighbor):
                continue
            if self._nodes[neighbor].parent == ORPHAN:
                continue
            # If the neighbor's path ends at an orphan, the neighbor may be a descendant
            # of this orphan, and would close a cycle as its parent.
            distance = self._steps_to_terminal(neighbor)
            if distance < 0:
                continue
            if best < 0 or distance < steps[0]:
                best = arc
                steps[0] = distance
            # store the confirmed distances along the path, where later searches stop
            while self._nodes[neighbor].time != self._now:
                self._nodes[neighbor].time = self._now
                self._nodes[neighbor].distance = distance
                distance -= 1
                neighbor = self._arcs[self._nodes[neighbor].parent].head
        return best

    @cython.final
    cdef int32_t _steps_to_terminal(self, Py_ssize_t variable) noexcept nogil:
        """Steps to a variable's terminal, or -1 if the path ends at an orphan."""
        cdef int32_t steps = 0
        while True:
            # The distance was confirmed since the last augmentation. Adoption changes
            # only paths that end at an orphan.
            if (self._nodes[variable].time == self._now
                    and self._nodes[variable].parent != ORPHAN):
                return steps + self._nodes[variable].distance
            steps += 1
            # A root's distance is confirmed at once. The caller, which gets the length
            # of the path, confirms all other distances on a path that ends at a root.
            if self._nodes[variable].parent == TERMINAL:
                self._nodes[variable].time = self._now
                self._nodes[variable].distance = 1
                return steps
            if self._nodes[variable].parent == ORPHAN:
                return -1
            variable = self._arcs[self._nodes[variable].parent].head

    @cython.final
    cdef void _set_free(self, Py_ssize_t orphan) noexcept nogil:
        """Remove an orphan from its tree; the children of the orphan become orphans."""
        cdef bint from_source = self._nodes[orphan].side == SOURCE
        cdef Py_ssize_t arc, neighbor
        for arc in range(self._first[orphan], self._first[orphan + 1]):
            neighbor = self._arcs[arc].head
            if not self._same_tree(orphan, neighbor):
                continue
            # if the neighbor stays in the tree, the tree can grow to the orphan again
            if self._residual_of(arc, not from_source) > 0.0:
                self._activate(neighbor)
            if self._nodes[neighbor].parent == self._arcs[arc].sister:
                self._orphan(neighbor)
        self._nodes[orphan].parent = FREE
