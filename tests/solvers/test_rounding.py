"""Certificates with features of twelve decades, against long doubles."""

import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, SSVMClassifier
from sksstruct.models import MulticlassModel
from sksstruct.solvers import LBFGS
from sksstruct.solvers.core.base import Options
from sksstruct.solvers.core.box import Box
from sksstruct.solvers.core.certificate import GradientCertificate
from sksstruct.solvers.lbfgs import LBFGSLoop, Objective, run_lbfgs

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
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e9, 1e12])
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
            common |= {"max_iter": 30, "tol": 1e-6}
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


SCALED = [
    ("lbfgs", "log"),
    ("lbfgs", "smoothed_hinge"),
    ("sdca", "log"),
    ("svrg", "log"),
    ("svrg", "hinge"),
    ("bcfw", "hinge"),
]


@pytest.mark.parametrize(("solver", "loss"), SCALED)
def test_features_and_alpha_on_other_scales(solver, loss):
    """The same problem in other units: powers of two, so that nothing is rounded."""
    X, y = problem(1.0, 3, "classes")
    model = MulticlassModel(fit_intercept=False)

    def fit(scale):
        common = {"solver": solver, "loss": loss, "random_state": 0}
        made = SSVMClassifier(model, alpha=0.1 * scale**2, **common)
        return made.fit(X * scale, y)

    first = fit(1.0)
    assert first.dual_gap_ <= 1e-2 * np.log(3)
    for exponent in (-50, -17, 27, 100):
        made = fit(2.0**exponent)
        np.testing.assert_array_equal(made.coef_ * 2.0**exponent, first.coef_)
        assert made.dual_gap_ == first.dual_gap_
        assert made.n_iter_ == first.n_iter_


@pytest.mark.parametrize("kind", ["chain", "classes"])
@pytest.mark.parametrize("scale", [1e10, 1e15, 1e30])
def test_certificates_of_large_features(kind, scale):
    """Steps that L-BFGS only tries are far away, where dual values are rounding."""
    objective = chain_objective if kind == "chain" else class_objective
    for seed in range(3):
        X, y = problem(1.0, seed, kind)
        X = [x * scale for x in X] if kind == "chain" else X * scale
        common = {"alpha": 0.1 * scale**2, "loss": "log", "solver": "lbfgs"}
        made = SSVMClassifier("multiclass", **common)
        if kind == "chain":
            made = ChainCRF(loss_normalization=None, **common)
        made.fit(X, y)
        value, gap = float(objective(made, X, y, made.alpha, "log")), made.dual_gap_
        assert made.objective_ == pytest.approx(value, rel=1e-9)
        assert gap <= 1e-2 * value
        best = made.set_params(solver=LBFGS(tol=1e-8)).fit(X, y).objective_
        assert value - best <= gap + 1e-9 * value


class Logistic:
    """Mean logistic loss, as a `SmoothLoss` without a model."""

    convex, exact, support, unpenalized = True, 1.0, None, None

    def __init__(self, X):
        self.X, self.model = X, self
        self.n_examples, self.n_weights = X.shape

    def value_and_gradient(self, w, gradient, n_jobs):
        margins = self.X @ w
        losses = np.logaddexp(0.0, -margins)
        # one minus the probabilities
        gradient[:] = -(self.X.T @ np.exp(-margins - losses)) / len(self.X)
        return float(losses.mean())


def test_steps_in_a_box_follow_the_scale():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3)) + 0.5

    def fit(scale):
        box = Box(np.full(3, -np.inf), np.array([0.0, np.inf, np.inf]))
        alpha, solver, options = 0.1 * scale**2, LBFGS(tol=1e-6), Options()
        objective = Objective(Logistic(X * scale), box, alpha, options)
        return run_lbfgs(objective, LBFGSLoop(solver, alpha, options), 10)

    first = fit(1.0)
    assert first.dual_gap <= 1e-6 * first.objective
    assert first.weights[0] == 0.0
    for exponent in (-50, 100):
        result = fit(2.0**exponent)
        np.testing.assert_array_equal(result.weights * 2.0**exponent, first.weights)
        assert result.n_iter == first.n_iter


def test_dual_values_far_away_are_no_bounds():
    """Neither of weights that were only tried, nor where they are mostly rounding."""
    X = np.random.default_rng(0).standard_normal((20, 3)) + 0.5
    loss, gradient = Logistic(X), np.empty(3)
    objective = Objective(loss, None, 0.1, Options())
    box = Box(np.full(3, -np.inf), np.full(3, np.inf))
    objective.at(objective.start)
    objective.keep(objective.start)
    first = objective.best_dual
    objective.at(np.array([0.5, 0.2, 0.2]))
    assert objective.best_dual == first
    # the dual value at w = 0 is a bound: none that is far above it is
    for far in 10.0 ** np.arange(6, 13):
        for direction in np.eye(3):
            point = far * (direction + 0.1)
            objective.at(point)
            objective.keep(point)
            value = loss.value_and_gradient(point, gradient, None)
            value += 0.05 * point @ point
            for certificate in GradientCertificate(0.1), GradientCertificate(0.1, box):
                assert certificate.at(value, point, gradient)[0] <= np.log(2)
    assert first <= objective.best_dual <= np.log(2)
