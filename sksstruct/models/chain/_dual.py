"""The dual of a chain model: tables of neighboring labels, in the local polytope.

Saha et al. (2009), Appendix E.1, with D(x) as `DualSpace` states it. The variables of
an example are p_i times its edge means, one table for each pair of neighbors, or p_i
times the node means of a single position. Potentials of nodes are part of the tables:
those of the first position are added to the rows of the first table, those of every
other position to the columns of the table that ends there. Weights of features on pairs
of labels, if there are any, are further potentials of the tables.
"""

import numpy as np

from sksstruct.models.protocols.dual_space import DualSpace, decoded_risk
from sksstruct.projections._polytope import n_multipliers, project_all
from sksstruct.projections._simplex import project_rows


class ChainDual(DualSpace):
    """Dual variables of a chain model.

    Parameters
    ----------
    model : BoundChain
        Model with its data.
    """

    def __init__(self, model):
        self.model, self.values = model, model.packed.values
        self.scale = model.feature_scale
        labels, costs = model.labels, model.costs
        self.n_labels = k = model.n_labels
        self.cost = model.n_examples
        starts, sizes = model.starts, model.sizes
        self.first, self.last = starts[:-1], starts[1:] - 1
        long = sizes > 1
        # positions that end a table, the tables that start an example, single positions
        ends = np.ones(starts[-1], dtype=bool)
        ends[self.first] = False
        self.second = np.flatnonzero(ends)
        edges = sizes[long] - 1
        self.heads = np.concatenate([[0], np.cumsum(edges)])[: len(edges)]
        self.long_first = self.first[long]
        self.single = self.first[~long]
        self.edges = edges.astype(np.intp)
        self.mass = model.example_weights[long]
        self.single_mass = model.example_weights[~long]
        self.n_tables = len(self.second)
        self.shape = (self.n_tables, k, k)
        self.duals = np.zeros(sum(n_multipliers(e, k) for e in edges.tolist()))
        p = np.repeat(model.example_weights, sizes)
        one_hot = np.zeros((starts[-1], k))
        one_hot[np.arange(starts[-1]), labels] = 1.0
        self.losses = costs[:, None] * (1.0 - one_hot)
        self.observed = p[:, None] * one_hot
        tables = np.zeros(self.shape)
        before, after = labels[self.second - 1], labels[self.second]
        tables[np.arange(self.n_tables), before, after] = p[self.second]
        self.center = np.concatenate(
            [tables.ravel(), self.observed[self.single].ravel()]
        )
        self.pairs = tables.sum(axis=0)
        self.pair_features = model.pair_features
        self.observed_pairs = 0.0
        if self.pair_features is not None:
            self.observed_pairs = self._combine_pairs(tables)

    def _split(self, x):
        n = self.n_tables * self.n_labels**2
        return x[:n].reshape(self.shape), x[n:].reshape(-1, self.n_labels)

    def _nodes(self, tables, single):
        """Node means, times p_i."""
        nodes = np.empty_like(self.observed)
        nodes[self.second] = tables.sum(axis=1)
        nodes[self.long_first] = tables[self.heads].sum(axis=2)
        nodes[self.single] = single
        return nodes

    def _padded(self, tables):
        """A row for each table, in the layout of the weights."""
        out = np.zeros((len(tables), self.n_labels, self.model.ld))
        out[:, :, : self.n_labels] = tables
        return out.reshape(len(tables), self.n_labels * self.model.ld)

    def _combine_pairs(self, tables):
        """Tables times the features that have weights on pairs of labels."""
        out = np.zeros(self.model.n_pair_weights)
        self.pair_features.combine_all(self.second, self._padded(tables), out)
        return out

    def combine(self, x):
        model = self.model
        tables, single = self._split(x)
        change = self.observed - self._nodes(tables, single)
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
        tables = pairs + scores[self.second][:, None, :]
        if self.pair_features is not None:
            rows = self._padded(np.zeros(self.shape))
            given = w[model.first_pair :][: model.n_pair_weights]
            self.pair_features.score_all(self.second, given, rows)
            rows = rows.reshape(*self.shape[:2], model.ld)
            tables += rows[:, :, : self.n_labels]
        tables[self.heads] += scores[self.long_first][:, :, None]
        return np.concatenate([tables.ravel(), scores[self.single].ravel()])

    def loss(self, x):
        return float((self.losses * self._nodes(*self._split(x))).sum())

    def project(self, x):
        out = np.empty_like(x)
        tables, single = self._split(np.ascontiguousarray(x))
        projected, points = self._split(out)
        if len(tables):
            project_all(
                self.n_labels, self.edges, self.mass, tables, self.duals, projected
            )
        project_rows(single, self.single_mass, points)
        return out

    def risk(self, w, slopes):
        # the maximum over labelings is not that of the tables
        return decoded_risk(self.model, w)
