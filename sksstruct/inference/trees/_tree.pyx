"""The order in which messages go through a tree or forest.

Every tree hangs from its last variable. These roots hang from one more variable, the
root of roots, number n_variables, which has one state and costs nothing: so a forest is
one tree.

Leaves are taken off one after the other, which needs no list of a variable's neighbors:
their number is enough, and all of them together by exclusive or, which of a leaf is the
only one. Where something is left there is a cycle; the edge that closes it is found by
union-find with path halving (Tarjan and van Leeuwen, 1984).
"""

cimport cython
from libc.stdint cimport int32_t

from sksstruct.utils._pointers cimport const_intps, int32s, intps

from sksstruct.inference._checks import check_edges
from sksstruct.inference.trees._arrays import leaders, list_children, tree_arrays


cdef class Tree:
    """Parents, children and an order of a graph without cycles.

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
        # Half the memory of 64-bit indices, through which the search walks at random.
        if n >= 2**31 - 1:
            raise ValueError("the graph is too large for 32-bit indices")
        self.n_variables = self.root = n
        self.edges = check_edges(edges, n)
        self._ends, self._n_edges = const_intps(self.edges), len(self.edges)
        # A forest has fewer edges than variables: more have no place in a branch.
        if self._n_edges >= n:
            self._refuse_cycles()
        rows, self._arrays = tree_arrays(n)
        branches = <Branch*> int32s(rows)
        with nogil:
            is_forest = self._hang(branches)
        if not is_forest:
            self._refuse_cycles()
        self._parent, self._edge = int32s(self._arrays[0]), int32s(self._arrays[1])
        self._order, self._above = int32s(self._arrays[2]), int32s(self._arrays[3])
        self._edge_above = int32s(self._arrays[4])
        self._below = int32s(self._arrays[5])
        with nogil:
            self._put_in_order(branches)

    def _list_children(self):
        """List the children of each variable, in the order of their numbers."""
        first, children = self._lists = list_children(self._arrays[0], self.root)
        self._children, self._child_of = intps(first), intps(children)

    def _refuse_cycles(self):
        """Raise at the first edge whose ends are connected by the edges before it."""
        array = leaders(self.n_variables)
        cdef Py_ssize_t edge = self._find_cycle(intps(array))
        raise ValueError(
            f"edges[{edge}], {tuple(self.edges[edge].tolist())}, closes a cycle: the "
            "graph must be a tree or a forest")

    @cython.final
    cdef Py_ssize_t _find_cycle(self, Py_ssize_t* leader) noexcept nogil:
        """Find the first edge that closes a cycle, of which there is one."""
        cdef Py_ssize_t edge, left, right
        for edge in range(self._n_edges):
            left = leader_of(leader, self._ends[2 * edge])
            right = leader_of(leader, self._ends[2 * edge + 1])
            if left == right:
                return edge
            # whichever leads: path halving alone keeps the paths short
            leader[left] = right
        return -1

    @cython.final
    cdef bint _hang(self, Branch* branches) noexcept nogil:
        """Find the parent of each variable; returns False if there is a cycle."""
        cdef Py_ssize_t n_edges = self._n_edges, n_taken = 0, edge, variable
        cdef Py_ssize_t first, second
        cdef int32_t leaf, parent
        for edge in range(n_edges):
            first, second = self._ends[2 * edge], self._ends[2 * edge + 1]
            add_neighbor(&branches[first], second, edge)
            add_neighbor(&branches[second], first, edge)
        # Leaves are taken off in the order of their numbers, so that the last variable
        # of each tree is left: it is alone when its turn comes.
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
                n_taken += 1
                # What became a leaf has its turn at once, unless that comes later.
                if parent > variable:
                    break
                leaf = parent
        # Around a cycle nothing becomes a leaf.
        return n_taken == n_edges

    @cython.final
    cdef void _put_in_order(self, Branch* branches) noexcept nogil:
        """Number the variables breadth first, children in the order of their edges."""
        cdef int32_t n = <int32_t> self.n_variables, variable, place, n_ordered = 1
        cdef int32_t child
        cdef Py_ssize_t edge
        for variable in range(n + 1):
            branches[variable].child = branches[variable].sibling = -1
        # Each becomes the first of its parent's list, so that the last has to begin.
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
        # the order is its own queue
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
    """The variable that stands for all that one is connected with."""
    while leader[variable] != variable:
        # each step halves the path for those who come later
        leader[variable] = leader[leader[variable]]
        variable = leader[variable]
    return variable


cdef inline void add_neighbor(Branch* branch, Py_ssize_t neighbor,
                              Py_ssize_t edge) noexcept nogil:
    """Count a neighbor, and put it together with the others."""
    branch.child += 1
    branch.parent ^= <int32_t> neighbor
    branch.edge ^= <int32_t> edge


cdef inline void add_child(Branch* branches, int32_t child) noexcept nogil:
    """Make a variable the first in the list of its parent's children."""
    cdef int32_t parent = branches[child].parent
    branches[child].sibling = branches[parent].child
    branches[parent].child = child
