"""The structure of graphs: its set-up, and minimum cuts."""

from types import SimpleNamespace

import numpy as np

from sksstruct.inference import MinCut
from sksstruct.inference.trees._tree import Tree
from sksstruct.models.graph._graph import GraphKernel
from sksstruct.models.tables._table import block_ld
from sksstruct.utils._layout import padded_length


def edge_columns(n_labels):
    """Return the length of an edge's table of n_labels rows, with padding."""
    return n_labels * padded_length(n_labels)


class Graphs(GraphKernel):
    """Labelings of the nodes of graphs.

    Parameters
    ----------
    sizes, y_true, max_keys : objects
        As in `Structure`: a label for each node, a key for each node and edge.
    n_labels : int
        Number of labels.
    edges : ndarray of shape (n_edges, 2), intp
        Pairs of nodes of the same graph, numbered within the graph.
    first_edge : ndarray of shape (n_graphs + 1,), intp
        First edge of each graph.
    costs : ndarray of shape (n_nodes,) or None
        Loss of missing the label of each node.
    potts, shared, forest : bool
        Whether scores of pairs depend on agreement only; whether the edges of a graph
        share one row of scores; whether all graphs are forests.
    known : list of ndarray of shape (n_nodes, ld), uint8, or None, default=None
        Labels that the nodes of each graph may have, as in `set_known`.

    Attributes
    ----------
    ld, edge_ld : int
        Lengths of the rows of the tables of nodes, and of edges.
    """

    def __init__(
        self,
        sizes,
        y_true,
        max_keys,
        n_labels,
        edges,
        first_edge,
        costs,
        potts,
        shared,
        forest,
        known=None,
    ):
        self.edges = np.ascontiguousarray(edges, dtype=np.intp).reshape(-1, 2)
        self.first_edge = np.ascontiguousarray(first_edge, dtype=np.intp)
        self.costs = costs
        arrays = SimpleNamespace(
            n_labels=n_labels,
            ld=block_ld(n_labels),
            edge_ld=1 if potts else block_ld(edge_columns(n_labels)),
            edges=self.edges,
            first_edge=self.first_edge,
            costs=costs,
            potts=potts,
            shared=shared,
            forest=forest,
            orders=np.empty((3, self.starts[-1]), dtype=np.intp) if forest else None,
        )
        super().__init__(arrays)
        self.set_known(known, self.ld)
        # problems with the same edges and the same kind of scores have the same keys
        self.meaning.extend([self.edges, self.first_edge, potts, shared])
        if forest:
            self._plan()
        else:
            # the first visit of a graph makes its minimum-cut solver, which later
            # visits reuse
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
            "SmoothedHinge(smoothing='l2'), which takes the k best labelings"
        )

    def _plan(self):
        """Set the orders of messages, or raise an error if a graph has a cycle."""
        for i, size in enumerate(self.sizes.tolist()):
            try:
                tree = Tree(size, self._edges_of(i))
            except ValueError as error:
                # the tree's error names the edge, but not the graph
                raise ValueError(f"X[{i}]: {error}") from None
            self.plan(i, tree)

    def _edges_of(self, i):
        """Return the edges of a graph."""
        return self.edges[self.first_edge[i] : self.first_edge[i + 1]]

    def all_edges(self):
        """Return the graph of each edge, and its ends, numbered over all nodes."""
        graph = np.repeat(np.arange(self.n_examples), np.diff(self.first_edge))
        return graph, self.edges + self.starts[graph][:, None]

    def potentials_of(self, i, table):
        """Return unary scores, edges and pairwise tables of an example."""
        n_nodes, n_labels, row_length = int(self.sizes[i]), self.n_labels, self.edge_ld
        start = n_nodes * self.ld
        unary = table[:start].reshape(n_nodes, self.ld)[:, :n_labels]
        edges = self._edges_of(i)
        n_rows = 1 if self.shared else len(edges)
        rows = table[start : start + n_rows * row_length].reshape(n_rows, row_length)
        # oracles of `inference` expect whole tables, also for potts scores
        if self.potts:
            tables = rows[:, :, None] * np.eye(n_labels)
        else:
            tables = rows[:, : n_labels * self.ld].reshape(n_rows, n_labels, self.ld)
            tables = tables[:, :, :n_labels]
        return unary, edges, tables[0] if self.shared else tables

    def find_topk(self, i, theta, others, k):
        """Return the labels of the k best cuts of a graph, the best first."""
        unary, _, tables = self.potentials_of(i, theta)
        return self._solver(i)._best(unary, tables, k)

    def find(self, i, theta, others):
        """Return the labels of a minimum cut of a graph, which have the best score."""
        unary, _, tables = self.potentials_of(i, theta)
        return self._solver(i).solve(unary, tables)[0]

    def _solver(self, i):
        """Return the solver of a graph that is not a forest.

        The solver is stored: the next visit starts from the flow of the last one.
        """
        if self._cuts[i] is None:
            self._cuts[i] = MinCut(self._edges_of(i), int(self.sizes[i]))
        return self._cuts[i]
