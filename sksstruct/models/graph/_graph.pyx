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

Features may be scaled, by a factor for each graph. The bias is then a feature as well:
the last one of the nodes, which has the same place among the weights.
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
from sksstruct.models.protocols._bound_model cimport Workspace, in_range
from sksstruct.models.tables._table cimport BoundTable, TableScratch, TableWorkspace

from sksstruct.inference import MinCut
from sksstruct.models.graph.inputs import scaled
from sksstruct.utils._layout import padded_length


# final: nobody derives from it
@cython.final
cdef class BoundGraph(BoundTable):
    """Graphs bound to data; see `bind`.

    Attributes
    ----------
    n_labels, ld : int
        Number of labels, and length of a row of the nodes' tables.
    edges : ndarray of shape (n_edges, 2), intp
        Ends of all edges, numbered within their graph.
    """

    cdef readonly Py_ssize_t n_labels, ld
    cdef readonly object edges
    cdef const Py_ssize_t[:, ::1] _ends
    # where the edges of each graph begin
    cdef const Py_ssize_t[::1] _first_edge
    cdef const double[::1] _cost
    cdef bint potts, shared, forest, bias_is_feature
    # of all nodes of forests: the order of messages, the parent or -1, the edge to it
    cdef Py_ssize_t[::1] _order, _parent, _edge_up
    # of all graphs that are not
    cdef list _cuts
    # features of nodes and edges, and whether there is a bias; what is made of them
    cdef tuple _features
    cdef object _factors

    def __cinit__(self, blocks, sizes, y_true, example_weights, max_keys, *, edges,
                  first_edge, potts, shared, forest, costs, bias_is_feature):
        self.n_labels = blocks[0][2]
        self.ld = self._blocks[0].ld
        self.edges = np.ascontiguousarray(edges, dtype=np.intp).reshape(-1, 2)
        self._ends, self._first_edge = self.edges, first_edge
        self.potts, self.shared, self.forest = potts, shared, forest
        self.bias_is_feature = bias_is_feature
        self.belief_size = self.max_size * self.ld
        if forest:
            self.belief_size = sums_memory(self.max_size, self.n_labels, self.ld)
        # what labelings mean: exported duals are those of the same graphs
        self._structure += [self.edges, first_edge, potts, shared]
        if self._labeled:
            self._cost = costs
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

    @classmethod
    def bind(cls, nodes, offsets, edges, first_edge, edge_rows, n_labels, y_true,
             example_weights, costs, *, potts, forest, fit_intercept, scales=None):
        """Bind graphs to data.

        Parameters
        ----------
        nodes : ndarray or CSR of shape (n_nodes, n_features)
            Features of the nodes of all graphs.
        offsets : ndarray of shape (n_graphs + 1,)
            Where the nodes of each graph begin.
        edges : ndarray of shape (n_edges, 2), intp
            Pairs of nodes of the same graph, numbered within it.
        first_edge : ndarray of shape (n_graphs + 1,), intp
            Where the edges of each graph begin.
        edge_rows : ndarray or CSR of shape (n_edges, n_edge_features), or None
            Features of the edges; None: all edges are alike.
        n_labels : int
            Number of labels.
        y_true : ndarray of shape (n_nodes,), int32, or None
            Observed labels.
        example_weights : ndarray of shape (n_graphs,) or None
            The p_i.
        costs : ndarray of shape (n_nodes,) or None
            Loss of missing the label of each node.
        potts, forest, fit_intercept : bool
            Whether scores of pairs depend on agreement only; whether all graphs are
            forests; whether labels have a bias.
        scales : ndarray of shape (n_graphs,), default=None
            Factor of the features of each graph, including that of the bias; None: 1.
        """
        cdef BoundGraph bound
        n_graphs = len(offsets) - 1
        shared = edge_rows is None
        edge_offsets = first_edge
        # all edges of a graph read one row, so that a visit fills one table
        if shared:
            edge_rows, edge_offsets = np.ones((n_graphs, 1)), np.arange(n_graphs + 1)
        bias_is_feature = scales is not None and fit_intercept
        if scales is not None:
            nodes = scaled(nodes, np.repeat(scales, np.diff(offsets)), fit_intercept)
            edge_rows = scaled(edge_rows, np.repeat(scales, np.diff(edge_offsets)))
        # a full table has rows of ld labels, as messages read them
        columns = 1 if potts else n_labels * padded_length(n_labels)
        # an edge has no bias: its features say what there is
        blocks = [(nodes, offsets, n_labels, fit_intercept and not bias_is_feature),
                  (edge_rows, edge_offsets, columns, False)]
        sizes = np.diff(offsets)
        keys = (sizes + np.diff(first_edge)).max(initial=1)
        bound = cls(blocks, sizes, y_true, example_weights, int(keys), edges=edges,
                    first_edge=np.ascontiguousarray(first_edge, dtype=np.intp),
                    potts=potts, shared=shared, forest=forest, costs=costs,
                    bias_is_feature=bias_is_feature)
        bound._features = nodes, edge_rows, fit_intercept
        return bound

    def views(self, w):
        views = BoundTable.views(self, w)
        if self.bias_is_feature:
            coef = views["coef"]
            views = {"coef": coef[:, :-1], "intercept": coef[:, -1]}
        edge_coef = self.block(w, 1)[0]
        if self.potts:
            edge_coef = edge_coef[:, 0]
        else:
            # without the padding of rows
            edge_coef = edge_coef.reshape(-1, self.n_labels, self.ld)
            edge_coef = edge_coef[:, :, :self.n_labels]
        return {**views, "edge_coef": edge_coef}

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

    def _all_edges(self):
        """Return the graph of each edge, and the ends, numbered among all nodes."""
        graph = np.repeat(np.arange(self.n_examples), np.diff(self._first_edge))
        return graph, self.edges + np.asarray(self._starts)[graph][:, None]

    def dual_space(self):
        # not above: that module is needed for this dual only
        from sksstruct.models.graph._dual import ForestDual

        graph, edges = self._all_edges()
        return ForestDual(self, np.asarray(self._y_true), np.asarray(self._cost), edges,
                          graph if self.shared else None, self.potts)

    def factors(self):
        """Return the nodes and edges as a `FactorModel`."""
        # not above, as these need models of inference that others do not
        from sksstruct.models.graph.labeled import LabeledGraphs, graph_factors

        # once for all who ask: the weights are theirs
        if self._factors is None:
            nodes, edge_rows, has_bias = self._features
            graph, edges = self._all_edges()
            self._factors = graph_factors(LabeledGraphs(
                nodes=nodes, edge_rows=edge_rows[graph] if self.shared else edge_rows,
                first_node=np.asarray(self._starts),
                first_edge=np.asarray(self._first_edge), edges=edges,
                y_true=np.asarray(self._y_true), costs=np.asarray(self._cost),
                example_weights=self.example_weights, n_labels=self.n_labels,
                n_weights=self.n_weights,
                fit_intercept=has_bias and not self.bias_is_feature,
                blocks=self._factor_blocks), potts=self.potts)
        return self._factors

    def _factor_blocks(self, w):
        """Return views of flat weights as `LabeledGraphs` has them."""
        views = self.views(w)
        bias = views["intercept"] if self._features[2] else None
        return views["coef"].T, bias, views["edge_coef"]

    # ---- tables ----

    cdef inline Py_ssize_t _table_of_edge(self, Py_ssize_t start,
                                          Py_ssize_t edge) noexcept nogil:
        """Return where the scores of an edge begin; those of all begin at `start`."""
        return start if self.shared else start + edge * self._blocks[1].ld

    def potentials_of(self, Py_ssize_t i, table):
        """Return unary scores, edges and pairwise tables of an example."""
        cdef Py_ssize_t n_nodes = self._sizes[i], n_labels = self.n_labels
        cdef Py_ssize_t start = n_nodes * self.ld, row_length = self._blocks[1].ld
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

    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t node, first = self._starts[i]
        cdef double cost
        # Every label gains the cost but the observed one. All labelings gain the same,
        # so that only the observed labels are touched.
        for node in range(self._sizes[i]):
            cost = scale * self._cost[first + node]
            ws.theta[node * self.ld + self._y_true[first + node]] -= cost
            ws.constant += cost
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
        if not BoundTable.has_key(self, i, key):
            return 0
        # rows of pairs of labels are padded, too
        return key < nodes or self.potts or (
            (key - nodes) % self._blocks[1].ld % self.ld < self.n_labels)

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

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        if not self.forest:
            return BoundTable.decode(self, workspace, i, y, value)
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef FlatForest forest = self._forest(ws, i)
        max_product_flat(&forest, ws.beliefs, y)
        return self.evaluate(workspace, i, y, value)

    cdef FlatForest _forest(self, TableScratch* ws, Py_ssize_t i) noexcept nogil:
        """Return the scores of a forest, and the order of messages."""
        cdef Py_ssize_t first = self._starts[i]
        cdef FlatForest forest
        forest.n_nodes, forest.n_labels, forest.ld = (
            self._sizes[i], self.n_labels, self.ld)
        forest.theta, forest.tables = ws.theta, ws.theta + self._sizes[i] * self.ld
        forest.step = 0 if self.shared else self._blocks[1].ld
        forest.potts = self.potts
        forest.order, forest.parent = &self._order[first], &self._parent[first]
        forest.edge_up = &self._edge_up[first]
        forest.ends = NULL
        # no address without an edge
        if self._ends.shape[0] > self._first_edge[i]:
            forest.ends = &self._ends[self._first_edge[i], 0]
        return forest

    cdef int expect(self, Workspace workspace, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t n_nodes = self._sizes[i] * self.ld
        cdef Py_ssize_t n_tables = self._blocks[1].offsets[i + 1]
        cdef FlatForest forest = self._forest(ws, i)
        n_tables -= self._blocks[1].offsets[i]
        memset(means, 0, (n_nodes + n_tables * self._blocks[1].ld) * sizeof(double))
        sum_product_forest(
            &forest, 1.0 / mu, ws.beliefs, means, means + n_nodes, value)
        value[0] = mu * value[0] + ws.constant
        return 0

    def find_topk(self, TableWorkspace workspace, Py_ssize_t i, Py_ssize_t k):
        if self.forest:
            return self._topk_of_forest(workspace, i, k)
        unary, _, tables = self.potentials_of(i, workspace.theta)
        return self._solver(i)._best_labelings(unary, tables, k)

    def _topk_of_forest(self, TableWorkspace workspace, Py_ssize_t i, Py_ssize_t k):
        cdef FlatForest forest = self._forest(&workspace._scratch, i)
        cdef SubtreeLists lists
        cdef int32_t[:, ::1] labels
        cdef Py_ssize_t count, rank
        if workspace.search is None:
            workspace.search = SubtreeLists()
        lists = workspace.search
        with nogil:
            count = topk_flat(&forest, workspace._scratch.beliefs, lists, k)
        labels = labelings = np.empty((count, self._sizes[i]), dtype=np.int32)
        for rank in range(count):
            lists.read(rank, &labels[rank, 0])
        return labelings

    def find(self, TableWorkspace workspace, Py_ssize_t i):
        """Return the labels of a minimum cut."""
        unary, _, tables = self.potentials_of(i, workspace.theta)
        return self._solver(i).solve(unary, tables)[0]

    def _solver(self, Py_ssize_t i):
        """Return the solver of a graph that is not a forest.

        The model keeps it: the next visit starts from the flow of the last one.
        """
        if self._cuts[i] is None:
            edges = self.edges[self._first_edge[i]:self._first_edge[i + 1]]
            self._cuts[i] = MinCut(edges, self._sizes[i])
        return self._cuts[i]
