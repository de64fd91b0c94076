"""Parts whose springs are of several types, in training."""

import warnings

import numpy as np
import pytest
from problems import TYPED

from sksstruct import SSVMClassifier
from sksstruct.losses import SmoothedHinge
from sksstruct.models import ELUScore, PartsModel
from sksstruct.projections import project_simplex


def two_ways(n_images, rng, noise=0.6):
    """A pair of parts, the second of which is to the left or to the right.

    What it looks like says nothing; a hint at the first part says where it is.
    """
    X, y = [], []
    for _ in range(n_images):
        side = 1 if rng.rand() < 0.5 else -1
        first = np.array([rng.randint(1, 6), 6])
        second = first + np.array([rng.randint(-1, 2), 4 * side])
        x = noise * rng.normal(size=(7, 13, 3))
        x[(*first, 0)] += 3.0
        x[(*second, 1)] += 1.0
        x[(*first, 2)] += 3.0 * side
        X.append(x)
        y.append(np.array([first, second]))
    return X, y


def fitted(X, y, **parameters):
    model = PartsModel([(0, 1)], unit=3.0, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return SSVMClassifier(model, alpha=0.01, tol=0.02, random_state=0).fit(X, y)


@pytest.mark.slow
def test_types_are_learned():
    rng = np.random.RandomState(0)
    X, y = two_ways(60, rng)
    X_test, y_test = two_ways(200, rng)
    scores = [
        fitted(X, y, **parameters).score(X_test, y_test)
        for parameters in ({}, {"n_types": 2, "type_features": False}, {"n_types": 2})
    ]
    # the mean of two displacements is a bad one; which of the two, the image says
    assert scores[0] + 0.05 < scores[1] < scores[2] - 0.05
    assert scores[2] > 0.9


def test_attributes():
    X, y = two_ways(40, np.random.RandomState(0))
    classifier = fitted(X, y, n_types=2)
    offsets = classifier.model_.offsets_
    assert offsets.shape == (1, 2, 2)
    moves = np.array([z[1] - z[0] for z in y])
    left = moves[:, 1] < 0
    # clusters in the order of rows, then columns
    means = sorted(
        [moves[left].mean(axis=0).tolist(), moves[~left].mean(axis=0).tolist()]
    )
    np.testing.assert_allclose(offsets[0], means)
    assert classifier.linear_.shape == classifier.quadratic_.shape == (1, 2, 2)
    assert (classifier.quadratic_ >= 0).all()
    assert classifier.type_intercept_.shape == (1, 2)
    assert classifier.type_coef_.shape == (1, 2, 2, 3)
    assert not hasattr(fitted(X, y, n_types=2, type_features=False), "type_coef_")
    # predictions look like what was observed; the model's own outputs have types
    assert classifier.predict(X[:1])[0].shape == (2, 2)
    positions, types = classifier.model_.decode(X[0], classifier.weights_)
    np.testing.assert_array_equal(positions, classifier.predict(X[:1])[0])
    assert types.shape == (1,)


def test_loss_ignores_types():
    X, y = two_ways(40, np.random.RandomState(0))
    model = PartsModel([(0, 1)], unit=3.0, n_types=2)
    model.prepare(X, y)
    assert model.loss(y[0], (y[0], [0])) == model.loss(y[0], (y[0], [1])) == 0.0
    plain = PartsModel([(0, 1)], unit=3.0)
    plain.prepare(X, y)
    assert model.loss(y[0], y[1]) == plain.loss(y[0], y[1])


def test_one_type_is_the_default():
    """With one type there is nothing to choose: no weights but those of before."""
    X, y = two_ways(20, np.random.RandomState(1))
    one, other = fitted(X, y), fitted(X, y, n_types=1, type_features=False)
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert set(one.model_._attributes(one.weights_)) == {
        "coef_", "intercept_", "linear_", "quadratic_",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPED)
def test_topk_with_the_loss(name):
    """The k best labelings, types included, which smoothing by l2 takes."""
    model, X, y, _ = TYPED[name]
    classifier = SSVMClassifier(
        model, alpha=0.3, loss=SmoothedHinge("l2", 0.5, 10**6), tol=1e-4
    ).fit(X, y)
    assert classifier.topk_exact_ == 1.0
    spec, w = classifier.model_, classifier.weights_
    bound = spec._bound(X, spec._outputs(X, y), None)
    losses = []
    for i, (x, z) in enumerate(zip(X, y, strict=True)):
        values = [
            spec.joint_feature(x, each) @ w + spec.loss(z, each)
            for each in spec.labelings(x)
        ]
        expected = np.sort(values)[::-1]
        for k in (1, 4, len(values) + 1):
            rows, found = bound.topk(bound.workspace(w), i, k)
            assert len({tuple(row) for row in rows.tolist()}) == len(rows)
            np.testing.assert_allclose(found, expected[:k], atol=1e-9)
        share = project_simplex(expected / 0.5)
        observed = spec.joint_feature(x, spec._shown(x, bound_labeling(bound, i))) @ w
        losses.append(share @ expected + 0.25 * (1.0 - share @ share) - observed)
    assert classifier.objective_ == pytest.approx(np.mean(losses) + 0.15 * w @ w)


def bound_labeling(bound, i):
    return bound.labels[bound.starts[i] : bound.starts[i + 1]]


@pytest.mark.parametrize("name", TYPED)
def test_other_oracles_are_refused(name):
    model, X, y, _ = TYPED[name]
    classifier = SSVMClassifier(model, alpha=0.3, random_state=0).fit(X, y)
    bound = classifier.model_._bound([X[0]], None, None)
    assert bound.oracles == ("max", "topk")
    assert "n_types > 1" in bound.oracle_note
    with pytest.raises(ValueError, match="n_types > 1"):
        SSVMClassifier(model, loss="log").fit(X, y)


@pytest.mark.slow
def test_nonlinear_scores():
    """The k best labelings make smoothing, and so score functions, possible."""
    rng = np.random.RandomState(0)
    (X, y), (X_test, y_test) = two_ways(20, rng), two_ways(60, rng)
    model = PartsModel([(0, 1)], unit=3.0, n_types=2)
    classifier = SSVMClassifier(
        model, score_function=ELUScore(4), alpha=0.01, max_iter=8, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classifier.fit(X, y)
    assert classifier.score(X_test, y_test) > 0.9
    outputs, scores = classifier.predict_topk(X_test[:5], 3)
    best = classifier.predict(X_test[:5])
    for found, z in zip(outputs, best, strict=True):
        np.testing.assert_array_equal(found[0], z)
    first = [each[0] for each in scores]
    np.testing.assert_allclose(first, classifier.decision_function(X_test[:5]))


def test_bad_input():
    X, y = two_ways(4, np.random.RandomState(0))
    with pytest.raises(ValueError, match="n_types"):
        fitted(X, y, n_types=0)
    same = [np.array([[2, 2], [3, 3]])] * 4
    with pytest.raises(ValueError, match=r"1 different displacements of the edge \(0"):
        fitted(X, same, n_types=2)
    with pytest.raises(ValueError, match=r"y\[0\] must be integers of shape"):
        fitted(X, [(z, [0]) for z in y], n_types=2)
    X, y = two_ways(10, np.random.RandomState(0))
    model = PartsModel([(0, 1)], n_types=2)
    model.prepare(X, y)
    for types in ([2], [0, 1], [-1], [0.5]):
        with pytest.raises(ValueError, match="y must have a type below 2"):
            model.joint_feature(X[0], (y[0], types))


def test_clusters_count_examples_by_weight():
    """A weight is as good as so many copies."""
    X = [np.zeros((9, 9, 1))] * 4
    y = [np.array([[0, 0], [row, 0]]) for row in (1, 2, 7, 8)]
    model = PartsModel([(0, 1)], n_types=2)
    classifier = SSVMClassifier(model, tol=1.0, random_state=0)
    classifier.fit(X, y, sample_weight=[3.0, 1.0, 1.0, 1.0])
    assert classifier.model_.offsets_[0, :, 0] == pytest.approx([1.25, 7.5])
