"""Losses with a gradient of `SSVMClassifier`, and probabilities."""

import itertools
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from problems import PROBLEMS
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from sksstruct import ChainCRF, SSVMClassifier, ssvm_path
from sksstruct.estimators._train import prepare
from sksstruct.losses import SmoothedHinge
from sksstruct.models import GraphModel, MulticlassModel, RelaxedGraphModel
from sksstruct.solvers import LBFGS, SDCA, SGD, SVRG, Casimir
from sksstruct.solvers.stochastic.sgd import DescentLoop


@parametrize_with_checks(
    [
        SSVMClassifier(loss="log", alpha=1.0, tol=1e-12),
        SSVMClassifier(loss="smoothed_hinge", alpha=1.0, tol=1e-12, solver="lbfgs"),
    ]
)
def test_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def logistic(X, y, coef, alpha, weight=None):
    """alpha/2 |w|^2 plus the mean negative log-likelihood."""
    scores = X @ coef.T
    scores -= scores.max(axis=1, keepdims=True)
    codes = np.unique(y, return_inverse=True)[1]
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), codes]
    return alpha / 2 * (coef**2).sum() + np.average(losses, weights=weight)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16.0, y[:600]


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver, form",
    [
        ("lbfgs", np.asarray),
        ("lbfgs", sparse.csr_array),
        ("sdca", np.asarray),
        ("sdca", sparse.csr_array),
        ("svrg", sparse.csr_array),
        ("auto", np.asarray),
    ],
)
def test_against_logistic_regression(digits, solver, form):
    """The optimum and its probabilities are those of scikit-learn."""
    X, y = digits
    alpha = 0.01
    peer = LogisticRegression(
        C=1 / (len(y) * alpha), fit_intercept=False, tol=1e-8, max_iter=5000
    ).fit(X, y)
    classifier = SSVMClassifier(
        MulticlassModel(fit_intercept=False),
        loss="log",
        alpha=alpha,
        solver=solver,
        tol=1e-8,
        random_state=0,
    ).fit(form(X), y)
    want = logistic(X, y, peer.coef_, alpha)
    assert logistic(X, y, classifier.coef_, alpha) == pytest.approx(want, rel=1e-6)
    assert classifier.objective_ == pytest.approx(want, rel=1e-6)
    got = classifier.predict_proba(form(X))
    np.testing.assert_allclose(got, peer.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(got.sum(axis=1), 1.0)
    assert (classifier.predict(X) == peer.predict(X)).all()


def test_weights_and_intercept():
    """Weights count as copies do, and the intercept is that of a column of ones."""
    X, y = load_iris(return_X_y=True)
    weight = np.random.RandomState(0).randint(0, 3, size=len(y))
    common = {"loss": "log", "alpha": 0.01, "tol": 1e-10}
    weighted = SSVMClassifier(**common).fit(X, y, weight)
    copied = SSVMClassifier(**common).fit(X.repeat(weight, 0), y.repeat(weight))
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=1e-4)
    column = SSVMClassifier(MulticlassModel(fit_intercept=False), **common)
    column.fit(np.column_stack([X, np.ones(len(X))]), y, weight)
    np.testing.assert_allclose(column.coef_[:, -1], weighted.intercept_, atol=1e-4)
    # of classes of equal size, so that the mean is one
    factors = {0: 1.0, 1: 1.5, 2: 0.5}
    by_class = SSVMClassifier(class_weight=factors, **common).fit(X, y)
    by_sample = SSVMClassifier(**common).fit(X, y, [factors[k] for k in y])
    np.testing.assert_allclose(by_class.coef_, by_sample.coef_, atol=1e-4)


# ---- trees ----


def words(rng, n=20):
    X = [rng.normal(size=(rng.randint(1, 6), 3)) for _ in range(n)]
    return X, [rng.randint(3, size=len(x)) for x in X]


def paths(X):
    """The same sequences as graphs, with edges in either direction."""
    edges = [np.array([(t, t + 1) for t in range(len(x) - 1)]) for x in X]
    return [(x, e.reshape(-1, 2)) for x, e in zip(X, edges, strict=True)]


@pytest.mark.parametrize("loss", ["log", SmoothedHinge(mu=0.5)])
def test_paths_are_chains(loss):
    """Trees that are paths have the optimum and the marginals of a chain."""
    X, y = words(np.random.RandomState(0))
    common = {"loss": loss, "alpha": 0.05, "solver": LBFGS(tol=1e-13)}
    chain = ChainCRF(
        boundary=False, loss_normalization="sequence", **common
    ).fit(X, y)  # fmt: skip
    tree = SSVMClassifier(GraphModel(), **common).fit(paths(X), y)
    assert tree.objective_ == pytest.approx(chain.objective_, rel=1e-9)
    np.testing.assert_allclose(tree.coef_, chain.coef_, atol=1e-5)
    np.testing.assert_allclose(tree.edge_coef_[0], chain.transitions_, atol=1e-5)
    if loss == "log":
        # of the same weights
        tree.weights_ = flat(tree.model_, chain)
        pairs = zip(
            tree.predict_marginals(paths(X)), chain.predict_proba(X), strict=True
        )
        for got, want in pairs:
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def flat(model, chain):
    """Weights of a graph model from those of a chain."""
    node = model._input((np.zeros((1, 3)), np.zeros((0, 2), dtype=int)), "x")
    table = model._bound([node], None, None)
    weights = np.zeros(table.n_weights)
    views = table.views(weights)
    views["coef"][...], views["intercept"][...] = chain.coef_, chain.intercept_
    views["edge_coef"][0] = chain.transitions_
    return weights


@pytest.mark.parametrize("name", [name for name in PROBLEMS if "tree," in name])
def test_marginals_by_enumeration(name):
    model, X, y, _ = PROBLEMS[name]
    classifier = SSVMClassifier(model, loss="log", alpha=0.1).fit(X, y)
    for x, got in zip(X, classifier.predict_marginals(X), strict=True):
        outputs = list(classifier.model_.labelings(x))
        scores = [
            classifier.model_.joint_feature(x, z) @ classifier.weights_ for z in outputs
        ]
        probability = np.exp(scores - np.max(scores))
        probability /= probability.sum()
        want = np.array([
            [probability @ [z[v] == k for z in outputs] for k in classifier.classes_]
            for v in range(len(got))
        ])  # fmt: skip
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


# ---- solvers, and what comes with them ----

SOLVERS = {
    "lbfgs": "lbfgs",
    "svrg": SVRG(tol=1e-6),
    "sgd": SGD(tol=1e-4),
    "casimir": Casimir(tol=1e-6),
    "sdca": "sdca",
}


@pytest.mark.parametrize(
    "name", ["multiclass", "full tree, edge features: True", "costs of labels"]
)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["log", "smoothed_hinge"])
def test_solvers_agree(name, solver, loss):
    model, X, y, _ = PROBLEMS[name]
    if loss == "log" and name != "full tree, edge features: True":
        # what an error costs is no parameter of the likelihood
        model = type(model)()
    common = {"alpha": 0.1, "loss": loss, "random_state": 0}
    best = SSVMClassifier(model, solver=LBFGS(tol=1e-12), **common).fit(X, y)
    got = SSVMClassifier(
        model, solver=SOLVERS[solver], tol=1e-6, max_iter=5000, **common
    )
    with warnings.catch_warnings():
        # plain stochastic gradients are slow in the end
        warnings.simplefilter("ignore" if solver == "sgd" else "error")
        got.fit(X, y)
    # the certificate holds
    assert got.objective_ - got.dual_gap_ <= best.objective_ + 1e-10
    assert best.objective_ <= got.objective_ + 1e-10
    tol = 2e-4 if solver == "sgd" else 5e-6
    assert got.objective_ <= best.objective_ * (1 + tol)


@pytest.mark.parametrize("solver", ["lbfgs", "sdca", "svrg"])
def test_warm_start(solver):
    X, y = load_iris(return_X_y=True)
    classifier = SSVMClassifier(
        loss="log", alpha=0.1, solver=solver, tol=1e-6, warm_start=True, random_state=0
    ).fit(X, y)
    cold, objective = classifier.n_iter_, classifier.objective_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier.fit(X, y)
    assert classifier.n_iter_ <= 1 < cold
    assert classifier.objective_ == pytest.approx(objective, rel=2e-6)
    # dual variables of other labels would be certain of the old ones
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = classifier.fit(X, y[::-1]).objective_
    fresh = SSVMClassifier(loss="log", alpha=0.1, tol=1e-6).fit(X, y[::-1])
    assert again == pytest.approx(fresh.objective_, rel=5e-6)


def test_threads_change_nothing():
    X, y = load_iris(return_X_y=True)
    weights = [
        SSVMClassifier(loss="log", alpha=0.01, n_jobs=n).fit(X, y).weights_
        for n in (1, 2)
    ]
    np.testing.assert_array_equal(*weights)


def test_smoothing_by_the_k_best():
    """Models without sums are smoothed by the k best, where no kind is named."""
    model, X, y, _ = PROBLEMS["matching"]
    classifier = SSVMClassifier(model, loss="smoothed_hinge", alpha=0.3, tol=1e-6)
    classifier.fit(X, y)
    # the smoothed hinge is the hinge and at most mu / 2
    hinge = SSVMClassifier(model, alpha=0.3, tol=1e-6, random_state=0).fit(X, y)
    assert hinge.objective_ - 1e-5 <= classifier.objective_ <= hinge.objective_ + 0.05
    assert classifier.topk_exact_ == 1.0
    tree, X, y, _ = PROBLEMS["full tree, edge features: True"]
    classifier = SSVMClassifier(tree, loss="smoothed_hinge", alpha=0.3).fit(X, y)
    assert not hasattr(classifier, "topk_exact_")
    classifier.set_params(loss=SmoothedHinge("l2", k=5)).fit(X, y)
    assert 0.0 <= classifier.topk_exact_ <= 1.0


@pytest.mark.slow
def test_search_and_path():
    X, y = load_iris(return_X_y=True)
    grid = {"alpha": [1.0, 1e-3], "loss": ["hinge", "log"]}
    search = GridSearchCV(SSVMClassifier(random_state=0), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    search = GridSearchCV(
        SSVMClassifier(loss="log"), {"alpha": [1.0, 1e-3]}, scoring="neg_log_loss"
    ).fit(X, y)
    assert search.best_params_ == {"alpha": 1e-3}
    with pytest.raises(ValueError, match="is for the path of the hinge"):
        ssvm_path(SSVMClassifier(loss="log"), X, y)


# ---- what is refused ----


def cycle():
    X = [([[1.0], [0.0], [-1.0]], [(0, 1), (1, 2), (2, 0)])]
    return X, [["a", "b", "a"]]


@pytest.mark.parametrize(
    "model", [RelaxedGraphModel(), GraphModel("potts", inference="cut")]
)
@pytest.mark.parametrize("loss", ["log", SmoothedHinge()])
def test_cycles_are_refused(model, loss):
    with pytest.raises(ValueError, match=r"oracle exp.*#P-hard"):
        SSVMClassifier(model, loss=loss).fit(*cycle())


def test_refusals():
    X, y = load_iris(return_X_y=True)
    costs = 1 - np.eye(3)
    with pytest.raises(ValueError, match="costs of MulticlassModel"):
        SSVMClassifier(MulticlassModel(costs), loss="log").fit(X, y)
    _, trees, labels, _ = PROBLEMS["full tree, edge features: True"]
    with pytest.raises(ValueError, match="class_weight of GraphModel"):
        SSVMClassifier(GraphModel(class_weight="balanced"), loss="log").fit(
            trees, labels
        )
    with pytest.raises(ValueError, match="structured hinge"):
        SSVMClassifier(loss="log", solver="bcfw").fit(X, y)
    with pytest.raises(ValueError, match="'loss' parameter"):
        SSVMClassifier(loss="squared").fit(X, y)
    with pytest.raises(ValueError, match="mu"):
        SSVMClassifier(loss=SmoothedHinge(mu=-1.0)).fit(X, y)


def test_which_probabilities_there_are():
    has = {
        (name, loss): [
            hasattr(SSVMClassifier(name, loss=loss), method)
            for method in ("predict_proba", "predict_marginals")
        ]
        for name, loss in itertools.product(
            ("multiclass", "graph", "matching", RelaxedGraphModel()), ("hinge", "log")
        )
    }
    assert has.pop(("multiclass", "log")) == [True, False]
    assert has.pop(("graph", "log")) == [False, True]
    assert not np.any(list(has.values()))
    with pytest.raises(AttributeError, match="needs loss='log'"):
        SSVMClassifier().predict_proba  # noqa: B018
    with pytest.raises(AttributeError, match="use predict_marginals"):
        SSVMClassifier("graph", loss="log").predict_proba  # noqa: B018
    # no loss gives what graphs with cycles do not have
    ring = ([[0.0], [1.0], [1.0]], [(0, 1), (1, 2), (2, 0)])
    cuts = SSVMClassifier(GraphModel("potts"), random_state=0).fit([ring], [[0, 1, 1]])
    with pytest.raises(AttributeError, match=r"GraphModel\(.*whatever the loss"):
        cuts.predict_marginals([ring])
    # of what was fitted, whatever the parameter has become
    X, y = load_iris(return_X_y=True)
    classifier = SSVMClassifier(loss="log").fit(X, y).set_params(loss="hinge")
    assert classifier.predict_proba(X[:2]).shape == (2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["log", "smoothed_hinge"])
def test_auto_minds_the_size_of_features(loss):
    """Dual ascent would take thousands of passes over features in the hundreds."""
    X, y = load_breast_cancer(return_X_y=True)
    # with less work it is L-BFGS in any case
    rows, labels = np.tile(X, (400, 1)), np.tile(y, 400)
    classifier = SSVMClassifier(alpha=1e-3, loss=loss, random_state=0)
    assert type(prepare(classifier, rows, labels).solver) is LBFGS
    classifier.set_params(loss="log")
    assert type(prepare(classifier, scale(rows), labels).solver) is SDCA
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert classifier.set_params(loss=loss).fit(X, y).score(X, y) > 0.95


def test_score_needs_a_weight():
    x = (np.eye(2), [(0, 1)])
    classifier = SSVMClassifier("graph", alpha=0.1).fit([x], [[0, 1]])
    with pytest.raises(ValueError, match="sample_weight"):
        classifier.score([x], [[0, 1]], sample_weight=[0.0])


@pytest.mark.parametrize(("flat", "ends"), [(5, False), (17, False), (30, True)])
def test_stochastic_steps_do_not_end_by_chance(flat, ends):
    """A few passes that look alike tell nothing of where the objective goes."""
    loop = SimpleNamespace(gap=np.inf, residual=np.inf, target=1e-3, primal=1.0)
    loop.values = [2.0] + [1.0] * flat
    assert DescentLoop.converged.fget(loop) == ends
