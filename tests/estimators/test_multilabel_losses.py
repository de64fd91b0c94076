"""MultilabelPairwise: losses of labels given the others, their costs, and its pairs."""

import warnings
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime, minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, hamming_loss
from sklearn.svm import LinearSVC

from sksstruct import MultilabelPairwise
from sksstruct.estimators._held_out import (
    FACTORS,
    MOST_SMALLER,
    Trials,
    best_of,
    gains,
    measures,
)
from sksstruct.models.multilabel._pairs import (
    check_pairs,
    independence,
    joint_counts,
)
from sksstruct.models.multilabel.conditional import ConditionalModel
from sksstruct.models.multilabel.multilabel import MultilabelModel
from sksstruct.models.multilabel.targets import Target
from sksstruct.models.roles import coordinate_dual, fits_coordinate_dual, smooth_loss
from sksstruct.solvers import DCD, LBFGS, Newton

# what is trained is the best set, which other targets do not show
Subset = partial(MultilabelPairwise, target="subset")
LOSSES = "hinge", "squared_hinge", "log"
EXACT = {"solver": DCD(20000, 1e-10), "random_state": 0}
METHODS = [(loss, EXACT["solver"]) for loss in LOSSES]
METHODS += [
    (loss, solver(2000, 1e-10)) for loss in LOSSES[1:] for solver in (LBFGS, Newton)
]


def data(n=60, n_labels=5, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 4))
    scores = X @ rng.standard_normal((4, n_labels)) + rng.standard_normal((n, n_labels))
    Y = (scores > 0.3).astype(int)
    Y[Y[:, 0] == 1, 1] = 0
    return X, Y


def loss_of(loss, margins):
    if loss == "log":
        return np.logaddexp(0.0, -margins)
    slack = np.maximum(0.0, 1.0 - margins)
    return slack if loss == "hinge" else slack**2


def objective(classifier, X, Y, costs, weight=None):
    """The objective, written out for fitted attributes."""
    scaling = classifier.interaction_scaling_
    table = np.zeros((Y.shape[1],) * 2)
    for j, k in classifier.label_pairs_:
        table[j, k] = table[k, j] = classifier.interactions_[j, k]
    pairs = np.triu(table) / scaling if scaling else np.zeros(1)
    # the intercept of the logistic loss has no penalty
    bias = classifier.intercept_ * (classifier.loss != "log")
    weights = classifier.coef_, bias, pairs
    penalty = classifier.alpha / 2 * sum((part**2).sum() for part in weights)
    scores = X @ classifier.coef_.T + classifier.intercept_ + Y @ table
    losses = loss_of(classifier.loss, (2 * Y - 1) * scores)
    losses = (losses * np.where(Y == 1, costs[1], costs[0])).sum(axis=1)
    return penalty + np.average(losses, weights=weight)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("pairs", ["all", [[0, 1], [4, 2], [1, 4]]])
@pytest.mark.parametrize("loss, solver", METHODS)
def test_the_objective_is_that_of_the_docstring(loss, solver, pairs, fit_intercept):
    X, Y = data()
    weight = np.random.RandomState(1).uniform(0.5, 2.0, len(X))
    costs = np.array([[1.0, 2.0, 1.0, 0.5, 1.0], [3.0, 1.0, 1.0, 1.0, 2.0]])
    class_weight = [{0: off, 1: on} for off, on in costs.T]
    for features in (X, sparse.csr_array(X)):
        classifier = MultilabelPairwise(
            0.1, loss=loss, pairs=pairs, interaction_scaling=0.7,
            class_weight=class_weight, fit_intercept=fit_intercept, solver=solver,
            random_state=0,
        ).fit(features, Y, weight)  # fmt: skip
        found = objective(classifier, X, Y, costs, weight)
        assert classifier.objective_ == pytest.approx(found, rel=1e-9)
        assert classifier.dual_gap_ <= 1e-9 * found
    # no dual above a primal: the certificate is not trivial
    assert classifier.n_iter_ > 3
    duals = classifier.history_["dual"]
    # without a penalty on biases there is no dual value before the last steps
    assert (np.diff(duals[np.isfinite(duals)]) >= -1e-12).all()


def bound_model(loss, seed=0, scaling=0.8, is_sparse=False):
    X, Y = data(20, 4, seed)
    X = sparse.csr_array(X) if is_sparse else X
    rng = np.random.RandomState(seed)
    weight = rng.uniform(0.5, 1.0, 20)
    costs = rng.uniform(0.5, 2.0, (2, 4))
    pairs = np.array([[0, 1], [1, 3], [0, 2]])
    weight /= weight.sum()
    return ConditionalModel(X, Y, pairs, costs, weight, scaling, loss)


@pytest.mark.parametrize("loss", ["squared_hinge", "log"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_slopes_are_those_of_the_loss(loss, is_sparse):
    model = bound_model(loss, is_sparse=is_sparse)
    mean_loss = smooth_loss(model, None)
    rng = np.random.RandomState(0)
    # scores of either sign, some of them large
    for scale in (0.3, 3.0, 300.0):
        w, found = np.zeros((2, model.n_weights))
        coef, pairs = model.views(w).values()
        coef[...], pairs[...] = scale * rng.randn(*coef.shape), rng.randn(*pairs.shape)
        value = mean_loss.value_and_gradient(w, found)
        assert value == pytest.approx(model.loss(w), rel=1e-12)
        used = np.flatnonzero(found)

        def at(x, w=w, used=used):
            moved = w.copy()
            moved[used] = x
            return model.loss(moved)

        numeric = approx_fprime(w[used], at, 1e-6)
        np.testing.assert_allclose(found[used], numeric, atol=2e-5 * max(value, 1.0))


def test_lbfgs_stops_at_a_gap():
    X, Y = data(400, 8)
    fits = {
        tol: MultilabelPairwise(
            0.01, loss="log", solver="lbfgs", interaction_scaling=0.5, tol=tol
        ).fit(X, Y)
        for tol in (1e-1, 1e-3, 1e-6)
    }
    best = fits[1e-6].objective_ - fits[1e-6].dual_gap_
    for tol, each in fits.items():
        assert each.dual_gap_ <= tol * each.objective_
        # the certificate holds
        assert each.objective_ - each.dual_gap_ <= fits[1e-6].objective_
        assert each.objective_ >= best
    assert fits[1e-1].n_iter_ < fits[1e-6].n_iter_
    with pytest.raises(ValueError, match="needs the oracle"):
        MultilabelPairwise(0.01, loss="hinge", solver="lbfgs").fit(X, Y)


@pytest.mark.parametrize("loss, solver", METHODS[1:])
@pytest.mark.parametrize("scaling", [0.0, 0.8])
def test_the_optimum_is_that_of_scipy(loss, solver, scaling):
    X, Y = data()
    classifier = MultilabelPairwise(
        0.01, loss=loss, interaction_scaling=scaling, solver=solver, random_state=0
    ).fit(X, Y)
    n_labels, signs = Y.shape[1], 2 * Y - 1
    ones = np.column_stack([X, np.ones(len(X))])
    first, second = np.triu_indices(n_labels, 1)

    def value(w):
        """The objective with one vector of weights, and its gradient."""
        coef = w[: 5 * n_labels].reshape(5, n_labels)
        table = np.zeros((n_labels, n_labels))
        table[first, second] = table[second, first] = scaling * w[5 * n_labels :]
        margins = signs * (ones @ coef + Y @ table)
        slopes = -2 * np.maximum(0.0, 1.0 - margins)
        if loss == "log":
            slopes = -1 / (1 + np.exp(margins))
        slopes = signs * slopes / len(X)
        both = Y.T @ slopes
        pairs = scaling * (both + both.T)[first, second]
        penalized = w.copy()
        if loss == "log":
            penalized[4 * n_labels : 5 * n_labels] = 0.0
        gradient = np.concatenate([(ones.T @ slopes).ravel(), pairs])
        gradient += 0.01 * penalized
        value = loss_of(loss, margins).sum() / len(X) + 0.005 * w @ penalized
        return value, gradient

    start = np.zeros(5 * n_labels + len(first))
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10**4}
    other = minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    # what is minimized here has the gradient that it says
    random = np.random.RandomState(0).standard_normal(len(start))
    numeric = approx_fprime(random, lambda w: value(w)[0], 1e-7)
    np.testing.assert_allclose(value(random)[1], numeric, atol=1e-4)
    assert classifier.objective_ == pytest.approx(other.fun, rel=1e-8)
    coef = other.x[: 5 * n_labels].reshape(5, n_labels)
    np.testing.assert_allclose(classifier.coef_, coef[:4].T, atol=1e-3)
    interactions = scaling * other.x[5 * n_labels :]
    np.testing.assert_allclose(
        classifier.interactions_[first, second], interactions, atol=1e-3
    )


def test_the_hinge_is_that_of_its_dual():
    X, Y = data(20, 3)
    pairs = np.array([[0, 1], [1, 2]])
    model = ConditionalModel(X, Y, pairs, np.ones((2, 3)), np.full(20, 0.05), 1.0,
                             "hinge")  # fmt: skip
    # the features that the margin of each label of each example is linear in
    rows, signs = [], (2 * Y - 1).ravel()
    for x, y in zip(X, Y, strict=True):
        for j in range(3):
            row = np.zeros(12 + 2)
            row[4 * j : 4 * j + 4] = x
            for e, pair in enumerate(pairs):
                if j in pair:
                    row[12 + e] = y[pair.sum() - j]
            rows.append(row)
    features = signs[:, None] * np.array(rows)
    alpha = 0.1
    gram = features @ features.T / alpha

    def dual(b):
        return b @ gram @ b / 2 - b.sum(), gram @ b - 1.0

    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10**4}
    found = minimize(
        dual, np.zeros(60), jac=True, method="L-BFGS-B", bounds=[(0.0, 0.05)] * 60,
        options=options,
    )  # fmt: skip
    result = DCD(20000, 1e-10).solve(model, alpha, random_state=0)
    assert result.objective == pytest.approx(-found.fun, rel=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_visit_raises_the_dual(loss):
    model, alpha = bound_model(loss, scaling=3.0), 1e-3
    dual = coordinate_dual(model, alpha)
    last = 0.0
    rng = np.random.RandomState(0)
    for i in rng.randint(model.n_examples, size=300):
        model.rows.visit(np.array([i]), alpha, dual.duals, dual.w)
        value = dual.value()
        assert value >= last - 1e-12
        last = value
    # the weights are those of the duals
    fresh = coordinate_dual(model, alpha, dual.state())
    np.testing.assert_allclose(fresh.w, dual.w, atol=1e-9)


@pytest.mark.parametrize("passes", [0, 1, 2, 5])
def test_bounds_of_a_bias_without_penalty(passes):
    """A bound from below at any duals, and its restart."""
    X, Y = data(40, 3)
    Y[:, 2] = 0
    X = np.column_stack([X, np.ones(40)])
    pairs, alpha = np.array([[0, 1]]), 0.01
    weight = np.random.RandomState(0).uniform(0.5, 1.0, 40)
    model = ConditionalModel(X, Y, pairs, np.ones((2, 3)), weight / weight.sum(), 0.5,
                             "log", free_bias=True)  # fmt: skip
    # where no sample has a label its bias would fall for ever
    np.testing.assert_array_equal(model.free, [0, 1])
    best = DCD(20000, 1e-12).solve(model, alpha, random_state=0)
    assert best.dual_gap <= 1e-9
    dual = coordinate_dual(model, alpha)
    for _ in range(passes):
        dual.visit(np.random.RandomState(0))
        assert dual.value() <= best.objective + 1e-12 <= dual.primal() + 1e-9
        dual.end_pass()
    again = coordinate_dual(model, alpha, dual.state())
    np.testing.assert_allclose(again.w, dual.w, atol=1e-10)
    assert fits_coordinate_dual(model, dual.state())
    # the slope of the objective along the bias is zero
    changed = best.weights.copy()
    for step in (-1e-3, 1e-3):
        model.biases(changed)[:2] = model.biases(best.weights)[:2] + step
        value = model.loss(changed) + model.penalty(changed, alpha)
        assert value > best.objective - 1e-10


def binary(loss, C, **options):
    """The binary classifier of each label."""
    if loss == "log":
        return LogisticRegression(C=C, tol=1e-10, max_iter=10**5, **options)
    return LinearSVC(C=C, loss=loss, tol=1e-10, max_iter=10**6, **options)


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 0.5, 1: 3.0}])
@pytest.mark.parametrize("loss", LOSSES)
def test_without_pairs_it_is_one_against_the_rest(loss, class_weight):
    X, Y = data()
    alpha = 0.02
    weight = np.random.RandomState(0).uniform(0.5, 2.0, len(X))
    for sample_weight in (None, weight):
        classifier = MultilabelPairwise(
            alpha, loss=loss, class_weight=class_weight, interaction_scaling=0, **EXACT
        ).fit(X, Y, sample_weight)
        given = np.ones(len(X)) if sample_weight is None else sample_weight
        estimator = binary(loss, 1 / (given.sum() * alpha), class_weight=class_weight)
        for j in range(Y.shape[1]):
            if class_weight == "balanced":
                # scikit-learn counts sample weights only from 1.7 on
                counts = np.bincount(Y[:, j], given)
                balanced = dict(enumerate(counts.sum() / (2 * counts)))
                estimator.set_params(class_weight=balanced)
            estimator.fit(X, Y[:, j], given)
            np.testing.assert_allclose(
                classifier.coef_[j], estimator.coef_[0], atol=1e-4
            )
            np.testing.assert_allclose(
                classifier.intercept_[j], estimator.intercept_[0], atol=1e-4
            )
        assert classifier.label_pairs_.shape == (0, 2)
        assert not classifier.interactions_.any()


@pytest.mark.parametrize("loss", LOSSES)
def test_costs_are_repeated_labels(loss):
    """A label that costs twice is a column that comes twice, with shared weights."""
    X, Y = data(n_labels=2)
    twice = Subset(
        0.05, loss=loss, class_weight=[{0: 2.0, 1: 2.0}, {}], interaction_scaling=0,
        **EXACT,
    ).fit(X, Y)  # fmt: skip
    plain = Subset(0.025, loss=loss, interaction_scaling=0, **EXACT)
    plain.fit(X, Y)
    np.testing.assert_allclose(twice.coef_[0], plain.coef_[0], atol=1e-4)
    # misses that cost more are fewer
    few = Subset(0.5, loss=loss, random_state=0).fit(X, Y).predict(X)
    many = Subset(0.5, loss=loss, class_weight={1: 9.0}, random_state=0)
    assert many.fit(X, Y).predict(X).sum() > few.sum()


def test_probabilities():
    X, Y = data()
    classifier = Subset(0.02, loss="log", interaction_scaling=1.0, random_state=0).fit(
        X, Y
    )
    probabilities = classifier.predict_proba(X)
    predicted = classifier.predict(X)
    np.testing.assert_array_equal(probabilities > 0.5, predicted == 1)
    scores = X @ classifier.coef_.T + classifier.intercept_
    scores += predicted @ classifier.interactions_
    np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-scores)))
    single = Subset(0.02, loss="log", random_state=0).fit(X, Y[:, 0])
    assert single.predict_proba(X).shape == (len(X), 2)
    np.testing.assert_allclose(single.predict_proba(X).sum(axis=1), 1.0)
    assert not hasattr(Subset(), "predict_proba")
    # what was fitted counts, and not what would be
    assert hasattr(classifier.set_params(loss="hinge"), "predict_proba")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_labels_that_all_or_no_samples_have(loss, class_weight):
    X, Y = data()
    Y[:, 2], Y[:, 3] = 1, 0
    for scaling in ("auto", 1.0):
        classifier = MultilabelPairwise(
            0.02, loss=loss, class_weight=class_weight, interaction_scaling=scaling,
            random_state=0,
        ).fit(X, Y)  # fmt: skip
        predicted = classifier.predict(X)
        assert predicted[:, 2].all()
        assert not predicted[:, 3].any()


def pairs_of(pairs, Y):
    return check_pairs(pairs, Y.shape[1], lambda: joint_counts(Y))


def test_significant_pairs():
    rng = np.random.RandomState(0)
    n, n_labels = 2000, 120
    Y = (rng.uniform(size=(n, n_labels)) < 0.2).astype(int)
    Y[:, 1] = Y[:, 0] | Y[:, 1]
    Y[Y[:, 2] == 1, 3] = 0
    found = pairs_of("auto", Y).tolist()
    assert [0, 1] in found
    assert [2, 3] in found
    # by chance one in a thousand of the others
    assert len(found) < 30
    together = pairs_of("cooccurring", Y).tolist()
    assert [0, 1] in together
    assert [2, 3] not in together
    assert len(pairs_of("auto", Y[:, :100])) == 4950
    # few enough, whatever the data
    same = np.repeat(Y[:, :1], n_labels, axis=1)
    assert len(pairs_of("significant", same)) == 20 * n_labels
    # the statistic, written out
    table = np.array([[7.0, 3.0], [2.0, 28.0]])
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    value = 2 * (table * np.log(table / expected)).sum()
    assert independence(7.0, 10.0, 9.0, 40.0) == pytest.approx(value)


def test_measures_are_those_of_scikit_learn():
    rng = np.random.RandomState(0)
    Y, P = (rng.uniform(size=(2, 50, 6)) < 0.3).astype(int)
    Y[:, 4] = P[:, 4] = 0
    Y[0] = P[0] = 0
    means = measures(Y, P.astype(np.int8)).mean(axis=0)
    assert means[0] == pytest.approx(f1_score(Y, P, average="micro"))
    some = [0, 1, 2, 3, 5]
    assert means[1] == pytest.approx(f1_score(Y[:, some], P[:, some], average="macro"))
    assert means[2] == pytest.approx(f1_score(Y, P, average="samples", zero_division=1))
    assert means[3] == pytest.approx(1 - hamming_loss(Y, P))
    # a weight is how often a sample comes
    counts = rng.randint(1, 4, size=50)
    again = measures(Y.repeat(counts, axis=0), P.repeat(counts, axis=0))
    weighted = measures(Y, P, counts / counts.sum())
    np.testing.assert_allclose(weighted.mean(axis=0), again.mean(axis=0))
    assert abs(weighted.mean(axis=0) - measures(Y, P).mean(axis=0)).min() > 1e-4
    # the standard error is that of the bootstrap
    draws = rng.randint(50, size=(2000, 50))
    hits, both = (Y & P).sum(axis=1), (Y + P).sum(axis=1)
    f1 = 2 * hits[draws].sum(axis=1) / both[draws].sum(axis=1)
    first = draws[0]
    assert f1[0] == pytest.approx(f1_score(Y[first], P[first], average="micro"))
    spread = np.std(f1)
    error = measures(Y, P)[:, 0].std() / 50**0.5
    assert error == pytest.approx(spread, rel=0.15)


def test_a_scaling_is_taken_only_if_nothing_is_lost():
    rng = np.random.RandomState(0)
    base = rng.standard_normal((400, 4))
    noise = 0.1 * rng.standard_normal((400, 4))
    noise -= noise.mean(axis=0)
    better = base + noise + 0.02
    worse_in_one = better - [0.0, 0.0, 0.0, 0.03]
    assert best_of([base, better, worse_in_one]) == 1
    assert best_of([base, worse_in_one]) == 0
    assert best_of([base, base]) == 0
    np.testing.assert_allclose(gains(better, base), 0.02 * 20 / noise.std(axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("loss", [*LOSSES, "structured_hinge"])
def test_pairs_are_taken_where_they_help(loss):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((500, 3))
    # one of three labels, which features do not tell for sure
    best = np.argmax(X + 0.4 * rng.standard_normal((500, 3)), axis=1)
    Y = (best[:, None] == np.arange(3)).astype(int)
    chosen = [Subset(0.01, loss=loss, random_state=0).fit(X, Y) for _ in range(2)]
    assert chosen[0].interaction_scaling_ > 0.0
    assert (chosen[0].interactions_[np.triu_indices(3, 1)] < 0.0).all()
    # the same for the same random_state
    np.testing.assert_array_equal(chosen[0].coef_, chosen[1].coef_)
    alone = Subset(0.01, loss=loss, interaction_scaling=0, random_state=0)
    scores = [
        f1_score(Y, classifier.predict(X), average="micro")
        for classifier in (alone.fit(X, Y), chosen[0])
    ]
    assert scores[1] > scores[0]


def test_the_choice_of_a_scaling_is_printed(capsys):
    X, Y = data()
    MultilabelPairwise(0.01, verbose=1, random_state=0).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "[MultilabelPairwise] alpha 0.01, interaction_scaling 0: micro-F1 0."
    )
    assert any(line.startswith("[Newton] ") for line in lines)


def test_the_choice_of_a_scaling_counts_samples_by_their_weights():
    """Pairs are chosen where they help the samples that have weight."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((600, 3))
    best = np.argmax(X + 0.4 * rng.standard_normal((600, 3)), axis=1)
    Y = (best[:, None] == np.arange(3)).astype(int)
    # the other half has no use for pairs
    Y[300:] = X[300:] > 0.0
    classifier = Subset(0.01, random_state=0)
    weight = np.where(np.arange(600) < 300, 1.0, 1e-3)
    assert classifier.fit(X, Y, weight).interaction_scaling_ > 0.0
    assert classifier.fit(X, Y, weight[::-1]).interaction_scaling_ == 0.0


@pytest.mark.parametrize("loss", ["squared_hinge", "structured_hinge"])
def test_trials_of_a_scaling_that_do_not_converge(loss):
    """One warning for all of them, and none where they have passes enough."""
    X, Y = data()
    solver = "bca" if loss == "structured_hinge" else "auto"
    classifier = MultilabelPairwise(
        1e-2, loss=loss, solver=solver, inference="lp", max_iter=2, random_state=0
    )
    with pytest.warns(ConvergenceWarning) as caught:
        classifier.fit(X, Y)
    trials = [str(each.message) for each in caught if "trial" in str(each.message)]
    assert len(trials) == 1
    assert "after 2 passes, the duality gap is" in trials[0]
    assert "the tolerance" in trials[0]
    assert trials[0].endswith("Increase max_iter or tol.")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier.set_params(max_iter=10**4, tol=1e-2).fit(X, Y)


def test_interrupt_while_the_scaling_is_chosen(monkeypatch):
    """The solver returns what it has; the choice must not go on with it."""
    solve = DCD.solve

    def stopped(self, *args, **kwargs):
        return replace(solve(self, *args, **kwargs), status="interrupted")

    monkeypatch.setattr(DCD, "solve", stopped)
    classifier = MultilabelPairwise(random_state=0)
    with pytest.raises(KeyboardInterrupt, match="while choosing alpha and"):
        classifier.fit(*data())
    assert not hasattr(classifier, "coef_")


@pytest.mark.parametrize(
    "weight", [[1, 1, 1e-17], [0.3, 0.7, 1e-17], [1, 1, 0], [1, 1, 1e-300]]
)
def test_weights_that_are_nearly_zero(weight):
    """A label that all samples of any weight have needs no bias without a penalty."""
    classifier = MultilabelPairwise(loss="log", random_state=0)
    classifier.fit([[0.0], [1.0], [2.0]], [[1], [1], [0]], sample_weight=weight)
    assert np.isfinite(classifier.objective_)
    assert classifier.predict([[0.0]]).item() == 1


def tried(loss):
    """Factors of alpha, and those that are tried while the smallest is best."""
    factors = FACTORS[loss]
    step = factors[-1] / factors[-2]
    return [*factors, *(factors[-1] * step**k for k in range(1, MOST_SMALLER + 1))]


def test_default_alpha_follows_the_number_of_samples():
    X, Y = data(80)
    weight = np.random.RandomState(0).uniform(0.5, 2.0, 80)
    for n in (40, 80):
        fitted = MultilabelPairwise(interaction_scaling=0, random_state=0)
        fitted.fit(X[:n], Y[:n])
        factor = fitted.alpha_ / (X[:n].var(axis=0).sum() / n)
        assert np.isclose(tried("squared_hinge"), factor).any()
    fitted.fit(X, Y, weight)
    variance = np.trace(np.cov(X.T, aweights=weight, ddof=0))
    factor = fitted.alpha_ / (variance / weight.sum())
    assert np.isclose(tried("squared_hinge"), factor).any()
    # one label has no held-out samples
    fitted.fit(X, Y[:, 0])
    assert fitted.alpha_ == pytest.approx(0.5 * X.var(axis=0).sum() / 80)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_alpha_is_chosen_by_held_out_samples(loss):
    """Noise in many features needs more regularization than labels without noise."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 60))
    scores = X @ rng.standard_normal((60, 4))
    noisy = (0.1 * scores + 4.0 * rng.standard_normal((400, 4)) > 1.0).astype(int)
    clean = (scores > 1.0).astype(int)
    alphas = [
        MultilabelPairwise(loss=loss, interaction_scaling=0, random_state=0)
        .fit(X[:n], Y[:n])
        .alpha_
        for n, Y in ((100, noisy), (400, clean))
    ]
    # of the same sum of losses
    assert 100 * alphas[0] > 2.0 * 400 * alphas[1]
    # the held-out part of the choice is its own: another target, another alpha
    for target in ("subset", "hamming", "f1", "macro"):
        fitted = MultilabelPairwise(
            loss=loss, interaction_scaling=0, target=target, random_state=0
        ).fit(X, clean)
        n_over_m = len(X) / X.var(axis=0).sum()
        assert np.isclose(tried(loss), fitted.alpha_ * n_over_m).any()


def test_smaller_alphas_are_tried_while_the_smallest_is_best():
    """Labels that hang on a column of small variance need little regularization."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-1.0, 1.0, (600, 12))
    X[:, :2] *= 0.03
    Y = (X[:, :2] > 0).astype(int)
    fitted = MultilabelPairwise(interaction_scaling=0, random_state=0).fit(X, Y)
    factor = fitted.alpha_ * len(X) / X.var(axis=0).sum()
    assert factor < 0.9 * FACTORS["squared_hinge"][-1]
    assert np.isclose(tried("squared_hinge"), factor).any()


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["log", "squared_hinge"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_training_goes_on_from_the_trials(monkeypatch, loss, is_sparse):
    X, Y = data(400, 8)
    X = sparse.csr_array(X) if is_sparse else X
    alpha = "auto" if loss == "log" else 0.01
    classifier = MultilabelPairwise(alpha, loss=loss, random_state=0, tol=1e-4)
    warm = clone(classifier).fit(X, Y)
    monkeypatch.setattr(MultilabelModel, "_first_state", lambda *_: None)
    cold = clone(classifier).fit(X, Y)
    # the same problem, from another start
    assert warm.n_iter_ < cold.n_iter_
    assert warm.alpha_ == cold.alpha_
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-4)
    assert warm.dual_gap_ <= 1e-4 * warm.objective_


@pytest.mark.parametrize("loss", ["log", "squared_hinge"])
def test_pairs_are_trained_in_their_trial(monkeypatch, loss):
    """Also where weights without pairs are good enough by the tolerance of trials."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 8))
    Y = (X @ rng.normal(size=(8, 5)) + rng.normal(size=(200, 5)) > 0.0).astype(int)
    found, real = [], Trials._fit

    def fit(self, number, examples, scaling):
        views = real(self, number, examples, scaling)
        found.append((scaling, np.abs(views["pair_coef"]).max(initial=0.0)))
        return views

    monkeypatch.setattr(Trials, "_fit", fit)
    MultilabelPairwise(1.0, loss=loss, random_state=0).fit(X, Y)
    paired = [size for scaling, size in found if scaling > 0.0]
    assert len(paired) > 0
    assert min(paired) > 0.0


def test_pairs_are_judged_by_the_target_that_is_named():
    """One set or another as a whole, which single labels say little about."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 3))
    first = (X[:, 0] + rng.standard_normal(400) > 0.0).astype(int)
    Y = np.column_stack([first, 1 - first, first])
    options = {"loss": "log", "random_state": 0}
    whole = MultilabelPairwise(target="subset", **options).fit(X, Y)
    assert whole.interaction_scaling_ > 0.0
    assert set(map(tuple, whole.predict(X))) == {(1, 0, 1), (0, 1, 0)}
    for asked, expected in (("subset", "judged"), ("auto", "measured")):
        trials = SimpleNamespace(spec=SimpleNamespace(asked_target=asked))
        outcome = SimpleNamespace(judged="judged", measured="measured")
        assert Trials._compared(trials, [outcome]) == [expected]


@pytest.mark.parametrize("loss", ["log", "squared_hinge", "structured_hinge"])
def test_no_set_is_empty_where_none_was(loss):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((120, 5))
    scores = X @ rng.standard_normal((5, 4)) + rng.standard_normal((120, 4))
    Y = (scores > 1.5).astype(int)
    Y[np.arange(120), scores.argmax(axis=1)] = 1
    options = {"loss": loss, "interaction_scaling": 0, "random_state": 0}
    for target in ("subset", "f1", "hamming"):
        fitted = MultilabelPairwise(0.3, target=target, **options).fit(X, Y)
        predicted = fitted.predict(X)
        plain = MultilabelPairwise(0.3, target="hamming", **options).fit(X, Y)
        empty = ~plain.predict(X).any(axis=1)
        assert empty.any()
        if target == "hamming":
            # a label that is less likely than not is wrong more often than right
            assert not predicted[empty].any()
            continue
        assert predicted.any(axis=1).all()
        best = fitted._label_scores(fitted._unaries(X))
        if target != "subset":
            best = best - Target(*fitted._target).thresholds
        best = best.argmax(axis=1)
        assert (predicted[np.arange(120), best] == 1).all()
        # with one sample without labels there may be more
        Y_empty = Y.copy()
        Y_empty[0] = 0
        fitted.fit(X, Y_empty)
        assert fitted._target is None or not fitted._target[-1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_lbfgs_has_a_bound_wherever_it_ends():
    X, Y = data(200)
    # rounding ends it, before any check of the gap was due
    fitted = Subset(0.05, loss="log", interaction_scaling=0, tol=0.0).fit(X, Y)
    assert fitted.dual_gap_ <= 1e-6 * fitted.objective_


CHANGES = {
    "alpha": ({"alpha": 0.02}, {}, {}),
    "costs": ({"class_weight": {0: 0.2, 1: 2.0}}, {}, {}),
    "weights": ({}, {"sample_weight": np.linspace(0.1, 3.0, 60)}, {}),
    "labels": ({}, {}, {"flip": True}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("loss", "solver"),
    [
        ("hinge", "dcd"), ("squared_hinge", "dcd"), ("log", "dcd"),
        ("log", "newton"), ("squared_hinge", "lbfgs"), ("structured_hinge", "bcfw"),
    ],
)  # fmt: skip
def test_warm_starts_end_at_the_optimum(loss, solver, change):
    """From the last fit, whatever has changed; with a certificate that holds."""
    params, given, other = CHANGES[change]
    if loss == "structured_hinge" and change == "costs":
        pytest.skip("its Hamming loss has no weights")
    X, Y = data()
    make = partial(
        Subset, 0.05, loss=loss, solver=solver, tol=1e-4, interaction_scaling=1.0,
        random_state=0,
    )  # fmt: skip
    warm = make(warm_start=True).fit(X, Y)
    n_first = warm.n_iter_
    again = clone(warm).fit(X, Y).fit(X, Y)
    assert again.n_iter_ <= n_first / 2
    Y = 1 - Y if other else Y
    warm.set_params(**params).fit(X, Y, **given)
    best = make(tol=1e-7, max_iter=20000).set_params(**params).fit(X, Y, **given)
    lowest = best.objective_ - best.dual_gap_
    assert warm.objective_ >= lowest - 1e-9
    assert warm.objective_ - warm.dual_gap_ <= best.objective_ + 1e-9
    scale = 5 if loss == "structured_hinge" else warm.objective_
    assert warm.dual_gap_ <= 1e-4 * scale


def test_warm_starts_that_are_not_possible():
    """Dual variables of another loss, or of other samples, are not taken."""
    X, Y = data()
    warm = Subset(0.05, solver="dcd", warm_start=True, random_state=0).fit(X, Y)
    for params, rows in (({"loss": "hinge"}, 60), ({}, 50)):
        warm.set_params(**params)
        with pytest.warns(UserWarning, match="training starts from zero"):
            warm.fit(X[:rows], Y[:rows])
        cold = clone(warm).set_params(warm_start=False).fit(X[:rows], Y[:rows])
        np.testing.assert_array_equal(warm.coef_, cold.coef_)
    # no state of a fit that did not ask for one
    assert cold._warm is None
