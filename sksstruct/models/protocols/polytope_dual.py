"""The dual of chains and forests: tables of the edges, in the local polytopes.

Saha et al. (2009), Appendix E.1 and E.3, where the clique tree is that of the edges,
with D(x) as `DualSpace` states it. The variables of an example are p_i times its edge
means, one table for each edge, and p_i times the node means of the nodes that have no
edge. The scores of every other node are part of the table of one of its edges: they are
added to its rows, or to its columns.
"""

import numpy as np

from sksstruct.models.protocols.dual_space import DualSpace, decoded_risk
from sksstruct.projections._simplex import project_rows
from sksstruct.projections._tree_polytope import LocalPolytopes


class PolytopeDual(DualSpace):
    """Dual variables of nodes with the same labels, and of edges without a cycle.

    Parameters
    ----------
    model : BoundModel
        Model with its data; `sizes` are the numbers of nodes of examples.
    nodes : object
        What has the labels of the nodes: `labels`, those that were observed, their
        number `n_labels`, and `ld`, the length of a row of weights.
    costs : ndarray of shape (n_nodes,)
        Loss of missing the label of each node.
    edges : ndarray of shape (n_edges, 2)
        Pairs of nodes, numbered among those of all examples.
    """

    # what takes a projection too far, for the error
    too_large = "trees as large as these"

    def __init__(self, model, nodes, costs, edges):
        self.model, self.cost = model, model.n_examples
        self.n_labels, self.ld = nodes.n_labels, nodes.ld
        labels, n_edges = nodes.labels, len(edges)
        self.shape = n_edges, self.n_labels, self.n_labels
        weight = np.repeat(model.example_weights, model.sizes)
        self.polytopes = LocalPolytopes(len(labels), edges, self.n_labels)
        self.mass = weight[self.polytopes.node]
        self._place_nodes(len(labels), edges)
        self.alone_mass = weight[self.alone]
        one_hot = np.eye(self.n_labels)[labels]
        self.losses = costs[:, None] * (1.0 - one_hot)
        self.observed = weight[:, None] * one_hot
        self.observed_tables = np.zeros(self.shape)
        ends = labels[edges[:, 0]], labels[edges[:, 1]]
        self.observed_tables[np.arange(n_edges), *ends] = weight[edges[:, 0]]
        self.center = self._join(self.observed_tables, self.observed[self.alone])

    def _place_nodes(self, n_nodes, edges):
        """Find the table that the scores of each node are part of, and its side."""
        table, side = np.full(n_nodes, -1), np.zeros(n_nodes, dtype=np.intp)
        for end in range(2):
            nodes = edges[:, end]
            table[nodes], side[nodes] = np.arange(len(edges)), end
        self.alone = np.flatnonzero(table < 0)
        self.nodes = [np.flatnonzero((table >= 0) & (side == end)) for end in range(2)]
        self.tables = [table[nodes] for nodes in self.nodes]

    def _join(self, tables, alone):
        return np.concatenate([tables.ravel(), alone.ravel()])

    def _split(self, x):
        n = int(np.prod(self.shape))
        return x[:n].reshape(self.shape), x[n:].reshape(-1, self.n_labels)

    def _padded(self, tables):
        """A row for each table, in the layout of the weights, whose rows are padded."""
        out = np.zeros((*self.shape[:2], self.ld))
        out[:, :, : self.n_labels] = tables
        return out.reshape(len(out), self.n_labels * self.ld)

    def _nodes(self, x):
        """Node means, times p_i."""
        tables, alone = self._split(x)
        nodes = np.empty_like(self.observed)
        nodes[self.nodes[0]] = tables[self.tables[0]].sum(axis=2)
        # most tables end at a node: these are summed without a copy
        nodes[self.nodes[1]] = tables.sum(axis=1)[self.tables[1]]
        nodes[self.alone] = alone
        return nodes

    def loss(self, x):
        return float((self.losses * self._nodes(x)).sum())

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
        # the maximum over labelings is not that of the tables
        return decoded_risk(self.model, w)
