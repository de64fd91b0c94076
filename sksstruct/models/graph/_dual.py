"""The dual of a forest model, whose edges have scores of all pairs of labels or one."""

import numpy as np
from scipy import sparse

from sksstruct.models.protocols.polytope_dual import PolytopeDual
from sksstruct.models.tables._dual import block_scores, combine_blocks


class ForestDual(PolytopeDual):
    """Dual variables of graphs without cycles.

    Parameters
    ----------
    model : BoundTable
        `Graphs` with their data.
    """

    def __init__(self, model):
        graphs = model.structure
        graph, edges = graphs.all_edges()
        super().__init__(model, graphs, graphs.costs, edges)
        # the row of features of each edge; None: its own
        self.potts, self.row = graphs.potts, graph if graphs.shared else None
        if graphs.shared:
            ones, shape = np.ones(len(edges)), (model.n_examples, len(edges))
            entries = ones, (graph, np.arange(len(edges)))
            self.sum_by_row = sparse.csr_array(entries, shape)

    def combine(self, x):
        change = self.observed_tables - self._split(x)[0]
        if self.potts:
            rows = np.trace(change, axis1=1, axis2=2)[:, None]
        else:
            rows = self._padded(change)
        if self.row is not None:
            rows = self.sum_by_row @ rows
        return combine_blocks(self.model, [self.observed - self._nodes(x), rows])

    def slopes(self, w):
        scores = block_scores(self.model, w, 0) + self.losses
        rows = block_scores(self.model, w, 1)
        if self.potts:
            rows = rows[:, :, None] * np.eye(self.n_labels)
        else:
            rows = rows.reshape(len(rows), self.n_labels, -1)[:, :, : self.n_labels]
        tables = rows.copy() if self.row is None else rows[self.row]
        # no table has two nodes on one side
        tables[self.tables[0]] += scores[self.nodes[0]][:, :, None]
        tables[self.tables[1]] += scores[self.nodes[1]][:, None, :]
        return self._join(tables, scores[self.alone])
