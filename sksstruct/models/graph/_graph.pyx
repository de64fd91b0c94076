"""Graphs: scores of the labels of nodes, and of pairs of labels along edges.

Score of labels y for node features F and edge features G, pairwise="full" or "potts":

    sum_v F_v . W[:, y_v] + bias[y_v]  +  sum_e G_e . V[:, (y_u, y_v)]       (full)
                                       +  sum_e (G_e . V) [y_u = y_v]        (potts)

Without edge features all edges share one row, [1]. Forests are decoded by max-product;
graphs of two labels with potts scores that are not negative by a minimum cut, as in
Osokin et al. (2016), I.3. Columns of a full block are n_labels rows of ld labels.

The loss is the mean over the nodes of a cost of missing each node's label.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memcpy

from sksstruct.inference.trees._messages cimport (
    add_potts_message, add_turned_message, best_state, best_state_given,
    best_state_given_potts,
)
from sksstruct.inference.trees._tree cimport Tree
from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.tables._table cimport BoundTable, TableScratch, TableWorkspace
from sksstruct.utils._simd cimport sks_maxplus

from sksstruct.inference import MinCut, bmmf, max_product_topk


cdef class BoundGraph(BoundTable):
    """Graphs bound to data; see `bind`."""

    cdef readonly Py_ssize_t n_labels, ld
    cdef readonly object edges
    cdef const Py_ssize_t[:, ::1] _ends
    cdef const Py_ssize_t[::1] _first_edge
    cdef const double[::1] _cost
    cdef bint potts, shared, forest
    # of all nodes: the order of messages, the parent or -1, the edge to it
    cdef Py_ssize_t[::1] _order, _parent, _up
    cdef list _cuts

    def __cinit__(self, blocks, sizes, y_true, example_weights, max_keys, *, edges,
                  first_edge, potts, shared, forest, costs):
        self.n_labels = blocks[0][2]
        self.ld = self._blocks[0].ld
        self.edges = np.ascontiguousarray(edges, dtype=np.intp).reshape(-1, 2)
        self._ends, self._first_edge = self.edges, first_edge
        self.potts, self.shared, self.forest = potts, shared, forest
        self.belief_size = self.max_size * self.ld
        self._structure += [self.edges, first_edge, potts, shared]
        if self._labeled:
            self._cost = costs
        if forest:
            self._plan()
        else:
            self._cuts = [None] * self.n_examples

    @classmethod
    def bind(cls, nodes, offsets, edges, first_edge, edge_rows, n_labels, y_true,
             example_weights, costs, *, potts, forest, fit_intercept):
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
        truths : ndarray of shape (n_nodes,), int32, or None
            Observed labels.
        example_weights : ndarray of shape (n_graphs,) or None
            The p_i.
        costs : ndarray of shape (n_nodes,) or None
            Loss of missing the label of each node.
        potts, forest, fit_intercept : bool
            Whether pairs score by agreement only; whether all graphs are forests;
            whether labels have a bias.
        """
        n = len(offsets) - 1
        shared = edge_rows is None
        if shared:
            edge_rows, edge_offsets = np.ones((n, 1)), np.arange(n + 1)
        else:
            edge_offsets = first_edge
        # a full table has rows of ld labels, as messages read them
        columns = 1 if potts else n_labels * (4 if n_labels <= 4 else
                                              -(-n_labels // 8) * 8)
        blocks = [(nodes, offsets, n_labels, fit_intercept),
                  (edge_rows, edge_offsets, columns, False)]
        sizes = np.diff(offsets)
        keys = (sizes + np.diff(first_edge)).max(initial=1)
        return cls(blocks, sizes, y_true, example_weights, int(keys), edges=edges,
                   first_edge=np.ascontiguousarray(first_edge, dtype=np.intp),
                   potts=potts, shared=shared, forest=forest, costs=costs)

    def views(self, w):
        views = BoundTable.views(self, w)
        edge, K = self.block(w, 1)[0], self.n_labels
        if self.potts:
            edge = edge[:, 0]
        else:
            edge = edge.reshape(-1, K, self.ld)[:, :, :K]
        return {**views, "edge_coef": edge}

    def _plan(self):
        """Orders of messages, which say where a graph has a cycle."""
        cdef Py_ssize_t i, k, first, root
        cdef Tree tree
        n = self._starts[self.n_examples]
        self._order = np.empty(n, dtype=np.intp)
        self._parent = np.empty(n, dtype=np.intp)
        self._up = np.empty(n, dtype=np.intp)
        for i in range(self.n_examples):
            first = self._starts[i]
            try:
                tree = Tree(self._sizes[i],
                            self.edges[self._first_edge[i]:self._first_edge[i + 1]])
            except ValueError as error:
                raise ValueError(f"X[{i}]: {error}") from None
            root = tree.root
            for k in range(self._sizes[i]):
                self._order[first + k] = tree._order[k + 1]
                self._parent[first + k] = (
                    -1 if tree._parent[k] == root else tree._parent[k])
                self._up[first + k] = tree._edge[k]

    # ---- scores of an edge ----

    # Where the scores of an edge are in the table, the edges beginning at start.
    cdef inline Py_ssize_t _edge_place(self, Py_ssize_t start,
                                       Py_ssize_t e) noexcept nogil:
        return start if self.shared else start + e * self._blocks[1].ld

    def potentials_of(self, Py_ssize_t i, table):
        """Unary scores, edges and pairwise tables of an example."""
        cdef Py_ssize_t n = self._sizes[i], K = self.n_labels, start, ld
        unary = table[:n * self.ld].reshape(n, self.ld)[:, :K]
        edges = self.edges[self._first_edge[i]:self._first_edge[i + 1]]
        start, ld = n * self.ld, self._blocks[1].ld
        m = 1 if self.shared else len(edges)
        rows = table[start:start + m * ld].reshape(m, ld)
        if self.potts:
            tables = rows[:, :, None] * np.eye(K)
        else:
            tables = rows[:, :K * self.ld].reshape(m, K, self.ld)[:, :, :K]
        return unary, edges, tables[0] if self.shared else tables

    # ---- the model ----

    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t v, first = self._starts[i]
        cdef double cost
        # every label gains the cost but the observed one
        for v in range(self._sizes[i]):
            cost = scale * self._cost[first + v]
            ws.theta[v * self.ld + self._y_true[first + v]] -= cost
            ws.constant += cost
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef Py_ssize_t v, first = self._starts[i]
        value[0] = 0.0
        for v in range(self._sizes[i]):
            if y[v] != self._y_true[first + v]:
                value[0] += self._cost[first + v]
        return 0

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t v, e, n = self._sizes[i], start = n * self.ld, a, b
        cdef Py_ssize_t first = self._first_edge[i], count = n
        for v in range(n):
            keys[v] = <int32_t> (v * self.ld + y[v])
        for e in range(self._first_edge[i + 1] - first):
            a, b = y[self._ends[first + e, 0]], y[self._ends[first + e, 1]]
            if self.potts:
                if a != b:
                    continue
                a = b = 0
            keys[count] = <int32_t> (self._edge_place(start, e) + a * self.ld + b)
            count += 1
        return count

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        if not self.forest:
            return BoundTable.decode(self, workspace, i, y, value)
        self._max_product(<TableScratch*> workspace.scratch, i, y)
        return self.evaluate(workspace, i, y, value)

    cdef void _max_product(self, TableScratch* ws, Py_ssize_t i,
                           int32_t* y) noexcept nogil:
        """Best labeling of a forest: messages up to the roots, then labels down."""
        cdef Py_ssize_t first = self._starts[i], k, node
        # the table of the nodes stays as it is; what is added to goes to the beliefs
        memcpy(ws.beliefs, ws.theta, self._sizes[i] * self.ld * sizeof(double))
        for k in range(self._sizes[i] - 1, -1, -1):
            node = self._order[first + k]
            if self._parent[first + node] >= 0:
                self._send_up(ws, i, node)
        for k in range(self._sizes[i]):
            node = self._order[first + k]
            y[node] = <int32_t> self._label_given_parent(ws, i, node, y)

    # Scores of the edge from a node to its parent.
    cdef inline const double* _edge_scores(self, TableScratch* ws, Py_ssize_t i,
                                           Py_ssize_t node) noexcept nogil:
        return ws.theta + self._edge_place(
            self._sizes[i] * self.ld, self._up[self._starts[i] + node])

    # Whether the table of that edge is from the node to its parent.
    cdef inline bint _is_forward(self, Py_ssize_t i, Py_ssize_t node) noexcept nogil:
        return self._ends[
            self._first_edge[i] + self._up[self._starts[i] + node], 0] == node

    cdef void _send_up(self, TableScratch* ws, Py_ssize_t i,
                       Py_ssize_t node) noexcept nogil:
        """Add the message of a node to the row of its parent."""
        cdef const double* row = ws.beliefs + node * self.ld
        cdef const double* scores = self._edge_scores(ws, i, node)
        cdef double* out = ws.beliefs + self._parent[self._starts[i] + node] * self.ld
        if self.potts:
            add_potts_message(self.n_labels, row, scores[0], out)
        elif self._is_forward(i, node):
            sks_maxplus(self.n_labels, self.ld, row, scores, out)
        else:
            add_turned_message(self.n_labels, self.n_labels, self.ld, row, scores, out)

    cdef Py_ssize_t _label_given_parent(self, TableScratch* ws, Py_ssize_t i,
                                        Py_ssize_t node,
                                        const int32_t* y) noexcept nogil:
        """The lowest best label of a node, whose parent has its label in y."""
        cdef Py_ssize_t parent = self._parent[self._starts[i] + node], label
        cdef const double* row = ws.beliefs + node * self.ld
        cdef const double* scores
        if parent < 0:
            return best_state(self.n_labels, row)
        label = y[parent]
        scores = self._edge_scores(ws, i, node)
        if self.potts:
            return best_state_given_potts(self.n_labels, row, scores[0], label)
        if self._is_forward(i, node):
            return best_state_given(self.n_labels, row, scores + label, self.ld)
        return best_state_given(self.n_labels, row, scores + label * self.ld, 1)

    def find_topk(self, TableWorkspace workspace, Py_ssize_t i, Py_ssize_t k):
        unary, edges, tables = self.potentials_of(i, workspace.theta)
        if self.forest:
            return max_product_topk(list(unary), edges, tables, k)[0]
        solver = MinCut(edges, len(unary))

        def max_marginals(scores):
            solver.solve(scores, tables)
            return solver.max_marginals()

        return bmmf(max_marginals, np.array(unary), k)[0]

    def find(self, TableWorkspace workspace, Py_ssize_t i):
        """Minimum cut; the flow of the last visit is where it starts from."""
        unary, edges, tables = self.potentials_of(i, workspace.theta)
        if self._cuts[i] is None:
            self._cuts[i] = MinCut(edges, len(unary))
        return self._cuts[i].solve(unary, tables)[0]
