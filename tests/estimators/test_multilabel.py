"""MultilabelPairwise: its contract, its predictions and what it is without pairs."""

import pickle
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from sksstruct import ChainCRF, MultilabelPairwise
from sksstruct.datasets import load_multilabel
from sksstruct.inference.cuts._reduced_roof import LabelPairs, ReducedRoofDual
from sksstruct.models.multilabel.decoding import decode
from sksstruct.solvers import BCA, DCD, GDMM
from sksstruct.utils.estimator_checks import check_ragged_estimator

# what is trained is the best set, which other targets do not show
Subset = partial(MultilabelPairwise, target="subset")
LOSSES = "hinge", "squared_hinge", "log"
PRECISE = MultilabelPairwise(
    1.0,
    loss="structured_hinge",
    interaction_scaling=1.0,
    solver=GDMM(1000, 1e-13, update="bgcd", check_every=100),
    random_state=0,
)
STRUCTURED = MultilabelPairwise(loss="structured_hinge", random_state=0)


def why(estimator):
    failing = {}
    if estimator.loss == "structured_hinge":
        failing["check_class_weight_classifiers"] = "its Hamming loss has no weights"
    if estimator.solver == "auto" and estimator.tol > 0.0:
        for kind in ("dense", "sparse"):
            failing[f"check_sample_weight_equivalence_on_{kind}_data"] = (
                "the default tolerance is not for seven digits"
            )
    return failing


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        PRECISE,
        STRUCTURED,
        MultilabelPairwise(
            loss="log", target="subset", solver=DCD(1000, 0.0), random_state=0
        ),
        MultilabelPairwise(tol=0.0, max_iter=500, random_state=0),
    ],
    expected_failed_checks=why,
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_chains_by_gdmm_are_estimators():
    check_ragged_estimator(ChainCRF(1.0, solver=GDMM(20, 1e-9), random_state=0))


def data(seed=0, n=60, n_labels=5):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 4))
    scores = X @ rng.standard_normal((4, n_labels))
    # the first two exclude each other
    Y = (scores + rng.standard_normal((n, n_labels)) > 0.3).astype(int)
    Y[Y[:, 0] == 1, 1] = 0
    return X, Y


def best_labels(classifier, x):
    unary = classifier.coef_ @ x + classifier.intercept_
    table = np.triu(classifier.interactions_, 1)
    every = np.array(list(product((0, 1), repeat=len(unary))))
    scores = every @ unary + np.einsum("ij,jk,ik->i", every, table, every)
    return every[scores.argmax()], scores


@pytest.mark.parametrize(
    ("loss", "solver", "inference"),
    [
        ("structured_hinge", "auto", "exact"),
        # training is by the relaxation, whatever predictions are by
        ("structured_hinge", "gdmm", "lp"),
        ("structured_hinge", "ssg", "gdmm"),
        *((loss, "dcd", "auto") for loss in LOSSES),
    ],
)
def test_predictions_are_best(loss, solver, inference):
    X, Y = data()
    classifier = Subset(
        0.01, loss=loss, solver=solver, inference=inference, tol=1e-2, max_iter=200,
        interaction_scaling=1.0, random_state=0,
    )  # fmt: skip
    classifier.fit(X, Y)
    assert classifier.interactions_[0, 1] < 0
    np.testing.assert_array_equal(classifier.interactions_, classifier.interactions_.T)
    assert not np.diag(classifier.interactions_).any()
    X, Y = X[:15], Y[:15]
    best = [best_labels(classifier, x)[0] for x in X]
    for by in ("exact", "lp", "gdmm"):
        classifier.set_params(inference=by)
        predicted = classifier.predict(X)
        np.testing.assert_array_equal(predicted, best)
        assert classifier.score(X, Y) == (predicted == Y).all(axis=1).mean()


def test_labels_that_the_relaxation_leaves_open():
    rng = np.random.RandomState(0)
    n_labels = 7
    pairs = np.column_stack(np.triu_indices(n_labels, 1))
    table = np.zeros((n_labels, n_labels))
    table[pairs[:, 0], pairs[:, 1]] = rng.standard_normal(len(pairs))
    # any two of the first three exclude each other
    table[[0, 0, 1], [1, 2, 2]] = -6.0
    unaries = 8 * rng.standard_normal((40, n_labels))
    unaries[:, :3] = 2 + rng.standard_normal((40, 3))
    graph = LabelPairs(pairs, n_labels)
    graph.set_scores(table[pairs[:, 0], pairs[:, 1]])
    halves = (ReducedRoofDual(graph).solve_all(unaries) == 1).sum(axis=1)
    # some samples with open labels beside fixed ones
    assert any(0 < count < n_labels for count in halves)
    every = np.array(list(product((0, 1), repeat=n_labels)))
    found = decode(
        unaries, pairs, table + table.T, exact=False, by_gdmm=False, n_jobs=None
    )
    for unary, y in zip(unaries, found, strict=True):
        values = every @ unary + np.einsum("ij,jk,ik->i", every, table, every)
        assert unary @ y + y @ table @ y == pytest.approx(values.max())


def test_probabilities_are_those_given_the_other_labels():
    X, Y = data()
    classifier = Subset(0.01, loss="log", interaction_scaling=1.0, random_state=0)
    classifier.fit(X, Y)
    x, j = X[0], 2
    y = classifier.predict(X[:1])[0]
    on, off = y.copy(), y.copy()
    on[j], off[j] = 1, 0
    every = [tuple(row) for row in product((0, 1), repeat=Y.shape[1])]
    scores = dict(zip(every, best_labels(classifier, x)[1], strict=True))
    expected = scores[tuple(on)] - scores[tuple(off)]
    found = classifier.predict_proba(X[:1])[0, j]
    assert found == pytest.approx(1 / (1 + np.exp(-expected)))
    probabilities = classifier.predict_proba(X)
    np.testing.assert_array_equal(probabilities > 0.5, classifier.predict(X) == 1)


TARGETS = "auto", "subset", "hamming", "f1", "micro", "macro"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scaling", [0.0, 1.0])
def test_scores_rank_labels_and_have_the_signs_of_predictions(target, scaling):
    """Predicted labels come first, and both kinds are in the order of their odds."""
    X, Y = data(n=90)
    Y[Y.sum(axis=1) == 0, 4] = 1
    classifier = MultilabelPairwise(
        0.3, target=target, interaction_scaling=scaling, random_state=0
    ).fit(X, Y)
    predicted, scores = classifier.predict(X) == 1, classifier.decision_function(X)
    np.testing.assert_array_equal(predicted, scores > 0)
    names, odds = classifier.predict_topk(X, 5)
    odds = np.take_along_axis(odds, np.argsort(names, axis=1), axis=1)
    if target == "subset":
        unaries = X @ classifier.coef_.T + classifier.intercept_
        best = [best_labels(classifier, x)[0] for x in X]
        odds = unaries + best @ classifier.interactions_
    probability = 1.0 / (1.0 + np.exp(-odds))
    np.testing.assert_allclose(scores[predicted], -np.log1p(-probability[predicted]))
    np.testing.assert_allclose(scores[~predicted], np.log(probability[~predicted]))


@pytest.mark.parametrize("target", TARGETS)
def test_a_single_label_is_decided_by_the_sign(target):
    X, Y = data()
    names = np.array(["no", "yes"])[Y[:, 0]]
    single = MultilabelPairwise(0.01, target=target, random_state=0).fit(X, names)
    positive = single.decision_function(X) > 0
    np.testing.assert_array_equal(single.predict(X) == "yes", positive)
    assert positive.any() and not positive.all()


@pytest.mark.parametrize("solver", ["gdmm", "bcfw"])
def test_without_pairs_it_is_one_against_the_rest(solver):
    X, Y = data()
    alpha = 0.02
    classifier = MultilabelPairwise(
        alpha, loss="structured_hinge", pairs=np.empty((0, 2), dtype=int),
        solver=solver, tol=1e-6, max_iter=5000, random_state=0,
    )  # fmt: skip
    classifier.fit(X, Y)
    # liblinear regularizes the intercept as well
    alone = OneVsRestClassifier(
        LinearSVC(loss="hinge", C=1 / (len(X) * alpha), tol=1e-8, max_iter=10**6)
    ).fit(X, Y)
    coef = np.vstack([each.coef_ for each in alone.estimators_])
    np.testing.assert_allclose(classifier.coef_, coef, atol=5e-3)
    assert classifier.label_pairs_.shape == (0, 2)
    assert not classifier.interactions_.any()


def test_training_many_labels_agrees_with_few():
    """Exact inference in training is the relaxation where that is tight."""
    X, Y = data()
    common = {
        "loss": "structured_hinge", "interaction_scaling": 1.0, "tol": 1e-5,
        "max_iter": 5000, "random_state": 0,
    }  # fmt: skip
    exact = MultilabelPairwise(0.05, inference="exact", **common)
    relaxed = MultilabelPairwise(0.05, inference="lp", **common)
    exact.set_params(solver="bcfw").fit(X, Y)
    relaxed.fit(X, Y)
    assert isinstance(relaxed.solver_, BCA)
    # an upper bound of it
    assert relaxed.objective_ >= exact.objective_ - exact.dual_gap_ - 1e-9


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["gdmm", "bca", "soft_bcfw"])
def test_solvers_of_the_relaxation_do_not_enumerate(solver):
    X, Y = data()
    classifier = MultilabelPairwise(
        0.1, loss="structured_hinge", inference="exact", solver=solver, random_state=0
    )
    with pytest.raises(ValueError, match=r"LP relaxation.*'bcfw'.*inference='lp'"):
        classifier.fit(X, Y)
    # which is exact without pairs, and where it is not asked for
    classifier.set_params(interaction_scaling=0.0).fit(X, Y)
    classifier.set_params(interaction_scaling=1.0, inference="auto").fit(X, Y)


def test_forms_of_y():
    X, Y = data()
    dense = MultilabelPairwise(0.01, random_state=0).fit(X, Y)
    stored = MultilabelPairwise(0.01, random_state=0).fit(X, sparse.csr_array(Y))
    predicted = stored.predict(sparse.csr_array(X))
    assert sparse.issparse(predicted)
    np.testing.assert_array_equal(predicted.toarray(), dense.predict(X))
    assert stored.score(X, sparse.csr_array(Y)) == dense.score(X, Y)
    flags = MultilabelPairwise(0.01, random_state=0).fit(X, Y.astype(bool))
    np.testing.assert_array_equal(flags.predict(X), dense.predict(X))
    names = np.array(["no", "yes"])[Y[:, 0]]
    single = MultilabelPairwise(0.01, random_state=0).fit(X, names)
    assert set(single.predict(X)) <= {"no", "yes"}
    assert single.decision_function(X).shape == (len(X),)
    # nothing is left of the earlier fit
    single.fit(X, Y)
    np.testing.assert_array_equal(single.predict(X), dense.predict(X))


def test_pairs():
    X, Y = data()
    common = {"interaction_scaling": 1.0, "random_state": 0}
    some = MultilabelPairwise(0.01, pairs=[[3, 1], [0, 4]], **common).fit(X, Y)
    assert some.label_pairs_.tolist() == [[1, 3], [0, 4]]
    assert np.count_nonzero(np.triu(some.interactions_)) == 2
    together = MultilabelPairwise(0.01, pairs="cooccurring", **common).fit(X, Y)
    assert [0, 1] not in together.label_pairs_.tolist()
    assert len(together.label_pairs_) == 9
    stronger = MultilabelPairwise(0.01, interaction_scaling=3.0, random_state=0)
    plain = MultilabelPairwise(0.01, **common).fit(X, Y)
    sizes = [np.abs(c.interactions_).sum() for c in (plain, stronger.fit(X, Y))]
    assert sizes[0] < sizes[1]


def test_bad_input():
    X, Y = data()
    for pairs, match in (
        ([[0, 1], [0, 5]], r"pairs\[1\] must be two different .*, got \[0, 5\]"),
        ([[1, 1]], r"pairs\[0\] must be two different .*, got \[1, 1\]"),
        ([[0, 1], [1, 0]], "twice"),
        ([0.5, 1.0], "array of integers"),
    ):
        with pytest.raises(ValueError, match=match):
            MultilabelPairwise(pairs=pairs).fit(X, Y)
    with pytest.raises(ValueError, match="label indicator of 0 and 1"):
        MultilabelPairwise().fit(X, Y + 1)
    with pytest.raises(
        ValueError, match="a column for each label, as MultiLabelBinari"
    ):
        MultilabelPairwise().fit(X, [str(k % 3) for k in range(len(X))])
    with pytest.raises(ValueError, match="at most 20"):
        MultilabelPairwise(inference="exact").fit(X, np.tile(Y, 5))
    with pytest.raises(ValueError, match="unknown solver"):
        MultilabelPairwise(solver="simplex").fit(X, Y)
    with pytest.raises(ValueError, match="needs the oracle"):
        MultilabelPairwise(solver="pragam").fit(X, Y)
    with pytest.raises(ValueError, match="needs the oracle"):
        MultilabelPairwise(solver="gdmm").fit(X, Y)
    with pytest.raises(ValueError, match="class_weight is for losses of labels"):
        MultilabelPairwise(loss="structured_hinge", class_weight="balanced").fit(X, Y)
    for weight, match in (
        ({2: 1.0}, "label 0 must be a dict with the keys"),
        ([{1: 2.0}], "1 entries for 5 labels"),
        ({1: -1.0}, "not negative"),
    ):
        with pytest.raises(ValueError, match=match):
            MultilabelPairwise(class_weight=weight).fit(X, Y)
    for loss in ("hinge", "structured_hinge"):
        with pytest.warns(ConvergenceWarning, match="duality gap"):
            MultilabelPairwise(loss=loss, tol=1e-9, max_iter=3, random_state=0).fit(
                X, Y
            )


def test_searches():
    X, Y = data()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MultilabelPairwise(random_state=0)),
        {"multilabelpairwise__alpha": [0.01, 0.1]},
        scoring="f1_micro",
        cv=2,
    ).fit(X, Y)
    assert search.best_score_ > 0.5
    by_gdmm = MultilabelPairwise(
        0.1,
        loss="structured_hinge",
        interaction_scaling=0.5,
        solver=GDMM(),
        random_state=0,
    )
    GridSearchCV(by_gdmm, {"solver__tol": [1e-2, 1e-3]}, cv=2).fit(X, Y)
    assert by_gdmm.solver.tol == 3e-3


def test_sparse_weights():
    X, Y = data()
    classifier = MultilabelPairwise(0.01, interaction_scaling=0.5, random_state=0)
    dense = classifier.fit(X, Y)
    expected, scores = dense.predict(X), dense.decision_function(X)
    coef = dense.coef_
    small = pickle.loads(pickle.dumps(dense.sparsify()))
    assert sparse.issparse(small.coef_)
    for given in (X, sparse.csr_array(X), sparse.csc_matrix(X)):
        np.testing.assert_array_equal(small.predict(given), expected)
        np.testing.assert_allclose(small.decision_function(given), scores)
    threshold = np.median(np.abs(coef))
    small.sparsify(threshold)
    kept = np.abs(coef) > threshold
    np.testing.assert_array_equal(small.coef_.toarray(), np.where(kept, coef, 0.0))
    assert small.coef_.nnz == kept.sum()
    assert small.score(X, Y) == (small.predict(X) == Y).all(axis=1).mean()
    # a new fit is dense
    assert isinstance(small.fit(X, Y).coef_, np.ndarray)
    with pytest.raises(ValueError, match="threshold must be finite"):
        small.sparsify(-1.0)


@pytest.mark.parametrize(("solver", "loss"), [(GDMM, "structured_hinge"), (DCD, "log")])
def test_interrupted_fits_can_be_used(monkeypatch, solver, loss):
    X, Y = data()
    look = solver._solve

    def interrupted(self, model, alpha, options):
        def stop(n_passes, weights):
            if n_passes == 4:
                raise KeyboardInterrupt

        options.callback = stop
        return look(self, model, alpha, options)

    monkeypatch.setattr(solver, "_solve", interrupted)
    classifier = Subset(
        0.1, loss=loss, interaction_scaling=1.0, tol=1e-9, random_state=0
    )
    classifier.set_params(solver=solver.__name__.lower())
    with pytest.raises(KeyboardInterrupt, match="classifier can be used"):
        classifier.fit(X, Y)
    assert classifier.predict(X).shape == Y.shape
    assert classifier.n_iter_ == 4


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["gdmm", "bcfw"])
def test_emotions(solver):
    """Real data: the relaxed objective agrees, labels are found."""
    try:
        train, test = (load_multilabel("emotions", part) for part in ("train", "test"))
    except OSError as error:
        pytest.skip(str(error))
    scale = make_pipeline(StandardScaler(with_mean=False)).fit(train.X)
    X, X_test = (scale.transform(part.X) / 72**0.5 for part in (train, test))
    classifier = MultilabelPairwise(
        1 / len(train.y), loss="structured_hinge", interaction_scaling=1.0,
        inference="lp", solver=solver, tol=1e-4, random_state=0,
    ).fit(X, train.y)  # fmt: skip
    assert classifier.objective_ == pytest.approx(2.6, abs=0.3)
    assert (classifier.predict(X_test) != test.y).mean() < 0.23


def test_loader():
    with pytest.raises(ValueError, match="name must be one of"):
        load_multilabel("iris")
    with pytest.raises(ValueError, match="subset must be"):
        load_multilabel("yeast", "all")
    with pytest.raises(OSError, match=r"yeast_train\.svm\.gz not found"):
        load_multilabel("yeast", data_home="nowhere")
    try:
        train, test = (load_multilabel("rcv1sub1", part) for part in ("train", "test"))
    except OSError as error:
        pytest.skip(str(error))
    assert train.X.shape == test.X.shape == (3000, 47236)
    assert train.y.shape == test.y.shape == (3000, 100)
    # the same labels in both halves
    assert np.corrcoef(train.y.mean(axis=0), test.y.mean(axis=0))[0, 1] > 0.99
