"""The order in which messages go through a tree or forest.

Every tree hangs from its last variable, and these roots from a variable more, number
n_variables, that has one state and costs nothing: so a forest is one tree.
"""

import numpy as np

from sksstruct.inference._checks import check_edges


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
        cdef Py_ssize_t e, u, v, a, b, head, tail, p
        self.n_variables = self.root = n
        self.edges = check_edges(edges, n)
        cdef const Py_ssize_t[:, ::1] ends = self.edges
        self._ends = ends
        cdef Py_ssize_t[::1] leader = np.arange(n, dtype=np.intp)
        cdef Py_ssize_t[::1] degree = np.zeros(n + 1, dtype=np.intp)
        for e in range(ends.shape[0]):
            a, b = ends[e, 0], ends[e, 1]
            degree[a] += 1
            degree[b] += 1
            while leader[a] != a:
                leader[a] = leader[leader[a]]
                a = leader[a]
            while leader[b] != b:
                leader[b] = leader[leader[b]]
                b = leader[b]
            if a == b:
                raise ValueError(
                    f"edges[{e}], {tuple(self.edges[e].tolist())}, closes a cycle: the "
                    "graph must be a tree or a forest")
            leader[a] = b
        cdef Py_ssize_t[::1] start = np.concatenate(
            [[0], np.cumsum(degree)]).astype(np.intp)
        cdef Py_ssize_t[::1] place = np.array(start[:n + 1])
        cdef Py_ssize_t[::1] near = np.empty(2 * ends.shape[0] + 1, dtype=np.intp)
        cdef Py_ssize_t[::1] by = np.empty(2 * ends.shape[0] + 1, dtype=np.intp)
        for e in range(ends.shape[0]):
            u, v = ends[e, 0], ends[e, 1]
            near[place[u]] = v
            by[place[u]] = e
            place[u] += 1
            near[place[v]] = u
            by[place[v]] = e
            place[v] += 1
        self._parent = np.full(n + 1, -1, dtype=np.intp)
        self._edge = np.full(n + 1, -1, dtype=np.intp)
        self._order = np.empty(n + 1, dtype=np.intp)
        self._order[0] = self.root
        tail = 1
        # the last variable of each tree first
        for u in range(n - 1, -1, -1):
            if self._parent[u] >= 0:
                continue
            self._parent[u] = self.root
            self._order[tail] = u
            head, tail = tail, tail + 1
            while head < tail:
                a = self._order[head]
                head += 1
                for p in range(start[a], start[a + 1]):
                    if near[p] != self._parent[a]:
                        self._parent[near[p]] = a
                        self._edge[near[p]] = by[p]
                        self._order[tail] = near[p]
                        tail += 1
        # children in the order of their numbers
        counts = np.bincount(np.asarray(self._parent)[:n], minlength=n + 1)
        self.most_children = counts.max()
        self._children = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        self._child_of = np.argsort(
            np.asarray(self._parent)[:n], kind="stable").astype(np.intp)
