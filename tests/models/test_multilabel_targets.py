"""Sets of labels that are best for a measure, against enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logsumexp
from sklearn.metrics import f1_score

from sksstruct import MultilabelPairwise
from sksstruct.estimators._held_out import _parts, f1_values, measures
from sksstruct.models.multilabel._expected_f1 import best_f1_sets
from sksstruct.models.multilabel.targets import Target, best_threshold, label_scores


def sets_of(n_labels):
    return np.array(list(product((0, 1), repeat=n_labels)))


def expected_f1(chosen, probabilities):
    """The expected F1 of a set, by enumeration of the labels that may be right."""
    sets = sets_of(len(probabilities))
    shares = np.where(sets == 1, probabilities, 1.0 - probabilities).prod(axis=1)
    sizes = sets.sum(axis=1) + chosen.sum()
    f1 = np.where(sizes > 0, 2.0 * (sets @ chosen) / np.maximum(sizes, 1), 1.0)
    return shares @ f1


def best_set(probabilities):
    labels = np.zeros((1, len(probabilities)), dtype=np.uint8)
    best_f1_sets(np.array([probabilities], dtype=float), 0, 1, labels)
    return labels[0]


@pytest.mark.slow
@given(st.lists(st.sampled_from([0.0, 1e-3, 0.1, 0.3, 0.3, 0.5, 0.8, 1.0]),
                min_size=1, max_size=7))  # fmt: skip
def test_the_set_of_the_largest_expected_f1(probabilities):
    probabilities = np.array(probabilities)
    found = expected_f1(best_set(probabilities), probabilities)
    best = max(expected_f1(each, probabilities) for each in sets_of(len(probabilities)))
    assert found == pytest.approx(best, abs=1e-12)


def test_many_labels_that_are_not_likely():
    rng = np.random.RandomState(0)
    likely = np.array([0.9, 0.6, 0.4])
    # their number hardly changes what is best, and only as a sum
    probabilities = np.concatenate([likely, rng.uniform(0, 1e-5, 3000)])
    assert best_set(probabilities)[:3].tolist() == best_set(likely).tolist()
    assert best_set(probabilities)[3:].sum() == 0
    # equal labels are all taken, or none
    assert best_set(np.full(400, 0.5)).sum() == 400
    assert best_set(np.full(400, 1e-4)).sum() == 0


@pytest.mark.parametrize("n_labels", [1, 4])
def test_scores_of_labels_are_those_of_all_sets(n_labels):
    rng = np.random.RandomState(n_labels)
    unaries = rng.standard_normal((5, n_labels))
    table = rng.standard_normal((n_labels, n_labels))
    table = np.triu(table, 1) + np.triu(table, 1).T
    sets = sets_of(n_labels)
    totals = unaries @ sets.T + 0.5 * ((sets @ table) * sets).sum(axis=1)
    shares = np.exp(totals) / np.exp(totals).sum(axis=1, keepdims=True)
    found = expit(label_scores(unaries, table, exact=True))
    np.testing.assert_allclose(found, shares @ sets, atol=1e-12)
    # means of single labels, if others hardly matter
    near = label_scores(unaries, 0.01 * table, exact=False)
    exact = label_scores(unaries, 0.01 * table, exact=True)
    np.testing.assert_allclose(near, exact, atol=1e-4)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), st.booleans()),
                min_size=1, max_size=9))  # fmt: skip
def test_the_threshold_of_the_largest_f1(pairs):
    scores, y = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    y[0] = 1.0
    weight = np.linspace(1.0, 2.0, len(y))
    found = f1_score(
        y, scores > best_threshold(scores, y, weight), sample_weight=weight
    )
    best = max(
        f1_score(y, scores > t, sample_weight=weight) for t in (-2, -0.5, 0.2, 1)
    )
    assert found == pytest.approx(best)


def learned(name, scores, Y, fills=False, shares=None, average=None):
    """A target that is judged by an F1 of scikit-learn."""
    average = average or {"f1": "samples"}.get(name, name)
    return Target.learned(
        name,
        scores,
        Y,
        np.ones(len(Y)),
        fills,
        Y.mean(axis=0) if shares is None else shares,
        lambda labels: f1_score(Y, labels, average=average, zero_division=0.0),
    )


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_probabilities_do_not_depend_on_the_scale_of_scores(scale):
    rng = np.random.RandomState(0)
    scores = rng.standard_normal((200, 3))
    Y = (scores + rng.standard_normal((200, 3)) > 1.0).astype(int)
    one = learned("f1", scores, Y)
    other = learned("f1", scale * scores, Y)
    assert other.slope * scale == pytest.approx(one.slope, rel=1e-4)
    assert other.offset == pytest.approx(one.offset, abs=1e-4)
    np.testing.assert_array_equal(other.choose(scale * scores), one.choose(scores))
    # scores that say the contrary, or nothing: what is known is how many there are
    for useless in (-scores, np.zeros_like(scores)):
        none = learned("f1", useless, Y)
        assert none.slope == 0.0
        assert none.probabilities(useless) == pytest.approx(np.full((200, 3), Y.mean()))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["micro", "macro", "f1"])
def test_rare_labels_are_taken_more_easily_where_it_pays(name):
    """Their scores are low by as much as their log-odds should be."""
    rng = np.random.RandomState(0)
    shares = np.repeat([0.5, 0.02], 10)
    odds = rng.logistic(scale=2.0, size=(900, 20)) + np.log(shares / (1.0 - shares))
    Y = (odds > rng.logistic(size=odds.shape)).astype(int)
    scores = odds + 0.75 * np.log(shares)
    found = learned(name, scores, Y, shares=shares)
    spread = np.ptp(found.thresholds)
    assert spread > 0.5
    thresholds = np.mean(found.thresholds)
    plain = f1_score(Y, scores > thresholds, average="micro")
    assert f1_score(Y, found.choose(scores), average="micro") > plain
    # and not where scores are as they should be
    if name != "macro":
        assert np.ptp(learned("micro", odds, Y, shares=shares).thresholds) == 0.0


def test_thresholds_of_labels_with_few_samples_are_near_that_of_all():
    rng = np.random.RandomState(0)
    Y = np.zeros((400, 3), dtype=int)
    Y[:200, 0], Y[:200, 1], Y[:1, 2] = 1, 1, 1
    scores = rng.standard_normal(Y.shape) + 4.0 * Y + [0.0, 5.0, 5.0]
    found = learned("macro", scores, Y, shares=np.ones(3)).thresholds
    common = best_threshold(scores.ravel(), Y.ravel(), np.ones(Y.size))
    own = [best_threshold(scores[:, j], Y[:, j], np.ones(400)) for j in range(3)]
    np.testing.assert_allclose(found[:2], (200 * np.array(own[:2]) + 2 * common) / 202)
    assert found[2] == pytest.approx((own[2] + 2 * common) / 3)


@pytest.mark.parametrize("name", ["micro", "macro"])
def test_weights_of_samples_are_repetitions(name):
    rng = np.random.RandomState(0)
    scores = rng.standard_normal((120, 4))
    Y = (scores + rng.standard_normal((120, 4)) > [0.0, 0.5, 1.0, 2.0]).astype(int)
    weight = rng.randint(1, 4, 120).astype(float)
    shares = weight @ Y / weight.sum()
    rows = np.repeat(np.arange(120), weight.astype(int))

    def found(scores, Y, weight):
        return Target.learned(
            name, scores, Y, weight, False, shares, lambda labels: -labels.sum()
        )

    one, other = (
        found(scores, Y, weight),
        found(scores[rows], Y[rows], np.ones(len(rows))),
    )
    np.testing.assert_allclose(one.slope, other.slope, rtol=1e-5)
    if name == "micro":
        np.testing.assert_allclose(one.thresholds, other.thresholds, rtol=1e-4)
    else:
        # with fewer samples they are nearer to that of all
        np.testing.assert_allclose(one.thresholds, other.thresholds, atol=0.05)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_values_of_f1_are_those_of_scikit_learn(seed):
    rng = np.random.RandomState(seed)
    Y, predicted = (rng.randint(0, 2, (6, 3)) for _ in range(2))
    weight = rng.uniform(0.5, 2.0, 6)
    Y[:, 0] = 1
    found = f1_values(Y, predicted, weight)
    means = measures(Y, predicted, weight).mean(axis=0)[:3]
    np.testing.assert_allclose(found, means, atol=1e-12)
    some = Y.any(axis=0)
    for value, average in zip(found, ("micro", "macro", "samples"), strict=True):
        labels = np.flatnonzero(some) if average == "macro" else None
        expected = f1_score(
            Y, predicted, average=average, labels=labels, sample_weight=weight,
            zero_division=1.0,
        )  # fmt: skip
        assert value == pytest.approx(expected)


def rare_labels(n=1200, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 6))
    Y = (X @ rng.standard_normal((6, 8)) + rng.standard_normal((n, 8)) > 2.5).astype(
        int
    )
    return X[: n // 2], Y[: n // 2], X[n // 2 :], Y[n // 2 :]


@pytest.mark.parametrize("loss", ["log", "squared_hinge"])
def test_each_target_is_best_for_its_measure(loss):
    X, Y, X_test, Y_test = rare_labels()
    predicted = {
        target: MultilabelPairwise(
            1e-2, loss=loss, target=target, interaction_scaling=0, random_state=0
        ).fit(X, Y).predict(X_test)
        for target in ("subset", "hamming", "f1", "micro", "macro")
    }  # fmt: skip
    # without pairs both are the labels with positive scores
    np.testing.assert_array_equal(predicted["subset"], predicted["hamming"])
    averages = {
        "f1": ("samples", 0.005),
        "micro": ("micro", 0.01),
        "macro": ("macro", 0.02),
    }
    for target, (average, gain) in averages.items():
        own, best = (
            f1_score(Y_test, predicted[each], average=average, zero_division=1.0)
            for each in (target, "subset")
        )
        assert own > best + gain, target


def test_targets_with_pairs_and_files(tmp_path):
    X, Y, X_test, _ = rare_labels(200)
    for target in ("hamming", "f1", "macro"):
        classifier = MultilabelPairwise(
            1e-2, loss="log", target=target, interaction_scaling=0.5, random_state=0
        ).fit(X, Y)
        assert classifier.interactions_.any()
        assert set(np.unique(classifier.predict(X_test))) == {0, 1}
    # labels that no sample has, or all have, and fewer samples than folds
    Y[:, 0], Y[:, 1] = 0, 1
    for n in (4, 100):
        fitted = classifier.fit(X[:n], Y[:n])
        assert fitted.predict(X_test).shape == (100, 8)


def test_scores_of_labels_that_are_far_apart():
    # all sets without the first label are much worse than the best
    unaries = np.array([[900.0, 1.0], [-900.0, 0.0], [0.0, 0.0]])
    table = np.array([[0.0, -2.0], [-2.0, 0.0]])
    found = label_scores(unaries, table, exact=True, n_jobs=2)
    sets = sets_of(2)
    totals = unaries @ sets.T + 0.5 * ((sets @ table) * sets).sum(axis=1)
    for j in range(2):
        on = sets[:, j] == 1
        expected = logsumexp(totals[:, on], axis=1) - logsumexp(totals[:, ~on], axis=1)
        np.testing.assert_allclose(found[:, j], expected, rtol=1e-9, atol=1e-9)


def test_neighboring_scores_and_labels_that_no_sample_has():
    scores = np.array([1.0, np.nextafter(1.0, 0.0)])
    threshold = best_threshold(scores, np.array([1.0, 0.0]), np.ones(2))
    assert (scores > threshold).tolist() == [True, False]
    X = np.random.RandomState(0).standard_normal((60, 3))
    fitted = MultilabelPairwise(1.0, target="f1").fit(X, np.zeros((60, 2), dtype=int))
    assert not fitted.predict(X).any()


def test_weights_of_samples_in_calibration_and_thresholds():
    """Their scale does not matter, and what scores do not say, weighted shares do."""
    rng = np.random.RandomState(0)
    Y = (rng.uniform(size=(60, 3)) < [0.2, 0.4, 0.6]).astype(np.int8)
    weight = rng.uniform(0.1, 3.0, 60) * (1.0 + 4.0 * Y[:, 0])
    options = {"fills": False, "shares": Y.mean(axis=0), "value": lambda labels: 0.0}
    same = Target.learned("f1", np.zeros((60, 3)), Y, weight, **options)
    share = np.average(Y.mean(axis=1), weights=weight)
    assert same.slope == 0.0 and expit(same.offset) == pytest.approx(share)
    assert abs(share - Y.mean()) > 0.05
    scores = Y + rng.normal(size=(60, 3))
    one, two = (
        Target.learned("macro", scores, Y, factor * weight, **options).thresholds
        for factor in (1.0, 1e3)
    )
    np.testing.assert_allclose(one, two)


def test_held_out_samples_keep_their_weights():
    X, Y, weight = np.arange(6.0)[:, None], np.eye(6), np.arange(1.0, 7.0)
    folds = [(np.arange(2, 6), np.arange(2)), (np.arange(4), np.arange(4, 6))]
    # three samples are enough
    (first, second) = _parts(folds, (X, Y, weight), 3)
    np.testing.assert_allclose(first[0][2], weight[2:] / 18.0)
    np.testing.assert_allclose(second[0][2], weight[:4] / 10.0)
    assert [part[1][2].tolist() for part in (first, second)] == [[1.0, 2.0], [5.0]]
    assert [part[1][0].ravel().tolist() for part in (first, second)] == [[0, 1], [4]]
