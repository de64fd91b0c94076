"""Certificates with features of twelve decades, against long doubles."""

import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, SSVMClassifier

LONG = np.longdouble


def long_sum(values):
    """Logarithm of the sum of exponentials."""
    most = values.max()
    return most + np.log(np.exp(values - most).sum())


def mean_loss(scores, costs, truths, loss):
    """Of lists of the scores of all labelings, and their losses."""
    total = LONG(0)
    for values, cost, truth in zip(scores, costs, truths, strict=True):
        best = (values + cost).max() if loss == "hinge" else long_sum(values)
        total += best - values[truth]
    return total / len(scores)


def chain_objective(tagger, X, y, alpha, loss):
    parts = tagger.coef_, tagger.intercept_, tagger.transitions_
    parts = [
        np.asarray(part).astype(LONG) for part in (*parts, tagger.start_, tagger.end_)
    ]
    coef, bias, pairs, start, end = parts
    scores, costs, truths = [], [], []
    for x, labels in zip(X, y, strict=True):
        nodes = x.astype(LONG) @ coef.T + bias
        rows = list(product(range(len(bias)), repeat=len(labels)))
        scores.append(np.array([
            sum(nodes[t, k] for t, k in enumerate(row)) + start[row[0]] + end[row[-1]]
            + sum(pairs[a, b] for a, b in zip(row, row[1:], strict=False))
            for row in rows
        ], dtype=LONG))  # fmt: skip
        costs.append(np.array([np.sum(np.array(row) != labels) for row in rows]))
        truths.append(rows.index(tuple(labels.tolist())))
    square = sum((part * part).sum() for part in parts)
    return mean_loss(scores, costs, truths, loss) + LONG(alpha) / 2 * square


def class_objective(classifier, X, y, alpha, loss):
    weights = classifier.weights_.astype(LONG)
    coef, bias = classifier.coef_.astype(LONG), classifier.intercept_.astype(LONG)
    scores = X.astype(LONG) @ coef.T + bias
    costs = 1 - np.eye(len(bias))[y]
    return (
        mean_loss(scores, costs, y, loss) + LONG(alpha) / 2 * (weights * weights).sum()
    )


def problem(scale, seed, kind):
    """Some columns of features are large."""
    rng = np.random.default_rng(seed)
    n, d = rng.integers(4, 9), rng.integers(2, 5)
    factor = np.where(rng.random(d) < 0.5, scale, 1.0)
    if kind == "classes":
        y = np.concatenate([np.arange(3), rng.integers(0, 3, n)])
        return rng.standard_normal((len(y), d)) * factor, y
    lengths = rng.integers(1, 4, n)
    y = [rng.integers(0, 2, length) for length in lengths]
    y[0] = np.array([0, 1])
    return [rng.standard_normal((len(labels), d)) * factor for labels in y], y


@pytest.mark.parametrize("kind", ["chain", "classes"])
@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize("scale", 10.0 ** np.arange(0, 13, 3))
def test_certificates(kind, loss, scale):
    """No lower bound is above an objective, and objectives are those of the weights."""
    objective = chain_objective if kind == "chain" else class_objective
    solvers = {"hinge": ("auto", "fw", "bmrm"), "log": ("auto", "sdca", "lbfgs")}[loss]
    for seed in range(2):
        X, y = problem(scale, seed, kind)
        alpha = 10.0 ** -(seed + 1)
        values, bounds = [], []
        for solver in solvers:
            common = {"alpha": alpha, "loss": loss, "solver": solver, "random_state": 0}
            common |= {"max_iter": 50, "tol": 1e-6}
            made = SSVMClassifier("multiclass", **common)
            if kind == "chain":
                made = ChainCRF(loss_normalization=None, **common)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                try:
                    made.fit(X, y)
                except ValueError as error:  # refused, not wrong
                    assert "too large" in str(error)
                    continue
            value = float(objective(made, X, y, alpha, loss))
            assert made.objective_ == pytest.approx(value, rel=1e-6, abs=1e-9)
            values.append(value)
            bounds.append(made.objective_ - made.dual_gap_)
        if values:
            assert max(bounds) <= min(values) * (1 + 1e-6) + 1e-9
