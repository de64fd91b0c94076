"""MultilabelPairwise: the best labels, and the best sets."""

from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from sksstruct import MultilabelPairwise

NAMES = np.array(["air", "land", "river", "sea"])


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((50, 4))
    Y = (X + 0.8 * rng.standard_normal((50, 4)) > 0.4).astype(int)
    Y[Y[:, 0] == 1, 1] = 0
    return X, Y


def fitted(X, y, **params):
    params = {"interaction_scaling": 1.0, "random_state": 0, **params}
    return MultilabelPairwise(0.01, **params).fit(X, y)


def every_score(classifier, X):
    sets = np.array(list(product((0, 1), repeat=len(classifier.coef_))))
    unaries = X @ classifier.coef_.T + classifier.intercept_
    pairs = 0.5 * np.einsum("sj,jk,sk->s", sets, classifier.interactions_, sets)
    return sets, unaries @ sets.T + pairs


@pytest.mark.parametrize("target", ["subset", "hamming", "f1", "micro", "macro"])
def test_labels_are_ranked_by_their_log_odds(data, target):
    X, Y = data
    classifier = fitted(X, Y, target=target)
    labels, scores = classifier.predict_topk(X, 2)
    sets, values = every_score(classifier, X)
    shares = np.exp(values - values.max(axis=1, keepdims=True))
    odds = np.log(shares @ sets) - np.log(shares @ (1 - sets))
    np.testing.assert_array_equal(labels, np.argsort(-odds, axis=1)[:, :2])
    np.testing.assert_allclose(scores, -np.sort(-odds, axis=1)[:, :2])
    whole, scores = classifier.predict_topk(X, 99)
    np.testing.assert_array_equal(np.sort(whole, axis=1), np.tile(range(4), (50, 1)))
    np.testing.assert_array_equal(whole[:, :2], labels)
    assert scores.shape == (50, 4)


def test_labels_have_names(data):
    X, Y = data
    sets = [set(NAMES[row == 1]) for row in Y]
    numbers = fitted(X, Y).predict_topk(X, 3)
    names = fitted(X, sets).predict_topk(X, 3)
    np.testing.assert_array_equal(names[0], NAMES[numbers[0]])
    np.testing.assert_array_equal(names[1], numbers[1])


def test_equal_labels_come_in_order():
    X, Y = np.ones((6, 1)), np.tile([[1, 1, 0], [0, 0, 1]], (3, 1))
    classifier = fitted(X, Y, interaction_scaling=0.0, target="subset")
    classifier.coef_ = np.zeros((3, 1))
    classifier.intercept_ = np.array([0.0, 1.0, 0.0])
    assert classifier.predict_topk(X[:1], 3)[0].tolist() == [[1, 0, 2]]


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["exact", "lp", "gdmm"])
def test_sets_are_the_best(data, inference):
    X, Y = data
    classifier = fitted(X, Y, inference=inference, target="subset")
    assert classifier.interactions_.any()
    sets, values = every_score(classifier, X)
    labels, scores = classifier.predict_sets(X, 3)
    np.testing.assert_allclose(scores, -np.sort(-values, axis=1)[:, :3])
    np.testing.assert_array_equal(labels, sets[np.argsort(-values, axis=1)[:, :3]])
    np.testing.assert_array_equal(labels[:, 0], classifier.predict(X))
    assert classifier.predict_sets(X, 99)[0].shape == (50, 16, 4)


def test_sets_have_the_form_of_fit(data):
    X, Y = data
    labels, scores = fitted(X, Y).predict_sets(X, 3)
    named = fitted(X, [set(NAMES[row == 1]) for row in Y]).predict_sets(X, 3)
    assert named[0].shape == (50, 3)
    expected = [[tuple(NAMES[row == 1]) for row in rows] for rows in labels]
    assert named[0].tolist() == expected
    stored = fitted(X, sparse.csr_array(Y)).predict_sets(sparse.csr_array(X), 3)
    assert all(sparse.issparse(rows) for rows in stored[0])
    np.testing.assert_array_equal([rows.toarray() for rows in stored[0]], labels)
    for other in (named, stored):
        np.testing.assert_allclose(other[1], scores)
    single = fitted(X, np.array(["no", "yes"])[Y[:, 0]])
    values, scores = single.predict_sets(X, 5)
    assert [sorted(row) for row in values] == [["no", "yes"]] * 50
    np.testing.assert_array_equal(values[:, 0], single.predict(X))
    # the two sets are all there are, and the score is that of the likelier one
    probability = 1.0 / (1.0 + np.exp(scores[:, 1] - scores[:, 0]))
    np.testing.assert_allclose(
        np.abs(single.decision_function(X)), -np.log1p(-probability)
    )


def test_bad_input(data):
    X, Y = data
    classifier = fitted(X, Y)
    for method in (classifier.predict_topk, classifier.predict_sets):
        for k in (0, 1.5, True):
            with pytest.raises(ValueError, match="k must be an integer of at least 1"):
                method(X, k)
        with pytest.raises(ValueError, match="5 features"):
            method(np.ones((2, 5)), 1)
    with pytest.raises(NotFittedError):
        MultilabelPairwise().predict_sets(X, 1)
    with pytest.raises(ValueError, match="predict_topk ranks labels"):
        fitted(X, Y[:, 0]).predict_topk(X, 1)


@pytest.mark.slow
def test_exact_sets_where_the_relaxation_leaves_eighteen_labels_open(data):
    """Up to 16 labels are enumerated with any inference, and up to 20 with "exact"."""
    n, rng = 18, np.random.default_rng(2)
    Y = np.arange(50)[:, None] >> np.arange(n) % 6 & 1
    classifier = fitted(np.ones((50, 1)), Y, inference="exact", fit_intercept=False)
    table = np.triu(rng.normal(size=(n, n)), 1)
    table += table.T
    classifier.label_pairs_ = np.column_stack(np.triu_indices(n, 1))
    classifier.interactions_ = table
    classifier.coef_ = 0.05 * rng.normal(size=(n, 1)) - table.sum(axis=1)[:, None] / 2
    classifier.intercept_ = np.zeros(n)
    labels, scores = classifier.predict_sets([[1.0]], 2)
    sets, values = every_score(classifier, np.ones((1, 1)))
    order = np.argsort(-values[0])[:2]
    np.testing.assert_array_equal(labels[0], sets[order])
    np.testing.assert_allclose(scores[0], values[0][order])
