"""Plain, slow and independent: what the compiled code is compared with."""

from functools import cache
from itertools import product

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize
from scipy.special import logsumexp

from sksstruct.projections import project_simplex

# Small integers, so that ties abound; -inf forbids.
SCORES = st.sampled_from([-np.inf, -2.0, -1.0, 0.0, 1.0, 2.0])


@st.composite
def chains(draw, scores=SCORES):
    """Potentials of a chain, with one table or one for each pair of positions."""
    size = draw(st.integers(1, 5))
    n_states = draw(st.integers(1, 4))
    unary = draw(hnp.arrays(np.float64, (size, n_states), elements=scores))
    shape = (n_states, n_states)
    if draw(st.booleans()):
        shape = (size - 1, *shape)
    return unary, draw(hnp.arrays(np.float64, shape, elements=scores))


@cache
def labelings_of(size, n_states):
    """All labelings, in lexicographic order."""
    labelings = np.array(list(product(range(n_states), repeat=size)))
    labelings.flags.writeable = False
    return labelings


def enumerate_chain(unary, pairwise):
    """All labelings of a chain and their scores, in lexicographic order."""
    size, n_states = unary.shape
    labelings = labelings_of(size, n_states)
    scores = np.zeros(len(labelings))
    for t in range(size):
        scores = scores + unary[t, labelings[:, t]]
    for t in range(size - 1):
        table = pairwise[t] if pairwise.ndim == 3 else pairwise
        scores = scores + table[labelings[:, t], labelings[:, t + 1]]
    return labelings, scores


def in_order(labelings, scores):
    """Allowed labelings by score, then by last label, last but one, and so on."""
    order = np.lexsort((*labelings.T, -scores))
    order = order[np.isfinite(scores[order])]
    return labelings[order], scores[order]


def best_by_tie_rule(labelings, scores):
    """Among the best, the one whose last label is lowest, then the last but one."""
    best = labelings[scores == scores.max()]
    return best[np.lexsort(best.T)[0]]


class Chain:
    """Joint feature map and objective of a chain, in NumPy.

    Weights are the concatenation of coef (K, d), intercept, start, end, transitions.
    """

    def __init__(
        self, X, y, n_labels, p=None, costs=None, intercept=True, boundary=True,
        length="mean",
    ):  # fmt: skip
        self.X = [np.asarray(x, dtype=np.float64) for x in X]
        self.y = [np.asarray(row) for row in y]
        self.n_labels, self.n_features = n_labels, self.X[0].shape[1]
        self.p = np.full(len(X), 1 / len(X)) if p is None else p
        self.costs = np.ones(n_labels) if costs is None else costs
        self.intercept, self.boundary = intercept, boundary
        # what losses are divided by; None: each by its own length
        if length == "mean":
            length = self.p @ [len(row) for row in self.y]
        self.lengths = [len(row) if length is None else length for row in self.y]

    def feature_map(self, i, labels):
        """phi(x_i, labels)"""
        k, x = self.n_labels, self.X[i]
        coef = np.zeros((k, self.n_features))
        bias, start, end = np.zeros(k), np.zeros(k), np.zeros(k)
        transitions = np.zeros((k, k))
        for t, label in enumerate(labels):
            coef[label] += x[t]
            bias[label] += self.intercept
        start[labels[0]] += self.boundary
        end[labels[-1]] += self.boundary
        for a, b in zip(labels[:-1], labels[1:], strict=True):
            transitions[a, b] += 1
        parts = (coef.ravel(), bias, start, end, transitions.ravel())
        return np.concatenate(parts)

    def loss(self, i, labels):
        """Of one labeling, or of each of several."""
        wrong = self.y[i] != np.asarray(labels)
        return (self.costs[self.y[i]] * wrong).sum(axis=-1) / self.lengths[i]

    def flatten(self, model):
        """Weights of a fitted estimator in this order."""
        return np.concatenate(
            [
                np.asarray(model.coef_).ravel(),
                model.intercept_,
                model.start_,
                model.end_,
                model.transitions_.ravel(),
            ]
        )

    def potentials(self, i, w):
        k, d = self.n_labels, self.n_features
        coef = w[: k * d].reshape(k, d)
        bias, start, end = w[k * d : k * (d + 3)].reshape(3, k)
        unary = self.X[i] @ coef.T + bias
        unary[0] += start
        unary[-1] += end
        return unary, w[k * (d + 3) :].reshape(k, k)

    def enumerate(self, i, w):
        """All labelings of a sequence, and their scores."""
        return enumerate_chain(*self.potentials(i, w))

    def hinge(self, i, w):
        """max_y L(y) + score(y) - score(y_i), by max-product in NumPy."""
        unary, pairwise = self.potentials(i, w)
        y = self.y[i]
        # one table for all places, or one for each
        tables = np.broadcast_to(pairwise, (len(y) - 1, *pairwise.shape[-2:]))
        true = unary[np.arange(len(y)), y].sum()
        true += tables[np.arange(len(y) - 1), y[:-1], y[1:]].sum()
        cost = self.costs[y] / self.lengths[i]
        augmented = unary + cost[:, None]
        augmented[np.arange(len(y)), y] -= cost
        best = augmented[0]
        for table, row in zip(tables, augmented[1:], strict=True):
            best = (best[:, None] + table).max(axis=0) + row
        return best.max() - true

    def primal(self, w, alpha):
        losses = [self.hinge(i, w) for i in range(len(self.X))]
        return alpha / 2 * (w @ w) + self.p @ losses

    def optimum(self, alpha, bounds=None):
        """Minimum by a general solver over all margin constraints."""
        n = len(self.X)
        rows, sides = [], []
        for i in range(n):
            y_true = self.feature_map(i, self.y[i])
            for labels in product(range(self.n_labels), repeat=len(self.y[i])):
                slack = np.zeros(n)
                slack[i] = 1
                psi = y_true - self.feature_map(i, labels)
                rows.append(np.concatenate([psi, slack]))
                sides.append(self.loss(i, labels))
        A, b = np.array(rows), np.array(sides)
        d = A.shape[1] - n
        limits = [(None, None)] * d if bounds is None else bounds
        result = minimize(
            lambda z: alpha / 2 * (z[:d] @ z[:d]) + self.p @ z[d:],
            np.concatenate([np.zeros(d), np.ones(n)]),
            jac=lambda z: np.concatenate([alpha * z[:d], self.p]),
            bounds=limits + [(None, None)] * n,
            constraints={
                "type": "ineq",
                "fun": lambda z: A @ z - b,
                "jac": lambda z: A,
            },
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        )
        assert result.success, result.message
        return result.fun


class PairChain(Chain):
    """A chain with weights of features on pairs of labels, after the others.

    They are those of the triples (feature, from, to) that were seen together.
    """

    def __init__(self, X, y, n_labels, columns, **options):
        super().__init__(X, y, n_labels, **options)
        triples = set()
        for x, labels in zip(self.X, self.y, strict=True):
            for t in range(1, len(labels)):
                for j in columns:
                    if x[t, j] != 0.0:
                        triples.add((j, int(labels[t - 1]), int(labels[t])))
        self.triples = sorted(triples)

    def feature_map(self, i, labels):
        x = self.X[i]
        pairs = [
            sum(
                x[t, j]
                for t in range(1, len(labels))
                if (labels[t - 1], labels[t]) == (a, b)
            )
            for j, a, b in self.triples
        ]
        return np.concatenate([super().feature_map(i, labels), pairs])

    def flatten(self, model):
        return np.concatenate([super().flatten(model), model.transition_coef_.data])

    def potentials(self, i, w):
        n = len(w) - len(self.triples)
        unary, pairwise = super().potentials(i, w[:n])
        tables = np.repeat(pairwise[None], len(self.y[i]) - 1, axis=0)
        for weight, (j, a, b) in zip(w[n:], self.triples, strict=True):
            tables[:, a, b] += weight * self.X[i][1:, j]
        return unary, tables


class TripleChain(PairChain):
    """A chain with weights of triples of labels, after all others.

    They are those that the labels have seen, or those given.
    """

    def __init__(self, X, y, n_labels, columns=(), seen=None, **options):
        super().__init__(X, y, n_labels, columns, **options)
        if seen is None:
            seen = {
                tuple(int(label) for label in row[t : t + 3])
                for row in self.y
                for t in range(len(row) - 2)
            }
        self.seen = sorted(seen)

    def counts(self, labelings):
        """How often each triple is in each labeling."""
        triples = np.stack([labelings[:, :-2], labelings[:, 1:-1], labelings[:, 2:]])
        equal = [
            (triples == np.reshape(triple, (3, 1, 1))).all(axis=0).sum(axis=1)
            for triple in self.seen
        ]
        return np.reshape(equal, (len(equal), -1)).T

    def feature_map(self, i, labels):
        counts = self.counts(np.reshape(labels, (1, -1))).ravel()
        return np.append(super().feature_map(i, labels), counts)

    def flatten(self, model):
        parts = [super(PairChain, self).flatten(model)]
        if self.triples:
            parts.append(model.transition_coef_.data)
        return np.concatenate([*parts, model.triples_.data])

    def enumerate(self, i, w):
        n = len(w) - len(self.seen)
        labelings, scores = enumerate_chain(*self.potentials(i, w[:n]))
        if self.seen:
            scores = scores + self.counts(labelings) @ w[n:]
        return labelings, scores

    def hinge(self, i, w):
        labelings, scores = self.enumerate(i, w)
        true = scores[(labelings == self.y[i]).all(axis=1)][0]
        return (scores + self.loss(i, labelings)).max() - true


def flat_weights(model, rng):
    """Random weights in the model's layout and in that of the reference."""
    w = np.zeros(model.n_weights)
    blocks = model.views(w)
    for block in blocks.values():
        block[...] = rng.normal(size=block.shape)
    return w, np.concatenate([np.ravel(block) for block in blocks.values()])


def smoothed_maximum(values, kind, strength, k):
    """The smoothed maximum of the values of all labelings, by its definition."""
    if kind == "entropy":
        return strength * logsumexp(values / strength)
    best = np.sort(values)[::-1][:k]
    u = project_simplex(best / strength)
    return u @ best - strength / 2 * (u @ u - 1)


def smooth_objective(chain, w, loss, *, augmented, known=None, allowed=None):
    """Mean smooth loss of a `Chain` by enumeration.

    `loss` is (kind, strength, k); of `known` positions only the labels count.
    """
    total = 0.0
    for i, y in enumerate(chain.y):
        labelings, values = chain.enumerate(i, w)
        if allowed is not None:
            keep = allowed(labelings)
            labelings, values = labelings[keep], values[keep]
        where = slice(None) if known is None else known[i]
        agrees = (labelings[:, where] == y[where]).all(axis=1)
        if augmented:
            values = values + chain.loss(i, labelings)
        y_true = values[agrees][0] if known is None else logsumexp(values[agrees])
        total += chain.p[i] * (smoothed_maximum(values, *loss) - y_true)
    return total


def optimum_of(features, losses, p, alpha, bounds=None):
    """Minimum of alpha/2 |w|^2 + sum_i p_i max_y by a general solver, over all margins.

    features[i] are the joint feature vectors of all outputs of example i, the observed
    one first, and losses[i] their losses.
    """
    n, d = len(features), features[0].shape[1]
    rows, sides = [], []
    for i, (phi, loss) in enumerate(zip(features, losses, strict=True)):
        slack = np.zeros((len(phi), n))
        slack[:, i] = 1
        rows.append(np.hstack([phi[0] - phi, slack]))
        sides.append(loss)
    A, b, p = np.concatenate(rows), np.concatenate(sides), np.asarray(p)
    lower, upper = (None, None) if bounds is None else bounds
    limits = [
        (None if lower is None else lower[k], None if upper is None else upper[k])
        for k in range(d)
    ]
    start = np.zeros(d) if lower is None else np.clip(np.zeros(d), lower, upper)
    result = minimize(
        lambda z: alpha / 2 * (z[:d] @ z[:d]) + p @ z[d:],
        np.concatenate([start, np.full(n, max(map(np.max, losses)))]),
        jac=lambda z: np.concatenate([alpha * z[:d], p]),
        bounds=limits + [(None, None)] * n,
        constraints={"type": "ineq", "fun": lambda z: A @ z - b, "jac": lambda z: A},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert result.success, result.message
    return result.fun
