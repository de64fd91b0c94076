"""The order in which messages go through a tree or forest.

Every tree hangs from its last variable. These roots hang from one more variable, the
root of roots, number n_variables, which has one state and costs nothing: so a forest is
one tree.

Cycles are found by union-find with path halving (Tarjan and van Leeuwen, 1984), before
anything else, so that the search for an order can trust that there are none.
"""

import numpy as np

from sksstruct.inference._checks import check_edges


def starts_of(lengths):
    """Where stretches of given lengths begin in a row, and where the last ends."""
    starts = np.zeros(len(lengths) + 1, dtype=np.intp)
    np.cumsum(lengths, out=starts[1:])
    return starts


cdef struct Incidence:
    # The edges at each variable: those at u are entries first[u] <= i < first[u + 1].
    const Py_ssize_t* first
    const Py_ssize_t* neighbor
    const Py_ssize_t* edge


cdef class Tree:
    """Parents, children and an order, of a graph that must not have a cycle.

    Parameters
    ----------
    n : int
        Number of variables.
    edges : array-like of shape (n_edges, 2)
        Pairs of variables.
    """

    def __init__(self, Py_ssize_t n, edges):
        self.n_variables = self.root = n
        self.edges = check_edges(edges, n)
        self._ends = self.edges
        self._refuse_cycles()
        self._hang()
        parents = np.asarray(self._parent)[:n]
        counts = np.bincount(parents, minlength=n + 1)
        self.most_children = counts.max()
        self._children = starts_of(counts)
        # a stable sort: children are in the order of their numbers
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

    def _hang(self):
        """Find parents and an order: each tree breadth first from its last variable."""
        cdef Py_ssize_t n = self.n_variables, n_edges = self._ends.shape[0], edge, root
        cdef Py_ssize_t n_ordered = 1
        # The edges at each variable, in the order of their numbers: which decides the
        # order of messages, and so the rounding of sums.
        degrees = np.bincount(self.edges.ravel(), minlength=n + 1)
        cdef Py_ssize_t[::1] first = starts_of(degrees)
        cdef Py_ssize_t[::1] last = np.array(first)
        cdef Py_ssize_t[::1] neighbor = np.empty(2 * n_edges + 1, dtype=np.intp)
        cdef Py_ssize_t[::1] by = np.empty(2 * n_edges + 1, dtype=np.intp)
        for edge in range(n_edges):
            add_incidence(self._ends[edge, 0], self._ends[edge, 1], edge, &last[0],
                          &neighbor[0], &by[0])
            add_incidence(self._ends[edge, 1], self._ends[edge, 0], edge, &last[0],
                          &neighbor[0], &by[0])
        self._parent = np.full(n + 1, -1, dtype=np.intp)
        self._edge = np.full(n + 1, -1, dtype=np.intp)
        self._order = np.empty(n + 1, dtype=np.intp)
        self._order[0] = self.root
        cdef Incidence incidence = Incidence(&first[0], &neighbor[0], &by[0])
        for root in range(n - 1, -1, -1):
            # the last variable of a tree is the first that is met; the others have a
            # parent by then
            if self._parent[root] < 0:
                n_ordered = hang_tree(self, &incidence, root, n_ordered)


cdef Py_ssize_t leader_of(Py_ssize_t* leader, Py_ssize_t variable) noexcept nogil:
    """The variable that stands for all that one is connected with."""
    while leader[variable] != variable:
        # each step halves the path for those who come later
        leader[variable] = leader[leader[variable]]
        variable = leader[variable]
    return variable


cdef inline void add_incidence(
    Py_ssize_t variable, Py_ssize_t neighbor, Py_ssize_t edge, Py_ssize_t* last,
    Py_ssize_t* neighbors, Py_ssize_t* edges
) noexcept nogil:
    """Write an edge at one of its ends, behind those that are there."""
    neighbors[last[variable]], edges[last[variable]] = neighbor, edge
    last[variable] += 1


cdef Py_ssize_t hang_tree(Tree tree, const Incidence* incidence, Py_ssize_t root,
                          Py_ssize_t n_ordered) noexcept nogil:
    """Order the tree of one root behind n_ordered variables; returns the new number."""
    # the order is its own queue: the variables between `visited` and its end wait
    cdef Py_ssize_t visited = n_ordered, variable, neighbor, i
    # no edge leads to the root of roots: its edge stays -1
    tree._parent[root] = tree.root
    tree._order[n_ordered] = root
    n_ordered += 1
    while visited < n_ordered:
        variable = tree._order[visited]
        visited += 1
        for i in range(incidence.first[variable], incidence.first[variable + 1]):
            neighbor = incidence.neighbor[i]
            # there is no cycle: all neighbors but the parent are new
            if neighbor != tree._parent[variable]:
                tree._parent[neighbor] = variable
                tree._edge[neighbor] = incidence.edge[i]
                tree._order[n_ordered] = neighbor
                n_ordered += 1
    return n_ordered
