"""alpha = 0: the likelihood alone, against other solvers; and who refuses it."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from sksstruct import ChainCRF, SSVMClassifier
from sksstruct.solvers import LBFGS, SGD, SVRG, Casimir


@pytest.fixture(scope="module")
def points():
    """Two classes that no hyperplane separates, and the likelihood's optimum."""
    rng = np.random.RandomState(0)
    y = rng.randint(2, size=150)
    X = rng.normal(size=(150, 3)) + 0.7 * y[:, None]
    peer = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10).fit(X, y)
    margins = (2 * y - 1) * (X @ peer.coef_[0])
    return X, y, np.logaddexp(0.0, -margins).mean(), peer.coef_[0]


def fit(X, y, solver, **parameters):
    tagger = ChainCRF(
        0.0, fit_intercept=False, boundary=False, solver=solver, random_state=0
    )
    return tagger.set_params(**parameters).fit([x[None] for x in X], y[:, None])


@pytest.mark.parametrize(
    "solver",
    [
        LBFGS(500, 1e-5),
        SVRG(300, 1e-4),
        Casimir(300, 1e-4),
        Casimir(300, 1e-4, schedule="constant"),
    ],
    ids=["lbfgs", "svrg", "casimir", "casimir_constant"],
)
def test_likelihood(points, solver):
    X, y, best, w = points
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = fit(X, y, solver, loss="log")
    assert model.objective_ == pytest.approx(best, rel=5e-6)
    np.testing.assert_allclose(model.coef_[1] - model.coef_[0], w, atol=1e-2)
    # there is no dual: only the gradient tells
    assert model.dual_gap_ == np.inf
    assert (model.history_["dual"] == -np.inf).all()


def test_gradient_descent(points):
    X, y, best, _ = points
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fit(X, y, SGD(100, 1e-4), loss="log")
    assert best - 1e-9 <= model.objective_ <= best + 0.01


@pytest.mark.parametrize(
    "solver",
    [
        Casimir(200, 1e-3),
        Casimir(200, 1e-3, schedule="constant"),
        Casimir(200, 1e-3, lipschitz=20.0),
        SVRG(200, 1e-3),
    ],
    ids=["casimir", "casimir_constant", "lipschitz", "svrg"],
)
def test_hinge(points, solver):
    """Corollaries 19 and 20, against a linear program."""
    from scipy.optimize import linprog

    X, y, _, _ = points
    n, d = X.shape
    rows = np.hstack([-(2 * y - 1)[:, None] * X, -np.eye(n)])
    cost = np.concatenate([np.zeros(d), np.full(n, 1.0 / n)])
    best = linprog(cost, rows, -np.ones(n), bounds=[(None, None)] * d + [(0, None)] * n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fit(X, y, solver)
    assert best.fun - 1e-9 <= model.objective_ <= best.fun * 1.02
    assert model.dual_gap_ == np.inf


@pytest.mark.parametrize("solver", ["bcfw", "bmrm", "ssg", "cutting_plane"])
def test_who_needs_regularization(points, solver):
    X, y, _, _ = points
    with pytest.raises(ValueError, match="needs alpha > 0"):
        fit(X, y, solver)


def test_auto_is_a_solver_that_needs_no_regularization():
    X, y = load_iris(return_X_y=True)
    for loss, name in (("log", "LBFGS"), ("hinge", "Casimir")):
        classifier = SSVMClassifier(alpha=0, loss=loss, max_iter=3, random_state=0)
        # there is no gap to speak of
        with pytest.warns(ConvergenceWarning, match="alpha=0 leaves no duality gap"):
            classifier.fit(X, y)
        assert type(classifier.solver_).__name__ == name
        assert classifier.dual_gap_ == np.inf


def test_streams_need_regularization():
    with pytest.raises(ValueError, match="alpha > 0"):
        ChainCRF(alpha=0).partial_fit([[[1.0], [0.0]]], [[0, 1]], classes=[0, 1])
