"""Plain, slow and independent: what the compiled code is compared with."""

from itertools import product

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize

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


def enumerate_chain(unary, pairwise):
    """All labelings of a chain and their scores, in lexicographic order."""
    size, n_states = unary.shape
    labelings = np.array(list(product(range(n_states), repeat=size)))
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
        wrong = self.y[i] != np.asarray(labels)
        return float((self.costs[self.y[i]] * wrong).sum() / self.lengths[i])

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

    def hinge(self, i, w):
        """max_y L(y) + score(y) - score(y_i), by max-product in NumPy."""
        unary, pairwise = self.potentials(i, w)
        y = self.y[i]
        true = unary[np.arange(len(y)), y].sum() + pairwise[y[:-1], y[1:]].sum()
        cost = self.costs[y] / self.lengths[i]
        augmented = unary + cost[:, None]
        augmented[np.arange(len(y)), y] -= cost
        best = augmented[0]
        for row in augmented[1:]:
            best = (best[:, None] + pairwise).max(axis=0) + row
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
