"""The order in which messages go through a tree or forest.

Every tree hangs from its last variable. These roots hang from one more variable, the
root of roots, number n_variables, which has one state and costs nothing: so a forest is
one tree.

Leaves are taken off one after the other, which needs no list of a variable's neighbors:
their number is enough, and all of them together by exclusive or, which of a leaf is the
only one. Where something is left there is a cycle; the edge that closes it is found by
union-find with path halving (Tarjan and van Leeuwen, 1984).
"""

import numpy as np

cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference._checks import check_edges


def starts_of(lengths):
    """Return where pieces of given lengths begin in a row, and where the last ends."""
    starts = np.zeros(len(lengths) + 1, dtype=np.intp)
    np.cumsum(lengths, out=starts[1:])
    return starts


# As numpy spells the structure of the header.
BRANCH = np.dtype([(name, np.int32) for name in ("child", "parent", "edge", "sibling")])


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
        cdef bint is_forest
        # Half the memory of 64-bit indices, through which the search walks at random.
        if n >= 2**31 - 1:
            raise ValueError("the graph is too large for 32-bit indices")
        self.n_variables = self.root = n
        self.edges = check_edges(edges, n)
        self._ends = self.edges
        # A forest has fewer edges than variables: more have no place in a branch.
        cdef Branch[::1] branches = np.zeros(n + 1, dtype=BRANCH)
        if self._ends.shape[0] >= n:
            self._refuse_cycles()
        with nogil:
            is_forest = self._hang(&branches[0])
        if not is_forest:
            self._refuse_cycles()
        self._parent, self._edge, self._order, self._above, self._edge_above = (
            np.empty((5, n + 1), dtype=np.int32))
        self._below = np.empty(n + 2, dtype=np.int32)
        with nogil:
            self._put_in_order(&branches[0])

    def _list_children(self):
        """List the children of each variable, in the order of their numbers."""
        parents = np.asarray(self._parent)[:self.n_variables]
        self._children = starts_of(np.bincount(parents, minlength=self.root + 1))
        self._child_of = np.argsort(parents, kind="stable").astype(np.intp)

    def _refuse_cycles(self):
        """Raise at the first edge whose ends are connected by the edges before it."""
        cdef Py_ssize_t edge, left, right
        # one more, so that there is an address where there is no variable
        cdef Py_ssize_t[::1] leader = np.arange(self.n_variables + 1, dtype=np.intp)
        for edge in range(self._ends.shape[0]):
            left = leader_of(&leader[0], self._ends[edge, 0])
            right = leader_of(&leader[0], self._ends[edge, 1])
            if left == right:
                raise ValueError(
                    f"edges[{edge}], {tuple(self.edges[edge].tolist())}, closes a "
                    "cycle: the graph must be a tree or a forest")
            # whichever leads: path halving alone keeps the paths short
            leader[left] = right

    @cython.final
    cdef bint _hang(self, Branch* branches) noexcept nogil:
        """Find the parent of each variable; returns False if there is a cycle."""
        cdef Py_ssize_t n_edges = self._ends.shape[0], n_taken = 0, edge, variable
        cdef int32_t leaf, parent
        for edge in range(n_edges):
            add_neighbor(&branches[self._ends[edge, 0]], self._ends[edge, 1], edge)
            add_neighbor(&branches[self._ends[edge, 1]], self._ends[edge, 0], edge)
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
        for edge in range(self._ends.shape[0] - 1, -1, -1):
            child = <int32_t> self._ends[edge, 0]
            if branches[child].edge != edge:
                child = <int32_t> self._ends[edge, 1]
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
