"""Chains whose labels are scored by a nonlinear function of the features.

With g(x; w) the scores of the labels at all positions, the potentials of a chain are g
and the transitions. For the loss h of `ChainSmoothLoss` they are features of a chain
whose emission weights are the identity: its node differences are then the gradient of h
with respect to g.

Flat weights are the parameters of g, then start, end and transitions.
"""

import numpy as np
from scipy import sparse

from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.chain._smooth import ChainSmoothLoss
from sksstruct.models.protocols.nonlinear_loss import NonlinearLoss
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils.packed import PackedSequences


class ScoredChain(NonlinearLoss):
    """A chain with a score function bound to packed sequences: "nonlinear".

    Parameters
    ----------
    score : ScoreFunction
        The scores.
    packed : PackedSequences
        Features.
    n_labels : int
        Number of labels.
    surrogate : SmoothedHinge or None
        The loss; None: the hinge, which is smoothed in the convex models only.
    **chain : objects
        Further arguments of `BoundChain`.
    """

    oracles = ("nonlinear",)
    oracle_bounds = oracle_note = None
    views_need_data = False

    def __init__(self, score, packed, n_labels, surrogate, **chain):
        self.score, self.surrogate = score, surrogate
        self.values, self.offsets = packed.values, packed.offsets
        self.n_labels, self.n_examples = n_labels, len(packed)
        self.nonsmooth = surrogate is None
        self._scores = np.zeros((packed.offsets[-1], n_labels))
        positions = PackedSequences(self._scores, packed.offsets)
        self.model = BoundChain(positions, n_labels, fit_intercept=False, **chain)
        self.example_weights = self.model.example_weights
        # of the chain, whose emission weights stay the identity
        self._w = aligned_zeros(self.model.n_weights)
        rows = self._w.reshape(-1, self.model.ld)
        rows[np.arange(n_labels), np.arange(n_labels)] = 1.0
        self._tail = rows[n_labels + 1 :, :n_labels]
        self._workspace = self.model.workspace(self._w)
        # the rows of each sequence, since cutting them out of CSR is slow
        cuts = zip(self.offsets[:-1], self.offsets[1:], strict=True)
        self._rows = [self.values[a:b] for a, b in cuts]
        if sparse.issparse(self.values) and self.values.shape[1] <= _DENSE:
            self._rows = [rows.toarray() for rows in self._rows]
        self._gradient = np.zeros_like(self._w)

    @property
    def n_weights(self):
        """Number of parameters of the score and of other weights, together."""
        return len(self.initial_weights(np.random.RandomState(0)))

    def nonlinear_loss(self, smoothing):
        """The mean loss, as a `NonlinearLoss`; a hinge is smoothed as given."""
        self.smooth = ChainSmoothLoss(
            self.model, smoothing if self.nonsmooth else self.surrogate
        )
        self.diameter = self.smooth.diameter
        return self

    def initial_weights(self, random_state):
        d = self.values.shape[1]
        start = self.score.initialize(d, self.n_labels, random_state)
        if np.ndim(start) != 1 or not np.isfinite(start).all():
            raise ValueError(
                "initialize of the score function must return a vector of numbers"
            )
        self.n_parameters = len(start)
        scores = np.asarray(self.score.value(start, self.values, self.n_labels))
        if scores.shape != self._scores.shape or not np.isfinite(scores).all():
            raise ValueError(
                "value of the score function must return finite numbers of shape "
                f"{self._scores.shape}, got {scores.shape}"
            )
        return np.concatenate([start, np.zeros(self._tail.size)])

    def _set_tail(self, w):
        tail = w[self.n_parameters :].reshape(self._tail.shape)
        self._tail[...] = tail
        if not self.model.boundary:
            self._tail[:2] = 0.0

    def split(self, w):
        """Parameters of the score, and start, end and transitions, as views."""
        return w[: self.n_parameters], w[self.n_parameters :].reshape(self._tail.shape)

    def _join(self, parameters, rows):
        tail = rows[self.n_labels + 1 :, : self.n_labels].copy()
        if not self.model.boundary:
            tail[:2] = 0.0
        return np.concatenate([parameters, tail.ravel()])

    def _loss(self, n_jobs):
        if not self.nonsmooth:
            return self.smooth.value_and_gradient(self._w, self._gradient, n_jobs)
        hinge = np.empty(self.n_examples)
        workspace = self.model.workspace(self._w, training=False)
        self.model.hinge(workspace, 0, self.n_examples, hinge)
        return float(self.example_weights @ hinge)

    def value(self, w, n_jobs=None):
        parameters, _ = self.split(w)
        self._scores[...] = self.score.value(parameters, self.values, self.n_labels)
        self._set_tail(w)
        return self._loss(n_jobs)

    def linearize(self, w):
        self.center = w.copy()
        parameters, _ = self.split(self.center)
        self.base = self.score.value(parameters, self.values, self.n_labels)

    def set_smoothing(self, mu):
        self.smooth.set_smoothing(mu)

    def value_and_gradient(self, w, n_jobs=None):
        parameters, _ = self.split(self.center)
        change = (w - self.center)[: self.n_parameters]
        self._scores[...] = self.base + self.score.jvp(
            parameters, self.values, self.n_labels, change
        )
        self._set_tail(w)
        value = self.smooth.value_and_gradient(self._w, self._gradient, n_jobs)
        differences = self.smooth.node_differences[:, : self.n_labels]
        gradient = self.score.vjp(parameters, self.values, self.n_labels, differences)
        rows = self._gradient.reshape(-1, self.model.ld)
        return value, self._join(gradient, rows)

    def example_gradient(self, i, w):
        a, b = self.offsets[i], self.offsets[i + 1]
        parameters, _ = self.split(self.center)
        change = (w - self.center)[: self.n_parameters]
        self._scores[a:b] = self.base[a:b] + self.score.jvp(
            parameters, self._rows[i], self.n_labels, change
        )
        self._set_tail(w)
        nodes, rows = self.smooth.example_difference(self._workspace, i)
        gradient = self.score.vjp(
            parameters, self._rows[i], self.n_labels, nodes[:, : self.n_labels]
        )
        return self._join(gradient, rows)


# Features up to which rows of single sequences are kept dense.
_DENSE = 1000
