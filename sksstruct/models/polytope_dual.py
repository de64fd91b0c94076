"""The dual of classes, chains and forests as one vector: tables in local polytopes.

Saha et al. (2009), Appendix E.1 and E.3, with a clique tree of edges, and D(x) as in
`DualSpace`. The variables of an example are p_i times its edge means, one table for
each edge, and p_i times the node means of nodes without an edge: a class is such a
node, and its polytope a simplex. For every other node, one of its edges is chosen, and
the node's scores are added to the rows, or to the columns, of the table of this edge.
"""

import numpy as np
from scipy import sparse

from sksstruct.models.protocols.duals import DualSpace
from sksstruct.projections._polytopes import LocalPolytopes
from sksstruct.projections._probabilities import project_rows


class PolytopeDual(DualSpace):
    """Dual variables of forests whose nodes all have the same set of labels.

    A subclass maps weights to scores of nodes and of pairs of labels, and changes of
    the means of nodes and pairs to weights.

    Parameters
    ----------
    model : BoundModel
        Model with its data; `sizes` are the numbers of nodes of examples.
    n_labels : int
        Number of labels of a node.
    costs : ndarray of shape (n_nodes,) or (n_nodes, n_labels)
        Loss of missing the label of each node, or of each label that may replace it.
    edges : ndarray of shape (n_edges, 2)
        Pairs of nodes, numbered among those of all examples.
    """

    # in the error message: examples that are too large for a projection
    too_large = "trees as large as these"

    def __init__(self, model, n_labels, costs, edges):
        self.model, self.cost, self.n_labels = model, model.n_examples, n_labels
        labels, n_nodes, n_edges = model.labels, len(model.labels), len(edges)
        self.losses = np.zeros((n_nodes, n_labels))
        self.losses += costs if costs.ndim == 2 else costs[:, None]
        self.losses[np.arange(n_nodes), labels] = 0.0
        weight = np.repeat(model.example_weights, model.sizes)
        self.polytopes = LocalPolytopes(n_nodes, edges, n_labels)
        self.mass = weight[self.polytopes.node]
        self._place_nodes(n_nodes, edges)
        self.alone_mass, self.alone_labels = weight[self.alone], labels[self.alone]
        self.center = np.zeros((n_edges * n_labels + len(self.alone)) * n_labels)
        tables, alone = self._split(self.center)
        tables[np.arange(n_edges), *labels[edges].T] = weight[edges[:, 0]]
        alone[np.arange(len(alone)), self.alone_labels] = self.alone_mass
        self.observed = self._nodes(self.center)

    def _place_nodes(self, n_nodes, edges):
        """Choose for each node an edge whose table includes the scores of the node, and
        the end of the edge that the node is.
        """
        table, side = np.full(n_nodes, -1), np.zeros(n_nodes, dtype=np.intp)
        for end in range(2):
            nodes = edges[:, end]
            table[nodes], side[nodes] = np.arange(len(edges)), end
        self.n_tables, self.alone = len(edges), np.flatnonzero(table < 0)
        # the rows of a table belong to the first end of its edge, the columns to the
        # second one, so that the scores of two nodes can be in one table
        self.nodes = [np.flatnonzero((table >= 0) & (side == end)) for end in range(2)]
        self.tables = [table[nodes] for nodes in self.nodes]

    def _split(self, x):
        """Views of the tables of edges, and of the rows of nodes without an edge."""
        n, n_labels = self.n_tables * self.n_labels**2, self.n_labels
        return x[:n].reshape(-1, n_labels, n_labels), x[n:].reshape(-1, n_labels)

    def _nodes(self, x):
        """The means of all nodes, times p_i, as marginals of the dual variables x."""
        tables, alone = self._split(x)
        # without edges, no node belongs to a table
        if not self.n_tables:
            return alone
        nodes = np.empty_like(self.losses)
        nodes[self.nodes[0]] = tables[self.tables[0]].sum(axis=2)
        # most tables have the scores of their second node: summing all avoids a copy
        nodes[self.nodes[1]] = tables.sum(axis=1)[self.tables[1]]
        nodes[self.alone] = alone
        return nodes

    def _scores(self, w):
        """Scores of labels of all nodes, and of pairs: one table, or one for each edge.

        `slopes` overwrites the scores.
        """
        raise NotImplementedError

    def _weights(self, nodes, tables):
        """The transpose of `_scores`: weights for changes of node and edge means."""
        raise NotImplementedError

    def combine(self, x):
        tables = self._split(self.center)[0] - self._split(x)[0]
        return self._weights(self.observed - self._nodes(x), tables)

    def slopes(self, w):
        scores, pairs = self._scores(w)
        scores += self.losses
        if not self.n_tables:
            return scores.ravel()
        out = np.empty_like(self.center)
        tables, alone = self._split(out)
        columns = np.zeros((self.n_tables, self.n_labels))
        columns[self.tables[1]] = scores[self.nodes[1]]
        np.add(pairs, columns[:, None, :], out=tables)
        tables[self.tables[0]] += scores[self.nodes[0]][:, :, None]
        alone[...] = scores[self.alone]
        return out

    def loss(self, x):
        return float(np.vdot(self.losses, self._nodes(x)))

    def project(self, x):
        out = np.empty_like(x)
        tables, alone = self._split(np.ascontiguousarray(x))
        projected, points = self._split(out)
        violation = self.polytopes.project(tables, self.mass, projected)
        if violation > 1e-6:
            raise ValueError(
                "training broke down: a projection onto the local polytope is off by "
                f"{violation:.1e}; use another solver for {self.too_large}"
            )
        project_rows(alone, self.alone_mass, points)
        return out

    def risk(self, w, slopes):
        model = self.model
        if not self.n_tables:
            # the observed label has no loss, so that its slope is its score
            rows = self._nodes(slopes)
            hinge = rows.max(axis=1) - rows[np.arange(len(rows)), self.alone_labels]
            return float(self.alone_mass @ hinge)
        # the max oracle maximizes over labelings, of which tables are a relaxation
        hinge = np.empty(model.n_examples)
        workspace = model.workspace(np.ascontiguousarray(w), training=False)
        model.hinge(workspace, 0, model.n_examples, hinge)
        return float(model.example_weights @ hinge)


def _padded(tables, ld):
    """Tables as rows, in the layout of weights of pairs of labels."""
    out = np.zeros((*tables.shape[:2], ld))
    out[:, :, : tables.shape[2]] = tables
    return out.reshape(len(out), tables.shape[1] * ld)


class ChainDual(PolytopeDual):
    """Dual variables of a chain model.

    Weights of features on pairs of labels, if there are any, add further scores to the
    tables.

    Parameters
    ----------
    model : BoundChain
        Model with its data.
    """

    too_large = "sequences as long as these"

    def __init__(self, model):
        self.first, self.last = model.starts[:-1], model.starts[1:] - 1
        # every position but the first one of a sequence is the right end of an edge
        self.second = np.delete(np.arange(model.starts[-1]), self.first)
        edges = np.column_stack([self.second - 1, self.second])
        super().__init__(model, model.n_labels, model.costs, edges)

    def _scores(self, w):
        model, parts = self.model, self.model.views(w)
        scores = model.feature_scale * (model.packed.values @ parts["coef"].T)
        scores += parts["intercept"]
        scores[self.first] += parts["start"]
        scores[self.last] += parts["end"]
        pairs = parts["transitions"]
        if model.mask is not None:
            mask = model.mask[:, : self.n_labels]
            scores[self.first] += mask[0]
            scores[self.last] += mask[1]
            pairs = pairs + mask[2:]
        if model.pair_features is not None:
            rows = np.zeros((self.n_tables, self.n_labels * model.ld))
            model.pair_features.score_all(self.second, parts["transition_coef"], rows)
            rows = rows.reshape(self.n_tables, self.n_labels, model.ld)
            pairs = pairs + rows[:, :, : self.n_labels]
        return scores, pairs

    def _weights(self, nodes, tables):
        model, w = self.model, np.zeros(self.model.n_weights)
        parts = model.views(w)
        parts["coef"].T[...] = model.feature_scale * (model.packed.values.T @ nodes)
        if model.fit_intercept:
            parts["intercept"][...] = nodes.sum(axis=0)
        if model.boundary:
            parts["start"][...] = nodes[self.first].sum(axis=0)
            parts["end"][...] = nodes[self.last].sum(axis=0)
        parts["transitions"][...] = tables.sum(axis=0)
        if model.pair_features is not None:
            rows = _padded(tables, model.ld)
            model.pair_features.combine_all(self.second, rows, parts["transition_coef"])
        return w


def _block_scores(model, w, number):
    """The tables of one weight block for all examples, as rows of one matrix."""
    coef, bias = model.block(w, number)
    return np.asarray(model.features[number] @ coef) + bias


def _combine_blocks(model, *changes):
    """The transpose of `_block_scores`: weights for changes of the blocks' rows."""
    w = np.zeros(model.n_weights)
    for number, change in enumerate(changes):
        coef, bias = model.block(w, number)
        coef[...] = model.features[number].T @ change
        # without a bias, `block` returns zeros that are no view of the weights
        bias[...] = change.sum(axis=0)
    return w


class ClassDual(PolytopeDual):
    """Dual variables of a multiclass model: a simplex for each sample.

    Parameters
    ----------
    model : BoundTable
        Model whose structure is `Classes`.
    """

    def __init__(self, model):
        costs, labels = model.structure.costs, model.labels
        costs = np.ones(len(labels)) if costs is None else costs[labels]
        edges = np.zeros((0, 2), dtype=np.intp)
        super().__init__(model, model.structure.n_labels, costs, edges)

    def _scores(self, w):
        return _block_scores(self.model, w, 0), 0.0

    def _weights(self, nodes, tables):
        return _combine_blocks(self.model, nodes)


class ForestDual(PolytopeDual):
    """Dual variables of graphs without cycles.

    Parameters
    ----------
    model : BoundTable
        Model whose structure is `Graphs`.
    """

    def __init__(self, model):
        self.graphs = graphs = model.structure
        self.graph, edges = graphs.all_edges()
        super().__init__(model, graphs.n_labels, graphs.costs, edges)
        if graphs.shared:
            ones, shape = np.ones(len(edges)), (model.n_examples, len(edges))
            entries = ones, (self.graph, np.arange(len(edges)))
            self.sum_by_graph = sparse.csr_array(entries, shape)

    def _scores(self, w):
        nodes, rows = (_block_scores(self.model, w, number) for number in range(2))
        # scores of all pairs of labels, or one score for labels that agree
        if self.graphs.potts:
            tables = rows[:, :, None] * np.eye(self.n_labels)
        else:
            tables = rows.reshape(len(rows), self.n_labels, -1)[:, :, : self.n_labels]
        return nodes, tables[self.graph] if self.graphs.shared else tables

    def _weights(self, nodes, tables):
        if self.graphs.potts:
            rows = np.trace(tables, axis1=1, axis2=2)[:, None]
        else:
            rows = _padded(tables, self.graphs.ld)
        if self.graphs.shared:
            rows = self.sum_by_graph @ rows
        return _combine_blocks(self.model, nodes, rows)
