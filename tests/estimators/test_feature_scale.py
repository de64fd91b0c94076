"""alpha="auto" follows the scale of X: a factor of all features changes no prediction.

Features are eighths, so that their squares and sums are exact, and a power of two
changes no bit. Other factors round, by far less than the tolerances here.
"""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksstruct import (
    ChainCRF,
    LinearSSVC,
    MultilabelPairwise,
    SSVMClassifier,
    SSVMPathCV,
)
from sksstruct.estimators._held_out import FACTORS
from sksstruct.losses import SmoothedHinge
from sksstruct.models import ELUScore, StructuredModel
from sksstruct.solvers import BCFW
from sksstruct.utils.packed import PackedSequences

# the loss, and one solver of each family that trains it
CASES = {
    "auto": "hinge",
    "gdmm": "hinge",
    "pragam": "hinge",
    "ssg": "hinge",
    "cutting_plane": "hinge",
    "partitioned": "hinge",
    "lbfgs": "log",
    "sdca": "log",
    "sgd": "log",
    "casimir": SmoothedHinge("l2"),
}
COEF = ("coef_", "transition_coef_")
CONSTANT = ("intercept_", "start_", "end_", "transitions_")


def sequences(seed, is_sparse=False, n=12):
    """Sequences whose features tell of three labels, as one matrix."""
    rng = np.random.RandomState(seed)
    lengths = rng.randint(1, 7, n)
    labels = rng.randint(3, size=lengths.sum())
    labels[:3] = range(3)
    rows = np.round(8 * rng.standard_normal((len(labels), 6))) / 8
    rows += 2 * np.eye(3, 6)[labels]
    if is_sparse:
        rows = sparse.csr_array(np.where(np.abs(rows) > 0.8, rows, 0.0))
    y = np.split(labels, np.cumsum(lengths)[:-1])
    return PackedSequences.from_lengths(rows, lengths), y


def times(X, c):
    if isinstance(X, PackedSequences):
        return PackedSequences(X.values * X.values.dtype.type(c), X.offsets)
    return X * c


def fitted(X, y, estimator=None, **parameters):
    estimator = ChainCRF() if estimator is None else estimator
    parameters = {"max_iter": 12, "tol": 1e-4, "random_state": 0, **parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.set_params(**parameters).fit(X, y)


def array(value):
    return value.toarray() if sparse.issparse(value) else value


def assert_same_bits(one, other, c):
    """Whether `other`, of features times c, has the same weights in its units."""
    assert other.alpha_ == c * c * one.alpha_
    assert other.objective_ == one.objective_
    assert (other.history_["dual"] == one.history_["dual"]).all()
    for names, factor in ((COEF, c), (CONSTANT, 1.0)):
        for name in names:
            if hasattr(one, name):
                expected = array(getattr(one, name))
                np.testing.assert_array_equal(
                    factor * array(getattr(other, name)), expected
                )


class TestChain:
    @pytest.mark.parametrize("solver", CASES)
    @pytest.mark.parametrize("is_sparse", [False, True])
    def test_no_bit_changes(self, solver, is_sparse):
        X, y = sequences(1, is_sparse)
        one, other = (
            fitted(times(X, c), y, solver=solver, loss=CASES[solver])
            for c in (1.0, 2.0**-9)
        )
        assert other.intercept_scaling_ == 2.0**-9 * one.intercept_scaling_
        assert_same_bits(one, other, 2.0**-9)

    @pytest.mark.parametrize(
        "parameters",
        [
            {"transition_features": [0, 1]},
            {"transition_features": [0, 1], "loss": "log", "solver": "sdca"},
            {"loss": "log", "all_possible_states": False, "l1_ratio": 0.3},
            {"fit_intercept": False, "boundary": False, "early_stopping": True},
        ],
    )
    def test_other_parameters(self, parameters):
        X, y = sequences(2)
        one, other = (fitted(times(X, c), y, **parameters) for c in (1.0, 64.0))
        assert_same_bits(one, other, 64.0)

    def test_many_labels(self):
        rng = np.random.RandomState(0)
        labels = rng.permutation(np.repeat(np.arange(120), 3))
        y = np.split(labels, 90)
        for values in (np.eye(120)[labels], sparse.csr_array(np.eye(120)[labels])):
            X = PackedSequences.from_lengths(values, np.full(90, 4))
            one, other = (fitted(times(X, c), y) for c in (1.0, 32.0))
            assert sparse.issparse(one.transitions_)
            assert_same_bits(one, other, 32.0)
            # scores of rows are those of single labels
            assert one.dual_gap_ >= -1e-9

    def test_unknown_labels(self):
        X, y = sequences(3)
        y = [labels.tolist() for labels in y]
        long = [labels for labels in y if len(labels) > 2]
        long[0][0] = long[1][-1] = long[2][1] = None
        for parameters in ({}, {"solver": "gdmm"}, {"loss": "log"}):
            one, other = (fitted(times(X, c), y, **parameters) for c in (1.0, 0.25))
            assert_same_bits(one, other, 0.25)

    @pytest.mark.slow
    @given(
        st.integers(0, 50),
        st.floats(1e-3, 1e3),
        st.booleans(),
        st.sampled_from(["hinge", "log"]),
    )
    @settings(max_examples=12, deadline=None)
    def test_any_factor(self, seed, c, is_sparse, loss):
        X, y = sequences(seed, is_sparse)
        options = {"loss": loss, "tol": 1e-8, "max_iter": 300}
        one = fitted(X, y, **options)
        other = fitted(times(X, c), y, **options)
        # rounding may change the order of steps, but not the optimum that both are near
        slack = one.dual_gap_ + other.dual_gap_ + 1e-10
        assert abs(other.objective_ - one.objective_) <= slack
        alpha = one.alpha_ / one.intercept_scaling_**2
        labelings, scores = one.predict_topk(X, 2)
        best = other.decision_function(times(X, c))
        predicted = other.predict(times(X, c))
        for i, x in enumerate(X):
            # how much scores differ at most if weights do by what the gaps leave open
            norm = np.abs(array(x)).sum(axis=1).max() / one.intercept_scaling_ + 3
            limit = 2 * (2 * slack / alpha) ** 0.5 * len(labelings[i][0]) * norm
            assert best[i] == pytest.approx(scores[i][0], abs=limit)
            if len(scores[i]) == 1 or scores[i][0] - scores[i][1] > 2 * limit:
                np.testing.assert_array_equal(predicted[i], labelings[i][0])
            if one.dual_gap_ + other.dual_gap_ < 1e-7:
                assert limit < 3.0

    def test_units_of_the_user(self):
        X, y = sequences(4, is_sparse=True)
        auto = fitted(X, y)
        square = variance(X.values)
        few = 50 * X.lengths.mean() / len(X)
        assert auto.alpha_ == pytest.approx(0.002 * square * few)
        assert auto.intercept_scaling_ == pytest.approx((0.1 * square) ** 0.5)
        given = fitted(
            X, y, alpha=auto.alpha_, intercept_scaling=auto.intercept_scaling_
        )
        assert_same_bits(auto, given, 1.0)
        # it is the problem that the docstring states
        w = np.concatenate(
            [auto.coef_.ravel()]
            + [
                array(getattr(auto, name)).ravel() / auto.intercept_scaling_
                for name in CONSTANT
            ]
        )
        loss = np.mean(
            [max_margin(auto, x, labels, y) for x, labels in zip(X, y, strict=True)]
        )
        assert auto.objective_ == pytest.approx(auto.alpha_ / 2 * w @ w + loss)
        dual = auto.dual_loss_ - auto.alpha_ / 2 * w @ w
        assert dual == pytest.approx(auto.objective_ - auto.dual_gap_, abs=1e-9)

    def test_given_alpha_is_not_scaled(self):
        X, y = sequences(5)
        one = fitted(X, y, alpha=0.1)
        assert one.intercept_scaling_ == 1.0
        assert_same_bits(one, fitted(X, y, alpha=0.1, intercept_scaling=1.0), 1.0)
        other = fitted(X, y, alpha=0.1, intercept_scaling=4.0)
        assert not np.allclose(other.intercept_, one.intercept_, rtol=0.01)

    def test_weights_of_sequences_are_repetitions(self):
        X, y = sequences(6)
        weight = np.ones(len(y))
        weight[0], weight[1] = 2.0, 0.0
        one = ChainCRF(random_state=0).fit(X, y, sample_weight=weight)
        rows = [X[0], *X[2:], X[0]]
        other = ChainCRF(random_state=0).fit(rows, [y[0], *y[2:], y[0]])
        assert one.alpha_ == pytest.approx(other.alpha_, rel=1e-12)

    def test_bounds_are_those_of_coef(self):
        X, y = sequences(7)
        solver = BCFW(max_iter=30, bounds={"coef": (-0.01, 0.02)})
        for c in (1.0, 8.0):
            tagger = fitted(times(X, c), y, solver=solver)
            assert tagger.coef_.max() == pytest.approx(0.02, rel=1e-12)
            assert tagger.coef_.min() == pytest.approx(-0.01, rel=1e-12)
            assert tagger.transitions_.max() > 0.02

    def test_mini_batches(self):
        X, y = sequences(8)
        parts = [(X[:6], y[:6]), (X[6:], y[6:])]
        taggers = [ChainCRF(random_state=0) for _ in range(2)]
        for tagger, c in zip(taggers, (1.0, 16.0), strict=True):
            for rows, labels in parts:
                tagger.partial_fit(times(rows, c), labels, classes=[0, 1, 2])
        one, other = taggers
        # the first batch says for all
        few = 50 * X.lengths.mean() / len(X)
        assert one.alpha_ == pytest.approx(0.002 * variance(X[:6].values) * few)
        for name in CONSTANT:
            np.testing.assert_array_equal(getattr(other, name), getattr(one, name))
        np.testing.assert_array_equal(16.0 * other.coef_, one.coef_)
        # and so does a fit, or what was pickled of it
        one, other = (
            pickle.loads(pickle.dumps(fitted(times(X, c), y))).partial_fit(
                times(X[:4], c), y[:4]
            )
            for c in (1.0, 16.0)
        )
        np.testing.assert_array_equal(16.0 * other.coef_, one.coef_)
        with pytest.raises(ValueError, match="intercept_scaling must stay"):
            one.set_params(intercept_scaling=3.0).partial_fit(X, y)

    @pytest.mark.parametrize("loss", ["hinge", "log"])
    def test_warm_start(self, loss):
        X, y = sequences(9)
        tagger = fitted(X, y, loss=loss, warm_start=True, max_iter=1000, tol=1e-3)
        first = tagger.n_iter_
        fitted(times(X, 100.0), y, tagger, max_iter=1000, tol=1e-3)
        assert tagger.n_iter_ < first

    @pytest.mark.parametrize("method", ["grid", "exact"])
    def test_path(self, method):
        X, y = sequences(11)
        options = {"method": method, "cv": 2}
        if method == "exact":
            options["epsilon"] = 0.1
        one, other = (
            SSVMPathCV(ChainCRF(intercept_scaling=c, random_state=0), **options).fit(
                times(X, c), y
            )
            for c in (1.0, 32.0)
        )
        assert other.alpha_ == 1024 * one.alpha_
        assert other.best_score_ == one.best_score_
        assert_same_bits(one.best_estimator_, other.best_estimator_, 32.0)
        # of features as they are, in the middle of the grid that was tried
        alpha = ChainCRF().fit(X, y).alpha_
        assert one.cv_results_["param_alpha"][0] == (32 * alpha) or method == "exact"
        assert one.best_estimator_.alpha_ == one.alpha_

    def test_features_without_scale(self):
        X, y = sequences(10)
        zero = fitted(times(X, 0.0), y)
        assert zero.alpha_ == pytest.approx(0.02 * 50 * X.lengths.mean() / len(X))
        assert zero.intercept_scaling_ == 1.0
        with pytest.raises(ValueError, match="alpha='auto' needs features whose sq"):
            fitted(times(X, 1e200), y)
        score = ELUScore(n_hidden=2)
        scored = fitted(X, y, score_function=score, max_iter=2)
        assert scored.alpha_ == zero.alpha_
        with pytest.raises(ValueError, match="intercept_scaling cannot be used"):
            fitted(X, y, score_function=score, intercept_scaling=2.0)


def variance(rows):
    """Mean squared distance of rows from their mean."""
    return array(rows).var(axis=0).sum()


def max_margin(tagger, x, labels, y):
    """The structured hinge of a sequence, by enumeration of its labelings."""
    mean_length = np.mean([len(each) for each in y])
    scores = x @ tagger.coef_.T + tagger.intercept_
    scores[0] += tagger.start_
    scores[-1] += tagger.end_
    all_labelings = np.indices((3,) * len(labels)).reshape(len(labels), -1).T

    def score(labeling):
        pairs = tagger.transitions_[labeling[:-1], labeling[1:]].sum()
        return scores[np.arange(len(labels)), labeling].sum() + pairs

    losses = (all_labelings != labels).sum(axis=1) / mean_length
    best = max(
        loss + score(each) for loss, each in zip(losses, all_labelings, strict=True)
    )
    return best - score(labels)


# ---- models of one matrix ----


def samples(seed, is_sparse):
    """Rows of eighths, and three classes."""
    rng = np.random.RandomState(seed)
    y = rng.permutation(np.repeat([0, 1, 2], 12))
    X = np.round(8 * rng.standard_normal((len(y), 5))) / 8 + 2 * np.eye(3, 5)[y]
    return (sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)) if is_sparse else X), y


def table_estimators():
    sets = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0]])
    for loss in ("hinge", "log"):
        factor = (0.1 if loss == "log" else 0.5) / 36
        yield SSVMClassifier(loss=loss), None, factor
    yield SSVMClassifier(class_weight="balanced"), None, 0.5 / 36
    yield LinearSSVC(), np.array([0, 1, 1]), 0.5 / 36
    for loss in ("squared_hinge", "log"):
        # one of several, chosen on held-out samples
        factors = np.array(FACTORS[loss]) / 36
        yield MultilabelPairwise(loss=loss, random_state=0), sets, factors
    yield MultilabelPairwise(loss="structured_hinge"), sets, 0.5 / 36


class TestTables:
    @pytest.mark.slow
    @pytest.mark.parametrize("estimator, labels, factor", table_estimators())
    @pytest.mark.parametrize("is_sparse", [False, True])
    def test_scale(self, estimator, labels, factor, is_sparse):
        X, y = samples(1, is_sparse)
        y = y if labels is None else labels[y]
        one = pickle.loads(pickle.dumps(fitted(X, y, estimator)))
        near = np.isclose(one.alpha_, factor * variance(X), rtol=1e-9)
        assert np.count_nonzero(near) == 1
        scores = one.decision_function(X)
        for c in (2.0**-7, 2.0**5):
            fitted(X * c, y, estimator)
            assert_same_bits(one, estimator, c)
            np.testing.assert_array_equal(estimator.decision_function(X * c), scores)
        # any other factor, of what has converged
        options = {"tol": 1e-5, "max_iter": 1000}
        if labels is not None and labels.ndim == 2:
            # which pairs are best on held-out samples may hang on one of them
            options["interaction_scaling"] = 0.0
        expected = fitted(X, y, estimator, **options).decision_function(X)
        fitted(X * 300.7, y, estimator, **options)
        np.testing.assert_allclose(
            estimator.decision_function(X * 300.7), expected, rtol=0.02, atol=0.02
        )

    def test_a_number_has_no_scale(self):
        X, y = samples(2, False)
        classifier = fitted(X, y, SSVMClassifier(alpha=1e-3))
        assert classifier.alpha_ == 1e-3
        assert not np.allclose(
            fitted(X * 8, y, SSVMClassifier(alpha=1e-3)).intercept_,
            classifier.intercept_,
        )

    def test_interaction_scaling_is_in_units_of_x(self):
        X, y = samples(3, False)
        sets = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0]])[y]
        one, other = (
            fitted(c * X, sets, MultilabelPairwise(), interaction_scaling=2.0 * c)
            for c in (1.0, 4.0)
        )
        assert other.interaction_scaling_ == 8.0
        np.testing.assert_array_equal(one.interactions_, other.interactions_)

    def test_models_without_rows(self):
        X, y = np.eye(2), [0, 1]
        classifier = SSVMClassifier(ByHand(), random_state=0).fit(X, y)
        given = SSVMClassifier(ByHand(), alpha=1e-3, random_state=0).fit(X, y)
        assert classifier.alpha_ == 1e-3
        np.testing.assert_array_equal(classifier.weights_, given.weights_)


class ByHand(StructuredModel):
    """Two classes, of which nothing but the required methods is known."""

    def joint_feature(self, x, y):
        return x if y else -x

    def loss(self, y, y_hat):
        return float(y != y_hat)

    def decode(self, x, w):
        return int(x @ w > 0)

    def loss_augmented_decode(self, x, y, w):
        return int(x @ w + 0.5 - y > 0)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(
    "estimator",
    [
        ChainCRF(),
        ChainCRF(loss="log"),
        SSVMClassifier(),
        LinearSSVC(),
        MultilabelPairwise(),
        MultilabelPairwise(target="hamming"),
    ],
    ids=str,
)
def test_features_whose_squares_underflow(estimator, is_sparse):
    X, y = sequences(0, is_sparse, n=30)
    if not isinstance(estimator, ChainCRF):
        X, y = X.values, np.concatenate(y)
        if not isinstance(estimator, SSVMClassifier):
            y = y == 1 if isinstance(estimator, LinearSSVC) else np.eye(3, dtype=int)[y]
    options = {"max_iter": 100} if "tol" in estimator.get_params() else {}
    expected = fitted(X, y, clone(estimator), **options).predict(X)
    tiny = times(X, 2.0**-480)
    found = fitted(tiny, y, clone(estimator), **options).predict(tiny)
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)
    for power in (-500, -1000):
        with pytest.raises(ValueError, match="those of X are too small"):
            fitted(times(X, 2.0**power), y, clone(estimator), **options)
    # no feature at all is another thing
    fitted(times(X, 0.0), y, clone(estimator), **options)
