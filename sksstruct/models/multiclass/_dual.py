"""The dual of a multiclass model: a simplex for each sample.

The variables of a sample are p_i times a distribution over the classes, with D(x) as
`DualSpace` states it (Saha et al., 2009, Appendix E.3, for a single clique).
"""

import numpy as np

from sksstruct.models.protocols.dual_space import DualSpace
from sksstruct.models.tables._dual import block_scores, combine_blocks
from sksstruct.projections._simplex import project_rows


class MulticlassDual(DualSpace):
    """Dual variables of a multiclass model.

    Parameters
    ----------
    model : BoundSingleRow
        `Classes` with their data.
    """

    def __init__(self, model):
        self.model, self.cost = model, model.n_examples
        self.samples, self.labels = np.arange(model.n_examples), model.labels
        self.mass = model.example_weights
        costs, n_labels = model.structure.costs, model.structure.n_labels
        observed = np.zeros((model.n_examples, n_labels))
        observed[self.samples, self.labels] = 1.0
        self.losses = 1.0 - observed if costs is None else costs[self.labels]
        self.observed = self.mass[:, None] * observed
        self.center = self.observed.ravel()

    def combine(self, x):
        change = self.observed - x.reshape(self.observed.shape)
        return combine_blocks(self.model, [change])

    def slopes(self, w):
        return (block_scores(self.model, w, 0) + self.losses).ravel()

    def loss(self, x):
        return float(self.losses.ravel() @ x)

    def project(self, x):
        out = np.empty_like(self.observed)
        project_rows(x.reshape(out.shape), self.mass, out)
        return out.ravel()

    def risk(self, w, slopes):
        slopes = slopes.reshape(self.observed.shape)
        # the observed class has no loss: its slope is its score
        hinge = slopes.max(axis=1) - slopes[self.samples, self.labels]
        return float(self.mass @ hinge)
