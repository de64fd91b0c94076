"""Order of messages on a tree or forest.

The last variable of each tree is its root. The roots are children of one more variable,
the root of roots, number n_variables, which has one state of score 0: a forest becomes
one tree.

Leaves are removed one after the other. Lists of neighbors are not needed: each variable
stores the number of its remaining neighbors and their exclusive or, which for a leaf is
the only neighbor. If edges remain, they contain a cycle; the edge that closes the first
cycle is found by union-find with path halving (Tarjan and van Leeuwen, 1984).
"""

cimport cython
from libc.stdint cimport int32_t

from sksstruct.utils._pointers cimport const_intps, int32s, intps

from sksstruct.inference._checks import check_edges
from sksstruct.inference.trees._arrays import leaders, list_children, tree_arrays


cdef class Tree:
    """Parents, children and order of messages of a graph without cycles.

    Parameters
    ----------
    n : int
        Number of variables.
    edges : array-like of shape (n_edges, 2)
        Pairs of variables.
    """

    def __init__(self, Py_ssize_t n, edges):
        cdef Branch* branches
        cdef bint is_forest
        # 32-bit indices halve the memory, which is accessed in random order
        if n >= 2**31 - 1:
            raise ValueError(f"{n} variables are too many for 32-bit indices")
        self.n_variables = self.root = n
        self.edges = check_edges(edges, n)
        self._ends, self._n_edges = const_intps(self.edges), len(self.edges)
        # a forest has fewer edges than variables: n or more edges close a cycle
        if self._n_edges >= n:
            self._refuse_cycles()
        rows, self._arrays = tree_arrays(n)
        branches = <Branch*> int32s(rows)
        with nogil:
            is_forest = self._find_parents(branches)
        if not is_forest:
            self._refuse_cycles()
        self._parent, self._edge = int32s(self._arrays[0]), int32s(self._arrays[1])
        self._order, self._above = int32s(self._arrays[2]), int32s(self._arrays[3])
        self._edge_above = int32s(self._arrays[4])
        self._below = int32s(self._arrays[5])
        with nogil:
            self._number_breadth_first(branches)

    def _list_children(self):
        """List the children of each variable, in the order of their numbers."""
        first, children = self._lists = list_children(self._arrays[0], self.root)
        self._children, self._child_of = intps(first), intps(children)

    def _refuse_cycles(self):
        """Raise ValueError for the first edge whose ends earlier edges connect."""
        array = leaders(self.n_variables)
        cdef Py_ssize_t edge = self._find_cycle(intps(array))
        raise ValueError(
            f"edges[{edge}], {tuple(self.edges[edge].tolist())}, closes a cycle: the "
            "graph must be a tree or a forest")

    @cython.final
    cdef Py_ssize_t _find_cycle(self, Py_ssize_t* leader) noexcept nogil:
        """Find the first edge that closes a cycle; the graph must have a cycle."""
        cdef Py_ssize_t edge, left, right
        for edge in range(self._n_edges):
            left = leader_of(leader, self._ends[2 * edge])
            right = leader_of(leader, self._ends[2 * edge + 1])
            if left == right:
                return edge
            # union by rank is not needed: path halving alone keeps paths short
            leader[left] = right
        return -1

    @cython.final
    cdef bint _find_parents(self, Branch* branches) noexcept nogil:
        """Find the parent of each variable; return False if there is a cycle."""
        cdef Py_ssize_t n_edges = self._n_edges, n_removed = 0, edge, variable
        cdef Py_ssize_t first, second
        cdef int32_t leaf, parent
        for edge in range(n_edges):
            first, second = self._ends[2 * edge], self._ends[2 * edge + 1]
            add_neighbor(&branches[first], second, edge)
            add_neighbor(&branches[second], first, edge)
        # Leaves are removed in the order of their numbers, so that the last variable of
        # each tree remains, without neighbors when the loop reaches this variable.
        for variable in range(self.n_variables):
            if branches[variable].child == 0:
                branches[variable].parent = <int32_t> self.root
                branches[variable].edge = -1
                continue
            leaf = <int32_t> variable
            while branches[leaf].child == 1:
                parent = branches[leaf].parent
                branches[leaf].child = 0
                branches[parent].child -= 1
                branches[parent].parent ^= leaf
                branches[parent].edge ^= branches[leaf].edge
                n_removed += 1
                # a new leaf is removed at once if the loop has passed its number
                if parent > variable:
                    break
                leaf = parent
        # a cycle keeps its edges, as its variables never become leaves
        return n_removed == n_edges

    @cython.final
    cdef void _number_breadth_first(self, Branch* branches) noexcept nogil:
        """Number the variables breadth first, children in the order of their edges."""
        cdef int32_t n = <int32_t> self.n_variables, variable, place, n_ordered = 1
        cdef int32_t child
        cdef Py_ssize_t edge
        for variable in range(n + 1):
            branches[variable].child = branches[variable].sibling = -1
        # from the last edge to the first, as each child becomes the first one in the
        # list of its parent's children
        for edge in range(self._n_edges - 1, -1, -1):
            child = <int32_t> self._ends[2 * edge]
            if branches[child].edge != edge:
                child = <int32_t> self._ends[2 * edge + 1]
            add_child(branches, child)
        for variable in range(n):
            self._parent[variable] = branches[variable].parent
            self._edge[variable] = branches[variable].edge
            if branches[variable].edge < 0:
                add_child(branches, variable)
        self._parent[n] = self._edge[n] = -1
        # the order serves as the queue of the breadth-first search
        self._order[0], self._below[0] = n, 1
        self._above[0] = self._edge_above[0] = -1
        self.most_children = 0
        for place in range(n + 1):
            child = branches[self._order[place]].child
            while child >= 0:
                self._order[n_ordered] = child
                self._above[n_ordered] = place
                self._edge_above[n_ordered] = branches[child].edge
                n_ordered += 1
                child = branches[child].sibling
            self._below[place + 1] = n_ordered
            if n_ordered - self._below[place] > self.most_children:
                self.most_children = n_ordered - self._below[place]


cdef Py_ssize_t leader_of(Py_ssize_t* leader, Py_ssize_t variable) noexcept nogil:
    """Return the leader of a variable; connected variables have the same leader."""
    while leader[variable] != variable:
        # path halving: later searches take half the steps
        leader[variable] = leader[leader[variable]]
        variable = leader[variable]
    return variable


cdef inline void add_neighbor(Branch* branch, Py_ssize_t neighbor,
                              Py_ssize_t edge) noexcept nogil:
    """Count a neighbor, and add the neighbor and the edge to the exclusive ors."""
    branch.child += 1
    branch.parent ^= <int32_t> neighbor
    branch.edge ^= <int32_t> edge


cdef inline void add_child(Branch* branches, int32_t child) noexcept nogil:
    """Put a variable before all others in the list of its parent's children."""
    cdef int32_t parent = branches[child].parent
    branches[child].sibling = branches[parent].child
    branches[parent].child = child
