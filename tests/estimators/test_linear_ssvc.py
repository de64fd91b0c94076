import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from sksstruct import LinearSSVC
from sksstruct.solvers import BCFW, BMRM, SSG, SVRG, Pragam

# Solved precisely, so that checks of equal results see the optimum and not the path.
PRECISE = {"alpha": 1.0, "tol": 1e-13}
PAIRWISE = BCFW.as_published(step="pairwise", averaging=False, tol=1e-13)


@parametrize_with_checks(
    [
        LinearSSVC(**PRECISE),
        LinearSSVC(penalize_intercept=False, alpha=1.0, tol=1e-10),
        LinearSSVC(solver="bmrm", **PRECISE),
    ]
)
def test_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.mark.parametrize("solver", ["pragam", PAIRWISE, "bcfw", "ssg"])
@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_classifiers_train,
        estimator_checks.check_estimators_dtypes,
        estimator_checks.check_estimators_pickle,
        estimator_checks.check_fit_idempotent,
        estimator_checks.check_methods_subset_invariance,
    ],
)
def test_scikit_learn_with_other_solvers(solver, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check("LinearSSVC", LinearSSVC(1.0, solver=solver, max_iter=50))


@pytest.fixture
def points():
    rng = np.random.RandomState(0)
    y = rng.randint(2, size=80)
    return rng.normal(size=(80, 4)) + 0.7 * (2 * y[:, None] - 1), y


def objective(model, X, y, weight=None):
    s = np.where(y == model.classes_[1], 1.0, -1.0)
    margins = s * (X @ model.coef_[0] + model.intercept_[0])
    penalty = model.coef_[0] @ model.coef_[0]
    if model.penalize_intercept:
        penalty += model.intercept_[0] ** 2
    weight = np.ones(len(y)) if weight is None else weight
    losses = weight @ np.maximum(0.0, 1.0 - margins) / len(y)
    return model.alpha / 2 * penalty + losses


@pytest.mark.parametrize("solver", ["auto", "pragam", "bmrm", "bcfw", "ssg", "fw"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("intercept", [True, False])
def test_objective_and_certificate(points, solver, form, intercept):
    X, y = points
    model = LinearSSVC(
        0.1, solver=solver, tol=1e-2, fit_intercept=intercept, random_state=0
    )
    model.fit(form(X), y)
    assert model.objective_ == pytest.approx(objective(model, X, y), rel=1e-9)
    assert 0 <= model.dual_gap_ <= 1e-2
    best = LinearSSVC(0.1, tol=1e-9, fit_intercept=intercept, random_state=0).fit(X, y)
    assert model.objective_ - best.objective_ <= model.dual_gap_ + 1e-8
    assert (model.intercept_[0] != 0) == intercept
    np.testing.assert_array_equal(
        model.predict(form(X)), model.classes_[(model.decision_function(X) > 0) * 1]
    )


@pytest.mark.parametrize("solver", ["auto", "pragam"])
def test_class_weight_is_a_factor_of_the_losses(points, solver):
    X, y = points
    model = LinearSSVC(
        0.1, solver=solver, tol=1e-8, class_weight={0: 3.0}, random_state=0
    ).fit(X, y)
    weight = np.where(y == 0, 3.0, 1.0)
    assert model.objective_ == pytest.approx(objective(model, X, y, weight), rel=1e-9)
    other = LinearSSVC(0.1, solver=solver, tol=1e-8, random_state=0)
    other.fit(X, y, sample_weight=weight)
    # scikit-learn's mean is over the weights of samples, not of classes
    scaled = LinearSSVC(0.1 * weight.mean() ** -1, tol=1e-8, random_state=0)
    scaled.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, scaled.coef_, atol=1e-3)
    zero = np.where(np.arange(80) < 40, 0.0, 1.0)
    half = LinearSSVC(0.1, solver=solver, tol=1e-8, random_state=0)
    np.testing.assert_allclose(
        half.fit(X, y, sample_weight=zero).coef_,
        LinearSSVC(0.1, tol=1e-8, random_state=0).fit(X[40:], y[40:]).coef_,
        atol=1e-3,
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_free_intercept_is_the_best_one(points, weighted):
    X, y = points
    weight = np.random.RandomState(3).uniform(size=80) if weighted else np.ones(80)
    model = LinearSSVC(0.1, penalize_intercept=False, tol=1e-8)
    model.fit(X, y, sample_weight=weight)
    share = weight / weight.mean()
    best = objective(model, X, y, share)
    assert model.objective_ == pytest.approx(best, rel=1e-9)
    for shift in (-1e-2, 1e-2):
        model.intercept_[0] += shift
        assert objective(model, X, y, share) >= best
        model.intercept_[0] -= shift


def test_what_does_not_fit_is_refused_at_once(points):
    X, y = points
    for solver in ("svrg", "lbfgs", SVRG(), "casimir"):
        with pytest.raises(ValueError, match=r"needs the oracle .*topk; this prob"):
            LinearSSVC(solver=solver).fit(X, y)
    for solver in ("bmrm", SSG(), BMRM()):
        with pytest.raises(ValueError, match="needs the oracle max") as error:
            LinearSSVC(solver=solver, penalize_intercept=False).fit(X, y)
        assert "Pragam only" in error.value.__notes__[0]
    with pytest.raises(ValueError, match="bounds"):
        LinearSSVC(solver=BCFW(bounds={"coef": (0, None)})).fit(X, y)
    with pytest.raises(ValueError, match="unknown solver 'no_such'"):
        LinearSSVC(solver="no_such").fit(X, y)
    for alpha in (0.0, -1.0, np.inf, np.nan, "small"):
        with pytest.raises(ValueError, match="alpha"):
            LinearSSVC(alpha).fit(X, y)
    with pytest.raises(ValueError, match="1 class"):
        LinearSSVC().fit(X, np.zeros(80))
    with pytest.raises(ValueError, match="Only binary"):
        LinearSSVC().fit(X, np.arange(80) % 3)
    with pytest.raises(ValueError, match="at least one non-zero"):
        LinearSSVC().fit(X, y, sample_weight=np.zeros(80))


def test_weights_that_make_no_sense(points):
    X, y = points
    for weight in ({0: np.nan}, {0: -1.0}, {0: np.inf}):
        with pytest.raises(ValueError, match=r"class_weight\[0\] must be finite"):
            LinearSSVC(class_weight=weight).fit(X, y)
    with pytest.raises(ValueError, match="not be all 0"):
        LinearSSVC(class_weight={0: 0.0, 1: 0.0}).fit(X, y)
    with (
        pytest.raises(ValueError, match="its sum overflows"),
        np.errstate(all="ignore"),
    ):
        LinearSSVC().fit(X, y, sample_weight=np.full(80, 1e308))


def test_search_over_the_solvers_parameters(points):
    X, y = points
    grid = {"alpha": [1.0, 0.01], "solver__lipschitz": ["adaptive", 1e4]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(LinearSSVC(solver=Pragam(100)), grid, cv=2).fit(X, y)
    assert set(search.best_params_) == set(grid)


@pytest.mark.parametrize("solver", ["auto", "pragam", "bmrm", "ssg", "fw"])
def test_callbacks(points, solver, capsys, callbacks):
    X, y = points
    pytest.importorskip("rich")
    monitor = callbacks.ScoringMonitor(
        scoring={"accuracy": make_scorer(accuracy_score)}
    )
    model = LinearSSVC(0.01, solver=solver, max_iter=12, tol=0.0, random_state=0)
    model.set_callbacks(monitor, callbacks.ProgressBar())
    with pytest.warns(ConvergenceWarning, match="duality gap is .* tolerance 0"):
        model.fit(X, y)
    assert model.n_iter_ <= 12


def test_verbose(points, capsys):
    X, y = points
    LinearSSVC(0.1, solver="bmrm", verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2 and "primal" in lines[0] and "gap" in lines[-1]


@pytest.mark.parametrize("solver", ["pragam", "bmrm", "ssg", "fw", "cutting_plane"])
def test_interrupted_fits_leave_a_model(points, solver, monkeypatch):
    X, y = points
    model = LinearSSVC(0.1, solver=solver, max_iter=50, tol=0.0, random_state=0)
    calls = []

    def interrupt(self, *args, **kwargs):
        calls.append(1)
        if len(calls) > 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(
        "sksstruct.estimators._callbacks.PassCallbacks.__call__", interrupt
    )
    with pytest.raises(KeyboardInterrupt, match="classifier can be used"):
        model.fit(X, y)
    assert model.n_iter_ >= 5
    assert model.score(X, y) > 0.6


@pytest.mark.parametrize("solver", ["dcd", "bcfw"])
@pytest.mark.parametrize("change", ["alpha", "weights", "classes", "cost"])
def test_warm_starts_end_at_the_optimum(points, solver, change):
    X, y = points
    options = {"solver": solver, "random_state": 0}
    warm = LinearSSVC(0.05, warm_start=True, tol=1e-4, **options).fit(X, y)
    n_first = warm.n_iter_
    assert warm.fit(X, y).n_iter_ <= n_first / 2
    params = {"alpha": {"alpha": 0.2}, "cost": {"class_weight": {0: 0.1, 1: 3.0}}}
    params, weight = params.get(change, {}), None
    if change == "weights":
        weight = np.linspace(0.1, 3.0, len(y))
    y = 1 - y if change == "classes" else y
    warm.set_params(**params).fit(X, y, sample_weight=weight)
    best = LinearSSVC(0.05, tol=1e-9, random_state=0).set_params(**params)
    best.fit(X, y, sample_weight=weight)
    assert warm.objective_ >= best.objective_ - best.dual_gap_ - 1e-12
    assert warm.objective_ - warm.dual_gap_ <= best.objective_ + 1e-12
    assert warm.dual_gap_ <= 1e-3


def test_a_warm_start_of_a_solver_that_has_none(points):
    X, y = points
    warm = LinearSSVC(0.05, solver="pragam", warm_start=True, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="training starts from zero"):
        warm.fit(X, y)
