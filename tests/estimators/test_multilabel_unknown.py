"""Label indicators of which a part is known."""

import itertools
import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import check_grad
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.svm import LinearSVC

from sksstruct import MultilabelPairwise
from sksstruct.estimators._held_out import f1_values, measures
from sksstruct.models.multilabel._pairs import known_counts, significant_pairs
from sksstruct.models.multilabel.conditional import ConditionalLoss, ConditionalModel
from sksstruct.models.multilabel.targets import Target
from sksstruct.models.multilabel.unknown import losses_left, split_unknown

LOSSES = {
    "hinge": lambda m: np.maximum(1 - m, 0),
    "squared_hinge": lambda m: np.maximum(1 - m, 0) ** 2,
    "log": lambda m: np.logaddexp(0, -m),
}
PAIRS = [(0, 1), (1, 2), (3, 4)]


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(
        150, 8, n_classes=5, n_labels=2, allow_unlabeled=True, random_state=0
    )
    X = X / 5.0
    unknown = np.random.default_rng(0).random(Y.shape) < 0.25
    unknown[unknown.all(axis=1), 0] = False
    return X, Y, unknown


def partly(Y, unknown, value=-1):
    return np.where(unknown, value, Y if value == -1 else Y.astype(float))


def brute_force(classifier, X, Y, unknown, weight=None, loss="squared_hinge"):
    """The objective, label by label, from the public weights."""
    weight = np.ones(len(X)) if weight is None else weight
    total = 0.0
    for i, j in itertools.product(*map(range, Y.shape)):
        table = classifier.interactions_
        next_to = [a + b - j for a, b in classifier.label_pairs_ if j in (a, b)]
        if unknown[i, j] or any(unknown[i, k] for k in next_to):
            continue
        score = X[i] @ classifier.coef_[j] + classifier.intercept_[j]
        score += sum(table[j, k] * Y[i, k] for k in next_to)
        total += weight[i] * LOSSES[loss]((2 * Y[i, j] - 1) * score)
    scaling = classifier.interaction_scaling_
    square = (classifier.coef_**2).sum()
    if loss != "log":
        square += (classifier.intercept_**2).sum()
    if scaling:
        square += (np.triu(classifier.interactions_) ** 2).sum() / scaling**2
    return classifier.alpha / 2 * square + total / weight.sum()


@pytest.mark.parametrize("scaling", [0.0, 0.7])
@pytest.mark.parametrize("loss", list(LOSSES))
def test_the_objective_is_that_of_the_losses_that_are_left(data, loss, scaling):
    X, Y, unknown = data
    weight = np.random.default_rng(1).random(len(X)) + 0.1
    classifier = MultilabelPairwise(
        0.01,
        loss=loss,
        pairs=PAIRS,
        interaction_scaling=scaling,
        target="subset",
        tol=1e-6,
        max_iter=20000,
        random_state=0,
    )
    classifier.fit(X, partly(Y, unknown), weight)
    expected = brute_force(classifier, X, Y, unknown, weight, loss)
    assert classifier.objective_ == pytest.approx(expected, rel=1e-9)
    assert 0.0 <= classifier.dual_gap_ <= 1e-5
    # the certificate: no other weights are better by more than the gap
    others = MultilabelPairwise(**{**classifier.get_params(), "alpha": 0.011})
    others.fit(X, partly(Y, unknown), weight).alpha = 0.01
    other = brute_force(others, X, Y, unknown, weight, loss)
    assert other >= classifier.objective_ - classifier.dual_gap_


@pytest.mark.parametrize("solver", ["dcd", "newton", "lbfgs"])
@pytest.mark.parametrize("loss", ["squared_hinge", "log"])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_solvers_agree(data, loss, solver, as_sparse):
    X, Y, unknown = data
    X = sparse.csr_array(X) if as_sparse else X
    fitted = [
        MultilabelPairwise(
            0.01,
            loss=loss,
            pairs=PAIRS,
            interaction_scaling=0.5,
            solver=name,
            target="subset",
            tol=1e-7,
            max_iter=20000,
            random_state=0,
        ).fit(X, partly(Y, unknown))
        for name in (solver, "auto")
    ]
    gap = sum(each.dual_gap_ for each in fitted)
    assert abs(fitted[0].objective_ - fitted[1].objective_) <= gap + 1e-12
    assert fitted[0].coef_ == pytest.approx(fitted[1].coef_, abs=5e-3)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "log"])
def test_without_pairs_each_label_is_trained_on_its_known_samples(data, loss):
    X, Y, unknown = data
    alpha = 0.02
    classifier = MultilabelPairwise(
        alpha, loss=loss, interaction_scaling=0, tol=1e-9, max_iter=10**5
    ).fit(X, partly(Y, unknown, np.nan))
    for j in range(Y.shape[1]):
        known = ~unknown[:, j]
        C = 1.0 / (len(X) * alpha)
        if loss == "log":
            peer = LogisticRegression(C=C, tol=1e-9, max_iter=10**4)
        else:
            peer = LinearSVC(C=C, loss=loss, tol=1e-9, max_iter=10**6, random_state=0)
        peer.fit(X[known], Y[known, j])
        assert classifier.coef_[j] == pytest.approx(peer.coef_[0], abs=2e-3)
        assert classifier.intercept_[j] == pytest.approx(peer.intercept_[0], abs=2e-3)


@pytest.mark.parametrize("loss", ["squared_hinge", "log"])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_gradients(data, loss, as_sparse):
    X, Y, unknown = (each[:20] for each in data)
    weight, ones = np.full(20, 0.05), np.ones((20, 1))
    X = np.hstack([X, ones])
    model = ConditionalModel(
        sparse.csr_array(X) if as_sparse else X,
        Y.astype(np.int32) * ~unknown,
        np.array(PAIRS),
        np.array([[1.0, 2.0, 1.0, 0.5, 1.0], [1.0, 1.0, 3.0, 1.0, 1.0]]),
        weight,
        0.6,
        loss,
        counted=losses_left(partly(Y, unknown), PAIRS),
    )
    loss = ConditionalLoss(model)
    w = np.zeros(model.n_weights)
    rng = np.random.default_rng(0)
    for view in model.views(w).values():
        view[...] = rng.normal(size=view.shape)

    def gradient(w):
        out = np.empty_like(w)
        loss.value_and_gradient(w, out)
        return out

    def value(w):
        return loss.value_and_gradient(w, np.empty_like(w))

    assert value(w) == pytest.approx(model.loss(w), rel=1e-12)
    assert check_grad(value, gradient, w) < 1e-5


def test_losses_with_an_unknown_neighbor_are_left_out():
    Y = np.array([[1, -1, 0, 1], [0, 1, 1, -1], [1, 0, 0, 0]])
    assert losses_left(Y, [(0, 1), (2, 3)]).tolist() == [
        [False, False, True, True],
        [True, True, False, False],
        [True] * 4,
    ]


def test_pseudo_likelihood_is_consistent():
    # the labels come from the model, and entries are unknown by chance
    rng = np.random.default_rng(0)
    n, table = 40000, np.array([[0, 1.5, 0], [1.5, 0, -1.0], [0, -1.0, 0]])
    X = rng.normal(size=(n, 1))
    sets = np.array(list(itertools.product([0, 1], repeat=3)))
    coef = np.array([[1.0], [-0.5], [0.5]])
    scores = X @ coef.T @ sets.T + 0.5 * ((sets @ table) * sets).sum(axis=1)
    scores += rng.gumbel(size=scores.shape)
    Y = sets[scores.argmax(axis=1)]
    unknown = rng.random(Y.shape) < 0.3
    classifier = MultilabelPairwise(
        1e-7,
        loss="log",
        pairs=[(0, 1), (1, 2)],
        interaction_scaling=1.0,
        target="subset",
    ).fit(X, partly(Y, unknown))
    assert classifier.interactions_ == pytest.approx(table, abs=0.15)
    assert classifier.coef_ == pytest.approx(coef, abs=0.1)
    # unknown values that count as zero lead elsewhere
    as_zero = clone(classifier).fit(X, Y * ~unknown)
    assert np.abs(as_zero.interactions_ - table).max() > 0.3


@pytest.mark.parametrize("target", ["auto", "macro", "f1", "hamming", "subset"])
def test_forms_of_unknown_entries_are_alike(data, target):
    X, Y, unknown = data
    pd = pytest.importorskip("pandas")
    with_none = partly(Y, unknown).astype(object)
    with_none[unknown] = None
    forms = [
        partly(Y, unknown),
        partly(Y, unknown, np.nan),
        with_none,
        with_none.tolist(),
        sparse.csr_array(partly(Y, unknown)),
        sparse.coo_array(partly(Y, unknown, np.nan)),
        pd.DataFrame(partly(Y, unknown, np.nan)),
        pd.DataFrame(with_none).astype("Int64"),
        pd.DataFrame(with_none).astype("boolean"),
    ]
    fitted = [
        MultilabelPairwise(target=target, random_state=0, max_iter=50).fit(X, form)
        for form in forms
    ]
    for classifier, form in zip(fitted, forms, strict=True):
        np.testing.assert_array_equal(classifier.coef_, fitted[0].coef_)
        np.testing.assert_array_equal(
            classifier.decision_function(X), fitted[0].decision_function(X)
        )
        assert classifier.score(X, form) == fitted[0].score(X, forms[0])
    predicted = fitted[4].predict(X)
    assert sparse.issparse(predicted)
    np.testing.assert_array_equal(predicted.toarray(), fitted[0].predict(X))


def test_split_unknown_leaves_known_data_alone(data):
    _, Y, _ = data
    for y in (Y, Y.astype(float), Y.astype(bool), sparse.csr_array(Y), Y.tolist()):
        found, unknown = split_unknown(y)
        assert found is y and unknown is None
    # two values of a single label
    for y in (np.array([-1, 1, 1]), np.array([[-1], [1]])):
        found, unknown = split_unknown(y)
        assert found is y and unknown is None


def test_training_does_not_change_y(data):
    X, Y, unknown = data
    for y in (partly(Y, unknown, np.nan), sparse.csr_array(partly(Y, unknown))):
        before = y.copy()
        MultilabelPairwise(0.1, interaction_scaling=0, max_iter=5).fit(X, y)
        both = (y, before) if isinstance(y, np.ndarray) else (y.data, before.data)
        np.testing.assert_array_equal(*both)


def test_rows_without_a_known_label_are_left_out(data):
    X, Y, unknown = data
    blank = unknown.copy()
    blank[::5] = True
    weight = np.random.default_rng(0).random(len(X))
    some = ~blank.all(axis=1)
    for given in (None, weight):
        whole, rest = (
            MultilabelPairwise(random_state=0).fit(
                X[rows], partly(Y, blank)[rows], given if given is None else given[rows]
            )
            for rows in (slice(None), some)
        )
        assert whole.coef_ == pytest.approx(rest.coef_, rel=1e-9)
        assert whole.objective_ == pytest.approx(rest.objective_, rel=1e-12)
        np.testing.assert_array_equal(whole.predict(X), rest.predict(X))


def test_label_that_is_never_known(data):
    X, Y, unknown = data
    unknown = unknown.copy()
    unknown[:, 3] = True
    with pytest.raises(ValueError, match="no known entry of label 3"):
        MultilabelPairwise().fit(X, partly(Y, unknown))
    # its only entry is in a sample without weight
    unknown[0, 3] = False
    weight = np.ones(len(X))
    weight[0] = 0.0
    with pytest.raises(ValueError, match="no known entry of label 3"):
        MultilabelPairwise().fit(X, partly(Y, unknown), weight)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(partly(Y, unknown), columns=list("abcde"))
    with pytest.raises(ValueError, match="no known entry of label 'd'"):
        MultilabelPairwise().fit(X, frame, weight)


def test_pairs_that_leave_a_label_without_loss(data):
    X, Y, unknown = data
    unknown = unknown.copy()
    # labels 0 and 1 are never known together
    unknown[::2, 0], unknown[1::2, 1] = True, True
    y = partly(Y, unknown)
    with pytest.raises(ValueError, match="no sample has known values of label 0"):
        MultilabelPairwise(pairs=[(0, 1)], interaction_scaling=1.0).fit(X, y)
    # pairs that cannot be learned are not tried
    classifier = MultilabelPairwise(random_state=0).fit(X, y)
    assert classifier.interaction_scaling_ == 0.0
    assert len(classifier.label_pairs_) == 0


def test_folds_without_any_loss(data):
    # each fold's training part must do, whatever is known in it
    X, Y, _ = data
    unknown = np.random.default_rng(0).random(Y.shape) < 0.85
    unknown[0] = False
    unknown[1:][unknown[1:].all(axis=1), 0] = False
    y = partly(Y, unknown)
    for loss in LOSSES:
        classifier = MultilabelPairwise(loss=loss, random_state=0).fit(X, y)
        assert np.isfinite(classifier.coef_).all()
        assert np.isfinite(classifier.predict(X)).all()


def test_errors(data):
    X, Y, unknown = data
    y = partly(Y, unknown)
    with pytest.raises(ValueError, match=r"y\[\d+, \d+\] is not known"):
        MultilabelPairwise(loss="structured_hinge").fit(X, y)
    with pytest.raises(ValueError, match="y has no entry 0"):
        MultilabelPairwise().fit(X, 2 * Y - 1)
    with pytest.raises(ValueError, match="0 and 1"):
        MultilabelPairwise().fit(X, np.where(unknown, -2, Y))
    with pytest.raises(ValueError, match="0 and 1"):
        MultilabelPairwise().fit(X, np.where(unknown, -1, 2 * Y))
    with pytest.raises(ValueError, match="sample_weight has 3 entries"):
        MultilabelPairwise().fit(X, y, [1.0, 1.0, 1.0])
    classifier = MultilabelPairwise(0.1, interaction_scaling=0).fit(X, y)
    with pytest.raises(ValueError, match="no known label"):
        classifier.score(X, np.full_like(y, -1))


def test_balanced_weights_count_known_entries(data):
    X, Y, unknown = data
    known = ~unknown
    dicts = []
    for j in range(Y.shape[1]):
        y = Y[known[:, j], j]
        dicts.append({0: len(y) / (2 * (y == 0).sum()), 1: len(y) / (2 * y.sum())})
    both = [
        MultilabelPairwise(
            0.1, interaction_scaling=0, class_weight=each, random_state=0
        ).fit(X, partly(Y, unknown))
        for each in ("balanced", dicts)
    ]
    assert both[0].coef_ == pytest.approx(both[1].coef_, rel=1e-10)


def test_significant_pairs_count_known_entries():
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, (2000, 4))
    Y[:, 1] = np.where(rng.random(2000) < 0.8, Y[:, 0], Y[:, 1])
    known = rng.random(Y.shape) < 0.6
    # as zeros, labels that are unknown together would seem to go together
    known[:, 3] = known[:, 2]
    together, n, first = known_counts(Y, known)
    for j, k in itertools.permutations(range(4), 2):
        rows = known[:, j] & known[:, k]
        assert n[j, k] == rows.sum()
        assert first[j, k] == Y[rows, j].sum()
        assert together[j, k] == (Y[rows, j] & Y[rows, k]).sum()
    assert significant_pairs(together, n, first).tolist() == [[0, 1]]
    everything = np.ones_like(known)
    together, n, first = known_counts(Y, everything)
    assert significant_pairs(together, n, first).tolist() == [[0, 1]]


def test_thresholds_and_measures_leave_unknown_entries_out():
    rng = np.random.default_rng(0)
    Y = (rng.random((400, 3)) < 0.3).astype(np.int32)
    scores = Y + rng.normal(size=Y.shape)
    weight = rng.random(400)
    known = rng.random(Y.shape) < 0.7
    # values of unknown entries that would spoil thresholds
    spoiled = np.where(known, scores, rng.choice([-50.0, 50.0], Y.shape))
    targets = [
        Target.learned(
            "macro",
            given,
            Y * known,
            weight,
            False,
            np.full(3, 0.3),
            lambda labels: f1_values(Y * known, labels * known, weight).mean(),
            known,
        )
        for given in (scores, spoiled)
    ]
    assert targets[0].slope == pytest.approx(targets[1].slope, rel=1e-5)
    assert targets[0].thresholds == pytest.approx(targets[1].thresholds, abs=0.1)
    predicted = (scores > 0.5).astype(np.int32)
    found = measures(Y * known, predicted * known, weight, known).mean(axis=0)
    weights = np.repeat(weight, 3)[known.ravel()]
    micro = f1_score(Y[known], predicted[known], sample_weight=weights)
    right = np.average(Y[known] == predicted[known], weights=weights)
    assert found[[0, 3]] == pytest.approx([micro, right], abs=1e-12)


def test_score_is_of_known_entries(data):
    X, Y, unknown = data
    classifier = MultilabelPairwise(0.1, interaction_scaling=0).fit(X, Y)
    predicted = classifier.predict(X)
    hidden = unknown | (np.arange(len(X)) % 10 == 0)[:, None]
    right = (hidden | (predicted == Y)).all(axis=1)[~hidden.all(axis=1)]
    assert classifier.score(X, partly(Y, hidden)) == pytest.approx(right.mean())
    everything = partly(Y, predicted != Y, np.nan)
    assert classifier.score(X, everything) == 1.0


def test_searches_and_pickles(data):
    X, Y, unknown = data
    y = partly(Y, unknown)
    estimator = MultilabelPairwise(
        interaction_scaling=0, target="subset", random_state=0
    )
    search = GridSearchCV(estimator, {"alpha": [1e6, 0.05]}, cv=3).fit(X, y)
    assert search.best_params_ == {"alpha": 0.05}
    scores = cross_val_score(
        estimator, X, partly(Y, unknown, np.nan), cv=KFold(3), error_score="raise"
    )
    assert scores == pytest.approx(cross_val_score(estimator, X, y, cv=KFold(3)))
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))


def test_warm_start(data):
    X, Y, unknown = data
    y = partly(Y, unknown)
    classifier = MultilabelPairwise(
        0.01, interaction_scaling=0, solver="dcd", warm_start=True, random_state=0
    ).fit(X, y)
    first = classifier.n_iter_
    assert classifier.fit(X, y).n_iter_ < first
    # other entries are known now
    more = classifier.fit(X, Y)
    cold = clone(classifier).fit(X, Y)
    assert abs(more.objective_ - cold.objective_) <= more.dual_gap_ + cold.dual_gap_


def test_known_data_have_the_same_bits_with_a_mask(data):
    X, Y, _ = data
    args = np.array(PAIRS), np.ones((2, 5)), np.full(len(X), 1 / len(X)), 0.5
    results = []
    for counted in (None, np.ones(Y.shape, dtype=bool)):
        model = ConditionalModel(
            X, Y.astype(np.int32), *args, "squared_hinge", counted=counted
        )
        w = np.full(model.n_weights, 0.1)
        results.append((model.loss(w), model.coordinates_at(w).tobytes()))
    assert results[0] == results[1]
