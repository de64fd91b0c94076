"""The dual of a chain model: tables of neighbouring labels, in the local polytope.

Saha et al. (2009), Appendix E.1, with D(x) as `DualSpace` states it. The variables of
an example are p_i times its edge means, one table for each pair of neighbours, or p_i
times the node means of a single position. Potentials of nodes are part of the tables:
those of the first position are added to the rows of the first table, those of every
other position to the columns of the table that ends there.
"""

import numpy as np

from sksstruct.models.protocols.dual_space import DualSpace
from sksstruct.projections import project_simplex
from sksstruct.projections._polytope import n_multipliers, project_all


class ChainDual(DualSpace):
    """Dual variables of a chain model.

    Parameters
    ----------
    model : BoundChain
        Model with its data.
    """

    def __init__(self, model):
        self.model, self.values = model, model.packed.values
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

    def combine(self, x):
        model = self.model
        tables, single = self._split(x)
        change = self.observed - self._nodes(tables, single)
        d = model.n_features
        w = np.zeros((d + 3 + self.n_labels, model.ld))
        part = w[:, : self.n_labels]
        part[:d] = self.values.T @ change
        if model.fit_intercept:
            part[d] = change.sum(axis=0)
        if model.boundary:
            part[d + 1] = change[self.first].sum(axis=0)
            part[d + 2] = change[self.last].sum(axis=0)
        part[d + 3 :] = self.pairs - tables.sum(axis=0)
        return w.ravel()

    def slopes(self, w):
        model, d = self.model, self.model.n_features
        part = w.reshape(-1, model.ld)[:, : self.n_labels]
        scores = self.losses + self.values @ part[:d] + part[d]
        scores[self.first] += part[d + 1]
        scores[self.last] += part[d + 2]
        pairs = part[d + 3 :]
        if model.mask is not None:
            mask = model.mask[:, : self.n_labels]
            scores[self.first] += mask[0]
            scores[self.last] += mask[1]
            pairs = pairs + mask[2:]
        tables = pairs + scores[self.second][:, None, :]
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
        for k, mass in enumerate(self.single_mass):
            points[k] = mass * project_simplex(single[k] / mass)
        return out

    def risk(self, w, slopes):
        model = self.model
        hinge = np.empty(model.n_examples)
        workspace = model.workspace(np.ascontiguousarray(w), training=False)
        model.hinge(workspace, 0, model.n_examples, hinge)
        return float(model.example_weights @ hinge)
