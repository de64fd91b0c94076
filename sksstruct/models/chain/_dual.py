"""The dual of a chain model: tables of neighboring labels, in the local polytope.

Potentials of nodes are part of the tables: those of the first position are added to the
rows of the first table, those of every other position to the columns of the table that
ends there. Weights of features on pairs of labels, if there are any, are further
potentials of the tables.
"""

import numpy as np

from sksstruct.models.protocols.polytope_dual import PolytopeDual


class ChainDual(PolytopeDual):
    """Dual variables of a chain model.

    Parameters
    ----------
    model : BoundChain
        Model with its data.
    """

    too_large = "sequences as long as these"

    def __init__(self, model):
        self.first, self.last = model.starts[:-1], model.starts[1:] - 1
        # all positions but the first ones end a table
        ends = np.ones(model.starts[-1], dtype=bool)
        ends[self.first] = False
        second = np.flatnonzero(ends)
        edges = np.column_stack([second - 1, second])
        super().__init__(model, model, model.costs, edges)
        self.values, self.scale = model.packed.values, model.feature_scale
        self.pairs = self.observed_tables.sum(axis=0)
        self.pair_features = model.pair_features
        self.observed_pairs = 0.0
        if self.pair_features is not None:
            self.observed_pairs = self._combine_pairs(self.observed_tables)

    def _combine_pairs(self, tables):
        """Tables times the features that have weights on pairs of labels."""
        out = np.zeros(self.model.n_pair_weights)
        self.pair_features.combine_all(self.nodes[1], self._padded(tables), out)
        return out

    def combine(self, x):
        model = self.model
        tables = self._split(x)[0]
        change = self.observed - self._nodes(x)
        d = model.n_features
        w = np.zeros(model.n_weights)
        part = w.reshape(-1, model.ld)[:, : self.n_labels]
        part[:d] = self.scale * (self.values.T @ change)
        if model.fit_intercept:
            part[d] = change.sum(axis=0)
        if model.boundary:
            part[d + 1] = change[self.first].sum(axis=0)
            part[d + 2] = change[self.last].sum(axis=0)
        part[d + 3 : d + 3 + self.n_labels] = self.pairs - tables.sum(axis=0)
        if self.pair_features is not None:
            pairs = w[model.first_pair :][: model.n_pair_weights]
            pairs[:] = self.observed_pairs - self._combine_pairs(tables)
        return w

    def slopes(self, w):
        model, d = self.model, self.model.n_features
        part = w.reshape(-1, model.ld)[:, : self.n_labels]
        scores = self.losses + self.scale * (self.values @ part[:d]) + part[d]
        scores[self.first] += part[d + 1]
        scores[self.last] += part[d + 2]
        pairs = part[d + 3 : d + 3 + self.n_labels]
        if model.mask is not None:
            mask = model.mask[:, : self.n_labels]
            scores[self.first] += mask[0]
            scores[self.last] += mask[1]
            pairs = pairs + mask[2:]
        tables = pairs + scores[self.nodes[1]][:, None, :]
        if self.pair_features is not None:
            rows = self._padded(np.zeros(self.shape))
            given = w[model.first_pair :][: model.n_pair_weights]
            self.pair_features.score_all(self.nodes[1], given, rows)
            rows = rows.reshape(*self.shape[:2], model.ld)
            tables += rows[:, :, : self.n_labels]
        tables[self.tables[0]] += scores[self.nodes[0]][:, :, None]
        return self._join(tables, scores[self.alone])
