"""All solvers end at the same optimum, which independent solvers confirm."""

import warnings
from functools import cache

import numpy as np
import pytest
from reference import Chain, PairChain
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from sksstruct import ChainCRF, LinearSSVC, SSVMClassifier
from sksstruct.datasets import make_chain
from sksstruct.losses import SmoothedHinge
from sksstruct.models import ELUScore
from sksstruct.solvers import (
    BCFW,
    BMRM,
    LBFGS,
    SOLVERS,
    SSG,
    SVRG,
    Casimir,
    FrankWolfe,
    Pragam,
    ProxLinear,
)

ALPHAS = (3.0, 0.8)


def registered(*oracles, losses, tol=1e-5, slow=(), **variants):
    """All registered solvers for some oracles, and some with other options.

    `slow` has those that need other limits than most.
    """
    limits = {"max_iter": 20_000, "tol": tol}
    names = SOLVERS.names(*oracles, losses=losses)
    found = {name: SOLVERS.resolve(name, **limits) for name in names}
    return {**found, **dict(slow), **variants}


HINGE = registered(
    "max",
    "projection",
    losses=("hinge",),
    slow={
        "auto": SOLVERS.resolve("auto", max_iter=20_000, tol=1e-6),
        "bcfw": BCFW.as_published(step="pairwise", max_iter=20_000, tol=1e-5),
        "fw": FrankWolfe(60_000, 2e-4),
        "ssg": SSG(90_000, 6e-5, check_every=500),
    },
    line_search=BMRM(60_000, 2e-4, inner="line_search"),
    printed=Pragam(20_000, 1e-5, restart=False),
)
SMOOTHING = registered(
    "exp",
    "topk",
    losses=("hinge",),
    slow={
        "casimir": Casimir(5000, 1e-4, k=30),
        "casimir_constant": Casimir(5000, 1e-4, schedule="constant", k=30),
        "svrg": SVRG(5000, 1e-4, k=30, epoch_size=50),
    },
    entropy=Casimir(5000, 1e-4, smoothing="entropy"),
    lipschitz=Casimir(5000, 1e-4, k=30, lipschitz=40.0),
    svrg_entropy=SVRG(5000, 1e-4, smoothing="entropy", epoch_size=50),
)
SMOOTH = registered(
    "exp",
    losses=("smooth",),
    tol=1e-6,
    extrapolation=Casimir(5000, 1e-6, start="extrapolation"),
    previous=Casimir(5000, 1e-6, start="previous"),
    accuracy=Casimir(5000, 1e-6, inner="accuracy"),
)


@cache
def sequences(task):
    """A chain problem, and a multiclass problem as sequences of one position.

    The task "pairs" is the chain with features on pairs of labels.
    """
    rng = np.random.RandomState(0)
    if task != "multiclass":
        y = [rng.randint(3, size=rng.randint(2, 4)) for _ in range(8)]
    else:
        y = [rng.randint(4, size=1) for _ in range(30)]
    n_classes = 4 if task == "multiclass" else 3
    X = [np.eye(n_classes)[row] + rng.normal(size=(len(row), n_classes)) for row in y]
    return X, y, n_classes


PAIRED = {"chain": None, "multiclass": None, "pairs": [0, 2]}
# solvers take features of pairs of labels as they take others, for any alpha
CASES = [("chain", 3.0), ("chain", 0.8), ("multiclass", 0.8), ("pairs", 3.0)]


def in_numpy(task):
    X, y, n_classes = sequences(task)
    if PAIRED[task] is None:
        return Chain(X, y, n_classes)
    return PairChain(X, y, n_classes, PAIRED[task])


@cache
def optimum(task, alpha):
    return in_numpy(task).optimum(alpha)


def fit(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # every solver reaches its tolerance
        return estimator.fit(X, y)


@pytest.mark.parametrize(("task", "alpha"), CASES)
@pytest.mark.parametrize("name", [*HINGE, *SMOOTHING])
def test_hinge(task, name, alpha):
    X, y, _ = sequences(task)
    solver = HINGE.get(name) or SMOOTHING[name]
    features = PAIRED[task]
    model = ChainCRF(alpha, solver=solver, transition_features=features, random_state=0)
    fit(model, X, y)
    best = optimum(task, alpha)
    reference = in_numpy(task)
    primal = reference.primal(reference.flatten(model), alpha)
    assert model.objective_ == pytest.approx(primal, rel=1e-9)
    assert abs(primal - best) <= 2e-4 * best
    # the certificate is a true one
    assert primal - best <= model.dual_gap_ * (1 + 1e-9) + 1e-9
    assert model.dual_gap_ <= solver.tol * reference.primal(
        np.zeros(len(reference.flatten(model))), alpha
    )


LOSSES = {
    "log": "log",
    "entropy": SmoothedHinge(mu=0.3),
    "l2": SmoothedHinge("l2", mu=0.5, k=27),
}


@cache
def smooth_optimum(task, loss, alpha):
    """L-BFGS to a gap of 1e-9, whose objective is compared with NumPy elsewhere."""
    X, y, _ = sequences(task)
    model = ChainCRF(alpha, loss=LOSSES[loss], solver=LBFGS(9000, 1e-9))
    return fit(model.set_params(transition_features=PAIRED[task]), X, y)


@pytest.mark.parametrize(("task", "alpha"), CASES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth(task, loss, name, alpha):
    if name in ("sdca", "partitioned") and loss == "l2":
        pytest.skip("distributions are smoothed by the entropy")
    X, y, _ = sequences(task)
    model = ChainCRF(alpha, loss=LOSSES[loss], solver=SMOOTH[name], random_state=0)
    fit(model.set_params(transition_features=PAIRED[task]), X, y)
    best = smooth_optimum(task, loss, alpha).objective_
    assert abs(model.objective_ - best) <= 1e-4 * best
    assert model.objective_ - best <= model.dual_gap_ + 1e-9


@cache
def points():
    rng = np.random.RandomState(1)
    y = rng.randint(2, size=60)
    X = rng.normal(size=(60, 5)) + 0.8 * (2 * y[:, None] - 1)
    return X, y


def svm_objective(X, y, alpha, w, b=0.0):
    margins = (2 * y - 1) * (X @ w + b)
    return alpha / 2 * (w @ w) + np.maximum(0.0, 1.0 - margins).mean()


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("name", HINGE)
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_binary(name, alpha, form):
    from scipy import sparse

    X, y = points()
    given = sparse.csr_array(X) if form == "csr" else X
    model = LinearSSVC(alpha, solver=HINGE[name], fit_intercept=False, random_state=0)
    fit(model, given, y)
    peer = LinearSVC(
        loss="hinge", C=1 / (60 * alpha), fit_intercept=False, tol=1e-10, max_iter=10**6
    )
    peer.fit(X, y)
    best = svm_objective(X, y, alpha, peer.coef_[0])
    primal = svm_objective(X, y, alpha, model.coef_[0])
    assert model.objective_ == pytest.approx(primal, rel=1e-9)
    assert abs(primal - best) <= 2e-4 * best


@pytest.mark.parametrize("alpha", ALPHAS)
def test_free_intercept(alpha):
    """Box and equality: against a general solver over weights, bias and slacks."""
    X, y = points()
    n, d = X.shape
    s = 2 * y - 1
    rows = np.hstack([s[:, None] * X, s[:, None], np.eye(n)])
    result = minimize(
        lambda z: alpha / 2 * (z[:d] @ z[:d]) + z[d + 1 :].mean(),
        np.concatenate([np.zeros(d + 1), np.ones(n)]),
        jac=lambda z: np.concatenate([alpha * z[:d], [0.0], np.full(n, 1 / n)]),
        bounds=[(None, None)] * (d + 1) + [(0, None)] * n,
        constraints={
            "type": "ineq",
            "fun": lambda z: rows @ z - 1.0,
            "jac": lambda z: rows,
        },
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-13},
    )
    assert result.success
    model = LinearSSVC(alpha, solver=Pragam(20_000, 1e-6), penalize_intercept=False)
    fit(model, X, y)
    primal = svm_objective(X, y, alpha, model.coef_[0], model.intercept_[0])
    assert model.objective_ == pytest.approx(primal, rel=1e-9)
    assert abs(primal - result.fun) <= 1e-4 * result.fun


def test_binary_smooth():
    """Two classes as a chain of one position, against L-BFGS on the logistic loss."""
    from sklearn.linear_model import LogisticRegression

    X, y = points()
    alpha = 0.3
    sequences = [row[None] for row in X]
    labels = [[label] for label in y]
    peer = LogisticRegression(C=2 / (60 * alpha), fit_intercept=False, tol=1e-10)
    peer.fit(X, y)
    for name in ("svrg", "casimir", "lbfgs"):
        model = ChainCRF(
            alpha,
            loss="log",
            fit_intercept=False,
            boundary=False,
            solver=SMOOTH[name],
            random_state=0,
        )
        fit(model, sequences, labels)
        # half of the difference of both classes' weights, each with its penalty
        w = model.coef_[1] - model.coef_[0]
        np.testing.assert_allclose(w, peer.coef_[0], atol=2e-3)


@pytest.mark.filterwarnings("ignore:training did not converge")
def test_long_sequences_bring_many_new_keys_at_once():
    data = make_chain(3, n_features=4, n_classes=4, max_length=400, random_state=0)
    found = [
        ChainCRF(
            100.0, solver=BCFW.as_published(cache=cache, max_iter=200), random_state=0
        ).fit(data.X, data.y)
        for cache in (False, True)
    ]
    for one, other in (found, found[::-1]):
        assert one.objective_ - one.dual_gap_ <= other.objective_
        assert one.dual_gap_ < 0.2 * one.objective_


LINEAR = SOLVERS.names("max", "topk", "exp", losses=("hinge",))
SMOOTHED = [SVRG(), Casimir(), SVRG(smoothing="entropy"), Casimir(smoothing="entropy")]
NONLINEAR = [ProxLinear(smoothing="entropy"), ProxLinear(inner="casimir")]
# of dependencies: sentences of one word have one tree
ONE_OUTPUT = [np.ones((2, 1)), np.full((2, 1), 3.0)], [[0], [0]]


@pytest.mark.parametrize(
    ("solver", "alpha"),
    [
        *((solver, 0.1) for solver in [*LINEAR, *SMOOTHED, *NONLINEAR]),
        *((solver, 0.0) for solver in [*SMOOTHED, *NONLINEAR]),
    ],
    ids=str,
)
def test_where_examples_have_one_output(solver, alpha):
    """There is nothing to learn, and any smoothing is that of a constant."""
    score = ELUScore(2) if solver in NONLINEAR else None
    model = SSVMClassifier("dependencies", solver=solver, score_function=score)
    model.set_params(alpha=alpha, random_state=0)
    assert model.fit(*ONE_OUTPUT).objective_ <= 1e-6


@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("solver", SMOOTHED, ids=str)
def test_where_some_examples_have_one_output(solver, alpha):
    """Also where those are the ones that steps are tried on."""
    model = SSVMClassifier("dependencies", solver=solver, alpha=alpha, random_state=0)
    X, y = [*ONE_OUTPUT[0], np.arange(6.0)[:, None]], [*ONE_OUTPUT[1], [2, 0]]
    best = SSVMClassifier("dependencies", alpha=alpha or 1e-6).fit(X, y).objective_
    assert model.fit(X, y).objective_ <= best + 2e-3
    # from these weights
    model.set_params(warm_start=True)
    assert model.fit(*ONE_OUTPUT).objective_ <= 1e-6


@pytest.mark.parametrize("solver", ["svrg", "casimir", "casimir_constant"])
def test_where_constraints_leave_one_labeling(solver):
    pairs = [(None, "b"), ("a", "a"), ("b", "b")]
    X, y = [np.eye(2), np.eye(3)[:, :2]], [["a", "b"], ["a", "b", "a"]]
    model = ChainCRF(solver=solver, forbidden_transitions=pairs, random_state=0)
    assert abs(model.fit(X, y).objective_) <= 1e-12 and model.dual_gap_ == 0.0
