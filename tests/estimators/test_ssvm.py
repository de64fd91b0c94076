import inspect
import warnings
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from sksstruct import ChainCRF, LinearSSVC, MultilabelPairwise, SSVMClassifier
from sksstruct.models import MulticlassModel
from sksstruct.solvers import BCFW, BMRM


# Solved precisely, so that checks of equal results see the optimum and not the path.
@parametrize_with_checks(
    [
        SSVMClassifier(alpha=10.0, tol=1e-13, max_iter=500),
        SSVMClassifier(solver="bmrm", alpha=10.0, tol=1e-12),
    ]
)
def test_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def crammer_singer(W, b, X, y, costs, alpha):
    scores = X @ W.T + b
    margins = scores + costs[y] - scores[np.arange(len(y)), y][:, None]
    return alpha / 2 * ((W**2).sum() + b @ b) + margins.max(axis=1).mean()


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16.0, y[:600]


@pytest.mark.slow
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.coo_array])
def test_against_liblinear(digits, form):
    X, y = digits
    alpha = 0.01
    classifier = SSVMClassifier(alpha=alpha, tol=1e-5, random_state=0).fit(form(X), y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = LinearSVC(
            multi_class="crammer_singer",
            C=1 / (len(y) * alpha),
            tol=1e-6,
            random_state=0,
        ).fit(X, y)
    costs = 1 - np.eye(10)
    ours = crammer_singer(classifier.coef_, classifier.intercept_, X, y, costs, alpha)
    theirs = crammer_singer(peer.coef_, peer.intercept_, X, y, costs, alpha)
    assert classifier.objective_ == pytest.approx(ours, rel=1e-9)
    assert ours <= theirs + classifier.dual_gap_
    assert theirs >= ours - classifier.dual_gap_
    assert classifier.dual_gap_ <= 1e-5
    assert (classifier.predict(form(X)) == peer.predict(X)).mean() > 0.995


def test_costs_and_no_intercept(digits):
    X, y = digits
    X, y = X[y < 3], y[y < 3]
    costs = np.array([[0, 1, 9.0], [1, 0, 1], [0.5, 2, 0]])
    model = MulticlassModel(costs, fit_intercept=False)
    classifier = SSVMClassifier(model, alpha=0.1, tol=1e-4, random_state=0).fit(X, y)
    assert not classifier.intercept_.any()
    objective = crammer_singer(classifier.coef_, np.zeros(3), X, y, costs, 0.1)
    assert classifier.objective_ == pytest.approx(objective, rel=1e-9)
    bmrm = SSVMClassifier(model, alpha=0.1, solver=BMRM(5000, 1e-5)).fit(X, y)
    assert abs(bmrm.objective_ - objective) <= 1e-3


def test_topk_and_scores(digits):
    X, y = digits
    classifier = SSVMClassifier(random_state=0).fit(X, y)
    scores = classifier.decision_function(X)
    labels, values = classifier.predict_topk(X, 3)
    np.testing.assert_array_equal(labels[:, 0], classifier.predict(X))
    np.testing.assert_allclose(values, -np.sort(-scores, axis=1)[:, :3])
    assert classifier.predict_topk(X[:2], 99)[0].shape == (2, 10)
    two = SSVMClassifier(random_state=0).fit(X, y > 4)
    assert two.decision_function(X).shape == (len(X),)
    assert ((two.decision_function(X) > 0) == two.predict(X)).all()
    with pytest.raises(ValueError, match="k must be"):
        classifier.predict_topk(X, 0)


def test_warm_start(digits):
    X, y = digits
    classifier = SSVMClassifier(alpha=0.01, warm_start=True, tol=1e-4, random_state=0)
    classifier.fit(X, y)
    first = classifier.n_iter_
    classifier.set_params(alpha=0.009).fit(X, y)
    assert classifier.n_iter_ < first
    cold = clone(classifier).fit(X, y)
    assert abs(cold.objective_ - classifier.objective_) <= 2e-4
    for other in ((X[:500], y[:500]), (X, y % 9)):
        with pytest.warns(UserWarning, match="training starts from zero"):
            classifier.fit(*other)


@pytest.mark.parametrize("name", ["matching", "graph", "candidates"])
def test_warm_start_on_other_structures(name):
    """The same numbers of rows, other columns, edges or candidates: afresh."""
    rng = np.random.RandomState(0)
    if name == "matching":
        first = [rng.normal(size=(2, 3, 2)) for _ in range(4)]
        second = [rng.normal(size=(2, m, 2)) for m in (3, 2, 2, 3)]
        y = [np.array([0, 1])] * 4
    elif name == "graph":
        first = [(rng.normal(size=(3, 2)), [(0, 1), (1, 2)]) for _ in range(4)]
        second = [(x, [(0, 2), (1, 2)]) for x, _ in first]
        y = [np.array([0, 1, 1])] * 4
    else:
        first = [rng.normal(size=(4, 2)) for _ in range(4)]
        second = [x[:3] if i else x for i, x in enumerate(first)]
        y = [0] * 4
    classifier = SSVMClassifier(name, warm_start=True, random_state=0, alpha=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier.fit(first, y).fit(first, y)
    with pytest.warns(UserWarning, match="training starts from zero"):
        classifier.fit(second, y)


def test_a_failed_fit_changes_nothing(digits):
    X, y = digits
    classifier = SSVMClassifier(random_state=0).fit(X, y)
    before = classifier.predict(X)
    for bad in ((X[:, :9], np.zeros(len(y))), (X, y[:-1]), (X[:0], y[:0])):
        with pytest.raises(ValueError):
            classifier.fit(*bad)
        np.testing.assert_array_equal(classifier.predict(X), before)
    # nothing is left of a model of another kind
    classifier.set_params(model="candidates").fit([X[:3], X[3:6]], [0, 1])
    assert not hasattr(classifier, "n_features_in_")
    assert not hasattr(classifier, "classes_")


def test_callbacks_and_pipeline(digits, callbacks):
    X, y = digits
    monitor = callbacks.ScoringMonitor(scoring=make_scorer(accuracy_score))
    classifier = SSVMClassifier(alpha=0.01, random_state=0)
    classifier.set_callbacks(monitor, callbacks.ProgressBar())
    classifier.fit(X, y)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SSVMClassifier(random_state=0)),
        {"ssvmclassifier__alpha": [0.01, 0.1]},
        cv=3,
    ).fit(X, y)
    assert search.score(X, y) > 0.9
    search = GridSearchCV(
        SSVMClassifier(random_state=0, solver=BCFW()), {"solver__tol": [0.1, 0.01]}
    ).fit(X[:200], y[:200])
    assert search.best_params_["solver__tol"] in (0.1, 0.01)


def test_features_that_are_not_scaled():
    with pytest.warns(ConvergenceWarning, match="column 12 vary .* scale the columns"):
        SSVMClassifier(max_iter=5, random_state=0).fit(*load_wine(return_X_y=True))


def test_parameters_are_checked(digits):
    X, y = digits
    for parameters, message in (
        ({"model": "chain"}, "unknown model 'chain'; .* Sequences are for ChainCRF"),
        ({"model": 3}, "model"),
        ({"alpha": 0.0, "solver": "bcfw"}, "alpha"),
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": np.inf}, "alpha"),
        ({"solver": "lbfgs"}, "LBFGS"),
        ({"solver": "gdmm"}, "needs the oracle"),
        ({"class_weight": {0: -1.0}}, "class_weight"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            SSVMClassifier(**parameters).fit(X, y)
    with pytest.raises(ValueError, match="class_weight is for multiclass"):
        SSVMClassifier("candidates", class_weight="balanced").fit([X[:3]], [0])
    with pytest.raises(ValueError, match=r"[Ss]ample"):
        SSVMClassifier().fit(X, y, np.zeros(len(y)))
    with pytest.raises(ValueError, match="one number for each example, not several"):
        SSVMClassifier("candidates").fit([X[:2], X[:3]], [0, 1], [[1, 1], [1, 1, 1]])


@pytest.mark.parametrize(
    "X",
    [
        [np.eye(2), np.ones((3, 2))],
        np.ones((4, 3, 2)),
        [[[1.0], [2.0]], [[1.0]]],
        [[{"a": 1.0}], [{"b": 1.0}]],
        [sparse.csr_array(np.eye(2))] * 2,
    ],
    ids=str,
)
def test_sequences_are_for_other_estimators(X):
    for estimator in (SSVMClassifier(), LinearSSVC(), MultilabelPairwise()):
        name = type(estimator).__name__
        with pytest.raises(
            ValueError, match=f"{name} takes a 2-D array.*ChainCRF takes"
        ):
            estimator.fit(X, [0, 1])


def test_parameters_of_other_libraries():
    for estimator in (ChainCRF, LinearSSVC, MultilabelPairwise, SSVMClassifier):
        for name, hint in (("C", r"1 / \(n C\)"), ("c2", "crfsuite_parameters")):
            with pytest.raises(
                TypeError, match=rf"{estimator.__name__} has no .*{hint}"
            ):
                estimator(**{name: 1.0})
        with pytest.raises(TypeError, match="unexpected keyword argument 'gamma'"):
            estimator(gamma=1.0)
        assert next(iter(inspect.signature(estimator).parameters)) in ("alpha", "model")


def test_inputs_are_not_changed():
    """CSR with duplicates, read-only: used as it is, not put in order in place."""
    rows = sparse.csr_matrix((np.ones(4), [1, 0, 0, 1], [0, 3, 4]), shape=(2, 2))
    for array in (rows.data, rows.indices, rows.indptr):
        array.flags.writeable = False
    before = rows.indptr.copy()
    X, y = [(rows, [(0, 1)])], [[0, 1]]
    classifier = SSVMClassifier("graph", random_state=0).fit(X, y)
    classifier.predict(X)
    np.testing.assert_array_equal(rows.indptr, before)
    assert rows.nnz == 4


def test_class_weights_are_factors_of_the_losses(digits):
    """All classes twice is alpha halved: losses are not divided by the weights."""
    X, y = digits
    twice = {k: 2.0 for k in range(10)}
    options = {"tol": 1e-5, "random_state": 0}
    weighted = SSVMClassifier(alpha=0.1, class_weight=twice, **options).fit(X, y)
    plain = SSVMClassifier(alpha=0.05, **options).fit(X, y)
    assert weighted.objective_ == pytest.approx(2 * plain.objective_, rel=1e-4)
    some = SSVMClassifier(alpha=0.1, class_weight={3: 0.0}, **options).fit(X, y)
    assert 3 not in some.predict(X)


def test_rows_that_are_mostly_zero_are_trained_as_sparse_ones():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 30)) * (rng.uniform(size=(60, 30)) < 0.1)
    y = rng.randint(3, size=60)
    given = X.copy()
    classifier = SSVMClassifier(alpha=0.01, random_state=0)
    dense = clone(classifier).fit(X, y)
    compact = clone(classifier).fit(sparse.csr_array(X), y)
    assert np.array_equal(dense.coef_, compact.coef_)
    assert dense.objective_ == compact.objective_
    assert np.array_equal(X, given)


@pytest.mark.parametrize("missing", [None, np.nan, "NA"], ids=str)
@pytest.mark.parametrize("form", [list, partial(np.array, dtype=object), "Series"])
@pytest.mark.parametrize("classifier", [SSVMClassifier(), LinearSSVC()], ids=str)
def test_missing_classes(classifier, form, missing):
    """They are named, and are no class of the name "nan" or "None"."""
    if missing == "NA" or form == "Series":
        pandas = pytest.importorskip("pandas")
        missing = pandas.NA if missing == "NA" else missing
        form = partial(pandas.Series, dtype=object) if form == "Series" else form
    for y in (["a", missing, "b"], [0, missing, 1]):
        with pytest.raises(ValueError, match=r"y\[1\] has a missing label"):
            classifier.fit(np.eye(3), form(y))


@pytest.mark.slow
@pytest.mark.parametrize("classifier", [SSVMClassifier(), LinearSSVC()], ids=str)
def test_only_the_tolerance_fails_checks_of_defaults(classifier):
    """As the page of questions says; the tests above pass with a small tolerance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        results = check_estimator(classifier, on_fail=None, on_skip=None)
    failed = {each["check_name"] for each in results if each["status"] == "failed"}
    kinds = "dense", "sparse"
    assert failed <= {f"check_sample_weight_equivalence_on_{k}_data" for k in kinds}
