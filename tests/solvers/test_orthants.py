"""L-BFGS with an l1 penalty: optima by another optimizer, certificates, refusals."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import Chain, smooth_objective
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF
from sksstruct.datasets import make_chain
from sksstruct.solvers import LBFGS, SDCA, lbfgs
from sksstruct.solvers.core.orthants import penalized_slope


def problem(seed):
    data = make_chain(
        4, n_classes=2, n_features=3, max_length=4, noise=2.0, random_state=seed
    )
    X, y = list(data.X), [np.array(row) for row in data.y]
    y[0][0], y[1][0] = 0, 1  # at least two labels
    return X, y


def objective_of(chain, w, alpha, l1):
    """By enumeration."""
    loss = smooth_objective(chain, w, ("entropy", 1.0, 1), augmented=False)
    return loss + alpha / 2 * w @ w + l1 * np.abs(w).sum()


def optimum(chain, size, alpha, l1):
    """Positive and negative parts as weights of their own, by scipy's L-BFGS-B."""

    def objective(parts):
        w = parts[:size] - parts[size:]
        smooth = objective_of(chain, w, alpha, 0.0)
        return smooth + l1 * parts.sum()

    bounds = [(0, None)] * 2 * size
    found = minimize(objective, np.zeros(2 * size), method="L-BFGS-B", bounds=bounds)
    return found.fun


@pytest.mark.parametrize(("alpha", "l1_ratio"), [(0.08, 0.4), (0.05, 1.0), (0.3, 1.0)])
@pytest.mark.parametrize("seed", [0, 1])
def test_optimum(alpha, l1_ratio, seed):
    X, y = problem(seed)
    tagger = ChainCRF(alpha, l1_ratio=l1_ratio, loss="log", solver=LBFGS(tol=1e-6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        tagger.fit(X, y)
    chain = Chain(X, y, 2, costs=np.zeros(2))
    w = chain.flatten(tagger)
    square, l1 = alpha * (1 - l1_ratio), alpha * l1_ratio
    value = objective_of(chain, w, square, l1)
    assert tagger.objective_ == pytest.approx(value, rel=1e-9)
    best = optimum(chain, len(w), square, l1)
    assert best * (1 - 1e-6) <= value <= best * (1 + 1e-4)
    # a bound at every iteration, with and without a squared norm
    bounds = tagger.history_["primal"] - tagger.history_["gap"]
    assert (bounds <= best * (1 + 1e-6)).all()
    assert 0.0 <= tagger.dual_gap_ < 1e-3 * value
    assert (w == 0.0).any()


def test_the_same_as_dual_ascent():
    data = make_chain(25, n_classes=4, n_features=6, random_state=0)
    common = {"l1_ratio": 0.7, "loss": "log", "all_possible_states": False}
    taggers = [
        ChainCRF(0.02, solver=solver, random_state=0, **common).fit(data.X, data.y)
        for solver in (LBFGS(tol=1e-6), SDCA(tol=1e-6))
    ]
    values = [tagger.objective_ for tagger in taggers]
    assert values[0] == pytest.approx(values[1], rel=1e-5)
    for name in ("coef_", "transitions_"):
        found, expected = (getattr(tagger, name) for tagger in taggers)
        np.testing.assert_allclose(found, expected, atol=0.01)


def test_the_solver_of_an_l1_penalty_alone():
    data = make_chain(25, n_classes=4, n_features=6, random_state=0)
    tagger = ChainCRF(0.02, l1_ratio=1.0, loss="log").fit(data.X, data.y)
    assert isinstance(tagger.solver_, LBFGS)
    with pytest.raises(ValueError, match="alpha > 0"):
        ChainCRF(0.02, l1_ratio=1.0, loss="log", solver="sdca").fit(data.X, data.y)


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=3, max_size=3),
    st.lists(st.floats(-2, 2), min_size=3, max_size=3),
    st.floats(0.1, 1.0),
)
def test_the_slope_is_that_of_steepest_descent(x, slope, l1):
    """No other direction of its length goes down faster."""
    x, slope = np.array(x), np.array(slope)
    found = penalized_slope(x, slope, l1)

    def fall(direction):
        at_zero = np.abs(direction[x == 0.0]).sum()
        return slope @ direction + l1 * (np.sign(x) @ direction + at_zero)

    norm = np.linalg.norm(found)
    assert fall(-found) == pytest.approx(-(norm**2), abs=1e-12)
    for direction in np.random.default_rng(0).normal(size=(50, 3)):
        assert fall(direction) >= -norm * np.linalg.norm(direction) - 1e-12


@pytest.mark.parametrize("kind", ["bounds", "unpenalized"])
def test_other_weights_are_refused(kind, monkeypatch):
    data = make_chain(5, n_classes=2, random_state=0)
    if kind == "bounds":
        monkeypatch.setattr(lbfgs.Box, "of", lambda model: object())
    else:
        loss = SimpleNamespace(unpenalized=np.array([0]))
        monkeypatch.setattr(LBFGS, "smooth_loss", lambda self, model: loss)
    tagger = ChainCRF(0.1, l1_ratio=0.5, loss="log", solver="lbfgs")
    with pytest.raises(ValueError, match="no l1 penalty for models with bounds"):
        tagger.fit(data.X, data.y)
