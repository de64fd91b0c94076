"""Solvers that keep weights in the box that oracles need, by projected steps."""

import sys
import warnings
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sksstruct import SSVMClassifier
from sksstruct.datasets import make_stick_figures
from sksstruct.models import PartsModel
from sksstruct.solvers import BMRM, LBFGS, SGD, SSG, SVRG, Casimir, CuttingPlane
from sksstruct.solvers.core.box import Box, least
from sksstruct.solvers.core.certificate import GradientCertificate

sys.path.insert(0, str(Path(__file__).parents[1]))
from problems import PROBLEMS

ALPHA = 0.05
HINGE = {
    "bmrm": (BMRM(500, 1e-6), 1e-6),
    "line_search": (BMRM(3000, 5e-3, inner="line_search"), 5e-3),
    "cutting_plane": (CuttingPlane(500, 1e-4), 1e-4),
    "ssg": (SSG(500, 0.0, check_every=50), 0.02),
    "decay": (SSG(500, 0.0, check_every=50, step_size="constant_then_decay"), 0.02),
    "casimir": (Casimir(15, 0.0, k=8), 0.01),
}
BOUNDED = ["cut, edge features: True", "parts"]


def fit(name, solver, **parameters):
    model, X, y, _ = PROBLEMS[name]
    classifier = SSVMClassifier(model, alpha=ALPHA, solver=solver, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return classifier.set_params(**parameters).fit(X, y)


@cache
def optimum(name):
    model = fit(name, BMRM(2000, 1e-8))
    peer = fit(name, "bcfw", tol=1e-3, max_iter=5000)
    # a different method, within its certificate
    assert 0 <= peer.objective_ - model.objective_ + 1e-7 <= peer.dual_gap_ + 1e-6
    return model.objective_


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("solver", HINGE)
def test_hinge(name, solver):
    solver, tol = HINGE[solver]
    model, best = fit(name, solver), optimum(name)
    assert -1e-7 <= model.objective_ - best <= tol
    assert model.objective_ - best <= model.dual_gap_ + 1e-7


@pytest.mark.parametrize(
    "solver", [SVRG(100, 1e-4), SGD(200, 1e-3), Casimir(200, 1e-4)], ids=repr
)
def test_likelihood(solver):
    """Against L-BFGS-B, whose gap is the certificate."""
    best = fit("parts", LBFGS(500, 1e-6), loss="log")
    model = fit("parts", solver, loss="log")
    assert best.dual_gap_ <= 1e-5
    assert -2e-5 <= model.objective_ - best.objective_ <= 0.02 * best.objective_
    assert model.objective_ - best.objective_ <= model.dual_gap_ + 2e-5


def test_least():
    """The minimum over a box, against a grid."""
    rng = np.random.RandomState(0)
    grid = np.linspace(-3, 3, 601)
    for _ in range(20):
        g, alpha = rng.normal(size=3), rng.uniform(0.2, 2.0)
        lower = np.where(rng.rand(3) < 0.5, -np.inf, rng.uniform(-1, 1, size=3))
        upper = np.where(rng.rand(3) < 0.5, np.inf, np.maximum(lower, 0) + 0.5)
        value = 0.0
        for k in range(3):
            points = np.append(grid, [lower[k], upper[k], -g[k] / alpha])
            points = points[(points >= lower[k]) & (points <= upper[k])]
            points = points[np.isfinite(points)]
            value += (g[k] * points + alpha / 2 * points**2).min()
        assert least(g, alpha, Box(lower, upper)) == pytest.approx(value)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["casimir", "ssg", "bmrm"])
def test_weights_beyond_whole_rows(solver):
    """The last springs share a row of lazy weights with nothing, and have bounds."""
    data = make_stick_figures(2, random_state=0)
    X = [image[..., None] for image in data.images]
    classifier = SSVMClassifier(
        PartsModel(data.bones), solver=solver, max_iter=3, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(X, list(data.joints))
    assert (classifier.quadratic_ >= 0.0).all()


def test_gradients_out_of_the_box_do_not_count():
    """Without regularization a weight at its bound is done if it would leave."""
    box = Box(np.array([0.0, -np.inf]), np.array([np.inf, np.inf]))
    certificate = GradientCertificate(0.0, box)
    first = certificate.at(1.0, np.array([1.0, 0.0]), np.array([0.5, 0.0]))
    assert first == (-np.inf, 1.0)
    at_bound = certificate.at(1.0, np.array([0.0, 0.0]), np.array([0.5, 0.0]))
    assert at_bound == (-np.inf, 0.0)
    inwards = certificate.at(1.0, np.array([0.0, 0.0]), np.array([-0.25, 0.0]))
    assert inwards == (-np.inf, 0.5)


def test_dual_values_with_bounds_that_are_far_away():
    """They are differences of large numbers, but never above the exact ones."""
    rng = np.random.RandomState(0)
    for _ in range(1000):
        n, alpha = rng.randint(1, 6), 10.0 ** rng.uniform(-12, 3)
        w = rng.normal(size=n) * 10.0 ** rng.uniform(-3, 6)
        # half of the weights are at a bound, and none of the others is far from optimal
        active = rng.uniform(size=n) < 0.5
        lower = np.where(active, w, w - abs(w) * rng.uniform(size=n))
        noise = rng.normal(size=n) * 10.0 ** rng.uniform(-16, 0) * alpha * abs(w)
        slope = np.where(active, rng.uniform(size=n) * 10.0 ** rng.uniform(-3, 6, n), 0)
        gradient = -alpha * w + slope + noise
        primal = rng.uniform() + alpha / 2 * float(w @ w)
        box = Box(lower, np.full(n, np.inf))
        found = GradientCertificate(alpha, box).at(primal, w, gradient)[0]
        exact, a = Fraction(primal), Fraction(alpha)
        for g, v, low in zip(gradient, w, lower, strict=True):
            g, v, least = Fraction(g), Fraction(v), Fraction(low)
            least = max(-g / a, least)
            exact -= g * v + a / 2 * v * v - g * least - a / 2 * least * least
        assert Fraction(found) <= exact
