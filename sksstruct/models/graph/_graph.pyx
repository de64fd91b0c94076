"""Graphs: scores of the labels of nodes, and of pairs of labels along edges.

Score of labels y for node features F and edge features G, pairwise="full" or "potts":

    sum_v F_v . W[:, y_v] + bias[y_v]  +  sum_e G_e . V[:, (y_u, y_v)]       (full)
                                       +  sum_e (G_e . V) [y_u = y_v]        (potts)

for nodes v and edges e = (u, v). Without edge features all edges share one row, [1].
Forests are decoded by max-product; graphs of two labels with potts scores that are not
negative by a minimum cut, as in Osokin et al. (2016), I.3.

The tables of an example are those of its nodes, a row of ld >= n_labels entries each,
and then those of its edges: one entry with potts scores, else n_labels rows of ld
labels, from u to v. The loss is the sum over the nodes of a cost of missing each
node's label.
"""

import numpy as np

cimport cython
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.trees._flat cimport (
    FlatForest, max_product_flat, topk_flat,
)
from sksstruct.inference.trees._sums cimport sum_product_forest, sums_memory
from sksstruct.inference.trees._topk cimport SubtreeLists
from sksstruct.inference.trees._tree cimport Tree
from sksstruct.models.protocols._bound_model cimport in_range
from sksstruct.models.tables._structure cimport OracleMemory, Potentials, Structure

from sksstruct.inference import MinCut
from sksstruct.models.tables._table import block_ld
from sksstruct.utils._layout import padded_length


def edge_columns(n_labels):
    """Return the number of scores of an edge: rows of ld labels, as messages read."""
    return n_labels * padded_length(n_labels)


# final: nobody derives from it
@cython.final
cdef class Graphs(Structure):
    """Labelings of the nodes of graphs.

    Parameters
    ----------
    sizes, y_true, max_keys : objects
        As of `Structure`: a label for each node, a key for each node and edge.
    n_labels : int
        Number of labels.
    edges : ndarray of shape (n_edges, 2), intp
        Pairs of nodes of the same graph, numbered within it.
    first_edge : ndarray of shape (n_graphs + 1,), intp
        Where the edges of each graph begin.
    costs : ndarray of shape (n_nodes,) or None
        Loss of missing the label of each node.
    potts, shared, forest : bool
        Whether scores of pairs depend on agreement only; whether the edges of a graph
        share one row of scores; whether all graphs are forests.

    Attributes
    ----------
    ld, edge_ld : int
        Lengths of the rows of the tables of nodes, and of edges.
    """

    cdef readonly Py_ssize_t n_labels, ld, edge_ld
    cdef readonly object edges, first_edge, costs
    cdef const Py_ssize_t[:, ::1] _ends
    # where the edges of each graph begin
    cdef const Py_ssize_t[::1] _first_edge
    cdef const double[::1] _cost
    cdef readonly bint potts, shared, forest
    # of all nodes of forests: the order of messages, the parent or -1, the edge to it
    cdef Py_ssize_t[::1] _order, _parent, _edge_up
    # of all graphs that are not
    cdef list _cuts

    def __init__(self, sizes, y_true, max_keys, n_labels, edges, first_edge, costs,
                 potts, shared, forest):
        self.n_labels, self.ld = n_labels, block_ld(n_labels)
        self.edge_ld = 1 if potts else block_ld(edge_columns(n_labels))
        self.edges = np.ascontiguousarray(edges, dtype=np.intp).reshape(-1, 2)
        self.first_edge = np.ascontiguousarray(first_edge, dtype=np.intp)
        self._ends, self._first_edge = self.edges, self.first_edge
        self.potts, self.shared, self.forest = potts, shared, forest
        self.memory_size = self.max_size * self.ld
        if forest:
            self.memory_size = sums_memory(self.max_size, self.n_labels, self.ld)
        # what labelings mean: exported duals are those of the same graphs
        self.meaning += [self.edges, self.first_edge, potts, shared]
        self._cost = self.costs = costs
        if forest:
            self._plan()
        else:
            # made at the first visit of each graph, and kept for the next
            self._cuts = [None] * self.n_examples

    @property
    def oracles(self):
        if self.forest:
            return ("max", "topk", "exp", "projection", "factors")
        return ("max", "topk")

    @property
    def oracle_note(self):
        if self.forest:
            return None
        return (
            "sums over the labelings of a graph with cycles are #P-hard: loss='log' "
            "and smoothing='entropy' are for trees and forests; use loss='hinge', or "
            "SmoothedHinge(smoothing='l2'), which takes the k best labelings")

    def _plan(self):
        """Find the orders of messages; they show which graphs have a cycle."""
        cdef Py_ssize_t i, k, first, root
        cdef Tree tree
        n_nodes = self._starts[self.n_examples]
        self._order = np.empty(n_nodes, dtype=np.intp)
        self._parent = np.empty(n_nodes, dtype=np.intp)
        self._edge_up = np.empty(n_nodes, dtype=np.intp)
        for i in range(self.n_examples):
            first = self._starts[i]
            try:
                tree = Tree(self._sizes[i],
                            self.edges[self._first_edge[i]:self._first_edge[i + 1]])
            except ValueError as error:
                # which names the edge, but not the graph
                raise ValueError(f"X[{i}]: {error}") from None
            # A tree has a root of its own above those of a forest. It has no scores
            # here, and comes first in the order.
            root = tree.root
            for k in range(self._sizes[i]):
                self._order[first + k] = tree._order[k + 1]
                self._parent[first + k] = (
                    -1 if tree._parent[k] == root else tree._parent[k])
                self._edge_up[first + k] = tree._edge[k]

    def all_edges(self):
        """Return the graph of each edge, and the ends, numbered among all nodes."""
        graph = np.repeat(np.arange(self.n_examples), np.diff(self._first_edge))
        return graph, self.edges + np.asarray(self._starts)[graph][:, None]

    # ---- tables ----

    cdef inline Py_ssize_t _table_of_edge(self, Py_ssize_t start,
                                          Py_ssize_t edge) noexcept nogil:
        """Return where the scores of an edge begin; those of all begin at `start`."""
        return start if self.shared else start + edge * self.edge_ld

    def potentials_of(self, Py_ssize_t i, table):
        """Return unary scores, edges and pairwise tables of an example."""
        cdef Py_ssize_t n_nodes = self._sizes[i], n_labels = self.n_labels
        cdef Py_ssize_t start = n_nodes * self.ld, row_length = self.edge_ld
        unary = table[:start].reshape(n_nodes, self.ld)[:, :n_labels]
        edges = self.edges[self._first_edge[i]:self._first_edge[i + 1]]
        n_rows = 1 if self.shared else len(edges)
        rows = table[start:start + n_rows * row_length].reshape(n_rows, row_length)
        # whole tables at any rate: oracles of inference know nothing of potts scores
        if self.potts:
            tables = rows[:, :, None] * np.eye(n_labels)
        else:
            tables = rows[:, :n_labels * self.ld].reshape(n_rows, n_labels, self.ld)
            tables = tables[:, :, :n_labels]
        return unary, edges, tables[0] if self.shared else tables

    # ---- the loss, and what labelings are ----

    cdef int add_loss(self, Potentials* at, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t node, first = self._starts[i]
        cdef double cost
        # Every label gains the cost but the observed one. All labelings gain the same,
        # so that only the observed labels are touched.
        for node in range(self._sizes[i]):
            cost = scale * self._cost[first + node]
            at.theta[node * self.ld + self._y_true[first + node]] -= cost
            at.constant += cost
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef Py_ssize_t node, first = self._starts[i]
        value[0] = 0.0
        # costs are divided by the size of the graph already
        for node in range(self._sizes[i]):
            if y[node] != self._y_true[first + node]:
                value[0] += self._cost[first + node]
        return 0

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        return in_range(self._sizes[i], y, 0, self.n_labels)

    cdef int has_key(self, Py_ssize_t i, Py_ssize_t key) except -1 nogil:
        cdef Py_ssize_t nodes = self._sizes[i] * self.ld
        # rows of pairs of labels are padded, too
        return key < nodes or self.potts or (
            (key - nodes) % self.edge_ld % self.ld < self.n_labels)

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t node, edge, entry, label, next_label
        cdef Py_ssize_t count = self._sizes[i], start = count * self.ld
        cdef Py_ssize_t first = self._first_edge[i]
        for node in range(count):
            keys[node] = <int32_t> (node * self.ld + y[node])
        for edge in range(self._first_edge[i + 1] - first):
            label = y[self._ends[first + edge, 0]]
            next_label = y[self._ends[first + edge, 1]]
            # pairs that do not agree have no score, and no key
            if self.potts and label != next_label:
                continue
            entry = 0 if self.potts else label * self.ld + next_label
            keys[count] = <int32_t> (self._table_of_edge(start, edge) + entry)
            count += 1
        return count

    # ---- oracles ----

    cdef int decode(self, Potentials* at, OracleMemory own, Py_ssize_t i,
                    int32_t* y) except -1 nogil:
        cdef FlatForest forest
        if not self.forest:
            return Structure.decode(self, at, own, i, y)
        forest = self._forest(at.theta, i)
        max_product_flat(&forest, at.memory, y)
        return 0

    cdef FlatForest _forest(self, const double* theta, Py_ssize_t i) noexcept nogil:
        """Return the scores of a forest, and the order of messages."""
        cdef Py_ssize_t first = self._starts[i]
        cdef FlatForest forest
        forest.n_nodes, forest.n_labels, forest.ld = (
            self._sizes[i], self.n_labels, self.ld)
        forest.theta, forest.tables = theta, theta + self._sizes[i] * self.ld
        forest.step = 0 if self.shared else self.edge_ld
        forest.potts = self.potts
        forest.order, forest.parent = &self._order[first], &self._parent[first]
        forest.edge_up = &self._edge_up[first]
        forest.ends = NULL
        # no address without an edge
        if self._ends.shape[0] > self._first_edge[i]:
            forest.ends = &self._ends[self._first_edge[i], 0]
        return forest

    cdef int expect(self, Potentials* at, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        cdef FlatForest forest = self._forest(at.theta, i)
        memset(means, 0, at.size * sizeof(double))
        sum_product_forest(&forest, 1.0 / mu, at.memory, means,
                           means + self._sizes[i] * self.ld, value)
        value[0] = mu * value[0] + at.constant
        return 0

    cdef Py_ssize_t topk(self, Potentials* at, OracleMemory own, Py_ssize_t i,
                         Py_ssize_t k) except -1 nogil:
        cdef FlatForest forest
        cdef Py_ssize_t count, rank
        if not self.forest:
            return Structure.topk(self, at, own, i, k)
        if own.search is None:
            with gil:
                own.search = SubtreeLists()
        forest = self._forest(at.theta, i)
        count = topk_flat(&forest, at.memory, <SubtreeLists> own.search, k)
        own.make_room(count, self._sizes[i])
        for rank in range(count):
            (<SubtreeLists> own.search).read(
                rank, own.labelings + rank * self._sizes[i])
        return count

    def find_topk(self, i, theta, others, k):
        """Return the k best cuts."""
        unary, _, tables = self.potentials_of(i, theta)
        return self._solver(i)._best(unary, tables, k)

    def find(self, i, theta, others):
        """Return the labels of a minimum cut."""
        unary, _, tables = self.potentials_of(i, theta)
        return self._solver(i).solve(unary, tables)[0]

    def _solver(self, Py_ssize_t i):
        """Return the solver of a graph that is not a forest.

        The model keeps it: the next visit starts from the flow of the last one.
        """
        if self._cuts[i] is None:
            edges = self.edges[self._first_edge[i]:self._first_edge[i + 1]]
            self._cuts[i] = MinCut(edges, self._sizes[i])
        return self._cuts[i]
