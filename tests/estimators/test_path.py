"""The regularization path: its guarantee, its cost, and the choice of alpha."""

import pickle
import threading
import time
import warnings

import numpy as np
import pytest
from problems import PROBLEMS
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from sksstruct import (
    ChainCRF,
    LinearSSVC,
    SSVMClassifier,
    SSVMPathCV,
    Tagger,
    make_tagger,
    ssvm_path,
)
from sksstruct.datasets import make_chain
from sksstruct.estimators._path_folds import Fold
from sksstruct.estimators._train import prepare
from sksstruct.metrics import chunk_f1_scorer
from sksstruct.models import RelaxedGraphModel
from sksstruct.models.chain._sparse_training import SparseBoundChain
from sksstruct.models.protocols._bound_model import WeightsFull
from sksstruct.solvers import BCFW, GDMM
from sksstruct.solvers.core.base import Options
from sksstruct.solvers.core.risk import Risk
from sksstruct.solvers.frank_wolfe.bcfw import BCFWState
from sksstruct.utils.packed import PackedSequences


@parametrize_with_checks(
    [SSVMPathCV(SSVMClassifier(random_state=0), alphas=[1.0, 0.1], cv=2)],
    expected_failed_checks=lambda _: {
        f"check_sample_weight_equivalence_on_{kind}_data": "other folds, other alpha"
        for kind in ("dense", "sparse")
    },
)
def test_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def chain():
    data = make_chain(25, n_features=4, max_length=6, random_state=0)
    return ChainCRF(0.02, loss_normalization="sequence", random_state=0), data.X, data.y


def binary():
    rng = np.random.RandomState(1)
    y = rng.randint(2, size=60)
    return LinearSSVC(random_state=0), rng.normal(size=(60, 3)) + y[:, None], y


def costs():
    X, y = load_iris(return_X_y=True)
    classifier = SSVMClassifier(class_weight={0: 3.0, 2: 0.5}, random_state=0)
    return classifier, X[::3], y[::3]


def structured(name):
    def make():
        model, X, y, _ = PROBLEMS[name]
        return SSVMClassifier(model, random_state=0), X, y

    return make


TASKS = {
    "chain": chain,
    "binary": binary,
    "class weights": costs,
    "cut": structured("cut, edge features: True"),
    "parts": structured("parts"),
    "costs": structured("multiclass"),
}
SOLVERS = {
    "auto": "auto",
    "plain": BCFW(),
    "cached": BCFW.as_published(
        cache=True, sampling="uniform", step="away", cached_passes=1
    ),
    "gap": BCFW.as_published(step="pairwise", sampling="gap", inner_steps=4),
}


def objective(estimator, X, y, weights, alpha):
    """Primal objective at flat weights, by the model."""
    model = prepare(clone(estimator).set_params(alpha=alpha), X, y).model
    return alpha / 2 * weights @ weights + Risk(model).value(weights)


def optimum(estimator, X, y, alpha):
    """Bounds of the optimum, from below and above, by an independent, long run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = clone(estimator).set_params(
            alpha=alpha, solver="auto", tol=1e-4, max_iter=300
        )
        fitted.fit(X, y)
    return fitted.objective_ - fitted.dual_gap_, fitted.objective_


def lower_bound(estimator, X, y, alpha):
    return optimum(estimator, X, y, alpha)[0]


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("task", TASKS)
def test_guarantee(task, solver, relative):
    """At any alpha the weights are at most epsilon above the optimum."""
    if relative and solver in ("plain", "gap"):
        pytest.skip("the certificate is the same for all solvers")
    estimator, X, y = TASKS[task]()
    estimator.set_params(solver=SOLVERS[solver])
    epsilon = 0.1 if relative else 0.05
    # weights confined to a box train slowly for small alpha
    alpha_min = 5e-2 if task in ("parts", "cut") else 3e-3
    path = ssvm_path(
        estimator, X, y, epsilon=epsilon, alpha_min=alpha_min, relative=relative
    )
    assert path.converged.all()
    # the segments follow each other without a hole
    assert path.upper[0] == np.inf
    np.testing.assert_array_equal(path.upper[1:], path.lower[:-1])
    assert (path.lower < path.upper).all() and path.lower[-1] <= alpha_min
    assert (path.lower <= path.alphas).all() and (path.alphas <= path.upper).all()
    rng = np.random.RandomState(0)
    ends = np.log([alpha_min, 10 * path.alphas[0]])
    alphas = np.exp(rng.uniform(*ends, size=4))
    for alpha in [*alphas, *path.lower[path.lower >= alpha_min][:2]]:
        value = objective(estimator, X, y, path.weights(alpha), alpha)
        allowed = epsilon * value if relative else epsilon
        assert value - lower_bound(estimator, X, y, alpha) <= allowed + 1e-9


@pytest.mark.slow
def test_a_relative_epsilon_is_met_by_weights_that_have_learned():
    """Where losses are rare, weights that ignore the data are near the optimum."""
    rng = np.random.RandomState(0)
    X = [rng.normal(size=(20, 30)) for _ in range(60)]
    # one position in a hundred
    y = [(x[:, 0] > 2.3).astype(int) for x in X]
    estimator = ChainCRF(0.02, random_state=0)
    best = optimum(estimator, X, y, 1e-3)[1]
    for relative in (True, False):
        path = ssvm_path(estimator, X, y, alpha_min=1e-3, relative=relative)
        value = objective(estimator, X, y, path.weights(1e-3), 1e-3)
        assert (value <= 1.12 * best) == relative
    # whatever the unit of the loss is
    costly = clone(estimator).set_params(class_weight={0: 100.0, 1: 100.0})
    scaled = ssvm_path(costly, X, y, alpha_min=1e-5)
    path = ssvm_path(estimator, X, y, alpha_min=1e-3)
    assert abs(len(scaled) - len(path)) <= 1


@pytest.mark.slow
def test_gaps_are_those_of_the_weights():
    estimator, X, y = chain()
    # below that the passes of the default may not be enough, as rounding goes
    path = ssvm_path(estimator, X, y, epsilon=0.05, alpha_min=1e-4, relative=False)
    for alpha, value, gap in zip(path.alphas, path.objectives, path.gaps, strict=True):
        assert objective(estimator, X, y, path.weights(alpha), alpha) == (
            pytest.approx(value, rel=1e-9)
        )
        assert value - gap <= optimum(estimator, X, y, alpha)[1] + 1e-9
        assert gap <= 0.9 * 0.05
    assert (np.diff(path.oracle_calls) > 0).all()
    assert (np.diff(path.seconds) >= 0).all()


@pytest.mark.slow
def test_kappa_and_epsilon():
    """Smaller kappa makes longer segments; they are O(sqrt(epsilon)) long."""
    estimator, X, y = chain()

    def path(epsilon, kappa):
        return ssvm_path(
            estimator,
            X,
            y,
            epsilon=epsilon,
            relative=False,
            kappa=kappa,
            alpha_min=1e-3,
        )

    counts = {kappa: len(path(0.01, kappa)) for kappa in (0.1, 0.95)}
    assert counts[0.1] < counts[0.95]
    few, many = (len(path(e, None)) for e in (0.1, 0.001))
    assert many < 15 * few  # 100 times as many where it is O(1 / epsilon)


def test_first_segment_is_scaled():
    estimator, X, y = chain()
    path = ssvm_path(estimator, X, y)
    alpha = 7.0 * path.alphas[0]
    np.testing.assert_allclose(
        path.weights(alpha), path.weights(path.alphas[0]) / 7.0, rtol=1e-12
    )
    assert not path.weights(np.inf).any()
    for bad in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="positive"):
            path.weights(bad)


def test_it_ends_where_nothing_changes_any_more():
    """Separable: the last weights are good for all smaller alphas."""
    X, y = load_iris(return_X_y=True)
    X, y = X[y < 2], y[y < 2]
    estimator, options = SSVMClassifier(random_state=0), {"relative": False}
    path = ssvm_path(estimator, X, y, alpha_min=1e-12, **options)
    assert path.lower[-1] == 0.0
    assert path.estimator(1e-9).score(X, y) == 1.0
    noise = np.random.RandomState(0).normal(size=(40, 2))
    path = ssvm_path(estimator, noise, np.arange(40) % 2, alpha_min=1e-5, **options)
    assert 0 < path.lower[-1] <= 1e-5
    with pytest.raises(ValueError, match="where the path ends"):
        path.weights(1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_heuristic(solver):
    """Cheaper than the exact one, and almost as good."""
    estimator, X, y = chain()
    estimator.set_params(solver=SOLVERS[solver])
    options = {"epsilon": 0.05, "kappa": 0.7, "alpha_min": 3e-3, "relative": False}
    exact = ssvm_path(estimator, X, y, **options)
    path = ssvm_path(estimator, X, y, method="heuristic", **options)
    # here the two are close for "auto", and rounding decides which takes a check more
    assert path.oracle_calls[-1] < 1.2 * exact.oracle_calls[-1]
    # gap sampling leaves most examples with old estimates
    factor = 8 if solver == "gap" else 3
    for alpha in path.alphas:
        value = objective(estimator, X, y, path.weights(alpha), alpha)
        assert value - lower_bound(estimator, X, y, alpha) <= factor * 0.05


def logistic():
    estimator, X, y = chain()
    return estimator.set_params(loss="log", tol=0.02, max_iter=3000), X, y


def unknown_labels():
    estimator, X, y = chain()
    y = [[None if t and (i + t) % 5 == 0 else v for t, v in enumerate(labels)]
         for i, labels in enumerate(y)]  # fmt: skip
    return estimator.set_params(loss="log", tol=0.02), X, y


@pytest.mark.parametrize("task", [chain, binary, logistic, unknown_labels])
def test_grid(task):
    """Every segment is as good as a fit at its alpha."""
    estimator, X, y = task()
    path = ssvm_path(estimator, X, y, method="grid", alphas=[0.1, 1, 0.01])
    assert path.alphas.tolist() == [1, 0.1, 0.01]
    assert path.converged.all()
    for j, alpha in enumerate(path.alphas):
        direct = clone(estimator).set_params(alpha=alpha).fit(X, y)
        assert path.objectives[j] >= direct.objective_ - direct.dual_gap_ - 1e-9
        assert direct.objective_ >= path.objectives[j] - path.gaps[j] - 1e-9
        if np.isfinite(direct.dual_gap_):
            assert path.gaps[j] <= path.targets[j]


def test_the_default_grid_is_around_the_alpha_of_the_estimator():
    estimator, X, y = chain()
    path = ssvm_path(estimator.set_params(alpha=0.1), X, y, method="grid")
    np.testing.assert_allclose(path.alphas, 0.1 * 2.0 ** np.arange(5, -8, -1))
    path = ssvm_path(estimator, X, y, method="grid", alpha_min=0.9)
    assert path.alphas[-1] == 1.6
    path = ssvm_path(estimator, X, y)
    assert path.lower[-1] <= 0.1 * 2.0**-7 < path.lower[-2]
    with pytest.raises(ValueError, match="must be positive for the default grid"):
        ssvm_path(logistic()[0].set_params(alpha=0), X, y, method="grid")


@pytest.mark.slow
def test_a_grid_starts_from_the_alpha_before():
    """It takes fewer passes than fits from zero, for each kind of warm start."""
    alphas = 0.4 * 2.0 ** -np.arange(8)
    for task, solver in (
        (chain, "auto"), (chain, "cutting_plane"), (logistic, "sdca"),
        (logistic, "lbfgs"),
    ):  # fmt: skip
        estimator, X, y = task()
        estimator.set_params(solver=solver)
        path = ssvm_path(estimator, X, y, method="grid", alphas=alphas)
        fits = [clone(estimator).set_params(alpha=a).fit(X, y) for a in alphas]
        cold = sum(fitted.n_iter_ for fitted in fits)
        assert path.n_iter[-1] < 0.9 * cold, (solver, path.n_iter[-1], cold)
        assert path.oracle_calls[-1] >= path.n_iter[-1]


@pytest.mark.parametrize("kind", ["chain", "cycles"])
def test_grid_of_dual_decomposition(kind):
    """Every segment is as good as a fit from the start, and takes fewer passes."""
    solver, alphas = GDMM(1000, 1e-2, check_every=5), [0.1, 0.07, 0.05]
    if kind == "chain":
        estimator, X, y = chain()
        estimator.set_params(solver=solver)
    else:
        rng = np.random.RandomState(0)
        cycle = [(0, 1), (1, 2), (2, 3), (3, 0)]
        X = [(rng.standard_normal((4, 3)), cycle) for _ in range(8)]
        y = [x[0].argmax(axis=1).tolist() for x in X]
        estimator = SSVMClassifier(RelaxedGraphModel(), solver=solver, random_state=0)
    path = ssvm_path(estimator, X, y, method="grid", alphas=alphas)
    assert path.alphas.tolist() == alphas
    assert (path.gaps <= path.targets).all() and path.converged.all()
    passes = 0
    for j, alpha in enumerate(alphas):
        cold = clone(estimator).set_params(alpha=alpha)
        passes += cold.fit(X, y).n_iter_
        assert path.objectives[j] - path.gaps[j] <= cold.objective_ + 1e-9
        assert path.objectives[j] >= cold.objective_ - cold.dual_gap_ - 1e-9
        # attributes are those of every segment, whatever pairs were met since
        fitted = path.estimator(alpha)
        other = clone(estimator).set_params(alpha=alpha, solver="auto")
        model = prepare(other, X, y).model
        weights = fitted.weights_ if kind == "cycles" else np.zeros(model.n_weights)
        if kind == "chain":
            for name, view in model.views(weights).items():
                value = getattr(fitted, f"{name}_")
                view[...] = value.toarray() if name == "transitions" else value
        value = objective(other, X, y, weights, alpha)
        assert path.objectives[j] - path.gaps[j] <= value <= path.objectives[j] + 1e-9
        assert value > path.objectives[j] - (1e-9 if kind == "chain" else 1e-3)
    assert path.n_iter[-1] < passes
    with pytest.raises(ValueError, match="method='grid'"):
        ssvm_path(estimator, X, y)


def test_estimators_of_the_path():
    estimator, X, y = chain()
    packed = PackedSequences.from_lengths(np.concatenate(X), [len(x) for x in X])
    path = ssvm_path(estimator, packed, y, epsilon=0.01, alpha_min=0.01)
    path = pickle.loads(pickle.dumps(path))
    tagger = path.estimator(0.01)
    direct = clone(estimator).set_params(alpha=0.01).fit(X, y)
    assert tagger.alpha == 0.01
    assert abs(tagger.score(X, y) - direct.score(X, y)) < 0.05
    tagger.partial_fit(X, y)
    estimator, X, y = binary()
    path = ssvm_path(estimator, X, y, sample_weight=np.arange(len(y)))
    assert path.estimator(0.1).decision_function(X).shape == (60,)
    pickle.loads(pickle.dumps(path)).estimator(0.1).predict(X)


def test_a_warm_start_takes_the_best_share_of_the_duals():
    """At a smaller alpha the dual is not below that of any other share."""
    estimator, X, y = chain()
    model, alpha = prepare(estimator, X, y).model, 0.01
    result = BCFW().solve(model, 0.1, random_state=0)
    state = BCFWState(BCFW(), model, alpha, Options(dual_state=result.dual_state))
    # of the duals that were found: linear term, and squared norm of alpha w
    kept = BCFWState(BCFW(), model, 0.1, Options(dual_state=result.dual_state))
    loss = kept.kernel.loss
    square = 0.01 * float(kept.weights.w @ kept.weights.w)
    values = [s * loss - s**2 * square / (2 * alpha) for s in np.linspace(0, 1, 1001)]
    assert values[-1] < 0.9 * max(values) <= state.first_dual
    assert state.first_dual <= max(values) * (1 + 1e-4)


def test_max_seconds():
    """A limit ends the training at each breakpoint, and is no convergence."""
    estimator, X, y = chain()
    estimator.set_params(max_seconds=1e-9)
    for method in ("grid", "exact"):
        with pytest.warns(ConvergenceWarning, match="did not converge at alpha"):
            path = ssvm_path(estimator, X, y, method=method, epsilon=1e-3)
        assert np.diff(path.n_iter).max() == 1
        np.testing.assert_array_equal(path.converged, path.gaps <= path.targets)
        assert not path.converged.all()


def test_bits_do_not_depend_on_the_threads_of_blas():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(60, 40000)), rng.randint(3, size=60)
    found = []
    for n in (1, 2):
        with threadpool_limits(n):
            path = ssvm_path(SSVMClassifier(alpha=100.0, random_state=0), X, y)
        found.append(path.weights(path.alphas[-1]))
    np.testing.assert_array_equal(*found)


def test_room_for_more_weights():
    """Where weights of pairs are full, the path is followed again with more room."""
    rng = np.random.RandomState(0)
    X = [rng.normal(size=(12, 4)) for _ in range(40)]
    y = [rng.randint(150, size=12) for _ in X]
    estimator = ChainCRF(0.05, random_state=0, max_iter=20)
    grow, grown = SparseBoundChain.grow, []
    options = {"alpha_min": 0.05, "epsilon": 0.5}
    expected = ssvm_path(estimator, X, y, **options)
    assert sparse.issparse(expected.estimator(0.05).transitions_)

    def full_once(self, *args):
        if len(grown) < 3:
            grown.append(1)
            if len(grown) == 3:
                raise WeightsFull
        return one_pass(self, *args)

    one_pass = BCFWState.one_pass
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BCFWState, "one_pass", full_once)
        path = ssvm_path(estimator, X, y, **options)
    assert len(grown) == 3 and grow is SparseBoundChain.grow
    np.testing.assert_array_equal(path.lower, expected.lower)
    np.testing.assert_array_equal(path.weights(0.1)[:600], expected.weights(0.1)[:600])


def test_reproducible():
    estimator, X, y = chain()
    paths = [
        ssvm_path(clone(estimator).set_params(n_jobs=n), X, y, alpha_min=1e-2)
        for n in (None, 1, 2)
    ]
    for path in paths[1:]:
        np.testing.assert_array_equal(path.alphas, paths[0].alphas)
        np.testing.assert_array_equal(path.weights(0.1), paths[0].weights(0.1))


def test_errors_and_warnings():
    estimator, X, y = chain()
    for parameters, message in (
        ({"method": "exactly"}, "method"),
        ({"alpha_min": 0.0}, "alpha_min"),
        ({"relative": "yes"}, "relative"),
        ({"epsilon": 1.0}, "epsilon is a share of the objective"),
        (
            {"method": "grid", "alphas": [1.0], "alpha_min": 0.1},
            "alpha_min ends the default grid",
        ),
        ({"epsilon": 0.0}, "epsilon"),
        ({"kappa": 1.0}, "kappa"),
        ({"alphas": [1.0]}, "alphas needs method='grid'"),
        ({"method": "grid", "alphas": []}, "alphas"),
        ({"method": "grid", "alphas": [1.0, 1.0]}, "different"),
        ({"method": "grid", "alpha_min": 1e6}, "above the default grid"),
    ):
        with pytest.raises(ValueError, match=message):
            ssvm_path(estimator, X, y, **parameters)
    with pytest.raises(TypeError, match=r"the path is for.*Pipeline; pass its last"):
        ssvm_path(make_pipeline(estimator), X, y)
    for bad in ({"loss": "log"}, {"solver": "bmrm"}):
        with pytest.raises(ValueError, match="use method='grid'"):
            ssvm_path(clone(estimator).set_params(**bad), X, y)
    with pytest.raises(ValueError, match="early_stopping=False"):
        ssvm_path(clone(estimator).set_params(early_stopping=True), X, y)
    short = clone(estimator).set_params(max_iter=1)
    with pytest.warns(ConvergenceWarning, match="after 1 passes, the tolerance"):
        path = ssvm_path(short, X, y, epsilon=1e-3)
    assert not path.converged[-1] and path.converged[:-1].all()


@pytest.mark.parametrize("method", ["exact", "heuristic"])
def test_an_epsilon_below_rounding_is_refused(method):
    X, y = load_iris(return_X_y=True)
    for relative in (True, False):
        search = SSVMPathCV(
            SSVMClassifier(), method=method, epsilon=1e-300, relative=relative
        )
        with pytest.raises(ValueError, match="below the rounding errors of the obj"):
            search.fit(X, y)
    assert not hasattr(search, "paths_")


def test_an_interrupt_leaves_the_path_so_far(monkeypatch):
    from sksstruct.solvers.frank_wolfe import path as module

    estimator, X, y = chain()
    solve, calls = module.Path.solve, []

    def interrupted(self, covered=None):
        calls.append(covered)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return solve(self, covered)

    monkeypatch.setattr(module.Path, "solve", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted after 4 segments"):
        path = ssvm_path(estimator, X, y)
    assert path.interrupted and len(path) == 4
    path.estimator(path.alphas[2]).predict(X)


def test_verbose(capsys):
    estimator, X, y = chain()
    path = ssvm_path(estimator, X, y, verbose=1)
    assert capsys.readouterr().out.count("alpha ") == len(path)


class TestCV:
    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["grid", "exact"])
    def test_scores_are_those_of_the_estimators(self, method):
        X, y = load_digits(return_X_y=True)
        X, y = X[:200] / 16.0, y[:200]
        estimator = SSVMClassifier(alpha=1e-3, random_state=0)
        search = SSVMPathCV(estimator, method=method, cv=2).fit(X, y)
        assert search.score_at(search.alpha_) == search.best_score_
        assert search.best_score_ == search.scores_.mean(axis=1).max()
        assert search.best_estimator_.alpha == search.alpha_
        assert (np.diff(search.edges_) < 0).all()
        folds = list(StratifiedKFold(2).split(X, y))
        options = {"method": method}
        tried = search.cv_results_["param_alpha"].data
        if method == "grid":
            options["alphas"] = tried
        paths = [ssvm_path(estimator, X[a], y[a], **options) for a, _ in folds]
        for alpha in (*tried[::3], search.alpha_):
            scores = [
                path.estimator(alpha).score(X[b], y[b])
                for path, (_, b) in zip(paths, folds, strict=True)
            ]
            assert search.score_at(alpha) == pytest.approx(np.mean(scores))
        # no worse than what a fine grid finds
        grid = GridSearchCV(estimator, {"alpha": 2.0 ** np.arange(-5, -16, -2)}, cv=2)
        assert search.best_score_ >= grid.fit(X, y).best_score_ - 0.015
        with pytest.raises(ValueError, match="alpha must be"):
            search.score_at(0.0)

    def test_a_grid_returns_one_of_its_values(self):
        estimator, X, y = chain()
        estimator.set_params(alpha=0.02)
        alphas = [0.08, 0.3, 0.04, 0.02, 0.01]
        search = SSVMPathCV(estimator, cv=3, alphas=alphas).fit(X, y)
        assert search.alpha_ in alphas
        results, grid = (
            search.cv_results_,
            GridSearchCV(estimator, {"alpha": sorted(alphas)[::-1]}, cv=3).fit(X, y),
        )
        assert set(results) == set(grid.cv_results_)
        assert results["params"] == grid.cv_results_["params"]
        for name, values in results.items():
            assert type(values) is type(grid.cv_results_[name])
        assert results["params"][search.best_index_] == search.best_params_
        assert results["rank_test_score"][search.best_index_] == 1
        np.testing.assert_array_equal(
            results["mean_test_score"], search.scores_.mean(axis=1)
        )
        assert search.n_splits_ == 3 and search.refit_time_ > 0.0
        # what is returned is what a fit with the best value is
        best = clone(estimator).set_params(**search.best_params_).fit(X, y)
        np.testing.assert_array_equal(search.best_estimator_.coef_, best.coef_)

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["exact", "heuristic"])
    def test_the_refit_follows_the_path(self, method):
        """Weights are as accurate as those that were scored, at the alpha chosen."""
        estimator, X, y = chain()
        search = SSVMPathCV(estimator, method=method, cv=3).fit(X, y)
        best = search.best_estimator_
        assert best.alpha == best.alpha_ == search.alpha_
        weights = np.zeros(prepare(estimator, X, y).model.n_weights)
        for name, view in prepare(estimator, X, y).model.views(weights).items():
            view[...] = getattr(best, f"{name}_")
        value = objective(estimator, X, y, weights, search.alpha_)
        # estimates may be too small
        factor = 1.0 if method == "exact" else 3.0
        bound = lower_bound(estimator, X, y, search.alpha_)
        assert value - bound <= factor * 0.1 * value
        assert best.objective_ == pytest.approx(value, rel=1e-9)
        assert 0.0 <= value - bound <= best.dual_gap_ + 1e-9
        assert best.history_["primal"][-1] == best.objective_
        assert search.n_iter_ == best.n_iter_ == best.history_["pass"][-1]

    def test_the_default_grid_ends_where_scores_fall(self):
        """Three values in a row have to score lower than the best; ties do not."""
        estimator, X, y = chain()
        means = [0.0, 0.0, 0.0, 0.0, 0.5, 0.4, 0.5, 0.4, 0.4, 0.4, 0.9]

        class Scorer:
            calls = 0

            def __call__(self, *_):
                self.calls += 1
                return means[(self.calls - 1) // 2]

        search = SSVMPathCV(estimator, cv=2, scoring=Scorer(), refit=False).fit(X, y)
        assert search.scores_.mean(axis=1).tolist() == means[:-1]
        assert search.alpha_ == pytest.approx(0.04)  # the first of the best
        # values that were asked for are all tried
        alphas = 0.02 * 2.0 ** np.arange(5, -6, -1)
        search.set_params(alphas=alphas, scoring=Scorer()).fit(X, y)
        assert search.scores_.mean(axis=1).tolist() == means

    def test_the_scale_of_features_changes_nothing(self):
        """With alpha="auto" the grid and the constant features follow it."""
        _, X, y = chain()
        X, y = X[:15], y[:15]
        found = []
        for scale in (1.0, 64.0):
            scaled = [scale * np.asarray(x) for x in X]
            for method in ("grid", "exact"):
                search = SSVMPathCV(ChainCRF(random_state=0), method=method, cv=2)
                search.fit(scaled, y)
                best = search.best_estimator_
                assert search.best_params_["intercept_scaling"] == (
                    best.intercept_scaling_
                )
                labels = np.concatenate(search.predict(scaled)).tolist()
                found.append(
                    (search.scores_.tolist(), search.alpha_ / scale**2, labels)
                )
        assert found[:2] == found[2:]

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore:there are no chunks in y_pred")
    def test_rare_labels(self):
        """The best alpha has learned the rare label; an alpha that is large has not."""
        rng = np.random.RandomState(0)
        X = [rng.normal(size=(20, 30)) for _ in range(90)]
        y = [np.where(x[:, 0] > 1.8, "B-X", "O") for x in X]
        estimator = ChainCRF(random_state=0)
        for method in ("grid", "exact"):
            search = SSVMPathCV(
                estimator, method=method, cv=2, scoring=chunk_f1_scorer
            ).fit(X[:60], y[:60])
            default = chunk_f1_scorer(estimator.fit(X[:60], y[:60]), X[60:], y[60:])
            # an epsilon of 0.1 leaves open which spans are found, not whether any is
            assert search.score(X[60:], y[60:]) > default - 0.25 > 0.4

    def test_pipelines(self):
        words = [[f"w{k % 7}", f"w{k % 3}", "x"] for k in range(40)]
        y = [["a" if w < "w4" else "b" for w in row] for row in words]
        X = [[{"word": w} for w in row] for row in words]
        tagger = make_tagger(random_state=0)
        grid = {"chaincrf__alpha": [0.2, 0.02, 0.002]}
        expected = GridSearchCV(tagger, grid, cv=3).fit(X, y)
        for method in ("grid", "exact"):
            alphas = None if method == "exact" else [0.02, 0.2, 0.002]
            search = SSVMPathCV(tagger, method=method, alphas=alphas, cv=3).fit(X, y)
            names = ["chaincrf__alpha", "chaincrf__intercept_scaling"]
            assert list(search.best_params_) == names
            assert search.score(X, y) == expected.score(X, y) == 1.0
            best = search.best_estimator_
            assert best[-1].alpha == search.alpha_
            assert best.predict([[{"word": "w1"}]])[0].tolist() == ["a"]
            assert len(search.predict_topk(X[:2], 2)[0]) == 2
            if method == "grid":
                best_alpha = expected.best_params_["chaincrf__alpha"]
                assert search.alpha_ == best_alpha
                again = clone(tagger).set_params(**search.best_params_).fit(X, y)
                assert best.state_features_ == again.state_features_
        assert not hasattr(tagger[-1], "coef_")
        X, y = load_iris(return_X_y=True)
        search = SSVMPathCV(make_pipeline(StandardScaler(), SSVMClassifier()), cv=3)
        search.fit(X, y, sample_weight=np.ones(len(y)))
        assert search.best_score_ > 0.9

    @pytest.mark.slow
    def test_transformers_and_weights_are_of_the_fold(self):
        """Scores are those of GridSearchCV with the same pipeline and weights."""
        sizes = []

        class Scaler(StandardScaler):
            def fit(self, X, y=None):
                sizes.append(len(X))
                return super().fit(X, y)

        X, y = load_iris(return_X_y=True)
        weight = np.where(y == 2, 30.0, 0.01) * (1 + np.arange(len(y)) % 3)
        pipeline = make_pipeline(Scaler(), SSVMClassifier(tol=1e-6, random_state=0))
        grid = {"ssvmclassifier__alpha": [1.0, 0.1]}
        search = SSVMPathCV(pipeline, alphas=[1.0, 0.1], cv=3)
        search.fit(X, y, sample_weight=weight)
        assert sorted(sizes) == [100, 100, 100, 150]
        expected = GridSearchCV(pipeline, grid, cv=3)
        expected.fit(X, y, ssvmclassifier__sample_weight=weight)
        np.testing.assert_allclose(
            search.cv_results_["mean_test_score"],
            expected.cv_results_["mean_test_score"],
            atol=0.01,
        )
        without = SSVMPathCV(pipeline, alphas=[1.0, 0.1], cv=3).fit(X, y)
        assert abs(without.scores_ - search.scores_).max() > 0.1
        with config_context(enable_metadata_routing=True):
            again = clone(search).fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(again.scores_, search.scores_)

    def test_taggers_answer_through_the_search(self, tmp_path):
        """Entities, reasons, constraints and files are those of the best estimator."""
        words = [[f"w{k % 7}", f"w{k % 3}", "x"] for k in range(20)]
        y = [["B-A" if w < "w4" else "O" for w in row] for row in words]
        X = [[{"word": w} for w in row] for row in words]
        search = SSVMPathCV(make_tagger(loss="log"), alphas=[0.1, 0.01], cv=2)
        with pytest.raises(NotFittedError):
            search.predict_entities(X)
        best = search.fit(X, y).best_estimator_
        assert search.predict_entities(X) == best.predict_entities(X)
        assert search.log_proba(X, y).tolist() == best.log_proba(X, y).tolist()
        assert search.explain(X[0], 1).score == best.explain(X[0], 1).score
        assert search.state_features_ == best.state_features_
        known = [[None, None, "B-A"]] * len(X)
        assert search.predict(X, known=known)[0][2] == "B-A"
        assert search.predict(X)[0][2] == "O"
        rows = search.predict_proba(X[:1], known=known[:1])[0]
        assert rows[2].tolist() == [1.0, 0.0]
        assert search.predict_topk(X[:1], 9, known=known[:1])[0][0][:, 2].tolist() == (
            ["B-A"] * 4
        )
        search.to_json(tmp_path / "best.json")
        again = Tagger.from_json(tmp_path / "best.json")
        np.testing.assert_array_equal(
            again.predict_proba(X)[0], best.predict_proba(X)[0]
        )
        search.to_crfsuite(tmp_path / "best.crfsuite")
        assert (tmp_path / "best.crfsuite").is_file()
        assert not hasattr(search, "predict_segments")
        # an estimator that is no tagger has none of these
        other = SSVMPathCV(SSVMClassifier())
        for name in ("predict_entities", "explain", "to_json", "state_features_"):
            assert not hasattr(other, name)

    def test_splitters_see_the_data(self):
        class Splitter:
            def split(self, X, y=None, groups=None):
                assert X[0].shape == (3,) and len(y) == len(X)
                yield np.arange(30), np.arange(30, 60)

            def get_n_splits(self, X=None, y=None, groups=None):
                return 1

        estimator, X, y = binary()
        assert SSVMPathCV(estimator, cv=Splitter()).fit(X, y).n_splits_ == 1

    def test_scorers_that_return_several_numbers(self):
        estimator, X, y = binary()
        for wrong in ({"a": 1.0, "b": 0.0}, [0.5], "good"):
            search = SSVMPathCV(estimator, cv=2, scoring=lambda *_, r=wrong: r)
            with pytest.raises(ValueError, match="scoring must return one number"):
                search.fit(X, y)

    def test_names_of_scores_of_rows(self):
        estimator, X, y = chain()
        for each in (estimator, make_pipeline("passthrough", estimator)):
            with pytest.raises(ValueError, match="use a scorer of sksstruct"):
                SSVMPathCV(each, scoring="f1_macro").fit(X, y)

    def test_likelihood(self):
        estimator, X, y = logistic()
        search = SSVMPathCV(estimator, alphas=[0.1, 0.01, 0.001], cv=3).fit(X, y)
        grid = GridSearchCV(estimator, {"alpha": [0.1, 0.01, 0.001]}, cv=3).fit(X, y)
        np.testing.assert_allclose(
            search.cv_results_["mean_test_score"],
            grid.cv_results_["mean_test_score"],
            atol=0.03,
        )
        assert search.predict_proba(X)[0].shape[1] == 3
        assert not hasattr(SSVMPathCV(ChainCRF()), "predict_proba")

    @pytest.mark.slow
    def test_ragged(self):
        estimator, X, y = chain()
        search = SSVMPathCV(estimator, cv=3, n_jobs=2).fit(X, y)
        again = SSVMPathCV(estimator, cv=3).fit(X, y)
        np.testing.assert_array_equal(search.scores_, again.scores_)
        assert search.score(X, y) > 0.5
        assert len(search.predict(X)) == len(X)
        assert len(search.predict_topk(X, 2)[0]) == len(X)
        assert search.classes_.tolist() == [0, 1, 2]
        assert len(search.decision_function(X)) == len(X)
        copy = pickle.loads(pickle.dumps(search))
        assert copy.score(X, y) == search.score(X, y)
        packed = PackedSequences.from_lengths(np.concatenate(X), [len(x) for x in X])
        again = SSVMPathCV(estimator, cv=3).fit(packed, y)
        np.testing.assert_array_equal(search.scores_, again.scores_)

    def test_groups_scoring_and_callbacks(self, callbacks):
        estimator, X, y = binary()
        groups = np.arange(len(y)) // 10
        search = SSVMPathCV(
            estimator, cv=GroupKFold(3), scoring=make_scorer(accuracy_score)
        )
        search.set_callbacks(callbacks.ProgressBar())
        search.fit(X, y, groups=groups)
        assert search.scores_.shape[1] == 3
        search.set_params(refit=False, cv=2, scoring="roc_auc", method="exact")
        search.fit(X, y)
        assert not hasattr(search, "best_estimator_")
        assert not hasattr(search, "n_features_in_")
        with pytest.raises(ValueError, match="no held-out score is finite"):
            search.set_params(scoring=lambda *_: np.nan).fit(X, y)

    @pytest.mark.slow
    @pytest.mark.parametrize("refit", [True, False])
    def test_a_failed_fit_changes_nothing(self, refit, monkeypatch):
        estimator, X, y = binary()
        search = SSVMPathCV(estimator, cv=2).fit(X, y)
        before, expected = dict(vars(search)), search.predict(X)

        def fails(self, X, y):
            raise ValueError("alpha is too small")

        # the folds, or the last fit, are at fault
        if refit:
            monkeypatch.setattr(type(estimator), "fit", fails)
        wrong = {"scoring": None if refit else lambda *_: np.nan}
        with pytest.raises(ValueError, match=r"alpha is too|no held-out score"):
            search.set_params(**wrong).fit(X, y)
        assert vars(search) == {**before, **wrong}
        np.testing.assert_array_equal(search.predict(X), expected)
        new = clone(search)
        with pytest.raises(ValueError, match=r"alpha is too|no held-out score"):
            new.fit(X, y)
        assert not [name for name in vars(new) if name.endswith("_")]

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["grid", "exact"])
    def test_an_interrupted_refit_leaves_an_estimator(self, method, monkeypatch):
        from sksstruct.solvers.frank_wolfe import bcfw

        estimator, X, y = chain()
        one_pass, n = bcfw.BCFWState.one_pass, 0
        search = SSVMPathCV(estimator, method=method, cv=2, refit=False)

        def interrupted(self, *args):
            nonlocal n
            one_pass(self, *args)
            n += self.model.n_examples == len(X)
            if n == 2:
                raise KeyboardInterrupt

        monkeypatch.setattr(bcfw.BCFWState, "one_pass", interrupted)
        search.fit(X, y)  # only the last fit is on all of the data
        with pytest.raises(KeyboardInterrupt):
            search.set_params(refit=True).fit(X, y)
        assert len(search.predict(X)) == len(X)
        assert search.n_iter_ >= 1

    def test_an_interrupted_path_sets_nothing(self, monkeypatch):
        from sksstruct.solvers.frank_wolfe import bcfw

        def interrupted(self, *args):
            raise KeyboardInterrupt

        estimator, X, y = chain()
        monkeypatch.setattr(bcfw.BCFWState, "one_pass", interrupted)
        for method in ("grid", "exact"):
            search = SSVMPathCV(estimator, method=method, cv=2)
            with pytest.raises(KeyboardInterrupt):
                search.fit(X, y)
            assert not [name for name in vars(search) if name.endswith("_")]

    @pytest.mark.slow
    def test_threads_end_after_an_interrupt(self, monkeypatch):
        """Where one fold is interrupted, the others end with the segment in hand."""
        estimator, X, y = chain()
        advance, segments = Fold.advance, []

        def interrupted(self):
            segments.append(threading.get_ident())
            if len(segments) == 3:
                raise KeyboardInterrupt
            # so long that the interrupt comes before the end of a whole path
            time.sleep(0.1)
            return advance(self)

        monkeypatch.setattr(Fold, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            SSVMPathCV(estimator, method="exact", cv=2, n_jobs=2).fit(X, y)
        for _ in range(200):
            before = len(segments)
            time.sleep(0.3)
            if len(segments) == before:
                break
        # a whole path has more
        assert len(segments) < len(ssvm_path(estimator, X, y))

    def test_wrong_estimators(self):
        _, X, y = binary()
        for wrong in (StandardScaler(), make_pipeline(LogisticRegression())):
            with pytest.raises(TypeError, match="the path is for"):
                SSVMPathCV(wrong, scoring="accuracy").fit(X, y)
        with pytest.raises(ValueError, match="needs solver"):
            SSVMPathCV(LinearSSVC(solver="pragam"), method="exact").fit(X, y)
