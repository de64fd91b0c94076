"""Graphs: scores of the labels of nodes, and of pairs of labels along edges.

Score of labels y for node features F and edge features G, pairwise="full" or "potts":

    sum_v F_v . W[:, y_v] + bias[y_v]  +  sum_e G_e . V[:, (y_u, y_v)]       (full)
                                       +  sum_e (G_e . V) [y_u = y_v]        (potts)

for nodes v and edges e = (u, v). Without edge features all edges share one row, [1].
Forests are decoded by max-product; graphs of two labels with potts scores that are not
negative by a minimum cut, as in Osokin et al. (2016), I.3.

The tables of an example are a row of ld >= n_labels entries for each node, and then,
for each edge, one entry with potts scores, else n_labels rows of ld labels, from u to
v. The loss is the sum over the nodes of a cost of missing each node's label.
"""

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
from sksstruct.utils._pointers cimport const_doubles, const_intps, intps


cdef class GraphKernel(Structure):
    """Labelings of the nodes of graphs, which `Graphs` sets up."""

    cdef readonly Py_ssize_t n_labels, ld, edge_ld
    cdef readonly bint potts, shared, forest
    # arrays that the pointers point into
    cdef object _buffers
    cdef Py_ssize_t _n_edges
    # ends of edges, two for each edge; first edge of each graph
    cdef const Py_ssize_t* _ends
    cdef const Py_ssize_t* _first_edge
    # loss of a wrong label at each node; NULL for prediction
    cdef const double* _cost
    # for each node of forests: order of messages, parent or -1, and edge to the parent
    cdef Py_ssize_t* _order
    cdef Py_ssize_t* _parent
    cdef Py_ssize_t* _edge_up

    def __init__(self, arrays):
        self._buffers, self.n_labels, self.ld = arrays, arrays.n_labels, arrays.ld
        self.edge_ld, self._n_edges = arrays.edge_ld, len(arrays.edges)
        self.potts, self.shared = arrays.potts, arrays.shared
        self.forest = arrays.forest
        self.reads_shared = self.forest and self.shared
        self._ends = const_intps(arrays.edges)
        self._first_edge = const_intps(arrays.first_edge)
        if arrays.costs is not None:
            self._cost = const_doubles(arrays.costs)
        self.memory_size = self.max_size * self.ld
        if self.forest:
            self.memory_size = sums_memory(self.max_size, self.n_labels, self.ld)
            order, parent, edge_up = arrays.orders
            self._order, self._parent = intps(order), intps(parent)
            self._edge_up = intps(edge_up)

    def plan(self, Py_ssize_t i, Tree tree):
        """Store the order of messages in graph i, a forest, and each node's parent."""
        cdef Py_ssize_t k, first = self._starts[i], root = tree.root
        # `Tree` has a root above the roots of a forest; its order begins with this
        # root, which is left out here
        for k in range(self._sizes[i]):
            self._order[first + k] = tree._order[k + 1]
            self._parent[first + k] = (
                -1 if tree._parent[k] == root else tree._parent[k])
            self._edge_up[first + k] = tree._edge[k]

    # ---- tables ----

    @cython.final
    cdef inline Py_ssize_t _table_of_edge(self, Py_ssize_t start,
                                          Py_ssize_t edge) noexcept nogil:
        """Return the key of the first score of an edge; `start` is this key of the
        graph's first edge.
        """
        return start if self.shared else start + edge * self.edge_ld

    # ---- labelings and the loss ----

    cdef int add_loss(self, Potentials* at, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t node, first = self._starts[i]
        cdef double cost
        # All labels gain the cost except the observed one. Subtracting the cost from
        # the observed label, and adding it to the constant, changes only one entry of a
        # row.
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
        # rows of pairs of labels end with padding, too
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
            label = y[self._ends[2 * (first + edge)]]
            next_label = y[self._ends[2 * (first + edge) + 1]]
            # with potts scores, unequal labels have no score, and no key
            if self.potts and label != next_label:
                continue
            entry = 0 if self.potts else label * self.ld + next_label
            keys[count] = <int32_t> (self._table_of_edge(start, edge) + entry)
            count += 1
        return count

    # ---- oracles ----

    cdef int decode(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                    int32_t* y) except -1 nogil:
        cdef FlatForest forest
        if not self.labeled:
            self.forbid_others(at, i)
        if not self.forest:
            return Structure.decode(self, at, oracle, i, y)
        forest = self._forest(at, i)
        max_product_flat(&forest, at.memory, y)
        return 0

    @cython.final
    cdef FlatForest _forest(self, const Potentials* at, Py_ssize_t i) noexcept nogil:
        """Return the scores of a forest, and the order of messages."""
        cdef Py_ssize_t first = self._starts[i]
        cdef FlatForest forest
        forest.n_nodes, forest.n_labels, forest.ld = (
            self._sizes[i], self.n_labels, self.ld)
        forest.theta, forest.tables = at.theta, at.shared
        forest.step = 0
        if not self.shared:
            forest.tables = at.theta + self._sizes[i] * self.ld
            forest.step = self.edge_ld
        forest.potts = self.potts
        forest.order, forest.parent = &self._order[first], &self._parent[first]
        forest.edge_up = &self._edge_up[first]
        forest.ends = NULL
        if self._n_edges > self._first_edge[i]:
            forest.ends = self._ends + 2 * self._first_edge[i]
        return forest

    cdef int expect(self, Potentials* at, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        cdef FlatForest forest = self._forest(at, i)
        memset(means, 0, at.size * sizeof(double))
        sum_product_forest(&forest, 1.0 / mu, at.memory, means,
                           means + self._sizes[i] * self.ld, value)
        value[0] = mu * value[0] + at.constant
        return 0

    cdef Py_ssize_t topk(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                         Py_ssize_t k) except -1 nogil:
        cdef FlatForest forest
        cdef Py_ssize_t count, rank
        if not self.forest:
            return Structure.topk(self, at, oracle, i, k)
        if oracle.search is None:
            with gil:
                oracle.search = SubtreeLists()
        forest = self._forest(at, i)
        count = topk_flat(&forest, at.memory, <SubtreeLists> oracle.search, k)
        oracle.make_room(count, self._sizes[i])
        for rank in range(count):
            (<SubtreeLists> oracle.search).read(
                rank, oracle.labelings + rank * self._sizes[i])
        return count
